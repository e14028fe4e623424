"""Captions of several people in the files of one catalog."""

import csv
import json
import os
import signal

import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError, read_json
from fashioniq.prepare.caption_files import CaptionError
from fashioniq.prepare.caption_table import COLUMNS, export_pairs, import_captions
from fashioniq.prepare.captioning import Desk, plan
from tests.waiting import attempts, ended

COUNTS = {"train": 12, "val": 4}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def desk(photo_catalog, clock):
    return desk_of(photo_catalog(), clock)


def desk_of(folder, clock=Clock()):  # noqa: B008
    catalog = Catalog(folder, "dresses")
    return Desk(catalog, plan(catalog, COUNTS, seed=0), lease=60, clock=clock)


def rows(desk, split):
    path = desk.files.folder / f"cap.dress.{split}.json"
    return json.loads(path.read_text()) if path.exists() else []


def test_a_caption_becomes_an_entry_that_the_catalog_reads(desk):
    pair = desk.next("Ann").pair
    desk.save("Ann", pair, "  is red\n and longer ")
    entry = {"target": pair.target, "candidate": pair.candidate, "captions": ["is red and longer"]}
    assert rows(desk, pair.split) == [{**entry, "people": ["Ann"]}]
    (read,) = desk.files.catalog.pairs(pair.split)
    assert (read.target, read.candidate, read.captions) == (
        pair.target,
        pair.candidate,
        ("is red and longer",),
    )
    assert desk.progress("Ann") == (1, 0, 16, 1) and desk.progress("Ben").own == 0


def test_each_person_gets_a_pair_of_their_own_until_none_is_left(desk):
    people = [f"person {number}" for number in range(17)]
    leases = [desk.next(person) for person in people]
    assert leases[16] is None and {one.pair for one in leases[:16]} == set(desk.pairs)
    assert desk.next(people[3]).pair == leases[3].pair, "a reload shows the same pair"
    desk.save(people[3], leases[3].pair, "is red")
    assert desk.next(people[16]) is None


def test_a_lease_expires(desk, clock):
    pair = desk.next("Ann").pair
    clock.now += 59
    assert desk.next("Ben").pair != pair
    clock.now += 2
    assert desk.next("Cem").pair == pair
    assert desk.next("Ann").pair != pair


def test_a_reload_extends_the_lease(desk, clock):
    pair = desk.next("Ann").pair
    clock.now += 40
    desk.next("Ann")
    clock.now += 40
    assert desk.next("Ben").pair != pair


def test_a_late_caption_is_saved_unless_another_person_was_faster(desk, clock):
    pair = desk.next("Ann").pair
    clock.now += 61
    assert desk.next("Ben").pair == pair
    desk.save("Ann", pair, "is red")
    with pytest.raises(CaptionError, match="another person has captioned"):
        desk.save("Ben", pair, "is blue")
    with pytest.raises(CaptionError, match="another person has captioned"):
        desk.skip("Ben", pair)
    assert [row["captions"] for row in rows(desk, pair.split)] == [["is red"]]


def test_saving_twice_is_saving_once_and_a_person_may_correct_a_caption(desk):
    pair = desk.next("Ann").pair
    for caption in ("is red", "is red", "is dark red"):
        desk.save("Ann", pair, caption)
    assert [row["captions"] for row in rows(desk, pair.split)] == [["is dark red"]]
    assert desk.undo("Ann") and not desk.undo("Ann")


def test_a_skipped_pair_is_not_asked_again_by_anybody(desk):
    pair = desk.next("Ann").pair
    desk.skip("Ann", pair)
    later = desk_of(desk.files.catalog.root)
    assert pair in later.pairs and pair not in later.open_pairs()
    assert desk.progress() == (0, 1, 16, 0) and not rows(desk, pair.split)
    with pytest.raises(CaptionError, match="another person has skipped"):
        later.save("Ben", pair, "is red")


def test_undo_gives_back_the_last_caption_as_a_draft_then_the_skip_before_it(desk):
    first = desk.next("Ann").pair
    desk.skip("Ann", first)
    second = desk.next("Ann").pair
    desk.save("Ann", second, "is red")
    other = desk.next("Ben").pair
    desk.save("Ben", other, "is blue")
    assert desk.undo("Ann")
    assert desk.next("Ann").draft == "is red"
    assert desk.next("Ann").pair == second
    assert desk.undo("Ann") and desk.next("Ann").pair == first and desk.next("Ann").draft == ""
    assert not desk.undo("Ann")
    people = [row["people"] for split in COUNTS for row in rows(desk, split)]
    assert people == [["Ben"]], "what another person wrote is left"


def test_undo_of_the_only_caption_removes_the_file(desk):
    pair = desk.next("Ann").pair
    desk.save("Ann", pair, "is red")
    desk.undo("Ann")
    assert not (desk.files.folder / f"cap.dress.{pair.split}.json").exists()


@pytest.mark.parametrize("caption", ["", "  ", "...", "x" * 301, "red " * 200])
def test_unusable_captions_are_refused(desk, caption):
    with pytest.raises(CaptionError):
        desk.save("Ann", desk.next("Ann").pair, caption)
    assert desk.progress().captioned == 0


@pytest.mark.parametrize("name", ["", " \n", "x" * 41])
def test_unusable_names_are_refused(desk, name):
    with pytest.raises(CaptionError, match="expected a name"):
        desk.save(name, desk.pairs[0], "is red")


def test_a_pair_that_was_not_asked_is_refused(desk):
    with pytest.raises(CaptionError, match="not among those"):
        desk.save("Ann", desk.pairs[0]._replace(target="../../etc/passwd"), "is red")


def test_a_restart_asks_for_the_rest(desk):
    pairs = [desk.next("Ann").pair]
    desk.save("Ann", pairs[0], "is red")
    pairs.append(desk.next("Ann").pair)
    desk.save("Ann", pairs[1], "is blue")
    later = desk_of(desk.files.catalog.root)
    assert set(later.pairs) == set(desk.pairs)
    assert set(later.open_pairs()) == set(desk.pairs) - set(pairs)


# -- generated captions


@pytest.fixture
def generated(photo_catalog, clock):
    """A catalog with generated captions of all splits and of another category."""
    folder = photo_catalog(made_by="fashioniq import-catalog", captions="made from attribute differences",
                           categories={"dresses": {"seed": 7}, "shirts": {"seed": 8}})  # fmt: skip
    (folder / "captions").mkdir()
    for split in ("train", "val", "test"):
        entry = {"target": f"{split}1", "candidate": f"{split}2", "captions": ["looks the same", "similar"]}
        for name in ("dress", "shirt"):
            (folder / "captions" / f"cap.{name}.{split}.json").write_text(json.dumps([entry]))
    return desk_of(folder, clock)


def test_generated_captions_are_set_aside_with_the_first_one_by_a_person(generated):
    folder = generated.files.folder
    assert generated.files.count_generated() == 3
    generated.next("Ann")
    assert len(rows(generated, "val")) == 1, "showing a pair changes no captions"
    pair = next(pair for pair in generated.pairs if pair.split == "train")
    generated.save("Ann", pair, "is red")
    assert [row.get("people") for row in rows(generated, "train")] == [["Ann"]]
    assert not rows(generated, "val") and not rows(generated, "test")
    assert len(json.loads((folder / "generated" / "cap.dress.val.json").read_text())) == 1
    about = json.loads((folder.parent / "catalog.json").read_text())
    assert about["categories"] == {"dresses": {"seed": 7, "captions": "human"}, "shirts": {"seed": 8}}
    assert about["captions"] == "made from attribute differences"
    assert Catalog(folder.parent, "dresses").captions_origin == "human"
    assert (folder / "cap.shirt.train.json").exists()
    assert generated.files.count_generated() == 0


def test_a_set_aside_that_was_interrupted_is_completed(generated, monkeypatch):
    pair = next(pair for pair in generated.pairs if pair.split == "train")

    def killed():
        raise KeyboardInterrupt

    monkeypatch.setattr(generated.files, "_record_origin", killed)
    with pytest.raises(KeyboardInterrupt):
        generated.save("Ann", pair, "is red")
    again = desk_of(generated.files.catalog.root)
    again.save("Ann", next(one for one in again.open_pairs() if one.split == "val"), "is blue")
    assert [len(rows(again, split)) for split in ("train", "val", "test")] == [1, 1, 0]
    assert not again.files.generated


def test_generated_captions_do_not_count_as_done(generated):
    assert len(generated.open_pairs()) == 16


# -- several processes


def caption_all(folder, person):
    desk = desk_of(folder)
    while lease := desk.next(person):
        desk.save(person, lease.pair, f"is what {person} saw")


def test_two_processes_share_the_pairs_and_the_file_stays_valid(photo_catalog, forked):
    folder = photo_catalog()
    writers = [forked(caption_all, folder, person) for person in ("Ann", "Ben")]
    path, states = folder / "captions" / "cap.dress.train.json", set()
    for _ in attempts("the writers ended"):
        if not any(writer.is_alive() for writer in writers):
            break
        if path.exists():
            states.add(len(read_json(path, "captions", list)))
    assert [writer.exitcode for writer in writers] == [0, 0]
    desk = desk_of(folder)
    found = [row for split in COUNTS for row in rows(desk, split)]
    assert len(found) == 16 == len({(row["target"], row["candidate"]) for row in found})
    assert all(row["captions"] == [f"is what {row['people'][0]} saw"] for row in found)
    assert desk.open_pairs() == []


def test_a_killed_process_leaves_valid_files_and_all_that_it_had_saved(
    photo_catalog, forked, tmp_path, wait_until
):
    folder, told = photo_catalog(), tmp_path / "told"

    def write():
        desk = desk_of(folder)
        for pair in desk.pairs:
            desk.save("Ann", pair, "is red")
            with open(told, "a") as file:
                file.write("x")

    writer = forked(write)
    wait_until(lambda: told.exists() and len(told.read_text()) >= 3, writer.is_alive)
    os.kill(writer.pid, signal.SIGKILL)
    ended(writer)
    desk = desk_of(folder)
    saved = sum(len(rows(desk, split)) for split in COUNTS)
    assert len(told.read_text()) <= saved <= len(told.read_text()) + 1
    caption_all(folder, "Ben")
    assert desk.open_pairs() == []


# -- CSV files


@pytest.fixture
def filled(desk, tmp_path):
    """Export the open pairs, change the rows and write them again."""

    def filled(change, delimiter=",", encoding="utf-8"):
        path = tmp_path / "pairs.csv"
        path.unlink(missing_ok=True)
        export_pairs(desk.files.catalog, desk.open_pairs(), path)
        with open(path, encoding="utf-8-sig", newline="") as file:
            table = list(csv.DictReader(file))
        change(table)
        with open(path, "w", encoding=encoding, newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(table)
        return path

    return filled


def test_an_export_has_ids_titles_pictures_and_empty_captions(desk, filled):
    def look(table):
        assert len(table) == 16
        for row, pair in zip(table, desk.pairs, strict=True):
            assert (row["split"], row["candidate"], row["target"]) == pair
            assert row["target_title"] == f"Dress {pair.target}" and row["caption"] == row["person"] == ""
            assert (desk.files.catalog.root / row["candidate_picture"]).is_file()

    filled(look)


@pytest.mark.parametrize(("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-8")])
def test_a_filled_export_is_saved_and_importing_it_again_changes_nothing(desk, filled, delimiter, encoding):
    def fill(table):
        table[0] |= {"caption": "is größer, and red; really", "person": "Ann"}
        table[1]["caption"] = "is blue"

    path = filled(fill, delimiter, encoding)
    assert import_captions(desk.files.catalog, path) == (2, 14, 0)
    assert desk.people() == {"Ann": 1, "unnamed": 1}
    before = [rows(desk, split) for split in COUNTS]
    assert {row["captions"][0] for found in before for row in found} == {
        "is größer, and red; really",
        "is blue",
    }
    assert import_captions(desk.files.catalog, path) == (0, 14, 2)
    assert [rows(desk, split) for split in COUNTS] == before
    assert len(desk.open_pairs()) == 14


def test_text_that_a_spreadsheet_would_evaluate_is_quoted(photo_catalog, tmp_path):
    folder = photo_catalog()
    path = folder / "titles" / "dress.train.json"
    path.write_text(path.read_text().replace("Dress train1", "=cmd|' /C calc'!A0"))
    desk = desk_of(folder)
    export_pairs(desk.files.catalog, desk.pairs, tmp_path / "pairs.csv")
    with open(tmp_path / "pairs.csv", encoding="utf-8-sig", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert "'=cmd|' /C calc'!A0" in cells and not any(cell.startswith("=") for cell in cells)


def test_an_existing_file_is_not_overwritten(desk, filled):
    path = filled(lambda table: None)
    with pytest.raises(UserError, match="may contain captions; give --export a new file"):
        export_pairs(desk.files.catalog, desk.pairs, path)


BAD = {
    "no word": ({"caption": "?!"}, "line 3: the caption has no word"),
    "long": ({"caption": "red " * 100}, "line 3: the caption is longer than 300 characters"),
    "no split": ({"split": "training"}, "line 3: expected a split, train, val or test, found 'training'"),
    "another split": ({"split": "test"}, "is not in the test split of dresses"),
    "no product": ({"target": "12"}, "line 3: the target '12' is not in the train split"),
    "one product": ({"candidate": "train1", "target": "train1"}, "line 3: candidate and target are both"),
    "name": ({"person": "x" * 41}, "line 3: expected a name of 1 to 40 characters"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_and_nothing_is_saved(desk, filled, name):
    changes, reason = BAD[name]

    def fill(table):
        table.sort(key=lambda row: row["split"])  # those of train first
        table[0]["caption"] = "is red"
        table[1] |= {"caption": "is blue", **changes}

    with pytest.raises(UserError) as caught:
        import_captions(desk.files.catalog, filled(fill))
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    assert desk.progress().captioned == 0


def test_a_pair_given_twice_is_named(desk, filled):
    def fill(table):
        table[0]["caption"] = "is red"
        table.append({**table[0], "caption": "is blue"})

    with pytest.raises(UserError, match=r"line 18: the pair .* occurs twice"):
        import_captions(desk.files.catalog, filled(fill))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "lacks the column split"),
        (b"split,candidate,target\n", "lacks the column caption"),
        (b"split,candidate,target,caption\ntrain,train1,train2,\xff\n", "not UTF-8"),
        (b'split,candidate,target,caption\ntrain,train1,train2,"is red\n', "line 2: not valid CSV"),
        (
            b"split,candidate,target,caption\ntrain,train1,train2,is red, and long\n",
            "line 2: .* quote the caption",
        ),
        (
            b"split,candidate,target,caption,caption\ntrain,train1,train2,red,\n",
            "column caption more than once",
        ),
        (b"split,candidate,target,caption\ntrain,train1\n", None),
    ],
)
def test_a_damaged_file_is_an_error(desk, tmp_path, content, reason):
    path = tmp_path / "pairs.csv"
    path.write_bytes(content)
    if reason is None:
        assert import_captions(desk.files.catalog, path) == (0, 1, 0)
        return
    with pytest.raises(UserError, match=reason):
        import_captions(desk.files.catalog, path)

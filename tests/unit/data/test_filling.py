import errno
import json
import multiprocessing
import os
import shutil
import signal
import time

import numpy as np
import pytest

from fashioniq.features import writer as filling
from fashioniq.features.store import DIFFERENT, Contents, FeatureStore
from fashioniq.features.writer import StorePart, fill_store, words_to_keep
from fashioniq.files import UserError, checksum
from fashioniq.locks import locked
from tests.waiting import ended

IDS = [f"P{n:02}" for n in range(10)]
FACTS = {
    "encoder": "b0",
    "weights": "abc",
    "image_size": 64,
    "dimensions": 3,
    "attribute_words": ["red", "blue"],
    "attributes": "labels",
}
FILES = ["attributes.npy", "features.npy", "ids.json", "store.json"]


class Killed(BaseException):
    """Stands for SIGKILL where one process is enough: nothing catches it."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(filling, "PART", 4)


class Encoder:
    """What an encoder would make of products; `without` have no picture, at picture `dies_at` it is killed."""

    def __init__(self, without=("P03",), dies_at=None):
        self.without, self.dies_at, self.asked = without, dies_at, []

    def __call__(self, lists, advance):
        for ids in lists:
            for name in ids:
                if len(self.asked) == self.dies_at:
                    raise Killed
                self.asked.append(name)
                advance(1)
            there = [name for name in ids if name not in self.without]
            numbers = np.array([int(name[1:]) for name in there], dtype=np.int64)
            vectors_ND = np.sqrt(numbers[:, None] + [[0.5, 1.5, 2.5]]).astype(np.float16)
            attributes_NA = numbers[:, None] % 3 * np.eye(1, 8, dtype=np.int64)
            yield StorePart(
                there, vectors_ND, attributes_NA, {name: "no picture" for name in ids if name in self.without}
            )


def fill(root, ids=IDS, extract=None, facts=FACTS, update=False):
    return fill_store(root, ids, Contents(**facts), extract or Encoder(), lambda count, of: None, update)


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def whole(tmp_path):
    """The content of a store whose making nothing disturbed."""
    fill(tmp_path / "whole")
    return content(tmp_path / "whole")


@pytest.fixture
def added(tmp_path):
    """The content of a store of five products to which five were added."""
    fill(tmp_path / "added", IDS[:5])
    fill(tmp_path / "added", update=True)
    return content(tmp_path / "added")


def test_a_store_has_a_row_of_each_product_and_a_reason_for_each_other(tmp_path):
    store, asked = fill(tmp_path / "dress")
    assert asked == 10 and sorted(os.listdir(tmp_path / "dress")) == FILES
    assert store.ids == [name for name in IDS if name != "P03"]
    checksums = {name: checksum(store.root / name) for name in ("features.npy", "attributes.npy", "ids.json")}
    written = {**FACTS, "count": 9, "failures": {"P03": "no picture"}, "checksums": checksums}
    assert (store.root / "store.json").read_text() == json.dumps(written, indent=2, ensure_ascii=False) + "\n"
    items = store.items(store.ids)
    numbers = np.array([int(name[1:]) for name in items.ids])
    np.testing.assert_array_equal(
        items.features_ND[:], np.sqrt(numbers[:, None] + [[0.5, 1.5, 2.5]]).astype(np.float16)
    )
    np.testing.assert_array_equal(items.attributes_NA[:, 0], numbers % 3)


def test_progress_counts_every_product_once_and_what_was_there_at_once(tmp_path):
    told = []
    with pytest.raises(Killed):
        fill(tmp_path, extract=Encoder(dies_at=6))
    fill_store(tmp_path, IDS, Contents(**FACTS), Encoder(), lambda *count_and_all: told.append(count_and_all))
    assert told == [(4, 10)] + [(1, 10)] * 6


@pytest.mark.parametrize("dies_at", range(10))
def test_killed_at_any_picture_it_goes_on_to_the_same_bytes(tmp_path, whole, dies_at):
    with pytest.raises(Killed):
        fill(tmp_path / "killed", extract=Encoder(dies_at=dies_at))
    with pytest.raises(UserError, match="unfinished: run the same"):
        FeatureStore(tmp_path / "killed")
    resumed = Encoder()
    fill(tmp_path / "killed", extract=resumed)
    assert resumed.asked == IDS[dies_at // 4 * 4 :]  # what was done is not done again
    assert content(tmp_path / "killed") == whole


class Slow(Encoder):
    """An encoder that takes its time, and does not come to its end where it `stays`."""

    def __init__(self, stays):
        super().__init__()
        self.stays = stays

    def __call__(self, lists, advance):
        for part in super().__call__(lists, lambda count: time.sleep(0.002)):
            yield part
            time.sleep(0.002)
        if self.stays:
            signal.pause()


def test_killed_by_the_system_at_many_moments_it_goes_on_to_the_same_bytes(tmp_path, whole):
    context, root, kills = multiprocessing.get_context("fork"), tmp_path / "killed", 0
    for moment in range(40):
        process = context.Process(target=fill, args=(root, IDS, Slow(stays=moment < 10)))
        process.start()
        process.join(0.002 + 0.002 * moment)
        kills += process.is_alive()
        process.kill()
        ended(process)
        if (root / "store.json").exists() and not (root / "parts").exists():
            assert content(root) == whole
            shutil.rmtree(root)
    fill(root)
    assert kills >= 10 and content(root) == whole


def die_at_step(monkeypatch, step):
    """Be killed before the given change of a name on the disk: a file that takes its name, or is removed."""
    steps = []

    def watched(real):
        def change(*arguments, **named):
            steps.append(arguments)
            if len(steps) > step:
                raise Killed
            return real(*arguments, **named)

        return change

    for name in ("replace", "rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    return steps


def changes_of(monkeypatch, run):
    with monkeypatch.context() as patch:
        steps = die_at_step(patch, 10**6)
        run()
    return len(steps)


def test_killed_between_any_two_changes_of_the_disk_it_goes_on_to_the_same_bytes(
    tmp_path, monkeypatch, whole
):
    steps = changes_of(monkeypatch, lambda: fill(tmp_path / "counted"))
    assert steps > 8  # a plan, three parts, four files, and what is removed
    for step in range(steps):
        root = tmp_path / f"killed{step}"
        with monkeypatch.context() as patch, pytest.raises(Killed):
            die_at_step(patch, step)
            fill(root)
        fill(root)
        assert content(root) == whole


def test_killed_at_any_change_while_adding_the_store_is_the_old_or_the_new_one(tmp_path, monkeypatch, added):
    def begun(name):
        fill(tmp_path / name, IDS[:5])
        return tmp_path / name

    counted = begun("counted")
    steps = changes_of(monkeypatch, lambda: fill(counted, update=True))
    assert steps > 8
    seen = set()
    for step in range(steps):
        root = begun(f"killed{step}")
        old = FeatureStore(root).items(IDS)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            die_at_step(patch, step)
            fill(root, update=True)
        store = FeatureStore(root)
        seen.add(len(store.ids))
        assert store.ids in (["P00", "P01", "P02", "P04"], [name for name in IDS if name != "P03"])
        assert store.items(IDS[:5]).features_ND[:].equal(old.features_ND[:]) and len(store.items(IDS)) == len(
            store.ids
        )
        fill(root, update=True)
        assert content(root) == added
    assert seen == {4, 9}


def test_an_addition_that_was_killed_is_completed_without_being_asked_for_again(tmp_path, added):
    fill(tmp_path / "dress", IDS[:5])
    with pytest.raises(Killed):
        fill(tmp_path / "dress", extract=Encoder(dies_at=5), update=True)
    fill(tmp_path / "dress")
    assert content(tmp_path / "dress") == added


def test_temporary_files_of_a_killed_run_are_removed(tmp_path, whole):
    with pytest.raises(Killed):
        fill(tmp_path / "dress", extract=Encoder(dies_at=6))
    for left in (".features-ab_d12x9.npy", "parts/.000001-ab_d12x9.npz"):
        (tmp_path / "dress" / left).write_bytes(b"half")
    fill(tmp_path / "dress")
    assert content(tmp_path / "dress") == whole


@pytest.mark.parametrize("update", [False, True])
def test_a_finished_store_is_opened_and_not_made_again(tmp_path, update):
    fill(tmp_path, IDS[4:])
    before = content(tmp_path)
    store, asked = fill(tmp_path, IDS[4:], Encoder(dies_at=0), update=update)
    assert (len(store.ids), asked) == (6, 0) and content(tmp_path) == before


def test_what_is_new_is_added_behind_and_only_that_is_made(tmp_path):
    store, _ = fill(tmp_path, IDS[5:])
    encoder = Encoder()
    more, asked = fill(tmp_path, IDS, encoder, update=True)
    assert encoder.asked == IDS[:5] and asked == 5
    assert more.ids == [*IDS[5:], "P00", "P01", "P02", "P04"] and more.facts.failures == {"P03": "no picture"}
    assert more.items(store.ids).features_ND[:].equal(store.items(store.ids).features_ND[:])


def test_what_could_not_be_read_is_tried_again_when_adding(tmp_path):
    fill(tmp_path, extract=Encoder(without=("P03", "P05")))
    encoder = Encoder(without=("P05",))
    store, asked = fill(tmp_path, extract=encoder, update=True)
    assert encoder.asked == ["P03", "P05"] and asked == 2
    assert store.ids[-1] == "P03" and store.facts.failures == {"P05": "no picture"}


def test_where_nothing_can_be_added_the_rows_are_not_written_again(tmp_path, whole):
    fill(tmp_path / "dress")
    times = {name: os.stat(tmp_path / "dress" / name).st_mtime_ns for name in FILES}
    fill(tmp_path / "dress", update=True)
    assert content(tmp_path / "dress") == whole
    assert [name for name in FILES if os.stat(tmp_path / "dress" / name).st_mtime_ns != times[name]] == [
        "store.json"
    ]


def test_products_that_a_finished_store_lacks_are_told(tmp_path):
    fill(tmp_path)
    with pytest.raises(UserError, match="lacks 1 products, such as P99: add them with --update"):
        fill(tmp_path, [*IDS, "P99"], facts=FACTS | {"attribute_words": ["new"]})
    with pytest.raises(UserError, match=r"has different weights .*, or remove it"):  # not --update
        fill(tmp_path, [*IDS, "P99"], facts=FACTS | {"weights": "other"})


def test_what_was_begun_is_completed_before_products_that_came_later_are_added(tmp_path):
    with pytest.raises(Killed):
        fill(tmp_path, IDS[:6], Encoder(dies_at=5))
    with pytest.raises(UserError, match="lacks 4 products, such as P06"):
        fill(tmp_path)
    assert len(FeatureStore(tmp_path).ids) == 5
    assert fill(tmp_path, update=True)[0].ids == [name for name in IDS if name != "P03"]


def test_a_store_begun_for_other_products_is_not_gone_on_with(tmp_path):
    with pytest.raises(Killed):
        fill(tmp_path, extract=Encoder(dies_at=5))
    before = content(tmp_path)
    with pytest.raises(UserError, match="is for other products, such as P05"):
        fill(tmp_path, IDS[:5])
    assert content(tmp_path) == before


@pytest.mark.parametrize("key", FACTS)
@pytest.mark.parametrize("state", ["finished", "unfinished", "added to"])
def test_another_encoder_or_size_is_refused_by_name(tmp_path, key, state):
    if state == "unfinished":
        with pytest.raises(Killed):
            fill(tmp_path, extract=Encoder(dies_at=5))
    else:
        fill(tmp_path, IDS if state == "finished" else IDS[:5])
    before = content(tmp_path)
    with pytest.raises(UserError, match=f"has {DIFFERENT[key]} .*another"):
        fill(tmp_path, facts={**FACTS, key: "another"}, update=state == "added to")
    assert content(tmp_path) == before


def test_the_words_of_a_store_are_kept_when_it_is_completed_or_added_to(tmp_path):
    assert words_to_keep(tmp_path / "new", update=True) is None
    with pytest.raises(Killed):
        fill(tmp_path, extract=Encoder(dies_at=5))
    assert words_to_keep(tmp_path, update=False) == ["red", "blue"]
    fill(tmp_path)
    assert words_to_keep(tmp_path, update=False) is None and words_to_keep(tmp_path, update=True) == [
        "red",
        "blue",
    ]


def test_two_do_not_fill_a_store_at_a_time(tmp_path):
    with locked(tmp_path / "dress"), pytest.raises(UserError, match=r"another process is writing to .*dress"):
        fill(tmp_path / "dress")
    assert len(fill(tmp_path / "dress")[0].ids) == 9


class FullDisk:
    """A file on a disk with room for so many bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, some):
        if len(some) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(some)
        return self.file.write(some)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.mark.parametrize("full", ["000001", "features", "attributes"])
def test_a_full_disk_is_told_and_leaves_no_half_of_a_file(tmp_path, monkeypatch, whole, full):
    def open_until_full(path, mode):
        return FullDisk(open(path, mode), 100 if full in path.name else 10**6)

    with monkeypatch.context() as patch, pytest.raises(UserError, match=f"no space left to write .*{full}"):
        patch.setattr(filling, "open", open_until_full, raising=False)
        fill(tmp_path / "dress")
    left = [path.name for path in (tmp_path / "dress").rglob("*") if path.is_file()]
    assert not [name for name in left if full in name or name.startswith(".")]
    fill(tmp_path / "dress")
    assert content(tmp_path / "dress") == whole


@pytest.mark.parametrize(
    "damage",
    [b"", b"PK\3\4 and no more", b"<html>404</html>", None],
    ids=["empty", "start", "html", "truncated"],
)
def test_a_damaged_part_is_told(tmp_path, damage):
    with pytest.raises(Killed):
        fill(tmp_path, extract=Encoder(dies_at=9))
    path = tmp_path / "parts" / "000000.npz"
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(UserError, match=r"000000.npz is damaged"):
        fill(tmp_path)


def test_a_part_in_the_place_of_another_is_told(tmp_path):
    with pytest.raises(Killed):
        fill(tmp_path, extract=Encoder(dies_at=9))
    os.replace(tmp_path / "parts" / "000001.npz", tmp_path / "parts" / "000000.npz")
    with pytest.raises(UserError, match=r"000000.npz contains other products"):
        fill(tmp_path)


@pytest.mark.parametrize("plan", [{}, {"asked": 3, "before": 0}, {"asked": IDS}])
def test_a_plan_of_another_version_is_told(tmp_path, plan):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "plan.json").write_text(json.dumps({**FACTS, **plan}))
    with pytest.raises(UserError, match=r"was written by another version: remove .*parts"):
        fill(tmp_path)


def test_what_cannot_be_read_at_all_is_told_with_a_reason_and_tried_again(tmp_path):
    with pytest.raises(UserError, match=r"none of the 10 products could be read.*no picture"):
        fill(tmp_path, extract=Encoder(without=IDS))
    assert len(fill(tmp_path)[0].ids) == 9


def test_a_part_without_one_readable_product_does_not_spoil_the_rest(tmp_path):
    store, _ = fill(tmp_path, extract=Encoder(without=IDS[4:9]))
    assert len(store.ids) == 5 and len(store.facts.failures) == 5


def test_arrays_are_those_that_numpy_would_write(tmp_path):
    fill(tmp_path)
    for name in ("features", "attributes"):
        np.save(tmp_path / "again.npy", np.load(tmp_path / f"{name}.npy"))
        assert (tmp_path / "again.npy").read_bytes() == (tmp_path / f"{name}.npy").read_bytes()

"""`make-conversations` and the check of what it writes."""

import json
import shutil

import pytest

from fashioniq.cli import main
from fashioniq.data.conversations import Conversations
from fashioniq.prepare import conversation_files, conversing

FILES = [f"{subtask}.{split}.jsonl" for subtask in "tim" for split in ("train", "test")]
SMALL = {"train": 12, "test": 8, "batch_size": 4}


@pytest.fixture(scope="session")
def garments(once, project, sample):
    """A copy of the drawn sample with metadata vectors. Not to be written to."""

    def make(folder):
        shutil.copytree(sample, folder / "catalog", ignore=lambda _, names: {"features"} & set(names))
        for category in ("dresses", "shirts", "tops"):
            project.run(
                "extract-features",
                data=folder / "catalog",
                category=category,
                encoder="metadata",
            )
        return folder / "catalog"

    return once("garments", make)


@pytest.fixture(scope="session")
def made(once, project, garments):
    """Conversations about the garments. Not to be written to."""

    def make(folder):
        project.run("make-conversations", data=garments, out=folder / "made", **SMALL)
        return folder / "made"

    return once("conversations", make)


@pytest.fixture
def copy(made, tmp_path):
    """A copy at the same depth, to be damaged."""
    return shutil.copytree(made, tmp_path / "made")


@pytest.fixture
def findings(capsys, tmp_path, project):
    """Check a folder; return the exit code, and all findings but missing pictures, which a copy has."""

    def findings(folder):
        code = main(project.arguments("check-data", data=folder, report=tmp_path / "report.json"))
        capsys.readouterr()
        found = json.loads((tmp_path / "report.json").read_text())["findings"]
        return code, [one for one in found if "there is no picture" not in one]

    return findings


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_as_many_samples_as_asked_for_are_made_without_a_finding(made, project, capsys):
    counts = {name: len(_lines(made / name)) for name in FILES}
    assert counts == dict(zip(FILES, (12, 8, 24, 16, 24, 16), strict=True))
    assert main(project.arguments("check-data", data=made)) == 0
    assert capsys.readouterr().out == f"{made} is clean\n"


def test_no_item_of_test_is_in_train_and_the_gallery_has_the_targets(made, garments):
    read = Conversations(made)
    items = {
        split: {
            name
            for subtask in "tim"
            for sample in read.samples(subtask, split)
            for name in (*sample.pictures, sample.target)
        }
        for split in ("train", "test")
    }
    assert not items["train"] & items["test"]
    train = {
        name for file in garments.glob("image_splits/*.train.json") for name in json.loads(file.read_text())
    }
    assert items["train"] <= train and not items["test"] & train
    for subtask in "tim":
        assert set(read.gallery(subtask)) == {sample.target for sample in read.samples(subtask, "test")}
    assert all(read.picture(name).is_file() for name in items["train"] | items["test"])


def test_every_filter_is_counted_with_time_and_memory(made):
    summary = json.loads((made / "conversations.json").read_text())
    assert set(summary["filters"]) == {
        f"{split} {line}" for split in ("train", "test") for line in ("merged", "mdc_t")
    }
    assert all(
        counts["conversations made"] == (12 if "train" in name else 8)
        for name, counts in summary["filters"].items()
    )
    assert summary["writer"] == "templates" and summary["tokens"] == {}
    assert summary["provenance"]["seconds"]["cpu"] > 0 and summary["provenance"]["peak_gb"]["process"] > 0


def test_the_page_shows_the_samples_for_review_with_pictures(made):
    page = (made / "samples.html").read_text()
    open_ids = [line["sample"] for line in _lines(made / "review.jsonl")]
    assert len(open_ids) == 40 and all(f">{name}</h4>" in page for name in open_ids)
    assert "data:image/jpeg;base64," in page and "Words by templates." in page


def _write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_planted_leak_is_found(copy, findings):
    assert findings(copy)[1] == []
    train, test = _lines(copy / "m.train.jsonl"), _lines(copy / "m.test.jsonl")
    train[3]["target"] = test[0]["target"]  # a test target in train
    shown = next(turn for turn in train[5]["turns"] if turn["content"][0]["type"] == "image")
    leaked = test[1]["target"]
    shown["content"][0]["id"] = leaked  # a test item as a reference in train
    _write(copy / "m.train.jsonl", train)
    code, found = findings(copy)
    assert code == 1 and [one for one in found if "leak" in one] == [
        f"m.train.jsonl, line 4: expected train items, found {test[0]['target']!r} of test: the splits leak",
        f"m.train.jsonl, line 6: expected train items, found {leaked!r} of test: the splits leak",
    ]


def test_each_mistake_is_one_line(copy, findings):
    first, *rest = _lines(copy / "t.test.jsonl")
    (copy / "t.test.jsonl").write_text("\n".join(["{", *map(json.dumps, [first, *rest, first])]))
    (copy / "i.train.jsonl").unlink()
    ids = json.loads((copy / "gallery.m.test.json").read_text())
    (copy / "gallery.m.test.json").write_text(json.dumps(ids[1:]))
    _write(copy / "review.jsonl", [{"sample": "t-1"}, {"note": "?"}])
    _, found = findings(copy)
    assert [one.partition(":")[0] for one in found] == [
        "t.test.jsonl, line 1",
        "t.test.jsonl, line 10",
        f"there is no file of conversations {copy / 'i.train.jsonl'}",
        "gallery.m.test.json",
        "review.jsonl, line 1",
        "review.jsonl, line 2",
    ]


@pytest.fixture
def stopped(monkeypatch, project, garments):
    """Interrupt the command after some batches."""

    def stopped(out, batches):
        write, written = conversing.write_json, []

        def write_or_stop(*arguments, **options):
            if len(written) == batches:
                raise KeyboardInterrupt
            written.append(arguments)
            write(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(conversing, "write_json", write_or_stop)
            assert main(project.arguments("make-conversations", data=garments, out=out, **SMALL)) == 130

    return stopped


def test_an_interrupted_run_continues_with_the_same_bytes(made, stopped, project, garments):
    out = made.parent / "again"  # at the same depth, as pictures are named from there
    stopped(out, 3)
    assert not (out / "items.jsonl").exists()
    stopped(out, 4)
    assert len(list((made.parent / "again.parts").glob("t*.json"))) == 7
    project.run("make-conversations", data=garments, out=out, **SMALL)
    names = {path.name for path in made.iterdir()} - {"conversations.json"}
    assert names == {path.name for path in out.iterdir()} - {"conversations.json"}
    for name in names:
        assert (out / name).read_bytes() == (made / name).read_bytes(), name
    shutil.rmtree(out)


def test_samples_that_failed_the_review_are_replaced_and_the_verdicts_stay(
    copy, project, garments, monkeypatch
):
    monkeypatch.setattr(conversation_files, "REVIEWED", 5)
    before = {name: _lines(copy / name) for name in FILES}
    failed, passed = before["i.test.jsonl"][0]["id"], before["i.test.jsonl"][1]["id"]
    verdicts = [
        {"sample": failed, "reviewer": "Ada", "image_ok": True, "context_ok": False, "note": "says nothing"},
        {"sample": passed, "reviewer": "Ada", "image_ok": True, "context_ok": True, "note": ""},
    ]
    _write(copy / "review.jsonl", verdicts)
    project.run("make-conversations", data=garments, out=copy, **SMALL)
    after = {name: [line["id"] for line in _lines(copy / name)] for name in FILES}
    assert failed not in after["i.test.jsonl"] and passed in after["i.test.jsonl"]
    assert {name: len(ids) for name, ids in after.items()} == {
        name: len(lines) for name, lines in before.items()
    }
    assert after["t.train.jsonl"] == [line["id"] for line in before["t.train.jsonl"]]
    review = _lines(copy / "review.jsonl")
    assert review[:2] == verdicts and [line["image_ok"] for line in review[2:]] == [None] * 4
    assert (
        json.loads((copy / "conversations.json").read_text())["filters"]["test merged"]["failed the review"]
        == 1
    )


def test_other_options_are_refused_for_a_folder_that_is_there(copy, refused, garments):
    assert "begun with different --seed" in refused(
        "make-conversations", data=garments, out=copy, seed=1, **SMALL
    )
    assert not copy.with_name("made.parts").exists()


def test_a_folder_of_something_else_is_not_taken_for_batches_and_removed(refused, garments, tmp_path):
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts/thesis.txt").write_text("mine")
    line = refused("make-conversations", data=garments, out=tmp_path / "out", **SMALL)
    assert "found other files" in line and (tmp_path / "out.parts/thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("conversations.json", '{"plan": 3}', "begun with different"),
        ("conversations.json", '{"plan": ["a"]}', "begun with different"),
        ("review.jsonl", "[]\n", "expected a verdict"),
    ],
)
def test_damaged_results_are_refused_before_a_batch(copy, refused, garments, file, content, reason):
    (copy / file).write_text(content)
    assert reason in refused("make-conversations", data=garments, out=copy, **SMALL)
    assert not copy.with_name("made.parts").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda part: part["made"][0]["samples"][0].update(target="X"), "found 'X'"),
        (lambda part: part["dropped"].update(x=-1), "malformed"),
    ],
)
def test_a_damaged_batch_is_refused(stopped, refused, garments, tmp_path, change, reason):
    stopped(tmp_path / "out", 1)
    (path,) = (tmp_path / "out.parts").glob("t*.json")
    part = json.loads(path.read_text())
    change(part)
    path.write_text(json.dumps(part))
    line = refused("make-conversations", data=garments, out=tmp_path / "out", **SMALL)
    assert reason in line and "remove the f" in line and not (tmp_path / "out/items.jsonl").exists()


def test_more_than_the_catalog_gives_is_refused(refused, garments, tmp_path, monkeypatch):
    monkeypatch.setattr(conversing, "WORDS", conversing.WORDS | {"text": (1, 2)})
    line = refused("make-conversations", data=garments, category="dress", out=tmp_path / "out", **SMALL)
    assert "expected 12 merged conversations of train, found 0" in line and "text: more than 2 words" in line


def test_labels_in_another_language_need_a_language_model(refused, garments, tmp_path):
    catalog = shutil.copytree(garments, tmp_path / "catalog")
    about = json.loads((catalog / "catalog.json").read_text())
    (catalog / "catalog.json").write_text(json.dumps(about | {"categories": {"dresses": {"language": "de"}}}))
    line = refused("make-conversations", data=catalog, out=tmp_path / "out", **SMALL)
    assert line.endswith("the labels of dresses are not English, as templates are; give --language-model")


def test_a_picture_that_is_no_file_and_a_folder_without_a_name_are_refused(refused, garments, tmp_path):
    catalog = shutil.copytree(garments, tmp_path / "catalog")
    picture = sorted((catalog / "images/dress").iterdir())[0]
    picture.unlink()
    picture.mkdir()
    line = refused("make-conversations", data=catalog, out=tmp_path / "out", **SMALL)
    assert line.startswith(f"error: cannot read the picture {picture}")
    assert "expected a folder in --out" in refused("make-conversations", data=garments, out=".", **SMALL)


def test_products_with_the_same_picture_are_used_once(project, garments, tmp_path):
    catalog = shutil.copytree(garments, tmp_path / "catalog")
    train, test = (
        json.loads((catalog / f"image_splits/split.dress.{split}.json").read_text())
        for split in ("train", "test")
    )
    shutil.copyfile(catalog / f"images/dress/{train[0]}.jpg", catalog / f"images/dress/{test[0]}.jpg")
    project.run("make-conversations", data=catalog, category="dress", out=tmp_path / "out", **SMALL)
    items = Conversations(tmp_path / "out").items
    assert train[0] in items and test[0] not in items
    assert json.loads((tmp_path / "out/conversations.json").read_text())["copies"] == 1


def test_a_missing_feature_store_is_refused(refused, sample, tmp_path):
    line = refused("make-conversations", data=sample, category="shirts", out=tmp_path / "out", **SMALL)
    assert "fashioniq extract-features" in line


class Model:
    """Language model that answers each prompt by its form, once without JSON."""

    def __init__(self):
        self.asked, self.tokens = 0, {"prompt": 0, "answer": 0}

    def complete(self, prompts, tokens):
        self.asked += len(prompts)
        self.tokens = {name: count + len(prompts) for name, count in self.tokens.items()}
        return ["no JSON" if self.asked == 4 else self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt):
        caption = "".join(letter if letter.isalnum() else " " for letter in prompt.splitlines()[-1].lower())
        words = " or ".join(caption.split()[:14])
        if '"request"' in prompt:
            return json.dumps({"request": f"I want {' or '.join(caption.split()[-6:])} please"})
        if '"shown"' in prompt:
            return json.dumps({"first": f"show me {words}", "shown": "red cotton", "second": f"with {words}"})
        said = [
            ("user", f"I want {words}"),
            ("assistant", "What else do you want?"),
            ("user", f"It is {words}"),
        ]
        return json.dumps([{"role": role, "text": text} for role, text in said])


def test_a_language_model_writes_and_is_named_with_its_tokens(project, garments, tmp_path, monkeypatch):
    model = Model()
    monkeypatch.setattr("fashioniq.askers.by_name.endpoint", lambda settings, name: model)
    monkeypatch.setattr(conversing, "GATE", 1)
    project.run(
        "make-conversations", data=garments, out=tmp_path / "out", language_model="endpoint:small",
        category="dress", **SMALL,
    )  # fmt: skip
    summary = json.loads((tmp_path / "out/conversations.json").read_text())
    assert summary["writer"] == "endpoint:small" and summary["tokens"] == model.tokens
    samples = [line for name in FILES for line in _lines(tmp_path / "out" / name)]
    assert {line["source"]["writer"] for line in samples} == {"endpoint:small"}
    two_rounds = next(line for line in samples if line["kind"] == "mdc_t" and line["subtask"] == "m")
    assert two_rounds["source"]["T2"] == "red cotton"
    assert main(project.arguments("check-data", data=tmp_path / "out")) == 0


def test_an_encoder_of_pictures_and_texts_finds_the_partners(
    project, garments, tiny_blip, tmp_path, made, monkeypatch
):
    monkeypatch.setattr(conversing, "GATE", 1)
    encoded = {"data": garments, "encoder": tiny_blip, "features": tmp_path / "store", "device": "cpu"}
    project.run("extract-features", **encoded, category="dress", workers=0)
    project.run("make-conversations", **encoded, out=tmp_path / "out", category="dress", **SMALL)
    assert main(project.arguments("check-data", data=tmp_path / "out")) == 0
    cosines = [line["source"]["cos"] for line in _lines(tmp_path / "out/i.train.jsonl")]
    assert len(cosines) == 24 and cosines != [
        line["source"]["cos"] for line in _lines(made / "i.train.jsonl")
    ]


# recorded sessions


@pytest.fixture
def people(project, garments, tmp_path):
    """Conversations of one session inside train, and of three that have products of val; one of these is no use."""
    train, val, _ = (
        json.loads((garments / f"image_splits/split.dress.{split}.json").read_text())
        for split in ("train", "val", "test")
    )
    folder = tmp_path / "sessions"
    folder.mkdir()
    for split, sessions in (
        ("train", [train[:3], [train[0], *val[:2]]]),
        ("val", [val[:4], [val[5], val[6], val[5]]]),
    ):
        rows = [
            {
                "target": ["url", target],
                "reference": [
                    ["url", [f"is {n}", "has sleeves"], name] for n, name in enumerate(shown, start=1)
                ],
            }
            for *shown, target in sessions
        ]
        (folder / f"dress.{split}.json").write_text(json.dumps(rows))
    given = {"data": garments, "category": "dresses", "sessions": folder}
    project.run("make-conversations", **given, out=tmp_path / "people")
    return tmp_path / "people", train, val


def test_sessions_inside_a_split_become_conversations(people, findings):
    folder, train, val = people
    assert findings(folder) == (0, [])
    data = Conversations(folder)
    (own,) = data.samples("m", "test")
    assert own.id == f"val_dress_{val[0]}_{val[3]}_0" and own.target == val[3] and own.rounds == 3
    assert [(turn.role, turn.text, turn.pictures) for turn in own.turns] == [
        ("user", "is 1 and has sleeves", (val[0],)),
        ("assistant", "", (val[1],)),
        ("user", "is 2 and has sleeves", ()),
        ("assistant", "", (val[2],)),
        ("user", "is 3 and has sleeves", ()),
    ]
    (last,) = data.samples("i", "test")
    assert (last.id, last.target) == (f"i-{own.id}", own.target) and last.turns == own.last_round
    assert [one.pictures for one in data.samples("m", "train")] == [tuple(train[:2])]
    pairs = [one for one in data.samples("i", "train") if one.id.startswith("i-pair")]
    assert len(pairs) > 10 and all(" and " in one.text for one in pairs)
    assert data.gallery("m") == val and not data.samples("t", "test")
    page = (folder / "samples.html").read_text()
    assert "Words by people" in page and "From:" not in page


def test_sessions_need_a_category_and_products_of_the_catalog(people, refused, garments, tmp_path):
    given = {"data": garments, "sessions": people[0].parent / "sessions", "out": tmp_path / "out"}
    assert "--sessions needs one category" in refused("make-conversations", **given)
    assert "expected shirt.train.json" in refused("make-conversations", **given, category="shirts")
    path = given["sessions"] / "dress.val.json"
    (path.parent / "dress.train.json").write_text(path.read_text().replace("D0", "X0"))
    path.write_text(path.read_text().replace("D0", "X0"))
    assert "expected sessions inside the train split" in refused(
        "make-conversations", **given, category="dresses"
    )
    assert not given["out"].exists()

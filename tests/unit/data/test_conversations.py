"""Files of conversations: what is written is read, and each mistake is refused in one line."""

import json

import msgspec
import pytest

from fashioniq.data.conversation_records import (
    ConversationItem,
    ConversationSample,
    ConversationTurn,
    SampleOrigin,
    Text,
    TurnPicture,
)
from fashioniq.data.conversations import Conversations, write_gallery, write_items, write_samples
from fashioniq.files import UserError

ITEMS = [ConversationItem(name, f"{name}.jpg", "a dress", "catalog", split, "dresses") for name, split in
         (("A", "test"), ("B", "test"), ("C", "train"))]  # fmt: skip
SAMPLE = ConversationSample(
    "m-1",
    "m",
    "merged",
    (
        ConversationTurn("user", (Text("a red dress"),)),
        ConversationTurn("assistant", (TurnPicture("A"), Text("this one?"))),
        ConversationTurn("user", (Text("longer"),)),
    ),
    "B",
    SampleOrigin("templates", T1="a dress", cos=0.5, rank=2, seed=7),
    "test",
)


@pytest.fixture
def folder(tmp_path):
    write_items(tmp_path, ITEMS)
    write_samples(tmp_path, "m", "test", [SAMPLE])
    write_gallery(tmp_path, "m", "test", ["B", "A"])
    return tmp_path


def test_what_is_written_is_read(folder):
    read = Conversations(folder)
    assert list(read.items.values()) == ITEMS
    assert read.samples("m", "test") == [SAMPLE]
    assert read.gallery("m") == ["B", "A"]
    assert read.picture("A") == folder / "A.jpg"


def test_the_line_has_the_documented_form(folder):
    line = json.loads((folder / "m.test.jsonl").read_text())
    assert line["turns"][1] == {
        "role": "assistant",
        "content": [{"type": "image", "id": "A"}, {"type": "text", "text": "this one?"}],
    }
    assert line["source"] == {"writer": "templates", "T1": "a dress", "cos": 0.5, "rank": 2, "seed": 7}


def test_the_last_round_has_the_last_picture_and_request():
    assert SAMPLE.last_round == (ConversationTurn("user", (TurnPicture("A"), Text("longer"))),)


def _changed(**changes):
    return msgspec.structs.replace(SAMPLE, **changes)


@pytest.mark.parametrize(
    ("sample", "fault"),
    [
        (_changed(target="C"), "expected test items, found 'C' of train: the splits leak"),
        (_changed(target="A"), "expected the target 'A' in no turn"),
        (_changed(target="X"), "found 'X'"),
        (_changed(id=""), "expected a sample with an id"),
        (_changed(target="B"), "expected every id once, found 'm-1' again"),
        (_changed(subtask="t"), "expected a sample of m and test, found t and test"),
        (_changed(split="train"), "expected a sample of m and test, found m and train"),
        (_changed(kind="text"), "expected a kind of merged or mdc_t or session, found text"),
        (_changed(turns=SAMPLE.turns[:2]), "expected the last turn to be the user's"),
        (_changed(turns=()), "expected the last turn to be the user's"),
        (_changed(turns=SAMPLE.turns[2:]), "expected 3 turns or more, found 1"),
        (_changed(turns=SAMPLE.turns[:1] * 3), "in alternation"),
        (
            _changed(turns=(SAMPLE.turns[0], ConversationTurn("assistant", (Text("ok"),)), SAMPLE.turns[2])),
            "expected a picture",
        ),
        (
            _changed(turns=(*SAMPLE.turns[:2], ConversationTurn("user", ()))),
            "expected words or a picture in every turn",
        ),
        (
            _changed(turns=(*SAMPLE.turns[:2], ConversationTurn("user", (Text("[image]"),)))),
            "as parts of their own",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_line(folder, sample, fault):
    write_samples(folder, "m", "test", [SAMPLE, sample])
    with pytest.raises(UserError, match="line 2") as error:
        Conversations(folder).samples("m", "test")
    assert fault in str(error.value)


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "m-1"}', "\\ud800", '{"id": 3}'])
def test_a_line_that_is_no_sample_is_refused(folder, line):
    (folder / "m.test.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"m\.test\.jsonl, line 1: expected a sample"):
        Conversations(folder).samples("m", "test")


def test_an_id_that_occurs_twice_is_refused(folder):
    write_items(folder, [*ITEMS, ITEMS[0]])
    with pytest.raises(UserError, match="line 4: expected every id once, found 'A' again"):
        _ = Conversations(folder).items


@pytest.mark.parametrize(
    ("ids", "fault"),
    [
        (["A", "A"], "'A' again"),
        (["X"], "found 'X'"),
        (["C"], "'C' of train"),
        ([], "list of ids"),
        ([3], "ids"),
    ],
)
def test_a_damaged_gallery_is_refused(folder, ids, fault):
    write_gallery(folder, "m", "test", ids)
    with pytest.raises(UserError, match=fault):
        Conversations(folder).gallery("m")

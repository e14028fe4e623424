"""Instruction data of others: LLaVA's and InstructPix2Pix's files, made here in their form."""

import json

import pytest

from fashioniq.cli import main
from fashioniq.config import MakeConversations, check
from fashioniq.data.conversation_records import ConversationItem, ConversationTurn, Text, TurnPicture
from fashioniq.data.conversations import (
    DOCUMENTS,
    TALKS,
    Conversations,
    Document,
    Talk,
    read_documents,
    read_talks,
    words_of,
    write_items,
)
from fashioniq.files import UserError, write_jsonl
from fashioniq.prepare.mixture import add_mixture


def llava(tmp_path, entries):
    (tmp_path / "pictures").mkdir(exist_ok=True)
    (tmp_path / "pictures" / "1.jpg").write_bytes(b"picture")
    (tmp_path / "llava.json").write_text(json.dumps(entries))
    return tmp_path / "llava.json", tmp_path / "pictures", tmp_path / "out"


def said(*values, image="1.jpg"):
    turns = [{"from": ("human", "gpt")[number % 2], "value": value} for number, value in enumerate(values)]
    return {"id": "0", "image": image, "conversations": turns}


def test_a_conversation_of_llava_shows_its_picture_where_the_mark_is(tmp_path):
    entries = [
        said("<image>\nWhat is red?", "A dress.", "And long?", "No."),
        said("<image> lost", "x", image="2.jpg"),
    ]
    assert add_mixture(*llava(tmp_path, entries)) == (1, 1, 1)  # the picture of the second one is missing
    data = Conversations(tmp_path / "out")
    [talk] = read_talks(data)
    assert [turn.role for turn in talk.turns] == ["user", "assistant", "user", "assistant"]
    assert talk.turns[0].content == (TurnPicture("llava/1.jpg"), Text("What is red?"))
    item = data.items["llava/1.jpg"]
    assert data.picture(item.id).resolve() == tmp_path / "pictures" / "1.jpg"
    assert (item.split, item.caption, item.source) == ("train", "", "llava.json")


def test_conversations_that_a_training_would_refuse_are_left_out(tmp_path, capsys):
    entries = [said("<image> a", "b"), said("<image> a", ""), said("<image> a", "b", "c"), said("", "b")]
    path, pictures, out = llava(tmp_path, entries)
    options = ["--sessions", str(path), "--data", str(pictures), "--out", str(out)]
    assert main(["make-conversations", *options]) == 0
    assert len(read_talks(Conversations(out))) == 1
    assert "left out: 3, in which" in capsys.readouterr().out


def test_what_is_there_stays_and_a_repeated_command_changes_nothing(tmp_path):
    given = llava(tmp_path, [said("<image> a", "b")])
    given[2].mkdir()
    write_items(given[2], [ConversationItem("own", "", "a dress", "catalog", "test")])
    add_mixture(*given)
    before = {path.name: path.read_bytes() for path in given[2].iterdir()}
    assert add_mixture(*given) == (1, 0, 0)
    assert before == {path.name: path.read_bytes() for path in given[2].iterdir()}
    assert list(Conversations(given[2]).items) == ["own", "llava/1.jpg"]


def test_a_pair_of_instructpix2pix_is_a_request_about_the_first_picture_that_ends_in_the_second(tmp_path):
    folder = tmp_path / "edits" / "shard-00" / "0000001"
    folder.mkdir(parents=True)
    (tmp_path / "edits" / "seeds.json").write_text("[]")
    (folder / "prompt.json").write_text(
        json.dumps({"input": "a dress", "edit": "make it red", "output": "a red dress"})
    )
    for name in ("7_0.jpg", "7_1.jpg", "8_0.jpg"):  # the second picture of 8 is missing
        (folder / name).write_bytes(b"picture")
    out = tmp_path / "out"
    settings = MakeConversations(out=out, sessions=tmp_path / "edits" / "seeds.json")
    check(settings)  # needs no category
    assert settings.adds_others and add_mixture(settings.sessions, settings.data, out) == (1, 2, 1)
    [talk] = read_talks(Conversations(out))
    first, request = talk.turns[0].content
    assert first == TurnPicture("edits/shard-00/0000001/7_0.jpg") and "make it red" in request.text
    assert talk.turns[1].content == (TurnPicture("edits/shard-00/0000001/7_1.jpg"),)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"image": "1.jpg"}], "entry 0: expected an image and conversations"),
        (
            [said("a", "b") | {"conversations": [{"from": "system", "value": "a"}]}],
            "entry 0: expected an image",
        ),
        (
            [said("<image> a", "b", image="2.jpg")],
            "expected conversations with pictures in .*, found 1 without",
        ),
        ({}, "LLaVA's conversations"),
    ],
)
def test_files_of_another_form_are_refused_in_one_line(tmp_path, entries, message):
    with pytest.raises(UserError, match=message) as caught:
        add_mixture(*llava(tmp_path, entries))
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


USER, ASSISTANT = (
    ConversationTurn("user", (TurnPicture("a"), Text("red?"))),
    ConversationTurn("assistant", (Text("no"),)),
)


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ((USER,), "line 1: expected turns of user and assistant"),
        ((USER, ASSISTANT, USER), "the last one the assistant's"),
        ((USER, USER, ASSISTANT), "in alternation"),
        ((USER, ConversationTurn("assistant", ())), "expected words or a picture"),
        ((ConversationTurn("user", (TurnPicture("z"),)), ASSISTANT), "found 'z'"),
        ((ConversationTurn("user", (TurnPicture("held"),)), ASSISTANT), "the splits leak"),
    ],
)
def test_a_line_with_a_mistake_is_refused(tmp_path, turns, message):
    items = [ConversationItem("a", "", "", "web", "train"), ConversationItem("held", "", "", "web", "test")]
    write_items(tmp_path, items)
    write_jsonl(tmp_path / TALKS, [Talk(turns)])
    with pytest.raises(UserError, match=message):
        read_talks(Conversations(tmp_path))


def test_documents_are_words_and_pictures_in_turn(tmp_path):
    write_items(tmp_path, [ConversationItem("a", "", "", "web", "train")])
    assert read_documents(Conversations(tmp_path)) == read_talks(Conversations(tmp_path)) == []
    document = Document((Text("A dress."), TurnPicture("a"), Text("It is red.")))
    write_jsonl(tmp_path / DOCUMENTS, [document])
    assert read_documents(Conversations(tmp_path)) == [document]
    assert words_of([document, Talk((USER, ASSISTANT))]) == ["A dress.", "It is red.", "red?", "no"]

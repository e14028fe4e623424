import json

import pytest

from fashioniq.data.dialog_log import LoggedMessage
from fashioniq.data.dialogues import (
    Dialogue,
    Round,
    dialog_text,
    in_search_space,
    join_rounds,
    read_dialogues,
    read_search_space,
    write_dialogues,
)
from fashioniq.files import UserError, json_line

CHATIR = [
    {"img": "a/1.jpg", "dialog": ["a cat", "is it black? yes", "is it asleep? no"]},
    {"img": "a/2.jpg", "dialog": ["a dog", "wet? no", "big? yes"]},
]
VISDIAL = {
    "version": "1.0",
    "data": {
        "questions": ["is it black", "is it asleep?"],
        "answers": ["yes", "no", "can't tell"],
        "dialogs": [
            {"image_id": 185565, "caption": "a cat", "dialog": [{"question": 0, "answer": 0}, {"question": 1, "answer": 2}]},
            {"image_id": 7, "caption": "a dog", "dialog": [{"question": 1, "answer": 1}, {"question": 0, "answer": 1}]},
        ],
    },
}  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    def saved(content):
        path = tmp_path / "dialogues.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return saved


def test_chatir_dialogues_are_read_and_written(saved, tmp_path):
    read = read_dialogues(saved(CHATIR))
    assert read[0] == Dialogue("a/1.jpg", ("a cat", "is it black? yes", "is it asleep? no"))
    write_dialogues(tmp_path / "again.json", read)
    assert json.loads((tmp_path / "again.json").read_text()) == CHATIR
    assert [dialog_text(read[0], number) for number in range(3)] == [
        "a cat", "a cat, is it black? yes", "a cat, is it black? yes, is it asleep? no"]  # fmt: skip
    assert dialog_text(read[1], 1, "[SEP]") == "a dog[SEP]wet?[SEP]no"


@pytest.mark.parametrize(
    "said", ["is it black? yes", Round.of("is it black", "yes"), Round.read("is it black? yes")]
)
def test_the_separator_of_bert_stands_between_a_question_and_its_answer_too(said):
    parted = "a cat? a dog [SEP] is it black? [SEP] yes"
    assert join_rounds([Round("a cat? a dog"), said], " [SEP] ") == parted
    assert join_rounds([Round("a cat"), said], " | ") == "a cat | is it black? yes"


def test_the_separator_of_bert_does_not_stand_within_an_answer_that_asks():
    said = Round.of("is it black", "maybe? i can't tell")
    assert join_rounds(["a cat", said], "[SEP]") == "a cat[SEP]is it black?[SEP]maybe? i can't tell"


@pytest.mark.parametrize("text", ["is it black?  yes", "is it black?\nyes ", "is it black?yes"])
def test_the_separator_of_bert_parts_rounds_with_odd_white_space(text):
    assert join_rounds([Round("a cat"), Round(text)], "[SEP]") == "a cat[SEP]is it black?[SEP]yes"
    assert join_rounds([Round("a cat"), Round(text)]) == f"a cat, {text}"


def test_visdial_numbers_become_texts_and_file_names(saved):
    path = saved(VISDIAL)
    read = read_dialogues(path)
    assert read[0] == Dialogue("000000185565.jpg", ("a cat", "is it black? yes", "is it asleep? can't tell"))
    official = [
        "COCO_train2014_000000000007.jpg",
        "VisualDialog_val2018/VisualDialog_val2018_000000185565.jpg",
    ]
    assert [one.image for one in in_search_space(read, official, path)] == official[::-1]
    named = in_search_space(read, ["unlabeled2017/000000000007.jpg", "unlabeled2017/000000185565.jpg"], path)
    assert [one.image for one in named] == [
        "unlabeled2017/000000185565.jpg",
        "unlabeled2017/000000000007.jpg",
    ]


def test_visdials_answers_may_have_question_marks(saved):
    asking = json.loads(json.dumps(VISDIAL))
    asking["data"]["answers"] = [f"{answer}? who knows" for answer in VISDIAL["data"]["answers"]]
    for plain, read in zip(read_dialogues(saved(VISDIAL)), read_dialogues(saved(asking)), strict=True):
        for before, said in zip(plain.rounds[1:], read.rounds[1:], strict=True):
            assert (said.question, said.answer) == (before.question, f"{before.answer}? who knows")
            assert said.question.count("?") == 1


def test_plugir_rounds_are_queries_of_their_own(saved):
    path = saved([{"img": "1.jpg", "dialog": ["a cat", "a black cat", "a black cat that sleeps"]}])
    (read,) = read_dialogues(path)
    assert read.alone and dialog_text(read, 2) == "a black cat that sleeps"
    assert not any(said.question for said in read.rounds)
    (joined,) = read_dialogues(path, alone=False)
    assert dialog_text(joined, 1) == "a cat, a black cat"


@pytest.mark.parametrize(("text", "parts"), [
    ("is it big? Or small? small", ("is it big? Or small?", "small")),
    ("Is the desk well no", ("", "Is the desk well no")),
])  # fmt: skip
def test_a_round_is_parted_at_its_last_question_mark(text, parts):
    read = Round.read(text)
    assert (read, read.question, read.answer) == (text, *parts)


def test_a_question_and_its_answer_are_joined_as_they_are_parted():
    made = Round.of("is it black", "yes")
    assert made == "is it black? yes" and made.question == "is it black?"
    assert (Round.read(made).question, Round.read(made).answer) == ("is it black?", "yes")
    assert (Round.of("", "what? a cat").question, Round.of("", "what? a cat").answer) == ("", "what? a cat")


def without(content, key):
    changed = json.loads(json.dumps(content))
    del changed["data"]["dialogs"][1]["dialog"][1][key]
    return changed


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[{"img": "a.jpg", "dialog": ["a c', "is not valid JSON"),
        ([], "contains no dialog"),
        ("7", "found a int"),
        ({"data": {"questions": []}}, "found no 'answers'"),
        ([*CHATIR, {"img": "a/3.jpg", "dialog": []}], "entry 2: expected"),
        ([*CHATIR, {"img": "a/3.jpg", "dialog": ["a cow", 7]}], "entry 2: expected"),
        ([*CHATIR, "a cow"], "entry 2: expected"),
        (
            [*CHATIR, {"img": "a/3.jpg", "dialog": ["a cow", "big? yes"]}],
            "as in the first, found 2 in dialog 2 (a/3.jpg); cut all to one length",
        ),
        ([*CHATIR, CHATIR[0]], "has dialogs for 1 image more than once, for example a/1.jpg"),
        (
            without(VISDIAL, "answer"),
            "(KeyError: 'answer'); dialogs of the test split lack their last answer",
        ),
        (without(VISDIAL, "question"), "dialog 1: not in VisDial v1.0 format"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_is_wrong_with_a_file_is_told(content, told, saved):
    with pytest.raises(UserError) as error:
        read_dialogues(saved(content))
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_target_outside_the_search_space_is_told(saved):
    path = saved(CHATIR)
    with pytest.raises(UserError, match=r"lacks the images of 1 of the 2 dialogs .* for example a/2.jpg"):
        in_search_space(
            read_dialogues(path), ["a/1.jpg", "b/2.jpg", "c/2.jpg"], path
        )  # two files called 2.jpg: neither is meant
    with pytest.raises(UserError, match=r"for example a/2.jpg"):
        in_search_space(read_dialogues(path), ["a/1.jpg", "b/2.jpg"], path)  # of another folder
    assert [one.image for one in in_search_space(read_dialogues(path), ["1.jpg", "x\\a\\2.jpg"], path)] == [
        "1.jpg",
        "x\\a\\2.jpg",
    ]


@pytest.mark.parametrize(("content", "told"), [
    (["a.jpg", "b.jpg", "a.jpg"], "more than once, for example a.jpg"),
    ([], "expected a search space"),
    (["a.jpg", 7], "expected a search space"),
    ({"a": 1}, "expected a list"),
])  # fmt: skip
def test_a_search_space_names_each_image_once(content, told, saved):
    with pytest.raises(UserError, match=told):
        read_search_space(saved(content))


def test_the_released_dialogues_are_read(shared):
    folder = shared / "chatir"
    if not folder.is_dir():
        pytest.skip(f"no ChatIR dialogues at {folder}")
    space = read_search_space(folder / "ChatIR_Protocol/Search_Space_val_50k.json")
    assert len(space) == 50_000
    for path in sorted((folder / "dialogues").glob("*.json")):
        read = in_search_space(read_dialogues(path), space, path)
        assert (
            len(read) == 2064
            and {len(one.rounds) for one in read} == {11}
            and not any(one.alone for one in read)
        )


def test_the_answer_of_a_round_is_text_that_can_be_written():
    whole = Round.read("\r\nerror: forged")  # its text is not that of an answer alone
    for made in (Round(whole), Round.of("", whole), whole, Round.of("red?", "yes")):
        assert (type(made.question), type(made.answer)) == (str, str)
        assert json.loads(json_line({"text": LoggedMessage(text=made.answer)})) == {
            "text": {"text": made.answer}
        }

"""Dialogs rewritten as descriptions, by templates and by language models."""

import pytest

from fashioniq.data.descriptions import Describer
from fashioniq.data.dialogues import Round
from fashioniq.data.topics import Topic
from fashioniq.files import UserError
from fashioniq.llm import rewriting
from fashioniq.llm.prompts import PROMPTS
from fashioniq.llm.rewriting import TOKENS, ByModel, rewriter
from fashioniq.systems.fashion_iq_dar import wanted

TOPICS = [
    Topic("what color is it?", ("red", "navy blue"), False),
    Topic("what length is it?", ("mini", "midi", "maxi"), False),
    Topic("what are the sleeves like?", ("short sleeve", "long sleeve"), False),
    Topic("does it have a belt?", ("belt",), True),
]
LABELS = {
    "a": [["dress"], ["red"], [], ["mini"], ["short sleeve", "belt"], []],
    "b": [["dress"], ["navy blue"], [], ["midi"], ["long sleeve"], []],
    "c": [["dress"], [], [], ["maxi"], [], []],
}
DIALOG = list(map(Round.read, ["a red dress", "is it long? no", "does it have a belt? yes"]))


@pytest.fixture
def describer():
    return Describer(TOPICS, LABELS, "dress")


class Model:
    """Language model with one answer, or with one for each call."""

    def __init__(self, *answers):
        self.answers, self.prompts, self.tokens = answers, [], []

    def complete(self, prompts, tokens):
        answer = self.answers[min(len(self.tokens), len(self.answers) - 1)]
        self.prompts += prompts
        self.tokens.append(tokens)
        return [answer] * len(prompts)


def rewritten(name, describer):
    write = rewriter(name, lambda: describer, device="cpu")
    assert write.prompts([DIALOG]) == [tuple(write.text([DIALOG]))]
    return write.prompts([DIALOG])


def test_templates_write_the_last_round_all_rounds_or_the_attributes(describer):
    assert rewritten("last", describer) == [("does it have a belt? yes",)]
    assert rewritten("join", describer) == [(", ".join(DIALOG),)]
    assert rewritten("attributes", describer) == [("a red dress with belt",)]


def test_another_name_is_refused(describer):
    with pytest.raises(UserError, match="correct --rewrite"):
        rewritten("poem", describer)


def test_a_model_rewrites_the_dialog_as_one_text_and_this_as_several_prompts():
    """R1 and R2 of DAR: R2 reads what R1 wrote, not the dialog."""
    model = Model("A red dress.\nMore.", "A red dress.\n2) a red\x1b dress with a belt\n\n- third\n4. fourth")
    rewriting = ByModel(model, 3)
    assert rewriting.text([DIALOG]) == ["A red dress."]
    assert rewriting.prompts([DIALOG]) == [("A red dress.", "a red dress with a belt", "third")]
    assert model.tokens == [TOKENS, 3 * TOKENS]  # the dialog is rewritten once for both
    first, second = model.prompts
    assert f"First description: {DIALOG[0]}\n- {DIALOG[1]}\n- {DIALOG[2]}" in first
    assert (
        "like this: A red dress.\n" in second and "3 different prompts" in second and DIALOG[1] not in second
    )


@pytest.mark.parametrize(("given", "count"), [({}, 1), ({"count": 2}, 2)])
def test_a_language_model_by_name_writes_as_many_prompts_as_are_asked_for_by_default_one(
    given, count, monkeypatch
):
    monkeypatch.setattr(rewriting, "model_of", lambda name, device: Model(f"{name} on {device}", "red\nblue"))
    written = rewriter("endpoint:some", None, device="cpu", **given)
    assert written.text([DIALOG]) == ["endpoint:some on cpu"]
    assert written.prompts([DIALOG]) == [("red", "blue")[:count]]


def test_equal_dialogs_of_a_batch_are_rewritten_once():
    model = Model("A red dress.")
    assert (
        ByModel(model).text([DIALOG, DIALOG[:1], DIALOG]) == ["A red dress."] * 3 and len(model.prompts) == 2
    )


def test_an_empty_answer_is_replaced_by_the_dialog_and_its_text():
    assert ByModel(Model(" \n1.\n")).text([DIALOG]) == [", ".join(DIALOG)]
    assert ByModel(Model("A dress.", " ")).prompts([DIALOG]) == [("A dress.",)]


def test_dialogs_that_a_model_does_not_rewrite_are_counted(capsys):
    ByModel(Model("")).text([DIALOG, DIALOG[:1], DIALOG])
    assert "2 of 2 dialogs are not rewritten" in capsys.readouterr().out
    ByModel(Model("a red dress")).text([DIALOG])
    assert not capsys.readouterr().out


def test_a_line_that_announces_the_answer_is_not_a_text():
    model = Model("Sure! Here is the description:\n\nA red dress.", "Here are two prompts:\n1. red\n2. blue")
    assert ByModel(model, 2).text([DIALOG]) == ["A red dress."]
    assert ByModel(model, 2).prompts([DIALOG]) == [("red", "blue")]


def test_prompts_of_a_file_replace_those_of_the_package():
    own = {**PROMPTS, "rewrite": "Shorten {dialog} {as it is}", "pictures": "Draw {text}"}
    model = Model("a red dress")
    ByModel(model, 2, own).prompts([DIALOG[:1]])
    assert model.prompts == ["Shorten First description: a red dress {as it is}", "Draw a red dress"]


@pytest.mark.parametrize(
    ("rounds", "description"),
    [
        (["a red mini dress with short sleeve and belt, but is navy blue"],
         "a navy blue mini dress with short sleeve and belt"),
        (["a red mini dress with short sleeve and belt, but has no belt"], "a red mini dress with short sleeve"),
        (["a red mini dress with belt, but is maxi and has long sleeves"], "a red maxi dress with long sleeve and belt"),
        (["a red midi dress, but is shorter"], "a red mini dress"),
        (["a red mini dress, but is shorter"], "a red mini dress"),
        (["a red maxi dress, but is longer"], "a red maxi dress"),
        (["a red maxi mini dress, but is longer"], "a red maxi midi dress"),
        (["a red mini dress, but is navy blue", "a red maxi dress, but has a belt"],
         "a navy blue maxi dress with belt"),
        (["a red mini dress, but is longer", "a red maxi dress, but has a belt"], "a red maxi dress with belt"),
    ],
)  # fmt: skip
def test_feedback_changes_the_product_shown(describer, rounds, description):
    assert wanted(rounds, describer) == description

"""Dialogs rewritten as descriptions, by templates and by language models."""

import pytest

from fashioniq.data.descriptions import Describer
from fashioniq.data.topics import Topic
from fashioniq.files import UserError
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
DIALOG = ["a red dress", "is it long? no", "does it have a belt? yes"]


@pytest.fixture
def describer():
    return Describer(TOPICS, LABELS, "dress")


class Model:
    """Language model with one answer."""

    def __init__(self, answer):
        self.answer, self.prompts, self.tokens = answer, [], []

    def complete(self, prompts, tokens):
        self.prompts += prompts
        self.tokens.append(tokens)
        return [self.answer] * len(prompts)


def rewritten(name, describer):
    write = rewriter(name, lambda: describer, device="cpu")
    return write([DIALOG])


def test_templates_write_the_last_round_all_rounds_or_the_attributes(describer):
    assert rewritten("last", describer) == [("does it have a belt? yes",)]
    assert rewritten("join", describer) == [(", ".join(DIALOG),)]
    assert rewritten("attributes", describer) == [("a red dress with belt",)]


def test_another_name_is_refused(describer):
    with pytest.raises(UserError, match="correct --rewrite"):
        rewritten("poem", describer)


def test_a_model_sees_the_whole_dialog_and_gives_several_descriptions():
    model = Model("A red dress.\n2) a red\x1b dress with a belt\n\n- third\n4. fourth")
    (found,) = ByModel(model, 3)([DIALOG])
    assert found == ("A red dress.", "a red dress with a belt", "third") and model.tokens == [3 * TOKENS]
    assert all(text in model.prompts[0] for text in DIALOG) and "3 different" in model.prompts[0]


def test_a_model_gives_one_description_by_default():
    model = Model("A red dress.\n2) a long one")
    assert ByModel(model)([DIALOG]) == [("A red dress.",)] and "Write a description of" in model.prompts[0]
    assert rewriter("endpoint:one", None, device="cpu").count == 1


def test_an_empty_answer_is_replaced_by_the_dialog():
    assert ByModel(Model(" \n1.\n"))([DIALOG]) == [(", ".join(DIALOG),)]


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

"""The user that is a language model: what it reads of two products, and what becomes of its answers."""

import json

import pytest
import torch

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.messages import Message
from fashioniq.users.by_name import named_user
from fashioniq.users.language_model import EXAMPLES, LanguageModelUser, examples_of, known_of

WORDS = Vocabulary(["is", "blue"])


class Model:
    """Language model that gives these answers, and keeps its prompts."""

    def __init__(self, *answers):
        self.answers, self.tokens, self.prompts = answers, {"prompt": 0, "answer": 0}, []

    def complete(self, prompts, tokens):
        self.prompts += prompts
        return list(self.answers)


def reply(user, targets, shown):
    return user.reply(torch.tensor(targets), Message(item_B=torch.tensor(shown)), 0).texts


def test_the_model_reads_the_product_shown_and_the_wanted_one_after_examples():
    model = Model("is blue", "is red")
    user = LanguageModelUser(model, ["a red dress", "a blue dress"], [("a hat", "a cap", "is flatter")])
    assert reply(user, [1, 0], [0, 1]) == ["is blue", "is red"]
    for prompt, shown, wanted in zip(model.prompts, ("red", "blue"), ("blue", "red"), strict=True):
        assert prompt.endswith(
            "\n\nShown: a hat\nWanted: a cap\nCustomer: is flatter"
            f"\n\nShown: a {shown} dress\nWanted: a {wanted} dress\nCustomer:"
        )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (" is blue\n\nShown: a coat", "is blue"),
        ("Customer: is blue", "is blue"),
        ('"is blue"', "is blue"),
        ("is blue; dress, blue", "is blue"),
        ("<b>is</b> blue\x00", "is blue"),
        (" \n ", "is different"),
        ("Customer:", "is different"),
    ],
)
def test_a_reply_is_one_line_without_what_the_prompt_says(answer, said):
    assert reply(LanguageModelUser(Model(answer), ["a", "b"]), [1], [0]) == [said]


def test_what_is_known_is_what_can_be_seen_and_the_title_alone_otherwise(tmp_path):
    files = {
        "image_splits/split.dress.train.json": ["seen", "named", "unknown"],
        "titles/dress.train.json": {"seen": {"title": "Brand One"}, "named": {"title": "Brand Two dress"}},
        "descriptions/image_captions_dress_train.json": {"seen": "a woman in a red dress"},
        "attributes/asin2attr.dress.train.json": {
            "seen": [["dress"], ["red"], [], [], [], ["dress", "chic"]]
        },
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    catalog = Catalog(tmp_path, "dresses")
    assert known_of(catalog, "seen") == "a woman in a red dress; dress, red, chic"
    assert known_of(catalog, "named") == "Brand Two dress"
    assert known_of(catalog, "unknown") == ""
    assert examples_of(catalog, 0) == [], "a catalog without captions has no examples"


def test_examples_are_peoples_captions_of_train_and_differ_by_seed(sample):
    catalog = Catalog(sample, "dresses")
    drawn = [examples_of(catalog, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and len(drawn[0]) == EXAMPLES
    captions = {text for pair in catalog.pairs("train") for text in pair.captions}
    assert {said for *_, said in drawn[0]} <= captions
    of_val = {text for pair in catalog.pairs("val") for text in pair.captions} - captions
    assert not of_val & {said for *_, said in drawn[0]}


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("endpoint", {}, "expected endpoint:MODEL, found no model"),
        ("local:folder", {"catalog": None}, "--user local:folder needs a catalog"),
        ("endpoint:small", {"ids": ["absent"]}, "needs titles, descriptions or labels, found none"),
        ("local:/no/such/folder", {}, "cannot load /no/such/folder"),
    ],
)
def test_what_a_language_model_lacks_is_told(sample, name, given, error):
    catalog = Catalog(sample, "dresses")
    given = {"catalog": catalog, "ids": catalog.ids("val"), **given}
    with pytest.raises(UserError, match=error):
        named_user(name, vocabulary=WORDS, max_words=4, **given)


def test_a_local_model_replies_in_words_of_the_retriever(causal, sample, monkeypatch):
    pytest.importorskip("transformers", reason="the extra chat is not installed")
    for limit, value in {"EXAMPLES": 0, "LONGEST": 30, "MOST_TOKENS": 6}.items():
        monkeypatch.setattr(f"fashioniq.users.language_model.{limit}", value)
    catalog = Catalog(sample, "dresses")
    user, facts = named_user(
        f"local:{causal}", vocabulary=WORDS, max_words=4, catalog=catalog, ids=catalog.ids("val")
    )
    said = user.reply(torch.tensor([1, 2]), Message(item_B=torch.tensor([0, 0])), 0)
    assert torch.equal(said.words_BL, WORDS.encode(said.texts, 4)) and all(said.texts)
    assert facts["user"] == f"local:{causal}" and "language model" in facts["captions"]

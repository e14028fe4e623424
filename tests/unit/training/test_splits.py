"""Nothing of val is learned, and the judge of a captioner has not heard what its listener was fitted to."""

from types import SimpleNamespace

import pytest
import torch

from fashioniq.config import TrainCaptioner, TrainDialogEncoder
from fashioniq.data.catalog import Pair
from fashioniq.data.conversations import Item, Sample, Source, Text, Turn
from fashioniq.data.dialogues import Dialogue
from fashioniq.data.items import Items
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.models.chat_tokens import ROLES
from fashioniq.trained import JUDGE, LISTENER
from fashioniq.training import captioner_run, chatsearcher_run, dialog_encoder_run, users
from fashioniq.training.linear import fit_listener

PAIRS = {"train": [Pair("T", "C", ("is red", "is red"))], "val": [Pair("T", "C", ("is blue", "is blue"))]}


def words(vocabulary):
    return set(vocabulary.words[len(SPECIAL) :])


def test_the_words_of_a_captioner_are_those_of_train():
    assert words(captioner_run._vocabulary(PAIRS, 1)) == {"is", "red"}


def test_the_words_of_a_retriever_are_those_of_its_captioners_of_train_and_of_descriptions():
    described = [("C", "has pockets", "T")] * 2
    found = users._vocabulary([Vocabulary(["longer"])], PAIRS, described)
    assert words(found) == {"longer", "is", "red", "has", "pockets"}


def test_the_words_of_a_dialog_encoder_are_those_of_train():
    dialogs = {"train": [Dialogue("T", ("a red dress",))], "val": [Dialogue("T", ("a blue dress",))]}
    settings = TrainDialogEncoder(category="dresses", min_count=1)
    _, facts = dialog_encoder_run._model(settings, SimpleNamespace(size=4), dialogs)
    assert set(facts["words"]) - set(SPECIAL) == {"a", "red", "dress"}


def test_the_words_of_a_chatsearcher_are_those_of_train():
    items = {
        split: Item(split, "", caption, "catalog", split)
        for split, caption in (("train", "red"), ("test", "blue"))
    }
    said = Sample("1", "t", "text", (Turn("user", (Text("longer"),)),), "train", Source("people"), "train")
    found = words(chatsearcher_run._vocabulary(SimpleNamespace(items=items), [said], 1))
    assert found - {word.strip(":").lower() for word in ROLES.values()} == {"red", "longer"}


@pytest.mark.parametrize("count", [2, 7])
def test_the_judge_of_a_captioner_hears_other_pairs_than_its_listener(count):
    items = Items.without_attributes([str(n) for n in range(8)], torch.eye(8))
    pairs = [Pair(str(n + 1), str(n), (f"word{n}",)) for n in range(count)]
    vocabulary = Vocabulary([f"word{n}" for n in range(8)])
    made = captioner_run.fit_listeners(pairs, items, vocabulary, seed=0)
    assert list(made) == [LISTENER, JUDGE]
    halves = [half for _, half in made.values()]
    assert sorted(pair.candidate for half in halves for pair in half) == [str(n) for n in range(count)]
    assert len(halves[0]) == (count + 1) // 2
    for listener, half in made.values():
        assert torch.equal(listener.model.bag_GD, fit_listener(half, items, vocabulary).model.bag_GD)


class Made(Exception):
    """What a module for training was made with."""


def test_the_captions_of_a_captioner_are_judged_by_the_judge(vector_runs, monkeypatch):
    def made(*_, judge, **__):
        raise Made(judge)

    listeners = {LISTENER: ("the listener", []), JUDGE: ("the judge", [])}
    monkeypatch.setattr(captioner_run, "fit_listeners", lambda *_: listeners)
    monkeypatch.setattr(captioner_run, "CaptionerTraining", made)
    options = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    with pytest.raises(Made, match="the judge"):
        captioner_run.train_captioner(TrainCaptioner(**options))


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.1, 1), (0.25, 2), (0.5, 5)])
def test_a_share_of_the_items_is_held_out_and_one_at_least(share, count):
    names = [f"p{number}" for number in range(10)]
    held_out = chatsearcher_run._held_out(reversed(names), share, seed=0)
    assert len(held_out) == count and held_out < set(names)
    assert held_out == chatsearcher_run._held_out(names, share, seed=0)

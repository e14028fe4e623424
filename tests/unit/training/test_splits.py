"""Nothing of val is learned, and the judge of a captioner has not heard what its listener was fitted to."""

import shutil
from types import SimpleNamespace

import pytest
import torch

from fashioniq.config import TrainCaptioner, TrainDialogEncoder, TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.conversation_records import (
    ConversationItem,
    ConversationSample,
    ConversationTurn,
    SampleOrigin,
    Text,
)
from fashioniq.data.dialogues import Dialogue
from fashioniq.data.items import Items
from fashioniq.data.words import PAD, SPECIAL, Vocabulary
from fashioniq.features.frozen import FrozenFeatures
from fashioniq.models.chat_tokens import ROLES, Tokenized
from fashioniq.runs.trained import JUDGE, LISTENER
from fashioniq.systems import fashion_iq
from fashioniq.training import captioner, chatsearcher_run, dialog_encoder, linear_run, users
from fashioniq.training.linear import fit_listener

PAIRS = {"train": [Pair("T", "C", ("is red", "is red"))], "val": [Pair("T", "C", ("is blue", "is blue"))]}


def words(vocabulary):
    return set(vocabulary.words[len(SPECIAL) :])


def test_the_words_of_a_captioner_are_those_of_train():
    assert words(captioner._vocabulary(PAIRS, 1)) == {"is", "red"}


def test_the_words_of_a_retriever_are_those_of_its_captioners_of_train_and_of_descriptions():
    described = [("C", "has pockets", "T")] * 2
    found = users._vocabulary([Vocabulary(["longer"])], PAIRS["train"], described)
    assert words(found) == {"longer", "is", "red", "has", "pockets"}


def test_the_words_of_a_dialog_encoder_are_those_of_train():
    dialogs = {"train": [Dialogue("T", ("a red dress",))], "val": [Dialogue("T", ("a blue dress",))]}
    settings = TrainDialogEncoder(category="dresses", min_count=1)
    _, facts = dialog_encoder._model(settings, SimpleNamespace(size=4), dialogs)
    assert set(facts["words"]) - set(SPECIAL) == {"a", "red", "dress"}


def test_the_words_of_a_chatsearcher_are_those_of_train():
    items = {
        split: ConversationItem(split, "", caption, "catalog", split)
        for split, caption in (("train", "red"), ("test", "blue"))
    }
    said = ConversationSample(
        "1",
        "t",
        "text",
        (ConversationTurn("user", (Text("longer"),)),),
        "train",
        SampleOrigin("people"),
        "train",
    )
    found = words(chatsearcher_run._vocabulary(SimpleNamespace(items=items), [said], ["linen"], 1))
    assert found - {word.strip(":").lower() for word in ROLES.values()} == {"red", "longer", "linen"}


@pytest.mark.parametrize("count", [2, 7])
def test_the_judge_of_a_captioner_hears_other_pairs_than_its_listener(count):
    items = Items.without_attributes([str(n) for n in range(8)], torch.eye(8))
    pairs = [Pair(str(n + 1), str(n), (f"word{n}",)) for n in range(count)]
    vocabulary = Vocabulary([f"word{n}" for n in range(8)])
    made = captioner.fit_listeners(pairs, items, vocabulary, seed=0)
    assert list(made) == [LISTENER, JUDGE]
    halves = [half for _, half in made.values()]
    assert sorted(pair.candidate for half in halves for pair in half) == [str(n) for n in range(count)]
    assert len(halves[0]) == (count + 1) // 2
    for listener, half in made.values():
        assert torch.equal(listener.model.bag_GD, fit_listener(half, items, vocabulary).model.bag_GD)


class Made(Exception):
    """What a module for training was made with."""


def test_the_words_of_a_retriever_that_is_fitted_to_captions_are_those_of_train(
    vector_runs, monkeypatch, tmp_path
):
    def made(pairs, items, vocabulary, seed):
        raise Made(words(vocabulary))

    monkeypatch.setattr(linear_run, "pairs_with_features", lambda catalog, store, split: PAIRS[split])
    monkeypatch.setattr(linear_run, "fit_linear", made)
    options = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    with pytest.raises(Made) as found:
        linear_run.fit_to_captions(TrainRetriever(**options, epochs=0), tmp_path / "run")
    assert found.value.args == ({"is", "red"},)


def test_the_captions_of_a_captioner_are_judged_by_the_judge(vector_runs, monkeypatch):
    def made(*_, judge, **__):
        raise Made(judge)

    listeners = {LISTENER: ("the listener", []), JUDGE: ("the judge", [])}
    monkeypatch.setattr(captioner, "fit_listeners", lambda *_: listeners)
    monkeypatch.setattr(captioner, "CaptionerTraining", made)
    options = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    with pytest.raises(Made, match="the judge"):
        captioner.train_captioner(TrainCaptioner(**options))


@pytest.mark.parametrize("labelled", [True, False])
def test_a_captioner_is_validated_by_labels_if_there_are_any_and_its_steps_have_as_many_captions_as_asked(
    labelled, vector_runs, monkeypatch, tmp_path
):
    def made(module, model, batches, *, facts, monitor, **_):
        *_, words_BKL = next(iter(batches[0]))
        raise Made(module.truth, int((words_BKL[:, :, 0] != PAD).sum()), facts, monitor)

    data = tmp_path / "catalog"
    left_out = None if labelled else shutil.ignore_patterns("attributes")
    shutil.copytree(vector_runs.catalog, data, ignore=left_out)
    catalog = Catalog(data, "dresses")
    monkeypatch.setattr(captioner, "fit", made)
    given = {"data": data, "category": "dresses", "features": vector_runs.store, "run": tmp_path / "run"}
    with pytest.raises(Made) as found:
        captioner.train_captioner(TrainCaptioner(**given, batch_size=12, device="cpu"))
    truth, captions, facts, monitor = found.value.args
    assert (truth.labels == catalog.labels if labelled else truth is None) and monitor == "val_score"
    assert ("captions_true" in facts) == labelled and 0.5 < facts.get("captions_true", 1) <= 1
    assert abs(captions - 12) <= 2


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.1, 1), (0.25, 2), (0.5, 5)])
def test_a_share_of_the_items_is_held_out_and_one_at_least(share, count):
    names = [f"p{number}" for number in range(10)]
    held_out = chatsearcher_run._held_out(reversed(names), share, seed=0)
    assert len(held_out) == count and held_out < set(names)
    assert held_out == chatsearcher_run._held_out(names, share, seed=0)


class Tokens:
    """Tokens of a conversation: what was asked of it."""

    image = 9

    def caption(self, caption, item, image_first):
        ids = [9, 1, 2] if image_first else [1, 2, 9]
        return Tokenized(ids, [True] * 3, [item])

    def conversation(self, turns, positions, target=None):
        return (turns, target)


def test_captions_of_held_out_items_validate_and_end_before_their_picture():
    items = {name: ConversationItem(name, "", name, "catalog", "train") for name in "abc"}
    features = FrozenFeatures(list("abc"), torch.zeros(3, 1), {})
    data = SimpleNamespace(items=items)
    train, val = chatsearcher_run._captions(data, features, Tokens(), list("abc"), {"b"})
    assert [[one.images for one in both] for both in train] == [[[0], [0]], [[2], [2]]]
    assert [[one.ids for one in both] for both in train] == [[[9, 1, 2], [1, 2, 9]]] * 2
    assert val == [(Tokenized([1, 2], [True, True], []), 1)]


def test_conversations_about_held_out_targets_validate_and_do_not_have_their_target():
    samples = [
        ConversationSample(
            name,
            "t",
            "text",
            (ConversationTurn("user", (Text(name),)),),
            name,
            SampleOrigin("people"),
            "train",
        )
        for name in "abc"
    ]
    features = FrozenFeatures(list("abc"), torch.zeros(3, 1), {})
    train, val = chatsearcher_run._conversations(samples, features, Tokens(), {"b"})
    assert train == [[(samples[0].turns, "a")], [(samples[2].turns, "c")]]
    assert val == [((samples[1].turns, None), 1)]


@pytest.mark.parametrize("seed", range(4))
def test_a_dialog_begins_with_another_product_than_its_target(seed):
    first_N = fashion_iq._first_shown(40, seed)
    assert (first_N != torch.arange(40)).all() and len(first_N.unique()) > 20
    assert (first_N < 40).all() and torch.equal(first_N, fashion_iq._first_shown(40, seed))

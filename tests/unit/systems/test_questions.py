"""Which asker the options select, the answers it expects, and the search space of an encoder."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fashioniq import encoders
from fashioniq.askers import by_name
from fashioniq.askers.attribute_questions import CandidateAware, Known, Predicted
from fashioniq.askers.by_name import (
    answers_of,
    asker_of,
    endpoint,
    nothing_searched,
    searched_by_text,
    topics,
)
from fashioniq.askers.language_model import FALLBACK, AllAtOnce, FewShot
from fashioniq.config import Asking
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import Dialogue, Round
from fashioniq.encoders.protocol import UNLIMITED
from fashioniq.files import UserError
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.query import Query
from fashioniq.runs import search_space as space_module
from fashioniq.runs.search_space import read_unit_vectors, search_space, search_space_of_vectors
from tests.unit.shop import parted_by_bert

CPU = torch.device("cpu")


def first_questions(asker, batch=1):
    """What an asker asks after the caption, and after its first question."""
    turn = Turn(Message(), Message(texts=["a dress"] * batch))
    query = Query(torch.zeros(batch, 1))
    _, gallery = nothing_searched()
    talk = DialogState(batch, None, (turn,), (query,))
    first = list(asker.offer(talk, gallery).questions)
    turn = Turn(Message(questions=first), Message(texts=["yes"] * batch))
    return first, list(
        asker.offer(DialogState(batch, None, (*talk.turns, turn), (query, query)), gallery).questions
    )


@pytest.mark.parametrize("questioner", ["in-order", "shuffled"])
def test_attribute_questions_are_asked_in_the_order_of_the_topics_or_shuffled_by_dialog(shop, questioner):
    settings = Asking(questioner=questioner, seed=3, rounds=16)
    asker = asker_of(settings, shop.catalog, nothing_searched()[1])([0, 5])
    questions = [topic.question for topic in topics(shop.catalog)]
    first, second = first_questions(asker, 2)
    if questioner == "in-order":
        assert first == questions[:1] * 2 and second == questions[1:2] * 2
    else:
        assert {*first, *second} <= set(questions) and first != questions[:1] * 2
        again = asker_of(
            Asking(questioner=questioner, seed=3, rounds=1), shop.catalog, nothing_searched()[1]
        )([0, 5])
        assert first_questions(again, 2)[0] == first
        other = asker_of(
            Asking(questioner=questioner, seed=4, rounds=1), shop.catalog, nothing_searched()[1]
        )([0, 5])
        assert first_questions(other, 2) != (first, second)
    with pytest.raises(UserError, match="give 16 questions; give --rounds 16 or fewer"):
        asker_of(Asking(questioner=questioner, rounds=17), shop.catalog, nothing_searched()[1])


def test_recorded_questions_are_those_of_the_dialogs_with_these_numbers():
    recorded = [
        Dialogue("A", tuple(map(Round.read, ("a", "is it red? no", "is it long? yes")))),
        Dialogue("B", tuple(map(Round.read, ("b", "is it new? no", "it is short")))),
        Dialogue("C", tuple(map(Round.read, ("c", "is it old? no", "is it blue? no")))),
    ]
    settings = Asking(questioner="recorded", rounds=2)
    asker = asker_of(settings, None, nothing_searched()[1], recorded)([2, 1])
    assert first_questions(asker, 2) == (["is it old?", "is it new?"], ["is it blue?", FALLBACK])
    asker = asker_of(settings, None, nothing_searched()[1], recorded, answered=True)([1])
    assert first_questions(asker)[1] == [""]
    with pytest.raises(UserError, match="expected 3 recorded rounds per dialog, found 2; give fewer"):
        asker_of(Asking(questioner="recorded", rounds=3), None, nothing_searched()[1], recorded)
    with pytest.raises(UserError, match="found 0"):
        asker_of(settings, None, nothing_searched()[1], [])


@pytest.mark.parametrize(("questioner", "kind"), [("few-shot", FewShot), ("unanswered", AllAtOnce)])
def test_a_language_model_asks_at_an_endpoint_or_locally(monkeypatch, tmp_path, questioner, kind):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(by_name, "LocalLanguageModel", lambda name, device: (name, device))
    settings = Asking(questioner=questioner, language_model="local", rounds=4, device="cpu")
    asker_of_numbers = asker_of(settings, None, nothing_searched()[1])
    asker = asker_of_numbers([0])
    assert type(asker) is kind and asker.model == ("local", CPU) and asker_of_numbers([1]) is asker
    assert kind is FewShot or asker.count == 4
    settings = Asking(questioner=questioner, language_model="endpoint:some", cache=tmp_path)
    assert asker_of(settings, None, nothing_searched()[1])([0]).model.model == "some"
    with pytest.raises(UserError, match=f"--questioner {questioner} needs a language model"):
        asker_of(Asking(questioner=questioner), None, nothing_searched()[1])


def test_an_endpoint_has_the_limits_of_the_options(monkeypatch, tmp_path):
    monkeypatch.setattr(by_name, "Endpoint", lambda *given, **limits: (given, limits))
    settings = Asking(cache=tmp_path, timeout=3.0)
    assert endpoint(settings, "endpoint:endpoint:x") == (("endpoint:x", tmp_path), {"timeout": 3.0})


def test_candidate_aware_questions_know_the_labels_or_the_predictions_of_the_gallery(shop):
    settings = Asking(device="cpu", encoder=str(shop.run("encoder")), split="val", candidates=4, rounds=2)
    retriever, gallery = searched_by_text(settings, shop.catalog)
    assert gallery.items.ids == shop.catalog.ids("val") and retriever.write([["a", "b"]]) == ["a, b"]
    asker = asker_of(settings, shop.catalog, gallery)([0])
    assert isinstance(asker, CandidateAware) and asker.count == 4
    color = asker.topics["what color is it?"]
    topic = {one.question: one for one in topics(shop.catalog)}["what color is it?"]
    assert isinstance(color, Known)
    assert list(color.answers) == [topic.answer(shop.catalog.labels[name]) for name in gallery.items.ids]
    settings.predictor = shop.run("predictor")
    predicted = asker_of(settings, shop.catalog, gallery)([0]).topics["what color is it?"]
    assert isinstance(predicted, Predicted) and predicted.chance_NA.shape[0] == 6
    with pytest.raises(UserError, match="need --encoder"):
        searched_by_text(Asking(), shop.catalog)


def test_candidates_are_searched_with_the_separators_of_the_run(shop, tmp_path):
    settings = Asking(device="cpu", encoder=str(parted_by_bert(shop, tmp_path / "run")), split="val")
    dialog = [Round("a dress"), Round.of("is it red?", "no")]
    assert searched_by_text(settings, shop.catalog)[0].write([dialog]) == [
        "a dress [SEP] is it red? [SEP] no"
    ]


def test_predicted_answers_come_from_the_head_of_the_predictor(shop, monkeypatch):
    given = []
    monkeypatch.setattr(
        by_name,
        "questions_from_chances",
        lambda found, words, chance_NA: given.append((words, chance_NA)) or [0, 0],
    )
    ids = shop.catalog.ids("val")
    settings = Asking(predictor=shop.run("predictor"), rounds=2)
    assert answers_of(settings, shop.catalog, topics(shop.catalog), ids) == [0, 0]
    [(words, chance_NA)] = given
    weights = load_file(shop.run("predictor") / "weights.safetensors")
    features_ND = shop.features.items(ids).features_ND[:].double()
    logits_NA = features_ND @ weights["head.weight"].double().T + weights["head.bias"].double()
    np.testing.assert_allclose(chance_NA, logits_NA.sigmoid().numpy(), atol=1e-4)
    assert words == shop.features.attribute_words and chance_NA.dtype == np.float64
    with pytest.raises(UserError, match="answer 2 questions; give --rounds 2 or fewer"):
        answers_of(Asking(predictor=shop.run("predictor"), rounds=3), shop.catalog, [], ids)
    with pytest.raises(UserError, match="2 of the 8 products in the gallery have no features"):
        answers_of(settings, shop.catalog, [], [*ids, "one", "two"])


def test_features_of_another_predictor_are_refused(shop, tmp_path):
    run = shutil.copytree(shop.run("predictor"), tmp_path / "run")
    (run / "weights.safetensors").write_bytes(b"others")
    with pytest.raises(UserError, match="were not computed by"):
        answers_of(Asking(predictor=run), shop.catalog, [], ["D000000004"])


def test_questions_need_a_catalog_with_labels(shop, tmp_path):
    with pytest.raises(UserError, match="need a catalog; give --category"):
        topics(None)
    shutil.copytree(shop.data, tmp_path / "data", ignore=shutil.ignore_patterns("attributes", "features"))
    with pytest.raises(UserError, match=r"expected attribute labels of dresses .*; run extract-attributes"):
        topics(Catalog(tmp_path / "data", "dresses"))


def test_dialogs_without_a_search_have_no_products():
    retriever, gallery = nothing_searched()
    assert gallery.items.features_ND.shape == gallery.vectors_ND.shape == (0, 1) and gallery.items.ids == []
    assert retriever.start(3).shape == (3, 0)


# search spaces


class Some:
    """A pretrained encoder with the vectors of the shop's store."""

    limit = UNLIMITED

    def __init__(self, identity):
        self.identity = identity


def test_the_space_of_a_pretrained_encoder_is_that_of_its_store(shop, monkeypatch):
    ids, made = shop.catalog.ids("val"), Some(shop.features.facts)
    monkeypatch.setattr(
        encoders, "load", lambda name, **given: given.update(name=name) or asked.append(given) or made
    )
    asked = []
    found = search_space("some", [*ids, "unknown"], CPU, store=shop.store, weights="weights.pth")
    assert asked == [{"name": "some", "weights": "weights.pth", "device": CPU, "catalog": None}]
    assert found.ids == ids and found.encoder is made and found.joined == ", "
    features_ND = shop.features.items(ids).features_ND[:].float()
    assert torch.allclose(found.vectors_ND, torch.nn.functional.normalize(features_ND, dim=1), atol=1e-5)
    about = {"encoder": "some", "model": shop.features.encoder, "store": str(shop.store)}
    assert found.facts == about | {"weights": "weights.pth"}
    made.limit = UNLIMITED - 1
    found = search_space("some", ids, CPU, store=shop.store)
    assert found.facts == about | {"weights": "its own", "limit": UNLIMITED - 1}
    assert found.gallery().items.ids == ids and torch.equal(found.gallery().vectors_ND, found.vectors_ND)
    monkeypatch.setattr(space_module, "store_of_encoder", lambda *given: asked.append(given) or shop.features)
    search_space("some", ids, CPU, store=None, catalog=shop.catalog)
    assert asked[-1] == (shop.catalog, "some", made)
    asked.clear()
    search_space("some", ids, CPU, store=shop.store, catalog=shop.catalog)
    assert asked[0]["weights"] is None and len(asked) == 1


def test_a_search_space_needs_a_store_and_no_weights_besides_those_of_a_run(shop, monkeypatch):
    monkeypatch.setattr(encoders, "load", lambda name, **given: Some(shop.features.facts))
    for encoder in ("some", str(shop.run("encoder"))):
        with pytest.raises(UserError, match="expected the feature store of the images"):
            search_space(encoder, ["A"], CPU, store=None)
    with pytest.raises(UserError, match="which --weights cannot replace"):
        search_space(str(shop.run("encoder")), ["A"], CPU, store=shop.store, weights="some.pth")


def test_own_vectors_are_read_as_unit_vectors_of_the_expected_shape(tmp_path):
    path = tmp_path / "some.npy"
    np.save(path, np.array([[3.0, 4.0], [0.0, 2.0]], np.float16))
    found = search_space_of_vectors(path, ["A", "B"], CPU)
    assert (
        found.ids == ["A", "B"] and found.encoder is None and found.facts == {"encoder": f"vectors of {path}"}
    )
    assert torch.allclose(found.vectors_ND, torch.tensor([[0.6, 0.8], [0.0, 1.0]]))
    np.save(path, np.arange(1, 13).reshape(2, 3, 2))
    found_NTD = read_unit_vectors(path, (2, None, 2), "")
    assert found_NTD.shape == (2, 3, 2) and found_NTD.dtype == torch.float32
    assert torch.allclose(found_NTD[1, 2], torch.tensor([11.0, 12.0]) / torch.tensor([11.0, 12.0]).norm())


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.ones((3, 2)), r"expected 2 × D numbers \(images × D, .*found float64 of shape \(3, 2\)"),
        (np.ones((2, 2, 1)), "found float64 of shape"),
        (np.ones((2, 0)), "found float64 of shape"),
        (np.array([["a"], ["b"]]), "found <U1 of shape"),
        (np.array([[1.0, 2.0], [0.0, 0.0]]), "1 vectors are NaN, infinite or zero, the first in row 1"),
        (np.array([[np.nan, 2.0], [0.0, np.inf]]), "2 vectors are NaN, infinite or zero, the first in row 0"),
    ],
)
def test_own_vectors_that_cannot_be(tmp_path, array, found):
    np.save(tmp_path / "some.npy", array)
    with pytest.raises(UserError, match=found):
        search_space_of_vectors(tmp_path / "some.npy", ["A", "B"], CPU)


def test_a_file_that_is_no_array_is_told(tmp_path):
    (tmp_path / "some.npy").write_text(json.dumps([1]))
    with pytest.raises(UserError, match=r"expected a \.npy array in"):
        read_unit_vectors(tmp_path / "some.npy", (1,), "")

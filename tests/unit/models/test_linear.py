"""The linear retriever: ridge regression as scikit-learn solves it, and its query by turns."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch.nn.functional import normalize

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import UNKNOWN, Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Turn
from fashioniq.metrics.measures import percentile
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import LastShown, LinearRetriever, caption_ranks
from fashioniq.training import linear
from fashioniq.training.linear import (
    Fitting,
    bigrams_of,
    embed_by_principal_components,
    examples_of,
    fit_linear,
    new_linear,
)

WORDS = Vocabulary(["is", "red", "blue", "longer", "and"])
TEXTS = ["is red", "is blue", "longer and red", "is longer", "blue and longer"]


@pytest.fixture
def items():
    vectors_ND = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    return Items.without_attributes([str(number) for number in range(40)], vectors_ND)


@pytest.fixture
def pairs():
    return [Pair(str((7 * n + 1) % 40), str(n), (TEXTS[n % 5], TEXTS[(n * n + 1) % 5])) for n in range(40)]


def said(items, shown, text):
    item_B = torch.tensor([shown])
    return Turn(Message(item_B=item_B), Message(words_BL=WORDS.encode([text], 8)), items.inputs(item_B))


def test_the_bag_has_each_known_word_and_bigram_once(pairs):
    model = new_linear(examples_of(pairs), WORDS, 5, least=1)
    bag_G = model.bag(WORDS.encode(["is red is red unheard"], 8))[0]
    codes = model.bigram_G[bag_G[len(WORDS) :] == 1].tolist()
    ids = {word: WORDS.words.index(word) for word in ("is", "red")}
    assert bag_G[: len(WORDS)].nonzero()[:, 0].tolist() == sorted(ids.values())
    assert codes == [len(WORDS) * ids["is"] + ids["red"]]  # "red is" was never said in training
    assert not model.bag(torch.full((1, 3), UNKNOWN)).any()


@pytest.mark.parametrize("bigrams", [True, False])
@pytest.mark.parametrize("length", [1, 2, 8])
def test_a_bag_times_the_vectors_of_words_needs_no_bag(pairs, bigrams, length):
    model = new_linear(examples_of(pairs), WORDS, 5, least=1 if bigrams else 1000)
    assert bool(len(model.bigram_G)) == bigrams
    torch.nn.init.normal_(model.bag_GD)
    texts = ["is red is red unheard", "", "red", "red red red", *TEXTS]
    words_BL = WORDS.encode(texts, length)
    gradients = []
    for sum_BD in (model.bag_sum(words_BL), model.bag(words_BL) @ model.bag_GD):
        (gradient_GD,) = torch.autograd.grad(sum_BD.square().sum(), model.bag_GD)
        gradients.append((sum_BD, gradient_GD))
    torch.testing.assert_close(*gradients)


def test_the_weights_are_those_of_ridge_regression(items, pairs):
    model = new_linear(examples_of(pairs), WORDS, 5, least=1)
    examples = examples_of(pairs)
    embed_by_principal_components(model, items.features_ND)
    Fitting(model, WORDS, items, examples).solve(3.0)
    vectors_ND = model.embed_images(items.features_ND).detach()
    bags_EG = model.bag(WORDS.encode([text for _, text, _ in examples], 64))
    shown, target = (
        vectors_ND[[int(example[side]) for example in examples]].double().numpy() for side in (0, 2)
    )
    inputs = np.hstack([shown, bags_EG.double().numpy()])
    expected = Ridge(alpha=3.0).fit(inputs, target)
    weights = torch.cat([model.image_DD, model.bag_GD]).detach().double().numpy()
    np.testing.assert_allclose(weights, expected.coef_.T, atol=1e-5)
    np.testing.assert_allclose(model.bias_D.detach().double().numpy(), expected.intercept_, atol=1e-5)


def test_each_caption_and_both_joined_are_examples():
    pairs = [Pair("T", "C", ("is red", "is long")), Pair("T", "C", ("is blue",)), Pair(None, "C", ("is",))]
    assert examples_of(pairs) == [
        ("C", "is red", "T"),
        ("C", "is long", "T"),
        ("C", "is red and is long", "T"),
        ("C", "is blue", "T"),
    ]


def test_two_captions_of_32_words_are_heard_when_they_are_joined_and_no_more(pairs, monkeypatch):
    monkeypatch.setattr(linear, "_AT_A_TIME", 2)
    model = new_linear(examples_of(pairs), WORDS, 5)
    first, second = "is " * 31 + "red", "is " * 30 + "blue"
    bags_EG = linear._bags(model, WORDS, [first, f"{first} and {second}", f"{first} and is {second}"])
    heard = [
        [word for word in ("red", "and", "blue") if bag_G[WORDS.words.index(word)]]
        for bag_G in bags_EG.toarray()
    ]
    assert heard == [["red"], ["red", "and", "blue"], ["red", "and"]]


def test_queries_of_earlier_turns_count_half_as_much_each(items, pairs):
    model, found = fit_linear(pairs, items, WORDS, 0)
    assert found["penalty"] > 0 and 0 <= found["held_out_P"] <= 100
    turns = [said(items, number, text) for number, text in enumerate(TEXTS[:3])]
    alone = [model.step(model.start(1), turn)[0] for turn in turns]
    state = model.start(1)
    for turn in turns:
        query_BD, state = model.step(state, turn)
    torch.testing.assert_close(query_BD, normalize(alone[2] + alone[1] / 2 + alone[0] / 4))


def test_half_the_shown_item_is_added_to_the_prediction(items):
    model = new_linear([], WORDS, 5)  # no weights: it predicts zero
    with torch.no_grad():
        model.bias_D.copy_(torch.arange(5.0))
    turn = said(items, 3, "is red")
    query_BD, _ = model.step(model.start(1), turn)
    image_BD = model.embed_images(items.features_ND[3:4])
    torch.testing.assert_close(query_BD, normalize(torch.arange(5.0) + image_BD / 2))


def test_the_embedding_keeps_the_angles_between_centered_features_at_full_width(items):
    model = new_linear([], WORDS, 5)
    embed_by_principal_components(model, items.features_ND)
    unit_ND = normalize(items.features_ND)
    vectors_ND, centered_ND = model.embed_images(items.features_ND), normalize(unit_ND - unit_ND.mean(0))
    torch.testing.assert_close(vectors_ND @ vectors_ND.T, centered_ND @ centered_ND.T)


def test_the_embedding_keeps_the_components_in_which_the_products_differ_most():
    spread_D = torch.tensor([0.1, 1.0, 0.01, 0.5, 0.2])
    noise_ND = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    model = new_linear([], WORDS, 5, width=2)
    embed_by_principal_components(model, 10 * torch.eye(5)[0] + noise_ND * spread_D)
    assert model.image.weight.abs().argmax(1).tolist() == [1, 3]


def test_a_bigram_that_a_caption_repeats_is_counted_once():
    repeated, again = ("0", "red red red blue", "1"), ("0", "red blue", "1")
    red, blue = (WORDS.words.index(word) for word in ("red", "blue"))
    assert bigrams_of([repeated, again], WORDS) == [len(WORDS) * red + blue]


def test_the_penalty_is_chosen_on_pairs_that_are_not_fitted(items, monkeypatch):
    """With a word of its own for each pair, a model that has seen a pair finds its target."""
    monkeypatch.setattr(linear, "PENALTIES", (1e-3,))
    words = Vocabulary([f"word{n}" for n in range(40)])
    pairs = [Pair(str((7 * n + 1) % 40), str(n), (f"word{n}",)) for n in range(40)]
    model, found = fit_linear(pairs, items, words, 0)
    gallery = Gallery(items, items.embedded(model.embed_images))
    rank_N = caption_ranks(model, words, gallery, examples_of(pairs))
    assert found["held_out_P"] < 90 and percentile(rank_N, 40) > 99


def test_of_many_products_every_nth_gives_the_embedding(items, monkeypatch):
    monkeypatch.setattr(linear, "SAMPLED", 15)
    fitted, expected = (new_linear([("0", "is red", "1")], WORDS, 5) for _ in range(2))
    linear.start_linear(fitted, [], [("0", "is red", "1")], items, WORDS)
    embed_by_principal_components(expected, items.features_ND[::3])
    assert torch.equal(fitted.image.weight, expected.image.weight)


def test_the_baseline_is_the_item_shown_last(items):
    model = LastShown(5)
    state = model.start(1)
    for shown in (3, 8):
        query_BD, state = model.step(state, said(items, shown, "is red"))
    torch.testing.assert_close(query_BD, model.embed_images(items.features_ND[8:9]))


def test_the_words_of_an_unknown_order_are_still_a_bag():
    model = LinearRetriever(
        RetrieverConfig(kind="linear", width=5), vocabulary=len(WORDS), features=5, bigrams=0, max_words=8
    )
    assert model.bag(WORDS.encode(["red is"], 8)).sum() == 2


def test_of_too_many_bigrams_the_most_frequent_are_kept(monkeypatch):
    red, blue = (WORDS.words.index(word) for word in ("red", "blue"))
    pairs = [("0", "red red", "1")] * 2 + [("0", "red blue", "1")] * 3 + [("0", "blue blue", "1")] * 3
    codes = [len(WORDS) * one + other for one, other in ((red, red), (red, blue), (blue, blue))]
    assert bigrams_of(pairs, WORDS) == sorted(codes)
    monkeypatch.setattr(linear, "MOST_BIGRAMS", 1)
    assert bigrams_of(pairs, WORDS) == [min(codes[1:])]
    assert bigrams_of(pairs, WORDS, least=4) == []


@pytest.mark.parametrize(("count", "held"), [(40, 4), (39, 3), (5, 1), (1, 1)])
def test_one_pair_in_ten_is_held_out_and_one_at_least(count, held, monkeypatch):
    seen = []
    monkeypatch.setattr(
        linear, "_held_out_percentile", lambda model, words, gallery, held_out: seen.append(held_out) or 0.0
    )
    pairs = [Pair(str(n % 7), str((n + 1) % 7), ("red",)) for n in range(count)]
    items = Items.without_attributes([str(n) for n in range(7)], torch.eye(7))
    fit_linear(pairs, items, WORDS, seed=0)
    assert [len(some) for some in seen] == [held] * len(linear.PENALTIES)


def test_what_else_is_said_about_a_pair_is_held_out_with_it(monkeypatch):
    fitted, held = [], []

    class Fitting(linear.Fitting):
        def __init__(self, model, vocabulary, items, examples):
            fitted.append({(candidate, target) for candidate, _, target in examples})
            super().__init__(model, vocabulary, items, examples)

    monkeypatch.setattr(linear, "Fitting", Fitting)
    monkeypatch.setattr(
        linear, "_held_out_percentile", lambda model, words, gallery, held_out: held.append(held_out) or 0.0
    )
    names = [str(n) for n in range(21)]
    pairs = [Pair(other, one, (word,)) for one, other in pairwise(names) for word in ("red", "blue")]
    fit_linear(pairs, Items.without_attributes(names, torch.eye(21)), WORDS, seed=0)
    apart = {(pair.candidate, pair.target) for pair in held[0]}
    assert len(held[0]) == 4 and fitted == [set(pairwise(names)) - apart, set(pairwise(names))]


def test_bigrams_of_two_examples_are_learned():
    for times, count in ((1, 0), (2, 1)):
        assert len(new_linear([("0", "red blue", "1")] * times, WORDS, 5).bigram_G) == count

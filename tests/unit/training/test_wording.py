"""What words add to a score: the model of labels learns, and the weights follow from whether the labels are right."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.wording import INTERPRETED, OUTWEIGHS, Weights
from fashioniq.data.words import Vocabulary
from fashioniq.loop.weighing import LEXICAL, MEMORY, WISHES
from fashioniq.models.labels import LabelModel
from fashioniq.runs.weights import load_wording
from fashioniq.training.wording import (
    HALFWAY,
    TRAINED,
    fit_label_model,
    fit_labels,
    fit_weights,
    fit_wording,
)

COLORS = ("red", "black", "pink", "green")
PATTERNS = ("floral", "striped", "plaid", "polka dot")
IDS = [f"p{number}" for number in range(160)]
SEEN = [*COLORS, *PATTERNS]


def right_labels():
    draw = random.Random(0)
    return {name: [["dress"], [draw.choice(COLORS), draw.choice(PATTERNS)], [], [], [], []] for name in IDS}


RIGHT = right_labels()


def shuffled(labels, seed=1):
    names = random.Random(seed).sample(list(labels), len(labels))
    return {name: labels[other] for name, other in zip(labels, names, strict=True)}


def catalog_of(labels, titles=None):
    titles = titles or {}
    texts = {"titles": titles, "descriptions": {}}
    ids = {"ids": lambda _: IDS, "all_ids": lambda: IDS}
    return SimpleNamespace(
        category="dresses", labels=labels, written_labels=labels, **texts, images={}, language="en", **ids
    )


def looks(labels, noise=0.3):
    """Features that have the labels in them."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(len(SEEN), 12, generator=generator)
    has_NL = torch.tensor([[float(label in labels[name][1]) for label in SEEN] for name in IDS])
    return Items.without_attributes(
        IDS, has_NL @ directions + noise * torch.randn(160, 12, generator=generator)
    )


def random_looks():
    return Items.without_attributes(IDS, torch.randn(160, 12, generator=torch.Generator().manual_seed(3)))


def pairs_of(labels, count=200):
    """Captions that say what the target has, in the words of its true labels."""
    draw, found = random.Random(2), []
    for _ in range(count):
        candidate, target = draw.sample(IDS, 2)
        color, pattern = labels[target][1]
        found.append(Pair(target, candidate, (f"is {color}", f"is {color} and {pattern}")))
    return found


VOCABULARY = Vocabulary(["is", "and", *COLORS, *PATTERNS[:3]])
PAIRS = pairs_of(RIGHT)


def right_share(model, items, labels):
    """Share of the products whose two most probable labels are their own."""
    with torch.no_grad():
        best_N2 = model.probabilities(items.features_ND).topk(2, dim=1).indices
    pairs = zip(IDS, best_N2.tolist(), strict=True)
    return sum({SEEN[one] for one in best} == set(labels[name][1]) for name, best in pairs) / len(IDS)


def test_the_model_of_labels_learns_labels_that_can_be_seen():
    items = looks(RIGHT)
    model = fit_labels(catalog_of(RIGHT), items, SEEN, 0)
    assert right_share(model, items, RIGHT) > 0.95


def test_shuffled_labels_are_not_learned():
    """What is left is the share of each label."""
    items, labels = looks(RIGHT), shuffled(RIGHT)
    model = fit_labels(catalog_of(labels), items, SEEN, 0)
    assert right_share(model, items, labels) < 0.4
    with torch.no_grad():
        chance_NL = model.probabilities(items.features_ND)
    share_L = torch.tensor([[float(label in labels[name][1]) for label in SEEN] for name in IDS]).mean(0)
    assert (chance_NL.mean(0) - share_L).abs().max() < 0.02
    assert (chance_NL - share_L).abs().mean() < 0.1


def test_the_length_of_features_and_the_scale_of_a_dimension_do_not_count():
    items = looks(RIGHT)
    model = fit_labels(catalog_of(RIGHT), items, SEEN, 0)
    with torch.no_grad():
        torch.testing.assert_close(
            model(7 * items.features_ND), model(items.features_ND), atol=1e-3, rtol=1e-3
        )
    constant = Items.without_attributes(IDS, torch.ones(160, 3))
    with torch.no_grad():
        assert fit_labels(catalog_of(RIGHT), constant, SEEN, 0)(constant.features_ND).isfinite().all()


@pytest.mark.parametrize("labelled", [0, 1, 2])
def test_too_few_labelled_products_leave_a_model_that_says_one_half(labelled):
    some = {name: RIGHT[name] for name in IDS[:labelled]}
    model = fit_labels(catalog_of(some), looks(RIGHT), SEEN, 0)
    with torch.no_grad():
        chance_NL = model.probabilities(looks(RIGHT).features_ND)
    assert chance_NL.isfinite().all() and (labelled == 2 or (chance_NL == 0.5).all())


@pytest.mark.parametrize(("noise", "decay"), [(0.3, 1e-4), (1.5, 1e-3), (3.0, 1e-2)])
def test_the_less_can_be_seen_of_labels_the_more_the_weights_of_their_model_decay(noise, decay):
    items = looks(RIGHT, noise)
    model, expected = fit_labels(catalog_of(RIGHT), items, SEEN, 0), LabelModel(12, len(SEEN))
    expected.standardize(items.features_ND)
    has_NL = torch.tensor([[float(label in RIGHT[name][1]) for label in SEEN] for name in IDS])
    fit_label_model(expected, items.features_ND, has_NL, decay)
    torch.testing.assert_close(model.linear.weight, expected.linear.weight, atol=1e-3, rtol=0)


def test_products_without_labels_are_left_out_of_the_fit():
    half = {name: RIGHT[name] for name in IDS[::2]}
    items = looks(RIGHT)
    assert right_share(fit_labels(catalog_of(half), items, SEEN, 0), items, RIGHT) > 0.8


def test_right_labels_make_wishes_outweigh_any_similarity():
    weights, figures = fit_weights(catalog_of(RIGHT), random_looks(), PAIRS, VOCABULARY, 0, pixels={})
    assert weights.wanted == weights.denied == WISHES[-1] and weights.lexical in LEXICAL
    assert weights.memory == 1  # what outweighs any similarity holds in all later turns
    assert weights.interpreted == INTERPRETED < weights.wanted
    assert figures["near"] > figures["without"] and figures["captions"] == 2 * len(PAIRS) / 5


def test_the_words_at_the_end_of_long_captions_are_heard_too():
    """Up to twice as many as the retriever reads of a single caption."""
    long = [replace(pair, captions=tuple(f"{'and ' * 32}{text}" for text in pair.captions)) for pair in PAIRS]
    short, long = (
        fit_weights(catalog_of(RIGHT), looks(RIGHT), pairs, VOCABULARY, 0, pixels={})[1]["without"]
        for pairs in (PAIRS, long)
    )
    assert long > short - 0.1 > 0.4  # of those that end before the telling words: 0.18


def test_wishes_that_the_captions_never_have_are_obeyed():
    pairs = [replace(pair, captions=("is nicer",)) for pair in PAIRS]
    weights, figures = fit_weights(catalog_of(RIGHT), looks(RIGHT), pairs, VOCABULARY, 0, pixels={})
    assert weights.wanted == weights.denied == WISHES[-1] and figures["near"] == figures["without"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shuffled_labels_get_no_weight_or_a_small_one_where_pictures_show_better(seed):
    """Where the vectors are no better than chance, wrong labels cost nothing, and cannot be told from right ones."""
    catalog = catalog_of(shuffled(RIGHT, seed))
    weights, _ = fit_weights(catalog, looks(RIGHT), PAIRS, VOCABULARY, 0, pixels={})
    assert weights.wanted <= 0.05 and weights.full <= 0.05
    assert weights.lexical <= 0.05  # of BM25, of which no share is taken; it also reads the shuffled labels


def test_small_weights_fade_and_those_of_wishes_are_smaller_for_vectors_that_are_trained_further():
    third = random.Random(4).sample(IDS, 48)
    labels = RIGHT | shuffled({name: RIGHT[name] for name in third})
    whole, halfway, trained = (
        fit_weights(catalog_of(labels), looks(RIGHT), PAIRS[:60], VOCABULARY, 0, pixels={}, share=share)[0]
        for share in (1, HALFWAY, TRAINED)
    )
    assert 0 < whole.wanted < WISHES[-1] and whole.memory == trained.memory == MEMORY < 1
    assert trained.lexical == pytest.approx(whole.lexical * TRAINED, abs=1e-4)
    assert trained.wanted == pytest.approx(whole.wanted * TRAINED, abs=1e-4)
    assert halfway.wanted == pytest.approx((trained.wanted + whole.wanted) / 2, abs=1e-4)
    assert trained.full == halfway.full == whole.full == whole.wanted
    assert trained.denied == halfway.denied == whole.denied == OUTWEIGHS  # captions hardly deny anything


def test_titles_that_captions_repeat_are_weighted_more_than_other_titles():
    told = {name: f"{' '.join(lists[1])} dress" for name, lists in RIGHT.items()}
    names = random.Random(0).sample(IDS, len(IDS))
    others = {name: told[other] for name, other in zip(IDS, names, strict=True)}
    # else captions would say labels
    grey = {name: [["dress"], ["grey", "solid"], [], [], [], []] for name in IDS}
    with_titles, with_others = (
        fit_weights(catalog_of(grey, titles), looks(RIGHT), PAIRS, VOCABULARY, 0, pixels={})[0].lexical
        for titles in (told, others)
    )
    assert with_titles > 2 * with_others and with_others <= 0.01


def test_the_same_seed_gives_the_same_files_and_leaves_the_random_numbers_of_a_training_alone(tmp_path):
    told = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        torch.manual_seed(7)
        told.append(fit_wording(tmp_path / name, catalog_of(RIGHT), looks(RIGHT), PAIRS, VOCABULARY, seed=5))
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))
    assert told[0] == told[1] and f"{len(SEEN)} labels" in told[0]
    for file in ("wording.json", "labels.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("pairs", [[], PAIRS[:1], [Pair("elsewhere", "p1", ("is red",))]])
def test_without_captions_words_count_by_default(pairs, tmp_path):
    weights, figures = fit_weights(catalog_of(RIGHT), random_looks(), pairs, VOCABULARY, 0, pixels={})
    assert weights == Weights(LEXICAL[1], WISHES[-1], WISHES[-1], interpreted=INTERPRETED) and figures == {}
    fit_wording(tmp_path, catalog_of(RIGHT), looks(RIGHT), pairs, VOCABULARY, seed=0)
    about, _ = load_wording(tmp_path, 12)
    assert about.weights == weights and set(about.labels) == set(SEEN)


@pytest.mark.parametrize(("products", "learned"), [(4, []), (5, ["glitter"])])
def test_a_label_is_learned_if_five_products_have_it(products, learned, tmp_path):
    labels = {
        name: [["dress"], ["glitter"] * (row < products), [], [], [], []] for row, name in enumerate(IDS)
    }
    fit_wording(tmp_path, catalog_of(labels), random_looks(), [], VOCABULARY, seed=0)
    assert load_wording(tmp_path, 12)[0].labels == learned


def test_a_catalog_without_labels_and_titles_has_a_wording_too(tmp_path):
    fit_wording(tmp_path, catalog_of({}), random_looks(), [], VOCABULARY, seed=0)
    about, model = load_wording(tmp_path, 12)
    assert about.labels == [] and model.probabilities(torch.randn(2, 12)).shape == (2, 0)

"""The sentences that end a training."""

import re
import shutil
from types import SimpleNamespace

import pytest
import torch

from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.features.store import FeatureStore
from fashioniq.training import verdict
from fashioniq.training.verdict import advice, captioner_verdict, floor_of, retriever_verdict


@pytest.mark.parametrize(
    ("p", "people", "alone", "said"),
    [
        (50.5, 80, 40, "not usable: its captions do not lead a listener to the target"),
        (60, 80, 60, "not usable: its captions do not lead a listener to the target"),
        (64.9, 80, 60, "weak: its captions say little that the product shown does not"),
        (65, 80, 60, "usable: its captions say less than the recorded ones"),
        (
            75.9,
            80,
            60,
            "usable: its captions say less than the recorded ones",
        ),  # 80 % of 20 above the product alone
        (76, 80, 60, "good: its captions say about as much as the recorded ones"),
        (77, 80, 60, "good: its captions say about as much as the recorded ones"),
    ],
)
def test_a_captioner_is_compared_with_people_and_with_the_product_shown(p, people, alone, said):
    figures = f" (P {p:.1f}, with the recorded captions {people:.1f}, without a caption {alone:.1f})"
    assert captioner_verdict(p, people, alone, 1000) == said + figures


@pytest.mark.parametrize(
    ("p", "recall", "floor", "said"),
    [
        (50.5, {"recorded": 4.0}, None, "not usable: it ranks the target no better than chance"),
        (
            95,
            {"captioner": 60.0, "recorded": 9.0},
            12.0,
            "weak: recorded captions help it less than the product",
        ),
        (
            80,
            {"captioner": 60.0, "differences": 5.0},
            None,
            "weak: it seldom finds the target with differences",
        ),
        (80, {"captioner": 7.999}, None, "weak: it seldom finds the target with captioner"),
        (80, {"captioner": 8.0}, None, "usable with the users of its training"),  # twice of 10 in 250
        (70, {"captioner": 60.0}, None, "weak: it seldom finds the target with all users"),
        (75, {"captioner": 60.0}, None, "usable with the users of its training"),
        (
            80,
            {"captioner": 60.0},
            None,
            "usable with the users of its training; evaluate it with other users, too",
        ),
        (
            95,
            {"captioner": 60.0, "recorded": 30.0},
            12.0,
            "good with the users of its training; evaluate it with other users, too",
        ),
    ],
)
def test_a_retriever_is_compared_with_chance_and_the_product_shown(p, recall, floor, said):
    assert retriever_verdict(p, 1000, recall, products=250, floor=floor).startswith(said)


@pytest.mark.parametrize("products", [2, 9, 20])
@pytest.mark.parametrize("p", [50.0, 99.0])
def test_nothing_is_judged_among_few_products(p, products):
    told = retriever_verdict(p, 40, {"recorded": 90.0}, products=products, floor=95.0)
    assert told.startswith(f"not judged: val has only {products} products")
    assert not re.search("weak|usable|good|captions", told)
    assert retriever_verdict(95, 1000, {"recorded": 99.0}, products=21, floor=None).startswith("good")


@pytest.mark.parametrize(("products", "chance"), [(9, 100.0), (10, 100.0), (16, 62.5), (20_000, 0.1)])
def test_random_rankings_find_ten_of_the_products(products, chance):
    told = retriever_verdict(80, 1000, {"captioner": 60.0}, products=products, floor=None)
    assert f"R@10 captioner 60.0; by chance {chance})" in told


GOOD = "good with the users of its training; evaluate it with other users, too"
SHOWN = "; by chance 4.0, the product shown without recorded captions 12.0)"


@pytest.mark.parametrize(
    ("p", "recall", "floor", "said"),
    [
        (50, {"a": 60}, None, "not usable: it ranks the target no better than chance (P 50.0, by chance 50)"),
        (90, {"a": 8}, None, f"{GOOD} (R@10 a 8.0; by chance 4.0)"),
        (89.9, {"a": 8}, None, f"{GOOD.replace('good', 'usable')} (R@10 a 8.0; by chance 4.0)"),
        (74.9, {"a": 8}, None, "weak: it seldom finds the target with all users (R@10 a 8.0; by chance 4.0)"),
        (
            90,
            {"a": 7.9, "b": 60, "c": 0},
            None,
            "weak: it seldom finds the target with a and c (R@10 a 7.9, b 60.0, c 0.0; by chance 4.0)",
        ),
        (90, {"a": 9}, 12, f"{GOOD} (R@10 a 9.0{SHOWN}"),
        (90, {"recorded": 12}, 12, f"{GOOD} (R@10 recorded 12.0{SHOWN}"),
        (
            90,
            {"a": 60, "recorded": 11.9},
            12,
            "weak: recorded captions help it less than the product shown alone (R@10 a 60.0, recorded 11.9"
            + SHOWN,
        ),
    ],
)
def test_the_figures_decide_and_are_told_beside(p, recall, floor, said):
    assert retriever_verdict(p, 1000, recall, products=250, floor=floor) == said


def test_the_floor_is_a_search_with_the_vector_of_the_product_shown():
    vectors_ND = torch.eye(30)
    vectors_ND[1] = vectors_ND[0] + 0.1 * vectors_ND[1]  # near product 0; all others are as far
    items = Items.without_attributes([str(number) for number in range(30)], vectors_ND)
    target_R, first_R = (
        torch.tensor([1, 29, 9, 10]),
        torch.zeros(4, dtype=torch.long),
    )  # ranks 1, 29, 9 and 10
    assert floor_of(target_R, first_R, items) == 50


def test_the_floor_is_a_search_by_angles():
    """Product n lies at n / 30 of a right angle, so that the ranks by angle from product 0 are the numbers."""
    angle_N = torch.arange(30) * torch.pi / 60
    lengths_N1 = torch.tensor([1.0, 100.0]).repeat(15).unsqueeze(1)
    directions_ND = torch.stack([angle_N.cos(), angle_N.sin()], 1)
    items = Items.without_attributes([*map(str, range(30))], lengths_N1 * directions_ND)
    target_R, first_R = torch.tensor([1, 7, 9, 10]), torch.zeros(4, dtype=torch.long)
    assert floor_of(target_R, first_R, items) == 75


def test_the_advice_for_a_small_catalog_is_more_products():
    catalog = SimpleNamespace(
        captions_origin="titles", labels={}, pairs=lambda _: [], ids=lambda _: range(20)
    )
    told = advice(catalog, SimpleNamespace(has_random_weights=False))
    assert told == "; what would help most: more products"


def test_the_advice_counts_the_captions_of_the_catalog(vector_runs, tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "SMALL", 0)
    store, catalog = FeatureStore(vector_runs.store), Catalog(vector_runs.catalog, "dresses")
    assert f"more captions; {len(catalog.pairs('train'))} pairs have some" in advice(catalog, store)
    shutil.copytree(catalog.root, tmp_path / "catalog", ignore=lambda *_: ["captions"])
    assert "more captions; 0 pairs have some" in advice(Catalog(tmp_path / "catalog", "dresses"), store)


@pytest.mark.parametrize(
    ("random", "origin", "labels", "pairs", "found"),
    [
        (True, "human", {}, 0, "features of a trained encoder"),
        (False, "titles", {}, 1000, "captions by people"),
        (False, "titles", {"A": [[]]}, 1000, "captions by people"),
        (False, "titles", {"A": [[], ["red"]]}, 299, "more captions; 299 pairs"),
        (False, "human", {}, 299, "more captions; 299 pairs"),
        (False, "human", {}, 300, None),
        (False, "titles", {"A": [[], ["red"]]}, 300, None),
    ],
)
def test_the_advice_is_what_a_catalog_lacks_most(random, origin, labels, pairs, found):
    catalog = SimpleNamespace(
        captions_origin=origin, labels=labels, pairs=lambda _: range(pairs), ids=lambda _: range(21)
    )
    told = advice(catalog, SimpleNamespace(has_random_weights=random))
    assert told == "" if found is None else told.startswith(f"; what would help most: {found}")

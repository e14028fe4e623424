"""Counts of attributes, sizes, stock and prices among the products found."""

from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from fashioniq.data.languages import language
from fashioniq.data.offers import Offer
from fashioniq.data.prices import price_ranges
from fashioniq.service.facets import FEW, MOST_WORDS, Facets
from fashioniq.service.product_columns import ProductColumns
from fashioniq.service.schemas import FiltersBody
from fashioniq.service.store import ProductRow

ENGLISH = language("en")
IDS = [f"p{number}" for number in range(6)]
LABELS = {
    "p0": [["dress"], ["red", "striped"], [], ["mini"], [], []],
    "p1": [["dress"], ["red"], [], ["maxi"], [], []],
    "p2": [["dress"], ["navy blue", "odd"], [], ["mini", "odd"], [], []],
    "p3": [["dress"], ["red", "red"], ["bast"], [], [], []],
    "other": [["dress"], ["white"], [], [], [], []],
}


def mask(*positions, count=6):
    found = np.zeros(count, bool)
    found[list(positions)] = True
    return found


def test_words_are_counted_by_family_the_most_frequent_first():
    facets = Facets(IDS, LABELS, ENGLISH)
    everything = facets.counts(mask(*range(6)))
    assert everything == {
        "garment": [("dress", 4)],
        "colour": [("red", 3), ("navy blue", 1)],
        "length": [("mini", 2), ("maxi", 1)],
        "pattern": [("striped", 1)],
        "fabric": [("bast", 1)],
        "other texture": [("odd", 1)],
    }
    assert facets.counts(mask(0, 1, 2)) == {
        "colour": [("red", 2), ("navy blue", 1)],
        "length": [("mini", 2), ("maxi", 1)],
        "pattern": [("striped", 1)],
        "other texture": [("odd", 1)],
    }, "all three are dresses"
    assert facets.counts(mask(0)) == facets.counts(mask()) == facets.counts(mask(4, 5)) == {}
    assert Facets([], {}, ENGLISH).counts(mask(count=0)) == Facets(IDS, {}, ENGLISH).counts(mask(1)) == {}


def test_learned_labels_are_counted_beside_those_of_the_catalog():
    labels = {"p0": [["dress"], ["red"], [], [], [], []]}
    learned = [
        ("long sleeve", "sleeves", np.array([True, False, True])),
        ("red", "colour", np.array([False, True, False])),
    ]
    found = Facets(["p0", "p1", "p2"], labels, ENGLISH, learned).counts(np.ones(3, bool))
    assert found == {"sleeves": [("long sleeve", 2)], "colour": [("red", 2)], "garment": [("dress", 1)]}


def test_a_german_catalog_has_the_families_of_its_words():
    labels = {"p0": [["kleid"], ["rot"], [], [], [], []], "p1": [["kleid"], ["blau"], [], [], [], []]}
    found = Facets(IDS, labels, language("de")).counts(mask(0, 1))
    assert [sorted(words) for words in found.values()] == [[("blau", 1), ("rot", 1)]]


@pytest.mark.parametrize("count", [700, 2048])
def test_every_mask_has_the_counts_of_a_plain_loop(count):
    rng = np.random.default_rng(count)
    words = [*list(ENGLISH.group_of)[:150], *(f"rare{number}" for number in range(150))]
    share = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), (count, 8), p=share / share.sum())
    ids = [str(number) for number in range(count)]
    labels = {
        name: [[], [words[one] for one in row], [], [], [], []] for name, row in zip(ids, drawn, strict=True)
    }
    facets = Facets(ids, labels, ENGLISH)
    for size in (0, 1, count // FEW, count // FEW + 1, count // 2, count - 1, count):
        chosen = rng.choice(count, size, replace=False)
        plain = {}
        for row in drawn[chosen]:
            for word in {words[one] for one in row}:
                group = ENGLISH.group_of.get(word, ENGLISH.other[1])
                family = plain.setdefault(group.family, {})
                family[word] = family.get(word, 0) + 1
        found = facets.counts(mask(*chosen, count=count))
        for family, counts in plain.items():
            right = sorted((number for number in counts.values() if number < size), reverse=True)[:MOST_WORDS]
            shown = found.get(family, [])
            assert [number for _, number in shown] == right
            assert all(counts[word] == number for word, number in shown)
        assert set(found) <= set(plain)


@pytest.fixture
def shelf():
    offers = {
        "p0": Offer(price_minor=1990, currency="EUR", sizes=("M", "S"), in_stock=True),
        "p1": Offer(price_minor=2990, currency="EUR", sizes=("XL", "M"), in_stock=False),
        "p2": Offer(price_minor=4990, currency="EUR", sizes=("40", "38")),
        "p3": Offer(price_minor=9990, currency="EUR", in_stock=True),
        "p4": Offer(price_minor=100, currency="USD"),
    }
    return ProductColumns({name: number for number, name in enumerate(IDS)}, offers)


def test_sizes_stock_and_prices_are_counted(shelf):
    counts = shelf.counts(mask(*range(6)))
    assert counts.sizes == [("S", 1), ("M", 2), ("XL", 1), ("38", 1), ("40", 1)] and counts.in_stock == 2
    assert sum(count for _, count in counts.prices) == 4 and {
        found.currency for found, _ in counts.prices
    } == {"EUR"}
    for found, count in counts.prices:  # as the filter finds them
        bounds = {name: getattr(found, name) for name in ("gte", "lte") if getattr(found, name) is not None}
        assert shelf.allowed(FiltersBody.model_validate({"price": {**bounds, "currency": "EUR"}}))[1] == count
    some = shelf.counts(mask(1, 4, 5))
    assert some.sizes == [("M", 1), ("XL", 1)] and some.in_stock == 0
    assert [count for _, count in some.prices] == [1] and some.prices[0][0] in [
        one for one, _ in counts.prices
    ]


def test_only_products_known_to_be_in_stock_are_in_stock(shelf):
    allowed_N, count = shelf.allowed(FiltersBody(in_stock=True))
    assert count == 2 and allowed_N.nonzero()[:, 0].tolist() == [
        0,
        3,
    ]  # the stock of p2, p4 and p5 is unknown


def test_rows_that_were_read_before_later_ones_change_nothing(shelf):
    earlier, later = (
        ProductRow(
            category="dresses", id="p0", price_minor=price, currency="EUR", updated_at=now, revision=revision
        )
        for now in [datetime.now(UTC)]
        for price, revision in ((500, 1), (700, 2))
    )
    shelf.put([later])
    shelf.put([earlier])  # another thread read it, and was slower
    assert (shelf.row("p0").price_minor, shelf.revision) == (700, 2)


def test_counts_follow_changes(shelf):
    shelf.counts(mask(*range(6)))
    now = datetime.now(UTC)
    row = ProductRow(
        category="dresses",
        id="p5",
        price_minor=500,
        currency="EUR",
        sizes=["XXS"],
        updated_at=now,
        revision=1,
    )
    gone = ProductRow(category="dresses", id="p3", deleted_at=now, updated_at=now, revision=2)
    shelf.put([row, gone])
    counts = shelf.counts(mask(*range(6)))
    assert counts.sizes[0] == ("XXS", 1) and shelf.sizes == ["XXS", "S", "M", "XL", "38", "40"]
    assert sum(count for _, count in counts.prices) == 4
    empty = ProductColumns({"a": 0}).counts(mask(0, count=1))
    assert (empty.sizes, empty.in_stock, empty.prices) == ([], 0, [])


def test_ranges_of_prices_have_round_bounds_and_leave_no_gap():
    rng = np.random.default_rng(0)
    ranges = price_ranges((np.exp(rng.normal(4, 0.5, 5000)) * 100).astype(int), "EUR", 100)
    assert len(ranges) == 5 and ranges[0].gte is None and ranges[-1].lte is None
    for lower, upper in pairwise(ranges):
        assert lower.lte + 1 == upper.gte and upper.gte % 500 == 0
    assert (
        price_ranges(np.array([1000, 1000]), "EUR", 100) == [] == price_ranges(np.array([], int), "EUR", 100)
    )
    assert [one.gte for one in price_ranges(np.array([900, 2000]), "JPY", 1)] == [None, 1000, 2000]
    many = price_ranges(np.arange(1_000_000), "EUR", 100)
    assert [one.gte for one in many] == [None, 200_000, 400_000, 600_000, 800_000]

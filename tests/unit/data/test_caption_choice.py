"""Which pairs people are asked to caption."""

import json
import shutil

import numpy as np
import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError
from fashioniq.prepare.captioning import Desk, plan
from fashioniq.prepare.pairs_to_caption import NEAREST, Comparison, choose, counts_of, source_of


@pytest.fixture
def catalog(photo_catalog):
    return Catalog(photo_catalog(), "dresses")


def test_the_counts_of_all_splits_add_up():
    assert counts_of("all", 100) == {"train": 70, "val": 15, "test": 15}
    assert counts_of("all", 3) == {"train": 1, "val": 1, "test": 1}
    assert counts_of("val", 7) == {"val": 7}
    assert all(sum(counts_of("all", count).values()) == count for count in range(3, 60))


def test_random_pairs_join_two_products_of_the_split(catalog):
    pairs = choose(catalog, "train", 30, seed=0)
    assert len(set(pairs)) == 30 and source_of(catalog, "train", None) == "random pairs"
    ids = set(catalog.ids("train"))
    assert all(pair.split == "train" and pair.candidate != pair.target for pair in pairs)
    assert {pair.candidate for pair in pairs} | {pair.target for pair in pairs} <= ids
    assert {pair.target for pair in pairs[:12]} == ids, "every product is a target once before any is twice"


def test_the_seed_determines_the_pairs_and_a_larger_count_adds_to_them(catalog):
    ten = choose(catalog, "train", 10, seed=0)
    assert ten == choose(catalog, "train", 10, seed=0) != choose(catalog, "train", 10, seed=1)
    assert choose(catalog, "train", 20, seed=0)[:10] == ten
    assert choose(catalog, "train", 7, seed=0, taken=ten[:3]) == ten[3:]


def test_fewer_pairs_than_wanted_end_the_choice(catalog):
    assert 12 <= len(choose(catalog, "test", 1000, seed=0)) <= 4 * 3


def test_with_vectors_a_candidate_is_among_the_nearest(catalog):
    ids = catalog.ids("train")
    angles = np.linspace(0, np.pi, len(ids))
    vectors = (ids, np.stack([np.cos(angles), np.sin(angles)], 1) * np.arange(1, 13)[:, None])
    farthest = {
        (ids[0], ids[-1]),
        (ids[-1], ids[0]),
    }  # the only products with more than NEAREST others nearer
    pairs = choose(catalog, "train", 1000, seed=0, vectors=vectors)
    assert {(pair.candidate, pair.target) for pair in pairs} & farthest == set()
    assert len(pairs) == 12 * NEAREST
    assert "feature store" in source_of(catalog, "train", vectors)


def test_the_pairs_by_titles_take_precedence(catalog):
    folder = catalog.root / "pairs"
    folder.mkdir()
    rows = [{"target": f"train{number}", "candidate": f"train{number + 1}"} for number in range(8)]
    (folder / "pairs.dress.train.json").write_text(json.dumps(rows))
    chosen = choose(catalog, "train", 5, seed=0)
    assert len(chosen) == 5 and {(one.target, one.candidate) for one in chosen} <= {
        (row["target"], row["candidate"]) for row in rows
    }
    assert source_of(catalog, "train", None) == "titles"


@pytest.mark.parametrize(
    "row", [{"target": "train1"}, "train1", {"target": "val1", "candidate": "train1"}, 3]
)
def test_a_malformed_pair_is_an_error(catalog, row):
    (catalog.root / "pairs").mkdir()
    (catalog.root / "pairs" / "pairs.dress.train.json").write_text(json.dumps([row]))
    with pytest.raises(UserError, match="entry 0: expected"):
        choose(catalog, "train", 5, seed=0)


def test_duplicate_and_unreadable_pictures_make_no_pair(catalog):
    images = catalog.root / "images" / "dress"
    shutil.copy(images / "val0.png", images / "val1.png")
    (images / "val2.png").write_bytes(b"no picture")
    pairs = {(pair.candidate, pair.target) for pair in choose(catalog, "val", 100, seed=0)}
    assert pairs == {("val0", "val3"), ("val3", "val0"), ("val1", "val3"), ("val3", "val1")}


def test_a_split_needs_two_pictures(catalog):
    for path in (catalog.root / "images" / "dress").glob("val[123].png"):
        path.unlink()
    with pytest.raises(UserError, match="at least two products with a picture in the val split"):
        choose(catalog, "val", 5, seed=0)


def test_a_catalog_without_pictures_has_pairs_of_titles(catalog):
    shutil.rmtree(catalog.root / "images")
    assert len(choose(catalog, "val", 4, seed=0)) == 4


def test_a_plan_keeps_what_was_done_and_alternates_the_splits(catalog):
    counts = {"train": 6, "val": 2, "test": 2}
    pairs = plan(catalog, counts, seed=0)
    assert {split: sum(pair.split == split for pair in pairs) for split in counts} == counts
    assert {pair.split for pair in pairs[:5]} == set(counts), "each split has captions soon"
    desk = Desk(catalog, pairs)
    desk.save("Ann", pairs[4], "is red")
    desk.skip("Ann", pairs[7])
    again = plan(catalog, counts, seed=0)
    assert set(again) == set(pairs)
    other_seed = plan(catalog, counts, seed=1)
    assert {pairs[4], pairs[7]} <= set(other_seed) and len(other_seed) == 10
    assert len(plan(catalog, {"train": 9}, seed=0)) == 9


def test_captions_by_people_from_elsewhere_are_not_asked_again(catalog):
    pairs = plan(catalog, {"val": 3}, seed=0)
    (catalog.root / "captions").mkdir()
    rows = [{"target": pairs[0].target, "candidate": pairs[0].candidate, "captions": ["is red", "red"]}]
    (catalog.root / "captions" / "cap.dress.val.json").write_text(json.dumps(rows))
    new = plan(catalog, {"val": 3}, seed=0)
    assert len(new) == 3 and pairs[0] not in new


def test_a_pair_says_which_product_is_wanted():
    assert Comparison("val", "a", "b")._asdict() == {"split": "val", "candidate": "a", "target": "b"}

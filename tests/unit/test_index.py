from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch

from fashioniq.data.arrays import open_array
from fashioniq.data.items import Items
from fashioniq.files import UserError
from fashioniq.loop import exact as exact_search, gallery, index, stored
from fashioniq.loop.exact import faiss
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.index import FaissSearch, approximate, tuned
from fashioniq.loop.milvus import MilvusSearch

needs_faiss = pytest.mark.skipif(faiss is None, reason="FAISS is not installed")
COUNT = 2000


@pytest.fixture(scope="module")
def exact():
    """A gallery of many small clusters, some items in it twice."""
    torch.manual_seed(0)
    vectors_ND = torch.randn(200, 16).repeat_interleave(10, dim=0) + 0.5 * torch.randn(COUNT, 16)
    vectors_ND[1900:] = vectors_ND[:100]
    return Gallery(
        Items([str(n) for n in range(COUNT)], torch.zeros(COUNT, 1), torch.zeros(COUNT, 8, dtype=torch.long)),
        vectors_ND,
    )


@pytest.fixture(scope="module")
def query_QD(exact):
    return exact.vectors_ND[::20] + 0.3 * torch.randn(100, 16, generator=torch.Generator().manual_seed(1))


def recall_by_hand(exact, found, query_QD):
    """Of the ten nearest by exact search, the share that is found; no two items are as near but those that
    are there twice.
    """
    pairs = zip(exact.top(query_QD, 10)[1].tolist(), found.top(query_QD, 10)[1].tolist(), strict=True)
    twins = [({item % 1900 for item in nearest}, {item % 1900 for item in there}) for nearest, there in pairs]
    return sum(len(nearest & there) / len(nearest) for nearest, there in twins) / len(twins)


@needs_faiss
@pytest.mark.parametrize(
    ("factory", "knob"),
    [("IVF64,Flat", "nprobe"), ("PCA8,IVF32,Flat", "nprobe"), ("HNSW16", "efSearch"), ("Flat", None)],
)
def test_an_index_is_searched_harder_until_its_recall_is_reached(exact, query_QD, factory, knob):
    least = 0.6 if "PCA" in factory else 0.95
    found, facts = approximate(exact, factory, query_QD, least)
    assert least <= facts["recall@10"] == pytest.approx(recall_by_hand(exact, found, query_QD), abs=0.03)
    assert (facts["index"], facts["queries"], facts["vectors"], facts["least_recall"]) == (
        factory,
        100,
        COUNT,
        least,
    )
    assert {"nprobe", "efSearch"} & set(facts) == ({knob} if knob else set())


@needs_faiss
def test_more_recall_takes_more_lists(exact, query_QD):
    few, more = (approximate(exact, "IVF64,Flat", query_QD, least)[1] for least in (0.3, 0.99))
    assert few["nprobe"] < more["nprobe"] <= 64 and 0.3 <= few["recall@10"] < more["recall@10"]


@needs_faiss
def test_ranks_stay_exact_with_an_index_that_misses_items(exact, query_QD):
    found, facts = approximate(exact, "IVF64,Flat", query_QD, 0.1)
    target_Q = torch.arange(100) * 7
    assert facts["recall@10"] < 1 and torch.equal(
        found.rank(query_QD, target_Q), exact.rank(query_QD, target_Q)
    )


@needs_faiss
def test_items_as_near_come_in_the_order_of_the_gallery_with_an_index_too(exact):
    found, _ = approximate(exact, "IVF64,Flat", exact.vectors_ND[:100])
    distance_BK, item_BK = found.top(exact.vectors_ND[:100], 2)
    assert item_BK.tolist() == [[n, 1900 + n] for n in range(100)] and distance_BK.eq(0).all()


@needs_faiss
def test_excluded_items_are_passed_over_with_an_index_too(exact, query_QD):
    found, _ = approximate(exact, "HNSW16", query_QD)
    _, all_QK = found.top(query_QD, 8)
    _, item_QK = found.top(query_QD, 3, all_QK[:, [0, 2, 3]])
    assert torch.equal(item_QK, all_QK[:, [1, 4, 5]])


@needs_faiss
def test_queries_for_which_an_index_finds_too_few_are_searched_exactly(exact, query_QD):
    found, facts = approximate(exact, "IVF64,Flat", query_QD, 0.1)
    assert facts["nprobe"] == 1
    distance_QK, item_QK = found.top(query_QD, 500)
    assert torch.equal(item_QK, exact.top(query_QD, 500)[1]) and distance_QK.isfinite().all()


class FindsNothingForTheFirst:
    """An index that finds for the first query nothing, and for the others the first products."""

    def __call__(self, query_BD, count, allowed_N=None, wider=1.0):
        item_BK = torch.arange(count).repeat(len(query_BD), 1)
        item_BK[0] = -1
        return item_BK


def test_a_single_query_for_which_an_index_finds_too_few_is_noticed_among_many(exact, query_QD):
    cost_BK, item_BK = exact._near(FindsNothingForTheFirst(), query_QD, None, 3)
    nearest_BK = item_BK.gather(1, cost_BK.topk(3, largest=False).indices)
    expected_BK = exact.top(query_QD, 3)[1]
    far_BK, expected_far_BK = (
        (query_QD.unsqueeze(1) - exact.vectors_ND[one_BK]).norm(dim=2).sort(1).values
        for one_BK in (nearest_BK, expected_BK)
    )
    assert torch.allclose(far_BK, expected_far_BK)


class FindsTheLast:
    """An index that finds the last three products for all queries, and no more."""

    def __call__(self, query_BD, count, allowed_N=None, wider=1.0):
        return torch.tensor([[37, 38, 39] + [-1] * (count - 3)] * len(query_BD))


def test_what_an_index_does_not_find_is_not_shown():
    line = a_line(40)
    last_1D = line.vectors_ND[39:]
    cost_1K, item_1K = line.with_index(FindsTheLast()).top(last_1D, 3)
    assert item_1K.tolist() == [[39, 38, 37]] and cost_1K.tolist() == [[0, 1, 4]]


def test_an_index_that_finds_just_enough_is_trusted_and_one_that_finds_fewer_is_not():
    line = a_line(40)
    found, first_1D = line.with_index(FindsTheLast()), line.vectors_ND[:1]
    assert found.top(first_1D, 3)[1].tolist() == [[37, 38, 39]]
    assert found.top(first_1D, 4)[1].tolist() == [[0, 1, 2, 3]]
    exclude_1K = torch.tensor([[1]])
    assert found.top(first_1D, 2, exclude_1K)[1].tolist() == [[37, 38]]
    assert found.top(first_1D, 3, exclude_1K)[1].tolist() == [[0, 2, 3]]


class FindsTheFirst:
    """An index that finds the first products for all queries; it counts how often it is asked."""

    asked = 0

    def __call__(self, query_BD, count, allowed_N=None, wider=1.0):
        self.asked += 1
        return torch.arange(count).repeat(len(query_BD), 1)


def test_the_first_product_of_a_gallery_counts_as_found(exact, query_QD):
    found = FindsTheFirst()
    allowed_N = torch.arange(COUNT) < 3
    item_BK = exact._near_allowed(found, query_QD, 3, allowed_N)[1]
    assert found.asked == 1 and item_BK[:, :3].tolist() == [[0, 1, 2]] * len(query_QD)


class FindsAtMost(FindsTheFirst):
    """An index that finds up to `most` of the first products, and keeps what it is asked for."""

    def __init__(self, most):
        self.most, self.calls = most, []

    def __call__(self, query_BD, count, allowed_N=None, wider=1.0):
        self.calls.append((count, wider))
        return torch.arange(min(self.most, count)).repeat(len(query_BD), 1)


@pytest.mark.parametrize(
    ("first", "most", "calls", "looked_at"),
    [
        (150, COUNT, [(40, 8.0), (160, 32.0)], 160),
        (151, COUNT, [(40, 8.0), (160, 32.0), (640, 128.0)], 640),
        (900, COUNT, [(40, 8.0), (160, 32.0), (640, 128.0)], COUNT),  # then exactly
        (900, 100, [(40, 8.0), (160, 32.0)], COUNT),  # it has no more
    ],
)
def test_an_index_is_asked_for_four_times_as_many_until_enough_of_them_are_allowed(
    exact, query_QD, monkeypatch, first, most, calls, looked_at
):
    """The half of the products from the `first` on is allowed, and ten are wanted."""
    monkeypatch.setattr(gallery, "EXACT_MOST", 0)
    found, place_N = FindsAtMost(most), torch.arange(COUNT)
    allowed_N = (place_N >= first) & (place_N < first + COUNT // 2)
    _, item_QK = exact.with_index(found).top(query_QD, 10, allowed_N=allowed_N)
    assert found.calls == calls
    assert torch.equal(item_QK, exact.top(query_QD, 10, allowed_N=allowed_N & (place_N < looked_at))[1])


@needs_faiss
def test_an_index_of_float16_finds_what_that_of_the_same_vectors_in_float32_does(exact, query_QD):
    half_ND = exact.vectors_ND.half()
    both = [Gallery(exact.items, vectors_ND) for vectors_ND in (half_ND, half_ND.float())]
    (found, facts), (held, held_facts) = (approximate(one, "IVF64,Flat", query_QD) for one in both)
    assert facts == held_facts and torch.equal(found.top(query_QD, 10)[1], held.top(query_QD, 10)[1])


@needs_faiss
def test_an_index_of_too_little_recall_is_refused_unless_told_otherwise(exact, query_QD):
    with pytest.raises(
        UserError, match=r"PCA2,Flat: expected a recall@10 of at least 0\.95, found 0\.\d+; use another index"
    ):
        approximate(exact, "PCA2,Flat", query_QD)
    assert approximate(exact, "PCA2,Flat", query_QD, 0.05)[1]["recall@10"] < 0.95


@needs_faiss
@pytest.mark.parametrize("factory", ["nonsense", "IVFmany,Flat", "IVF16,PQ7"])
def test_what_faiss_does_not_know_is_refused(exact, query_QD, factory):
    with pytest.raises(
        UserError, match=f"--index '{factory}': FAISS cannot create it for vectors of size 16"
    ):
        approximate(exact, factory, query_QD)


@needs_faiss
@pytest.mark.parametrize(
    ("factory", "told"),
    [("IVF4096,Flat", "at least 4096 products, found 2000"), ("PQ4x12", "cannot be trained on 2000")],
)
def test_too_few_products_to_learn_an_index_from_are_refused(exact, query_QD, factory, told):
    with pytest.raises(UserError, match=told):
        approximate(exact, factory, query_QD)


@needs_faiss
def test_a_list_for_each_product_is_the_most_that_an_index_has():
    line = a_line(20)
    found, _ = approximate(line, "IVF20,Flat", line.vectors_ND)
    assert found.top(line.vectors_ND, 1)[1][:, 0].tolist() == list(range(20))
    with pytest.raises(UserError, match="IVF21,Flat needs at least 21 products, found 20"):
        approximate(line, "IVF21,Flat", line.vectors_ND)


@needs_faiss
@pytest.mark.parametrize("factory", ["IVF8,Flat", "PCA8,IVF8,Flat", "IMI2x2,Flat", "PCA8,IMI2x2,Flat"])
def test_faiss_prints_no_warning_about_few_products(factory, capfd):
    few = Gallery(Items.without_attributes([*map(str, range(20))], torch.zeros(20, 1)), torch.randn(20, 16))
    approximate(few, factory, few.vectors_ND, 0.0)
    assert capfd.readouterr().err == ""


@needs_faiss
def test_an_index_that_faiss_cannot_search_is_refused(exact, query_QD, capfd):
    with pytest.raises(
        UserError, match="--index Residual2x2,PQ8x1 cannot be searched; use one such as HNSW32"
    ):
        approximate(exact, "Residual2x2,PQ8x1", query_QD)
    assert capfd.readouterr().err == ""


def test_an_index_without_faiss_is_refused(exact, query_QD, monkeypatch):
    monkeypatch.setattr(index, "faiss", None)
    with pytest.raises(UserError, match="install faiss-cpu"):
        approximate(exact, "HNSW32", query_QD)


@needs_faiss
@pytest.mark.parametrize("factory", ["IVF16,Flat", "HNSW16", "PCA15,IVF16,Flat", "Flat"])
def test_a_filter_on_an_index_finds_only_allowed_items_and_nearly_all_of_the_nearest(
    exact, query_QD, monkeypatch, factory
):
    found, _ = approximate(exact, factory, query_QD)
    asked, search = [], found.index
    monkeypatch.setattr(found, "index", lambda *args: asked.append(1) or search(*args))
    for most, share in ((0, 0.5), (0, 0.02), (1000, 0.4)):
        monkeypatch.setattr(gallery, "EXACT_MOST", most)
        asked.clear()
        allowed_N = torch.rand(COUNT, generator=torch.Generator().manual_seed(3)) < share
        distance_QK, item_QK = found.top(query_QD, 10, allowed_N=allowed_N)
        exact_QK = exact.top(query_QD, 10, allowed_N=allowed_N)[0]
        assert allowed_N[item_QK].all() and bool(asked) == (most == 0)
        recall = torch.isclose(distance_QK, exact_QK).double().mean().item()
        assert recall >= (0.95 if asked else 1)


@needs_faiss
@pytest.mark.parametrize("factory", ["IVF16,Flat", "HNSW16", "PCA15,IVF16,Flat", "PCA15,HNSW16"])
def test_a_filtered_search_in_an_index_finds_allowed_items_only(exact, query_QD, factory):
    allowed_N = torch.arange(COUNT) % 3 == 0
    found, _ = approximate(exact, factory, query_QD)
    item_QK = found.index(query_QD, 20, allowed_N, 3.0)
    assert ((item_QK == -1) | allowed_N[item_QK]).all() and (item_QK >= 0).double().mean() > 0.9


@needs_faiss
def test_a_stored_index_is_read_and_finds_the_same(exact, query_QD, tmp_path, monkeypatch):
    found, facts = approximate(exact, "IVF16,Flat", query_QD, folder=tmp_path / "index")
    monkeypatch.setattr(index, "_made", None)
    again, again_facts = approximate(exact, "IVF16,Flat", query_QD, folder=tmp_path / "index")
    assert facts == again_facts and torch.equal(found.top(query_QD, 10)[1], again.top(query_QD, 10)[1])
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "IVF16-Flat.faiss",
        "IVF16-Flat.json",
    ]


@needs_faiss
def test_an_index_that_another_process_builds_is_waited_for_for_hours(tmp_path, monkeypatch):
    waits = []

    def locked(folder, wait):
        waits.append((folder, wait))
        return nullcontext()

    monkeypatch.setattr(stored, "locked", locked)
    approximate(a_line(), "Flat", a_line().vectors_ND, folder=tmp_path)
    [(folder, wait)] = waits
    assert folder == tmp_path and wait > 3600


@needs_faiss
def test_a_stored_index_of_other_vectors_is_built_again(exact, query_QD, tmp_path):
    other = Gallery(exact.items, exact.vectors_ND.flip(0))
    for gallery_ in (exact, other):
        found, _ = approximate(gallery_, "HNSW16", query_QD, folder=tmp_path / "index")
        assert recall_by_hand(gallery_, found, query_QD) > 0.9 or gallery_ is other
        assert torch.isclose(found.top(query_QD, 5)[0], gallery_.top(query_QD, 5)[0]).double().mean() > 0.95


@needs_faiss
@pytest.mark.parametrize("damage", ["foreign", "truncated", "missing"])
def test_an_index_that_was_not_written_by_us_is_never_read(exact, query_QD, tmp_path, monkeypatch, damage):
    approximate(exact, "Flat", query_QD, folder=tmp_path)
    path = tmp_path / "Flat.faiss"
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(whole[:-4] if damage == "truncated" else b"IxFl" + whole[4:-1] + b"\x00")
    monkeypatch.setattr(faiss, "read_index", lambda name: pytest.fail("it was read"))
    with pytest.raises(UserError, match=r"Flat\.faiss is not the index that was written; remove "):
        approximate(exact, "Flat", query_QD, folder=tmp_path)


@needs_faiss
def test_an_index_whose_writing_was_interrupted_is_built_again(exact, query_QD, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "write_json", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        approximate(exact, "Flat", query_QD, folder=tmp_path)
    monkeypatch.undo()
    assert approximate(exact, "Flat", query_QD, folder=tmp_path)[1]["recall@10"] == 1


def test_a_memory_map_is_searched_like_vectors_in_memory(exact, query_QD, tmp_path, monkeypatch):
    half_ND = exact.vectors_ND.half()
    np.save(tmp_path / "vectors.npy", half_ND.numpy())
    monkeypatch.setattr(exact_search, "MAPPED_MOST", 0)
    released = []
    monkeypatch.setattr(exact_search, "release", released.append)
    mapped = Gallery(exact.items, open_array(tmp_path / "vectors.npy", mode="c"))
    loaded = Gallery(exact.items, half_ND)
    assert torch.equal(mapped.top(query_QD, 10)[1], loaded.top(query_QD, 10)[1]) and released
    assert mapped.top(mapped.mean_1D, 1)[1].equal(loaded.top(loaded.mean_1D, 1)[1])
    assert mapped.mean_1D.equal(loaded.mean_1D)


def test_a_filter_that_leaves_several_tiles_is_exact(exact, query_QD, monkeypatch):
    monkeypatch.setattr(exact_search, "SEARCHED", 300)
    allowed_N = torch.rand(COUNT, generator=torch.Generator().manual_seed(3)) < 0.6
    exclude_QK = torch.arange(200).view(100, 2)
    distance_QK, item_QK = exact.top(query_QD, 10, exclude_QK, allowed_N=allowed_N)
    all_QN = (query_QD.double().unsqueeze(1) - exact.vectors_ND.double()).square().sum(2)
    all_QN[:, ~allowed_N] = float("inf")
    all_QN.scatter_(1, exclude_QK, float("inf"))
    nearest_QN, order_QN = all_QN.sort(dim=1, stable=True)
    assert torch.equal(item_QK, order_QN[:, :10]) and torch.allclose(distance_QK, nearest_QN[:, :10])


class Finding:
    """Search that finds, at each value, this share of the nearest for each query."""

    knob, value = "knob", 0

    def __init__(self, found):
        self.found, self.values = found, tuple(found)

    def __call__(self, query_QD, count, allowed_N=None, wider=1.0):
        shares = self.found[self.value]
        rows = [list(range(round(10 * share))) + [-1] * (count - round(10 * share)) for share in shares]
        return torch.tensor(rows)


def a_line(count=40):
    vectors_ND = torch.arange(float(count)).unsqueeze(1)
    items = Items.without_attributes([str(n) for n in range(count)], vectors_ND)
    return Gallery(items, vectors_ND)


@pytest.mark.parametrize(
    ("shares", "least", "value"),
    [  # the margin of the first value is twice 0.1 / sqrt(4) = 0.1
        ([1.0, 0.8, 1.0, 0.8], 0.79, 1),
        ([1.0, 0.8, 1.0, 0.8], 0.81, 2),
        ([0.5, 0.5, 0.5, 0.5], 0.5, 1),
    ],
)
def test_a_search_is_taken_if_its_recall_is_two_standard_errors_above_the_least(shares, least, value):
    search = Finding({1: shares, 2: [1.0] * 4})
    found, facts = tuned(a_line(), search, "some", "--some", torch.zeros(4, 1), min_recall=least)
    assert facts["knob"] == search.value == value and found.index is search
    assert facts["recall@10"] == pytest.approx(sum(search.found[value]) / 4) and facts["queries"] == 4


def test_the_largest_value_needs_no_margin_and_too_little_recall_is_told():
    search = Finding({1: [0.5, 0.5], 2: [1.0, 0.8]})
    assert tuned(a_line(), search, "some", "--some", torch.zeros(2, 1), min_recall=0.9)[1]["knob"] == 2
    with pytest.raises(
        UserError, match=r"--some: expected a recall@10 of at least 0\.91, found 0\.900 with knob 2"
    ):
        tuned(a_line(), search, "some", "--some", torch.zeros(2, 1), min_recall=0.91)


def test_values_of_the_searches_are_doubled():
    assert MilvusSearch.values == (32, 64, 128, 256, 512, 1024, 2048)


@needs_faiss
@pytest.mark.parametrize("factory", ["HNSW8", "IVF64,Flat"])
def test_an_index_starts_with_a_quick_search_and_looks_at_twice_as_much_each_time(factory):
    values = FaissSearch(faiss.index_factory(2, factory), factory).values
    assert values[0] <= 32 and all(two == 2 * one for one, two in pairwise(values))


@needs_faiss
@pytest.mark.parametrize("factory", ["HNSW0", "IVF0,Flat", "PCA0,Flat"])
def test_an_index_with_a_part_of_size_0_is_refused(factory):
    with pytest.raises(UserError, match="has a part of size 0"):
        approximate(a_line(), factory, torch.zeros(2, 1))

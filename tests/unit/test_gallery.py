import resource
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fashioniq.data.items import Items
from fashioniq.files import UserError
from fashioniq.loop import exact, gallery
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import Gallery

SEARCHES = [
    pytest.param("torch"),
    pytest.param("auto", marks=pytest.mark.skipif(exact.faiss is None, reason="FAISS is not installed")),
]


def gallery_of(vectors_ND, search="torch"):
    count = len(vectors_ND)
    return Gallery(
        Items([str(n) for n in range(count)], torch.zeros(count, 1), torch.zeros(count, 8, dtype=torch.long)),
        vectors_ND,
        search,
    )


@pytest.mark.parametrize("rank", [True, False])
def test_queries_of_another_width_are_refused_in_one_line(rank):
    made, query_BD = gallery_of(torch.zeros(3, 4)), torch.zeros(2, 5)
    with pytest.raises(UserError, match=r"expected queries of 4 numbers.*found 5"):
        _ = made.rank(query_BD, torch.zeros(2, dtype=torch.long)) if rank else made.top(query_BD, 2)


def distances(vectors_ND, query_BD):
    return (query_BD.double().unsqueeze(1) - vectors_ND.double()).square().sum(-1)


def naive_rank(vectors_ND, query_BD, target_B):
    distance_BN = distances(vectors_ND, query_BD)
    own_B1 = distance_BN.gather(1, target_B.unsqueeze(1))
    earlier_BN = torch.arange(len(vectors_ND)) < target_B.unsqueeze(1)
    return ((distance_BN < own_B1) | ((distance_BN == own_B1) & earlier_BN)).sum(1)


def random_vectors():
    return torch.randn(300, 24)


def unit_vectors():
    return torch.nn.functional.normalize(torch.randn(300, 24), dim=1)


def duplicated():
    return torch.randn(75, 24).repeat(4, 1)[torch.randperm(300)]


def all_equal():
    return torch.randn(1, 24).expand(300, -1)


def near_ties():
    return torch.randn(1, 24) + 1e-7 * torch.randn(300, 24)


def far_from_the_origin():
    return 1000 + 1e-3 * torch.randn(300, 24)


@pytest.fixture(
    params=[random_vectors, unit_vectors, duplicated, all_equal, near_ties, far_from_the_origin],
    ids=lambda make: make.__name__,
)
def case(request):
    torch.manual_seed(0)
    vectors_ND = request.param().contiguous()
    near_an_item_BD = vectors_ND[torch.randint(300, (20,))] + 0.01 * torch.randn(20, 24)
    return vectors_ND, torch.cat([near_an_item_BD, torch.randn(20, 24)]), torch.randint(300, (40,))


@pytest.mark.parametrize(("queries", "tile"), [(1, 299), (7, 100), (1024, 11), (1024, 1024)])
def test_ranks_by_tiles_are_the_naive_ranks(case, queries, tile, monkeypatch):
    vectors_ND, query_BD, target_B = case
    monkeypatch.setattr(gallery, "QUERIES", queries)
    monkeypatch.setattr(exact, "TILE", tile)
    monkeypatch.setattr(exact, "NUMBERS", 1200)
    assert torch.equal(
        gallery_of(vectors_ND).rank(query_BD, target_B), naive_rank(vectors_ND, query_BD, target_B)
    )


def test_the_order_of_the_gallery_changes_no_rank_but_that_of_ties():
    torch.manual_seed(1)
    vectors_ND, query_BD, target_B = torch.randn(200, 16), torch.randn(30, 16), torch.randint(200, (30,))
    order = torch.randperm(200)
    shuffled_B = order.argsort()[target_B]
    assert torch.equal(
        gallery_of(vectors_ND).rank(query_BD, target_B),
        gallery_of(vectors_ND[order]).rank(query_BD, shuffled_B),
    )


def test_ties_behind_the_items_that_are_wanted_need_no_second_search(monkeypatch):
    vectors_ND, compared = torch.ones(300, 4), []
    vectors_ND[7] = 0
    searched = gallery_of(vectors_ND)
    costs = searched._exact.costs
    monkeypatch.setattr(
        searched._exact, "costs", lambda *given: compared.append(len(given[-1])) or costs(*given)
    )
    assert searched.top(torch.zeros(1, 4), 1)[1].tolist() == [[7]] and max(compared) < 300
    assert searched.top(torch.zeros(1, 4), 2)[1].tolist() == [[7, 0]] and max(compared) == 300


def test_many_ties_are_compared_exactly_and_the_rest_of_the_gallery_is_not(monkeypatch):
    vector_ND = torch.randn(5000, 8, generator=torch.Generator().manual_seed(0))
    vector_ND[1000:1100] = vector_ND[7]
    costs, compared = exact.ExactSearch.costs, []
    monkeypatch.setattr(
        exact.ExactSearch,
        "costs",
        lambda self, *pairs: compared.append(len(pairs[-1])) or costs(self, *pairs),
    )
    _, item_BK = gallery_of(vector_ND).top(vector_ND[[7]], 20)
    assert item_BK.tolist() == [[7, *range(1000, 1019)]]
    assert 101 <= sum(compared) < 200


def test_each_query_of_a_batch_gets_its_own_ties_resolved():
    """Of the first query, 400 costs differ by less than float32 tells; of the second, five are the least by far."""
    torch.manual_seed(0)
    side_N = torch.tensor([1000.0] * 5 + [-1000.0] * 395)[torch.randperm(400)]
    vectors_ND = torch.stack([side_N * (1 + 2**-23 * torch.randint(40, (400,))), torch.full((400,), 1e4)], 1)
    query_BD = torch.tensor([[0, 1e4], [1000, 1e4]])
    item_BK = gallery_of(vectors_ND).top(query_BD, 3)[1]
    assert torch.equal(item_BK, distances(vectors_ND, query_BD).sort(dim=1, stable=True).indices[:, :3])


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("scale", [1e-24, 4e-22])
def test_vectors_whose_squares_are_too_small_for_float32_are_found_in_their_order(scale, search):
    torch.manual_seed(0)
    vectors_ND = scale * (torch.randn(512) + 1e-6 * torch.randn(300, 512))
    query_BD = torch.cat([vectors_ND[[7]], scale * torch.randn(7, 512)])
    expected_BN = distances(vectors_ND, query_BD).sort(dim=1, stable=True).indices
    searched = gallery_of(vectors_ND, search)
    assert torch.equal(searched.top(query_BD, 10)[1], expected_BN[:, :10])
    assert searched.rank(query_BD, expected_BN[:, 3]).tolist() == [3] * 8


def test_a_target_that_begins_a_tile_ranks_behind_its_equal_in_the_tile_before(monkeypatch):
    monkeypatch.setattr(exact, "TILE", 4)
    vectors_ND = torch.tensor([[5.0], [9], [7], [8], [5], [6]])
    query_BD, target_B = torch.zeros(6, 1), torch.arange(6)
    assert gallery_of(vectors_ND).rank(query_BD, target_B).tolist() == [0, 5, 3, 4, 1, 2]


def test_items_as_near_rank_in_the_order_of_the_gallery():
    vectors_ND = torch.tensor([[2.0], [1.0], [-1.0], [1.0]])
    assert gallery_of(vectors_ND).rank(torch.zeros(4, 1), torch.arange(4)).tolist() == [3, 0, 1, 2]


def test_the_ranks_of_all_items_are_each_place_once(case):
    vectors_ND, query_BD, _ = case
    rank_N = gallery_of(vectors_ND).rank(query_BD[:1].expand(300, -1), torch.arange(300))
    assert rank_N.sort().values.tolist() == list(range(300))


def test_a_query_in_columns_ranks_as_the_same_query_in_rows():
    torch.manual_seed(0)
    vectors_ND, query_BD, target_B = (
        torch.randn(500, 64).repeat(2, 1),
        torch.randn(50, 64),
        torch.arange(50) * 20,
    )
    in_columns_BD = query_BD.T.contiguous().T
    assert torch.equal(
        gallery_of(vectors_ND).rank(in_columns_BD, target_B), naive_rank(vectors_ND, query_BD, target_B)
    )


def test_ranks_stay_exact_in_mixed_precision(case):
    vectors_ND, query_BD, target_B = case
    candidates = gallery_of(vectors_ND)
    with torch.autocast("cpu", torch.bfloat16):
        rank_B = candidates.rank(query_BD, target_B)
    assert torch.equal(rank_B, naive_rank(vectors_ND, query_BD, target_B))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_query_that_is_not_finite_is_never_a_hit(bad):
    candidates, query_BD = gallery_of(torch.randn(30, 4)), torch.full((2, 4), bad)
    try:
        rank_B = candidates.rank(query_BD, torch.tensor([3, 5]))
    except ValueError:
        return  # refused: as good
    assert rank_B.tolist() == [29, 29]


@pytest.mark.parametrize("search", SEARCHES)
def test_the_nearest_of_a_narrow_gallery_is_found_by_queries_of_any_length(search):
    torch.manual_seed(0)
    vectors_ND = F.normalize(torch.randn(32) + 1e-3 * torch.randn(1500, 32), dim=1)
    query_BD = 1e4 * F.normalize(torch.randn(24, 32), dim=1)
    assert torch.equal(
        gallery_of(vectors_ND, search).top(query_BD, 1)[1][:, 0], distances(vectors_ND, query_BD).argmin(1)
    )


@pytest.mark.parametrize("search", SEARCHES)
def test_top_k_is_the_naive_order(case, search):
    vectors_ND, query_BD, _ = case
    distance_BK, item_BK = gallery_of(vectors_ND, search).top(query_BD, 5)
    expected_BK, expected_item_BK = distances(vectors_ND, query_BD).sort(dim=1, stable=True)
    torch.testing.assert_close(distance_BK, expected_BK[:, :5], rtol=1e-9, atol=0)
    assert torch.equal(item_BK, expected_item_BK[:, :5])


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("searched", [4, 70, 299])
def test_top_k_by_tiles_is_the_naive_order(case, searched, search, monkeypatch):
    vectors_ND, query_BD, _ = case
    monkeypatch.setattr(gallery, "QUERIES", 15)
    monkeypatch.setattr(exact, "SEARCHED", searched)
    _, item_BK = gallery_of(vectors_ND, search).top(query_BD, 5, torch.zeros(40, 1, dtype=torch.long))
    order_BN = distances(vectors_ND, query_BD).sort(dim=1, stable=True).indices
    assert torch.equal(item_BK, order_BN[order_BN != 0].view(40, 299)[:, :5])


@pytest.mark.parametrize("search", SEARCHES)
def test_the_best_item_has_rank_0_and_the_next_ones_follow(case, search):
    vectors_ND, query_BD, _ = case
    candidates = gallery_of(vectors_ND, search)
    _, item_BK = candidates.top(query_BD, 3)
    assert torch.stack([candidates.rank(query_BD, item_B) for item_B in item_BK.unbind(1)], 1).tolist() == [
        [0, 1, 2]
    ] * len(query_BD)


@pytest.mark.parametrize("search", SEARCHES)
def test_excluded_items_are_passed_over(search):
    torch.manual_seed(0)
    candidates, query_BD = gallery_of(torch.randn(100, 8), search), torch.randn(10, 8)
    _, all_BK = candidates.top(query_BD, 6)
    _, item_BK = candidates.top(query_BD, 3, all_BK[:, [0, 2, 3]])
    assert torch.equal(item_BK, all_BK[:, [1, 4, 5]])


@pytest.mark.parametrize("search", SEARCHES)
def test_many_excluded_items_leave_enough_others(search):
    torch.manual_seed(0)
    candidates, query_BD = gallery_of(torch.randn(100, 8), search), torch.randn(2, 8)
    _, all_BK = candidates.top(query_BD, 100)
    _, item_BK = candidates.top(query_BD, 5, all_BK[:, :90])
    assert torch.equal(item_BK, all_BK[:, 90:95])
    allowed_N = torch.arange(100) % 2 == 0
    _, all_BK = candidates.top(query_BD, 50, allowed_N=allowed_N)
    _, item_BK = candidates.top(query_BD, 5, all_BK[:, :40], allowed_N)
    assert torch.equal(item_BK, all_BK[:, 40:45])


@pytest.mark.parametrize("search", SEARCHES)
def test_k_beyond_the_gallery_gives_all_of_it(search):
    distance_BK, item_BK = gallery_of(torch.tensor([[3.0], [1.0], [2.0]]), search).top(torch.zeros(1, 1), 10)
    assert item_BK.tolist() == [[1, 2, 0]] and distance_BK.tolist() == [[1, 4, 9]]


def test_a_gallery_with_a_vector_that_is_not_finite_is_refused():
    vectors_ND = torch.randn(30, 4)
    vectors_ND[7, 2] = float("nan")
    candidates = gallery_of(vectors_ND)
    for ask in (candidates.rank, candidates.top):
        with pytest.raises(NotFiniteError):
            ask(torch.randn(2, 4), torch.tensor([3, 5]) if ask == candidates.rank else 1)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_query_that_is_not_finite_is_refused_by_every_search(bad, indexed, filtered):
    candidates = gallery_of(torch.randn(30, 4))
    if indexed:
        candidates = candidates.with_index(lambda *given: torch.arange(given[1]).unsqueeze(0))
    with pytest.raises(NotFiniteError, match="a query or a gallery vector is not finite"):
        candidates.top(torch.full((1, 4), bad), 3, allowed_N=torch.arange(30) < 20 if filtered else None)


def test_products_are_of_full_float32_whatever_training_allows(monkeypatch):
    held, real = [], torch.addmm
    monkeypatch.setattr(
        torch,
        "addmm",
        lambda *args, **options: held.append(torch.get_float32_matmul_precision()) or real(*args, **options),
    )
    torch.set_float32_matmul_precision("medium")
    try:
        gallery_of(torch.randn(9, 4)).rank(torch.randn(2, 4), torch.tensor([3, 5]))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert set(held) == {"highest"}


@pytest.mark.parametrize("search", SEARCHES)
def test_float16_of_a_memory_map_ranks_and_is_searched_as_the_same_vectors_in_memory(
    search, tmp_path, monkeypatch
):
    monkeypatch.setattr(exact, "TILE", 500)
    monkeypatch.setattr(exact, "SEARCHED", 900)
    torch.manual_seed(0)
    np.save(tmp_path / "vectors.npy", torch.randn(1000, 32).repeat(2, 1).half().numpy())
    mapped_ND = torch.from_numpy(np.load(tmp_path / "vectors.npy", mmap_mode="c"))
    query_BD, target_B = mapped_ND[:60].float() + 0.1 * torch.randn(60, 32), torch.randint(2000, (60,))
    mapped, held = gallery_of(mapped_ND, search), gallery_of(mapped_ND.float(), search)
    assert mapped.vectors_ND.data_ptr() == mapped_ND.data_ptr()
    assert torch.equal(mapped.rank(query_BD, target_B), held.rank(query_BD, target_B))
    for of_mapped, of_held in zip(mapped.top(query_BD, 7), held.top(query_BD, 7), strict=True):
        assert torch.equal(of_mapped, of_held)


def rank_and_search_all(count, size):
    """The megabytes by which the memory of this process grows."""
    vectors_ND = torch.randn(count, size)
    candidates = Gallery(Items([], vectors_ND, vectors_ND), vectors_ND)
    candidates.rank(vectors_ND[:64], torch.arange(64))  # libraries take their buffers
    candidates.top(vectors_ND[:64], 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    candidates.rank(vectors_ND, torch.arange(count))
    candidates.top(vectors_ND, 10)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def test_ranks_and_top_k_of_all_items_hold_no_matrix_of_all_distances(apart):
    assert apart(rank_and_search_all, 8000, 16) < 120  # the matrix alone has 244


@pytest.mark.skipif(exact.faiss is None, reason="FAISS is not installed")
def test_the_search_library_can_be_chosen():
    assert gallery_of(torch.zeros(3, 2), "torch").search == "torch"
    assert gallery_of(torch.zeros(3, 2), "auto").search == "faiss"


def test_faiss_searches_on_the_gpu_of_a_query_where_it_can(monkeypatch):
    asked = []
    of_gpu = SimpleNamespace(
        StandardGpuResources=lambda: "resources", knn_gpu=lambda *given, device: asked.append((given, device))
    )
    monkeypatch.setattr(exact, "faiss", of_gpu)
    monkeypatch.setattr(exact.importlib, "import_module", asked.append)
    assert exact._faiss_search(torch.device("meta")) is None and asked == []
    search = exact._faiss_search(torch.device("cuda"))
    assert asked == ["faiss.contrib.torch_utils"]
    for gpu in (0, 1):
        query = SimpleNamespace(device=torch.device("cuda", gpu))
        search(query, "vectors", 3)
        assert asked[-1] == (("resources", query, "vectors", 3), gpu)
    monkeypatch.setattr(exact, "faiss", SimpleNamespace())  # of a CPU alone
    assert exact._faiss_search(torch.device("cuda")) is None


def test_without_faiss_torch_searches(monkeypatch):
    monkeypatch.setattr(exact, "faiss", None)
    assert gallery_of(torch.zeros(3, 2), "auto").search == "torch"


def test_no_gradient_flows_through_the_gallery():
    vectors_ND, query_BD = torch.randn(5, 2, requires_grad=True), torch.randn(2, 2, requires_grad=True)
    candidates = gallery_of(vectors_ND)
    assert not candidates.vectors_ND.requires_grad and not candidates.top(query_BD, 2)[0].requires_grad


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("search", SEARCHES)
def test_only_allowed_items_are_found_and_all_of_the_nearest(case, search, share):
    vectors_ND, query_BD, _ = case
    allowed_N = torch.rand(300, generator=torch.Generator().manual_seed(1)) < share
    exclude_BK = torch.randint(300, (40, 3), generator=torch.Generator().manual_seed(2))
    distance_BK, item_BK = gallery_of(vectors_ND, search).top(query_BD, 5, exclude_BK, allowed_N)
    naive_BN = distances(vectors_ND, query_BD).masked_fill(~allowed_N, float("inf"))
    naive_BN.scatter_(1, exclude_BK, float("inf"))
    expected_BK = naive_BN.sort(dim=1, stable=True)
    width = min(5, int(allowed_N.sum()))
    assert item_BK.shape == distance_BK.shape == (40, width)
    found_BK = distance_BK.isfinite()
    assert torch.equal(found_BK, expected_BK.values[:, :width].isfinite())
    assert torch.equal(item_BK[found_BK], expected_BK.indices[:, :width][found_BK])

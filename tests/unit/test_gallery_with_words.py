"""A gallery whose scorer adds a bonus for the words of a query: the order is that of a plain computation in float64."""

import pytest
import torch

from fashioniq.data.items import Items
from fashioniq.language.wishes import Wish, Wishes
from fashioniq.loop import exact, gallery
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.index import approximate
from fashioniq.loop.query import Query
from tests.unit.test_gallery import gallery_of

N, B = 300, 24
needs_faiss = pytest.mark.skipif(exact.faiss is None, reason="FAISS is not installed")


class Rows:
    """Scorer of queries whose only free word is the number of a row of bonuses."""

    def __init__(self, bonus_BN):
        self.bonus_BN, self.asked = bonus_BN, 0

    def bonus(self, wishes):
        self.asked += 1
        if not wishes.held:
            return torch.zeros(self.bonus_BN.shape[1]).numpy()
        return self.bonus_BN[int(wishes.held[0].text)].numpy()


def wishing(row):
    return Wishes((Wish(frozenset(), str(row), (0, 1)),))


def queries(query_BD):
    return Query(query_BD, [wishing(row) for row in range(len(query_BD))])


def naive_costs(vectors_ND, query_BD, bonus_BN):
    distance_BN = (query_BD.double().unsqueeze(1) - vectors_ND.double()).square().sum(2)
    return distance_BN - 2 * bonus_BN.double()


def naive_rank(cost_BN, target_B):
    own_B1 = cost_BN.gather(1, target_B.unsqueeze(1))
    earlier_BN = torch.arange(cost_BN.shape[1]) < target_B.unsqueeze(1)
    return ((cost_BN < own_B1) | ((cost_BN == own_B1) & earlier_BN)).sum(1)


def naive_top(cost_BN, k):
    return cost_BN.sort(dim=1, stable=True).indices[:, :k]


def wishes_met(count, generator):
    """Bonuses of few values, as of wishes."""
    return torch.randint(0, 3, (B, count), generator=generator) * 0.5


def any_bonus(count, generator):
    return torch.rand(B, count, generator=generator)


def penalties(count, generator):
    return -2.0 * (torch.rand(B, count, generator=generator) < 0.3)


def penalties_of_all(count, generator):
    """As where no product has what is not denied."""
    return -2.0 - torch.rand(B, count, generator=generator)


def overwhelming(count, generator):
    return 100 * torch.rand(B, count, generator=generator)


@pytest.fixture(
    params=[wishes_met, any_bonus, penalties, penalties_of_all, overwhelming], ids=lambda make: make.__name__
)
def case(request):
    """Vectors of unit length, a quarter of them repeated, queries and bonuses."""
    generator = torch.Generator().manual_seed(0)
    vectors_ND = torch.nn.functional.normalize(torch.randn(N, 16, generator=generator), dim=1)
    vectors_ND[225:] = vectors_ND[:75]
    query_BD = torch.nn.functional.normalize(torch.randn(B, 16, generator=generator), dim=1)
    bonus_BN = request.param(N, generator)
    bonus_BN[:, 225:] = bonus_BN[:, :75]  # ties of all that is compared
    return vectors_ND, query_BD, bonus_BN, torch.randint(N, (B,), generator=generator)


def scored(vectors_ND, bonus_BN, search="torch"):
    return gallery_of(vectors_ND, search).with_scorer(Rows(bonus_BN))


@pytest.mark.parametrize(("queries_of_a_tile", "tile"), [(1, 299), (7, 100), (1024, 11), (1024, 1024)])
def test_ranks_are_the_naive_ones_in_tiles_of_any_size(case, queries_of_a_tile, tile, monkeypatch):
    vectors_ND, query_BD, bonus_BN, target_B = case
    monkeypatch.setattr(gallery, "QUERIES", queries_of_a_tile)
    monkeypatch.setattr(exact, "TILE", tile)
    monkeypatch.setattr(exact, "NUMBERS", 1200)
    rank_B = scored(vectors_ND, bonus_BN).rank(queries(query_BD), target_B)
    assert torch.equal(rank_B, naive_rank(naive_costs(vectors_ND, query_BD, bonus_BN), target_B))


@pytest.mark.parametrize("search", ["torch", "auto"])
@pytest.mark.parametrize("searched", [4, 70, 16384])
def test_the_first_items_are_the_naive_ones_and_ties_are_in_the_order_of_the_items(
    case, searched, search, monkeypatch
):
    vectors_ND, query_BD, bonus_BN, _ = case
    monkeypatch.setattr(exact, "SEARCHED", searched)
    monkeypatch.setattr(gallery, "BONUSES", 5 * N)
    cost_BK, item_BK = scored(vectors_ND, bonus_BN, search).top(queries(query_BD), 9)
    cost_BN = naive_costs(vectors_ND, query_BD, bonus_BN)
    assert torch.equal(item_BK, naive_top(cost_BN, 9))
    torch.testing.assert_close(cost_BK, cost_BN.sort(dim=1).values[:, :9], rtol=1e-9, atol=1e-9)


def test_only_queries_with_words_are_searched_few_at_a_time(monkeypatch):
    """So that no more than BONUSES bonuses are held at once; there is one query at a time at least."""
    query_BD, sizes = torch.zeros(B, 2), []
    found = scored(torch.ones(N, 2), torch.ones(B, N))
    best = found._exact.best
    monkeypatch.setattr(found._exact, "best", lambda *given: sizes.append(len(given[0])) or best(*given))
    for bonuses, expected in ((7 * N, [7, 7, 7, 3]), (7 * N - 1, [6] * 4), (N - 1, [1] * B)):
        monkeypatch.setattr(gallery, "BONUSES", bonuses)
        sizes.clear()
        found.top(queries(query_BD), 1)
        assert sizes == expected
        sizes.clear()
        found.top(query_BD, 1)
        assert sizes == [B]
    monkeypatch.setattr(gallery, "QUERIES", 20)
    found.top(query_BD, 1)
    assert sizes == [B, 20, 4]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_only_allowed_items_are_found_and_excluded_ones_are_not(case, share, monkeypatch):
    vectors_ND, query_BD, bonus_BN, _ = case
    monkeypatch.setattr(exact, "SEARCHED", 64)
    generator = torch.Generator().manual_seed(2)
    allowed_N = torch.rand(N, generator=generator) < share
    exclude_BK = torch.randint(N, (B, 3), generator=generator)
    cost_BK, item_BK = scored(vectors_ND, bonus_BN).top(queries(query_BD), 5, exclude_BK, allowed_N)
    cost_BN = naive_costs(vectors_ND, query_BD, bonus_BN).masked_fill(~allowed_N, float("inf"))
    cost_BN.scatter_(1, exclude_BK, float("inf"))
    assert item_BK.shape == (B, min(5, int(allowed_N.sum())))
    found_BK = cost_BK.isfinite()
    assert torch.equal(found_BK, cost_BN.sort(dim=1).values[:, : item_BK.shape[1]].isfinite())
    assert torch.equal(item_BK[found_BK], naive_top(cost_BN, item_BK.shape[1])[found_BK])


def test_the_order_of_the_gallery_changes_no_rank_but_that_of_ties():
    generator = torch.Generator().manual_seed(3)
    vectors_ND, query_BD = torch.randn(N, 8, generator=generator), torch.randn(B, 8, generator=generator)
    bonus_BN, target_B = any_bonus(N, generator), torch.randint(N, (B,), generator=generator)
    order_N = torch.randperm(N, generator=generator)
    assert torch.equal(
        scored(vectors_ND, bonus_BN).rank(queries(query_BD), target_B),
        scored(vectors_ND[order_N], bonus_BN[:, order_N]).rank(
            queries(query_BD), order_N.argsort()[target_B]
        ),
    )


@pytest.mark.parametrize("wishes", [None, [Wishes()] * B, [Wishes(asserted=("", ""))] * B])
def test_a_query_without_words_is_ordered_bit_for_bit_as_without_a_scorer(case, wishes):
    vectors_ND, query_BD, bonus_BN, target_B = case
    plain, with_words = gallery_of(vectors_ND, "auto"), scored(vectors_ND, bonus_BN, "auto")
    query = Query(query_BD, wishes)
    assert torch.equal(with_words.rank(query, target_B), plain.rank(query_BD, target_B))
    for ours, theirs in zip(with_words.top(query, 7), plain.top(query_BD, 7), strict=True):
        assert torch.equal(ours, theirs)
    assert with_words.scorer.asked == 0


def test_of_a_batch_each_query_counts_its_own_words():
    vectors_ND, query_BD = torch.zeros(4, 2), torch.zeros(3, 2)
    bonus_BN = torch.tensor([[0.0, 0, 0, 1], [0, 0, 0, 0], [0, 2, 0, 0]])
    mixed = Query(query_BD, [wishing(0), Wishes(), wishing(2)])
    assert scored(vectors_ND, bonus_BN).top(mixed, 2)[1].tolist() == [[3, 0], [0, 1], [1, 0]]


def test_float16_vectors_are_ordered_with_words_as_in_float32(case):
    vectors_ND, query_BD, bonus_BN, target_B = case
    half, held = scored(vectors_ND.half(), bonus_BN), scored(vectors_ND.half().float(), bonus_BN)
    assert torch.equal(half.rank(queries(query_BD), target_B), held.rank(queries(query_BD), target_B))
    assert torch.equal(half.top(queries(query_BD), 7)[1], held.top(queries(query_BD), 7)[1])


def test_for_vectors_of_unit_length_the_order_is_that_of_cosine_plus_bonus(case):
    vectors_ND, query_BD, bonus_BN, _ = case
    score_BN = (query_BD.double() @ vectors_ND.double().T + bonus_BN.double())[:, :225]  # without ties
    _, item_BK = scored(vectors_ND[:225], bonus_BN[:, :225]).top(queries(query_BD), 5)
    assert torch.equal(item_BK, score_BN.sort(dim=1, descending=True, stable=True).indices[:, :5])


def test_a_scorer_is_of_one_gallery_object_only():
    vectors_ND = torch.randn(9, 2)
    plain = gallery_of(vectors_ND)
    with_words = plain.with_scorer(Rows(torch.eye(9)))
    assert plain.scorer is None and with_words.scorer is not None
    assert with_words.with_scorer(None).scorer is None
    assert with_words.vectors_ND.data_ptr() == plain.vectors_ND.data_ptr()


def indexed(factory, vectors_ND, query_BD, bonus_BN):
    items = Items.without_attributes([str(n) for n in range(len(vectors_ND))], vectors_ND)
    found, _ = approximate(Gallery(items, vectors_ND), factory, query_BD)
    return found.with_scorer(Rows(bonus_BN))


@needs_faiss
@pytest.mark.parametrize("factory", ["Flat", "HNSW16", "IVF16,Flat"])
@pytest.mark.parametrize("excluded", [0, 5])
def test_with_an_approximate_index_the_first_items_are_the_true_ones(case, factory, excluded):
    vectors_ND, query_BD, bonus_BN, target_B = case
    found = indexed(factory, vectors_ND, query_BD, bonus_BN)
    cost_BN = naive_costs(vectors_ND, query_BD, bonus_BN)
    exclude_BK = naive_top(cost_BN, excluded)
    _, item_BK = found.top(queries(query_BD), 6, exclude_BK)
    assert torch.equal(item_BK, naive_top(cost_BN, excluded + 6)[:, excluded:])
    assert torch.equal(found.rank(queries(query_BD), target_B), naive_rank(cost_BN, target_B))


@needs_faiss
@pytest.mark.parametrize("make", [any_bonus, wishes_met, overwhelming], ids=lambda make: make.__name__)
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_where_more_items_compete_than_are_searched_exactly_nearly_all_true_ones_are_found(
    make, share, monkeypatch
):
    """Items of every bonus compete: the best are looked for among the nearest, and among the greatest bonuses."""
    generator, count = torch.Generator().manual_seed(4), 2000
    vectors_ND = torch.nn.functional.normalize(torch.randn(count, 16, generator=generator), dim=1)
    query_BD = torch.nn.functional.normalize(torch.randn(B, 16, generator=generator), dim=1)
    bonus_BN = make(count, generator)
    found = indexed("IVF16,Flat", vectors_ND, query_BD, bonus_BN)
    monkeypatch.setattr(gallery, "EXACT_MOST", 100)
    allowed_N = torch.rand(count, generator=generator) < share
    _, item_BK = found.top(queries(query_BD), 5, allowed_N=allowed_N)
    cost_BN = naive_costs(vectors_ND, query_BD, bonus_BN).masked_fill(~allowed_N, float("inf"))
    best_B = naive_top(cost_BN, 1)
    assert allowed_N[item_BK].all()
    assert (item_BK[:, :1] == best_B).double().mean() >= 0.9


@needs_faiss
def test_an_index_that_finds_nothing_leaves_the_items_that_words_lift(case, monkeypatch):
    vectors_ND, query_BD, bonus_BN, _ = case
    found = scored(vectors_ND, bonus_BN).with_index(
        lambda query_BD, count, allowed_N=None, wider=1.0: torch.full((len(query_BD), count), -1)
    )
    for most in (50_000, 3):
        monkeypatch.setattr(gallery, "EXACT_MOST", most)
        cost_BK, item_BK = found.top(queries(query_BD), 4)
        assert item_BK.shape == (B, 4) and cost_BK.isfinite().all()
        assert (item_BK >= 0).all() and all(len(set(row)) == 4 for row in item_BK.tolist())


@pytest.mark.parametrize("k", [1, 4])
def test_the_first_items_are_the_true_ones_if_few_can_be_and_an_index_finds_the_nearest(case, k):
    """The other items that the index finds are any."""
    vectors_ND, query_BD, bonus_BN, _ = case
    generator = torch.Generator().manual_seed(3)

    def index(query_BD, count, allowed_N=None, wider=1.0):
        nearest_BK = torch.cdist(query_BD, vectors_ND).argmin(1, keepdim=True)
        return torch.cat(
            [nearest_BK, torch.randint(-1, N, (len(query_BD), count - 1), generator=generator)], 1
        )

    found = scored(vectors_ND, bonus_BN).with_index(index)
    expected_BK = naive_top(naive_costs(vectors_ND, query_BD, bonus_BN), k)
    for _ in range(3):
        assert torch.equal(found.top(queries(query_BD), k)[1], expected_BK)


def test_the_first_item_of_the_gallery_is_found_by_an_index_too(case, monkeypatch):
    vectors_ND, _, _, _ = case
    bonus_BN = torch.full((B, N), 0.3)
    bonus_BN[:, [0, 225]] = 0  # the first item, and its equal, are not looked at because of their bonus
    monkeypatch.setattr(gallery, "EXACT_MOST", 0)
    monkeypatch.setattr(gallery, "LOOKED_AT", 1)
    found = scored(vectors_ND, bonus_BN).with_index(
        lambda query_BD, count, allowed_N=None, wider=1.0: torch.zeros(len(query_BD), 1, dtype=torch.long)
    )
    assert found.top(queries(vectors_ND[:1]), 1)[1].tolist() == [[0]]


def test_the_fewer_items_may_be_found_the_more_of_an_index_is_looked_at(monkeypatch):
    """Of 300 items, 200 have nearly the greatest bonus, and 150 of these are allowed."""
    monkeypatch.setattr(gallery, "EXACT_MOST", 50)
    asked = []

    def index(query_BD, count, allowed_N=None, wider=1.0):
        asked.append((count, None if allowed_N is None else int(allowed_N.sum()), wider))
        return torch.arange(count).unsqueeze(0)

    bonus_1N = torch.cat([torch.ones(200), torch.zeros(100)]).unsqueeze(0)
    found = scored(torch.zeros(300, 2), bonus_1N).with_index(index)
    found.top(queries(torch.zeros(1, 2)), 10)
    assert asked == [(40, None, 1.0), (40, 200, 6.0)]  # 4 times as many as if they were at random places
    asked.clear()
    cost_1K, item_1K = found.top(queries(torch.zeros(1, 2)), 10, allowed_N=torch.arange(300) >= 50)
    assert asked == [(40, None, 1.0), (40, 150, 8.0), (40, 250, 4.8)]
    assert (item_1K >= 50).all() and (cost_1K == -2).all(), (
        "what an index finds in spite of the mask is left out"
    )


def test_rows_of_which_fewer_items_are_looked_at_are_filled_with_none():
    """Of the first query, one item has the greatest bonus by far; of the second, all have the same."""
    bonus_BN = torch.zeros(2, 30)
    bonus_BN[0, 7] = 100
    found = scored(torch.zeros(30, 2), bonus_BN)
    nothing = lambda query_BD, count, allowed_N=None, wider=1.0: torch.full((len(query_BD), count), -1)  # noqa: E731
    cost_BK, item_BK = found._near(nothing, torch.zeros(2, 2), bonus_BN, 1)
    assert item_BK[0].tolist() == [7] + [-1] * 16 and cost_BK[0].tolist() == [-200] + [float("inf")] * 16
    assert len(set(item_BK[1].tolist())) == 17 and (cost_BK[1] == 0).all()


def test_an_empty_gallery_and_no_queries_are_no_error():
    empty = Gallery(
        Items.without_attributes([], torch.zeros(0, 2)), torch.zeros(0, 2), scorer=Rows(torch.zeros(1, 0))
    )
    assert empty.top(Query(torch.zeros(1, 2), [wishing(0)]), 3)[1].shape == (1, 0)
    some = scored(torch.randn(5, 2), torch.zeros(1, 5))
    assert some.rank(Query(torch.zeros(0, 2), []), torch.zeros(0, dtype=torch.long)).shape == (0,)


@pytest.mark.parametrize("index_finds", [0, 30])
def test_items_that_are_not_allowed_do_not_narrow_the_search_of_the_others(index_finds):
    """The items that are not allowed are the nearest, and have the greatest bonus."""
    vectors_ND = torch.arange(300.0).unsqueeze(1) / 300
    bonus_BN = torch.cat([torch.full((250,), 5.0), torch.linspace(0, 1, 50)]).unsqueeze(0)
    allowed_N = torch.arange(300) >= 250
    found = scored(vectors_ND, bonus_BN).with_index(
        lambda query_BD, count, allowed_N=None, wider=1.0: (
            torch.arange(count).unsqueeze(0) % (index_finds or 1)
        )
    )
    cost_BN = naive_costs(vectors_ND, torch.zeros(1, 1), bonus_BN).masked_fill(~allowed_N, float("inf"))
    item_BK = found.top(queries(torch.zeros(1, 1)), 6, allowed_N=allowed_N)[1]
    assert torch.equal(item_BK, naive_top(cost_BN, 6))

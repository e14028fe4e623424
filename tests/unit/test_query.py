"""Queries of several dialogs: joined, split and of vectors alone."""

import pytest
import torch

from fashioniq.language.wishes import Wish, Wishes
from fashioniq.loop.query import Query


def wishes(count, first=0):
    return [Wishes((Wish(frozenset(), str(first + number), (0, 1)),)) for number in range(count)]


def test_a_tensor_is_a_query_of_vectors_alone():
    vector_BD = torch.randn(3, 2)
    assert Query.of(vector_BD).vector_BD is vector_BD and Query.of(vector_BD).wishes is None
    query = Query(vector_BD, wishes(3))
    assert Query.of(query) is query and len(query.vector_BD) == 3


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_parts_of_a_query_joined_are_the_query(size):
    query = Query(torch.randn(7, 2), wishes(7))
    parts = list(query.split(size))
    assert [len(part.vector_BD) for part in parts] == [min(size, 7 - start) for start in range(0, 7, size)]
    assert all(len(part.wishes) == len(part.vector_BD) for part in parts)
    joined = Query.joined(parts)
    assert torch.equal(joined.vector_BD, query.vector_BD) and joined.wishes == query.wishes


def test_parts_of_vectors_alone_have_no_wishes():
    query = Query(torch.randn(5, 2))
    assert [part.wishes for part in query.split(2)] == [None] * 3
    assert torch.equal(Query.joined(list(query.split(2))).vector_BD, query.vector_BD)


def test_a_query_of_no_dialogs_is_one_empty_part():
    (part,) = Query(torch.zeros(0, 2), []).split(4)
    assert len(part.vector_BD) == 0 and part.wishes == []


def test_queries_are_joined_in_their_order_and_lose_the_wishes_that_only_some_have():
    one, other = Query(torch.zeros(2, 1), wishes(2)), Query(torch.ones(1, 1), wishes(1, 2))
    joined = Query.joined([one, other])
    assert joined.vector_BD.flatten().tolist() == [0, 0, 1] and joined.wishes == wishes(3)
    assert Query.joined([one, Query(torch.ones(1, 1))]).wishes is None

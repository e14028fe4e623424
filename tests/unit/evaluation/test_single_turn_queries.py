from fashioniq.data.catalog import Pair
from fashioniq.evaluation.single_turn_search import queries_of

PAIRS = [
    Pair("T1", "C1", ("is red.", "has sleeves")),
    Pair(None, "C2", ("is blue",)),
    Pair("T3", "C3", ("is long",)),
]


def told(mode, pairs=PAIRS):
    return [(query.name, query.texts) for query in queries_of(pairs, mode)]


def test_each_caption_of_a_pair_with_a_target_is_a_query_named_by_both_products():
    assert told("each") == [
        ("T1-C1-1", ("is red.",)),
        ("T1-C1-2", ("has sleeves",)),
        ("T3-C3-1", ("is long",)),
    ]
    assert [(query.target, query.candidate) for query in queries_of(PAIRS, "each")] == [
        ("T1", "C1"),
        ("T1", "C1"),
        ("T3", "C3"),
    ]


def test_captions_are_joined_by_and_without_the_marks_at_their_ends():
    assert told("joined") == [("T1-C1-1", ("is red and has sleeves",)), ("T3-C3-1", ("is long",))]


def test_both_orders_are_one_query_of_two_texts():
    assert told("both-orders") == [
        ("T1-C1-1", ("is red and has sleeves", "has sleeves and is red")),
        ("T3-C3-1", ("is long",)),
    ]


def test_names_differ_where_a_pair_is_listed_twice():
    assert [name for name, _ in told("joined", [PAIRS[0], PAIRS[0]])] == ["T1-C1-1", "T1-C1-2"]

"""Page of requests: what its failures say."""

from fashioniq.data.search_requests import RequestTruth
from fashioniq.report.requests import needs_of


def test_needs_are_said_in_words():
    truth = RequestTruth(
        wanted=(("red",), ("a", "b")), denied=("floral",), price_most=4999, currency="EUR", size="M"
    )
    assert needs_of(truth) == ["red", "a or b", "not floral", "at most 49.99 EUR", "size M"]
    assert needs_of(RequestTruth(wanted=(tuple("abcdefg"),), in_stock=True)) == [
        "a or b or c or d or another",
        "in stock",
    ]

"""Page of requests: what its failures say."""

from fashioniq.data.requested import Truth
from fashioniq.report.requests import needs_of


def test_needs_are_said_in_words():
    truth = Truth(
        wanted=(("red",), ("a", "b")), denied=("floral",), price_most=4999, currency="EUR", size="M"
    )
    assert needs_of(truth) == ["red", "a or b", "not floral", "at most 49.99 EUR", "size M"]
    assert needs_of(Truth(wanted=(tuple("abcdefg"),), in_stock=True)) == [
        "a or b or c or d or another",
        "in stock",
    ]

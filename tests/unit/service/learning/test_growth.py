"""Words that a vocabulary gains."""

from datetime import UTC, datetime

from fashioniq.data.words import Vocabulary
from fashioniq.service.learning.rules import LiveSession, LiveStep
from fashioniq.service.learning.start import new_words

WORDS = ["is", "red", "long", "sleeves"]


def session(number, *texts):
    return LiveSession(
        session=f"s{number}",
        split="train",
        target="a",
        weight=1.0,
        signal="this_is_it",
        model="m",
        begun=datetime(2026, 11, 1, tzinfo=UTC),
        steps=[LiveStep("b", text) for text in texts],
    )


def test_a_word_counts_from_two_clients_on():
    sessions = [session(1, "is crimson", "is ecru"), session(2, "crimson red"), session(3, "ecru ecru Ecru")]
    clients = {"s1": "one", "s2": "two", "s3": "one"}
    assert new_words(sessions, clients, Vocabulary(WORDS)) == ["crimson"]

"""Logs of the service without a service: rows of sessions, turns and events."""

from datetime import UTC, datetime, timedelta

import pytest

from fashioniq.service.learning.rules import Shop
from fashioniq.service.store import EventRow, SessionRow, TurnRow

BEGAN = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Rows:
    """Makes logged sessions, a minute apart."""

    def __init__(self):
        self.count = 0

    def session(
        self, target, *texts, about="train-9", shown=(), action="this_is_it", weight_of=None, **details
    ):
        """A session whose turns say `texts` about one product; `shown` are the products of each answer."""
        self.count += 1
        id, at = f"s{self.count}", BEGAN + timedelta(minutes=self.count)
        session = SessionRow(
            id=id, category="dresses", model="m", created_at=at, last_at=at, consent="training", **details
        )
        answers = [[], *(shown or [[]] * len(texts))]
        turns = [
            TurnRow(
                query_id=f"{id}-{n}",
                session_id=id,
                n=n,
                kind="says" if n else "start",
                about=about if n else None,
                says=texts[n - 1] if n else None,
                shown=[{"id": name, "score": 1.0, "propensity": 1.0} for name in answer],
                created_at=at,
            )
            for n, answer in enumerate(answers)
        ]
        event = EventRow(
            event_id=f"e{self.count}",
            query_id=turns[-1].query_id,
            session_id=id,
            action=action,
            product_id=target,
            server_at=at + timedelta(days=1),
        )
        return session, turns, [event]


@pytest.fixture
def rows():
    return Rows()


@pytest.fixture
def shop():
    """Ten products of each split: train-0 to test-9."""
    split_of = {f"{split}-{number}": split for split in ("train", "val", "test") for number in range(10)}
    return Shop(split_of, {"train-1": "Marlowe navy wrap dress with belt"})

"""The target of a session by its signals."""

from datetime import UTC, datetime, timedelta

import pytest

from fashioniq.service.learning.rules import target_of
from fashioniq.service.store import EventRow

SAID = datetime(2026, 11, 1, tzinfo=UTC)


def event(action, product, days=1.0, query="q", client_days=None):
    at = SAID + timedelta(days=days)
    return EventRow(
        event_id=f"{action}{product}{days}",
        query_id=query,
        session_id="s",
        action=action,
        product_id=product,
        client_at=None if client_days is None else SAID + timedelta(days=client_days),
        server_at=at,
    )


@pytest.mark.parametrize(
    ("events", "product", "weight"),
    [
        ([event("this_is_it", "a")], "a", 1.0),
        ([event("purchase", "a")], "a", 1.0),
        ([event("add_to_cart", "a")], "a", 0.7),
        ([event("this_is_it", "a", 1), event("this_is_it", "b", 2)], "b", 1.0),
        ([event("this_is_it", "b", 2), event("this_is_it", "a", 1)], "b", 1.0),
        ([event("this_is_it", p, 3, client_days=at) for p, at in (("a", 1), ("b", 2))], "b", 1.0),
        ([event("this_is_it", p, 3, client_days=at) for p, at in (("b", 2), ("a", 1))], "b", 1.0),
        ([event("this_is_it", "a", 1), event("add_to_cart", "b", 2)], "a", 1.0),
        ([event("add_to_cart", "a", 1), event("add_to_cart", "a", 2)], "a", 0.7),
        ([event("purchase", "a", 1), event("return", "a", 9), event("add_to_cart", "b", 2)], "b", 0.7),
    ],
)
def test_the_strongest_and_latest_signal_tells_the_target(events, product, weight):
    found = target_of(events, {"q": SAID})
    assert (found.product, found.weight) == (product, weight)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [event("view", "a"), event("click", "a")],
        [event("purchase", "a", 7.01)],
        [event("purchase", "a"), event("return", "a", 5)],
        [event("add_to_cart", "a"), event("add_to_cart", "b")],
        [event("this_is_it", "a", query="of a turn that was undone")],
    ],
)
def test_other_signals_tell_no_target(events):
    assert target_of(events, {"q": SAID}) is None

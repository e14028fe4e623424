"""The product that a shopper wanted, from what the shopper did."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from fashioniq.service.store import EventRow

BOUGHT_WITHIN = timedelta(days=7)  # after the turn that led to the purchase
WEIGHTS = {"this_is_it": 1.0, "purchase": 1.0, "add_to_cart": 0.7}
CHOICES = {*WEIGHTS, "click"}  # actions that tell that a place was examined


class Target(NamedTuple):
    """The product that a session was about, the signal that tells it, its weight in training, and the turn."""

    product: str
    signal: str
    weight: float
    query_id: str = ""


def target_of(events: Sequence[EventRow], said_at: Mapping[str, datetime]) -> Target | None:
    """The target by the strongest signal, and of equal ones by the latest; None if there is none.

    `said_at` are the times of the turns that were not undone, by query id; events of other turns are ignored.
    A purchase counts within BOUGHT_WITHIN unless the product was returned, an addition to the cart only if no
    other product was added. Views, clicks and likes tell no target.
    """
    events = [one for one in events if one.product_id is not None and one.query_id in said_at]
    returned = {one.product_id for one in events if one.action == "return"}
    in_cart = {one.product_id for one in events if one.action == "add_to_cart"}

    def counts(one: EventRow) -> bool:
        if one.action == "purchase":
            soon = one.server_at - said_at[one.query_id] <= BOUGHT_WITHIN
            return soon and one.product_id not in returned
        return one.action != "add_to_cart" or len(in_cart) == 1

    found = [one for one in events if one.action in WEIGHTS and counts(one)]
    if not found:
        return None
    # those of one request have arrived at the same time
    best = max(found, key=lambda one: (WEIGHTS[one.action], one.server_at, one.client_at or one.server_at))
    return Target(str(best.product_id), best.action, WEIGHTS[best.action], best.query_id)

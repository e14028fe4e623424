"""Rules that choose sessions for training and for the gate, so that nothing leaks from one to the other, and the
product that a shopper wanted, from what the shopper did.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from fashioniq.data.clauses import shortened
from fashioniq.data.words import composed, tokenize
from fashioniq.metrics.examination import PositionBias
from fashioniq.service.store import EventRow, SessionRow, TurnRow
from fashioniq.service.store.scrub import REMOVED

A_DAY = 20  # sessions of one client
MOST_UNSEEN = 3.0  # weight of a choice at a place that is rarely looked at
TITLE_WORDS = 4  # consecutive words of the target's title that a text must not have
SPLITS = ("train", "val", "test")
_URL = re.compile(r"https?://|www\.", re.IGNORECASE)
BOUGHT_WITHIN = timedelta(days=7)  # after the turn that led to the purchase
WEIGHTS = {"this_is_it": 1.0, "purchase": 1.0, "add_to_cart": 0.7}
CHOICES = {*WEIGHTS, "click"}  # actions that tell that a place was examined

Logged = tuple[SessionRow, list[TurnRow], list[EventRow]]


class LiveStep(msgspec.Struct, frozen=True):
    """What a shopper said about an item, and what was shown for it; a long request has several steps."""

    item: str
    text: str
    query_id: str = ""
    shown: list[str] = []


class LiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its target: a line of sessions.jsonl. `split` is that of the target in the catalog."""

    session: str
    split: str
    target: str
    weight: float
    signal: str
    model: str
    begun: datetime
    steps: list[LiveStep]


class Target(NamedTuple):
    """The product that a session was about, the signal that tells it, its weight in training, and the turn."""

    product: str
    signal: str
    weight: float
    query_id: str = ""


@dataclass(frozen=True)
class Shop:
    """What the rules need to know of the catalog: the split and the title of each product with features.

    `copies` are groups of products that are the same, or look the same.
    """

    split_of: Mapping[str, str]
    titles: Mapping[str, str] = field(default_factory=dict)
    copies: Sequence[Collection[str]] = ()

    def named(self, product: str) -> str:
        """The product, or for a variant that the catalog lacks, the first one of its group there."""
        groups = (group for group in self.copies if product in group and product not in self.split_of)
        return next((name for group in groups for name in sorted(group) if name in self.split_of), product)

    def latest_split(self) -> dict[str, str]:
        """For each product in groups of copies, the last split of these groups in the order train, val, test."""
        latest: dict[str, str] = {}
        for group in self.copies:
            here = [name for name in group if name in self.split_of]
            splits = [latest.get(name, self.split_of[name]) for name in here]
            latest |= dict.fromkeys(here, max(splits, key=SPLITS.index)) if splits else {}
        return latest


@dataclass(frozen=True)
class LearningSessions:
    """Sessions that may be learned from, and those of the gate, whose split is test.

    `counts` are the numbers of sessions and turns that each rule left out. `clients` are the clients of the
    sessions, `shown` the products that were shown before `cut`. `explored` are sessions from `cut` on that explored,
    of people who do not train, and `bias` is the position bias of an answer, if it is known.
    """

    sessions: list[LiveSession]
    counts: dict[str, int]
    cut: datetime | None
    clients: dict[str, str]
    shown: set[str]
    explored: Sequence[Logged] = ()
    bias: PositionBias | None = None

    def of(self, *splits: str) -> list[LiveSession]:
        """Sessions of some splits."""
        return [one for one in self.sessions if one.split in splits]


def choose(
    log: Sequence[Logged], shop: Shop, held_out: float, words: int, bias: PositionBias | None = None
) -> LearningSessions:
    """Choose sessions of a log, which is ordered by time.

    The latest `held_out` of the sessions test only, and the earlier ones never do. `words` is the number of
    words that the model reads at once, `bias` the position bias of an answer, if it is known.
    """
    examined = [] if bias is None else bias.examination_P.tolist()
    counts: Counter[str] = Counter()
    cut = log[int(len(log) * (1 - held_out))][0].created_at if log else None
    latest, kept, days = shop.latest_split(), [], Counter[tuple[str, str]]()
    for session, turns, events in log:
        client, day = client_of(session), session.created_at.date().isoformat()
        days[client, day] += 1
        target = target_of(events, {turn.query_id: turn.created_at for turn in turns})
        unseen = unseen_weight(turns, target, examined) if target else 1.0
        target = target and target._replace(product=shop.named(target.product))
        split = shop.split_of.get(target.product, "") if target else ""
        late = cut is not None and session.created_at >= cut
        copied = target is not None and latest.get(target.product, split) != split
        left_out = {
            "sessions of tests and bots": session.origin in ("test", "bot"),
            f"sessions above {A_DAY} of a client on a day": days[client, day] > A_DAY,
            "sessions without a target": target is None,
            "sessions whose target is not in the catalog": not split,
            "sessions whose target has a copy in a later split": copied,
            "sessions of the other period: test targets before the cut, others after it": late
            != (split == "test"),
        }
        if (reason := _first(left_out)) or target is None:
            counts[reason] += 1
        elif not (steps := _steps(turns, target.product, shop, words, counts)):
            counts["sessions without a usable turn"] += 1
        else:
            kept.append(
                LiveSession(
                    session=session.id,
                    split=split,
                    target=target.product,
                    weight=target.weight * unseen,
                    signal=target.signal,
                    model=session.model,
                    begun=session.created_at,
                    steps=steps,
                )
            )
    clients = {session.id: client_of(session) for session, _, _ in log}
    disjoint = client_disjoint(kept, clients)
    if len(kept) > len(disjoint):
        counts["sessions of clients on both sides"] = len(kept) - len(disjoint)
    earlier = [turns for session, turns, _ in log if cut is not None and session.created_at < cut]
    shown = {one["id"] for turns in earlier for turn in turns for one in turn.shown}
    training = {clients[one.session] for one in disjoint if one.split != "test"}
    return LearningSessions(
        sessions=disjoint,
        counts=dict(counts),
        cut=cut,
        clients=clients,
        shown=shown,
        explored=[
            one
            for one in log
            if one[0].arm == "explore" and cut is not None and one[0].created_at >= cut
            if one[0].origin not in ("test", "bot") and clients[one[0].id] not in training
        ],
        bias=bias,
    )


def unseen_weight(turns: Sequence[TurnRow], target: Target, examined: Sequence[float]) -> float:
    """Inverse examination of the place where the target was chosen, up to MOST_UNSEEN, so that choices at places that
    are rarely looked at count as much as others (Joachims, Swaminathan and Schnabel 2017); 1 if it is not known.
    """
    for turn in turns:
        ids = [one["id"] for one in turn.shown[: len(examined)]]
        if turn.query_id == target.query_id and target.product in ids:
            return min(MOST_UNSEEN, 1 / examined[ids.index(target.product)])
    return 1.0


def client_disjoint(sessions: Sequence[LiveSession], clients: Mapping[str, str]) -> list[LiveSession]:
    """Sessions without those that put a client on both sides; the hash of the client chooses the side it keeps."""
    testing = {clients[one.session] for one in sessions if one.split == "test"}
    training = {clients[one.session] for one in sessions if one.split != "test"}
    both = testing & training
    return [
        one
        for one in sessions
        if clients[one.session] not in both or (one.split == "test") == _fold(clients[one.session])
    ]


def tells(text: str, target: str, title: str) -> bool:
    """Whether a text names the target: by its id, an address, or TITLE_WORDS consecutive words of its title."""
    said, named = tokenize(text), tokenize(title)
    spans = {tuple(named[at : at + TITLE_WORDS]) for at in range(len(named) - TITLE_WORDS + 1)}
    return (
        _URL.search(text) is not None
        or re.search(rf"(?<!\w){re.escape(composed(target))}(?!\w)", composed(text), re.IGNORECASE)
        is not None
        or any(tuple(said[at : at + TITLE_WORDS]) in spans for at in range(len(said)))
    )


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


def _steps(
    turns: Sequence[TurnRow], target: str, shop: Shop, words: int, counts: Counter[str]
) -> list[LiveStep]:
    """Turns until the answer that showed the target first, in clauses as the service reads them."""
    steps: list[LiveStep] = []
    seen = False
    for turn in turns:
        text = (turn.says or "").replace(REMOVED, " ")
        if turn.kind == "says" and tokenize(text):
            of_target, of_product = shop.split_of[target], shop.split_of.get(turn.about or "")
            left_out = {
                "turns about no product": turn.about is None,
                # the models cannot replay them
                "turns about a picture, or a product that the catalog lacks": of_product is None,
                "turns without words for the model, such as a price": turn.heard.get("clauses") == [],
                "turns after the target was shown": seen,
                "turns about the target itself": turn.about == target,
                "turns that name the target": tells(text, target, shop.titles.get(target, "")),
                "turns about a product of another split, in training": of_product != of_target != "test",
            }
            if (reason := _first(left_out)) or turn.about is None:
                counts[reason] += 1
            else:
                shown = [one["id"] for one in turn.shown]
                clauses = shortened(text, words)[0]
                steps += [LiveStep(turn.about, clause, turn.query_id, shown) for clause in clauses]
        elif turn.kind == "says" and turn.word_ids:
            counts["turns whose text has expired"] += 1
        seen = seen or any(one["id"] == target for one in turn.shown)
    return steps


def _first(reasons: Mapping[str, bool]) -> str:
    """The first reason that holds, or an empty string."""
    return next((reason for reason, holds in reasons.items() if holds), "")


def client_of(session: SessionRow) -> str:
    """The client of a session, or the session if it has none."""
    return session.client or session.id


def _fold(client: str) -> bool:
    return hashlib.sha256(client.encode()).digest()[0] % 2 == 0

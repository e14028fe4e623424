"""Tasks of the evaluation: the dialogs to run, and what their results depend on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from fashioniq.data.cards import ItemCards
from fashioniq.data.facts import StatedFacts
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.messages import Message, User
from fashioniq.loop.rollout import System
from fashioniq.provenance import Provenance


class Batch(NamedTuple):
    """Dialogs that run together: system, user, targets as positions in the gallery, and the first offer."""

    system: System
    user: User
    target_B: Tensor
    first: Message


@dataclass(frozen=True)
class Task:
    """`count` dialogs of `turns` turns; `batch(rows)` returns those with the given numbers, 0 ≤ row < count.

    `protocol` says how results are measured, written and reported, and which `facts` the system states, which are
    written to metrics.json. `data` maps each file or category to its fingerprint, for the provenance; `retriever` is
    the provenance of the evaluated model. By `truth` it is counted how much of what users state holds.
    `costs` are the costs of pictures, a row of `RoundCosts` for each round. Set `repeated` if a product can be the
    target of several dialogs. `advice` completes the error for queries that are not finite.
    """

    name: str
    protocol: str
    count: int
    turns: int
    batch: Callable[[Sequence[int]], Batch]
    facts: StatedFacts | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    truth: StatementCheck | None = None
    retriever: Provenance | None = None
    cards: ItemCards = field(default_factory=ItemCards)
    repeated: bool = False
    advice: str = "check the retriever's weights"
    costs: Callable[[], Sequence[Mapping[str, float]]] = list

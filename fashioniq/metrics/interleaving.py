"""Interleaving: one list of products of two rankings, and how much of each place is due to which of them.

Both rankings are for the same conversation. A shopper who clicks a product votes for the model that contributed it,
so each shopper compares both, and far fewer are needed than if each shopper saw one of them.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

STEEPNESS = 3  # exponent of the ranks in `probabilistic`, as in the paper


@dataclass
class Interleaved:
    """The products of the list in order.

    `credits` are the probability that the challenger contributed a product, less the probability that the running
    model did, given the places before it: 1, −1, 0 where both would have. `propensities` are the probability of each
    product given the places before it; their product is the probability of the list.
    """

    items: list[str] = field(default_factory=list)
    credits: list[float] = field(default_factory=list)
    propensities: list[float] = field(default_factory=list)

    def add(self, item: str, credit: float, propensity: float) -> None:
        """Append a product."""
        self.items.append(item)
        self.credits.append(credit)
        self.propensities.append(propensity)


def team_draft(running: Sequence[str], challenger: Sequence[str], k: int, draw: random.Random) -> Interleaved:
    """Interleave two rankings to k places (Radlinski, Kurup and Joachims 2008).

    In each round a coin tells which model takes its best remaining product first, and the other one takes the next. A
    product that is the best one of both counts for neither, whatever the coin says, which lowers the variance.
    """
    shown = Interleaved()
    while len(shown.items) < k and (pair := _best(running, challenger, shown.items)):
        if pair[0] == pair[1]:
            shown.add(pair[0], 0.0, 1.0)
            pair = _best(running, challenger, shown.items)
            if (
                pair and len(shown.items) < k
            ):  # who took the last one second is as uncertain as who took it first
                place = draw.randrange(2)
                same = pair[0] == pair[1]
                shown.add(pair[place], 0.0 if same else 2.0 * place - 1, 1.0 if same else 0.5)
        else:
            first = draw.randrange(2)
            shown.add(pair[first], 2.0 * first - 1, 0.5)
            if len(shown.items) < k:
                shown.add(pair[1 - first], 1.0 - 2 * first, 1.0)
    return shown


def probabilistic(
    running: Sequence[str], challenger: Sequence[str], k: int, draw: random.Random
) -> Interleaved:
    """Interleave two rankings to k places, with credits over all ways to it (Hofmann, Whiteson and de Rijke 2011).

    For each place a coin chooses the model, which draws one of its remaining products by 1/rank³. Every product of
    either ranking can be shown at every place.
    """
    weights = [
        {name: rank**-STEEPNESS for rank, name in enumerate(ranking, 1)} for ranking in (running, challenger)
    ]
    names, shown = list(dict.fromkeys((*running, *challenger))), Interleaved()
    while names and len(shown.items) < k:
        totals = [sum(weight.get(name, 0.0) for name in names) for weight in weights]
        chance_2N = [
            [weight.get(name, 0.0) / total if total else 0.0 for name in names]
            for weight, total in zip(weights, totals, strict=True)
        ]
        both_N = [sum(chances) for chances in zip(*chance_2N, strict=True)]
        (place,) = draw.choices(range(len(names)), both_N)
        of_running, of_challenger = (chances[place] for chances in chance_2N)
        credit = (of_challenger - of_running) / both_N[place]
        shown.add(names.pop(place), credit, both_N[place] / sum(both_N))
    return shown


def _best(running: Iterable[str], challenger: Iterable[str], taken: Sequence[str]) -> tuple[str, str] | None:
    """The best remaining product of each ranking, twice that of the other where one has no more; None if none has."""
    found = [next((name for name in ranking if name not in taken), None) for ranking in (running, challenger)]
    first, second = found[0] or found[1], found[1] or found[0]
    return (first, second) if first and second else None

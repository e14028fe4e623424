"""Requests that a search is judged with, and what their results must have: lines of requests.jsonl."""

import msgspec


class RequestTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a shopper says, the product that it is about, if any, and the products that the shopper had been shown."""

    text: str
    about: str | None = None
    shown: tuple[str, ...] = ()


class RequestTruth(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every result must have: a label of each of `wanted`, none of `denied`, the word `named` in its title, a
    price of at most `price_most` minor units, a size, and stock.
    """

    wanted: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()
    named: str = ""
    price_most: int | None = None
    currency: str | None = None
    size: str | None = None
    in_stock: bool = False


class RequestCase(msgspec.Struct, frozen=True):
    """A request of one kind: one or several turns, and the truth after the last one."""

    kind: str
    turns: tuple[RequestTurn, ...]
    truth: RequestTruth

    @property
    def text(self) -> str:
        """Text of the first turn."""
        return self.turns[0].text

    @property
    def about(self) -> list[str]:
        """Products that the turns are about."""
        return [turn.about for turn in self.turns if turn.about is not None]


class Judged(msgspec.Struct, frozen=True):
    """Results of a searcher for a request, and whether each of them obeys it."""

    method: str
    results: tuple[str, ...]
    obeys: tuple[bool, ...]
    comes_back: bool


class JudgedRequest(msgspec.Struct, frozen=True):
    """Line of requests.jsonl: a request, how many products obey it, and what each searcher found."""

    request: RequestCase
    obeying: int
    judged: list[Judged]

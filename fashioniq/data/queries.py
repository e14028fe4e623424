"""Queries for single-turn retrieval from captioned pairs: candidate and captions, to find the target."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fashioniq.data.catalog import Pair


@dataclass(frozen=True)
class SingleTurnQuery:
    """A query. The name is TARGET-CANDIDATE-n, with n from 1. The vectors of two texts are averaged."""

    name: str
    target: str
    candidate: str
    texts: tuple[str, ...]


def queries_of(pairs: Iterable[Pair], captions: str) -> list[SingleTurnQuery]:
    """Queries for the pairs with targets, by caption mode.

    `each`: one query per caption (Fashion IQ, VAL). `joined`: all captions of a pair joined by "and"
    (CLIP4Cir). `both-orders`: one query with two texts, the captions joined in their order and reversed
    (LinCIR).
    """
    queries = []
    number: Counter[str] = Counter()
    for pair in pairs:
        if not pair.target:
            continue
        name = f"{pair.target}-{pair.candidate}"
        for texts in _texts(pair.captions, captions):
            number[name] += 1  # a pair may be listed twice
            queries.append(SingleTurnQuery(f"{name}-{number[name]}", pair.target, pair.candidate, texts))
    return queries


def _texts(captions: tuple[str, ...], mode: str) -> list[tuple[str, ...]]:
    if mode == "each":
        return [(text,) for text in captions]
    plain = [text.strip(" .,?!") for text in captions]
    orders = [plain, plain[::-1]] if mode == "both-orders" and len(plain) > 1 else [plain]
    return [tuple(" and ".join(order) for order in orders)]

"""Files for TREC tools: rankings (run.trec), relevant products (qrels.trec) and queries (topics.tsv)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from fashioniq.files import plain, write_text

DEPTH = 50  # products of each ranking: enough for R@50
COMPLETE = (
    250  # products of the largest gallery whose rankings are complete, so that reciprocal ranks are exact
)
_NOT_IN_FIELDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")
FILES = ("run.trec", "qrels.trec", "topics.tsv")


class TrecTopic(NamedTuple):
    """Query, its only relevant product, and its text."""

    query: str
    target: str
    text: str


def depth_of(gallery: int) -> int:
    """Number of products of each ranking in a gallery of this size."""
    return gallery if gallery <= COMPLETE else DEPTH


def field(name: str) -> str:
    """Name of a product or a query as one field of a line: spaces and control characters are percent-encoded."""
    return _NOT_IN_FIELDS.sub(lambda found: quote(found[0], safe="", errors="replace"), name)


def run_lines(query: str, names: Iterable[str], scores: Sequence[float]) -> Iterator[str]:
    """Lines of a run for the products of a ranking, best first, and their scores."""
    for position, (name, score) in enumerate(zip(names, run_scores(scores), strict=True), start=1):
        yield f"{field(query)} Q0 {field(name)} {position} {score} fashioniq"


def run_scores(scores: Sequence[float]) -> list[str]:
    """Scores of a ranking, best first, as a TREC run has them: each lower than the one before it in float32.

    trec_eval sorts by scores in float32 and breaks ties by the names of the products, which would change ranks.
    """
    score_K = np.asarray(scores, np.float32)
    for place in np.flatnonzero(score_K[1:] >= score_K[:-1]) + 1:
        while place < len(score_K) and score_K[place] >= score_K[place - 1]:
            score_K[place] = np.nextafter(score_K[place - 1], np.float32(-np.inf))
            place += 1
    return [f"{score:.9g}" for score in score_K.tolist()]


def write_topics(folder: Path, topics: Sequence[TrecTopic], of: str = "") -> None:
    """Write qrels.trec and topics.tsv, or with `of` "dresses" qrels.dresses.trec and topics.dresses.tsv."""
    part = f".{of}" if of else ""
    qrels = [f"{field(one.query)} 0 {field(one.target)} 1\n" for one in topics]
    texts = [f"{field(one.query)}\t{plain(one.text)}\n" for one in topics]
    write_text(folder / f"qrels{part}.trec", "".join(qrels))
    write_text(folder / f"topics{part}.tsv", "".join(texts))

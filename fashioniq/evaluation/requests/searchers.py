"""Searches that are judged: plain BM25, and a trained system along the path of a shopper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import bm25s
import torch

from fashioniq.config import EvalRequests
from fashioniq.data.requested import RequestTurn
from fashioniq.evaluation.requests.findable_products import RESULTS
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.rollout import System
from fashioniq.systems import load

WORD = r"\w+(?:[-'’]\w+)*"  # v-neck is a single word


class BM25:
    """Plain BM25 over titles and labels, the baseline: all words of all turns, and no product is excluded."""

    def __init__(self, texts: Mapping[str, str], language: str) -> None:
        self._ids = list(texts)
        self._tokens = partial(
            bm25s.tokenize, token_pattern=WORD, stopwords=language, return_ids=False, show_progress=False
        )
        self._index = bm25s.BM25()
        self._index.index(self._tokens(list(texts.values())), show_progress=False)

    def search(self, turns: Sequence[RequestTurn]) -> list[str]:
        """Ids of the results by their scores."""
        text = " ".join(turn.text for turn in turns)
        count = min(RESULTS, len(self._ids))
        found, _ = self._index.retrieve(self._tokens(text), corpus=self._ids, k=count, show_progress=False)
        return [str(name) for name in found[0]]


@dataclass(frozen=True)
class TrainedSearcher:
    """A trained system, searched as in `chat` and in the service: turn by turn, each about a product or none."""

    system: System

    @property
    def ids(self) -> list[str]:
        """Products of the gallery."""
        return list(self.system.gallery.items.ids)

    def without_words(self) -> "TrainedSearcher":
        """The same system, in which neither words nor wishes count beside the vectors."""
        gallery = self.system.gallery.with_scorer(None)
        return TrainedSearcher(replace(self.system, wording=None, gallery=gallery, offers=None))

    @torch.no_grad()
    def search(self, turns: Sequence[RequestTurn]) -> list[str]:
        """Ids of the nearest products after the last turn."""
        live = Dialog.start(self.system)
        for turn in turns:
            about = turn.about or self.system.named(turn.text, turn.shown)
            live = (live if about is None else live.about(about)).say(turn.text)
        return [product.id for product in live.nearest(RESULTS)]


RequestSearcher = BM25 | TrainedSearcher


def trained(settings: EvalRequests, run: Path, words: bool = True) -> TrainedSearcher:
    """The system of a run, with all products of the catalog; without `words`, from pictures alone."""
    return TrainedSearcher(
        load(
            run,
            settings.features,
            split="all",
            device=settings.device,
            data=settings.data,
            category=settings.category,
            words=words,
        )
    )

"""The wording of a trained run: the words of its catalog, the weights of its score, and its model of labels."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.loop.offers import Offers
from fashioniq.loop.plain_bm25 import WEIGHTS, PlainBM25
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import Wording
from fashioniq.models.labels import SeenLabels
from fashioniq.models.linear import NoVectors
from fashioniq.runs.weights import load_wording


@runtime_checkable
class ReadsTexts(Protocol):
    """Retriever that reads the texts of replies; `wanted` gives the words of a text that ask for something."""

    wanted: Callable[[str], str]


def with_words_of(
    system: System, run: Path, catalog: Catalog, vocabulary: Vocabulary, words: bool = True
) -> System:
    """The system of a run with the wording that was fitted with it; the same system if none was. BM25 has its own.

    Raises UserError if a file is damaged.
    """
    items = system.gallery.items
    if isinstance(system.retriever, NoVectors):
        plain = PlainBM25.of(catalog, items.ids, vocabulary, WEIGHTS)
        return replace(system, wording=plain, gallery=system.gallery.with_scorer(plain))
    found = load_wording(run, items.features_ND.shape[1])
    if found is None:
        return system
    about, model = found
    seen = SeenLabels(model, about.labels, items, about.hues)
    learned = () if isinstance(system.retriever, ReadsTexts) else vocabulary.words  # it learned no words
    wording = Wording.of(
        catalog, items.ids, vocabulary, about.weights, seen, said=about.said, learned=learned, words=words
    )
    if isinstance(system.retriever, ReadsTexts):
        system.retriever.wanted = wanted_by(wording)
    offers = Offers(items.ids, lambda: catalog.offers, wording.size_name)
    return replace(system, wording=wording, gallery=system.gallery.with_scorer(wording), offers=offers)


def scored_by(score: str) -> dict[str, str]:
    """Facts of an evaluation about its score, where it is not that of vectors and words."""
    return {} if score == "words" else {"score": score}


def wanted_by(wording: Wording) -> Callable[[str], str]:
    """Function that gives the words of a text that ask for something, without denials."""

    def wanted(text: str) -> str:
        request = wording.read(text)
        return " ".join([request.asserted, *request.unknown]).strip()

    return wanted

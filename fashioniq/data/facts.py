"""What a system states about its dialogs, for metrics.json."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Text = str | UnsetType
Number = float | UnsetType


class Questions(msgspec.Struct):
    """Exact repeats and distinct words per dialog, and the number of rounds without a question mark."""

    exact_repeats: float
    unique_tokens: float
    without_mark: int


class MostSaid(msgspec.Struct):
    """Sentence that a user says most often, and its share of all turns."""

    words: str
    share: float


class StatedFacts(msgspec.Struct, kw_only=True):
    """What a system states about its dialogs, beside their measures; a system of one's own may add fields.

    `coverage` is the share of the products, or of the search space, that has vectors. Systems that generate pictures
    state their `generator`, the weights of texts beside pictures, and how pictures of a round are fused.
    """

    data: Text = UNSET
    category: Text = UNSET
    split: Text = UNSET
    search_space: Text = UNSET
    coverage: Number = UNSET
    features: Text = UNSET
    encoder: Text = UNSET
    model: Text = UNSET
    weights: Text = UNSET
    limit: int | UnsetType = UNSET
    store: Text = UNSET
    pictures: Text = UNSET
    fingerprint: Text = UNSET
    user: Text = UNSET
    generator: dict[str, Any] | UnsetType | None = UNSET
    weights_of_text: dict[str, Any] | UnsetType = UNSET
    fusion: Text = UNSET
    pictures_per_round: int | UnsetType = UNSET


class TurnFacts(StatedFacts, kw_only=True):
    """Facts of dialogs that refer to products.

    The evaluation counts which share of the attributes stated by the user hold by the catalog's labels, and the
    sentence said most often.
    """

    captions: Text = UNSET
    decoding: Text = UNSET
    errors: Number = UNSET
    true_by_labels: Number = UNSET
    most_frequent: MostSaid | UnsetType = UNSET
    labelled: Number = UNSET
    pairs: int | UnsetType = UNSET
    coverage_of_pairs: Number = UNSET
    attributes: bool | UnsetType = UNSET
    exclude_shown: bool | UnsetType = UNSET
    index: dict[str, Any] | UnsetType | None = UNSET
    score: Text = UNSET  # vectors, unless words count, too
    retriever: Text = UNSET
    seed: int | UnsetType = UNSET


class SessionFacts(TurnFacts, kw_only=True):
    """Facts of recorded sessions: their folder, the share that can be used, and which of a task are clean."""

    sessions: str
    coverage_of_sessions: float
    clean_rows: list[int] = []  # run files of earlier versions have none


class RoundFacts(StatedFacts, kw_only=True):
    """Facts of dialogs of questions and answers: what a query is made of, and how many are `cut` in each round."""

    query: Text = UNSET
    cut: list[int] | UnsetType = UNSET
    questions: Questions | UnsetType | None = UNSET
    rewrite: Text = UNSET
    feedback: Text = UNSET
    details: int | UnsetType = UNSET
    without: list[str] | UnsetType = UNSET
    seed: int | UnsetType = UNSET

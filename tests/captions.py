"""Scores of the captions of one system."""

from collections.abc import Sequence

from fashioniq.metrics.captions import Score, score_systems


def caption_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Corpus scores of captions with one or more references each, and the tokenizer that was used."""
    (scores,) = score_systems([(hypotheses, references)])
    return {**scores.corpus, "tokeniser": scores.tokeniser}

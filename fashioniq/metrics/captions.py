"""Caption scores by pycocoevalcap's scorers."""

from collections.abc import Sequence

from pycocoevalcap.bleu.bleu_scorer import BleuScorer

from fashioniq.data.words import tokenize


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4 in percent, with the closest reference's length (Papineni et al. 2002)."""
    scorer = BleuScorer(n=4)
    for hypothesis, several in zip(hypotheses, references, strict=True):
        scorer += (" ".join(tokenize(hypothesis)), [" ".join(tokenize(text)) for text in several])
    scores, _ = scorer.compute_score(option="closest", verbose=0)
    return [100 * score for score in scores]

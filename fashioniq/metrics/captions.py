"""Caption scores of the COCO caption tools, whose scorers are called directly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np
from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider_scorer import CiderScorer
from pycocoevalcap.rouge.rouge import Rouge

from fashioniq.data.words import tokenize
from fashioniq.metrics.java import NotComputed, System, meteor, spice
from fashioniq.metrics.tokenise import tokenise

METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr", "METEOR", "SPICE")
Score = float | str  # a string is the reason why the metric was not computed


@dataclass(frozen=True)
class CaptionScores:
    """Scores of one system: corpus scores, and scores of each caption for the metrics that have them."""

    corpus: dict[str, Score]
    each: dict[str, list[float]]
    tokeniser: str


def score_systems(systems: Sequence[System]) -> list[CaptionScores]:
    """Score captions of several systems, with one or more references each, starting each Java program once: BLEU-1
    to BLEU-4, ROUGE-L, CIDEr, METEOR and SPICE.

    Scores are from 0 to 1, and for CIDEr from 0 to 10, as in the COCO tools. A metric that could not be
    computed is "not computed: " and the reason. Raises ValueError if there are no captions, or a different number of
    reference lists.
    """
    for hypotheses, references in systems:
        if not hypotheses or len(hypotheses) != len(references):
            found = f"{len(hypotheses)} captions and {len(references)} lists"
            raise ValueError(
                f"expected one list of references per caption and at least one caption, found {found}"
            )
        if any(isinstance(several, str) or not several for several in references):
            raise ValueError("each caption needs a list of references with at least one text")
    systems, tokeniser = _tokenise(systems)
    by_java = {"METEOR": _tried(meteor, systems), "SPICE": _tried(spice, systems)}
    return [
        CaptionScores(corpus | {name: values[number] for name, values in by_java.items()}, each, tokeniser)
        for number, (corpus, each) in enumerate(starmap(_in_python, systems))
    ]


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4 in percent with the models' tokenizer, for validation in training."""
    texts = [" ".join(tokenize(hypothesis)) for hypothesis in hypotheses]
    return [
        100 * score
        for score in _bleu(texts, [[" ".join(tokenize(text)) for text in several] for several in references])
    ]


def _tokenise(systems: Sequence[System]) -> tuple[list[System], str]:
    texts = dict.fromkeys(
        text
        for hypotheses, references in systems
        for several in (hypotheses, *references)
        for text in several
    )
    words, tokeniser = tokenise(list(texts))
    tokenised = dict(zip(texts, words, strict=True))
    return [
        ([tokenised[text] for text in hyps], [[tokenised[text] for text in several] for several in refs])
        for hyps, refs in systems
    ], tokeniser


def _tried(scorer: Callable[[Sequence[System]], list[float]], systems: Sequence[System]) -> Sequence[Score]:
    try:
        return scorer(systems)
    except NotComputed as reason:
        return [f"not computed: {reason}"] * len(systems)


def _in_python(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[str, Score], dict[str, list[float]]]:
    rouge = Rouge()
    each_rouge = [
        float(rouge.calc_score([hypothesis], several))
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    corpus: dict[str, Score] = {
        f"BLEU-{n}": score for n, score in enumerate(_bleu(hypotheses, references), start=1)
    }
    corpus["ROUGE-L"] = float(np.mean(each_rouge))
    each = {"ROUGE-L": each_rouge}
    try:
        corpus["CIDEr"], each["CIDEr"] = _cider(hypotheses, references)
    except NotComputed as reason:
        corpus["CIDEr"] = f"not computed: {reason}"
    return corpus, each


def _bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4, 0 to 1, with the length of the closest reference (Papineni et al. 2002)."""
    scorer = BleuScorer(n=4)
    for hypothesis, several in zip(hypotheses, references, strict=True):
        scorer += (hypothesis, several)
    scores, _ = scorer.compute_score(option="closest", verbose=0)
    return scores


def _cider(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, list[float]]:
    """CIDEr-D of the corpus and of each caption, 0 to 10 (Vedantam et al. 2015).

    Raises NotComputed if all its weights would be zero.
    """
    if len(hypotheses) < 2 or not any(text for several in references for text in several):
        raise NotComputed("its weights need the references of two captions, with words")
    scorer = CiderScorer()
    for hypothesis, several in zip(hypotheses, references, strict=True):
        scorer += (hypothesis, several)
    score, each = scorer.compute_score()
    return float(score), each.tolist()

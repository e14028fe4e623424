"""Relative captions of drawn garments: how a target differs from a candidate."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fashioniq.sample.clauses import (
    Clause,
)
from fashioniq.sample.differences import Difference, differences
from fashioniq.sample.garments import Garment

MOST_WORDS = 12
USUAL_WORDS = 8
SINGLE_SHARE = 0.38  # share of captions with one attribute; Fashion IQ, Table 2


@dataclass(frozen=True)
class SpeakerStyle:
    """Style of a speaker: probabilities of the forms, preferred synonym, and opening before the verb."""

    direct: float
    comparing: float
    negated: float
    word: int
    opening: str  # text before the verb, or ""; "-" omits the verb of the first clause


SPEAKERS = (
    SpeakerStyle(direct=0.72, comparing=0.22, negated=0.06, word=0, opening=""),
    SpeakerStyle(direct=0.42, comparing=0.52, negated=0.06, word=1, opening=""),
    SpeakerStyle(direct=0.50, comparing=0.36, negated=0.14, word=2, opening=""),
    SpeakerStyle(direct=0.48, comparing=0.46, negated=0.06, word=1, opening="-"),
    SpeakerStyle(direct=0.50, comparing=0.42, negated=0.08, word=0, opening="it"),
)

_SAME = ("has the same look", "looks the same", "is the same style and color")


def two_captions(target: Garment, candidate: Garment, rng: random.Random) -> list[str]:
    """Captions of the differences by two speakers, at most 12 words each."""
    found = differences(target, candidate)
    first, second = rng.sample(SPEAKERS, 2)
    captions = [_caption(found, first, rng), _caption(found, second, rng)]
    if captions[0] == captions[1]:
        captions[1] = _caption(found, second, rng)
    return captions


def _caption(found: Sequence[Difference], speaker: SpeakerStyle, rng: random.Random) -> str:
    if not found:
        return rng.choice(_SAME)
    wanted = 1 if rng.random() < SINGLE_SHARE else 2 if rng.random() < 0.85 else 3
    chosen = _chosen(found, wanted, rng)
    for _ in range(6):
        text = _joined([_said(difference, speaker, rng) for difference in chosen], speaker, rng)
        if len(text.split()) <= USUAL_WORDS:
            return text
    while len(text.split()) > MOST_WORDS:
        chosen = chosen[:-1]
        text = _joined([_said(difference, speaker, rng) for difference in chosen], speaker, rng)
    return text


def _chosen(found: Sequence[Difference], wanted: int, rng: random.Random) -> list[Difference]:
    """Sample of the differences by weight; usually in decreasing order of weight."""
    left = list(found)
    chosen: list[Difference] = []
    while left and len(chosen) < wanted:
        pick = rng.choices(left, [difference.weight for difference in left])[0]
        left = [difference for difference in left if difference.kind != pick.kind]
        chosen.append(pick)
    return sorted(chosen, key=lambda difference: -difference.weight) if rng.random() < 0.7 else chosen


def _said(difference: Difference, speaker: SpeakerStyle, rng: random.Random) -> Clause:
    forms = {
        difference.direct: speaker.direct,
        difference.comparing: speaker.comparing,
        difference.negated: speaker.negated,
    }
    forms = {clauses: share for clauses, share in forms.items() if clauses}
    clauses = rng.choices(list(forms), list(forms.values()))[0]
    return clauses[speaker.word % len(clauses)] if rng.random() < 0.6 else rng.choice(clauses)


def _joined(clauses: list[Clause], speaker: SpeakerStyle, rng: random.Random) -> str:
    """Join the clauses into one sentence.

    Clauses that mention the candidate come last, so that later words cannot be read as describing it.
    """
    clauses = [
        clause
        for number, clause in enumerate(clauses)
        if not _negates(clause) or not any(map(_negates, clauses[:number]))
    ]
    clauses = sorted(clauses, key=lambda clause: " instead of " in clause[1] or " than " in clause[1])
    (verb, first), *others = clauses
    opening = "" if speaker.opening == "-" else speaker.opening
    verbless = speaker.opening == "-" and not _negates((verb, first))
    text = first if verbless else f"{opening} {verb} {first}".strip()
    for number, (next_verb, said) in enumerate(others):
        if next_verb == verb:
            text += f" and {said}"
        elif (
            verb == "is"
            and number == 0
            and not _negates(clauses[0])
            and not _negates((next_verb, said))
            and rng.random() < 0.65
        ):
            text += f" with {said}"
        else:
            text += f" and {next_verb} {said}"
        verb = next_verb
    return text


def _negates(clause: Clause) -> bool:
    return clause[1].startswith(("no ", "not "))

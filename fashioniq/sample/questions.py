"""Question dialogs for drawn garments in the format of ChatIR: a caption, then ten questions with answers."""

import random
from dataclasses import dataclass

from fashioniq.categories import singular
from fashioniq.data.dialogues import Round
from fashioniq.sample.clauses import (
    CLOSURE_CLAUSES,
    COLOUR_WORDS,
    FIT_CLAUSES,
    IN_SECOND_COLOUR,
    LENGTH_CLAUSES,
    NECK_CLAUSES,
    PATTERN_CLAUSES,
    PATTERN_NOUNS,
    SLEEVE_CLAUSES,
    Clause,
    article,
    filled,
)
from fashioniq.sample.garments import DETAILS, Garment

ROUNDS = 10
_TWO_ATTRIBUTES = 0.6  # share of captions with two attributes; the others have one


@dataclass(frozen=True)
class QuestionVariants:
    """Variants of a question about a garment, and variants of the correct answer."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]


def question_dialog(garment: Garment, rng: random.Random) -> tuple[Round, ...]:
    """A caption of one or two salient attributes, then ten rounds on other topics in random order."""
    clauses = _striking(garment)
    in_caption = rng.sample(list(clauses), min(len(clauses), 1 + (rng.random() < _TWO_ATTRIBUTES)))
    caption = " and ".join(
        f"{verb} {said}" for verb, said in (rng.choice(clauses[name]) for name in in_caption)
    )
    asked = [topic for name, topic in topics_of(garment).items() if name not in in_caption]
    rounds = (
        Round.of(rng.choice(topic.questions), rng.choice(topic.answers))
        for topic in rng.sample(asked, ROUNDS)
    )
    return (Round(f"a {singular(garment.category)} that {caption}"), *rounds)


def _striking(garment: Garment) -> dict[str, tuple[Clause, ...]]:
    """Clauses for the salient attributes of a garment, by topic."""
    clauses = {
        "colour": tuple(("is", name) for name in COLOUR_WORDS[garment.colour]),
        "pattern": (("is", "plain"),)
        if garment.pattern == "solid"
        else filled(PATTERN_CLAUSES[garment.pattern], garment),
        "sleeves": SLEEVE_CLAUSES[garment.sleeves],
        "length": LENGTH_CLAUSES[garment.length],
    }
    return {
        name: tuple(clause for clause in some if clause[0] == "has" or not clause[1].startswith("a "))
        for name, some in clauses.items()
    }


def topics_of(garment: Garment) -> dict[str, QuestionVariants]:
    """All topics of a garment, at least thirteen."""
    plain, noun = garment.pattern == "solid", singular(garment.category)
    two_coloured = not plain or garment.motif or any(name in garment.details for name in IN_SECOND_COLOUR)
    patterns = ("plain", "no pattern") if plain else (garment.pattern, PATTERN_NOUNS[garment.pattern])
    topics = {
        "colour": QuestionVariants(
            (f"what color is the {noun}?", "what is its main color?"), COLOUR_WORDS[garment.colour]
        ),
        "second": QuestionVariants(
            ("is there a second color?", "does it have another color?"),
            (f"yes, {garment.second}",) if two_coloured else ("no", "only one color"),
        ),
        "pattern": QuestionVariants(("what pattern does it have?", "is it plain or patterned?"), patterns),
        "sleeves": QuestionVariants(
            ("what are the sleeves like?", "does it have sleeves?"), _said(SLEEVE_CLAUSES[garment.sleeves])
        ),
        "neckline": QuestionVariants(
            ("what neckline does it have?", "what does the neck look like?"),
            ("straight", "straight across")
            if garment.neckline == "straight"
            else _said(NECK_CLAUSES[garment.neckline]),
        ),
        "length": QuestionVariants(
            (f"how long is the {noun}?", "what length is it?"), _said(LENGTH_CLAUSES[garment.length])
        ),
        "fit": QuestionVariants(
            ("how does it fit?", "what cut does it have?"), _said(FIT_CLAUSES[garment.fit])
        ),
        "closure": QuestionVariants(
            ("are there buttons or a zipper?", "does it have buttons or a zipper?"),
            tuple(f"yes, {said}" for said in _said(CLOSURE_CLAUSES[garment.closure]))
            if garment.closure
            else ("no", "neither"),
        ),
        "motif": QuestionVariants(
            ("is there a print on the front?", "does it have a graphic?"),
            (f"yes, {_print_of(garment)}",) if garment.motif else ("no",),
        ),
        "fabric": QuestionVariants(("what is it made of?", "what fabric is it?"), (garment.fabric,)),
        "style": QuestionVariants(("what style is it?", "what would you wear it for?"), (garment.style,)),
    }
    sleeves = () if garment.category == "shirts" else ("bell sleeves",)
    return topics | {name: _detail(name, garment) for name in (*DETAILS[garment.category], "trim", *sleeves)}


def _detail(name: str, garment: Garment) -> QuestionVariants:
    thing = name if name in ("pockets", "ruffles", "trim", "bell sleeves") else f"a {name}"
    questions = (
        f"does it have {thing}?",
        f"is there {thing}?" if thing[:2] == "a " or name == "trim" else f"are there {thing}?",
    )
    if name not in garment.details:
        return QuestionVariants(questions, ("no", f"no {name}"))
    coloured = (
        f"{garment.second} {name}" if name == "trim" else f"{article(garment.second)} {garment.second} {name}"
    )
    in_second = name in IN_SECOND_COLOUR and garment.pattern != "color block"
    return QuestionVariants(questions, ("yes", f"yes, {coloured if in_second else thing}"))


def _said(clauses: tuple[Clause, ...]) -> tuple[str, ...]:
    return tuple(said for _, said in clauses)


def _print_of(garment: Garment) -> str:
    if garment.motif == "lettering":
        return f"{garment.second} letters"
    return f"{article(garment.second)} {garment.second} {garment.motif}"

"""Filters of the articles on a page: radio buttons that hide articles by CSS rules, without a script."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple


class Choice(NamedTuple):
    """A button: the class of the articles that it keeps, its label, and the number of these articles."""

    kind: str
    label: str
    number: int


class Question(NamedTuple):
    """A row of buttons."""

    text: str
    choices: list[Choice]


class Filters(NamedTuple):
    """Rows of buttons, number of articles, and each set of classes that can be picked: (classes, no match)."""

    questions: list[Question]
    total: int
    picked: list[tuple[list[str], bool]]


def article_filters(facets: Mapping[str, Mapping[str, str]], kinds: Sequence[set[str]]) -> Filters:
    """The filters of articles whose classes are `kinds`.

    `facets` maps each question to its answers, {class of article: label}. A question with the same answer for
    all articles is left out.
    """
    asked = {text: choices for text, choices in facets.items() if len(set().union(*kinds) & {*choices}) > 1}
    questions = [
        Question(
            text,
            [Choice(kind, label, sum(kind in some for some in kinds)) for kind, label in choices.items()],
        )
        for text, choices in asked.items()
    ]
    combinations = [
        [kind for kind in picked if kind]
        for picked in product(*(["", *choices] for choices in asked.values()))
    ]
    picked = [(wanted, not any({*wanted} <= some for some in kinds)) for wanted in combinations if wanted]
    return Filters(questions, len(kinds), picked)

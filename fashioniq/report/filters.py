"""Filters of the articles on a page: radio buttons and CSS rules that hide articles, without a script."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple


class ArticleFilters(NamedTuple):
    """Questions with their buttons, each with the CSS class of the articles that it keeps, its label, and the number of
    these articles; the number of all articles; and each combination of classes with whether it matches no article.
    """

    questions: list[tuple[str, list[tuple[str, str, int]]]]
    total: int
    picked: list[tuple[list[str], bool]]


def article_filters(facets: Mapping[str, Mapping[str, str]], kinds: Sequence[set[str]]) -> ArticleFilters:
    """Filters of articles with the CSS classes `kinds`.

    `facets` maps each question to its choices, {CSS class: label}. A question with a single choice among
    these articles is left out.
    """
    asked = {text: choices for text, choices in facets.items() if len(set().union(*kinds) & {*choices}) > 1}
    questions = [
        (
            text,
            [(kind, label, sum(kind in classes for classes in kinds)) for kind, label in choices.items()],
        )
        for text, choices in asked.items()
    ]
    combinations = [
        [kind for kind in picked if kind]
        for picked in product(*(["", *choices] for choices in asked.values()))
    ]
    picked = [
        (wanted, not any({*wanted} <= classes for classes in kinds)) for wanted in combinations if wanted
    ]
    return ArticleFilters(questions, len(kinds), picked)

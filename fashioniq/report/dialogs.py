"""Dialogs as the templates show them: which are shown, what was shown and said turn by turn, and how they ended."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fashioniq.report.products import Card, Products

TOP = 10
OUTCOMES = {"first": "found", "ten": f"in the top {TOP}", "never": f"never in the top {TOP}"}
MOST_DIALOGS = 120  # this and the budget of pictures keep a page under 10 MB, whatever is asked for


class ShownTurn(NamedTuple):
    """One turn: the product shown, whether it was the target, what the user said, the target's rank, and by how much it rose."""

    shown: Card
    hit: bool
    words: str
    rank: int
    up: int | None  # None at the first turn


class DialogArticle(NamedTuple):
    """One dialog; `classes` are the CSS classes that filters ask for, `found` is the first turn but the last that found the target."""

    number: int
    classes: set[str]
    gallery: int
    target: Card
    turns: list[ShownTurn]
    top: list[tuple[Card, bool]]
    found: int | None


class Group(NamedTuple):
    """Articles under one heading."""

    title: str
    hint: str
    articles: list[Any]


def outcome(dialog: dict[str, Any]) -> str:
    """How near a dialog came at any turn: first (the target was the best item), ten, or never."""
    best = min(turn["rank"] for turn in dialog["turns"])
    return "first" if best == 0 else "ten" if best < TOP else "never"


def shown_turns(dialog: dict[str, Any], products: Products) -> list[ShownTurn]:
    """The turns of a dialog, a line of dialogs.jsonl."""
    ranks = [turn["rank"] for turn in dialog["turns"]]
    ups = [None, *(before - rank for before, rank in pairwise(ranks))]
    return [
        ShownTurn(products.card(turn["shown"]), turn["shown"] == dialog["target"], turn["words"], turn["rank"], up)
        for turn, up in zip(dialog["turns"], ups, strict=True)
    ]


def dialog_article(
    number: int, dialog: dict[str, Any], gallery: int, products: Products, classes: set[str]
) -> DialogArticle:
    """The article of a dialog, a line of dialogs.jsonl; `number` is unique on its page and counts from 0."""
    found = next((place for place, turn in enumerate(dialog["turns"][:-1]) if turn["rank"] == 0), None)
    turns, target = shown_turns(dialog, products), products.card(dialog["target"])
    top = [(products.card(name), name == dialog["target"]) for name in dialog.get("top", [])]
    return DialogArticle(number, classes, gallery, target, turns, top, found)


def choose(dialogs: Sequence[dict], told: list[int], shown: int, seed: int) -> list[tuple[str, str, list[int]]]:
    """Title, hint and places of the best, the worst and the random dialogs, none of them twice."""
    shown = max(0, min(shown, len(told)))
    few = shown // 4
    ordered = sorted(told, key=lambda place: (dialogs[place]["turns"][-1]["rank"], -dialogs[place]["turns"][0]["rank"]))
    best, worst = ordered[:few], ordered[len(ordered) - few :][::-1]
    rest = [place for place in told if place not in {*best, *worst}]
    others = sorted(random.Random(seed).sample(rest, shown - 2 * few))
    return [
        ("The best", "ended highest; those that came furthest first", best),
        ("The worst", "ended lowest", worst),
        ("At random", f"drawn with seed {seed} from all others", others),
    ]

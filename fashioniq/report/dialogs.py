"""Values of dialogs for the templates: which dialogs are shown, their turns and outcome, and buttons that filter them.

Filters are radio buttons and CSS rules that hide articles, without a script.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.report.templates import ProductTable

TOP = 10
OUTCOMES = {"first": "found", "ten": f"in the top {TOP}", "never": f"never in the top {TOP}"}
SHOWN = 24  # dialogs per page
MAX_DIALOGS = 120  # per page; with PICTURE_BYTES this keeps a page under 10 MB


class ArticleGroup(NamedTuple):
    """Articles under one heading."""

    title: str
    hint: str
    articles: list[Any]


def outcome(dialog: LoggedDialog) -> str:
    """Best result of a dialog at any turn: first (the target ranked first), ten (in the top ten) or never."""
    best = min(dialog.ranks)
    return "first" if best == 0 else "ten" if best < TOP else "never"


def shown_turns(dialog: LoggedDialog, products: ProductTable) -> list[dict[str, Any]]:
    """Turns of a dialog whose target is known: the product shown, whether it is the target, the feedback, the target's
    0-based rank, its improvement (None in the first turn), and the generated picture that the user saw before.
    """
    ups = [None, *(before - rank for before, rank in pairwise(dialog.ranks))]
    return [
        {
            "shown": products.card(turn.shown or ""),
            "hit": turn.shown == dialog.target,
            "words": turn.words or "",
            "rank": rank,
            "up": up,
            "picture": products.generated(turn.offer.picture) if turn.offer and turn.offer.picture else None,
        }
        for turn, rank, up in zip(dialog.turns, dialog.ranks, ups, strict=True)
    ]


def dialog_article(
    number: int, dialog: LoggedDialog, gallery: int, products: ProductTable, classes: set[str]
) -> dict[str, Any]:
    """Article of a dialog whose target is known; `number` is unique on its page, from 0.

    `classes` are used by the filters, `found` is the first turn before the last with rank 0.
    """
    return {
        "number": number,
        "classes": classes,
        "gallery": gallery,
        "turns": shown_turns(dialog, products),
        "target": products.card(dialog.target or ""),
        "top": [(products.card(name), name == dialog.target) for name in dialog.top],
        "found": next((number for number, rank in enumerate(dialog.ranks[:-1]) if rank == 0), None),
    }


def choose(
    dialogs: Sequence[LoggedDialog], candidates: list[int], shown: int, seed: int
) -> list[tuple[str, str, list[int]]]:
    """Title, hint and rows of the best, the worst and random dialogs among `candidates`; none twice."""
    shown = max(0, min(shown, len(candidates)))
    few = shown // 4
    ordered = sorted(
        candidates,
        key=lambda row: (dialogs[row].ranks[-1], -dialogs[row].ranks[0]),
    )
    best, worst = ordered[:few], ordered[len(ordered) - few :][::-1]
    rest = [row for row in candidates if row not in {*best, *worst}]
    others = sorted(random.Random(seed).sample(rest, shown - 2 * few))
    return [
        ("Best", "highest final position; largest improvement first", best),
        ("Worst", "lowest final position", worst),
        ("Random", f"drawn with seed {seed} from all others", others),
    ]


def article_filters(facets: Mapping[str, Mapping[str, str]], kinds: Sequence[set[str]]) -> dict[str, Any]:
    """Filters of articles with the CSS classes `kinds`: questions with their buttons, each with the CSS class of the
    articles that it keeps, its label, and their number; the number of all articles; and each combination of classes
    with whether it matches no article.

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
    return {"questions": questions, "total": len(kinds), "picked": picked}

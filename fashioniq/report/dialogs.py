"""Dialogs as HTML: what was shown and said turn by turn, where the target ranked then, and how it ended."""

from collections.abc import Sequence
from typing import Any

from fashioniq.report.document import clipped, ordinal, safe
from fashioniq.report.products import Products

TOP = 10
OUTCOMES = {"first": "found", "ten": f"in the top {TOP}", "never": f"never in the top {TOP}"}


def outcome(dialog: dict[str, Any]) -> str:
    """How near a dialog came at any turn: first (the target was the best item), ten, or never."""
    best = min(turn["rank"] for turn in dialog["turns"])
    return "first" if best == 0 else "ten" if best < TOP else "never"


def dialog_article(
    place: int, dialog: dict[str, Any], gallery: int, products: Products, kinds: set[str], unit: str = "turn", first: int = 1, seen: str = "shown"
) -> str:
    """One dialog with its target, its turns and the best of its last ranking; `kinds` are the classes that filters ask for.

    Turns are called `unit` and count from `first`; what stands on a turn's picture was `seen`.
    """
    turns, top = dialog["turns"], dialog.get("top", [])
    listed = ""
    for number, turn in enumerate(turns):
        before = turns[number - 1]["rank"] if number else None
        listed += f'<li><p class="tag">{unit} {number + first}: {seen}</p>{exchange(turn, before, dialog["target"], gallery, products)}</li>'
    ended = f"{ordinal(turns[-1]['rank'] + 1)} of {gallery:,}"
    return (
        f'<article class="dialog {" ".join(sorted(kinds))}" aria-labelledby="d{place}"><header><h4 id="d{place}">Dialog {place + 1}</h4>'
        f'<p class="name">{safe(products.title(dialog["target"]))}</p><p class="outcome">{_told(turns, unit, first)}{ended}</p></header>'
        f'<div class="story">{target_tile(dialog["target"], products)}<ol class="turns">{listed}</ol></div>'
        + (f'<h5>Best {len(top)} after the last {unit}</h5>{strip(top, dialog["target"], products)}' if top else "")
        + "</article>"
    )


def target_tile(target: str, products: Products) -> str:
    """The product that the user has in mind."""
    return f'<div class="target"><p class="tag">target</p>{products.show(target)}</div>'


def exchange(turn: dict[str, Any], before: int | None, target: str, gallery: int, products: Products) -> str:
    """One turn: the product shown, what the user said of it, and the target's place then; `before` is its rank a turn earlier."""
    rank = turn["rank"]
    move = ""
    if before is not None:
        way = "up" if rank < before else "down"
        move = ' <span class="move">as before</span>' if rank == before else f' <span class="move {way}">{way} {abs(before - rank):,}</span>'
    return (
        f'<div class="seen{" hit" if turn["shown"] == target else ""}">{products.show(turn["shown"])}</div>'
        f'<div class="said"><blockquote>{safe(clipped(turn["words"]))}</blockquote>'
        f'<p class="rank"><b>{ordinal(rank + 1)}</b> of {gallery:,}{move}</p></div>'
    )


def strip(top: Sequence[str], target: str, products: Products) -> str:
    """The best products of a ranking in their order, the target marked."""
    items = ""
    for number, name in enumerate(top, 1):
        hit, tag = (" class=hit", " · target") if name == target else ("", "")
        items += f'<li{hit}><p class="tag">{number}{tag}</p>{products.show(name, 2)}</li>'
    return f'<ol class="strip">{items}</ol>'


def _told(turns: Sequence[dict[str, Any]], unit: str, first: int) -> str:
    found = next((number for number, turn in enumerate(turns[:-1], first) if turn["rank"] == 0), None)
    return f"found at {unit} {found} · " if found is not None else ""

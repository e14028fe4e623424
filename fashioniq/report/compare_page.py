"""The page that sets two runs side by side, dialog by dialog: what each showed and was told, and where the target ranked."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.report.dialogs import TOP, exchange, target_tile
from fashioniq.report.document import filters, ordinal, page_head, safe, table, write_document
from fashioniq.report.plots import rank_histograms, versus_plot
from fashioniq.report.products import Looks, Products
from fashioniq.report.tables import RANKS_COUNT, label, rounded

_MEASURES = ("P", "R@10", "R@50", "MRR", "mean_rank")
_WINNER = {"wa": "A ended higher", "wb": "B ended higher", "same": "the same place"}
_NEAR = {"both": "both", "onlya": "only A", "onlyb": "only B", "neither": "neither"}


def write_compare_page(
    path: Path,
    names: tuple[str, str],
    metrics: tuple[dict, dict],
    dialogs: tuple[list[dict], list[dict]],
    turn: int,
    finding: str,
    notes: Sequence[str],
    looks: Looks,
    dialogs_shown: int = 24,
    seed: int = 0,
) -> None:
    """Write the page of two runs, A and B, whose dialogs have the same targets in the same order.

    `turn`, counted from 1, is the one after which they are compared; `finding` says what the comparison found. A third of the dialogs shown
    are those where A is most ahead, a third those of B, the others random by `seed`. Raises UserError where the page cannot be written.
    """
    products = Products(looks)
    pairs = [(_until(first, turn), _until(second, turn)) for first, second in zip(*dialogs, strict=True)]
    shown, rules = _dialogs(pairs, metrics[0]["gallery"], products, dialogs_shown, seed)
    title = f"A {names[0]}, B {names[1]}"
    body = _headline(names, metrics[0], pairs, finding, notes, products) + _figures(metrics, pairs, turn) + shown
    write_document(path, title, body, products.style() + rules)


def _until(dialog: dict, turn: int) -> dict[str, Any]:
    return {"target": dialog["target"], "turns": dialog["turns"][:turn]}


def _end(dialog: dict) -> int:
    return dialog["turns"][-1]["rank"]


def _lead(pair: tuple[dict, dict]) -> float:
    """How far A is ahead of B: the logarithm of the ratio of their places, for 40th to 1st is more than 4,000th to 3,000th."""
    return math.log((_end(pair[1]) + 1) / (_end(pair[0]) + 1))


def _headline(
    names: tuple[str, str], metrics: dict, pairs: Sequence[tuple[dict, dict]], finding: str, notes: Sequence[str], products: Products
) -> str:
    leads = [_lead(pair) for pair in pairs]
    ahead, behind = sum(lead > 0 for lead in leads), sum(lead < 0 for lead in leads)
    where = f"{metrics.get('category', '')}, {metrics.get('split', '')} split: {len(pairs):,} targets among {metrics['gallery']:,} products."
    wins = f"A ended higher in {ahead:,} dialogs, B in {behind:,}, both at the same place in {len(pairs) - ahead - behind:,}."
    legend = "".join(f'<li><b class="{run.lower()}">{run}</b>{safe(name)}</li>' for run, name in zip("AB", names, strict=True))
    told = f'<p class="lead">{safe(where)} {wins}</p><ul class="legend">{legend}</ul><p class="finding">{safe(finding)}</p>'
    return page_head("Two runs, dialog by dialog", told, [*map(safe, notes), *products.notes()])


def _figures(metrics: tuple[dict, dict], pairs: Sequence[tuple[dict, dict]], turn: int) -> str:
    first, second = (run["turns"][:turn] for run in metrics)
    keys = [key for key in _MEASURES if all(key in row for row in [*first, *second])]
    header = ["turn", *(f"{label(key)} {run}" for key in keys for run in "AB")]
    rows = [
        [str(ours["turn"]), *(rounded(key, row[key]) for key in keys for row in (ours, theirs))] for ours, theirs in zip(first, second, strict=True)
    ]
    ends = {run: [_end(pair[number]) for pair in pairs] for number, run in enumerate("AB")}
    return (
        f'<section aria-labelledby="turns"><h2 id="turns">Turn by turn</h2>{table(header, rows, "Measures of both runs, turn by turn")}'
        f'<p class="hint">P, R@10 and R@50 are in percent. {RANKS_COUNT}</p><div class="plots">'
        f"<figure><figcaption>Percent after each turn</figcaption>{versus_plot(first, second)}</figure>"
        f"<figure><figcaption>Dialogs by the target's place after turn {turn}</figcaption>{rank_histograms(ends, metrics[0]['gallery'])}</figure>"
        "</div></section>"
    )


def _dialogs(pairs: Sequence[tuple[dict, dict]], gallery: int, products: Products, shown: int, seed: int) -> tuple[str, str]:
    """The section of the dialogs and the rules of its filters."""
    chosen = _choose(pairs, shown, seed)
    kinds = {place: _kinds(pairs[place]) for *_, places in chosen for place in places}
    buttons, rules = filters({"Who is ahead": _WINNER, f"Target in the top {TOP} at the end": _NEAR}, list(kinds.values()))
    groups = ""
    for title, hint, places in chosen:
        if places:
            articles = "".join(_article(place, pairs[place], gallery, products, kinds[place]) for place in places)
            groups += f'<div class="group"><h3>{title} <small>{hint}</small></h3>{articles}</div>'
    return (
        '<section class="articles versus" aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2>'
        '<p class="hint">Each turn: the product that each run showed, what the user said about it, and which place the target then had. '
        "The target has a green outline.</p>"
        f"{buttons}{groups}</section>"
    ), rules


def _choose(pairs: Sequence[tuple[dict, dict]], shown: int, seed: int) -> list[tuple[str, str, list[int]]]:
    """Title, hint and places of the dialogs where A wins, where B wins, and of random ones, none of them twice."""
    few = min(shown, len(pairs)) // 3
    leads = [_lead(pair) for pair in pairs]
    ordered = sorted(range(len(pairs)), key=lambda place: -leads[place])
    for_a = [place for place in ordered[:few] if leads[place] > 0]
    for_b = [place for place in ordered[::-1][:few] if leads[place] < 0]
    rest = [place for place in range(len(pairs)) if place not in {*for_a, *for_b}]
    others = sorted(random.Random(seed).sample(rest, min(len(rest), shown - len(for_a) - len(for_b))))
    hint = "by the ratio of the last places"
    return [("A most ahead", hint, for_a), ("B most ahead", hint, for_b), ("At random", f"drawn with seed {seed} from all others", others)]


def _kinds(pair: tuple[dict, dict]) -> set[str]:
    ours, theirs = (_end(dialog) < TOP for dialog in pair)
    lead = _lead(pair)
    near = "both" if ours and theirs else "onlya" if ours else "onlyb" if theirs else "neither"
    return {near, "wa" if lead > 0 else "wb" if lead < 0 else "same"}


def _article(place: int, pair: tuple[dict, dict], gallery: int, products: Products, kinds: set[str]) -> str:
    target = pair[0]["target"]
    turns = ""
    for number, both in enumerate(zip(pair[0]["turns"], pair[1]["turns"], strict=True), 1):
        sides = ""
        for run, dialog, turn in zip("AB", pair, both, strict=True):
            before = dialog["turns"][number - 2]["rank"] if number > 1 else None
            sides += f'<p class="run {run.lower()}">{run}</p>{exchange(turn, before, target, gallery, products)}'
        turns += f'<li><p class="tag">turn {number}</p>{sides}</li>'
    ends = " · ".join(f'<span class="{run.lower()}">{run} {ordinal(_end(dialog) + 1)}</span>' for run, dialog in zip("AB", pair, strict=True))
    return (
        f'<article class="dialog {" ".join(sorted(kinds))}" aria-labelledby="d{place}"><header>'
        f'<h4 id="d{place}">{safe(products.title(target))}</h4><p class="outcome">{ends}</p></header>'
        f'<div class="story">{target_tile(target, products)}<ol class="turns">{turns}</ol></div></article>'
    )

"""Page that compares two runs dialog by dialog: products shown, feedback, and ranks of the target."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import UNSET

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import DialogMetrics
from fashioniq.metrics.chat import HITS
from fashioniq.metrics.measures import measure
from fashioniq.report.dialogs import SHOWN, TOP, ArticleGroup, article_filters, shown_turns
from fashioniq.report.plots import Plot, rank_histograms, rounds_plot, versus_plot
from fashioniq.report.tables import RANKS_COUNT, label, rounded
from fashioniq.report.templates import ItemCards, ProductTable, write_page

_VERSUS_MEASURES = {"turn": ("P", "R@10", "R@50", "MRR", "mean_rank"), "round": (HITS, "R@10", "P", "ATR")}
_WINNER = {"wa": "A", "wb": "B", "same": "equal"}
_NEAR = {"both": "both", "onlya": "only A", "onlyb": "only B", "neither": "neither"}


Pair = tuple[LoggedDialog, LoggedDialog]


def write_compare_page(
    path: Path,
    names: tuple[str, str],
    metrics: tuple[DialogMetrics, DialogMetrics],
    dialogs: tuple[list[LoggedDialog], list[LoggedDialog]],
    turn: int,
    finding: str,
    notes: Sequence[str],
    cards: ItemCards,
    dialogs_shown: int = SHOWN,
    seed: int = 0,
) -> None:
    """Write the page of two runs, A and B, whose dialogs have the same targets in the same order.

    The runs are compared after `turn`, a number of their turns or rounds; `finding` is the result in one
    sentence. A third of the dialogs have the largest lead of A, a third the largest lead of B; the others are
    drawn with `seed`. Raises UserError if the page cannot be written.
    """
    products = ProductTable(cards)
    start = int(metrics[0].table[0][metrics[0].UNIT] or 0)
    until = turn - start + 1
    pairs = [(_until(first, until), _until(second, until)) for first, second in zip(*dialogs, strict=True)]
    groups, filters = _pair_groups(pairs, products, dialogs_shown, seed)
    leads = [_lead(pair) for pair in pairs]
    write_page(
        path,
        "compare.html",
        title=f"A {names[0]}, B {names[1]}",
        names=names,
        metrics=metrics[0],
        number=len(pairs),
        ahead=sum(lead > 0 for lead in leads),
        behind=sum(lead < 0 for lead in leads),
        finding=finding,
        notes=notes,
        turn=turn,
        start=start,
        unit=metrics[0].UNIT,
        **_versus_figures(metrics, pairs, until),
        groups=groups,
        filters=filters,
        products=products,
    )


def _until(dialog: LoggedDialog, turn: int) -> LoggedDialog:
    # without generated pictures, which this page does not show
    turns = [msgspec.structs.replace(one, offer=UNSET) for one in dialog.turns[:turn]]
    return msgspec.structs.replace(dialog, turns=turns)


def _lead(pair: Pair) -> float:
    """Lead of A over B: log ratio of the positions, so that 40th to 1st counts more than 4,000th to 3,000th."""
    return math.log((pair[1].ranks[-1] + 1) / (pair[0].ranks[-1] + 1))


def _versus_figures(
    metrics: tuple[DialogMetrics, DialogMetrics], pairs: Sequence[Pair], turn: int
) -> dict[str, Any]:
    unit = metrics[0].UNIT
    first, second = (run.table[:turn] for run in metrics)
    keys = [key for key in _VERSUS_MEASURES[unit] if all(key in row for row in [*first, *second])]
    rows = [
        [str(ours[unit]), *(rounded(key, row[key]) for key in keys for row in (ours, theirs))]
        for ours, theirs in zip(first, second, strict=True)
    ]
    ends = {run: [pair[number].ranks[-1] for pair in pairs] for number, run in enumerate("AB")}
    return {
        "header": [unit, *(f"{label(key)} {run}" for key in keys for run in "AB")],
        "rows": rows,
        "ranks_count": RANKS_COUNT,
        "plot": versus_plot(first, second) if unit == "turn" else _hits_plot(pairs, metrics[0].gallery),
        "bars": rank_histograms(ends, metrics[0].gallery),
    }


def _hits_plot(pairs: Sequence[Pair], gallery: int) -> Plot:
    ranks = {f"{run} {HITS}": [pair[number].ranks for pair in pairs] for number, run in enumerate("AB")}
    return rounds_plot(
        {name: measure(HITS).by_turn(torch.tensor(rank_BR), gallery) for name, rank_BR in ranks.items()}
    )


def _pair_groups(
    pairs: Sequence[Pair], products: ProductTable, shown: int, seed: int
) -> tuple[list[ArticleGroup], dict[str, Any]]:
    """Articles of the selected pairs, and their filters."""
    chosen = _choose_pairs(pairs, shown, seed)
    kinds = {row: _kinds(pairs[row]) for *_, rows in chosen for row in rows}
    groups = [
        ArticleGroup(
            title,
            hint,
            [
                {
                    "number": row,
                    "classes": kinds[row],
                    "target": products.card(pairs[row][0].target or ""),
                    "first": shown_turns(pairs[row][0], products),
                    "second": shown_turns(pairs[row][1], products),
                }
                for row in rows
            ],
        )
        for title, hint, rows in chosen
        if rows
    ]
    facets = {"Higher final position": _WINNER, f"Target in the final top {TOP}": _NEAR}
    return groups, article_filters(facets, list(kinds.values()))


def _choose_pairs(pairs: Sequence[Pair], shown: int, seed: int) -> list[tuple[str, str, list[int]]]:
    """Title, hint and rows of the dialogs where A leads, where B leads, and of random ones; none twice."""
    few = min(shown, len(pairs)) // 3
    leads = [_lead(pair) for pair in pairs]
    ordered = sorted(range(len(pairs)), key=lambda row: -leads[row])
    for_a = [row for row in ordered[:few] if leads[row] > 0]
    for_b = [row for row in ordered[::-1][:few] if leads[row] < 0]
    rest = [row for row in range(len(pairs)) if row not in {*for_a, *for_b}]
    others = sorted(random.Random(seed).sample(rest, min(len(rest), shown - len(for_a) - len(for_b))))
    hint = "by the ratio of the final positions"
    return [
        ("A furthest ahead", hint, for_a),
        ("B furthest ahead", hint, for_b),
        ("Random", f"drawn with seed {seed} from all others", others),
    ]


def _kinds(pair: Pair) -> set[str]:
    ours, theirs = (dialog.ranks[-1] < TOP for dialog in pair)
    lead = _lead(pair)
    near = "both" if ours and theirs else "onlya" if ours else "onlyb" if theirs else "neither"
    return {near, "wa" if lead > 0 else "wb" if lead < 0 else "same"}

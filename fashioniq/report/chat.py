"""Page of chat-based retrieval: measures and dialogs of one or several dialog files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import RoundMetrics
from fashioniq.metrics.chat import HITS, round_measures
from fashioniq.report.dialogs import (
    OUTCOMES,
    SHOWN,
    ArticleGroup,
    article_filters,
    choose,
    dialog_article,
    outcome,
)
from fashioniq.report.page import run_facts
from fashioniq.report.plots import Bars, Plot, rank_histograms, rounds_plot
from fashioniq.report.tables import label, rounded
from fashioniq.report.templates import ItemCards, ProductTable, write_page

COSTS_TITLE = (
    "Costs per dialog and round: words of the user and of the system's questions, pictures generated, those that "
    "failed, shares of dialogs without a picture and with an unchanged prompt, seconds of generation"
)
Evaluated = Sequence[tuple[RoundMetrics, list[LoggedDialog]]]  # of each file


def write_chat_page(path: Path, evaluated: Evaluated, cards: ItemCards) -> None:
    """Write the page of one or several dialog files.

    It shows the best, the worst and random dialogs of each file, at most SHOWN in all.
    Raises UserError if the page cannot be written.
    """
    products = ProductTable(cards)
    letters = [chr(ord("A") + number) if number < 26 else str(number + 1) for number in range(len(evaluated))]
    several = len(evaluated) > 1
    all_metrics = [metrics for metrics, _ in evaluated]
    names = [f"{letter} {metrics.name}" for letter, metrics in zip(letters, all_metrics, strict=True)]
    groups, filters = _round_groups(evaluated, names, products)
    plot, bars = _round_figures(evaluated, letters)
    write_page(
        path,
        "chat.html",
        title="Chat-based image retrieval: " + ", ".join(metrics.name for metrics in all_metrics),
        files=[_file(name, metrics) for name, metrics in zip(names, all_metrics, strict=True)],
        several=several,
        hits=HITS,
        columns=["round", *map(label, round_measures())],
        costs_title=COSTS_TITLE,
        overview=_overview(dict(zip(names, all_metrics, strict=True))) if several else None,
        plot=plot,
        bars=bars,
        groups=groups,
        filters=filters,
        products=products,
        facts=run_facts(all_metrics[0], sum(len(dialogs) for _, dialogs in evaluated)),
    )


def _file(name: str, metrics: RoundMetrics) -> dict[str, Any]:
    """Values of one dialog file for the template."""
    rows = [
        [str(row["round"]), *(rounded(key, row[key]) for key in round_measures())] for row in metrics.rounds
    ]
    return {
        "name": name,
        "metrics": metrics,
        "cut": metrics.facts.cut or [0],
        "rows": rows,
        "costs": metrics.cost_table(),
    }


def _overview(named: Mapping[str, RoundMetrics]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of all files: Hits@10 after each round, and BRI."""
    longest = max((metrics.rounds for metrics in named.values()), key=len)
    rows = []
    for name, metrics in named.items():
        hits = [rounded(HITS, row[HITS]) for row in metrics.rounds]
        rows.append([name, *hits, *["–"] * (len(longest) - len(hits)), rounded("BRI", metrics.BRI)])
    return ["file", *(str(row["round"]) for row in longest), "BRI"], rows


def _round_figures(evaluated: Evaluated, letters: Sequence[str]) -> tuple[Plot, Bars]:
    """Plot and histogram: for several files Hits@10 and final positions, for one its measures and three
    rounds.
    """
    gallery = evaluated[0][0].gallery
    lines: dict[str, list[Any]]  # of measures that every round has
    if len(evaluated) > 1:
        lettered = dict(zip(letters, evaluated, strict=True))
        lines = {letter: [row[HITS] for row in metrics.rounds] for letter, (metrics, _) in lettered.items()}
        final_ranks = {
            letter: [dialog.ranks[-1] for dialog in dialogs] for letter, (_, dialogs) in lettered.items()
        }
        return rounds_plot(lines), rank_histograms(final_ranks, gallery)
    ((metrics, dialogs),) = evaluated
    last = len(metrics.rounds) - 1
    lines = {key: [row[key] for row in metrics.rounds] for key in (HITS, "R@10", "R@1")}
    by_round = {
        f"round {number}": [dialog.ranks[number] for dialog in dialogs]
        for number in sorted({0, (last + 1) // 2, last})
    }
    return rounds_plot(lines), rank_histograms(by_round, gallery)


def _round_groups(
    evaluated: Evaluated, names: Sequence[str], products: ProductTable
) -> tuple[list[ArticleGroup], dict[str, Any]]:
    """Articles of the selected dialogs of all files, in groups, and their filters."""
    groups: dict[str, ArticleGroup] = {}
    kinds: list[set[str]] = []
    before = 0
    for number, (metrics, dialogs) in enumerate(evaluated):
        for title, hint, selected in choose(
            dialogs, list(range(len(dialogs))), SHOWN // len(evaluated), seed=0
        ):
            for row in selected:
                kinds.append({outcome(dialogs[row]), f"c{number}"})
                article = dialog_article(before + row, dialogs[row], metrics.gallery, products, kinds[-1])
                groups.setdefault(title, ArticleGroup(title, hint, [])).articles.append(article)
        before += len(dialogs)
    files = {f"c{number}": name for number, name in enumerate(names)}
    return list(groups.values()), article_filters({"Target": OUTCOMES, "File": files}, kinds)

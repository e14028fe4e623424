"""Page of a dialog evaluation: one HTML file with its measures and some of its dialogs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import Metrics, TurnMetrics
from fashioniq.report.cautions import cautions
from fashioniq.report.dialogs import (
    MAX_DIALOGS,
    OUTCOMES,
    ArticleGroup,
    article_filters,
    choose,
    dialog_article,
    outcome,
)
from fashioniq.report.plots import rank_histograms, turn_plot
from fashioniq.report.products import ItemCards, ProductTable
from fashioniq.report.tables import RANKS_COUNT, rounded
from fashioniq.report.templates import write_page


def write_dialog_page(
    path: Path,
    metrics: TurnMetrics,
    dialogs: list[LoggedDialog],
    cards: ItemCards,
    dialogs_shown: int = 24,
    seed: int = 0,
) -> None:
    """Write the page of an evaluation and its dialogs.

    A quarter of the dialogs shown are the best, a quarter the worst, the others drawn with `seed`; at
    most 120. Products without a readable picture are shown as a card with their title. Raises UserError
    if the page cannot be written.
    """
    products, facts = ProductTable(cards), metrics.facts
    groups, filters = _dialog_groups(
        dialogs, metrics.gallery, products, min(dialogs_shown, MAX_DIALOGS), seed
    )
    write_page(
        path,
        "dialogs.html",
        title=f"{metrics.protocol}: {facts.category or 'all categories'}, {facts.split or 'all splits'}",
        metrics=metrics,
        number=len(dialogs),
        turns=metrics.turns,
        cautions=cautions(metrics),
        **_turn_figures(metrics, [dialog for dialog in dialogs if dialog.turns]),
        groups=groups,
        filters=filters,
        products=products,
        facts=run_facts(metrics, len(dialogs)),
    )


def _turn_figures(metrics: TurnMetrics, dialogs: Sequence[LoggedDialog]) -> dict[str, Any]:
    """Table, plot and histogram by turn; empty without turns."""
    if not (turns := metrics.turns):
        return {}
    keys = [key for key, value in turns[0].items() if isinstance(value, int | float)]
    mean = metrics.average if len(turns) > 1 else None
    columns = {
        f"turn {turn['turn']}": [dialog.ranks[number] for dialog in dialogs if number < len(dialog.ranks)]
        for number, turn in enumerate(turns)
    }
    return {
        "keys": keys,
        "rows": [[rounded(key, turn.get(key)) for key in keys] for turn in turns],
        "mean": ["mean", *(rounded(key, mean.get(key)) for key in keys[1:])] if mean else None,
        "ranks_count": RANKS_COUNT,
        "plot": turn_plot(turns),
        "bars": rank_histograms(columns, metrics.gallery) if dialogs else None,
    }


def _dialog_groups(
    dialogs: Sequence[LoggedDialog], gallery: int, products: ProductTable, shown: int, seed: int
) -> tuple[list[ArticleGroup], dict[str, Any]]:
    """Articles of the selected dialogs, and their filters."""
    chosen = choose(dialogs, [row for row, dialog in enumerate(dialogs) if dialog.turns], shown, seed)
    selected = [row for *_, rows in chosen for row in rows]
    names = sorted({dialogs[row].category or "" for row in selected})
    kinds = {row: {outcome(dialogs[row]), f"c{names.index(dialogs[row].category or '')}"} for row in selected}
    groups = [
        ArticleGroup(
            title,
            hint,
            [dialog_article(row, dialogs[row], gallery, products, kinds[row]) for row in members],
        )
        for title, hint, members in chosen
        if members
    ]
    categories = {f"c{number}": name or "none" for number, name in enumerate(names)}
    return groups, article_filters({"Target": OUTCOMES, "Category": categories}, list(kinds.values()))


def run_facts(metrics: Metrics, number: int) -> list[tuple[str, str]]:
    """Names and formatted values of the entries of metrics.json that are neither lists nor objects."""
    single = {
        key: value
        for key, value in metrics.plain().items()
        if value is None or isinstance(value, str | int | float)
    }
    return [
        (key.replace("_", " "), _fact(key, value))
        for key, value in {**single, "dialogs": f"{number:,}"}.items()
    ]


def _fact(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if key.startswith(("coverage", "true")) and isinstance(value, int | float):
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if key == "gallery" else str(value)

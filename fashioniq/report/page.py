"""Pages of dialog evaluations: that of one, with its measures and some of its dialogs, and that of several users, with
their table, their curves and a dialog of each; and warnings beside results that mean less than their figures say.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fashioniq.data.cards import ItemCards
from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import Metrics, TurnMetrics
from fashioniq.metrics.measures import at_chance
from fashioniq.report.dialogs import (
    MAX_DIALOGS,
    OUTCOMES,
    SHOWN,
    ArticleGroup,
    article_filters,
    choose,
    dialog_article,
    outcome,
)
from fashioniq.report.plots import rank_histograms, rounds_plot, turn_plot
from fashioniq.report.tables import RANKS_COUNT, rounded
from fashioniq.report.templates import ProductTable, write_page


def write_dialog_page(
    path: Path,
    metrics: TurnMetrics,
    dialogs: list[LoggedDialog],
    cards: ItemCards,
    dialogs_shown: int = SHOWN,
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


class UserResults(NamedTuple):
    """Results of one user."""

    user: str
    page: Path  # relative to the folder of the table
    metrics: TurnMetrics
    dialogs: Sequence[LoggedDialog]
    cards: ItemCards


def write_users_page(path: Path, results: Sequence[UserResults], **values: Any) -> None:
    """Write the page; `values` are its title, headline, warnings, and the header, rows and legend of its table.

    Raises UserError if it cannot be written.
    """
    curves = {one.user: [turn["R@10"] for turn in one.metrics.turns] for one in results}
    products = ProductTable(results[0].cards)  # all users search the same catalog
    groups = [
        ArticleGroup(
            one.user, str(one.page), [dialog_article(number, dialog, one.metrics.gallery, products, set())]
        )
        for number, one in enumerate(results)
        if (dialog := _middle(one.dialogs))
    ]
    write_page(
        path, "users.html", plot=rounds_plot(curves, 1, "turn"), groups=groups, products=products,
        results=results, **values,
    )  # fmt: skip


def _middle(dialogs: Sequence[LoggedDialog]) -> LoggedDialog | None:
    """The dialog whose target is ranked as well as the median after the last turn."""
    ordered = sorted((one for one in dialogs if one.turns), key=lambda one: one.ranks[-1])
    return ordered[len(ordered) // 2] if ordered else None


REPETITIVE = 0.5  # share of a user's turns with one and the same sentence
RANDOM = "random weights"


def cautions(metrics: TurnMetrics) -> list[str]:
    """What a reader must know before the figures: a result at chance, a user or features without information."""
    found = []
    if metrics.turns and at_chance(float(metrics.turns[-1].get("P", 100)), metrics.dialogs):
        found.append("P after the last turn is at chance level; the retriever does not understand this user")
    if repetitive(metrics) and (said := metrics.facts.most_frequent):
        found.append(
            f"the user says {said.words!r} in {100 * said.share:.0f} % of all turns, so there is little to "
            "understand"
        )
    if str(metrics.facts.features or "").endswith(RANDOM):
        found.append(f"the features are of an encoder with {RANDOM}; extract them with trained weights")
    return found


def repetitive(metrics: TurnMetrics) -> bool:
    """Whether a user says one sentence in most turns."""
    said = metrics.facts.most_frequent
    return bool(said and said.share > REPETITIVE)

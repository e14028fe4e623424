"""Page of an evaluation with several users: their table, their curves, and one dialog of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fashioniq.data.cards import ItemCards
from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import TurnMetrics
from fashioniq.report.dialogs import ArticleGroup, dialog_article
from fashioniq.report.plots import rounds_plot
from fashioniq.report.products import ProductTable
from fashioniq.report.templates import write_page


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

"""Page of samples of conversations, with their pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.data.cards import ItemCards
from fashioniq.data.conversation_records import SUBTASKS, ConversationItem, ConversationSample, TurnPicture
from fashioniq.report.dialogs import MAX_DIALOGS, ArticleGroup, article_filters
from fashioniq.report.templates import ProductTable, write_page

_TITLES = {"t": "Dialogs of text", "i": "Picture and request", "m": "Dialogs with pictures"}
_KINDS = {
    "text": "dialog of text",
    "mdc_i": "reference image",
    "mdc_t": "reference text",
    "merged": "dialog, then reference image",
    "session": "recorded session",
}


def write_samples_page(
    path: Path,
    folder: Path,
    items: Mapping[str, ConversationItem],
    samples: Sequence[ConversationSample],
    total: int,
    *,
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = (),
    found: Mapping[str, tuple[int, Sequence[str]]] | None = None,
) -> None:
    """Write the page of these samples, at most 120; `total` is the number of all samples of the folder.

    Of a search, tables with their names and headers come first, and each sample has what was `found`: by its id the
    0-based rank of the target, and the ids of the best items. Raises UserError if the page cannot be written.
    """
    shown, best = samples[:MAX_DIALOGS], found or {}
    used = dict.fromkeys(
        name
        for sample in shown
        for name in (*sample.pictures, sample.target, *best.get(sample.id, (0, ()))[1])
    )
    images = {name: folder / items[name].image for name in used if items[name].image}
    products = ProductTable(ItemCards(images, {name: items[name].caption for name in used}))
    articles = [_article(number, sample, products) for number, sample in enumerate(shown)]
    for sample, article in zip(shown, articles, strict=True):
        rank, names = best.get(sample.id, (0, ()))
        article |= {
            "place": rank + 1,
            "found": [(products.card(name), name == sample.target) for name in names],
        }
    groups = [
        ArticleGroup(_TITLES[subtask], "", own)
        for subtask in SUBTASKS
        if (own := [article for article in articles if article["subtask"] == subtask])
    ]
    subtasks = {str(one): str(one) for one in SUBTASKS if one in {sample.subtask for sample in shown}}
    kinds = {str(kind): label for kind, label in _KINDS.items() if kind in {sample.kind for sample in shown}}
    write_page(
        path,
        "conversations.html",
        title="Search in conversations" if tables else "Conversations that lead to a product",
        tables=tables,
        shown=len(shown),
        total=total,
        writers=", ".join(dict.fromkeys(sample.source.writer for sample in shown)),
        groups=groups,
        filters=article_filters(
            {"Sub-task": subtasks, "Kind": kinds},
            [article["classes"] for article in articles],
        ),
        products=products,
    )


def _article(number: int, sample: ConversationSample, products: ProductTable) -> dict[str, Any]:
    """Values of a sample for the template: a part of a turn is a text, or the card of a picture."""
    return {
        "number": number,
        "id": sample.id,
        "subtask": sample.subtask,
        "classes": {sample.subtask, sample.kind},
        "kind": _KINDS[sample.kind],
        "target": products.card(sample.target),
        "turns": [
            (
                turn.role,
                [
                    (products.card(part.id), "") if isinstance(part, TurnPicture) else (None, part.text)
                    for part in turn.content
                ],
            )
            for turn in sample.turns
        ],
        "source": sample.source,
    }

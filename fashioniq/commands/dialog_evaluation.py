"""One evaluation in dialogs: hold them, measure, and leave all results in a folder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import Tensor

from fashioniq.askers import BestItem
from fashioniq.categories import canonical
from fashioniq.commands.common import check_enough_to_show, load_retriever, open_store, pick_device, split_items
from fashioniq.commands.dialog_plans import Plan, recorded, simulated
from fashioniq.commands.evaluations import PROTOCOL, attribute_words
from fashioniq.config import EvalDialogs
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, discard, write_json, write_text
from fashioniq.gallery import Gallery, NotFiniteError
from fashioniq.index import approximate
from fashioniq.metrics.ranking import average, success, turn_table
from fashioniq.report.page import write_dialog_page
from fashioniq.report.products import Looks
from fashioniq.rollout import Dialogs, Retriever, rollout
from fashioniq.users import RecordedUser

IN_RUN_FILE = 50  # items of each ranking that go into run.trec: enough for R@50


def evaluate(settings: EvalDialogs, run: Path, out: Path) -> dict[str, Any]:
    """Hold the dialogs of a retriever's run, leave all results in `out`, and return what is in its metrics.json, which is written last."""
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features)
    retriever, hears, facts = load_retriever(run, settings.category, store)
    device = pick_device(settings.device)
    retriever.to(device)
    if facts.data.fingerprint != catalog.fingerprint():
        print(f"note: the splits or captions of {catalog.category} are not those that {run} was trained on")
    items = split_items(catalog, store, settings.split).to(device)
    check_enough_to_show(settings, items)
    if settings.user != "human" and facts.exclude_shown and not settings.exclude_shown:
        print(f"note: {run} was trained with --exclude-shown, here products may be shown again")
    with torch.no_grad():
        gallery = Gallery(items, retriever.embed_images(items.features_ND))
    if settings.user == "human":
        plan, user_facts = recorded(settings, catalog, store, items, hears, retriever.max_words)
    else:
        plan, user_facts = simulated(settings, facts, items, store, hears, device)
    try:
        index = None
        if settings.index:
            gallery, index = approximate(gallery, settings.index, _some_queries(retriever, plan, gallery, settings), settings.least_recall)
        rank_BT, records, lines = _hold(retriever, plan, gallery, hears, settings)
    except NotFiniteError as error:
        raise UserError(f"{run} has diverged ({error}): train it again with a lower --learning-rate") from error
    table = turn_table(rank_BT, len(items))
    metrics = {
        "protocol": PROTOCOL,
        "data": str(catalog.root),
        "category": canonical(settings.category),
        "split": settings.split,
        "gallery": len(items),
        "coverage": len(items) / len(catalog.ids(settings.split)),
        "dialogs": len(records),
        "features": store.facts.encoder,
        "store": str(store.root),
        "pictures": "none" if store.facts.encoder == "metadata" else catalog.pictures_origin,
        "fingerprint": catalog.fingerprint(),
        **user_facts,
        "attributes": facts.attrs,
        "exclude_shown": settings.exclude_shown,
        "index": index,
        "retriever": str(run),
        "seed": settings.seed,
        "turns": table,
        "average": average(table),
        "success": success(rank_BT),
    }
    _write(out, metrics, records, lines, plan.first_facts, catalog, attribute_words(store, items.ids))
    return metrics


@torch.no_grad()
def _hold(
    retriever: Retriever, plan: Plan, gallery: Gallery, hears: Vocabulary, settings: EvalDialogs
) -> tuple[Tensor, list[dict[str, Any]], list[str]]:
    """Hold the dialogs of a plan: their ranks B×T, the lines of dialogs.jsonl and those of run.trec."""
    ranks: list[Tensor] = []
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    count = len(plan.target_N)
    for start in track(range(0, count, settings.batch_size), description=f"dialogs of {settings.split}"):
        batch = torch.arange(start, min(start + settings.batch_size, count), device=plan.target_N.device)
        dialogs = _dialogs(retriever, plan, gallery, batch, settings)
        ranks.append(dialogs.ranks.cpu())
        for record, ranking in _records(dialogs, gallery, hears, len(records) if plan.user is None else None):
            records.append(record)
            lines += ranking
    return torch.cat(ranks), records, lines


def _dialogs(retriever: Retriever, plan: Plan, gallery: Gallery, row_B: Tensor, settings: EvalDialogs) -> Dialogs:
    user = plan.user or RecordedUser(plan.words_NTL[row_B])  # type: ignore[index]
    return rollout(retriever, BestItem(settings.exclude_shown), user, gallery, plan.target_N[row_B], plan.first_N[row_B], plan.turns)


@torch.no_grad()
def _some_queries(retriever: Retriever, plan: Plan, gallery: Gallery, settings: EvalDialogs) -> Tensor:
    """The queries, Q×D, of one batch of dialogs from all over the plan, searched exactly."""
    count = len(plan.target_N)
    row_B = torch.arange(0, count, -(-count // settings.batch_size), device=plan.target_N.device)
    return _dialogs(retriever, plan, gallery, row_B, settings).query_BTD.flatten(0, 1)


def _records(dialogs: Dialogs, gallery: Gallery, hears: Vocabulary, number: int | None) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Per dialog its line of dialogs.jsonl and its lines of run.trec; where targets come more than once, `number` is the first dialog's."""
    ids, turns = gallery.items.ids, dialogs.shown_BT.shape[1]
    texts = [hears.decode(words_BL) for words_BL in dialogs.words_BTL.unbind(1)]
    tops = [tuple(part.tolist() for part in gallery.top(query_BD, IN_RUN_FILE)) for query_BD in dialogs.query_BTD.unbind(1)]
    shown, ranks = dialogs.shown_BT.tolist(), dialogs.ranks.tolist()
    for row, target in enumerate(dialogs.target_B.tolist()):
        said = [{"shown": ids[shown[row][turn]], "words": texts[turn][row], "rank": ranks[row][turn]} for turn in range(turns)]
        query = ids[target] if number is None else f"{ids[target]}-{number + row}"
        lines = [
            f"{query}-{turn + 1} Q0 {ids[item]} {place + 1} {-distance:.6f} fashioniq"
            for turn in range(turns)
            for place, (distance, item) in enumerate(zip(tops[turn][0][row], tops[turn][1][row], strict=True))
        ]
        yield {"target": ids[target], "turns": said, "top": [ids[item] for item in tops[-1][1][row][:10]]}, lines


def _write(
    out: Path,
    metrics: dict[str, Any],
    records: list[dict[str, Any]],
    lines: list[str],
    first: dict[str, Any],
    catalog: Catalog,
    attributes: dict[str, list[str]],
) -> None:
    discard(out, "metrics.json")
    write_text(out / "dialogs.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    write_text(out / "run.trec", "\n".join(lines) + "\n")
    write_json(out / "first_candidates.json", first)
    write_dialog_page(out / "report.html", metrics, records, Looks(catalog.images, catalog.titles, attributes))
    write_json(out / "metrics.json", metrics)

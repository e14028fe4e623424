"""`fashioniq eval-dialogs`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from fashioniq.askers import BestItem
from fashioniq.categories import canonical
from fashioniq.commands.common import load_captioner, load_retriever, open_store, pairs_with_features, pick_device, split_items
from fashioniq.config import EvalDialogs
from fashioniq.data.catalog import Catalog
from fashioniq.data.features import FeatureStore, Items
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, read_json, whole, write_json, write_text
from fashioniq.gallery import Gallery, NotFiniteError
from fashioniq.metrics.ranking import turn_table
from fashioniq.models.retriever import DialogRetriever
from fashioniq.report.page import write_dialog_page
from fashioniq.rollout import Dialogs, rollout
from fashioniq.users import CaptionerUser, RecordedUser, User

IN_RUN_FILE = 50  # items of each ranking that go into run.trec: enough for R@50


def run(settings: EvalDialogs) -> None:
    """Simulate the dialogs, print the table, and leave all results in the run's folder."""
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features)
    retriever, hears, facts = load_retriever(settings.run, settings.category, store)
    device = pick_device(settings.device)
    retriever.to(device)
    if facts["data"]["fingerprint"] != catalog.fingerprint():
        print(f"note: the splits or captions of {catalog.category} are not those that {settings.run} was trained on")
    items = split_items(catalog, store, settings.split).to(device)
    if settings.exclude_shown and settings.turns > len(items):
        raise UserError(f"--exclude-shown with --turns {settings.turns} leaves nothing to show: there are {len(items)} products")
    with torch.no_grad():
        gallery = Gallery(items, retriever.embed_images(items.features_ND))
    if settings.user == "human":
        plan, user_facts = _recorded(settings, catalog, store, items, hears, retriever.max_words)
    else:
        plan, user_facts = _simulated(settings, facts, items, store, hears, device)
    out = settings.out or settings.run / f"dialogs-{settings.split}{'-human' if settings.user == 'human' else ''}"
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    ranks: list[Tensor] = []
    count = len(plan.target_N)
    for start in track(range(0, count, settings.batch_size), description=f"dialogs of {settings.split}"):
        batch = torch.arange(start, min(start + settings.batch_size, count), device=device)
        try:
            dialogs = _rollout(retriever, plan, gallery, batch, settings)
        except NotFiniteError as error:
            raise UserError(f"{settings.run} has diverged ({error}): train it again with a lower --learning-rate") from error
        ranks.append(dialogs.ranks.cpu())
        for record, ranking in _records(dialogs, gallery, hears, len(records) if plan.user is None else None):
            records.append(record)
            lines += ranking
    rank_BT = torch.cat(ranks)
    metrics = {
        "protocol": "Fashion IQ dialogs",
        "data": str(catalog.root),
        "category": canonical(settings.category),
        "split": settings.split,
        "gallery": len(items),
        "coverage": len(items) / len(catalog.ids(settings.split)),
        "dialogs": count,
        "features": store.facts["encoder"],
        "pictures": "none" if store.facts["encoder"] == "metadata" else catalog.pictures_origin,
        "fingerprint": catalog.fingerprint(),
        **user_facts,
        "attributes": facts["attrs"],
        "exclude_shown": settings.exclude_shown,
        "retriever": str(settings.run),
        "seed": settings.seed,
        "turns": turn_table(rank_BT, len(items)),
    }
    _write(out, metrics, records, lines, plan.first_facts, catalog, store)
    _tell(metrics, out)


@dataclass(frozen=True)
class _Plan:
    """Which dialogs are held: targets and first items as positions, and a user, or else the words that were recorded (N×T×L)."""

    target_N: Tensor
    first_N: Tensor
    turns: int
    user: User | None
    words_NTL: Tensor | None
    first_facts: dict[str, Any]


def _simulated(
    settings: EvalDialogs, facts: dict[str, Any], items: Items, store: FeatureStore, hears: Vocabulary, device: torch.device
) -> tuple[_Plan, dict[str, Any]]:
    run = Path(settings.user or facts["user"])
    captioner, speaks, user_facts = load_captioner(run, settings.category, store)
    user = CaptionerUser(captioner.to(device), items, speaks, hears, settings.beam)
    target_N = torch.arange(len(items), device=device)
    first_N, first_facts = _first_candidates(settings, items)
    told = {"user": str(run), "captions": user_facts["data"]["captions"], "decoding": f"beam {settings.beam}" if settings.beam > 1 else "greedy"}
    return _Plan(target_N, first_N.to(device), settings.turns, user, None, first_facts), told


def _first_candidates(settings: EvalDialogs, items: Items) -> tuple[Tensor, dict[str, Any]]:
    """A fixed list, the same for every method: for each target another product, by the seed or from an earlier evaluation."""
    places = {name: place for place, name in enumerate(items.ids)}
    if settings.first_candidates:
        first = read_json(settings.first_candidates, "the first candidates", dict).get("first")
        if not isinstance(first, dict):
            raise UserError(f"{settings.first_candidates} lists no first candidates: give the file of an evaluation with a simulated user")
        if missing := [name for name in items.ids if str(first.get(name)) not in places or first[name] == name]:
            raise UserError(f"{settings.first_candidates} has no first candidate of this gallery for {len(missing)} targets, as {missing[0]}")
    else:
        step_N = torch.randint(1, len(items), (len(items),), generator=torch.Generator().manual_seed(settings.seed))
        first = {name: items.ids[(place + int(step)) % len(items)] for place, (name, step) in enumerate(zip(items.ids, step_N, strict=True))}
    origin = {"from": str(settings.first_candidates)} if settings.first_candidates else {"seed": settings.seed}
    first_facts = {"split": settings.split, "category": canonical(settings.category), **origin, "first": first}
    return torch.tensor([places[first[name]] for name in items.ids]), first_facts


def _recorded(
    settings: EvalDialogs, catalog: Catalog, store: FeatureStore, items: Items, hears: Vocabulary, max_words: int
) -> tuple[_Plan, dict[str, Any]]:
    """The pairs of the split: the candidate is shown first, and the recorded captions are the one turn."""
    places = {name: place for place, name in enumerate(items.ids)}
    rows = [
        (places[pair.target], places[pair.candidate], text)
        for pair in pairs_with_features(catalog, store, settings.split)
        for text in (pair.captions if settings.captions == "each" else (" and ".join(pair.captions),))
        if pair.target
    ]
    device = items.features_ND.device
    target_N, first_N = (torch.tensor([row[side] for row in rows], device=device) for side in (0, 1))
    longest = max_words if settings.captions == "each" else 2 * max_words
    words_NTL = hears.encode([text for *_, text in rows], longest).unsqueeze(1).to(device)
    told = {"user": f"recorded captions, {settings.captions}", "captions": catalog.captions_origin, "decoding": "none"}
    return _Plan(target_N, first_N, 1, None, words_NTL, {"split": settings.split, "first": "the candidate of each pair"}), told


@torch.no_grad()
def _rollout(retriever: DialogRetriever, plan: _Plan, gallery: Gallery, batch: Tensor, settings: EvalDialogs) -> Dialogs:
    user = plan.user or RecordedUser(plan.words_NTL[batch])  # type: ignore[index]
    asker = BestItem(settings.exclude_shown)
    return rollout(retriever, asker, user, gallery, plan.target_N[batch], plan.first_N[batch], plan.turns)


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
    out: Path, metrics: dict[str, Any], records: list[dict[str, Any]], lines: list[str], first: dict[str, Any], catalog: Catalog, store: FeatureStore
) -> None:
    with whole(out / "dialogs.jsonl") as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    write_text(out / "run.trec", "\n".join(lines) + "\n")
    write_json(out / "first_candidates.json", first)
    words = store.attribute_words
    items = store.items(catalog.ids(metrics["split"]))
    attributes = {name: [words[number - 1] for number in row if number] for name, row in zip(items.ids, items.attributes_NA.tolist(), strict=True)}
    write_dialog_page(out / "report.html", metrics, records, catalog.images, catalog.titles, attributes)
    write_json(out / "metrics.json", metrics)


def _tell(metrics: dict[str, Any], out: Path) -> None:
    print(
        f"{metrics['category']}, {metrics['split']} split: {metrics['dialogs']} dialogs, gallery {metrics['gallery']}, "
        f"{100 * metrics['coverage']:.1f} % of the split have features"
    )
    table = Table()
    for name in ("turn", "P", "R@10", "R@50", "mean rank (from 0)"):
        table.add_column(name, justify="right")
    for turn in metrics["turns"]:
        table.add_row(f"{turn['turn']:.0f}", f"{turn['P']:.2f}", f"{turn['R@10']:.2f}", f"{turn['R@50']:.2f}", f"{turn['mean_rank']:.1f}")
    Console().print(table)
    print(
        f"by chance P 50, R@10 {min(100, 1000 / metrics['gallery']):.2f}, R@50 {min(100, 5000 / metrics['gallery']):.2f}; "
        f"features: {metrics['features']}; user: {metrics['user']}, {metrics['decoding']}"
    )
    print(f"pictures: {metrics['pictures']}; captions: {metrics['captions']}")
    print(f"results in {out}, dialogs to look at in {out / 'report.html'}")

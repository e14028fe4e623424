"""`fashioniq eval-chatir`."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import Tensor

from fashioniq.askers.recorded import Recorded as RecordedOffers
from fashioniq.commands.chat_encoders import Searched, Source, given, picture_paths, read_directions, searched
from fashioniq.commands.common import pick_device
from fashioniq.config import EvalChatIR
from fashioniq.data.dialogues import (
    Dialogue,
    dialog_text,
    in_search_space,
    read_dialogues,
    read_search_space,
    recorded_rounds,
    split_round,
)
from fashioniq.files import UserError, atomic_write, checksum, discard, write_json, write_text
from fashioniq.loop.gallery import Gallery, NotFiniteError
from fashioniq.loop.messages import Message, Retriever
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.chat import MEASURES, repetition, round_table
from fashioniq.models.text import RecordedQueries, TextRetriever
from fashioniq.provenance import provenance
from fashioniq.report.chat import write_chat_page
from fashioniq.report.products import ItemCards
from fashioniq.report.tables import csv_table, print_table, rounded
from fashioniq.users.recorded import Recorded as RecordedReplies

RESULTS = ("metrics.json", "dialogs.jsonl", "run.trec", "table.csv", "report.html")
IN_RUN_FILE = 50  # images of each ranking that go into run.trec: enough for R@50


@dataclass(frozen=True)
class Held:
    """What came of the dialogs of a file: ranks, and the nearest images with their squared distances, all Q×R."""

    rank_QR: Tensor
    item_QRK: Tensor
    distance_QRK: Tensor


def run(settings: EvalChatIR) -> None:
    """Rank the search space by every dialog after every round, print the measures, and leave all results in a folder."""
    _check(settings)
    space = read_search_space(settings.search_space)
    alone = {"auto": None, "rounds": False, "last": True}[settings.query]
    paths = [Path(path) for path in settings.dialogues]
    files = {path.stem: in_search_space(read_dialogues(path, alone), space, path) for path in paths}
    if len(files) < len(paths):
        raise UserError(f"two of --dialogues have the same name: {', '.join(map(str, paths))}; rename one, results are told by it")
    images = picture_paths(settings.images, space)
    source = _searched(settings, space, images)
    if settings.images and not images:
        print(f"note: {settings.images} has no picture of the search space, as {space[0]}: the page shows none")
    joined = source.joined if settings.separator is None else settings.separator
    gallery = source.gallery()
    discard(settings.out, *((f"{name}/metrics.json" for name in files) if len(files) > 1 else ()), *RESULTS)
    evaluated: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for number, (name, dialogues) in enumerate(files.items()):
        retriever, depends_on = _retriever(settings, source, joined, dialogues, number)
        held = _hold(retriever, gallery, dialogues, settings, name)
        metrics = _metrics(settings, name, dialogues, space, source, held) | depends_on
        metrics["provenance"] = provenance({path.name: checksum(path) for path in (paths[number], settings.search_space)})
        records = list(_records(dialogues, held, source.ids))
        out = settings.out / name if len(files) > 1 else settings.out
        write_text(out / "dialogs.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
        _write_run(out / "run.trec", dialogues, held, source.ids)
        write_json(out / "metrics.json", metrics)
        evaluated.append((metrics, records))
        _tell(metrics)
    rows = [[metrics["name"], *(row[key] for key in ("round", *MEASURES))] for metrics, _ in evaluated for row in metrics["rounds"]]
    write_text(settings.out / "table.csv", csv_table(("dialogues", "round", *MEASURES), rows))
    write_chat_page(settings.out / "report.html", evaluated, ItemCards(images, {}, {}))
    print(f"results in {settings.out}, dialogs to look at in {settings.out / 'report.html'}")


def _check(settings: EvalChatIR) -> None:
    """Raise UserError where it is not said who encodes."""
    if not settings.dialogues:
        raise UserError("no dialogues are named: give --dialogues FILE, or several for one table")
    own = bool(settings.query_vectors or settings.gallery_vectors)
    if own == bool(settings.encoder) or bool(settings.query_vectors) != bool(settings.gallery_vectors):
        raise UserError("it is not clear who encodes: give --encoder, or both --query-vectors and --gallery-vectors")
    if own and (unused := [name for name in ("weights", "features", "separator") if getattr(settings, name) is not None]):
        raise UserError(f"--{unused[0]} is for an --encoder, and --query-vectors are ready: leave one of them out")
    if own and len(settings.query_vectors) != len(settings.dialogues):
        raise UserError(f"--query-vectors names {len(settings.query_vectors)} files for {len(settings.dialogues)} of --dialogues: one for each")


def _searched(settings: EvalChatIR, space: Sequence[str], images: dict[str, Path]) -> Searched:
    device = pick_device(settings.device)
    if settings.gallery_vectors:
        return given(settings.gallery_vectors, space, device)
    assert settings.encoder is not None, "_check has seen to it"
    source = Source(settings.encoder, device, settings.weights, settings.features, settings.images, settings.workers, settings.batch_size)
    return searched(source, space, images)


def _retriever(
    settings: EvalChatIR, source: Searched, joined: str, dialogues: Sequence[Dialogue], number: int
) -> tuple[Callable[[slice], Retriever], dict[str, Any]]:
    """The retriever of a part of the dialogs, and how many texts of each round exceed the encoder's limit."""
    rounds = len(dialogues[0].rounds)
    if source.encoder is None:
        size, device = source.vectors_ND.shape[1], source.vectors_ND.device
        path = Path(settings.query_vectors[number])
        vectors_QRD = read_directions(path, (len(dialogues), rounds, size), "dialogs × rounds × D of the gallery's vectors")
        return lambda part: RecordedQueries(vectors_QRD[part].to(device)), {"query": f"vectors of {path}"}
    cut = []
    for number in range(rounds):
        lengths = source.encoder.lengths([dialog_text(dialogue, number, joined) for dialogue in dialogues])
        cut.append(sum(length > source.encoder.limit for length in lengths))
    query = "each round alone" if dialogues[0].alone else f"rounds joined by {joined!r}"
    retriever = TextRetriever(source.encoder, joined, dialogues[0].alone)
    return lambda part: retriever, {"query": query, "cut": cut}


@torch.no_grad()
def _hold(
    retriever_of: Callable[[slice], Retriever], gallery: Gallery, dialogues: Sequence[Dialogue], settings: EvalChatIR, name: str
) -> Held:
    """Replay the recorded dialogs. Raises UserError for queries that are not finite."""
    places, device = {image: place for place, image in enumerate(gallery.items.ids)}, gallery.vectors_ND.device
    if lacking := [dialogue.image for dialogue in dialogues if dialogue.image not in places]:
        raise UserError(f"{len(lacking)} images that the dialogs of {name} seek have no picture that can be read, as {lacking[0]}: get them first")
    target_Q, rounds = torch.tensor([places[dialogue.image] for dialogue in dialogues], device=device), len(dialogues[0].rounds)
    ranks, tops = [], []
    try:
        for start in track(range(0, len(dialogues), settings.batch_size), description=name):
            part = slice(start, start + settings.batch_size)
            asker, user = _recorded(dialogues[part])
            dialogs = rollout(System(retriever_of(part), asker, gallery), user, target_Q[part], Message(), rounds)
            ranks.append(dialogs.ranks.cpu())
            found = zip(*(gallery.top(query_BD, IN_RUN_FILE) for query_BD in dialogs.query_BTD.unbind(1)), strict=True)
            tops.append([torch.stack(part, 1).cpu() for part in found])
    except NotFiniteError as error:
        raise UserError(f"{settings.encoder} makes queries that are not finite numbers ({error}): its weights are damaged") from error
    distance_QRK, item_QRK = (torch.cat(parts) for parts in zip(*tops, strict=True))
    return Held(torch.cat(ranks), item_QRK, distance_QRK)


def _recorded(dialogues: Sequence[Dialogue]) -> tuple[RecordedOffers, RecordedReplies]:
    """Who asks and who replies where both were recorded: the first offer is empty, and the reply to it is the caption."""
    questions, answers = zip(*(zip(*recorded_rounds(dialogue), strict=True) for dialogue in dialogues), strict=True)
    offers = [Message(texts=texts) if any(texts) else Message() for texts in zip(*questions, strict=True)]
    return RecordedOffers(offers), RecordedReplies([Message(texts=texts) for texts in zip(*answers, strict=True)])


def _metrics(
    settings: EvalChatIR, name: str, dialogues: Sequence[Dialogue], space: Sequence[str], source: Searched, held: Held
) -> dict[str, Any]:
    asked = [[question for question, _ in map(split_round, dialogue.rounds[1:]) if question] for dialogue in dialogues]
    count = sum(len(dialogue.rounds) - 1 for dialogue in dialogues)
    rounds = round_table(held.rank_QR, len(source.ids))
    return {
        "protocol": "ChatIR",
        "name": name,
        "search_space": str(settings.search_space),
        "gallery": len(source.ids),
        "coverage": len(source.ids) / len(space),
        "dialogs": len(dialogues),
        **source.facts,
        "rounds": rounds,
        "BRI": rounds[-1]["BRI"],
        "questions": None if dialogues[0].alone else {**repetition(asked), "without_mark": count - sum(map(len, asked))},
    }


def _records(dialogues: Sequence[Dialogue], held: Held, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A line of dialogs.jsonl per dialog: of each round what was said, the best image after it, and the target's rank."""
    for dialogue, ranks, items in zip(dialogues, held.rank_QR.tolist(), held.item_QRK[..., :10].tolist(), strict=True):
        said = zip(items, dialogue.rounds, ranks, strict=True)
        turns = [{"shown": ids[best[0]], "words": text, "rank": rank} for best, text, rank in said]
        yield {"target": dialogue.image, "turns": turns, "top": [ids[item] for item in items[-1]]}


def _write_run(path: Path, dialogues: Sequence[Dialogue], held: Held, ids: Sequence[str]) -> None:
    """A TREC run file: the query NAME-3 is the dialog that seeks NAME after round 3, scores are cosine similarities."""
    names = [name.replace(" ", "%20") for name in ids]
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for dialogue, items, distances in zip(dialogues, held.item_QRK, held.distance_QRK, strict=True):
            query = dialogue.image.replace(" ", "%20")
            for number, (row, scores) in enumerate(zip(items.tolist(), (1 - distances / 2).tolist(), strict=True)):
                found = enumerate(zip(row, scores, strict=True), start=1)
                file.writelines(f"{query}-{number} Q0 {names[item]} {place} {score:.8f} fashioniq\n" for place, (item, score) in found)


def _tell(metrics: dict[str, Any]) -> None:
    print(
        f"{metrics['name']}: {metrics['dialogs']:,} dialogs, search space {metrics['gallery']:,} images, "
        f"{100 * metrics['coverage']:.1f} % of it has vectors; {metrics['query']}"
    )
    rows = [[rounded(name, row[name]) for name in ("round", *MEASURES)] for row in metrics["rounds"]]
    if "cut" in metrics:
        rows = [[*row, str(cut)] for row, cut in zip(rows, metrics["cut"], strict=True)]
    print_table(["round", *MEASURES, *(["cut"] if "cut" in metrics else [])], rows, left=0)
    print("Hits@10: at that round or before; R@N: at that round. ATR counts from 1. BRI: lower is better")
    if "cut" in metrics:
        print(f"cut: dialogs longer than the {metrics['limit']} tokens that {metrics['encoder']} reads")
    if metrics["questions"]:
        told = metrics["questions"]
        print(
            f"questions of a dialog: {told['exact_repeats']:.2f} exact repeats, {told['unique_tokens']:.1f} different words"
            + (f"; {told['without_mark']} rounds hold no question mark" if told["without_mark"] else "")
        )

"""The files of training data: sessions.jsonl, captions in Fashion IQ's layout, and the rankings for TREC tools."""

import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.trec import Topic, run_lines, write_topics
from fashioniq.files import UserError, checksum, text_lines, write_json, write_jsonl, write_text, writing
from fashioniq.learning.rules import SPLITS, LiveSession
from fashioniq.store import Export, Store

SESSIONS = "sessions.jsonl"
CAPTIONS = "catalog"  # folder in Fashion IQ's layout, without pictures


def write_sessions(folder: Path, category: str, sessions: Sequence[LiveSession]) -> None:
    """Write the sessions in the place of earlier ones, their rankings, and each turn as a captioned pair if its
    product is of the same split as the target.
    """
    write_jsonl(folder / SESSIONS, sessions)
    _write_trec(folder, sessions)
    catalog = Catalog(folder / CAPTIONS, category)
    for split in SPLITS:
        of_split = set(catalog.ids(split))
        rows = [
            {"target": one.target, "candidate": step.item, "captions": [step.text]}
            for one in sessions
            if one.split == split
            for step in one.steps
            if step.item in of_split
        ]
        write_json(folder / CAPTIONS / "captions" / f"cap.{file_name(category)}.{split}.json", rows)


def _write_trec(folder: Path, sessions: Sequence[LiveSession]) -> None:
    """Write what was shown for each query id, in order, with the target of the session as the relevant product."""
    topics: list[Topic] = []
    lines: list[str] = []
    for one in sessions:
        said: list[str] = []
        for query, steps in groupby(one.steps, lambda step: step.query_id):
            for step in steps:
                said.append(f"[{step.item}] {step.text}")
            topics.append(Topic(query, one.target, " ".join(said)))
            lines += run_lines(query, step.shown, range(0, -len(step.shown), -1))
    write_text(folder / "run.trec", "".join(line + "\n" for line in lines))
    write_topics(folder, topics)


def write_layout(folder: Path, catalog: Catalog) -> None:
    """Write the other files of the folder of captions: the splits of the catalog, and where the captions come from."""
    name = file_name(catalog.category)
    target = folder / CAPTIONS / "image_splits"
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            source = catalog.root / "image_splits" / f"split.{name}.{split}.json"
            if source.exists():
                shutil.copyfile(source, target / source.name)
    about = {"pictures": catalog.pictures_origin, "captions": "live"}
    write_json(folder / CAPTIONS / "catalog.json", about)


def read_sessions(folder: Path) -> list[LiveSession]:
    """Sessions of an export. Raises UserError if the file is missing or damaged."""
    path = folder / SESSIONS
    lines = text_lines(path, "export of sessions", "run `fashioniq learn` again")
    try:
        return [msgspec.json.decode(line, type=LiveSession) for line in lines]
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is damaged ({error}); run `fashioniq learn` again") from error


def register(store: Store, folder: Path, sessions: Sequence[LiveSession], rule: dict[str, Any]) -> Export:
    """Store which sessions the files hold, so that they can be erased there, too."""
    export = Export(
        id=str(folder.resolve()),
        sha256=checksum(folder / SESSIONS),
        cut_at=max((one.begun for one in sessions), default=store.now()),
        rule=rule,
        sessions=len(sessions),
    )
    store.add_export(export, [one.session for one in sessions])
    return export


def without_erased(store: Store, export: Export) -> int | None:
    """Rewrite the files of an export without erased sessions; return their number, None if the files are gone."""
    folder = Path(export.id)
    if not (folder / SESSIONS).exists():
        store.add_export(msgspec.structs.replace(export, sessions=0), [])
        return None
    sessions = read_sessions(folder)
    erased = store.erased([one.session for one in sessions])
    kept = [one for one in sessions if one.session not in erased]
    write_sessions(folder, export.rule["category"], kept)
    register(store, folder, kept, export.rule)
    return len(sessions) - len(kept)

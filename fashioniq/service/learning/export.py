"""The files of training data: sessions.jsonl, captions in Fashion IQ's layout, the rankings for TREC tools, and
gate.json.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from secrets import token_hex

import msgspec

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.trec import TrecTopic, run_lines, write_topics
from fashioniq.data.words import tokenize
from fashioniq.files import (
    UserError,
    explaining,
    read_json,
    reading,
    remove_leftovers,
    text_lines,
    typed,
    write_json,
    write_jsonl,
    write_text,
    writing,
)
from fashioniq.locks import locked
from fashioniq.report.new_models import write_learning_page
from fashioniq.service.learning.rules import SPLITS, LiveSession
from fashioniq.service.store import ExportRow, Store

MARK = "export.json"  # with the id of the record in the database
SESSIONS = "sessions.jsonl"
CAPTIONS = "catalog"  # folder in Fashion IQ's layout, without pictures
GATE = "gate.json"
WAIT = 2.0  # seconds for another process that rewrites the same files


class MeasureComparison(msgspec.Struct, kw_only=True):
    """A measure of both models over `count` turns.

    Where the new one must be higher, also the 95 % interval of the difference, and p where there is a test.
    """

    name: str
    running: float
    new: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    count: int = 0
    passed: bool = False


class Verdict(msgspec.Struct, kw_only=True):
    """Result of the gate; `reasons` are the conditions that were not met, `notes` what limits the figures."""

    targets: int
    rows: list[MeasureComparison]
    reasons: list[str]
    notes: list[str] = []

    @property
    def passed(self) -> bool:
        """Whether the new model may replace the running one."""
        return not self.reasons

    @property
    def failed(self) -> bool:
        """Whether the new model may not replace it."""
        return not self.passed


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How conversations were chosen: for the model of `run`, with those from `cut` on for the test only.

    `left_out` are the numbers that each rule left out, `training_data` the id of those that `run` was trained on.
    """

    category: str
    run: str
    training_data: str | None = None
    cut: str | None
    left_out: dict[str, int]


class Gate(Verdict, kw_only=True):
    """gate.json. `sizes` are the conversations used, by split."""

    rule: Rule
    new_words: list[str]
    sizes: dict[str, int] = {}


def begin(store: Store, folder: Path, sessions: Sequence[LiveSession], rule: Rule) -> set[str]:
    """Register the training data that an empty folder is going to hold; return the ids of the sessions that it may.

    Until this returns, nothing of a session has been written. If it fails, the folder is removed. Raises UserError if
    it has training data already.
    """
    if (folder / MARK).exists():
        raise UserError(f"{folder} exists already; give a new folder with --out, or remove it")
    id = f"exp_{token_hex(8)}"
    try:
        write_jsonl(folder / SESSIONS, [])
        write_json(folder / MARK, {"id": id})
        export = ExportRow(
            id=id,
            folder=str(folder.resolve()),
            cut_at=max((one.begun for one in sessions), default=store.now()),
            rule=msgspec.to_builtins(rule),
            sessions=len(sessions),
        )
        return store.add_export(export, [one.session for one in sessions])
    except BaseException:
        with suppress(OSError):
            for name in (SESSIONS, MARK):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
        raise


def write_sessions(folder: Path, category: str, sessions: Sequence[LiveSession]) -> None:
    """Write the sessions in the place of earlier ones, their rankings, and each turn as a captioned pair if its
    product is of the same split as the target.
    """
    write_jsonl(folder / SESSIONS, sessions)
    _write_trec(folder, sessions)
    for split in SPLITS:
        chosen = [one for one in sessions if one.split == split]
        of_split = set(Catalog(folder / CAPTIONS, category).ids(split)) if chosen else set()
        rows = [
            {"target": one.target, "candidate": step.item, "captions": [step.text]}
            for one in chosen
            for step in one.steps
            if step.item in of_split
        ]
        write_json(folder / CAPTIONS / "captions" / f"cap.{file_name(category)}.{split}.json", rows)


def _write_trec(folder: Path, sessions: Sequence[LiveSession]) -> None:
    """Write what was shown for each query id, in order, with the target of the session as the relevant product."""
    topics: list[TrecTopic] = []
    lines: list[str] = []
    for one in sessions:
        said: list[str] = []
        for query, steps in groupby(one.steps, lambda step: step.query_id):
            for step in steps:
                said.append(f"[{step.item}] {step.text}")
            topics.append(TrecTopic(query, one.target, " ".join(said)))
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
    write_json(folder / CAPTIONS / "catalog.json", {"pictures": catalog.pictures_origin, "captions": "live"})


def read_sessions(folder: Path) -> list[LiveSession]:
    """Sessions of an export. Raises UserError if the file is missing or damaged."""
    path = folder / SESSIONS
    lines = text_lines(path, "export of sessions", "run `fashioniq learn` again")
    with explaining(f"{path} is damaged", "; run `fashioniq learn` again", msgspec.DecodeError):
        return [msgspec.json.decode(line, type=LiveSession) for line in lines]


def write_report(folder: Path, gate: Gate) -> None:
    """Write the comparison of both models: gate.json, and a page for people."""
    write_json(folder / GATE, {"passed": gate.passed} | msgspec.to_builtins(gate))
    write_learning_page(folder / "report.html", gate)


def id_in(folder: Path) -> str | None:
    """Id of the training data in a folder, None without any."""
    if not (folder / MARK).exists():
        return None
    return str(read_json(folder / MARK, "the id of training data", dict).get("id"))


def check_here(export: ExportRow) -> None:
    """Raise UserError if training data are not in their folder, which may have been moved or replaced."""
    folder = Path(export.folder)
    with reading(folder, "folder", "put it back"):
        found = id_in(folder) or "none"
    if found != export.id:
        raise UserError(
            f"expected the training data {export.id} in {folder}, found {found}; put the folder back and run "
            f"`fashioniq forget` again, or `fashioniq forget --deleted {export.id}` if it was deleted"
        )


def remove_erased(store: Store, export: ExportRow) -> int:
    """Write the files of training data again without the sessions that they may not hold any more; return their number.

    Raises UserError if the files are not in their folder, or cannot be read or written; it is then to be repeated.
    """
    check_here(export)
    folder = Path(export.folder)
    with locked(folder, WAIT):
        if not (hashes := store.to_remove(export.id)):
            return 0  # another process has removed them
        sessions = read_sessions(folder)
        forbidden = store.forbidden(export.id, [one.session for one in sessions])
        kept = [one for one in sessions if one.session not in forbidden]
        with writing(folder):  # copies that killed processes left
            for place in (folder, folder / CAPTIONS, folder / CAPTIONS / "captions"):
                remove_leftovers(place)
        write_sessions(folder, export.rule["category"], kept)
        if (folder / GATE).exists():
            content = read_json(folder / GATE, "the comparison of both models", dict)
            gate = typed(content, Gate, folder / GATE, f"remove it and {folder / 'report.html'}")
            said = {word for one in kept for step in one.steps for word in tokenize(step.text)}
            gate.new_words = [word for word in gate.new_words if word in said]
            write_report(folder, gate)
        store.set_removed(export.id, hashes)
    return len(hashes)

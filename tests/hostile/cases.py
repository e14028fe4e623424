"""What the generators of hostile cases have in common: classes, valid options of all commands, and damage."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from damage import LENGTH, damage_bytes, damage_json, damage_text
from damage_arrays import damage_array, damage_arrays, damage_checkpoint, damage_weights
from judge import Case, Trial
from world import CAPTIONER, CHATSEARCHER, ENCODER, GENERATOR, RETRIEVER, Options, Room, arguments_of

Make = Callable[[Room, Random], Case | Trial]
CHATIR = "eval-dialogs --system=chatir"  # commands with other options
LINEAR = "train-retriever --epochs=0"
VECTORS = "extract-features --batch-size=1"
QUERIES = "eval-single-turn --split=val"
RANKINGS = "eval-single-turn --captions=each"


@dataclass(frozen=True)
class Class:
    """A class of cases: how many a complete run has, and how many the fixed sample of `make test` has."""

    name: str
    make: Make
    cases: int
    sampled: int


CLASSES: dict[str, Class] = {}


def hostile(name: str, cases: int, sampled: int = 6) -> Callable[[Make], Make]:
    """Register a generator under the name of its class."""

    def register(make: Make) -> Make:
        CLASSES[name] = Class(name, make, cases, sampled)
        return make

    return register


# Valid options of every command, in which a case replaces some


def valid(room: Room) -> dict[str, tuple[Options, list[str]]]:
    """Valid options of each command, and the options that name what it writes."""
    world = room.world
    root, runs = world.root, world.runs
    plain: Options = {"data": world.catalog, "category": "dresses"}
    data = {**plain, "features": world.store}
    new = room.path("out")
    asked = {**data, "encoder": runs["encoder"], "rounds": 2, "candidates": 5}
    table = {"table": root / "table.csv", "images": root / "photos", "id": "id", "title": "title"}
    return {
        "draw-sample": ({"data": new, "products": 30}, ["data"]),
        "import-catalog": (
            {**table, "attributes": ["colour", "kind"], "category": "shirts", "data": new, "workers": 0},
            ["data"],
        ),
        "download-images": ({**plain, "urls": root / "addresses.txt"}, ["data"]),
        "check-data": ({**plain, "workers": 0, "images": root / "photos", "report": room.path("out.json")}, ["report"]),
        "extract-attributes": ({**plain, "vocabulary": root / "vocabulary.csv", "replace": True}, ["data"]),
        "train-attributes": (
            {**plain, "init_from": runs["predictor"], "run": new, "min_count": 3, "epochs": 1, "workers": 0},
            ["run"],
        ),
        "extract-features": ({**plain, "encoder": "metadata", "workers": 0, "features": new}, ["features"]),
        VECTORS: (
            {**plain, "vectors": root / "vectors.npy", "ids": root / "ids.json", "features": new},
            ["features"],
        ),
        "train-captioner": ({**data, **CAPTIONER, "run": new}, ["run"]),
        "train-retriever": ({**data, **RETRIEVER, "captioner": runs["captioner"], "run": new}, ["run"]),
        "train-composer": (
            {**data, "model.composition": "B", "model.width": 16, "epochs": 1, "run": new},
            ["run"],
        ),
        LINEAR: ({**data, "run": new}, ["run"]),
        "train-dialog-encoder": ({**data, **ENCODER, "run": new}, ["run"]),
        "train-generator": ({**plain, **GENERATOR, "predictor": runs["dresses"], "run": new}, ["run"]),
        "train-chatsearcher": (
            {**CHATSEARCHER, "data": root / "talks", "features": [world.store], "run": new},
            ["run"],
        ),
        "eval-chatsearch": (
            {"data": root / "talks", "features": [world.store], "run": runs["chatsearcher"], "out": new},
            ["out"],
        ),
        "eval-dialogs": (
            {**data, "run": runs["retriever"], "user": ["differences"], "turns": 2, "out": new},
            ["out"],
        ),
        "eval-captions": ({**data, "run": runs["captioner"], "beam": 1, "out": new}, ["out"]),
        "eval-single-turn": ({**data, "run": runs["retriever"], "out": new}, ["out"]),
        QUERIES: ({**plain, "queries": new}, ["queries"]),
        RANKINGS: ({**plain, "predictions": root / "predictions.json", "out": new}, ["out"]),
        CHATIR: (
            {
                "dialogues": root / "dialogs.json",
                "search_space": root / "space.json",
                "query_vectors": root / "query.npy",
                "gallery_vectors": root / "gallery.npy",
                "out": new,
            },
            ["out"],
        ),
        "make-conversations": (
            {**data, "train": 3, "test": 2, "batch_size": 2, "out": new},
            ["out"],
        ),
        "make-dialogues": ({**asked, "out": room.path("out.json")}, ["out"]),
        "chat": ({"run": runs["retriever"], **data, "log": new / "log.jsonl"}, ["log"]),
        "search": ({"run": runs["retriever"], **data, "text": "is red"}, []),
        "compare": (
            {"": [world.results["dialogs"], world.results["dialogs2"]], "out": new},
            ["out"],
        ),
        "eval-requests": ({**data, "run": runs["retriever"], "out": new}, ["out"]),
    }  # fmt: skip


def case_of(
    room: Room, command: str, what: str, check: Any = None, whole: bool = True, **changed: Any
) -> Case:
    """Case of a command with its valid options, some of them changed; None leaves one out.

    check-data reports findings on an unusable folder too, with exit code 2.
    """
    options, writes = valid(room)[command]
    options = {name: value for name, value in {**options, **changed}.items() if value is not None}
    if command == "extract-attributes" and options.get("data") == room.world.catalog:
        options["data"] = room.catalog()  # which it writes to
    out = [Path(options[name]) for name in writes if options.get(name)]
    out = [path.parent if command == "chat" else path for path in out]
    if options.get("resume") and command.startswith("train"):
        out = [Path(options["run"])]
    positional = [str(value) for value in options.pop("", [])]
    arguments = [*command.split(), *positional, *arguments_of(command, **options)[1:]]
    inside = [path for path in out if path.is_relative_to(room.folder)]
    said = "red\nmore like 1\nthis is it 2\n" if command == "chat" else ""
    whole = whole and command != "check-data"
    return Case(arguments, f"{command}: {what}", inside, whole, check or (lambda: None), said)


def damaged(rng: Random, path: Path) -> str:
    """Damage a file by its format."""
    by_suffix = {
        ".npy": damage_array,
        ".npz": damage_arrays,
        ".safetensors": damage_weights,
        ".ckpt": damage_checkpoint,
    }
    by_suffix |= {".json": damage_json, ".jsonl": damage_json}
    by_suffix |= dict.fromkeys((".csv", ".txt", ".trec", ".yaml"), damage_text)
    return f"{path.name} {by_suffix.get(path.suffix, damage_bytes)(rng, path)}"


def some_file(rng: Random, folder: Path) -> Path:
    """Any file below a folder."""
    return rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


def same_figures(room: Room, what: str, at: str = "out") -> Callable[[], str | None]:
    """Check that an evaluation has the figures of the undamaged files, if the damage changed their length."""

    def check() -> str | None:
        kept = json.loads((room.world.results["dialogs"] / "metrics.json").read_text())["turns"]
        found = json.loads((room.path(at) / "metrics.json").read_text())["turns"]
        return None if found == kept else f"other figures after damage: {what}"

    return check if what.split()[-1] in LENGTH or "of bytes" in what else lambda: None


def earlier(room: Room, rng: Random, part: str = "dialogs", name: str = "out") -> None:
    """Sometimes put an earlier result in the place of the new one, which a refused command must not touch."""
    if rng.random() < 0.5:
        room.copy(part, name)

"""Generators of hostile cases, one per class: `make(room, rng)` returns the case of a seeded generator."""

import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

import numpy as np
from damage import (
    LENGTH,
    PAYLOADS,
    TEXTS,
    damage_array,
    damage_arrays,
    damage_bytes,
    damage_checkpoint,
    damage_json,
    damage_text,
    damage_weights,
    odd_value,
    picture_bytes,
    spoil_place,
)
from judge import Case
from world import CAPTIONER, CLOSED, ENCODER, RETRIEVER, TINY_PICTURES, Options, Room, arguments_of

from fashioniq.cli import COMMANDS as SETTINGS
from fashioniq.options import flag

Make = Callable[[Room, Random], Case]


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
        "download-images": (
            {**plain, "urls": root / "addresses.txt", "retries": 0, "timeout": 1, "connections": 1},
            ["data"],
        ),
        "check-data": ({**plain, "workers": 0, "images": root / "photos", "report": room.path("out.json")}, ["report"]),
        "extract-attributes": ({**plain, "vocabulary": root / "vocabulary.csv", "compare": True}, []),
        "pair-references": ({**plain, "out": new}, ["out"]),
        "train-attributes": (
            {**plain, "init_from": runs["predictor"], "run": new, "min_count": 3, "epochs": 1, "workers": 0},
            ["run"],
        ),
        "extract-features": ({**plain, "encoder": "metadata", "dimensions": 8, "workers": 0, "features": new}, ["features"]),
        "import-features": (
            {**plain, "vectors": root / "vectors.npy", "ids": root / "ids.json", "features": new},
            ["features"],
        ),
        "train-captioner": ({**data, **CAPTIONER, "run": new}, ["run"]),
        "train-retriever": ({**data, **RETRIEVER, "captioner": runs["captioner"], "run": new}, ["run"]),
        "train-composer": (
            {**data, "model.composition": "B", "model.width": 16, "epochs": 1, "run": new},
            ["run"],
        ),
        "train-linear": ({**data, "run": new}, ["run"]),
        "train-dialog-encoder": ({**data, **ENCODER, "run": new}, ["run"]),
        "eval-dialogs": (
            {**data, "run": runs["retriever"], "user": ["differences"], "turns": 2, "out": new},
            ["out"],
        ),
        "cross": (
            {**data, "retrievers": [runs["retriever"]], "users": [runs["captioner"]], "turns": 1, "beam": 1, "out": new},
            ["out"],
        ),
        "eval-captions": ({**data, "run": runs["captioner"], "beam": 1, "out": new}, ["out"]),
        "eval-single-turn": ({**data, "run": runs["retriever"], "out": new}, ["out"]),
        "write-queries": ({**plain, "out": new}, ["out"]),
        "score": ({**plain, "predictions": root / "predictions.json", "out": new}, ["out"]),
        "eval-chatir": (
            {
                "dialogues": root / "dialogs.json",
                "search_space": root / "space.json",
                "query_vectors": root / "query.npy",
                "gallery_vectors": root / "gallery.npy",
                "out": new,
            },
            ["out"],
        ),
        "make-dialogues": ({**asked, "out": room.path("out.json")}, ["out"]),
        "chat": ({"run": runs["retriever"], **data, "log": new / "log.jsonl"}, ["log"]),
        "search": ({"run": runs["retriever"], **data, "text": "is red"}, []),
        "compare": (
            {"": [world.results["dialogs"], world.results["dialogs2"]], "samples": 100, "out": new},
            ["out"],
        ),
    }  # fmt: skip


def case_of(
    room: Room, command: str, what: str, check: Any = None, whole: bool = True, **changed: Any
) -> Case:
    """Case of a command with its valid options, some of them changed; None leaves one out."""
    options, writes = valid(room)[command]
    options = {name: value for name, value in {**options, **changed}.items() if value is not None}
    out = [Path(options[name]) for name in writes if options.get(name)]
    out = [path.parent if command == "chat" else path for path in out]
    if options.get("resume") and command.startswith("train"):
        out = [Path(options["run"])]
    positional = [str(value) for value in options.pop("", [])]
    arguments = [command, *positional, *arguments_of(command, **options)[1:]]
    inside = [path for path in out if path.is_relative_to(room.folder)]
    said = "red\nmore like 1\nthis is it 2\n" if command == "chat" else ""
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


# Files of the catalog, stores and runs

READ_CATALOG = ("check-data", "eval-dialogs", "extract-features", "extract-attributes", "pair-references", "write-queries",
                "eval-single-turn", "eval-captions", "train-linear", "make-dialogues", "search", "score", "train-captioner",
                "import-features")  # fmt: skip


@hostile("catalog files", 1500, 20)
def catalog_files(room: Room, rng: Random) -> Case:
    data = room.catalog()
    what = damaged(rng, some_file(rng, data))
    if rng.random() < 0.1:
        titles = json.dumps({"test": {name: rng.choice([0, 0.5, None, "x"]) for name in room.world.ids[:3]}})
        (data / "coverage.json").write_text(titles)
        what += ", " + damaged(rng, data / "coverage.json")
    command = rng.choice(READ_CATALOG if rng.random() < 0.98 else ("train-retriever",))
    command = "check-data" if command == "train-captioner" and rng.random() < 0.8 else command
    if command == "eval-dialogs":
        earlier(room, rng)
    changed: Options = {"report": None, "images": None} if command == "check-data" else {}
    if command == "extract-attributes" and rng.random() < 0.5:
        changed |= {"compare": None, "replace": True}
    case = case_of(room, command, what, data=data, **changed)
    case.out += [data / "attributes"] if changed.get("replace") else []
    case.whole = case.whole and not changed.get("replace")
    return case


@hostile("feature store", 1100, 12)
def feature_store(room: Room, rng: Random) -> Case:
    store = room.copy(rng.choice(("store", "store", "metadata")), "store")
    (store / "parts").mkdir() if rng.random() < 0.03 else None
    path = some_file(rng, store)
    what = damaged(rng, path)
    command = rng.choice(
        ("eval-dialogs", "eval-single-turn", "search", "train-linear", "eval-captions", "make-dialogues")
    )
    own = json.loads((room.world.store / "store.json").read_text())
    earlier(room, rng) if command == "eval-dialogs" else None
    is_own = path.name.endswith(".npy") and own["encoder"] in (room.world.store / "store.json").read_text()
    check = same_figures(room, what) if command == "eval-dialogs" and is_own else None
    return case_of(room, command, what, check, features=store)


@hostile("run folder", 1100, 12)
def run_folder(room: Room, rng: Random) -> Case:
    name, commands = rng.choice(
        (
            ("retriever", ("eval-dialogs", "eval-single-turn", "search", "chat")),
            ("captioner", ("eval-captions", "cross", "eval-captions", "train-retriever")),
            ("linear", ("eval-dialogs", "search")),
            ("encoder", ("make-dialogues", "search")),
            ("dresses", ("extract-features", "make-dialogues")),
            ("predictor", ("train-attributes", "extract-features")),
        )
    )
    command = rng.choice(commands)
    if command in ("train-retriever", "train-attributes") and rng.random() < 0.7:
        command = commands[0] if name == "captioner" else commands[1]
    run = room.copy(name, "run", heavy=False)
    path = some_file(rng, run)
    what = f"{name} {damaged(rng, path)}"
    option = {
        "make-dialogues": "encoder",
        "cross": "users",
        "train-retriever": "captioner",
        "train-attributes": "init_from",
    }
    changed: Options = {option.get(command, "run"): run}
    if name in ("dresses", "predictor") and command != "train-attributes":
        changed = {"predictor": run}
    if command == "extract-features":
        changed |= {"encoder": None, "dimensions": None}
    check = None
    if command == "eval-dialogs":
        earlier(room, rng)
        check = same_figures(room, what) if name == "retriever" and path.suffix == ".safetensors" else None
    return case_of(room, command, what, check, command not in ("cross", "extract-features"), **changed)


def _same_state(path: Path, other: Path) -> bool:
    import torch

    found, kept = (torch.load(one, weights_only=True)["state_dict"] for one in (path, other))
    return found.keys() == kept.keys() and all(torch.equal(found[name], kept[name]) for name in kept)


@hostile("--resume", 420, 8)
def resume(room: Room, rng: Random) -> Case:
    name, command = rng.choice((("captioner", "train-captioner"), ("retriever", "train-retriever"),
                                ("encoder", "train-dialog-encoder"), ("dresses", "train-attributes")))  # fmt: skip
    run = room.copy(name, "run", heavy=True)
    path = run / rng.choice(
        (
            "last.ckpt",
            "last.ckpt",
            "last.ckpt",
            "metrics.csv",
            "config.yaml",
            "model.json",
            "weights.safetensors",
        )
    )
    what = damaged(rng, path)
    case = case_of(room, command, what, run=run, resume=True)
    case.whole = False

    def check() -> str | None:
        if path.name != "last.ckpt" or what.split()[-1] not in LENGTH:
            return None
        return (
            None
            if _same_state(path, room.world.root / name / "last.ckpt")
            else "resumed from a damaged checkpoint"
        )

    case.check = check
    return case


# Configurations and options


def yaml_text(rng: Random, text: str) -> bytes:
    """A configuration with something odd in it."""
    lines = text.splitlines()
    way = rng.randrange(14)
    key = rng.choice([line.partition(":")[0] for line in lines])
    if way <= 3:
        odd = json.dumps(odd_value(rng))
        return "\n".join(f"{key}: {odd}" if line.startswith(f"{key}:") else line for line in lines).encode()
    if way <= 5:
        odd = rng.choice(("!!python/object/apply:os.system ['touch PWNED']", "!!python/name:os.system", "!!binary aGVsbG8=", "!!set {a, b}",
                          "2024-01-01", "0o17", "1_000", "*missing", "&a [*a]", "!!timestamp 3", "|\n  a\n  b", "{? [a]: b}", "<<: 3", "yes", ".nan",
                          "-.inf", "1:30", "= x", "@x", "`x`", "%TAG", "\t x", "'unclosed", '"\\u0000"', '"\\ud800"'))  # fmt: skip
        return "\n".join(f"{key}: {odd}" if line.startswith(f"{key}:") else line for line in lines).encode()
    if way == 6:
        return text.encode() + rng.choice((b"seed: 3\n", b"class_path: os.system\n", b"__dict__: {}\n", b"config: options.yaml\n",
                                           b"? [a]\n: b\n", b"3: 4\n", b"null: 1\n", b"model: {width: {x: 1}}\n", b"help: true\n",
                                           b"model.width: 3\n", b"--- \nseed: 1\n", b"...\nx"))  # fmt: skip
    if way == 7:
        depth = rng.choice((15, 25, 1000, 30_000))
        return text.encode() + b"x: " + rng.choice((b"[", b"{a: ", b"- ")) * depth
    if way == 8:
        return b"a: &a [x,x]\n" + b"".join(
            b"b%d: &b%d [%s]\n" % (n, n, b"*a," * 9) for n in range(rng.randrange(1, 9))
        )
    if way == 9:
        return f"{text}seed: {'9' * rng.choice((20, 400, 5000))}\n".encode()
    if way == 10:
        return (rng.choice(TEXTS) + text).encode("utf-8", "surrogatepass")
    if way == 11:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-7"))) + b"\xff"
    return text.encode()[: rng.randrange(len(text))] + rng.choice((b"", b"\0", b"\xff", b"{", b"- ", b": :"))


@hostile("YAML config", 1000, 12)
def yaml_config(room: Room, rng: Random) -> Case:
    command = rng.choice(
        [
            name
            for name in valid(room)
            if name not in ("draw-sample", "train-attributes", "train-retriever", "compare")
        ]
    )
    case = case_of(room, command, "")
    given = valid(room)[command][0]
    options = {name: value for name, value in given.items() if "." not in name}
    if sizes := {name.removeprefix("model."): value for name, value in given.items() if "." in name}:
        options["model"] = sizes
    text = "".join(
        f"{name}: {json.dumps(value, default=str)}\n" for name, value in {**options, "seed": 1}.items()
    )
    text = text if "seed" in _options(SETTINGS[command]) else text.replace("seed: 1\n", "")
    path = room.path("options.yaml")
    path.write_bytes(yaml_text(rng, text))
    what = f"{command}: {path.read_bytes()[-60:]!r}"
    return Case([command, "--config", str(path)], what, [room.folder], False, said=case.said)


LASTING = {"epochs", "products", "rounds", "candidates", "samples", "beam", "retries", "timeout", "count", "show", "patience", "size",
           "connections", "per_host", "workers", "devices", "num_nodes", "max_gigabytes", "image_size", "dimensions", "per_target",
           "micro_batch", "min_count", "warmup"}  # a large number of these is a request for much work  # fmt: skip
# valid numbers of these start processes, wait for other machines, or wait longer and longer
PROCESSES = {"devices", "num_nodes", "workers", "retries"}
SWITCHED_OFF = {"fetch-spice", "results"}  # one loads from the network, the other reads the project


def _options(kind: type, prefix: str = "") -> dict[str, Any]:
    hints, found = get_type_hints(kind), {}
    for one in fields(kind):
        if is_dataclass(hints[one.name]):
            found |= _options(hints[one.name], f"{prefix}{one.name}.")
        elif one.metadata.get("positional") is None:
            found[prefix + one.name] = (hints[one.name], one.default is MISSING)
    return found


def _odd_words(rng: Random, name: str, kind: Any) -> list[str]:
    numeric = kind in (int, float, int | None, float | None)
    small = ["", " ", "-1", "0", "0.5", "nan", "inf", "-inf", "1e400", "0x10", "１２", "1_0", "true", "null", "[]", "{}", "[1]", "1,5", "two",
             "-0", "+3", " 2 ", "1e1", "2.0", "''"]  # fmt: skip
    if numeric:
        large = (
            []
            if name.split(".")[-1] in LASTING
            else ["2147483647", "9223372036854775808", "9" * 400, "1e308"]
        )
        return [rng.choice(small + large)]
    texts = [text.replace("\0", "") if rng.random() < 0.9 else text for text in TEXTS]
    if kind == list[str]:
        return [rng.choice(texts) for _ in range(rng.randrange(0, 4))]
    if kind in (bool, bool | None):
        return rng.choice(([], [], ["maybe"], ["false"], [""], ["1"]))
    return [rng.choice(texts)]


@hostile("option values", 1300, 16)
def option_values(room: Room, rng: Random) -> Case:
    command = rng.choice([name for name in valid(room) if name not in SWITCHED_OFF])
    kind = SETTINGS[command]
    found = _options(kind)
    slow = command in ("train-attributes", "train-retriever", "train-captioner", "draw-sample")
    names = list(found) if not slow else [name for name in found if found[name][0] not in (bool, bool | None)]
    name = rng.choice([name for name in names if name != "device"])
    words = _odd_words(rng, name, found[name][0])
    if name in PROCESSES:
        words = [rng.choice(("", "-1", "0.5", "nan", "two", "1e400"))]
    data = room.catalog() if command == "download-images" else room.world.catalog
    given = case_of(room, command, f"{flag(name)} {words}", data=data) if command == "download-images" else case_of(
        room, command, f"{flag(name)} {words}")  # fmt: skip
    kept, skip = [], False
    for word in given.arguments:
        skip = word == flag(name) or (skip and not word.startswith("--"))
        kept += [] if skip else [word]
    kept += [f"{flag(name)}={words[0]}"] if len(words) == 1 and rng.random() < 0.5 else [flag(name), *words]
    room.path("out").mkdir() if rng.random() < 0.1 else None
    return Case(kept, given.what, [room.folder], False, said=given.said)


@hostile("category names", 500, 6)
def category_names(room: Room, rng: Random) -> Case:
    data = room.catalog()
    odd = rng.choice((*TEXTS, "x" * 300, "../dress", "dress/../../x", "dress\0", "DRESS", "dress ", "ｄｒｅｓｓ", ".dress", "dress.", "*", "?", "dress:x",
                      "nul", "dress\n", "[a]", "$HOME", "~root", "%2e%2e%2f", "a" * 255, "é" * 120, "--", "-rf"))  # fmt: skip
    command = rng.choice(("check-data", "eval-dialogs", "import-catalog", "import-features", "train-linear", "write-queries", "extract-attributes",
                          "pair-references", "search", "download-images", "eval-captions", "draw-sample"))  # fmt: skip
    command = "check-data" if command == "draw-sample" else command
    if rng.random() < 0.2 and odd and "/" not in odd and "\0" not in odd and len(odd) < 100:
        for path in [one for one in data.rglob("*dress*") if one.is_file()]:
            name = path.name.replace("dress", odd.replace("\ud800", "x"))
            path.rename(path.with_name(name))
    changed: Options = {"data": data, "category": odd}
    if command == "import-catalog":
        changed["data"] = room.path("out")
    if command == "download-images":
        changed["urls"] = None
    given = case_of(room, command, f"category {odd[:60]!r}", **changed)
    given.arguments = (
        [word for word in given.arguments if word not in ("--category", odd)] if odd else given.arguments
    )
    given.arguments += [f"--category={odd}"]
    given.out += [data] if command in ("download-images",) else []
    return given


@hostile("odd places", 700, 10)
def odd_places(room: Room, rng: Random) -> Case:
    command = rng.choice([name for name in valid(room) if name not in ("draw-sample", "train-attributes")])
    options, writes = valid(room)[command]
    root = room.world.root
    inputs = [
        name for name, value in options.items() if isinstance(value, Path) and value.is_relative_to(root)
    ]
    inputs += [
        name
        for name, value in options.items()
        if name and isinstance(value, list) and isinstance(value[0], Path)
    ]
    name = rng.choice([*inputs, *writes])
    if name in writes and name not in inputs:
        target = room.path("new") / Path(options[name]).name
        what = f"{flag(name)}: {spoil_place(rng, target, room.folder)}"
        case = case_of(room, command, what, **{name: target})
        case.out = [target.parent]
        if command == "chat" and "binary" in what:  # a line is appended to a file of any content
            target.write_text("{}\n")
        return case
    value = options[name][0] if isinstance(options[name], list) else options[name]
    copied = room.copy(str(value.relative_to(root)))
    place = copied
    if copied.is_dir() and rng.random() < 0.7:
        place = rng.choice(sorted(copied.rglob("*")))
    what = f"{flag(name)}, {place.relative_to(room.folder)}: {spoil_place(rng, place, room.folder)}"
    case = case_of(room, command, what, **{name: copied})
    if command == "download-images":
        case.out, case.whole = [room.folder], False
    return case


# Tables, archives and pictures


@hostile("tables", 600, 8)
def tables(room: Room, rng: Random) -> Case:
    suffix = rng.choice(("csv", "csv", "jsonl", "parquet"))
    path = room.copy(f"table.{suffix}")
    what = damaged(rng, path) if suffix != "parquet" else _parquet(rng, path)
    changed: Options = {"table": path}
    if rng.random() < 0.3:
        changed[rng.choice(("picture", "group", "where", "url"))] = rng.choice(
            ("photo", "colour=red", "kind", *TEXTS[6:])
        )
    if "url" in changed:
        changed["images"] = None
    return case_of(room, "import-catalog", what, whole=False, **changed)


def _parquet(rng: Random, path: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    if rng.random() < 0.5:
        return f"parquet {damage_bytes(rng, path)}"
    rows = 12
    column = rng.choice(("id", "title", "colour"))
    odd = rng.choice(
        ([None] * rows, [[1, 2]] * rows, [{"a": 1}] * rows, [b"\xff\xfe"] * rows, [1.5] * rows, [float("nan")] * rows, ["x" * 10_000] * rows,
         ["same"] * rows, list(TEXTS[13:13 + rows]), [True] * rows, list(range(2**62, 2**62 + rows)))
    )  # fmt: skip
    columns = {"id": [f"p{number}" for number in range(rows)], "title": ["red dress"] * rows, "colour": ["red", "blue"] * 6,
               "kind": ["dress"] * rows}  # fmt: skip
    parquet.write_table(pyarrow.table({**columns, column: odd}), path)
    return f"parquet {column} of {str(odd[0])[:40]}"


NAMES = ("../../PWNED.jpg", "/tmp/PWNED.jpg", "a/../../PWNED.jpg", "..\\..\\PWNED.jpg", "C:\\PWNED.jpg", "", "/", ".", "..", "a//b.jpg", "x" * 300 + ".jpg",
         "con.jpg", "\0.jpg", "a\nb.jpg", "\x1b[31m.jpg", "\u202egpj.x", "é.jpg", "p1.jpg/", "p1.jpg", "P1.JPG", "p1.jpg ", "p1.jpg.", "./p1.jpg", "~/p1.jpg",
         "a/b/c/d/e/f/p1.jpg", "__MACOSX/._p1.jpg", ".hidden.jpg", "<script>pwned()</script>.jpg", "p1.svg", "p1.jpg.exe")  # fmt: skip


@hostile("archives", 600, 8)
def archives(room: Room, rng: Random) -> Case:
    path = room.copy("photos.zip")
    way = rng.randrange(6)
    limit: Options = {}
    if way <= 1:
        what = damage_bytes(rng, path)
    elif way == 2:
        path, what = _tar(room, rng)
    else:
        what = _zip(rng, path)
        limit = (
            {"max_gigabytes": rng.choice((0, 0.000001, 0.001))}
            if "bomb" in what or rng.random() < 0.2
            else {}
        )
    table: Options = dict.fromkeys(("table", "id", "title", "attributes")) if rng.random() < 0.5 else {}
    return case_of(room, "import-catalog", f"archive {what}", whole=False, images=path, **table, **limit)


def _zip(rng: Random, path: Path) -> str:
    import warnings

    warnings.simplefilter("ignore")
    name, kind = (
        rng.choice(NAMES),
        rng.choice(
            ("member", "link", "device", "bomb", "twice", "encrypted", "lying size", "nested", "comment")
        ),
    )
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        about = zipfile.ZipInfo("x.jpg")
        about.filename = name
        photo = archive.read("p1.jpg")
        if kind == "link":
            about.external_attr = 0o120777 << 16
            archive.writestr(about, "/etc/passwd")
        elif kind == "device":
            about.external_attr = 0o020666 << 16
            archive.writestr(about, b"")
        elif kind == "bomb":
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, bytes(30_000_000))
        elif kind == "twice":
            for _ in range(3):
                archive.writestr(about, photo)
        elif kind == "encrypted":
            about.flag_bits |= 1
            archive.writestr(about, photo)
        elif kind == "comment":
            archive.comment = os.urandom(0) + bytes(rng.randrange(60_000))
            archive.writestr(about, photo)
        elif kind == "nested":
            archive.writestr(about, path.read_bytes()[:100])
        else:
            archive.writestr(about, photo)
    if kind == "lying size":
        data = path.read_bytes()
        place = data.rindex(b"PK\x01\x02")
        path.write_bytes(data[: place + 20] + rng.randbytes(8) + data[place + 28 :])
    return f"{kind} {name[:40]!r}"


def _tar(room: Room, rng: Random) -> tuple[Path, str]:
    path = room.path(rng.choice(("photos.tar", "photos.tar.gz", "photos.zip", "photos.tgz")))
    with tarfile.open(
        path,
        "w:gz" if "gz" in path.name else "w",
        format=rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)),
    ) as archive:
        for number in range(3):
            archive.add(room.world.root / f"photos/p{number}.jpg", f"p{number}.jpg")
        about = tarfile.TarInfo(rng.choice(NAMES).replace("\0", "") or "x")
        about.type = rng.choice(
            (
                tarfile.SYMTYPE,
                tarfile.LNKTYPE,
                tarfile.CHRTYPE,
                tarfile.FIFOTYPE,
                tarfile.DIRTYPE,
                tarfile.REGTYPE,
            )
        )
        about.linkname = rng.choice(("/etc/passwd", "../../x", "p0.jpg", ""))
        archive.addfile(about)
    return path, f"{path.name} {about.name[:40]!r}"


@hostile("pictures", 700, 8)
def pictures(room: Room, rng: Random) -> Case:
    folder = room.copy("photos", "photos")
    done = []
    for number in rng.sample(range(12), rng.choice((1, 3, 12))):
        what, data = picture_bytes(rng)
        path = folder / f"p{number}{rng.choice(('.jpg', '.jpg', '.png', '.webp', '.jpeg'))}"
        path.write_bytes(data)
        done.append(what)
    if rng.random() < 0.15:
        done.append(spoil_place(rng, folder / "p0.jpg", folder)) if folder.is_dir() else None
        folder.mkdir(exist_ok=True) if not folder.exists() else None
    what, draw = ", ".join(done[:3]), rng.random()
    if draw < 0.45:
        table: Options = dict.fromkeys(("table", "id", "title", "attributes")) if rng.random() < 0.5 else {}
        return case_of(room, "import-catalog", what, whole=False, images=folder, **table)
    data = room.catalog()
    images = data / "images"
    images.mkdir(exist_ok=True)
    for name, path in zip(room.world.ids, sorted(folder.iterdir()), strict=False):
        if path.is_file() and not path.is_symlink():
            path.rename(images / f"{name}{path.suffix}")
    if draw < 0.75:
        return case_of(room, "check-data", what, data=data, images=None)
    chosen = {"encoder": "test_efficientnet", "weights": "none", "image_size": 32, "dimensions": None}
    return case_of(room, "extract-features", what, data=data, whole=False, **chosen)


# Vectors, words and predictions


@hostile("own vectors", 600, 6)
def own_vectors(room: Room, rng: Random) -> Case:
    files = {"vectors": room.copy("vectors.npy"), "ids": room.copy("ids.json")}
    if rng.random() < 0.4:
        files["attribute_scores"], files["attribute_words"] = room.path("scores.npy"), room.path("words.json")
        np.save(files["attribute_scores"], np.random.default_rng(0).random((60, 4)).astype(np.float32))
        files["attribute_words"].write_text(json.dumps(["red", "blue", "lace", "long"]))
    name = rng.choice(list(files))
    what = damaged(rng, files[name])
    return case_of(room, "import-features", what, **files)


@hostile("word vectors", 220, 4)
def word_vectors(room: Room, rng: Random) -> Case:
    path = room.copy("glove.txt")
    draw = rng.random()
    if draw < 0.5:
        what = damage_text(rng, path)
    else:
        lines = path.read_text().splitlines()
        place = rng.randrange(len(lines))
        number = rng.choice(
            (
                "nan",
                "inf",
                "-inf",
                "1e39",
                "1e400",
                "0x1p3",
                "1_0",
                "１",
                "",
                "x",
                "1e-400",
                "--1",
                "1 2",
                "0",
            )
        )
        words = lines[place].split(" ")
        words[rng.randrange(1, len(words))] = number
        lines[place] = " ".join(words)
        if draw < 0.6:
            lines.insert(0, rng.choice(("9 4", "10 4", "9 5", "-1 4", "x 4", "9 4 1", "9999999999 4", "9 0")))
        path.write_text("\n".join(lines) + rng.choice(("\n", "", "\n\n", "\0")))
        what = f"number {number!r}"
    return case_of(room, "train-retriever", f"word vectors {what}", whole=False, word_vectors=path)


@hostile("predictions", 800, 8)
def predictions(room: Room, rng: Random) -> Case:
    path = room.copy(rng.choice(("predictions.trec", "predictions.json", "vectors.npz", "scores.npz")))
    what = damaged(rng, path)
    earlier(room, rng, "queries")
    return case_of(room, "score", what, predictions=path)


@hostile("question dialogs", 800, 8)
def question_dialogs(room: Room, rng: Random) -> Case:
    names = {
        "dialogues": "dialogs.json",
        "search_space": "space.json",
        "query_vectors": "query.npy",
        "gallery_vectors": "gallery.npy",
    }
    files = {option: room.copy(part) for option, part in names.items()}
    if rng.random() < 0.15:
        data = room.catalog()
        path = data / f"dialogues/dress.{rng.choice(('train', 'val', 'test'))}.json"
        what = damaged(rng, path)
        command = rng.choice(("make-dialogues", "train-dialog-encoder"))
        return case_of(room, command, what, data=data, whole=command == "make-dialogues")
    what = damaged(rng, files[rng.choice(list(files))])
    if rng.random() < 0.3:
        changed = {
            "query_vectors": None,
            "gallery_vectors": None,
            "encoder": room.world.runs["encoder"],
            "features": room.world.store,
        }
        return case_of(room, "eval-chatir", what, **{**files, **changed})
    return case_of(room, "eval-chatir", what, **files)


@hostile("compare", 700, 8)
def compare(room: Room, rng: Random) -> Case:
    first, second = room.copy("dialogs"), room.copy("dialogs2")
    path = rng.choice((first, second)) / rng.choice(
        ("metrics.json", "dialogs.jsonl", "dialogs.jsonl", "first_candidates.json")
    )
    what = damaged(rng, path)
    folders = [first, second] if rng.random() < 0.8 else [f"{first},{second}", str(second)]
    measure = rng.choice(
        ("R@10", "P", "MRR", "Hits@5", "R@1", "R@0", "R@-1", "R@999999999999", "R@x", "", "p", *TEXTS[:8])
    )
    chosen: Options = {"measure": measure} if rng.random() < 0.3 else {}
    return case_of(room, "compare", what, **{"": folders}, **chosen)


@hostile("first candidates", 300, 4)
def first_candidates(room: Room, rng: Random) -> Case:
    path = room.copy("dialogs/first_candidates.json", "first.json")
    what = damaged(rng, path)
    earlier(room, rng)
    return case_of(room, "eval-dialogs", what, first_candidates=path)


@hostile("vocabularies", 300, 4)
def vocabularies(room: Room, rng: Random) -> Case:
    path = room.copy(rng.choice(("vocabulary.csv", "list_attr_cloth.txt")))
    what = damaged(rng, path)
    chosen: Options = (
        {"column": [f"{rng.choice(TEXTS[:30])}={rng.choice(TEXTS[:30])}"]} if rng.random() < 0.2 else {}
    )
    return case_of(room, "extract-attributes", what, vocabulary=path, **chosen)


@hostile("address lists", 200, 4)
def address_lists(room: Room, rng: Random) -> Case:
    data, path = room.catalog(), room.copy("addresses.txt")
    odd = rng.choice(("file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:pwned()", "http://", "//127.0.0.1:9/x", "http://[::1", "http://127.0.0.1:99999/x",
                      "http://127.0.0.1:x/", "gopher://127.0.0.1:9/", "data:image/png;base64,AAAA", "http://127.0.0.1:9/\r\nHost: x", "http://\ud800", "HTTP://127.0.0.1:9",
                      f"{CLOSED}/{'x' * 5000}", f"{CLOSED}/%00%ff", "http://user:pass@127.0.0.1:9/x", "http://0:9/", "unix:///x", "", " ", "\0", "../../PWNED"))  # fmt: skip
    if rng.random() < 0.5:
        name = rng.choice((room.world.ids[0], *TEXTS))
        path.write_bytes(f"{name}\t{odd}\n".encode("utf-8", "surrogatepass") + path.read_bytes())
        what = f"{name[:20]!r} at {odd[:40]!r}"
    else:
        what = damaged(rng, path)
        lines = path.read_bytes().splitlines()  # a damaged address must not leave this machine
        path.write_bytes(
            b"\n".join(line for line in lines if b"://" not in line or b"://127.0.0.1:9/" in line)
        )
    case = case_of(room, "download-images", what, data=data, urls=path, whole=False)
    case.out = [data]
    return case


# Pages, indexes, updates and live dialogs


@hostile("HTML and scripts", 500, 6)
def html(room: Room, rng: Random) -> Case:
    command = rng.choice(
        (
            "eval-dialogs",
            "eval-dialogs",
            "compare",
            "chat",
            "eval-chatir",
            "make-dialogues",
            "extract-attributes",
            "train-attributes",
        )
    )
    if command == "train-attributes" and rng.random() < 0.6:
        command = "chat"
    said = rng.choice(PAYLOADS)
    if command == "compare":
        first, second = (
            room.copy("dialogs", rng.choice(("dialogs", "a<b onclick=pwned()>"))),
            room.copy("dialogs2"),
        )
        return case_of(room, command, _scripted(rng, rng.choice((first, second))), **{"": [first, second]})
    if command == "eval-chatir":
        path = room.copy("dialogs.json", rng.choice(("dialogs.json", "<b onclick=pwned()>.json")))
        what = _scripted(rng, path)
        return case_of(room, command, what, dialogues=path)
    data = room.catalog(pictures=True)
    what = ", ".join(
        _scripted(rng, folder)
        for folder in rng.sample([data / "titles", data / "attributes", data / "catalog.json"], 2)
    )
    if command == "chat":
        case = case_of(room, command, what, data=data)
        case.said = f"{said}\nis {said} red\nmore like 2 {said}\nthis is it 1\n"
        return case
    if command == "train-attributes":
        return case_of(room, command, what, data=data, min_count=1, whole=False)
    return case_of(room, command, what, data=data)


def _scripted(rng: Random, path: Path) -> str:
    """Put scripts into about a third of the texts of a JSON file, or of all JSON files of a folder."""

    def of(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: of(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [of(one, key) for one in value]
        kept = key in ("target", "shown", "item", "top", "protocol", "img", "kind", "split", "category")
        return (
            f"{value} {rng.choice(PAYLOADS)}"
            if isinstance(value, str) and not kept and rng.random() < 0.3
            else value
        )

    paths = [path] if path.is_file() else [*path.glob("*.json"), *path.glob("*.jsonl")]
    for one in paths:
        if one.suffix == ".json":
            one.write_text(json.dumps(of(json.loads(one.read_text())), ensure_ascii=False))
        else:
            lines = [
                json.dumps(of(json.loads(line)), ensure_ascii=False) for line in one.read_text().splitlines()
            ]
            one.write_text("\n".join(lines) + "\n")
    return f"scripts in {path.name}"


FAISS_PARTS = ("Flat", "IVF2", "IVF0", "IVF99999", "HNSW8", "HNSW0", "PQ2", "PQ0", "PQ4x4", "OPQ2", "PCA4", "PCAR8", "SQ8", "LSH", "L2norm", "RR", "IDMap", "IDMap2",
               "Refine(Flat)", "RFlat", "NSG4", "ITQ", "Pad16", "", "-1", "IVF2_HNSW4", "IMI2x2", "Residual2x2", "ZnLattice3x1_1", "FlatDedup",
               "PQ8x8fs", "IVF1", "Flat,Flat", "x", "\n")  # fmt: skip


@hostile("FAISS index", 320, 4)
def faiss_index(room: Room, rng: Random) -> Case:
    parts = rng.sample(FAISS_PARTS, rng.choice((1, 2, 2, 3)))
    index = rng.choice(
        (",".join(parts), ",".join(parts), "".join(parts), rng.choice(TEXTS).replace("\0", ""))
    )
    earlier(room, rng)
    case = case_of(room, "eval-dialogs", f"--index {index!r}")
    case.arguments += [f"--index={index}"]
    return case


@hostile("--update", 450, 6)
def update(room: Room, rng: Random) -> Case:
    kind = rng.choice(("store", "metadata", "pictures"))
    store, data = room.copy(kind, "store"), room.catalog(pictures=kind == "pictures" or rng.random() < 0.3)
    done = [kind]
    if rng.random() < 0.7:
        done.append(damaged(rng, some_file(rng, store)))
    if rng.random() < 0.5:
        path = data / "image_splits/split.dress.test.json"
        path.write_text(
            json.dumps([*json.loads(path.read_text()), "new", *rng.sample(TEXTS[:20], 1)], ensure_ascii=True)
        )
        done.append("more products")
    if rng.random() < 0.3:
        (store / "parts").mkdir()
        (store / "parts" / rng.choice(("plan.json", "0.npz", "0.npy", "x"))).write_bytes(
            rng.choice((b"", b"{}", b"[]", b"\0" * 50))
        )
        done.append("parts")
    chosen: Options = {"encoder": "metadata", "dimensions": 8}
    if kind == "pictures":
        chosen = {**TINY_PICTURES, "dimensions": None}
    elif rng.random() < 0.2:
        chosen = {
            "encoder": rng.choice(("metadata", "own", "test_efficientnet")),
            "weights": "none",
            "dimensions": rng.choice((8, 16)),
        }
    case = case_of(
        room,
        "extract-features",
        ", ".join(done),
        data=data,
        features=store,
        update=True,
        whole=False,
        **chosen,
    )
    return case


@hostile("typed into chat", 500, 6)
def typed_into_chat(room: Room, rng: Random) -> Case:
    lines = ["more like 99999999999999999999999", "more like 0", "more like -1", "more like 1 " + "red " * 3000, "this is it 0", "this is it 99999", "undo",
             "undo", "help", "more like ２", "more like ²", "this is it １", "this is it " + "9" * 5000, "quit now", "red", "is blue", "more like 1 but longer", "x" * 100_000,
             "no", "yes", *TEXTS]  # fmt: skip
    said = "".join(rng.choice(lines) + "\n" for _ in range(rng.randrange(1, 25)))
    run = room.world.runs[rng.choice(("retriever", "linear", "encoder"))]
    case = case_of(room, "chat", f"{said[:80]!r}", run=run)
    case.said = said + rng.choice(("", "quit\n", "this is it\n", "this is it 2\n"))
    case.whole = False
    return case

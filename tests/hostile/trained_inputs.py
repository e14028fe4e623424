"""Cases of catalogs, feature stores, runs and --resume."""

import json
from pathlib import Path
from random import Random

from cases import (
    LINEAR,
    QUERIES,
    RANKINGS,
    VECTORS,
    case_of,
    damaged,
    earlier,
    hostile,
    same_figures,
    some_file,
)
from damage import LENGTH
from judge import Case
from world import TRANSFORMER, Options, Room

READ_CATALOG = ("check-data", "eval-dialogs", "extract-features", "extract-attributes", QUERIES,
                "eval-single-turn", "eval-captions", LINEAR, "make-dialogues", "search", RANKINGS, "train-captioner",
                VECTORS)  # fmt: skip


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
        ("eval-dialogs", "eval-single-turn", "search", LINEAR, "eval-captions", "make-dialogues")
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
            ("captioner", ("eval-captions", "eval-captions", "eval-captions", "train-retriever")),
            ("transformer", ("eval-dialogs", "eval-single-turn", "search", "chat")),
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
        "train-retriever": "captioner",
        "train-attributes": "init_from",
    }
    changed: Options = {option.get(command, "run"): run}
    if name in ("dresses", "predictor") and command != "train-attributes":
        changed = {"predictor": run}
    if command == "extract-features":
        changed |= {"encoder": None}
    check = None
    if command == "eval-dialogs":
        earlier(room, rng)
        check = same_figures(room, what) if name == "retriever" and path.suffix == ".safetensors" else None
    return case_of(room, command, what, check, command != "extract-features", **changed)


def _same_state(path: Path, other: Path) -> bool:
    import torch

    found, kept = (torch.load(one, weights_only=True)["state_dict"] for one in (path, other))
    return found.keys() == kept.keys() and all(torch.equal(found[name], kept[name]) for name in kept)


@hostile("--resume", 420, 8)
def resume(room: Room, rng: Random) -> Case:
    name, command = rng.choice((("captioner", "train-captioner"), ("retriever", "train-retriever"),
                                ("transformer", "train-retriever"), ("encoder", "train-dialog-encoder"), ("dresses", "train-attributes")))  # fmt: skip
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
    chosen: Options = TRANSFORMER if name == "transformer" else {}
    case = case_of(room, command, what, run=run, resume=True, **chosen)
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

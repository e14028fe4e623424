"""A small valid world, made once: a drawn catalog, feature stores, runs, results, and all other input files.

A case works in a room: a folder of its own, with copies of the parts that it damages or writes to.
"""

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from zipfile import ZipFile

import numpy as np
from answering import answering
from PIL import Image
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # of what conftest imports
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import (
    TINY_CAPTIONER,
    TINY_CHATSEARCHER,
    TINY_PICTURES,
    TINY_RETRIEVER,
    arguments_of,
    make_talks,
)

from fashioniq.cli import main
from fashioniq.prepare import conversation_pool, conversing
from fashioniq.service.store import EventRow, SessionRow, Store, TurnRow

CAPTIONER = {**TINY_CAPTIONER, "epochs": 1, "model.width": 16, "model.hidden": 16, "model.heads": 2}
RETRIEVER = {"model.width": 16, "epochs": 1, "turns": 2, "samples": 2}  # else the defaults: the linear model
TRANSFORMER = {**TINY_RETRIEVER, "epochs": 1, "model.width": 16, "model.hidden": 16, "model.heads": 2}
CHATSEARCHER = {**TINY_CHATSEARCHER, "epochs": 1, "model.width": 16, "model.hidden": 16}
ENCODER = {
    "model.width": 16,
    "model.heads": 2,
    "model.hidden": 16,
    "model.layers": 1,
    "batch_size": 12,
    "epochs": 1,
}
GENERATOR = {
    "image_size": 16,
    "model.patch": 4,
    "model.width": 16,
    "model.heads": 2,
    "model.layers": 1,
    "min_count": 3,
    "epochs": 1,
    "workers": 0,
}
DRAWN = {"generator": "drawn:1", "targets": 3, "rounds": 1}
HEAVY = {"last.ckpt", "curves.png", "metrics.csv", "events.csv"}  # files of a run that only --resume needs
CLOSED = "http://127.0.0.1:9"  # no server: connections are refused at once

Options = dict[str, Any]


@contextmanager
def of_few_products() -> Iterator[None]:
    """Conversations are also made of as few products as the world has."""
    every = patch.multiple(conversation_pool, LEAST_SIMILAR=0, MOST_SIMILAR=1)
    with patch.object(conversing, "GATE", 1), every:
        yield


def run(command: str, **options: Any) -> int:
    """Run a command in this process; return its exit code. The option "" has positional arguments."""
    positional = [str(value) for value in options.pop("", [])]
    try:
        return main([*command.split(), *positional, *arguments_of(command, **options)[1:]])
    except SystemExit as left:
        return int(left.code or 0)


class World:
    """The folder of the world: paths of its parts, and valid options of the commands on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog, self.store = root / "catalog", root / "store"
        self.runs = {
            name: root / name
            for name in (
                "captioner",
                "retriever",
                "transformer",
                "linear",
                "encoder",
                "predictor",
                "dresses",
                "chatsearcher",
                "speaker",
                "seer",
            )
        }
        self.results = {name: root / name for name in ("dialogs", "dialogs2")}

    @property
    def ids(self) -> list[str]:
        """Ids of all products, in the order of the store."""
        return list(json.loads((self.root / "ids.json").read_text()))

    def split(self, name: str) -> list[str]:
        """Ids of a split."""
        return list(json.loads((self.catalog / f"image_splits/split.dress.{name}.json").read_text()))


class Room:
    """A folder for one case. `copy` puts a part of the world into it; the rest is read from the world."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.inside = folder / "a" / "b" / "c"  # working directory: a few levels of ../ stay in the room
        folder.mkdir(parents=True)

    def path(self, name: str) -> Path:
        """Path in the room."""
        return self.folder / name

    def copy(self, part: str, name: str = "", heavy: bool = False, pictures: bool = False) -> Path:
        """Copy a file or folder of the world; `heavy` includes checkpoints and plots of runs."""
        source, target = self.world.root / part, self.folder / (name or part)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            return target
        for folder, folders, files in os.walk(source):
            relative = Path(folder).relative_to(source)
            if "images" in folders and not pictures:
                folders.remove("images")
            (target / relative).mkdir(parents=True, exist_ok=True)
            for file in files:
                if heavy or file not in HEAVY:
                    shutil.copyfile(Path(folder, file), target / relative / file)
        return target

    def catalog(self, pictures: bool = False) -> Path:
        """A copy of the catalog, by default without its pictures."""
        return self.copy("catalog", pictures=pictures)


def make_world(root: Path, parts: Mapping[str, Path] | None = None) -> World:
    """Make the world in a folder, which takes about ten seconds; `parts` that exist already are copied."""
    root.mkdir(parents=True)
    made = World(root)
    for name, path in (parts or {}).items():
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, root / name)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as printed:
        steps = (_catalog, _features, _trained, _talks, _results, _tables, _predictions, _chatir, _lists)
        for step in (*steps, _answered, _drawn, _searched, _logged):
            step(made, lambda *words, **options: _succeed(printed, *words, **options))
    return made


def _succeed(printed: io.StringIO, command: str, **options: Any) -> None:
    if run(command, **options) != 0:
        raise RuntimeError(f"{command} failed: {printed.getvalue()[-500:]}")


Do = Callable[..., None]


def _catalog(world: World, do: Do) -> None:
    whole = world.root / "whole"
    if world.catalog.exists():
        return
    do("draw-sample", data=whole, products=60)
    for path in sorted(whole.rglob("*")):
        if (path.is_file() and ".dress." in f".{path.name}") or path.parent.name == "dress":
            target = world.catalog / path.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(whole / "catalog.json", world.catalog / "catalog.json")
    shutil.rmtree(whole)


def _features(world: World, do: Do) -> None:
    if not world.store.exists():
        ids = [name for split in ("train", "val", "test") for name in world.split(split)]
        (world.root / "ids.json").write_text(json.dumps(ids))
        vectors_ND = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
        np.save(world.root / "vectors.npy", vectors_ND)
    common = {"data": world.catalog, "category": "dresses"}
    own = {"vectors": world.root / "vectors.npy", "ids": world.root / "ids.json"}
    if not world.store.exists():
        do("extract-features", **common, **own, features=world.store)
    do("extract-features", **common, encoder="metadata", features=world.root / "metadata")
    do("extract-features", **common, **TINY_PICTURES, features=world.root / "pictures")


def _trained(world: World, do: Do) -> None:
    common = {"data": world.catalog, "category": "dresses", "features": world.store}
    runs = world.runs
    if not runs["captioner"].exists():
        do("train-captioner", **common, **CAPTIONER, run=runs["captioner"])
    taught = {**common, "captioner": runs["captioner"]}
    if not runs["transformer"].exists():
        do("train-retriever", **taught, **TRANSFORMER, run=runs["transformer"])
    do("train-retriever", **taught, **RETRIEVER, run=runs["retriever"])
    do("train-retriever", **common, epochs=0, run=runs["linear"])
    do("train-dialog-encoder", **common, **ENCODER, run=runs["encoder"])
    if runs["predictor"].exists():
        return
    pictures = {"data": world.catalog, "min_count": 3, "epochs": 1}
    do("train-attributes", **pictures, **TINY_PICTURES, run=runs["predictor"])
    only = {"category": "dresses", "init_from": runs["predictor"], "workers": 0}
    do("train-attributes", **pictures, **only, run=runs["dresses"])


def _talks(world: World, do: Do) -> None:
    talks = world.root / "talks"
    talks.mkdir()
    make_talks(talks, world.catalog)
    own = {"data": talks, "features": world.store, "run": world.runs["chatsearcher"]}
    do("train-chatsearcher", **own, **CHATSEARCHER)


def _results(world: World, do: Do) -> None:
    common = {"data": world.catalog, "category": "dresses", "features": world.store, "turns": 2}
    do(
        "eval-dialogs",
        **common,
        run=world.runs["retriever"],
        user="differences",
        out=world.results["dialogs"],
    )
    do("eval-dialogs", **common, run="last-shown", user="differences", out=world.results["dialogs2"])


def _tables(world: World, do: Do) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [
        {
            "id": f"p{number}",
            "title": f"{colour} {kind}",
            "colour": colour,
            "kind": kind,
            "photo": f"p{number}.jpg",
        }
        for number in range(12)
        for colour, kind in [(("red", "navy blue", "green")[number % 3], ("dress", "gown")[number % 2])]
    ]
    with open(world.root / "table.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (world.root / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), world.root / "table.parquet")
    photos = world.root / "photos"
    photos.mkdir()
    for number in range(12):
        color = (number * 20, 255 - number * 20, (number * 50) % 256)
        Image.new("RGB", (40, 40), color).save(photos / f"p{number}.jpg")
    with ZipFile(world.root / "photos.zip", "w") as archive:
        for path in sorted(photos.iterdir()):
            archive.write(path, path.name)


def _predictions(world: World, do: Do) -> None:
    do("eval-single-turn", data=world.catalog, category="dresses", queries=world.root / "queries")
    written = json.loads(next((world.root / "queries").iterdir()).read_text())
    names, gallery = list(written["queries"]), written["gallery"]
    draw = np.random.default_rng(0)
    ranked = {name: [gallery[position] for position in draw.permutation(len(gallery))] for name in names}
    (world.root / "predictions.json").write_text(json.dumps(ranked))
    lines = [
        f"{name} Q0 {item} {rank} {1 / rank} tag\n"
        for name, items in ranked.items()
        for rank, item in enumerate(items, start=1)
    ]
    (world.root / "predictions.trec").write_text("".join(lines))
    vectors = {
        "query_vectors": draw.normal(size=(len(names), 4)).astype(np.float32),
        "vectors": draw.normal(size=(len(gallery), 4)).astype(np.float32),
    }
    np.savez(world.root / "vectors.npz", queries=np.array(names), ids=np.array(gallery), **vectors)
    scores = draw.normal(size=(len(names), len(gallery))).astype(np.float32)
    np.savez(world.root / "scores.npz", queries=np.array(names), ids=np.array(gallery), scores=scores)


def _chatir(world: World, do: Do) -> None:
    dialogs = json.loads((world.catalog / "dialogues/dress.test.json").read_text())
    for dialog in dialogs:
        dialog["dialog"] = dialog["dialog"][:3]
    space = world.split("test")
    (world.root / "dialogs.json").write_text(json.dumps(dialogs))
    (world.root / "space.json").write_text(json.dumps(space))
    draw = np.random.default_rng(0)
    np.save(world.root / "query.npy", draw.normal(size=(len(dialogs), 3, 4)).astype(np.float32))
    np.save(world.root / "gallery.npy", draw.normal(size=(len(space), 4)).astype(np.float32))


def _lists(world: World, do: Do) -> None:
    words = ["is", "red", "blue", "with", "and", "long", "short", "sleeves", "a"]
    draw = np.random.default_rng(0)
    lines = [" ".join([word, *(f"{number:.3f}" for number in draw.normal(size=4))]) for word in words]
    (world.root / "glove.txt").write_text("\n".join(lines) + "\n")
    (world.root / "vocabulary.csv").write_text("word,type,synonyms\nred,texture,crimson\nlace,fabric,\n")
    (world.root / "list_attr_cloth.txt").write_text("2\nattribute_name  attribute_type\nred  1\nlace  2\n")
    addresses = [f"{name}\t{CLOSED}/{name}.jpg\n" for name in world.ids[:3]]
    (world.root / "addresses.txt").write_text("".join(addresses))
    options = {"data": str(world.catalog), "category": "dresses", "features": str(world.store), "turns": 2}
    options |= {"run": str(world.runs["retriever"]), "user": ["differences"], "seed": 1}
    (world.root / "options.yaml").write_text(
        "".join(f"{key}: {json.dumps(v)}\n" for key, v in options.items())
    )


ASKED = {"questioner": "few-shot", "language_model": "endpoint:m", "timeout": 5, "rounds": 2}
WRITTEN = {"train": 1, "test": 1, "batch_size": 1}
WRITTEN |= {"language_model": "endpoint:m", "timeout": 5}


def _answered(world: World, do: Do) -> None:
    """A cache of the answers of an endpoint to two commands."""
    common = {"data": world.catalog, "category": "dresses", "features": world.store}
    cache = world.root / "answers"
    with answering():
        asked = {**ASKED, "encoder": world.runs["encoder"], "cache": cache}
        do("make-dialogues", **common, **asked, out=world.root / "asked.json")
        with of_few_products():
            do("make-conversations", **common, **WRITTEN, cache=cache, out=world.root / "written")


def _drawn(world: World, do: Do) -> None:
    """Dialogs with drawn pictures, which are in a cache, and a retriever to which shoppers can show pictures."""
    common = {"data": world.catalog, "category": "dresses", "features": world.root / "seen"}
    predictor = {"predictor": world.runs["dresses"]}
    do("extract-features", **common, **predictor, workers=0)
    do("train-dialog-encoder", **common, **ENCODER, run=world.runs["speaker"])
    do("train-retriever", **common, **RETRIEVER, users="differences", run=world.runs["seer"])
    drawn = {"encoder": world.runs["speaker"], **predictor, **DRAWN, "out": world.root / "feedback"}
    do("eval-dialogs", system="genir", record=True, **common, **drawn)


def _searched(world: World, do: Do) -> None:
    """A folder of milvus-lite; the command runs in a process of its own, as its threads last."""
    common = {"data": world.catalog, "category": "dresses", "features": world.store, "text": "is red"}
    url = f"milvus://{world.root / 'milvus.db'}"
    if not (child := os.fork()):
        with suppress(BaseException):
            do("search", **common, run=world.runs["retriever"], gallery=url)
        os._exit(0)
    os.waitpid(child, 0)


def word_of(number: int) -> str:
    """A word that only one shopper of the log has said."""
    return f"quor{chr(97 + number)}zant"


def _logged(world: World, do: Do) -> None:
    """Log of a service: shoppers who want products of train, and later ones who want those of test."""
    chance, ids = Random(0), {split: world.split(split) for split in ("train", "test")}
    store = Store.open(f"sqlite:///{world.root / 'log.db'}")
    for number in range(24):
        name, products = f"s{number}", ids["train" if number < 16 else "test"]
        target, *others = chance.sample(products, 8)
        at = datetime(2026, 11, 1, 12, number, tzinfo=UTC)
        about = {"category": "dresses", "model": "m", "client": name, "consent": "training"}
        made = [
            TurnRow(
                query_id=f"{name}-{n}",
                session_id=name,
                n=n,
                kind="says" if n else "start",
                about=others[n] if n else None,
                says=f"is crimson, {word_of(number)} and {chance.choice(('longer', 'blue', 'has lace'))}"
                if n
                else None,
                shown=[{"id": one, "score": 1.0, "propensity": 1.0} for one in others],
                created_at=at,
            )
            for n in range(3)
        ]
        store.add_session(SessionRow(id=name, **about, created_at=at, last_at=at), made[0])
        for one in made[1:]:
            store.add_turn(one)
        bought = {"query_id": f"{name}-2", "action": "purchase", "product_id": target, "server_at": at}
        store.add_events([EventRow(event_id=name, session_id=name, **bought)])
    store.close()


def tensors_of(run: Path) -> dict[str, np.ndarray]:
    """Weights of a run."""
    return dict(load_file(run / "weights.safetensors"))

"""Commands that are killed at a random moment, up to three times, and then run again.

The end must be, byte for byte, that of the command that was not killed, apart from provenance. Each process
is forked from one that has imported everything, so that a kill hits the work and not the imports.
"""

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from cases import CHATIR, LINEAR, QUERIES, RANKINGS, VECTORS, valid
from world import CAPTIONER, RETRIEVER, TINY_PICTURES, Options, Room, World, run

FURTHER = ("train-attributes", "train-generator", VECTORS, "train-composer", LINEAR, "train-dialog-encoder",
           "eval-captions", "eval-single-turn", QUERIES, RANKINGS, CHATIR, "make-conversations", "compare")  # fmt: skip
LIMIT = 120  # seconds of a command that is not killed
CASE = 6 * LIMIT  # seconds of a case: two whole runs and three that are killed
NOT_COMPARED = {"config.yaml", "last.ckpt"}  # they hold the option --resume, and times


class At(Room):
    """A room in which everything is written to one place."""

    def __init__(self, world: World, out: Path) -> None:
        self.world, self.out = world, out

    def path(self, name: str) -> Path:
        return self.out


def commands(world: World, out: Path) -> dict[str, tuple[str, Options]]:
    """Commands that write to `out`, by name."""
    data = {"data": world.catalog, "category": "dresses"}
    vectors = {**data, "features": world.store}
    table = {"table": world.root / "table.csv", "images": world.root / "photos", "id": "id", "title": "title"}
    asked = {**vectors, "encoder": world.runs["encoder"], "rounds": 3, "candidates": 5, "batch_size": 1}
    evaluated = {**vectors, "run": world.runs["retriever"], "user": world.runs["captioner"], "beam": 2}
    return {
        "draw-sample": ("draw-sample", {"data": out, "products": 30}),
        "import-catalog": (
            "import-catalog",
            {**table, "attributes": ["colour", "kind"], "category": "shirts", "data": out, "workers": 0},
        ),
        "extract-features": ("extract-features", {**data, **TINY_PICTURES, "batch_size": 2, "features": out}),
        "train-captioner": ("train-captioner", {**vectors, **CAPTIONER, "epochs": 3, "run": out}),
        "train-retriever": (
            "train-retriever",
            {**vectors, **RETRIEVER, "epochs": 3, "captioner": world.runs["captioner"], "run": out},
        ),
        "eval-dialogs": ("eval-dialogs", {**evaluated, "batch_size": 1, "out": out}),
        "make-dialogues": ("make-dialogues", {**asked, "out": out / "dialogs.json"}),
        "extract-attributes": ("extract-attributes", {"data": out, "category": "dresses", "replace": True}),
        "pairs by titles": (
            "caption-pairs",
            {"data": out, "category": "dresses", "titles": True, "export": out / "pairs.csv"},
        ),
        "descriptions": (
            "make-dialogues",
            {**data, "answerer": "descriptions", "out": out / "descriptions.json"},
        ),
        "caption-pairs": ("caption-pairs", {**data, "count": 20, "export": out / "pairs.csv"}),
        **{name: (name, options) for name, (options, _) in valid(At(world, out)).items() if name in FURTHER},
    }


def content(folder: Path) -> dict[str, Any]:
    """Bytes of all files of a folder; JSON files without their provenance."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in NOT_COMPARED:
            found[str(path.relative_to(folder))] = path.read_bytes()
        if path.is_file() and path.name in ("metrics.json", "model.json", "conversations.json"):
            about = json.loads(path.read_text())
            about.pop("provenance", None)
            found[str(path.relative_to(folder))] = about
    return found


def _call(command: str, options: Options, printed: Path) -> None:
    os.setsid()
    with open(printed, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os._exit(run(command, **options))


def start(command: str, options: Options, printed: Path) -> Any:
    """Start a command in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=_call, args=(command, options, printed))
    process.start()
    return process


def finish(command: str, options: Options, printed: Path) -> int:
    """Run a command in a process of its own to its end; return its exit code."""
    process = start(command, options, printed)
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        process.join(LIMIT)
    return int(process.exitcode)


def prepared(world: World, out: Path, name: str) -> None:
    """Remove what the last run has written, and copy what the command changes."""
    for path in (out, *out.parent.glob(f".{out.name}*")):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    if name in ("extract-attributes", "pairs by titles"):
        shutil.copytree(world.catalog, out, ignore=shutil.ignore_patterns("images"))


def kill_case(
    world: World, base: Path, whole: dict[str, Any], name: str, rng: Random
) -> tuple[str, str, str]:
    """Kill a command one to three times, run it again, and compare; returns outcome, problem and moments."""
    out, printed = base / "out", base / "printed"
    command, options = commands(world, out)[name]
    if name not in whole:
        prepared(world, out, name)
        began = time.monotonic()
        if finish(command, options, printed) != 0:
            return "traceback", printed.read_text()[-500:], "not killed"
        whole[name] = (time.monotonic() - began, content(out))
    seconds, expected = whole[name]
    prepared(world, out, name)
    moments = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        moments.append(f"{(after := rng.uniform(0, seconds)):.2f} s")
        process = start(command, options, printed)
        process.join(after)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
        process.join(LIMIT)
        if command.startswith("train") and (out / "last.ckpt").exists():
            options = {**options, "resume": True}
    code = finish(command, options, printed)
    text = printed.read_text()
    if (
        code == 2
        and any(word in text for word in ("already", "holds", "exists"))
        and content(out) == expected
    ):
        code = 0  # it had finished before it was killed
    if code != 0:
        kind = "traceback" if "Traceback" in text or code != 2 else "half-written"
        return kind, f"again: exit code {code}, {text[-300:]}", ", ".join(moments)
    found = content(out)
    left = [path.name for path in out.parent.glob(".*")] + [
        name for name in found if Path(name).name.startswith(".")
    ]
    if found != expected or left:
        other = [one for one in found.keys() | expected.keys() if found.get(one) != expected.get(one)]
        return (
            "half-written",
            f"different after a kill: {sorted(other)[:5]}, left: {left}",
            ", ".join(moments),
        )
    return "accepted", "", ", ".join(moments)


def _drive(world: World, base: Path, seed: int, numbers: list[int], pipe: Any) -> None:
    base.mkdir(parents=True)
    names, whole = list(commands(world, base)), {}
    for number in numbers:
        name, rng = names[number % len(names)], Random(f"{seed}/kill/{number}")
        outcome, problem, moments = kill_case(world, base, whole, name, rng)
        record = {"class": "SIGKILL", "case": number, "seed": seed, "what": f"{name} after {moments}"}
        pipe.send({**record, "outcome": outcome, "problem": problem, "seconds": 0.0})
    pipe.close()


def run_kills(world: World, base: Path, seed: int, cases: int, workers: int) -> Iterator[dict[str, Any]]:
    """Records of killed commands, in several processes."""
    context = multiprocessing.get_context("fork")
    running = []
    for worker in range(workers):
        pipe, other = context.Pipe(duplex=False)
        numbers = list(range(cases))[worker::workers]
        process = context.Process(target=_drive, args=(world, base / str(worker), seed, numbers, other))
        process.start()
        other.close()
        running.append((process, pipe, len(numbers)))
    for process, pipe, number in running:
        for _ in range(number):
            if not pipe.poll(CASE):
                process.kill()
                raise RuntimeError(f"no case of killed commands has ended within {CASE} seconds")
            yield pipe.recv()
        process.join(LIMIT)

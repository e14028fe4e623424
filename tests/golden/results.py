"""Losses, records of dialogs and queries, measures and pages in the folder of a golden workload."""

import csv
import hashlib
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TRAININGS = ("captioner", "transformer", "rnn", "dialog_encoder")
EVALUATIONS = ("dialogs", "chatir", "single_turn")
PAGES = ("dialogs", "chatir")  # eval-single-turn writes no page


def losses(folder: Path) -> dict[str, list[float]]:
    """Training loss of each epoch, by training."""
    found = {}
    for name in TRAININGS:
        with open(folder / name / "metrics.csv", newline="", encoding="utf-8") as file:
            found[name] = [float(row["train_loss"]) for row in csv.DictReader(file)]
    return found


def records(folder: Path, evaluation: str) -> list[list[Any]]:
    """Name, item shown, words and the target's rank of each turn; of a query the first five items instead."""
    if evaluation == "single_turn":
        return list(_queries(folder / evaluation))
    return [
        [f"{dialog['target']}-{number}", turn["shown"], turn["words"], turn["rank"]]
        for dialog in _lines(folder / evaluation / "dialogs.jsonl")
        for number, turn in enumerate(dialog["turns"], start=1)
    ]


def measures(folder: Path, evaluation: str) -> dict[str, Any]:
    """Leaves of metrics.json by their path, such as `turns.0.R@10`: numbers, and None for everything else."""
    flat = flattened(json.loads((folder / evaluation / "metrics.json").read_text(encoding="utf-8")))
    return {
        key: value if isinstance(value, int | float) else None
        for key, value in flat.items()
        if not key.startswith("provenance.")  # of the machine and the moment
    }


def page_hash(folder: Path, evaluation: str) -> str:
    page = (folder / evaluation / "report.html").read_text(encoding="utf-8").replace(str(folder), "")
    return hashlib.sha256(page_text(page).encode()).hexdigest()


def page_text(page: str) -> str:
    """The text of a page: without tags, styles and scripts, with single spaces."""
    text = re.sub(r"(?s)<(style|script)\b.*?</\1>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves of nested dicts and lists by their path; empty ones are leaves."""
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    found = {}
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        found.update(flattened(part, f"{path}.{name}" if path else str(name)))
    return found


def _queries(folder: Path) -> Iterator[list[Any]]:
    rankings = defaultdict(list)
    for line in (folder / "run.dresses.trec").read_text(encoding="utf-8").splitlines():
        query, _, item, *_ = line.split()
        rankings[query].append(item)
    for row in _lines(folder / "ranks.dresses.jsonl"):
        yield [row["name"], " ".join(rankings[row["name"]][:5]), " ".join(row["texts"]), row["rank"]]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

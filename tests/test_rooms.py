"""Imports go downwards only: which rooms each room may know."""

import ast
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
LOOP = {"gallery", "users", "askers", "rollout"}
MAY_KNOW = {
    "data": {"data", "files", "http", "categories"},
    "metrics": {"metrics", "data"},
    "models": {"models", "data"},
    "gallery": {"data"},
    "index": {"gallery", "files"},
    "users": {"askers", "data", "models"},
    "askers": {"gallery"},
    "rollout": LOOP | {"models"},
    "llm": {"llm", "http", "files"},
    "answerers": {"llm", "data", "files"},
    "questioners": {"answerers", "gallery", "models", "data", "files"},
    "training": LOOP | {"training", "models", "metrics", "data", "files", "config", "runs"},
    "report": {"report", "data", "files", "metrics"},
    "runs": {"data", "files", "categories"},
    "config": {"files"},
    "http": {"files"},
    "files": set(),
    "categories": {"files"},
    "compat": set(),
}


def known_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name and name.startswith("fashioniq."):
                yield name.split(".")[1]


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_rooms_below_it(room):
    files = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        assert set(known_rooms(path)) <= MAY_KNOW[room], path


def test_only_the_commands_read_catalogs_for_models():
    for path in (ROOT / "models").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "open(" not in text and "Path" not in text, f"{path} reads files"

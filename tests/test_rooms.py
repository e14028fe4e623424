"""Imports go downwards only: which rooms each room may know."""

import ast
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
MAY_KNOW = {
    "data": {"data", "files", "http", "categories"},
    "metrics": {"metrics", "data"},
    "loop": {"loop", "data", "files"},
    "models": {"models", "loop", "data", "files", "options"},
    "users": {"users", "loop", "models", "llm", "data", "files"},
    "askers": {"askers", "loop", "data", "files"},
    "llm": {"data", "files", "http"},
    "http": {"files"},
    "training": {"training", "users", "askers", "loop", "models", "metrics", "data", "files", "config", "checkpoints", "provenance"},
    "report": {"report", "data", "files", "metrics"},
    "systems": {"systems", "askers", "users", "loop", "models", "data", "files", "checkpoints", "trained"},
    "terminal": {"terminal", "loop", "report", "data", "files"},
    "trained": {"models", "data", "files", "checkpoints"},
    "checkpoints": {"data", "files", "categories"},
    "config": {"config", "files", "models", "options"},
    "options": {"files"},
    "provenance": set(),
    "evaluation": {"evaluation", "files", "metrics", "report"},
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

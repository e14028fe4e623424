"""Imports go downwards only: which rooms each room may know."""

import ast
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
LOWEST = "files categories compat provenance options http hub waiting"
MAY_KNOW = {  # room: the rooms that its files may import, besides itself and the lowest ones
    "config": "models",  # the sizes of the models, without torch
    "data": "",
    "metrics": "data config",
    "store": "data",
    "serving": "encoders data features language loop models report runs store systems trained",
    "learning": "config data evaluation features loop metrics models prepare report runs serving store systems trained "
    "training weights",
    "prepare": "data",
    "sample": "data prepare",
    "language": "data",
    "loop": "data language",
    "models": "data loop",  # of the loop, the messages
    "llm": "data",
    "generators": "data llm models runs sample weights",
    "users": "data loop models llm sample",
    "askers": "data loop",
    "runs": "features",
    "weights": "data models runs",
    "inputs": "config data features runs",
    "encoders": "data llm models",
    "features": "config data encoders models prepare runs trained weights",
    "trained": "data encoders features models runs users weights",
    "systems": "encoders config data metrics features generators loop models llm users askers runs trained sample weights",
    "training": "encoders config data features generators language loop models metrics users askers runs trained weights",
    "report": "data features metrics",
    "exports": "data loop models runs trained weights",
    "terminal": "data language loop report",
    "evaluation": "encoders config data features llm loop models metrics users askers runs trained systems report",
}


def known_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        for name in names:
            if name and name.startswith("fashioniq."):
                yield name.split(".")[1]


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_rooms_below_it(room):
    files = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        assert set(known_rooms(path)) <= {room, *LOWEST.split(), *MAY_KNOW[room].split()}, path


def test_only_the_commands_read_catalogs_for_models():
    for path in (ROOT / "models").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "open(" not in text and "Path" not in text, f"{path} reads files"

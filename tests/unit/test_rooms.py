"""Imports go downwards only: which rooms each room may know."""

import ast
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
LOWEST = "files locks yaml_files plugins categories compat provenance options http hub waiting"
MAY_KNOW = {  # room: the rooms that its files may import, besides itself and the lowest ones
    "config": "models",  # the sizes of the models, without torch
    "data": "",
    "metrics": "data",
    "language": "data",
    "prepare": "data",
    "sample": "data prepare",
    "loop": "data language",
    "models": "data loop",  # of the loop, the messages
    "llm": "data models",
    "encoders": "data llm models",
    "features": "config data encoders models prepare",
    "users": "data features llm loop models sample",
    "runs": "config data encoders features loop models users",
    "askers": "config data features llm loop models runs",
    "generators": "askers config data encoders features llm loop models runs sample",
    "systems": "askers config data encoders features generators llm loop metrics models runs users",
    "training": "askers config data encoders features generators language loop metrics models runs users",
    "report": "data metrics",
    "exports": "data loop models runs",
    "terminal": "data language loop report",
    "evaluation": "askers config data encoders features generators llm loop metrics models report runs systems users",
    "service/store": "data",
    "service": "config data encoders evaluation features generators language loop metrics models prepare report runs "
    "systems training",
    "cli": "askers config data encoders evaluation exports features generators llm loop metrics models prepare report "
    "runs sample service systems terminal training",
}


def known_rooms(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
        else:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            room = name.removeprefix("fashioniq.").split(".")[0]
            if name.startswith("fashioniq.") and room != "__version__":
                yield room


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_rooms_below_it(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    for path in files:
        known = set(known_rooms(path))
        assert known <= {room.partition("/")[0], *LOWEST.split(), *MAY_KNOW[room].split()}, path


def test_each_folder_is_a_room_and_no_two_rooms_know_each_other():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == {room for room in MAY_KNOW if "/" not in room}
    left = {room: set(below.split()) - {room} for room, below in MAY_KNOW.items()}
    while lowest := {room for room, below in left.items() if not below & set(left)}:
        left = {room: below for room, below in left.items() if room not in lowest}
    assert not left, "a circle"


def test_only_the_commands_read_catalogs_for_models():
    for path in (ROOT / "models").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "open(" not in text and "Path" not in text, f"{path} reads files"

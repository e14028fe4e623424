"""Imports go downwards only: which rooms each room may know."""

import ast
import re
from pathlib import Path

import pytest

import fashioniq

ROOT = Path(fashioniq.__file__).parent
LOWEST = (
    "files folders locks yaml_files plugins categories compat provenance options http hub waiting local_page"
)
MAY_KNOW = {  # room: the rooms that its files may import, besides itself and the lowest ones
    "config": "models",  # the sizes of the models, without torch
    "data": "",
    "language": "data",
    "metrics": "data language",
    "prepare": "data",
    "sample": "data prepare",
    "loop": "data language",
    "models": "data loop",  # of the loop, the messages
    "llm": "data models",
    "encoders": "data llm models",
    "features": "config data encoders models prepare",
    "users": "data features language llm loop models sample",
    "runs": "config data encoders features language loop models users",
    "askers": "config data features llm loop models report runs",
    "generators": "askers config data encoders features llm loop models runs sample",
    "systems": "askers config data encoders features generators llm loop metrics models report runs users",
    "training": "askers config data encoders features generators language loop metrics models runs users",
    "report": "data metrics",
    "exports": "data loop models runs",
    "terminal": "data language loop report",
    "evaluation": "askers config data features generators language llm loop metrics models report runs systems users",
    "service/store": "data",
    "service": "config data encoders evaluation features language loop metrics models prepare report runs "
    "systems training",
    "cli": "askers config data encoders evaluation exports features llm loop metrics models prepare report "
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


def known_by(room):
    """The rooms above the lowest ones that the files of a room import."""
    known = {one for path in (ROOT / room).rglob("*.py") for one in known_rooms(path)}
    return known - {room.partition("/")[0], *LOWEST.split()}


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_rooms_below_it_and_needs_all_that_it_may_know(room):
    assert known_by(room) == set(MAY_KNOW[room].split())


def test_the_picture_of_the_rooms_shows_the_imports_that_do_not_follow_from_others():
    below = {room: known_by(room) for room in MAY_KNOW if "/" not in room}

    def reached(room):
        return below[room].union(*map(reached, below[room]))

    needed = {
        (room, other)
        for room in below
        for other in below[room]
        if not any(other in reached(between) for between in below[room])
    }
    text = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    drawn = [line.split(" --> ") for line in picture.splitlines() if "-->" in line]
    arrows = [(room.strip(), other) for room, others in drawn for other in others.split(" & ")]
    assert sorted(arrows) == sorted(needed)


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

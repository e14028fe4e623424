"""The tests that can notice a mutant."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from population import Mutant, mutated_files

Reached = dict[str, dict[str, Any]]  # what Measured found, by test file
EVERY = range(1 << 30)  # all lines of a file


class Statement(NamedTuple):
    """Lines in which a change of a statement can be noticed, and the names of a constant that the import sets."""

    lines: range
    names: tuple[str, ...] = ()


def covering(mutant: Mutant, root: Path, reached: Reached) -> dict[str, float]:
    """The tests that reach the statement of a mutant, with their seconds.

    Of a constant, they are those that reach a statement with its name, and those of files that name it.
    """
    lines, names = statement((root / mutant.path).read_text(encoding="utf-8"), mutant.line)
    lines_of = {mutant.path: set(lines) if lines != EVERY else None}
    if names:
        lines_of = {mutant.path: set(), **_uses(root, names)}
        if any(used is None for used in lines_of.values()):
            lines_of = {mutant.path: None}
    found = {}
    for file, known in reached.items():
        numbers = {
            number
            for path, used in lines_of.items()
            for line, several in known["lines"].get(path, {}).items()
            if used is None or int(line) in used
            for number in several
        }
        every = -1 in numbers  # reached by a fixture
        if names and re.search(rf"\b({'|'.join(names)})\b", (root / file).read_text(encoding="utf-8")):
            every = True
        found |= {
            name: seconds
            for number, (name, seconds) in enumerate(known["seconds"].items())
            if every or number in numbers
        }
    return found


def statement(source: str, line: int) -> Statement:
    """The innermost statement at a line. Of a function's head, the lines of the function count; of other statements
    that the import runs, all lines of the file, or the names that they set.
    """
    found = Statement(EVERY)
    parents: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while parents:
        parent, in_function = parents.pop()
        for node in ast.iter_child_nodes(parent):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            parents.append((node, in_function or is_function))
            if not isinstance(node, ast.stmt):
                continue
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            last, body = node.end_lineno or first, getattr(node, "body", None)
            if isinstance(body, list) and body[0].lineno > first:
                last = body[0].lineno - 1  # of a compound statement only the head
            if not first <= line <= last:
                continue
            if is_function:
                found = Statement(range(first, (node.end_lineno or first) + 1))
            elif in_function:
                found = Statement(range(first, last + 1))
            elif isinstance(parent, ast.Module) and isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [
                    one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
                ]
                found = Statement(EVERY, tuple(names))
    return found


def _uses(root: Path, names: tuple[str, ...]) -> dict[str, set[int] | None]:
    """Lines of the rooms with these names, by file; None where the import uses one, or another room does."""
    found: dict[str, set[int] | None] = {}
    mutated = mutated_files(root)
    for path in sorted((root / "fashioniq").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        uses = [line for name in names for line in _lines_of(source).get(name, ())]
        if not uses:
            continue
        statements = [statement(source, line) for line in uses]
        name = path.relative_to(root).as_posix()
        known = name in mutated and all(one.lines != EVERY for one in statements)
        found[name] = {n for one in statements for n in one.lines} if known else None
    return found


@cache
def _lines_of(source: str) -> dict[str, list[int]]:
    """Lines where names are read."""
    found: dict[str, list[int]] = {}
    for node in ast.walk(ast.parse(source)):
        name = (
            node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        )
        if name and isinstance(node.ctx, ast.Load):
            found.setdefault(name, []).append(node.lineno)
    return found

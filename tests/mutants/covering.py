"""The tests that can notice a mutant."""

import ast
from typing import Any

from population import Mutant

Reached = dict[str, dict[str, Any]]  # what Measured found, by test file


def covering(mutant: Mutant, source: str, reached: Reached) -> dict[str, float]:
    """The tests that reach the line of a mutant with their seconds; of a line that is run by the import, all
    tests that reach the file.
    """
    lines, on_import = statement(source, mutant.line)
    found = {}
    for known in reached.values():
        of_file = known["lines"].get(mutant.path, {})
        numbers = {
            number
            for line, numbers in of_file.items()
            if on_import or int(line) in lines
            for number in numbers
        }
        every = -1 in numbers  # reached by a fixture
        found |= {
            name: seconds
            for number, (name, seconds) in enumerate(known["seconds"].items())
            if every or number in numbers
        }
    return found


def statement(source: str, line: int) -> tuple[range, bool]:
    """Lines of the innermost statement at a line, of which only the head counts, and whether the import runs it."""
    lines, on_import, parents = range(line, line + 1), True, [(ast.parse(source), True)]
    while parents:
        parent, is_outside = parents.pop()
        for node in ast.iter_child_nodes(parent):
            body = getattr(node, "body", None)
            inside = is_outside and not isinstance(node, ast.FunctionDef | ast.Lambda)
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(one.lineno for one in decorators)]) if hasattr(node, "lineno") else 0
            if isinstance(node, ast.stmt) and first <= line <= (node.end_lineno or 0):
                last = (
                    body[0].lineno - 1
                    if isinstance(body, list) and body[0].lineno > first
                    else node.end_lineno
                )
                if line <= last:
                    lines, on_import = range(first, last + 1), is_outside
            parents.append((node, inside))
    return lines, on_import

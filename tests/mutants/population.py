"""The mutants: small changes of the source by the operators of cosmic-ray, one at a time."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOMS = ("loop", "metrics", "training", "systems")
# of the eleven replacements that cosmic-ray has for each operator, those that are the hardest to see; most others
# end in an exception, which any test catches
OPERATORS = (
    *(
        f"ReplaceBinaryOperator_{change}"
        for change in (
            "Add_Sub",
            "Sub_Add",
            "Mul_Div",
            "Div_Mul",
            "FloorDiv_Div",
            "Mod_Mul",
            "Pow_Mul",
            "BitOr_BitAnd",
            "BitAnd_BitOr",
        )
    ),
    *(
        f"ReplaceComparisonOperator_{change}"
        for change in (
            "Eq_NotEq",
            "NotEq_Eq",
            "Lt_LtE",
            "Lt_GtE",
            "LtE_Lt",
            "LtE_Gt",
            "Gt_GtE",
            "Gt_LtE",
            "GtE_Gt",
            "GtE_Lt",
            "Is_IsNot",
            "IsNot_Is",
        )
    ),
    *(f"ReplaceUnaryOperator_{change}" for change in ("USub_UAdd", "Delete_Invert", "Delete_Not")),
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
)


class Mutant(NamedTuple):
    """A change: the `occurrence`-th place of a file where an operator applies, and the line of that place."""

    path: str
    line: int
    operator: str
    occurrence: int


def population(root: Path, rooms: Sequence[str] = ROOMS) -> list[Mutant]:
    """All mutants of the rooms of a checkout, in a fixed order."""
    operators = {name: OperatorProvider()[name]() for name in OPERATORS}
    found = []
    for path in (path for room in rooms for path in sorted((root / "fashioniq" / room).glob("*.py"))):
        nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))
        for name, operator in operators.items():
            places = (start for node in nodes for start, _ in operator.mutation_positions(node))
            found += [
                Mutant(path.relative_to(root).as_posix(), line, name, number)
                for number, (line, _) in enumerate(places)
            ]
    return found


def sample(root: Path, count: int, seed: int) -> list[tuple[Mutant, str]]:
    """`count` mutants at random with their sources; a smaller sample is the beginning of a larger one."""
    mutants = population(root)
    Random(seed).shuffle(mutants)
    chosen: list[tuple[Mutant, str]] = []
    for mutant in mutants:
        if len(chosen) == count:
            break
        if source := mutated((root / mutant.path).read_text(encoding="utf-8"), mutant):
            chosen.append((mutant, source))
    return chosen


def mutated(source: str, mutant: Mutant) -> str | None:
    """The source with the change; None if it changes a signature or a type only, or makes a syntax error."""
    made = mutate_code(source, OperatorProvider()[mutant.operator](), mutant.occurrence)
    try:
        return made if made and _without_types(made) != _without_types(source) else None
    except SyntaxError:
        return None


def _without_types(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arguments):  # whether they are given by name, which mypy checks
            node.args, node.posonlyargs, node.kwonlyargs = (
                node.posonlyargs + node.args + node.kwonlyargs,
                [],
                [],
            )
            node.defaults, node.kw_defaults = node.defaults + [one for one in node.kw_defaults if one], []
    return ast.dump(tree)


def changed_lines(before: str, after: str) -> Iterator[str]:
    """The lines of a change, with - and +."""
    first, second = before.splitlines(), after.splitlines()
    same = 0
    while same < min(len(first), len(second)) and first[same] == second[same]:
        same += 1
    end = 0
    while end < min(len(first), len(second)) - same and first[-1 - end] == second[-1 - end]:
        end += 1
    yield from (f"- {line.strip()}" for line in first[same : len(first) - end])
    yield from (f"+ {line.strip()}" for line in second[same : len(second) - end])

"""The mutants: small changes of the source by the operators of cosmic-ray, one at a time."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOMS = ("loop", "metrics", "training", "systems")
PARTS = (  # of systems, in the rooms of what they make; they count as systems
    "askers/by_name.py",
    "generators/described_products.py",
    "generators/illustrated.py",
    "llm/rewriting.py",
    "runs/evaluation_inputs.py",
    "runs/galleries.py",
    "runs/search_space.py",
    "runs/training_data.py",
    "runs/wording.py",
    "runs/zero_shot.py",
    "users/by_name.py",
)
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
SPEED = ("torch.no_grad", "torch.inference_mode", "lru_cache", "cache")  # decorators
CHECKED = {"frozen", "kw_only", "overwrite_a", "check_finite", "flush", "use_reentrant"}  # arguments


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
    for path in mutated_files(root, rooms):
        nodes = list(ast_nodes(get_ast((root / path).read_text(encoding="utf-8"))))
        for name, operator in operators.items():
            places = (start for node in nodes for start, _ in operator.mutation_positions(node))
            found += [Mutant(path, line, name, number) for number, (line, _) in enumerate(places)]
    return found


def mutated_files(root: Path, rooms: Sequence[str] = ROOMS) -> list[str]:
    """Files of the rooms of a checkout, and PARTS of systems, in a fixed order."""
    paths = [path for room in rooms for path in sorted((root / "fashioniq" / room).glob("*.py"))]
    if "systems" in rooms:
        paths += [path for name in PARTS if (path := root / "fashioniq" / name).is_file()]
    return [path.relative_to(root).as_posix() for path in paths]


def room_of(path: str) -> str:
    """The room that a file counts for."""
    return "systems" if path.removeprefix("fashioniq/") in PARTS else path.split("/")[1]


def sample(root: Path, count: int, seed: int) -> list[tuple[Mutant, str]]:
    """`count` mutants at random with their sources.

    A smaller sample is the beginning of a larger one, and a change of the package changes only the mutants of its lines.
    """
    chosen: list[tuple[Mutant, str]] = []
    for mutant in _shuffled(root, seed):
        if len(chosen) == count:
            break
        if source := mutated((root / mutant.path).read_text(encoding="utf-8"), mutant):
            chosen.append((mutant, source))
    return chosen


def _shuffled(root: Path, seed: int) -> list[Mutant]:
    """All mutants in the order of the hashes of their lines, operators and places in the line."""
    lines = {path: (root / path).read_text(encoding="utf-8").splitlines() for path in mutated_files(root)}
    equal: Counter[tuple[str, str, str]] = Counter()
    order = {}
    for mutant in population(root):
        place = (mutant.path, mutant.operator, lines[mutant.path][mutant.line - 1].strip())
        order[mutant] = hashlib.sha256(repr((seed, place, equal[place])).encode()).digest()
        equal[place] += 1
    return sorted(order, key=order.__getitem__)


def mutated(source: str, mutant: Mutant) -> str | None:
    """The source with the change; None if the change cannot be noticed (see `_noticeable`) or makes a syntax error."""
    try:
        made = mutate_code(source, OperatorProvider()[mutant.operator](), mutant.occurrence)
        return made if made and _noticeable(made) != _noticeable(source) else None
    except (SyntaxError, AttributeError):  # cosmic-ray cannot replace `csv.Error` in a tuple of exceptions
        return None


@cache
def _noticeable(source: str) -> str:
    """What a test can notice of a source: all but types, ways to call and to save time, and limits.

    Left out are what mypy checks (annotations, whether arguments are given by name, frozen classes, lengths of
    zip), methods of protocols, which are not run, what changes time and memory only (see SPEED, and powers of two in constants), and whether a limit is
    larger or smaller by one: a number of at least 16 as the value of a constant or as a default.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test = ast.Constant(None)
        elif isinstance(node, ast.Call):
            checked = CHECKED | {"strict"} if ast.unparse(node.func) == "zip" else CHECKED
            node.keywords = [one for one in node.keywords if one.arg not in checked]
        elif isinstance(node, ast.arguments):
            node.args, node.posonlyargs, node.kwonlyargs = (
                node.posonlyargs + node.args + node.kwonlyargs,
                [],
                [],
            )
            defaults = node.defaults + [one for one in node.kw_defaults if one]
            node.defaults, node.kw_defaults = [_without_limits(one) for one in defaults], []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            if all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in node.body):
                node.decorator_list, node.args = (
                    [],
                    ast.arguments([], [], defaults=[], kwonlyargs=[], kw_defaults=[]),
                )
            node.decorator_list = [
                one for one in node.decorator_list if ast.unparse(one).partition("(")[0] not in SPEED
            ]
    for node in tree.body:
        if isinstance(node, ast.Assign):
            several = isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
            if several:
                node.value.elts = [_without_limits(one) for one in node.value.elts]
            node.value = _without_limits(node.value)
    return ast.dump(tree)


def _without_limits(value: ast.expr) -> ast.expr:
    """A value in which numbers from 16 on, and powers of two, are all the same."""
    if isinstance(value, ast.BinOp):
        plain = isinstance(value.left, ast.Constant) and isinstance(value.right, ast.Constant)
        # 2**30 is changed to 2*30, 1**30, 3**30 and 2**29
        if plain and value.left.value in (1, 2, 3) and isinstance(value.op, ast.Pow | ast.Mult):
            return ast.Constant("power")
        value.left, value.right = _without_limits(value.left), _without_limits(value.right)
    elif isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= 15:
        return ast.Constant("limit")  # 15 is 16 less one
    return value


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

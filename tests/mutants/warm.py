"""Mutants that are tried without importing anything again: their function or constant is exchanged in a process that has
collected all tests, in a fork of it.

What session fixtures made there is used again, so that a mutant that they alone would notice seems to survive; so does
one of a default, a decorator or the body of a class. Such mutants are left to `Trials.judge`, which writes the mutant to
its file.
"""

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from forks import forked
from population import Mutant

OPTIMIZED = inspect.CO_OPTIMIZED  # flag of functions, which modules and bodies of classes lack


class Warm:
    """Plugin that, instead of running the tests that were collected, calls `noticed` with each mutant and the first of
    its tests that fails with it and passes without, or "limit".

    `mutants` are given with their sources and their tests. Before, the tests of `first` are run for their fixtures.
    """

    def __init__(
        self,
        root: Path,
        mutants: Sequence[tuple[Mutant, str, Mapping[str, float]]],
        noticed: Callable[[Mutant, str, str], None],
        first: Sequence[str] = (),
    ) -> None:
        self.root, self.mutants, self.noticed, self.first = root, mutants, noticed, first
        self.failed = ""
        self.broken: set[str] = set()  # tests that fail without a mutant

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from tests import leftovers

        leftovers.PATIENCE = 0
        items = {item.nodeid: item for item in session.items}
        for name in self.first:  # session fixtures stay, as the next test is of another folder
            outside = next(item for item in session.items if item.path.parent.name == "unit")
            outside.config.hook.pytest_runtest_protocol(item=items[name], nextitem=outside)
        for mutant, source, tests in self.mutants:
            path = self.root / mutant.path
            change = exchanged(path, source) or constants(path, source)
            chosen = [items[name] for name in _ordered(tests) if name in items]
            if change is None or not chosen:
                continue
            failed, why = self._failed(items, chosen, change, 20 + 5 * sum(tests.values()))
            if failed or why == "limit":
                self.noticed(mutant, source, failed or why)
        return True

    def _failed(
        self,
        items: Mapping[str, pytest.Item],
        chosen: Sequence[pytest.Item],
        change: Callable[[], None],
        limit: float,
    ) -> tuple[str, str]:
        """The first of these tests that fails with a change and passes without, or why there is none."""
        place = self.root.parent / "changed"
        while True:
            left = [item for item in chosen if item.nodeid not in self.broken]
            failed, why = forked(functools.partial(self._run, left, change), place, limit)
            if failed not in items:
                return failed or "", why
            again, _ = forked(functools.partial(self._run, [items[failed]], None), place, limit)
            if again == "":
                return failed, ""
            self.broken.add(failed)

    def _run(self, chosen: Sequence[pytest.Item], change: Callable[[], None] | None) -> str:
        """The first of these tests that fails after a change."""
        if change is not None:
            change()
        self.failed = ""
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        return self.failed


def _ordered(tests: Mapping[str, float]) -> list[str]:
    """Names of tests, those of the fastest file first."""
    of_file: dict[str, float] = {}
    for name, seconds in tests.items():
        file = name.partition("::")[0]
        of_file[file] = of_file.get(file, 0) + seconds
    return sorted(tests, key=lambda name: (of_file[file := name.partition("::")[0]], file, tests[name]))


def exchanged(path: Path, source: str) -> Callable[[], None] | None:
    """Function that exchanges what another source of a module changes in one of its functions; None for other changes."""
    before, after = (
        compile(text, str(path), "exec", dont_inherit=True)
        for text in (path.read_text(encoding="utf-8"), source)
    )
    changes = list(_changes(before, after))
    if len(changes) != 1 or changes[0] is None:
        return None
    old, new = changes[0]
    function = _function(importlib.import_module(_module(path)), old.co_qualname)
    if function is None or _key(function.__code__) != _key(old) or new.co_freevars != old.co_freevars:
        return None
    return functools.partial(setattr, function, "__code__", new)


def constants(path: Path, source: str) -> Callable[[], None] | None:
    """Function that sets what another source of a module assigns to a constant, and to those made of it, also where they
    were imported; None for other changes.
    """
    before, after = (ast.parse(text).body for text in (path.read_text(encoding="utf-8"), source))
    changes = [new for old, new in zip(before, after, strict=False) if ast.dump(old) != ast.dump(new)]
    if len(before) != len(after) or len(changes) != 1 or not isinstance(changes[0], ast.Assign):
        return None
    names, statements = _set_by(changes[0]), list(changes)
    for later in after[after.index(changes[0]) + 1 :]:
        if isinstance(later, ast.Assign) and names & {
            one.id for one in ast.walk(later.value) if isinstance(one, ast.Name)
        }:
            statements.append(later)
            names |= _set_by(later)

    def change() -> None:
        values = vars(importlib.import_module(_module(path)))
        old = {name: values[name] for name in names}
        exec(compile(ast.Module(statements, []), str(path), "exec", dont_inherit=True), values)
        for module in list(sys.modules.values()):
            for name, value in old.items():
                if getattr(module, "__dict__", {}).get(name) is value:
                    setattr(module, name, values[name])

    return change


def _set_by(statement: ast.Assign) -> set[str]:
    """Names that a statement sets."""
    return {one.id for target in statement.targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _module(path: Path) -> str:
    """Name of the module in a file of the package."""
    parts = path.with_suffix("").parts
    return ".".join(parts[len(parts) - parts[::-1].index("fashioniq") - 1 :]).removesuffix(".__init__")


def _changes(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType] | None]:
    """The functions that differ between two modules or bodies of classes; None for what differs outside of them."""
    inner = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (before, after)]
    if _key(before, nested=False) != _key(after, nested=False) or len(inner[0]) != len(inner[1]):
        yield None
        return
    for old, new in zip(*inner, strict=True):
        if _key(old) == _key(new):
            continue
        if old.co_flags & OPTIMIZED and new.co_flags & OPTIMIZED:
            yield old, new
        else:
            yield from _changes(old, new)


def _key(code: CodeType, nested: bool = True) -> tuple[Any, ...]:
    """What a code does, without its lines."""
    constants = [
        (_key(one) if nested else None) if isinstance(one, CodeType) else (type(one), repr(one))
        for one in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, tuple(constants), names, code.co_exceptiontable


def _function(module: Any, qualname: str) -> FunctionType | None:
    """The function with this name in a module, without its decorators."""
    found: Any = module
    for name in qualname.split("."):
        try:
            found = inspect.getattr_static(found, name)
        except AttributeError:
            return None
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        inner = (getattr(found, name, None) for name in ("__wrapped__", "__func__", "fget", "func"))
        found = next((one for one in inner if one is not None), None)
        if found is None:
            return None
    return found

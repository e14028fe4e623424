"""A call passes at most five positional arguments."""

import ast
from pathlib import Path

import pytest

import fashioniq

FILES = sorted(Path(fashioniq.__file__).parent.rglob("*.py"))
MAX_POSITIONAL = 5
TABLES = {"Measure"}  # one call per line of a table
# take any number of values of one kind
VARIADIC = {"zip", "add_row", "_model", "print", "Table", "create_table", "refuse"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_call_has_at_most_five_positional_arguments(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and sum(not isinstance(one, ast.Starred) for one in node.args) > MAX_POSITIONAL
        ):
            name = ast.unparse(node.func).rpartition(".")[2]
            assert name in VARIADIC | TABLES, f"{path}:{node.lineno}: {name} has {len(node.args)}"

"""The benchmarks have tests of their own, which `make test` leaves out (`make bench-test`): here what they
import is looked up, and those of speed run once at small sizes.
"""

import ast
import importlib
from pathlib import Path

import pytest
import torch

import fashioniq

BENCHMARKS = Path(fashioniq.__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_the_package_is_there(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fashioniq":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize("name", ["greedy-causal", "retriever", "captioner", "features", "ranks"])
def test_a_stage_of_speed_gives_the_same_as_the_plain_way(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    stages = importlib.import_module("stages")
    torch.manual_seed(0)
    stages.STAGES[name](stages.Setting(stages.counts.SMALL)).check()  # raises Different

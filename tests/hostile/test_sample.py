"""A fixed sample of the hostile suite: the first cases of each class, by the same generators (`make hostile`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from classes import CLASSES
from judge import BAD, LIMIT, Printed
from kills import commands, kill_case
from processes import Nursery
from run import Random, run_case
from world import make_world

SEED = 0


@pytest.fixture(scope="module")
def world(sample, vector_runs, attribute_runs, tmp_path_factory):
    """The world of the suite, from the tiny runs of all tests."""
    predictor, dresses = attribute_runs
    made = {"catalog": sample, "store": vector_runs.store, "predictor": predictor, "dresses": dresses}
    made |= {"captioner": vector_runs.captioner, "transformer": vector_runs.retriever}
    made |= {name: vector_runs.store.parent / name for name in ("vectors.npy", "ids.json")}
    yield make_world(tmp_path_factory.mktemp("hostile") / "world", made)
    Nursery.end_here()


@pytest.fixture
def offline(monkeypatch):
    """No network, no pauses between attempts, and no Java, which takes 15 s to start."""
    monkeypatch.setattr("fashioniq.http.PAUSE", 0.0)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("PATH", os.devnull)


@pytest.mark.parametrize("name", CLASSES)
def test_hostile_input_is_refused_in_one_line_or_harmless(world, offline, tmp_path, name):
    printed = Printed(tmp_path)
    for number in range(CLASSES[name].sampled):
        found = run_case(world, tmp_path, printed, SEED, (name, number))
        assert found["outcome"] not in BAD, "\n".join(f"{key}: {value}" for key, value in found.items())


@pytest.mark.parametrize("name", ["make-dialogues", "extract-features", "extract-attributes"])
def test_a_killed_command_that_is_run_again_ends_as_one_that_was_not(world, tmp_path, name):
    assert name in commands(world, tmp_path)
    outcome, problem, moments = kill_case(world, tmp_path, {}, name, Random(SEED))
    assert outcome == "accepted", (problem, moments)


def test_the_suite_runs_as_a_program(tmp_path):
    program = Path(__file__).resolve().parent / "run.py"
    shown = subprocess.run(
        [sys.executable, program, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert (shown.returncode, shown.stderr) == (0, "") and "--seed" in shown.stdout

"""The numbers of four tiny trainings and three evaluations are those of `expected/`.

Trainings and searches are in float32, whose last bits depend on the CPU type and on the version of PyTorch.
Losses may therefore differ by 1e-4 of their value. A difference in the last bit can also swap two products
at nearly equal distances, or two words of nearly equal probability: 2 % of the records of an evaluation may
differ. Measures and pages are computed from the records, and compared only where all records are the same.

After an intended change of numbers run `python tests/golden/update.py`, after one of the pages' text
`python tests/golden/update.py --pages`, and look at what changed in `expected/`. On one machine
`compare_commits.py` compares two commits bit for bit.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import workload
from update import EXPECTED, ROOT

import results

LOSS_TOLERANCE = 1e-4
MAY_DIFFER = 0.02  # share of the records of an evaluation


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of the workload. Not to be written to."""
    folder = tmp_path_factory.mktemp("golden")
    # a process that has started CUDA cannot be forked
    run = workload.run_workload if torch.cuda.is_available() else workload.run_workload_forked
    run(ROOT, folder)
    return folder


def expected(name):
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def expected_records(evaluation):
    lines = (EXPECTED / f"{evaluation}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def skip_unless_same_records(folder, evaluation):
    if results.records(folder, evaluation) != expected_records(evaluation):
        pytest.skip(f"the records of {evaluation} differ on this machine, and what is computed from them")


@pytest.mark.parametrize("training", results.TRAININGS)
def test_losses_are_the_golden_ones(folder, training):
    wanted = pytest.approx(expected("losses")[training], rel=LOSS_TOLERANCE, abs=0)
    assert results.losses(folder)[training] == wanted


@pytest.mark.parametrize("evaluation", results.EVALUATIONS)
def test_ranks_items_and_words_are_the_golden_ones(folder, evaluation):
    found, wanted = results.records(folder, evaluation), expected_records(evaluation)
    assert [name for name, *_ in found] == [name for name, *_ in wanted]
    different = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
    assert len(different) <= MAY_DIFFER * len(wanted), f"{len(different)} differ, first {different[0]}"


@pytest.mark.parametrize("evaluation", results.EVALUATIONS)
def test_metrics_have_the_golden_keys(folder, evaluation):
    assert set(expected("measures")[evaluation]) <= set(results.measures(folder, evaluation))


@pytest.mark.parametrize("evaluation", results.EVALUATIONS)
def test_measures_are_the_golden_ones(folder, evaluation):
    skip_unless_same_records(folder, evaluation)
    found = results.measures(folder, evaluation)
    wanted = {key: value for key, value in expected("measures")[evaluation].items() if value is not None}
    assert {key: found.get(key) for key in wanted} == pytest.approx(wanted, rel=1e-6, abs=0)


@pytest.mark.parametrize("evaluation", results.PAGES)
def test_pages_have_the_golden_text(folder, evaluation):
    skip_unless_same_records(folder, evaluation)
    update = "if the changed text is intended: python tests/golden/update.py --pages"
    assert results.page_hash(folder, evaluation) == expected("pages")[evaluation], update

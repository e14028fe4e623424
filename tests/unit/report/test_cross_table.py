import csv

import pytest
import torch

from fashioniq.data.evaluations import TurnMetrics
from fashioniq.metrics.ranking import average, turn_table
from fashioniq.report.cross_table import cross_csv, cross_latex, cross_row, cross_text

GOLDEN = """\
measure  attributes  user         retriever         turn 1         turn 2           mean

P        with        rnn          rnn                74.75          99.75          87.25
P        without     transformer  rnn        87.25 ± 17.68   99.88 ± 0.18   93.56 ± 8.93

R@10     with        rnn          rnn                50.00         100.00          75.00
R@10     without     transformer  rnn        75.00 ± 35.36  100.00 ± 0.00  87.50 ± 17.68

R@50     with        rnn          rnn                50.00         100.00          75.00
R@50     without     transformer  rnn        75.00 ± 35.36  100.00 ± 0.00  87.50 ± 17.68
"""


def metrics_of(*rank_BT):
    table = turn_table(torch.tensor(rank_BT), gallery=200)
    return TurnMetrics(protocol="", gallery=200, dialogs=2, turns=table, average=average(table))


@pytest.fixture
def rows():
    far, near = (
        metrics_of([100, 0], [1, 1]),
        metrics_of([0, 0], [1, 0]),
    )  # near is perfect but for one second place
    return [cross_row("with", "rnn", "rnn", [far]), cross_row("without", "transformer", "rnn", [far, near])]


def test_the_table_of_known_ranks_is_the_golden_one(rows):
    assert cross_text(rows) == GOLDEN


def test_the_table_for_papers_has_the_same_cells(rows):
    table = cross_latex(rows)
    assert table.splitlines()[0] == r"\begin{tabular}{llllrrr}"
    assert r"P & without & transformer & rnn & 87.25 $\pm$ 17.68" in table and table.count(r" \\") == 7


def test_the_table_for_spreadsheets_has_every_measure_unrounded(rows):
    lines = list(csv.DictReader(cross_csv(rows).splitlines()))
    assert len(lines) == 2 * 3 * len(rows[0]["average"])
    (line,) = [
        line
        for line in lines
        if (line["measure"], line["user"], line["turn"]) == ("MRR", "transformer", "mean")
    ]
    means = [(1 / 101 + 1 / 2) / 4 + (1 + 1 / 2) / 4, (1 + 1 / 2) / 4 + 1 / 2]
    assert float(line["mean"]) == pytest.approx(sum(means) / 2) and line["seeds"] == "2"
    assert float(line["deviation"]) == pytest.approx(abs(means[0] - means[1]) / 2**0.5)
    assert {line["deviation"] for line in lines if line["user"] == "rnn"} == {""}

import csv

import numpy as np
import pytest

from fashioniq.report.tables import turns_csv, turns_latex, turns_text

GOLDEN = """\
measure  model               turn 1         turn 2           mean

P        rnn                  74.75          99.75          87.25
P        transformer   87.25 ± 1.06   99.88 ± 0.18   93.56 ± 0.44

MRR      rnn                  0.500          1.000          0.750
MRR      transformer  0.750 ± 0.354  1.000 ± 0.000  0.875 ± 0.177
"""


@pytest.fixture
def models():
    return {
        "rnn": {"P": np.array([[74.75, 99.75]]), "MRR": np.array([[0.5, 1.0]])},
        "transformer": {
            "P": np.array([[86.5, 100.0], [88.0, 99.75]]),
            "MRR": np.array([[0.5, 1.0], [1.0, 1.0]]),
        },
    }


def test_the_table_of_known_figures_is_the_golden_one(models):
    assert turns_text(models) == GOLDEN


def test_the_table_for_papers_has_the_same_cells(models):
    table = turns_latex(models)
    assert table.splitlines()[0] == r"\begin{tabular}{llrrr}"
    assert r"P & transformer & 87.25 $\pm$ 1.06" in table and table.count(r" \\") == 5


def test_the_table_for_spreadsheets_is_not_rounded(models):
    lines = list(csv.DictReader(turns_csv(models).splitlines()))
    assert len(lines) == 2 * 2 * 3 and {line["seeds"] for line in lines if line["model"] == "rnn"} == {"1"}
    (line,) = [
        one for one in lines if (one["measure"], one["model"], one["turn"]) == ("P", "transformer", "mean")
    ]
    assert float(line["mean"]) == (93.25 + 93.875) / 2
    assert float(line["deviation"]) == pytest.approx((93.875 - 93.25) / 2**0.5)
    assert {line["deviation"] for line in lines if line["model"] == "rnn"} == {""}

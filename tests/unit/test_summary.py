"""A summary.json of results/ holds what the run files beside it say."""

import json
import sys
from collections import defaultdict
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from studies import read_study

RESULTS = Path(__file__).parents[2] / "results"
GENERATION = RESULTS / "generation"


def test_the_summary_of_learning_has_the_measures_of_the_last_turn_of_every_run():
    folder = RESULTS / "learning"
    expected = defaultdict(lambda: defaultdict(lambda: {"P": [], "R@10": []}))
    for path in sorted(folder.glob("*.*-[0-9].json")):
        user, when = path.stem[:-2].split(".")
        for name, values in expected[user][when].items():
            values.append(json.loads(path.read_text())["turns"][-1][name])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["users"] == expected and all(gate["passed"] for gate in summary["gates"])


def test_the_summary_of_generated_pictures_has_the_measures_of_every_row():
    summary = json.loads((GENERATION / "summary.json").read_text())
    given = {stem: measures for rows in summary.values() for stem, measures in rows.items()}
    content = yaml.safe_load((GENERATION / "study.yaml").read_text())
    tables = zip(read_study(GENERATION / "study.yaml").tables, content["tables"], strict=True)
    rows = {
        files[0].rsplit("-", 1)[0]: row
        for table, raw in tables
        for row, files in zip(table.rows, raw["rows"].values(), strict=True)
    }
    assert given.keys() == rows.keys()
    for stem, measures in given.items():
        assert measures
        for name, values in measures.items():
            assert values == list(rows[stem].seeds(name).values), (stem, name)

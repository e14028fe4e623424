"""A system of one's own is one file and one YAML: no file of the package changes."""

import json
from pathlib import Path

import pytest

from fashioniq.cli import main

FOLDER = Path(__file__).parent / "own_system"
TITLES = {
    "a": "dress red long sleeves",
    "b": "dress blue long sleeves",
    "c": "navy skirt pleated",
    "d": "navy coat wool hood",
    "e": "green silk dress belt",
}


@pytest.fixture
def results(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    (tmp_path / "titles.json").write_text(json.dumps(TITLES))
    config = ["--config", str(FOLDER / "echo.yaml"), "--titles", str(tmp_path / "titles.json")]
    assert main(["eval-dialogs", *config, "--out", str(tmp_path / "results")]) == 0
    return tmp_path / "results", capsys.readouterr().out


def test_it_is_evaluated_as_every_other_system(results):
    folder, printed = results
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["dialogs"] == metrics["gallery"] == len(TITLES) and len(metrics["turns"]) == 2
    assert (
        metrics["turns"][0]["R@1"] == 80 and metrics["turns"][1]["R@1"] == 100
    )  # the first halves of a and b are equal
    dialogs = [json.loads(line) for line in (folder / "dialogs.jsonl").read_text().splitlines()]
    assert [dialog["target"] for dialog in dialogs] == list(TITLES)
    assert dialogs[0]["turns"][0]["offer"] == {} and dialogs[0]["turns"][0]["reply"] == {"text": "dress long"}
    assert dialogs[0]["turns"][1]["offer"] == {"text": "dress long"}  # the echo
    assert len((folder / "run.trec").read_text().splitlines()) == len(TITLES) * 2 * len(TITLES)
    assert "dress long" in (folder / "report.html").read_text()
    assert "5 dialogs, gallery 5" in printed


@pytest.mark.parametrize("name", ["nowhere", "./my_system.py", "json.tool"])
def test_a_module_that_is_no_system_is_refused_in_one_line(name, capsys):
    code = main(["eval-dialogs", "--system", name])
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1
    assert error.startswith(f"error: there is no --system {name}")
    assert (
        "available: fashion-iq, chatir, plugir-asks, genir, dar, fashion-iq-dar, or" in error
        and "my_system.py" in error
    )
    assert ("has no attribute 'Options'" in error) == (name == "json.tool")

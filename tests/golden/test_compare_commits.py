"""`compare_commits.py` on small folders of results."""

import json
import sys
from pathlib import Path
from shutil import copytree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare_commits import compare_folders


@pytest.fixture
def base(tmp_path):
    """Results of one training and one evaluation that names its folder."""
    folder = tmp_path / "base"
    (folder / "run").mkdir(parents=True)
    (folder / "run/metrics.csv").write_text("epoch,train_loss\n0,1.5\n")
    (folder / "run/weights.safetensors").write_bytes(b"\xff\x00")
    (folder / "run/model.json").write_text(json.dumps({"sizes": {"width": 8}}))
    (folder / "run/config.yaml").write_text("width: 8\n")
    (folder / "run/report.html").write_text("<p>Found: <b>1</b></p>")
    metrics = {"store": str(folder / "store"), "captions": "of people", "turns": [{"R@1": 50.0}]}
    (folder / "run/metrics.json").write_text(json.dumps(metrics))
    return folder


@pytest.fixture
def head(base, tmp_path):
    """The same results in another folder."""
    folder = copytree(base, tmp_path / "head")
    path = folder / "run/metrics.json"
    path.write_text(path.read_text().replace(str(base), str(folder)))
    return folder


def replace(path, old, new):
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


def test_the_same_results_in_another_folder_are_identical(base, head):
    assert compare_folders(base, head, pages=True)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("metrics.csv", b"1.5", b"1.6"),
        ("weights.safetensors", b"\x00", b"\x01"),
        ("metrics.json", b"50.0", b"51.0"),
        ("metrics.json", b"R@1", b"R@2"),
    ],
)
def test_another_number_is_a_failure(name, old, new, base, head, capsys):
    replace(head / "run" / name, old, new)
    assert not compare_folders(base, head, pages=False)
    assert f"DIFFERENT  run/{name}" in capsys.readouterr().out


def test_a_missing_file_is_a_failure_and_an_added_one_is_not(base, head):
    (head / "run/new.csv").write_text("")
    assert compare_folders(base, head, pages=True)
    assert not compare_folders(head, base, pages=False)


@pytest.mark.parametrize(
    ("name", "old", "new"), [("report.html", b"Found", b"Seen"), ("metrics.json", b"of people", b"by people")]
)
def test_other_wording_is_a_failure_only_with_pages(name, old, new, base, head, capsys):
    replace(head / "run" / name, old, new)
    assert compare_folders(base, head, pages=False)
    assert f"wording    run/{name}" in capsys.readouterr().out
    assert not compare_folders(base, head, pages=True)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("model.json", b"width", b"dimensions"),
        ("metrics.json", b'"captions"', b'"added": 1, "captions"'),
        ("report.html", b"<b>1</b>", b'<i class="n">1</i>'),
        ("config.yaml", b"width", b"model.width"),
    ],
)
def test_restructured_models_added_keys_other_tags_and_options_are_no_failure(name, old, new, base, head):
    replace(head / "run" / name, old, new)
    assert compare_folders(base, head, pages=True)

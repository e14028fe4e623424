"""`fashioniq caption-pairs` without its page, which tests/browser uses."""

import csv
import json
import subprocess
import sys

import pytest

from fashioniq.data.catalog import Catalog
from tests.waiting import LIMIT


def fill(path, caption="is red"):
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "caption": caption} for row in rows)
    return rows


def test_pairs_are_captioned_in_a_spreadsheet(photo_catalog, project, tmp_path, capsys):
    folder = photo_catalog(captions="none: no label tells two products apart")
    common = {"data": folder, "category": "dresses", "count": 10}
    project.run("caption-pairs", **common, export=tmp_path / "a.csv")
    assert "10 pairs are in" in capsys.readouterr().out and not (folder / "captions").exists()
    assert len(fill(tmp_path / "a.csv")) == 10
    project.run("caption-pairs", **common, **{"import": tmp_path / "a.csv"})
    told = capsys.readouterr().out
    assert "10 captions saved" in told and "train 6, val 2, test 2; unnamed 10" in told
    assert "train-captioner" in told
    catalog = Catalog(folder, "dresses")
    assert catalog.captions_origin == "human" and len(catalog.pairs("train")) == 6
    project.run("check-data", data=folder)
    assert "finding" not in capsys.readouterr().out, "one caption per pair is as intended"
    common["count"] = 13
    project.run("caption-pairs", **common, export=tmp_path / "b.csv")
    assert len(fill(tmp_path / "b.csv")) == 3, "a larger count adds pairs"


def test_pairs_are_neighbors_in_the_feature_store(vector_runs, project, tmp_path):
    common = {"category": "dresses", "count": 9, "split": "val", "data": vector_runs.catalog}
    project.run("caption-pairs", **common, features=vector_runs.store, export=tmp_path / "near.csv")
    project.run("caption-pairs", **common, export=tmp_path / "random.csv")
    near, random = (fill(tmp_path / f"{name}.csv") for name in ("near", "random"))
    assert {row["split"] for row in near} == {"val"} and len(near) == 9
    assert [row["candidate"] for row in near] != [row["candidate"] for row in random]


MISTAKES = {
    "both": ({"export": "x.csv", "import": "pairs.csv"}, "--export and --import cannot be combined"),
    "few": ({"count": 2}, "--count is 2: it must be at least 3 for --split all"),
    "none": ({"count": 0}, "--count is 0: it must be at least 1"),
    "port": ({"port": 65536}, "--port is 65536: it must be less than 65536"),
    "split": ({"split": "dev"}, "--split: expected one of all, train, val, test, found dev"),
    "file": ({"import": "nowhere.csv"}, "there is no file nowhere.csv"),
    "store": ({"features": "nowhere"}, "there is no feature store nowhere"),
    "exists": ({"export": "pairs.csv"}, "pairs.csv exists and may contain captions"),
    "row": (
        {"import": "pairs.csv"},
        "pairs.csv, line 2: the candidate 'x' is not in the train split of dresses",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_one_line(photo_catalog, refused, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("split,candidate,target,caption\ntrain,x,train1,is red\n")
    options, reason = MISTAKES[name]
    assert reason in refused("caption-pairs", data=photo_catalog(), category="dresses", **options)
    assert not list(tmp_path.glob("catalog/captions/*"))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("captions/cap.dress.train.json", [{"target": [1], "candidate": "train1", "captions": ["red"]}]),
        ("captions/cap.dress.train.json", {"a": 1}),
        ("captions/cap.dress.train.json", [{"captions": ["red"], "people": [[1]]}]),
        ("captions/people.dress.json", {"actions": [{"person": 3}]}),
        ("pairs/pairs.dress.train.json", [3]),
        ("catalog.json", [3]),
    ],
)
def test_a_damaged_file_is_reported_in_one_line_and_left(photo_catalog, refused, tmp_path, file, content):
    folder = photo_catalog()
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(content))
    refused("caption-pairs", data=folder, category="dresses", export=tmp_path / "x.csv")
    assert json.loads((folder / file).read_text()) == content


def test_nothing_is_imported_if_the_list_of_skipped_pairs_is_damaged(photo_catalog, refused, tmp_path):
    folder = photo_catalog()
    (folder / "captions").mkdir(exist_ok=True)
    (folder / "captions/people.dress.json").write_text("{")
    (tmp_path / "in.csv").write_text("split,candidate,target,caption\ntrain,train1,train2,is red\n")
    before = sorted(folder.rglob("*"))
    line = refused("caption-pairs", data=folder, category="dresses", **{"import": tmp_path / "in.csv"})
    assert "people.dress.json is not valid JSON" in line and sorted(folder.rglob("*")) == before


def test_the_command_and_its_page_need_no_torch(photo_catalog, tmp_path):
    arguments = ["caption-pairs", "--data", str(photo_catalog()), "--category", "dresses"]
    code = f"""
import sys
from fashioniq.cli import main
from fashioniq.report.caption import caption_page
assert main({[*arguments, "--export", str(tmp_path / "pairs.csv")]!r}) == 0
assert "Your name" in caption_page(person="", message="", nonce="")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)

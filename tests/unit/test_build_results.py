"""Pages of results say what the run files say, and nothing else."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from scipy import stats

from fashioniq.files import UserError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import build_results
from studies import Seeds, measure_of, read_study

from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parents[2]

SEEDS = {"ours": [50.0, 62.0, 74.0], "theirs": [40.0, 44.0, 42.0], "one seed": [70.0]}
MACHINE = {
    "cpu": "a CPU",
    "cores": 2,
    "threads": 1,
    "gpu": None,
    "platform": "Linux x86_64",
    "python": "3.11",
    "torch": "2.13",
}


def run_file(recall, cpu, **other):
    made = {
        "commit": "0123456789" * 4,
        "machine": MACHINE,
        "seconds": {"wall": 9.0, "cpu": 5.0},
        "date": "2026-11-22T04:00:00+00:00",
    }
    trained = {**made, "seconds": {"wall": 999.0, "cpu": cpu}, "peak_gb": {"process": 1.25, "gpu": None}}
    turns = [{"turn": turn, "R@10": recall / (3 - turn), "P": 90.0, "mean_rank": recall} for turn in (1, 2)]
    facts = {
        "protocol": "Fashion IQ dialogs",
        "category": "dresses",
        "split": "test",
        "gallery": 240,
        "dialogs": 240,
        "coverage": 1.0,
    }
    return {
        **facts,
        "turns": turns,
        **other,
        "provenance": {**made, "peak_gb": {"process": 0.75, "gpu": None}, "retriever": trained},
    }


@pytest.fixture
def study(tmp_path):
    """A study of one table with three rows, and its folder."""
    folder = tmp_path / "results" / "tiny"
    folder.mkdir(parents=True)
    for label, values in SEEDS.items():
        for seed, value in enumerate(values):
            (folder / f"{label}-{seed}.json").write_text(json.dumps(run_file(value, 60.0 * (seed + 1))))
    table = {
        "name": "own",
        "title": "Own user",
        "reference": "theirs",
        "columns": ["P turn 1", "R@10 turn 2"],
    }
    table["rows"] = {
        label: [f"{label}-{seed}.json" for seed in range(len(values))] for label, values in SEEDS.items()
    }
    content = {
        "title": "Tiny",
        "question": "Which?",
        "commands": "make demo",
        "tables": [table],
        "prose": "Ours: [[own | ours | R@10 turn 2]].",
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (tmp_path / "results" / "overview.md").write_text(
        "# All\n\nCosts [[tiny | own | ours | minutes]] min, [[tiny | own | ours | GB]] GB.\n"
    )
    return folder


@pytest.fixture
def build(study, tmp_path):
    """Build or check the pages of the study; return the exit code."""
    return lambda check=False: build_results.build(tmp_path / "results", tmp_path / "docs", check)


def change(study, old, new):
    path = study / "study.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


# what the repository holds


def test_the_pages_of_this_repository_are_what_its_run_files_give():
    script = [sys.executable, str(ROOT / "tools/build_results.py"), "--check"]
    assert subprocess.run(script, check=False, timeout=LIMIT).returncode == 0


def test_run_files_of_this_repository_are_small_and_have_their_provenance():
    paths = [path for path in (ROOT / "results").glob("*/*.json") if path.name != "summary.json"]
    assert paths
    for path in paths:
        made = json.loads(path.read_text())["provenance"]
        assert (
            path.stat().st_size < 25_000
            and made["command"].startswith(("fashioniq ", "python benchmarks/"))
            and not made["commit"].endswith("-dirty")
        ), path


def test_an_edited_number_of_a_run_file_is_noticed(tmp_path):
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    path = sorted((tmp_path / "results").glob("people/*.own.json"))[0]
    content = json.loads(path.read_text())
    content["turns"][-1]["R@10"] += 1
    path.write_text(json.dumps(content))
    assert build_results.build(tmp_path / "results", tmp_path / "docs", check=True) == 1


def test_the_overview_fits_on_a_page():
    assert len((ROOT / "docs/results.md").read_text().splitlines()) <= 80


def test_rows_of_speakers_and_of_users_are_read_from_their_files(study):
    made = {key: value for key, value in run_file(1, 1)["provenance"].items() if key != "retriever"}
    speech = [
        {"who": who, "AUC": auc, "length distance": 0.5, "P": 80.0}
        for who, auc in (("people", 0.5), ("me", 0.9))
    ]
    facts = {
        key: "x" for key in ("data", "category", "split", "captions", "fingerprint", "tokeniser", "scale")
    }
    facts |= {
        "protocol": "relative captions, scorers of the COCO caption tools",
        "decoding": "greedy",
        "seed": 0,
    }
    facts |= {
        "pairs": 30,
        "coverage_of_pairs": 1.0,
        "most_frequent": {"caption": "red", "times": 2},
        "rows": [],
    }
    for seed in (0, 1):
        content = {
            **facts,
            "speech": [{**row, "AUC": row["AUC"] + seed / 10} for row in speech],
            "provenance": made,
        }
        (study / f"said-{seed}.json").write_text(json.dumps(content))
    rows = [{"method": "me", "tau": 0.5}, {"method": "you", "tau": -0.5}]
    users = {"protocol": "order of retrievers", "category": "x", "people": "human", "retrievers": ["a", "b"]}
    (study / "order.json").write_text(json.dumps({**users, "rows": rows, "provenance": made}))
    content = yaml.safe_load((study / "study.yaml").read_text())
    table = {"reference": None, "title": "T"}
    files = {who: [f"said-0.json#{who}", f"said-1.json#{who}"] for who in ("people", "me")}
    content["tables"] += [
        table | {"name": "said", "columns": ["P", "length distance", "AUC"], "rows": files},
        table
        | {
            "name": "order",
            "columns": ["tau"],
            "rows": {who: [f"order.json#{who}"] for who in ("me", "you")},
        },
    ]
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    found = read_study(study / "study.yaml")
    said = found.table("said").row("me")
    assert said.seeds("AUC").values == (0.9, 1.0) and said.seeds("AUC").worst == 1.0  # the most unlike
    assert said.seeds("length distance").worst == 0.5 and said.minutes is None
    assert found.table("order").row("you").seeds("tau").values == (-0.5,)
    page = build_results.study_page(found)
    assert "30 pairs" in page and "2 retrievers with human" in page and "greedy" not in page


def test_every_number_of_a_table_comes_from_the_run_files():
    for path in (ROOT / "results").glob("*/study.yaml"):
        prose = yaml.safe_load(path.read_text())["prose"]
        assert not re.search(r"\d+\.\d", re.sub(r"\[\[.+?\]\]", "", prose)), f"{path} has typed figures"


# sessions of several lengths


def test_sessions_of_several_lengths_count_as_one_evaluation_after_their_last_turns(study):
    facts = {
        "protocol": "recorded sessions",
        "clean": {},
        "sessions": "sessions",
        "coverage_of_sessions": 1.0,
    }
    for length, dialogs, recall in ((2, 30, 20.0), (3, 10, 40.0)):
        content = run_file(99.0, 60.0, **facts, dialogs=dialogs)
        content["turns"] = [
            {"turn": turn, "R@10": recall if turn == length else 1.0} for turn in range(1, length + 1)
        ]
        (study / f"ours-0.sessions-{length}.json").write_text(json.dumps(content))
    content = yaml.safe_load((study / "study.yaml").read_text())
    content["tables"][0] |= {
        "reference": None,
        "columns": ["R@10 last turn"],
        "rows": {"pooled": ["ours-0.sessions-*.json"]},
    }
    content["prose"] = "Pooled: [[own | pooled | R@10 last turn]]."
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    table = read_study(study / "study.yaml").tables[0]
    pooled = table.row("pooled")
    assert pooled.seeds("R@10 last turn").values == (25.0,) and pooled.runs[0].dialogs == 40


# building and checking


def test_a_built_page_passes_the_check_and_an_edited_one_does_not(build, tmp_path, capsys):
    assert build(check=True) == 1
    assert build() == 0 and build(check=True) == 0
    page = tmp_path / "docs/results/tiny.md"
    page.write_text(page.read_text().replace("62.0", "63.0", 1))
    capsys.readouterr()
    assert build(check=True) == 1
    assert capsys.readouterr().out == f"{page} is out of date; run `python tools/build_results.py`\n"


def test_a_page_of_a_study_that_went_is_noticed_and_removed(build, study, tmp_path):
    build()
    study.rename(study.with_name("other"))
    (tmp_path / "results/overview.md").write_text("# All\n")
    (tmp_path / "docs/results/notes.md").write_text("typed by hand\n")
    assert build(check=True) == 1
    assert build() == 0 and build(check=True) == 0
    assert {path.name for path in (tmp_path / "docs/results").iterdir()} == {
        "notes.md",
        "other.md",
        "overview.svg",
    }


def test_a_row_has_mean_deviation_worst_seeds_minutes_and_memory(build, tmp_path):
    build()
    (row,) = [
        line
        for line in (tmp_path / "docs/results/tiny.md").read_text().splitlines()
        if line.startswith("| ours")
    ]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    p = stats.ttest_ind(SEEDS["ours"], SEEDS["theirs"], equal_var=False).pvalue
    assert cells == [
        "ours",
        "90.00 ± 0.00 (90.00)",
        "62.00 ± 12.00 (50.00)",
        f"+20.00 (p {p:.3f})",
        "3",
        "2.00 ± 1.00",
        "1.25",
    ]


def test_a_row_of_one_seed_has_no_deviation_and_no_test(build, tmp_path):
    build()
    (row,) = [
        line
        for line in (tmp_path / "docs/results/tiny.md").read_text().splitlines()
        if line.startswith("| one seed")
    ]
    assert " 70.00 " in row and "±" not in row and "+28.00 (no test)" in row


def test_figures_of_the_prose_are_filled_in(build, tmp_path):
    build()
    assert "Ours: 62.00 ± 12.00." in (tmp_path / "docs/results/tiny.md").read_text()
    assert "Costs 2.00 min, 1.25 GB." in (tmp_path / "docs/results.md").read_text()


def test_the_plot_has_the_tables_of_one_turn_that_have_a_reference(study, build, tmp_path):
    plot = tmp_path / "docs/results/overview.svg"
    build()
    assert "</text>" not in plot.read_text()  # dialogs of two turns
    for path in study.glob("*.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"turns": content["turns"][:1]}))
    change(study, "turn 2", "turn 1")
    build()
    texts = re.findall(r">([^<>]+)</text>", plot.read_text())
    assert texts == ["Tiny: Own user", "ours", "31.00", "theirs", "21.00", "one seed", "35.00"]
    change(study, "reference: theirs", "reference: null")
    build()
    assert "</text>" not in plot.read_text()


def test_the_origin_names_machine_commit_and_date(build, tmp_path):
    build()
    page = (tmp_path / "docs/results/tiny.md").read_text()
    assert (
        "a CPU, 2 cores, torch 2.13 on 1 threads, no GPU" in page
        and "0123456789." in page
        and "2026-11-22" in page
    )


def test_run_files_without_provenance_have_no_costs(build, study, tmp_path):
    for path in study.glob("*.json"):
        path.write_text(
            json.dumps(
                {key: value for key, value in json.loads(path.read_text()).items() if key != "provenance"}
            )
        )
    assert build() == 0
    assert "Machines: unknown" in (tmp_path / "docs/results/tiny.md").read_text()


def test_the_worst_mean_rank_is_the_highest():
    assert Seeds((1.0, 3.0), lower_is_better=True).worst == 3.0 and Seeds((1.0, 3.0)).worst == 1.0


# what is refused


def test_rows_of_other_galleries_are_not_put_into_one_table(study):
    (study / "ours-1.json").write_text(json.dumps(run_file(62.0, 1.0, gallery=999)))
    with pytest.raises(
        UserError, match=r"expected one gallery in table own, found 999, but 240 in ours-0.json"
    ):
        read_study(study / "study.yaml")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("R@10 turn 2", "R@10 turn 9", "'R@10 turn 9', found none"),
        ("reference: theirs", "reference: nobody", "found 'nobody'"),
        ("question:", "riddle:", "question, riddle missing or unknown"),
        ("ours-0.json", "absent.json", "absent.json"),
        ("[[own |", "[[else |", "found 'else'"),
    ],
)
def test_a_study_that_names_what_is_not_there_is_refused(old, new, told, build, study):
    change(study, old, new)
    with pytest.raises(UserError, match=re.escape(told)):
        build()


def test_a_folder_without_studies_is_refused(tmp_path):
    with pytest.raises(UserError, match="found none; write one"):
        build_results.build(tmp_path, tmp_path)


def test_the_measure_of_a_column_has_its_decimals():
    assert [measure_of(name) for name in ("R@10 turn 5", "m MRR", "mean", "BRI")] == [
        "R@10",
        "MRR",
        "mean",
        "BRI",
    ]


def test_a_row_can_be_a_part_of_a_run_file(study):
    content = yaml.safe_load((study / "study.yaml").read_text())
    (table,) = content["tables"]
    made = run_file(1.0, 120.0)["provenance"]
    for seed in (0, 1):
        rows = [{"method": "model", "m R@10": 40.0 + seed}, {"method": "baseline", "m R@10": 20.0}]
        run = {
            "protocol": "ChatSearch",
            "data": "talks",
            "samples": {"m": 1000},
            "galleries": {"m": 750},
            "coverage": 1.0,
            "features": {},
            "seed": seed,
            "rows": rows,
            "rounds": [
                {"method": name, "subtask": subtask, "rounds": rounds, "R@10": rounds + value}
                for name, value in (("model", 0.5), ("baseline", 0.25))
                for subtask, rounds in (("i", 1), ("m", 2), ("m", 3))
            ],
            "checks": [{"check": "no history", "m R@10": 30.0}],
            "shows_picture": {},
            "differences": [],
            "provenance": made,
        }
        (study / f"talk-{seed}.json").write_text(json.dumps(run))
    table["rows"] = {
        name: [f"talk-{seed}.json#{name}" for seed in (0, 1)]
        for name in ("model", "baseline", "no history", "model, 2 rounds", "baseline, 3 rounds")
    }
    table |= {"columns": ["m R@10"], "reference": None}
    (study / "study.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    read = read_study(study / "study.yaml").tables[0]
    assert [row.seeds("m R@10").mean for row in read.rows] == [40.5, 20.0, 30.0, 2.5, 3.25]
    assert [row.minutes and row.minutes.mean for row in read.rows] == [2.0, None, 2.0, 2.0, None]
    with pytest.raises(UserError, match="column 'm R@5'"):
        read.rows[0].seeds("m R@5")

"""`fashioniq compare` of question dialogs, whose rounds are counted from 0."""

import csv
import json
import re
from itertools import product

import numpy as np
import pytest

from fashioniq.cli import main

TARGETS, GALLERY, ROUNDS = 12, 40, 4


@pytest.fixture
def evaluate(project, tmp_path):
    """Evaluate fixed dialogs with pseudo-random vectors of a seed; return the results' folder."""
    names = [f"photos/{number:04d}.png" for number in range(GALLERY)]
    (tmp_path / "space.json").write_text(json.dumps(names))
    gallery_ND = np.random.default_rng(9).normal(size=(GALLERY, 16)).astype(np.float32)
    np.save(tmp_path / "G.npy", gallery_ND)

    def evaluate(seed, rounds=ROUNDS, first=0):
        targets = range(first, first + TARGETS)
        noise_QRD = np.random.default_rng(seed).normal(size=(TARGETS, rounds, 16)) * 2
        np.save(tmp_path / "Q.npy", (gallery_ND[targets][:, None] + noise_QRD).astype(np.float32))
        said = ["a dress", *(f"is it {word}? yes" for word in ("red", "long", "plain")[: rounds - 1])]
        (tmp_path / "asked.json").write_text(
            json.dumps([{"img": names[target], "dialog": said} for target in targets])
        )
        out = tmp_path / f"seed-{seed}" / "results"
        files = {"dialogues": [tmp_path / "asked.json"], "search_space": tmp_path / "space.json", "out": out}
        vectors = {"query_vectors": [tmp_path / "Q.npy"], "gallery_vectors": tmp_path / "G.npy"}
        project.run("eval-dialogs", system="chatir", **files, **vectors)
        return out

    return evaluate


@pytest.fixture
def compare(capsys):
    """Compare folders; return the exit code and what is printed."""

    def compare(*words):
        capsys.readouterr()
        code = main(["compare", *map(str, words)])
        told = capsys.readouterr()
        return code, told.err if code else told.out

    return compare


def ranks(folder):
    lines = (folder / "dialogs.jsonl").read_text().splitlines()
    return np.array([[turn["rank"] for turn in json.loads(line)["turns"]] for line in lines])


def test_the_difference_of_hits_is_that_of_an_independent_computation(evaluate, compare, tmp_path):
    one, other = evaluate(1), evaluate(2)
    code, told = compare(one, other, "--out", tmp_path / "out")
    assert code == 0 and f"Hits@10 after round 3: {TARGETS} dialogs, gallery {GALLERY}" in told
    assert "note:" not in told
    found_BR = [(np.minimum.accumulate(ranks(folder), 1) < 10) * 100.0 for folder in (one, other)]
    comparison = json.loads((tmp_path / "out/comparison.json").read_text())
    first, second = comparison["models"]
    assert comparison["round"] == 3 and comparison["protocol"] == "ChatIR"
    assert [first["mean"], second["mean"]] == pytest.approx([hit_BR[:, 3].mean() for hit_BR in found_BR])
    with open(tmp_path / "out/turns.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "Hits@10" and row["round"] != "mean"]
    assert [row["round"] for row in rows[:ROUNDS]] == [f"round {number}" for number in range(ROUNDS)]
    assert [float(row["mean"]) for row in rows] == pytest.approx(np.concatenate(found_BR, 1).mean(0))


def test_interval_and_p_are_those_of_all_signs_and_of_another_bootstrap(evaluate, compare, tmp_path):
    one, other = evaluate(1), evaluate(2)
    assert compare(one, other, "--measure", "P", "--turn", "1", "--out", tmp_path / "out")[0] == 0
    row = json.loads((tmp_path / "out/comparison.json").read_text())["models"][1]
    difference_B = 100 * (ranks(one)[:, 1] - ranks(other)[:, 1]) / GALLERY
    assert row["difference"] == pytest.approx(difference_B.mean()) and abs(row["difference"]) > 1
    sums = np.array(list(product((-1, 1), repeat=TARGETS))) @ difference_B
    assert row["p"] == pytest.approx((np.abs(sums) >= abs(difference_B.sum()) - 1e-9).mean(), abs=0.02)
    drawn = np.random.default_rng(5).choice(difference_B, (20_000, TARGETS)).mean(1)
    assert row["interval"] == pytest.approx(np.quantile(drawn, (0.025, 0.975)), abs=0.05 * difference_B.std())


def test_the_page_has_the_questions_of_paired_dialogs_by_round(evaluate, compare, tmp_path):
    compare(evaluate(1), evaluate(2), "--turn", "2", "--out", tmp_path / "out")
    page = (tmp_path / "out/compare.html").read_text()
    assert "Round by round" in page and "Hits@10 after round 2: A" in page and "B Hits@10: " in page
    assert page.count('<p class="tag">round 0</p>') == page.count('<p class="tag">round 2</p>') == TARGETS
    assert "is it long? yes" in page and "is it plain? yes" not in page
    assert not re.search(r"\bturn\b", page.split("<body>")[1])
    assert "the results name no catalog" in page


def test_rounds_that_not_all_have_are_left_out_and_round_0_can_be_compared(evaluate, compare):
    one, shorter = evaluate(1), evaluate(2, rounds=2)
    assert "Hits@10 after round 1: " in compare(one, shorter)[1]
    code, told = compare(one, shorter, "--turn", "0", "--measure", "R@10")
    assert code == 0 and "R@10 after round 0: " in told
    assert f"{(ranks(one)[:, 0] < 10).mean() * 100:.2f} " in told
    code, told = compare(one, shorter, "--turn", "2")
    assert (
        code == 2 and "--turn is 2, but the shortest of these evaluations has 2 rounds; give 0 to 1" in told
    )


def test_other_targets_and_other_protocols_are_refused_in_one_line(evaluate, compare, vector_runs):
    one = evaluate(1)
    code, told = compare(one, evaluate(2, first=1))
    assert code == 2 and "2 targets are in one of them only" in told and told.count("\n") == 1
    for folders, why in (
        ((one, vector_runs.dialogs), "the protocol is Fashion IQ dialogs, not ChatIR"),
        ((vector_runs.dialogs, one), "the protocol is ChatIR, not Fashion IQ dialogs"),
    ):
        code, told = compare(*folders)
        assert code == 2 and why in told and told.count("\n") == 1


@pytest.mark.parametrize("damage", [{"rounds": []}, {"rounds": [{"round": 1}]}, {"rounds": [{"round": 0}]}])
def test_rounds_that_are_no_longer_those_of_the_dialogs_are_refused(damage, evaluate, compare, tmp_path):
    one, other = evaluate(1), evaluate(2)
    metrics = json.loads((other / "metrics.json").read_text())
    (other / "metrics.json").write_text(json.dumps(metrics | damage))
    code, told = compare(one, other, "--out", tmp_path / "out")
    assert code == 2 and told.count("\n") == 1 and not (tmp_path / "out").exists()


def test_what_differs_in_search_space_or_user_is_noted(evaluate, compare):
    one, other = evaluate(1), evaluate(2)
    metrics = json.loads((other / "metrics.json").read_text())
    (other / "metrics.json").write_text(
        json.dumps({**metrics, "search_space": "elsewhere.json", "category": "dresses", "details": 2})
    )
    _, told = compare(one, other)
    assert "note: the search space differs: " in told and "elsewhere.json in " in told
    assert "note: the number of attributes in the user's first words (--details) differs: none in " in told
    (one / "metrics.json").write_text(json.dumps({**metrics, "category": "tops"}))
    assert "the category is dresses, not tops" in compare(one, other)[1]

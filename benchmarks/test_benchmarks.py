"""Every stage of the benchmark at small sizes: both implementations give the same results, and rows are
complete.

Run by `make bench-test`. Times are not tested.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import counts
import obeying
import plain
import speed
import stages
import user_correlation

COMPARED = [name for name in stages.STAGES if name != "attributes"]
SMALL = stages.Setting(counts.SMALL)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", COMPARED)
def test_a_stage_gives_the_same_as_the_plain_way_and_tells_both_times(name):
    (row,) = speed.rows_of(name, SMALL, repeats=1)
    assert row["stage"] == name and row["threads"] >= 1 and row["size"]
    assert row["ratio"] == pytest.approx(row["plain_s"] / row["ours_s"])
    assert row["spread"] == [row["ratio"], row["ratio"]]
    assert row["floor_s"] == pytest.approx(row["share"] * row["ours_s"])
    json.dumps(row)


def test_growth_has_a_row_for_every_size_and_can_be_drawn(tmp_path):
    rows = list(speed.rows_of("growth", SMALL, repeats=1))
    assert {row["grows"] for row in rows} == {"gallery", "dialogs", "turns, both-ways", "turns, turn-causal"}
    assert all(row["ours_s"] > 0 and row["ratio"] is None for row in rows)
    speed.plot(rows, tmp_path / "growth.svg")
    assert "turn-causal" in (tmp_path / "growth.svg").read_text()


def test_other_captions_are_noticed(monkeypatch):
    monkeypatch.setattr(
        plain,
        "greedy",
        lambda captioner, reference, target: torch.full((len(reference.features_BD), captioner.max_words), 7),
    )
    with pytest.raises(stages.Different, match="of the dialogs are the same"):
        stages.STAGES["greedy"](SMALL).check()


def test_other_losses_are_noticed(monkeypatch):
    loss = plain.triplet_loss
    monkeypatch.setattr(plain, "triplet_loss", lambda *given: 1.01 * loss(*given))
    with pytest.raises(stages.Different, match="the loss differs"):
        stages.STAGES["retriever"](SMALL).check()


def test_other_ranks_are_noticed(monkeypatch):
    ranks = plain.ranks
    monkeypatch.setattr(plain, "ranks", lambda *given: ranks(*given) + 1)
    with pytest.raises(stages.Different, match="plain ranks"):
        stages.STAGES["ranks"](SMALL).check()


def test_other_features_are_noticed(monkeypatch):
    encode = stages.Encoding.__call__
    monkeypatch.setattr(
        stages.Encoding,
        "__call__",
        lambda self, images: (encode(self, images)[0].flip(0), encode(self, images)[1]),
    )
    with pytest.raises(stages.Different, match="cosine of the features"):
        stages.STAGES["features"](SMALL).check()


def test_rows_of_one_stage_leave_those_of_others(tmp_path):
    row = {key: None for key in speed.SAME_ROW}
    speed.put_rows(
        tmp_path / "latest.json",
        [{**row, "stage": "greedy", "ours_s": 1}, {**row, "stage": "ranks", "ours_s": 2}],
    )
    speed.put_rows(tmp_path / "latest.json", [{**row, "stage": "ranks", "ours_s": 3}])
    assert [(row["stage"], row["ours_s"]) for row in speed.read_rows(tmp_path / "latest.json")] == [
        ("greedy", 1),
        ("ranks", 3),
    ]


def test_the_command_writes_rows_and_prints_their_table(tmp_path, capsys):
    out = tmp_path / "latest.json"
    speed.main(
        [
            "--small",
            "--stage",
            "ranks",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--repeats",
            "2",
            "--out",
            str(out),
        ]
    )
    (row,) = json.loads(out.read_text())
    assert {"stage", "ours_s", "plain_s", "ratio", "spread", "threads", "size"} <= set(row)
    assert row["stage"] == "ranks" and row["threads"] == 1 and row["repeats"] == 2
    capsys.readouterr()
    speed.main(["--table", "--out", str(out)])
    assert "| `ranks` | 90 targets among 90 × 48 | 1 thread |" in capsys.readouterr().out


def test_a_layer_counts_what_a_matrix_product_needs():
    assert counts.linear(3, 4, 5) == 2 * 3 * 4 * 5
    assert counts.transformer_layer(1, 1, 8, 16) == 2 * (4 * 8 * 8 + 2 * 8 * 16) + 4 * 8


def test_convolutions_are_counted_by_what_comes_out():
    with torch.device("meta"):
        network = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
    needs = counts.convolutions(network, images=2, pixels=5, bytes_of_number=2)
    assert needs.flops == 2 * (2 * 4 * 5 * 5) * 3 * 3 * 3
    assert needs.bytes == 2 * (2 * 3 * 25 + 2 * 4 * 25 + 4 * 3 * 9)


def test_turns_of_every_kind_are_measured(tmp_path, capsys):
    out = tmp_path / "obeying.json"
    obeying.main(["--count", "300", "--repeats", "2", "--out", str(out)])
    (row,) = json.loads(out.read_text())
    assert row["count"] == 300 and set(row["turns"]) == set(obeying.KINDS)
    capsys.readouterr()
    obeying.main(["--table", "--out", str(out)])
    assert "| one wish | " in capsys.readouterr().out


def test_a_user_who_orders_retrievers_as_people_do_agrees_with_them_and_one_who_guesses_does_not():
    draw = np.random.default_rng(0)
    quality_R1 = np.linspace(0.05, 0.5, 8)[:, None]
    people_RD, alike_RD, reverse_RD = (
        (draw.random((8, 2000)) < chance_R1).astype(float)
        for chance_R1 in (quality_R1, quality_R1 + 0.3, quality_R1[::-1])
    )
    alike = user_correlation.correlations(people_RD, alike_RD, 0)
    assert [alike["tau"], alike["rho"]] == pytest.approx([1, 1]) and alike["in the other order"] == 0
    assert 0.85 < alike["tau interval"][0] <= 1
    reverse = user_correlation.correlations(people_RD, reverse_RD, 0)
    assert reverse["tau"] == pytest.approx(-1) and reverse["in the other order"] == 100
    few = user_correlation.correlations(people_RD[:, :40], alike_RD[:, :40], 0)["tau interval"]
    assert few[1] - few[0] > 3 * (alike["tau interval"][1] - alike["tau interval"][0])


def test_evaluations_are_read_from_their_folders_also_of_sessions(tmp_path):
    for number in range(5):
        for user, logs in (("people", ("2-turns", "3-turns")), ("simulator", (".",))):
            for log in logs:
                folder = tmp_path / f"r{number}" / user / log
                folder.mkdir(parents=True, exist_ok=True)
                ranks = [5 if place < number else 50 for place in range(6)]
                lines = [{"target": "a", "turns": [{"rank": 0}, {"rank": rank}]} for rank in ranks]
                (folder / "dialogs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = user_correlation.table(tmp_path, "people", ["simulator"])
    assert found["retrievers"] == [f"r{number}" for number in range(5)]
    assert found["R@10"] == found["rows"][0]["R@10"] == pytest.approx([0, 100 / 6, 200 / 6, 50, 400 / 6])
    assert found["rows"][0]["tau"] == pytest.approx(1)
    with pytest.raises(SystemExit, match="found 0"):
        user_correlation.table(tmp_path, "nobody", ["simulator"])

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
import live_comparison
import live_methods
import live_shoppers
import obeying
import plain
import speed
import stages
import user_correlation

from fashioniq.data.catalog import Catalog
from fashioniq.sample.shop import make_shop
from fashioniq.systems import load

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


@pytest.fixture(scope="module")
def street(tmp_path_factory):
    """40 shoppers in the package's shop, and its system."""
    root = tmp_path_factory.mktemp("street")
    system = load(make_shop(root), split="all", device="cpu")
    catalog = Catalog(root / "catalog", "dresses")
    return live_shoppers.Street(catalog, system, 40, live_shoppers.Behavior(), 0), system


def test_shoppers_choose_the_target_that_they_examine_and_look_no_further(street):
    shoppers, system = street
    log = live_shoppers.converse(shoppers, [system], live_shoppers.alone(0))
    found_RK = log.item_RK == log.target_R[:, None]
    chosen_R = log.chosen_R >= 0
    assert 0 < chosen_R.sum() == log.success_B.sum() < found_RK.any(1).sum()
    assert (found_RK.argmax(1) == log.chosen_R)[chosen_R].all()
    assert all(
        not log.clicked_RK[row, place + 1 :].any() for row, place in enumerate(log.chosen_R) if place >= 0
    )
    assert log.clicked_RK[chosen_R, log.chosen_R[chosen_R]].all()
    turns_B = np.bincount(log.shopper_R)
    assert turns_B.min() >= 1 and 1 < turns_B.max() <= shoppers.behavior.turns
    first = log.turn_R == 0  # a product that was talked about is not shown again
    assert not (log.item_RK[first] == shoppers.opening(log.shopper_R[first])[:, None]).any()


def test_interleaving_of_two_copies_has_no_credit_and_the_same_conversations(street):
    shoppers, system = street
    alone = live_shoppers.converse(shoppers, [system], live_shoppers.alone(0))
    arm = live_methods.arms(system.gallery.items.ids)["team draft"]
    both = live_shoppers.converse(shoppers, [system, system], arm)
    assert (both.item_RK == alone.item_RK).all() and (both.chosen_R == alone.chosen_R).all()
    assert not both.score_B.any() and not both.choice_B.any()


def test_noise_in_the_weights_changes_answers_and_leaves_the_model(street):
    shoppers, system = street
    before = system.retriever.bag_GD.clone()
    worse = live_shoppers.degraded(system, 2.0, 0)
    assert torch.equal(system.retriever.bag_GD, before) and worse.wording is system.wording
    logs = [live_shoppers.converse(shoppers, [one], live_shoppers.alone(0)) for one in (system, worse)]
    assert logs[0].ranked_RMD[:40].tolist() != logs[1].ranked_RMD[:40].tolist()


def test_tests_of_simulated_shoppers_hold_their_level_and_power():
    draw = np.random.default_rng(0)
    score_B = draw.choice([-1.0, 0.0, 1.0], 5000, p=[0.2, 0.5, 0.3])
    method = live_methods.interleaving("scores", score_B)
    found = live_methods.fixed(method, round(method.needed), 400, draw)
    assert found["covered"] == pytest.approx(95, abs=4) and found["error"] == pytest.approx(5, abs=4)
    assert found["power"] == pytest.approx(80, abs=7) and found["wrong sign"] == 0
    ends = live_methods.sequential(method, {"all": 20_000}, 40, draw)
    assert ends["ended"] == ends["activated by answers"]["all"] == 100 and ends["error"] <= 10


def test_live_comparisons_are_measured_beside_the_truth(tmp_path, capsys):
    out = tmp_path / "live.json"
    live_comparison.main(["--quick", "--shoppers", "60", "--experiments", "3", "--out", str(out)])
    found = json.loads(out.read_text())
    pairs = {pair["pair"]: pair for pair in found["pairs"]}
    assert len(pairs) == 4 and found["provenance"]["command"].startswith(
        "python benchmarks/live_comparison.py"
    )
    same = pairs["identical"]
    assert same["truth"] == same["off-policy"]["truth"] == 0
    assert all(row["sequential"]["ended"] == 0 for row in same["methods"] if row["method"] != "A/B")
    for size in same["off-policy"]["by answers"].values():
        assert size["replay activates"] == 0
        assert all(one["activates"] == 0 for one in size["estimators"].values())
    worse, better = pairs["worse: degraded"], pairs["better: degraded is running"]
    assert worse["truth"] == -better["truth"] <= 0
    printed = capsys.readouterr().out
    assert "| worse: degraded | " in printed and "doubly robust, bias given" in printed

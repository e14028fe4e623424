"""Chats on the drawn sample, all the way: dialogues that are drawn with it, a dialog encoder that learns from
them, and who asks with it.
"""

import json

from fashioniq.data.dialogues import read_dialogues


def test_a_dialog_encoder_learns_is_evaluated_and_finds_candidates_to_ask_about(runs, project, tmp_path):
    data, run, made = runs.catalog, tmp_path / "run", tmp_path / "made.json"
    sizes = {
        "model.width": 16,
        "model.heads": 2,
        "model.hidden": 32,
        "model.layers": 1,
        "batch_size": 12,
        "epochs": 2,
        "learning_rate": 0.003,
        "device": "cpu",
    }
    project.run("train-dialog-encoder", data=data, category="dresses", run=run, **sizes)
    project.run(
        "make-dialogues", data=data, category="dresses", encoder=run, candidates=5, rounds=3, out=made
    )
    recorded = data / "dialogues" / "dress.test.json"
    space = {
        "search_space": data / "image_splits" / "split.dress.test.json",
        "features": runs.store,
        "encoder": run,
    }
    for name, files in (("one", [made]), ("other", [recorded])):
        project.run("eval-dialogs", system="chatir", dialogues=files, out=tmp_path / name, **space)
    metrics = json.loads((tmp_path / "one" / "metrics.json").read_text())
    assert len(read_dialogues(made)) == metrics["gallery"] == 12
    assert [row["round"] for row in metrics["rounds"]] == [0, 1, 2, 3]
    assert len(json.loads((tmp_path / "other" / "metrics.json").read_text())["rounds"]) == 11

"""Every command on a tiny drawn sample: what each leaves behind, and that the next can use it."""

import csv
import json
import re
import runpy
import subprocess
import sys
from collections import defaultdict
from html import escape
from shutil import copytree

import numpy as np
import pytest
import torch
import yaml
from efficientnet_pytorch import EfficientNet
from safetensors.torch import load_file, save_file

from fashioniq import plugins
from fashioniq.cli import COMMANDS, main, parse
from fashioniq.config import check
from fashioniq.data import trec
from fashioniq.encoders.timm import load_network
from fashioniq.files import checksum
from fashioniq.models.encoder import create_encoder
from tests.waiting import LIMIT

SCRIPTS = {
    "data_prep/draw_sample.py": "draw-sample",
    "data_prep/import_catalog.py": "import-catalog",
    "data_prep/download_images.py": "download-images",
    "data_prep/extract_attributes.py": "extract-attributes",
    "data_prep/describe_pictures.py": "describe-pictures",
    "data_prep/caption_pairs.py": "caption-pairs",
    "data_prep/train_attributes.py": "train-attributes",
    "data_prep/extract_features.py": "extract-features",
    "train_captioner.py": "train-captioner",
    "train_retriever.py": "train-retriever",
    "train_composer.py": "train-composer",
    "eval/dialogs.py": "eval-dialogs",
    "eval/captions.py": "eval-captions",
    "eval/single_turn.py": "eval-single-turn",
    "eval/eval_requests.py": "eval-requests",
    "eval/chatsearch.py": "eval-chatsearch",
    "data_prep/make_conversations.py": "make-conversations",
    "data_prep/make_dialogues.py": "make-dialogues",
    "train_dialog_encoder.py": "train-dialog-encoder",
    "train_generator.py": "train-generator",
    "train_chatsearcher.py": "train-chatsearcher",
}
WITHOUT_SCRIPT = {
    "api-key",
    "chat",
    "check-data",
    "compare",
    "compare-live",
    "demo",
    "export",
    "forget",
    "learn",
    "search",
    "serve",
}  # what is no step of a training or an evaluation


def read(path):
    return json.loads(path.read_text())


def dialogs_of(folder):
    return [json.loads(line) for line in (folder / "dialogs.jsonl").read_text().splitlines()]


def losses_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return [float(row["train_loss"]) for row in csv.DictReader(file)]


@pytest.fixture
def evaluate(project, vector_runs, tmp_path):
    """Evaluate the retriever of own vectors; return the results' folder."""

    def evaluate(name="dialogs", run=vector_runs.retriever, **options):
        common = {
            "data": vector_runs.catalog,
            "category": "dresses",
            "features": vector_runs.store,
            "user": vector_runs.captioner,
            "beam": 1,
        }
        project.run("eval-dialogs", **{**common, "run": run, "out": tmp_path / name, **options})
        return tmp_path / name

    return evaluate


def test_every_command_has_a_script():
    assert set(SCRIPTS.values()) == set(COMMANDS) - WITHOUT_SCRIPT


def test_without_a_command_all_are_named(capsys):
    assert main([]) == 2 and main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(told.count(f"  {command} ") == 2 for command in COMMANDS)


@pytest.mark.parametrize("kind", ["attributes", "attributes of dresses", "captioner", "retriever"])
def test_a_run_holds_the_files_of_the_design(kind, runs, attribute_runs):
    first, second = attribute_runs
    run = {
        "attributes": first,
        "attributes of dresses": second,
        "captioner": runs.captioner,
        "retriever": runs.retriever,
    }[kind]
    files = {"config.yaml", "weights.safetensors", "model.json", "metrics.csv", "last.ckpt"}
    pages = {"attributes.json", "curves.png", "contact_sheet.jpg"}
    more = (
        pages
        if kind.startswith("attributes")
        else {"listener", "judge", "curves.png"}
        if kind == "captioner"
        else {"wording.json", "labels.safetensors"}
    )
    assert {path.name for path in run.iterdir()} == files | more
    facts = read(run / "model.json")
    assert facts["kind"] == ("attribute predictor" if kind.startswith("attributes") else kind)
    assert facts["category"] == ("all" if kind == "attributes" else "dresses")
    assert facts["version"] and facts["metrics"]["train_loss"] == pytest.approx(
        losses_of(run)[int(facts["metrics"]["epoch"])]
    )


@pytest.mark.parametrize("kind", ["captioner", "retriever"])
def test_model_json_rebuilds_the_model(kind, runs, project):
    facts = read(getattr(runs, kind) / "model.json")
    assert facts["sizes"]["vocabulary"] == len(facts["words"])
    assert (
        facts["features"]["encoder"] == project.pictures["encoder"]
        and len(facts["data"]["fingerprint"]) == 16
    )
    assert facts["data"]["pictures"] == "drawn" and facts["data"]["captions"] == "drawn sample's grammar"


def test_the_second_stage_keeps_the_encoder_of_the_first(attribute_runs):
    first, second = (load_file(run / "weights.safetensors") for run in attribute_runs)
    encoder = [name for name in first if name.startswith("encoder.")]
    assert len(encoder) > 80
    assert all(torch.equal(first[name], second[name]) for name in encoder)


def test_the_store_holds_the_whole_category(runs, project):
    facts, ids = read(runs.store / "store.json"), read(runs.store / "ids.json")
    assert sorted(path.name for path in runs.store.iterdir()) == [
        "attributes.npy",
        "features.npy",
        "ids.json",
        "store.json",
    ]
    assert len(ids) == facts["count"] == 60 and facts["failures"] == {}
    assert np.load(runs.store / "features.npy").shape == (60, 256) and np.load(
        runs.store / "attributes.npy"
    ).shape == (60, 8)
    assert (
        facts["encoder"] == project.pictures["encoder"]
        and facts["image_size"] == 32
        and facts["attributes"] == "predicted"
    )


def test_an_evaluation_holds_the_files_of_the_design(runs):
    assert {path.name for path in runs.dialogs.iterdir()} == {
        "metrics.json", "dialogs.jsonl", *trec.FILES, "report.html"}  # fmt: skip


def test_metrics_name_all_that_a_result_depends_on(runs, project):
    metrics = read(runs.dialogs / "metrics.json")
    wanted = {"category": "dresses", "split": "test", "gallery": 12, "coverage": 1.0, "dialogs": 12, "decoding": "beam 2", "seed": 0,
              "captions": "drawn sample's grammar", "pictures": "drawn", "features": project.pictures["encoder"], "attributes": True}  # fmt: skip
    assert {key: metrics[key] for key in wanted} == wanted
    assert {"protocol", "data", "user", "retriever"} <= set(metrics)
    assert [turn["turn"] for turn in metrics["turns"]] == [1, 2, 3]
    assert all({"P", "R@10", "R@50", "mean_rank"} <= set(turn) for turn in metrics["turns"])


@pytest.mark.parametrize("kind", ["runs", "vector_runs"])
def test_metrics_follow_from_the_ranks_of_the_dialogs(kind, request):
    folder = request.getfixturevalue(kind).dialogs
    dialogs = dialogs_of(folder)
    for number, turn in enumerate(read(folder / "metrics.json")["turns"]):
        rank = np.array([dialog["turns"][number]["rank"] for dialog in dialogs])
        assert turn["P"] == pytest.approx(100 * np.mean(1 - rank / 12))
        assert turn["R@10"] == pytest.approx(100 * np.mean(rank < 10))
        assert turn["mean_rank"] == pytest.approx(rank.mean())


def test_every_item_of_the_split_is_the_target_once(vector_runs):
    dialogs = dialogs_of(vector_runs.dialogs)
    test = read(vector_runs.catalog / "image_splits/split.dress.test.json")
    assert sorted(dialog["target"] for dialog in dialogs) == sorted(test)
    for dialog in dialogs:
        assert len(dialog["turns"]) == 5
        assert all(
            turn["shown"] in test and isinstance(turn["words"], str) and 0 <= turn["rank"] < 12
            for turn in dialog["turns"]
        )


def test_no_dialog_begins_with_its_target(vector_runs):
    for dialog in dialogs_of(vector_runs.dialogs):
        assert dialog["turns"][0]["shown"] != dialog["target"]


def test_the_run_file_agrees_with_the_dialogs(vector_runs):
    rankings = defaultdict(list)
    for line in (vector_runs.dialogs / "run.trec").read_text().splitlines():
        query, q0, item, rank, score, name = line.split()
        assert q0 == "Q0" and name == "fashioniq"
        rankings[query].append((int(rank), item, float(score)))
    for dialog in dialogs_of(vector_runs.dialogs):
        for number, turn in enumerate(dialog["turns"]):
            ranking = rankings[f"{dialog['target']}-{number + 1}"]
            assert [rank for rank, *_ in ranking] == list(range(1, 13))
            assert [score for *_, score in ranking] == sorted((score for *_, score in ranking), reverse=True)
            assert ranking[turn["rank"]][1] == dialog["target"]
            if number + 1 < len(dialog["turns"]):  # the best one is shown next
                assert dialog["turns"][number + 1]["shown"] == ranking[0][1]


def test_the_report_shows_the_dialogs(runs):
    page = (runs.dialogs / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html")
    titles = [row["title"] for row in read(runs.catalog / "titles/dress.test.json").values()]
    assert "12 dialogs" in page and "drawn" in page and any(escape(title) in page for title in titles)


def test_own_vectors_without_attributes_go_all_the_way(vector_runs):
    assert np.load(vector_runs.store / "features.npy").shape == (60, 16)
    metrics = read(vector_runs.dialogs / "metrics.json")
    assert (
        metrics["features"] == "vectors of vectors.npy"
        and metrics["attributes"] is False
        and metrics["decoding"] == "most informative of 32 samples that are true by the labels"
    )


def test_metrics_and_models_end_with_their_provenance(vector_runs):
    facts, metrics = read(vector_runs.retriever / "model.json"), read(vector_runs.dialogs / "metrics.json")
    trained, evaluated = facts["provenance"], metrics["provenance"]
    assert list(facts)[-1] == list(metrics)[-1] == "provenance"
    assert (
        trained["command"].startswith("fashioniq train-retriever --")
        and f"--run {vector_runs.retriever}" in trained["command"]
    )
    assert evaluated["command"].startswith("fashioniq eval-dialogs --")
    assert trained["data"] == evaluated["data"] == {"dresses": metrics["fingerprint"]}
    assert evaluated["retriever"] == trained


def test_runs_of_earlier_versions_without_provenance_are_evaluated(evaluate, vector_runs, tmp_path):
    copytree(vector_runs.retriever, tmp_path / "old")
    facts = read(tmp_path / "old/model.json")
    (tmp_path / "old/model.json").write_text(
        json.dumps({name: value for name, value in facts.items() if name != "provenance"})
    )
    metrics = read(evaluate(run=tmp_path / "old") / "metrics.json")
    assert (
        metrics["turns"] == read(vector_runs.dialogs / "metrics.json")["turns"]
        and "retriever" not in metrics["provenance"]
    )


def test_another_seed_begins_with_other_products(evaluate, vector_runs):
    first, other = (
        [dialog["turns"][0]["shown"] for dialog in dialogs_of(folder)]
        for folder in (vector_runs.dialogs, evaluate(seed=1))
    )
    assert first != other


def test_the_same_evaluation_twice_is_the_same(evaluate, vector_runs, project):
    def content(path):  # another test may have had the page made with its plot, or without
        found = project.content(path)
        return re.sub(rb"<svg.*?</svg>", b"", found, flags=re.DOTALL) if isinstance(found, bytes) else found

    again = evaluate()
    for name in ("metrics.json", "dialogs.jsonl", *trec.FILES, "report.html"):
        assert content(again / name) == content(vector_runs.dialogs / name), name


def test_the_size_of_a_batch_changes_no_rank(evaluate, vector_runs):
    assert dialogs_of(evaluate(batch_size=5)) == dialogs_of(vector_runs.dialogs)


def test_a_shown_item_is_not_shown_again_with_exclude_shown(evaluate, vector_runs):
    shown = [
        [turn["shown"] for turn in dialog["turns"]] for dialog in dialogs_of(evaluate(exclude_shown=True))
    ]
    assert all(len(set(items)) == len(items) for items in shown)
    otherwise = [[turn["shown"] for turn in dialog["turns"]] for dialog in dialogs_of(vector_runs.dialogs)]
    assert any(len(set(items)) < len(items) for items in otherwise)


def test_the_recorded_captions_of_val_are_a_turn_of_people(evaluate, vector_runs):
    each, joined = (
        evaluate("each", user="human", split="val"),
        evaluate("joined", user="human", split="val", captions="joined"),
    )
    pairs = read(vector_runs.catalog / "captions/cap.dress.val.json")
    assert read(each / "metrics.json")["dialogs"] == 2 * len(pairs) and read(joined / "metrics.json")[
        "dialogs"
    ] == len(pairs)
    assert read(each / "metrics.json")["user"] == "recorded captions, each"
    assert [dialog["turns"][0]["shown"] for dialog in dialogs_of(joined)] == [
        pair["candidate"] for pair in pairs
    ]


def test_a_retriever_of_recorded_captions_marks_later_turns_as_the_one_it_learnt(
    evaluate, project, vector_runs, tmp_path
):
    options = {**project.retriever, "users": "recorded", "epochs": 1}
    project.run(
        "train-retriever",
        data=vector_runs.catalog,
        category="dresses",
        features=vector_runs.store,
        run=tmp_path / "run",
        **options,
    )
    assert read(tmp_path / "run" / "model.json")["sizes"]["max_turns"] == 1
    told = evaluate(run=tmp_path / "run", user=vector_runs.captioner, turns=3)
    assert [turn["turn"] for turn in read(told / "metrics.json")["turns"]] == [1, 2, 3]


@pytest.mark.parametrize("name", ["dress", "Dresses"])
def test_another_name_of_the_category_is_accepted(name, evaluate, vector_runs, project):
    assert project.content(evaluate(category=name) / "metrics.json") == project.content(
        vector_runs.dialogs / "metrics.json"
    )


@pytest.mark.parametrize("name", ["toptee", "tops&tees", "tops"])
def test_tops_go_by_all_their_names(name, project, sample, tmp_path):
    project.run(
        "extract-features", data=sample, category=name, encoder="metadata", features=tmp_path / "store"
    )
    assert read(tmp_path / "store" / "ids.json")[0].startswith("T")


def test_a_config_of_a_run_gives_the_same_run_again(project, vector_runs, tmp_path):
    for command, kind in (("train-captioner", "captioner"), ("train-retriever", "retriever")):
        run, again = getattr(vector_runs, kind), tmp_path / kind
        project.run(command, config=run / "config.yaml", run=again)
        assert losses_of(again) == losses_of(run) and len(set(losses_of(run))) == 2
        assert (again / "weights.safetensors").read_bytes() == (run / "weights.safetensors").read_bytes()
        assert {**yaml.safe_load((again / "config.yaml").read_text()), "run": None} == {
            **yaml.safe_load((run / "config.yaml").read_text()), "run": None}  # fmt: skip


def test_another_seed_gives_another_run(project, runs, tmp_path):
    project.run(
        "train-captioner", config=runs.captioner / "config.yaml", run=tmp_path / "run", seed=1, epochs=1
    )
    assert losses_of(tmp_path / "run")[0] != losses_of(runs.captioner)[0]


def test_the_configs_of_the_project_are_accepted_by_the_command_in_their_first_line(project, monkeypatch):
    monkeypatch.chdir(project.root)
    for path in sorted((project.root / "configs").rglob("*.yaml")):
        _, script, *flags = path.read_text().splitlines()[0].partition("   ")[0].split()[1:]
        settings = parse(SCRIPTS[script], flags)
        system = getattr(settings, "system", None)  # has options of its own
        kind = (system and plugins.options_of("systems", system)) or COMMANDS[SCRIPTS[script]]
        assert isinstance(settings, kind) and str(path.name) in " ".join(flags), path
        check(settings)


def test_extracting_a_finished_store_again_changes_nothing(project, vector_runs, tmp_path):
    store, folder = copytree(vector_runs.store, tmp_path / "store"), vector_runs.store.parent
    before = {path: path.stat().st_mtime_ns for path in store.iterdir()}
    project.run("extract-features", data=vector_runs.catalog, category="dresses", features=store,
                vectors=folder / "vectors.npy", ids=folder / "ids.json")  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in store.iterdir()} == before


def test_a_broken_picture_is_left_out_by_name(project, sample, tmp_path):
    catalog = copytree(
        sample, tmp_path / "catalog", ignore=lambda folder, names: ["features", "shirt", "toptee"]
    )
    ids = read(catalog / "image_splits/split.dress.train.json")
    (catalog / f"images/dress/{ids[0]}.jpg").write_bytes(b"not a picture")
    (catalog / f"images/dress/{ids[1]}.jpg").unlink()
    project.run("extract-features", data=catalog, category="dresses", **project.pictures)
    facts = read(catalog / "features/dress/store.json")
    assert (
        facts["count"] == 58
        and set(facts["failures"]) == {ids[0], ids[1]}
        and facts["attributes"] == "labels"
    )
    assert facts["failures"][ids[1]] == "no picture"


def efficientnet_pytorch_weights():
    return EfficientNet.from_name("efficientnet-b0").state_dict()


def timm_weights():
    return create_encoder("efficientnet-b0").state_dict()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("make", [efficientnet_pytorch_weights, timm_weights])
def test_weights_of_a_file_are_used(make, suffix, tmp_path):
    torch.manual_seed(7)
    weights, file = make(), tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(weights, file)
    encoder, identity = load_network("efficientnet-b0", str(file), 32)
    stem = weights.get("_conv_stem.weight", weights.get("conv_stem.weight"))
    assert torch.equal(encoder.state_dict()["conv_stem.weight"], stem) and identity == checksum(file)


def test_a_training_starts_from_the_weights_of_a_file(project, sample, tmp_path):
    torch.manual_seed(7)
    weights, file = create_encoder(project.pictures["encoder"]).state_dict(), tmp_path / "weights.pth"
    torch.save(weights, file)
    project.run("train-attributes", data=sample, category="dresses", run=tmp_path / "run", min_count=3, epochs=1, learning_rate=0.0,
                **{**project.pictures, "weights": file})  # fmt: skip
    stem = load_file(tmp_path / "run" / "weights.safetensors")["encoder.conv_stem.weight"]
    assert torch.equal(stem, weights["conv_stem.weight"])


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_explains_its_command_from_any_directory(script, project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(project.root / script), "--help"])
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(sys.argv[0], run_name="__main__")
    printed = capsys.readouterr().out
    assert exit.value.code == 0
    assert f"fashioniq {SCRIPTS[script]}" in printed and "--config" in printed
    assert list(tmp_path.iterdir()) == []


def test_a_script_runs_in_a_process_of_its_own(project, tmp_path):
    script = project.root / "data_prep" / "draw_sample.py"
    done = subprocess.run(
        [sys.executable, script, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0 and "fashioniq draw-sample" in done.stdout, done.stderr

"""A mistake of the user: one clear line, exit code 2, no traceback, nothing half-written left behind."""

import errno
import json
import resource
from contextlib import contextmanager
from shutil import copytree

import numpy as np
import pytest
import timm
from safetensors.torch import load_file, save_file

from fashioniq.cli import main


def read(path):
    return json.loads(path.read_text())


def cut(path):
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def change(path, key, value):
    path.write_text(json.dumps({**read(path), key: value}))


@pytest.fixture
def refused(capsys, project):
    """Run a command that has to fail at the user's mistake; return its one line."""

    def refused(command, **options):
        capsys.readouterr()
        try:
            code = main(project.arguments(command, **options))
        except SystemExit as left:  # the parser's way to refuse
            code = left.code
        lines = capsys.readouterr().err.splitlines()
        assert code == 2
        assert len(lines) == 1 and lines[0].startswith("error: "), lines
        return lines[0]

    return refused


@pytest.fixture
def unparsed(capsys, project):
    """Run a command that its parser has to refuse; return the line that says why."""

    def unparsed(command, **options):
        with pytest.raises(SystemExit) as exit:
            main(project.arguments(command, **options))
        assert exit.value.code == 2
        told = capsys.readouterr().err
        (line,) = [line for line in told.splitlines() if line.startswith("error: ")]
        assert "Traceback" not in told
        return line + told.partition(line)[2]

    return unparsed


@pytest.fixture
def catalog(vector_runs, tmp_path):
    """A copy of the sample's dresses, without pictures, to be damaged."""
    return copytree(vector_runs.catalog, tmp_path / "catalog", ignore=lambda folder, names: {"images", "features"} & set(names))


@pytest.fixture
def captioner(refused, project, vector_runs, tmp_path):
    """The options of a captioner's training on `catalog`, which has to fail and to leave no run."""
    run = tmp_path / "run"

    def captioner(catalog, **options):
        common = {"data": catalog, "category": "dresses", "features": vector_runs.store, "run": run}
        told = refused("train-captioner", **{**common, **project.captioner, **options})
        assert not run.exists()
        return told

    return captioner


@pytest.fixture
def retriever(refused, project, vector_runs, tmp_path):
    """As `captioner`, for a retriever's training."""
    run = tmp_path / "run"

    def retriever(**options):
        common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store, "captioner": vector_runs.captioner, "run": run}
        told = refused("train-retriever", **{**common, **project.retriever, **options})
        assert not run.exists()
        return told

    return retriever


@pytest.fixture
def dialogs(refused, vector_runs, tmp_path):
    """As `captioner`, for an evaluation."""
    out = tmp_path / "out"

    def dialogs(**options):
        common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store, "run": vector_runs.retriever, "out": out}
        told = refused("eval-dialogs", **{**common, **options})
        assert not out.exists()
        return told

    return dialogs


# what the parser refuses


def test_an_unknown_command_names_those_that_there_are(capsys):
    assert main(["train"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: unknown command 'train'") and "train-captioner" in told and told.count("\n") == 1


def test_an_unknown_flag_is_named(unparsed):
    assert "--widht" in unparsed("train-captioner", category="dresses", widht=32)


def test_a_missing_flag_is_named(unparsed):
    assert "category" in unparsed("train-captioner")


def test_a_word_where_a_number_belongs_is_named(unparsed):
    told = unparsed("train-captioner", category="dresses", epochs="many")
    assert "epochs" in told and "many" in told


def test_an_unknown_choice_names_the_known_ones(unparsed):
    assert "triplet-unsquared" in unparsed("train-retriever", category="dresses", loss="hinge")


def test_an_unknown_key_of_a_config_is_named(unparsed, tmp_path):
    (tmp_path / "config.yaml").write_text("category: dresses\nwidht: 32\n")
    assert "widht" in unparsed("train-captioner", config=tmp_path / "config.yaml")


def test_a_missing_config_is_named(unparsed, tmp_path):
    assert "none.yaml" in unparsed("train-captioner", config=tmp_path / "none.yaml")


def test_a_config_that_is_not_yaml_is_refused(unparsed, tmp_path):
    (tmp_path / "config.yaml").write_text("category: [dresses\n")
    assert "config" in unparsed("train-captioner", config=tmp_path / "config.yaml")


# catalogs


def test_a_missing_folder_is_named(captioner, tmp_path):
    assert f"there is no folder {tmp_path / 'none'}" in captioner(tmp_path / "none")


def test_a_folder_without_splits_says_what_is_missing(captioner, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "image_splits/split.*.json" in captioner(tmp_path / "empty")


def test_a_missing_category_names_those_that_there_are(captioner, catalog):
    assert "dresses, shirts, tops" in captioner(catalog, category="jeans")


def test_a_category_that_cannot_name_a_file_is_refused(captioner, catalog):
    assert "'../dresses' cannot name a category" in captioner(catalog, category="../dresses")


def test_captions_of_ids_outside_the_split_are_refused(captioner, catalog):
    path = catalog / "captions/cap.dress.train.json"
    rows = read(path)
    rows[3]["target"] = "B000000000"
    path.write_text(json.dumps(rows))
    told = captioner(catalog)
    assert "entry 3" in told and "'B000000000' is not in the train split" in told


def test_an_empty_split_is_refused(captioner, catalog):
    (catalog / "image_splits/split.dress.train.json").write_text("[]")
    assert "the train split of dresses is empty" in captioner(catalog)


def test_an_id_twice_in_a_split_is_refused(captioner, catalog):
    path = catalog / "image_splits/split.dress.train.json"
    path.write_text(json.dumps(read(path) * 2))
    assert "each once" in captioner(catalog)


@pytest.mark.parametrize("captions", [["", " "], [".", "?!"]], ids=["empty", "without a word"])
def test_captions_that_say_nothing_are_refused(captions, captioner, catalog):
    path = catalog / "captions/cap.dress.train.json"
    path.write_text(json.dumps([{**row, "captions": captions} for row in read(path)]))
    assert "holds no caption with words" in captioner(catalog)


def test_a_single_empty_caption_is_only_left_out(project, catalog, vector_runs, tmp_path, capsys):
    path = catalog / "captions/cap.dress.train.json"
    rows = read(path)
    rows[0]["captions"][1] = ""
    rows[1]["captions"] = ["", ""]
    path.write_text(json.dumps(rows))
    project.run("train-captioner", data=catalog, category="dresses", features=vector_runs.store, run=tmp_path / "run",
                **{**project.captioner, "epochs": 1})  # fmt: skip
    assert f"{len(rows) - 1} of {len(rows) - 1} captioned pairs" in capsys.readouterr().out


def test_captions_without_targets_cannot_be_trained_on(captioner, catalog):
    path = catalog / "captions/cap.dress.train.json"
    path.write_text(json.dumps([{key: value for key, value in row.items() if key != "target"} for row in read(path)]))
    assert "name no target" in captioner(catalog)


@pytest.mark.parametrize("path", ["image_splits/split.dress.train.json", "captions/cap.dress.val.json", "catalog.json"])
def test_truncated_json_of_a_catalog_is_named(path, captioner, catalog):
    cut(catalog / path)
    assert f"{catalog / path} is not valid JSON" in captioner(catalog)


@pytest.mark.parametrize("content", ['{"a": 1}', "[1, 2]", '["a", null]'])
def test_a_split_that_is_no_list_of_ids_is_refused(content, captioner, catalog):
    path = catalog / "image_splits/split.dress.train.json"
    path.write_text(content)
    assert str(path) in captioner(catalog)


@pytest.mark.parametrize("content", ['{"a": 1}', "[1]", '[{"candidate": "x"}]', '[{"candidate": ["x"], "captions": ["red"]}]'])
def test_malformed_captions_are_refused(content, captioner, catalog):
    path = catalog / "captions/cap.dress.train.json"
    path.write_text(content)
    assert str(path) in captioner(catalog)


# feature stores


def test_a_missing_store_names_the_command_that_makes_it(captioner, catalog, tmp_path):
    assert "fashioniq extract-features" in captioner(catalog, features=tmp_path / "none")


@pytest.mark.parametrize("name", ["store.json", "ids.json", "features.npy", "attributes.npy"])
def test_a_truncated_store_is_named(name, captioner, catalog, vector_runs, tmp_path):
    store = copytree(vector_runs.store, tmp_path / "store")
    cut(store / name)
    assert str(store / name) in captioner(catalog, features=store)


def test_a_store_of_another_category_is_refused(captioner, catalog):
    assert "extract this category's features" in captioner(catalog, category="tops")


def test_attributes_asked_of_a_store_without_are_refused(captioner, catalog, vector_runs, tmp_path):
    store = copytree(vector_runs.store, tmp_path / "store")
    change(store / "store.json", "attribute_words", [])
    assert "leave --attrs out" in captioner(catalog, features=store, attrs=True)


def test_a_store_of_another_encoder_is_not_mixed(refused, vector_runs):
    before = {path: path.read_bytes() for path in vector_runs.store.iterdir()}
    told = refused("extract-features", data=vector_runs.catalog, category="dresses", features=vector_runs.store, encoder="metadata")
    assert "a different encoder" in told and "metadata" in told and "--features" in told
    assert {path: path.read_bytes() for path in vector_runs.store.iterdir()} == before


def test_an_extraction_without_pictures_says_so(refused, project, catalog):
    told = refused("extract-features", data=catalog, category="dresses", **project.pictures)
    assert "no picture" in told
    assert not (catalog / "features/dress/store.json").exists()


def test_ids_must_be_as_many_as_vectors(refused, vector_runs, tmp_path):
    folder = vector_runs.store.parent
    (tmp_path / "ids.json").write_text('["one"]')
    told = refused("import-features", data=vector_runs.catalog, category="dresses", features=tmp_path / "store",
                   vectors=folder / "vectors.npy", ids=tmp_path / "ids.json")  # fmt: skip
    assert "1 ids" in told and "60 rows" in told and not (tmp_path / "store").exists()


def test_vectors_that_are_not_finite_are_refused(refused, vector_runs, tmp_path):
    np.save(tmp_path / "vectors.npy", np.full((60, 4), np.nan, np.float32))
    told = refused("import-features", data=vector_runs.catalog, category="dresses", features=tmp_path / "store",
                   vectors=tmp_path / "vectors.npy", ids=vector_runs.store.parent / "ids.json")  # fmt: skip
    assert "not finite" in told and not (tmp_path / "store").exists()


def test_a_full_disk_leaves_a_store_that_the_same_command_completes(refused, project, vector_runs, tmp_path, monkeypatch):
    store, folder = tmp_path / "store", vector_runs.store.parent
    options = {"data": vector_runs.catalog, "category": "dresses", "features": store, "vectors": folder / "vectors.npy", "ids": folder / "ids.json"}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        assert "no space left to write" in refused("import-features", **options)
    assert not (store / "store.json").exists() and not list(store.rglob(".*"))
    project.run("import-features", **options)
    for name in ("features.npy", "attributes.npy", "ids.json"):
        assert (store / name).read_bytes() == (vector_runs.store / name).read_bytes()


@contextmanager
def files_of_at_most(size):
    """Writing beyond `size` fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [20_000, 200_000], ids=["weights", "checkpoint"])
def test_a_disk_that_fills_while_training_is_told_in_one_line(size, refused, project, vector_runs, tmp_path):
    weights = (vector_runs.captioner / "weights.safetensors").stat().st_size
    assert 20_000 < weights < 200_000 < (vector_runs.captioner / "last.ckpt").stat().st_size
    with files_of_at_most(size):
        told = refused("train-captioner", data=vector_runs.catalog, category="dresses", features=vector_runs.store, run=tmp_path / "run",
                       **{**project.captioner, "epochs": 1})  # fmt: skip
    assert str(tmp_path / "run") in told
    assert not {path.name for path in (tmp_path / "run").iterdir()} - {"config.yaml", "metrics.csv", "model.json", "weights.safetensors"}


# weights of an encoder


@pytest.fixture
def encoder(refused, project, sample, tmp_path):
    """Extract features with some encoder weights, which has to fail and leave no store."""

    def encoder(**options):
        store = tmp_path / "store"
        told = refused("extract-features", data=sample, category="dresses", features=store, **{**project.pictures, **options})
        assert not store.exists()
        return told

    return encoder


@pytest.fixture
def offline(monkeypatch):
    real = timm.create_model

    def create_model(name, pretrained=False, **options):
        if pretrained:
            raise ConnectionError("Max retries exceeded with url: /timm\nmore of it")
        return real(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)


def test_imagenet_weights_without_a_network_name_the_ways_out(encoder, offline):
    told = encoder(weights="imagenet")
    assert "could not be downloaded" in told and "--weights FILE" in told and "--weights none" in told


def test_an_unknown_encoder_is_named(encoder):
    told = encoder(encoder="efficientnet-b99")
    assert "efficientnet-b99" in told and "efficientnet-b7" in told


def test_a_size_that_an_encoder_does_not_take_is_told(encoder):
    assert "vit_tiny_patch16_224 takes no pictures of 64 pixels" in encoder(encoder="vit_tiny_patch16_224", weights="none", image_size=64)


def test_a_missing_file_of_weights_is_named(encoder, tmp_path):
    assert str(tmp_path / "none.pth") in encoder(weights=tmp_path / "none.pth")


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_a_file_that_holds_no_weights_is_named(name, encoder, tmp_path):
    (tmp_path / name).write_bytes(b"no weights at all")
    assert f"{tmp_path / name} does not hold weights of efficientnet-b0" in encoder(weights=tmp_path / name)


def test_weights_of_another_network_are_refused(encoder, vector_runs):
    assert "does not hold weights of efficientnet-b0" in encoder(weights=vector_runs.captioner / "weights.safetensors")


@pytest.mark.parametrize("weights", ["imagenet", "none.pth"])
def test_an_attribute_training_without_its_weights_leaves_no_run(weights, refused, project, sample, offline, tmp_path):
    run = tmp_path / "run"
    refused("train-attributes", data=sample, category="dresses", run=run, min_count=3, **{**project.pictures, "weights": weights})
    assert not run.exists()


def test_an_attribute_training_whose_first_stage_is_damaged_leaves_no_run(refused, sample, attribute_runs, tmp_path):
    first, run = copytree(attribute_runs[0], tmp_path / "first"), tmp_path / "run"
    cut(first / "weights.safetensors")
    assert "is damaged" in refused("train-attributes", data=sample, category="dresses", run=run, init_from=first, min_count=3, workers=0)
    assert not run.exists()


def test_labels_that_no_product_carries_often_enough_are_told(refused, project, sample, tmp_path):
    told = refused("train-attributes", data=sample, run=tmp_path / "run", min_count=999, **project.pictures)
    assert "--at-least" in told and not (tmp_path / "run").exists()


# runs


def test_a_missing_run_is_named(retriever, dialogs, tmp_path):
    assert f"there is no run {tmp_path / 'none'}" in retriever(captioner=tmp_path / "none")
    assert f"there is no run {tmp_path / 'none'}" in dialogs(run=tmp_path / "none")
    assert f"there is no run {tmp_path / 'none'}" in dialogs(user=tmp_path / "none")


def test_a_run_of_the_wrong_kind_is_refused(retriever, dialogs, vector_runs):
    assert "holds a retriever, not a captioner" in retriever(captioner=vector_runs.retriever)
    assert "holds a captioner, not a retriever" in dialogs(run=vector_runs.captioner)
    assert "holds a retriever, not a captioner" in dialogs(user=vector_runs.retriever)


def test_a_captioner_of_another_category_is_refused(retriever, dialogs):
    assert "was trained on dresses, not on tops" in retriever(category="tops")
    assert "was trained on dresses, not on shirts" in dialogs(category="shirts")


def test_a_captioner_of_other_features_is_refused(retriever, dialogs, runs):
    for told in (retriever(captioner=runs.captioner), dialogs(user=runs.captioner)):
        assert "trained with a different encoder" in told and "efficientnet-b0" in told


def test_a_store_of_another_size_is_refused(retriever, vector_runs, tmp_path):
    store = copytree(vector_runs.store, tmp_path / "store")
    np.save(store / "features.npy", np.load(store / "features.npy")[:, :8])
    change(store / "store.json", "dimensions", 8)
    assert "a different dimensions" in retriever(features=store)


@pytest.mark.parametrize("kind", ["captioner", "retriever"])
def test_a_truncated_run_is_named(kind, retriever, dialogs, vector_runs, tmp_path):
    damaged = copytree(getattr(vector_runs, kind), tmp_path / "damaged")
    opened = retriever if kind == "captioner" else dialogs
    option = {"captioner": damaged} if kind == "captioner" else {"run": damaged}
    cut(damaged / "weights.safetensors")
    assert f"{damaged / 'weights.safetensors'} is damaged" in opened(**option)
    cut(damaged / "model.json")
    assert f"{damaged / 'model.json'} is not valid JSON" in opened(**option)


def test_weights_of_another_model_are_refused(dialogs, vector_runs, tmp_path):
    run = copytree(vector_runs.retriever, tmp_path / "other")
    weights = load_file(run / "weights.safetensors")
    save_file({name: tensor for name, tensor in weights.items() if name != "special"}, run / "weights.safetensors")
    assert "belongs to another model" in dialogs(run=run)


def test_an_existing_run_is_not_written_over(refused, project, vector_runs):
    before = (vector_runs.captioner / "config.yaml").read_bytes()
    told = refused("train-captioner", config=vector_runs.captioner / "config.yaml", seed=5)
    assert "holds a run already" in told and "--resume" in told
    assert (vector_runs.captioner / "config.yaml").read_bytes() == before


def test_missing_word_vectors_are_named(retriever, tmp_path):
    assert str(tmp_path / "glove.txt") in retriever(word_vectors=tmp_path / "glove.txt")
    (tmp_path / "glove.txt").write_text("neither\nof both formats\n")
    assert "is not a whole file of word vectors" in retriever(word_vectors=tmp_path / "glove.txt")


# numbers that cannot be


@pytest.mark.parametrize("option", [{"model.heads": 5}, {"model.heads": 0}, {"batch_size": 0}, {"epochs": 0}, {"beam": 0}, {"warmup": 0},
                                    {"model.max_words": 0}, {"model.dropout": 2.0}, {"model.layers": -1}, {"precision": "half"}],
                         ids=str)  # fmt: skip
def test_a_captioner_of_impossible_settings_is_refused(option, captioner, vector_runs):
    assert next(iter(option)).replace("_", "-") in captioner(vector_runs.catalog, **option)


@pytest.mark.parametrize("option", [{"model.heads": 5}, {"turns": 0}, {"batch_size": 0}, {"epochs": 0}], ids=str)
def test_a_retriever_of_impossible_settings_is_refused(option, retriever):
    assert next(iter(option)).replace("_", "-") in retriever(**option)


@pytest.mark.parametrize("option", [{"image_size": 0}, {"batch_size": 0}, {"batch_size": -1}], ids=str)
def test_an_extraction_of_impossible_settings_is_refused(option, encoder):
    assert next(iter(option)).replace("_", "-") in encoder(**option)


# evaluations


@pytest.mark.parametrize("option", [{"split": "nonsense"}, {"turns": 0}, {"beam": 0}, {"batch_size": 0}, {"device": "abacus"}], ids=str)
def test_an_evaluation_of_impossible_settings_is_refused(option, dialogs):
    (name, value) = next(iter(option.items()))
    told = dialogs(**option)
    assert name.replace("_", "-") in told
    assert not isinstance(value, str) or value in told


def test_recorded_captions_without_targets_cannot_be_evaluated(dialogs):
    assert "use train or val" in dialogs(user="human", split="test")


def test_more_turns_than_products_cannot_all_show_another_one(dialogs):
    assert "--turns" in dialogs(exclude_shown=True, turns=13)  # the gallery holds 12


def test_first_candidates_of_another_gallery_are_refused(dialogs, vector_runs):
    told = dialogs(split="val", first_candidates=vector_runs.dialogs / "first_candidates.json")
    assert "no first candidate in this gallery for 12 targets" in told


def test_what_is_for_the_other_kind_of_user_is_refused(dialogs, vector_runs):
    assert "--captions joined" in dialogs(captions="joined")
    first = vector_runs.dialogs / "first_candidates.json"
    assert "--first-candidates" in dialogs(user="human", split="val", first_candidates=first)


@pytest.mark.parametrize("content", ['{"first": "the candidate of each pair"}', '{"first": []}', "[]", '{"first": {"a": ["b"]}}', '{"fir'])
def test_malformed_first_candidates_are_refused(content, dialogs, tmp_path):
    path = tmp_path / "first.json"
    path.write_text(content)
    assert str(path) in dialogs(first_candidates=path)


def test_a_result_that_cannot_be_written_is_told(refused, vector_runs, tmp_path):
    (tmp_path / "file").write_text("")
    told = refused("eval-dialogs", data=vector_runs.catalog, category="dresses", features=vector_runs.store, run=vector_runs.retriever,
                   out=tmp_path / "file" / "out", beam=1, turns=1)  # fmt: skip
    assert "cannot write" in told


def test_stopping_an_evaluation_by_hand_is_no_traceback(project, vector_runs, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fashioniq.evaluation.run.rollout", stop)
    assert main(project.arguments("eval-dialogs", data=vector_runs.catalog, category="dresses", features=vector_runs.store,
                                  run=vector_runs.retriever, out=tmp_path / "out")) == 130  # fmt: skip
    assert capsys.readouterr().err == "interrupted\n" and not (tmp_path / "out").exists()

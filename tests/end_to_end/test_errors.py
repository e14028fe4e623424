"""A mistake of the user: one clear line, exit code 2, no traceback, no partial output.

CASES is a table of commands that must fail: what is wrong, and what the line must say. Tests of their own
follow for whatever else must hold.
"""

import errno
import json
import resource
from collections.abc import Callable
from contextlib import contextmanager
from shutil import copytree
from typing import Any, NamedTuple

import numpy as np
import pytest
import timm
from safetensors.torch import load_file, save_file

from fashioniq.cli import main

TRAIN_CAPTIONS, TRAIN_SPLIT = "captions/cap.dress.train.json", "image_splits/split.dress.train.json"


def read(path):
    return json.loads(path.read_text())


def cut(path):
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def change(path, key, value):
    path.write_text(json.dumps({**read(path), key: value}))


class Case(NamedTuple):
    """A command that must fail.

    In texts and options, "{name}" is an attribute of the files given to `damage`.
    """

    name: str
    command: str  # of `commands`
    expected: tuple[str, ...]  # parts of the line
    options: dict[str, Any]
    damage: Callable[[Any], None]


def case(name, command, *expected, damage=lambda files: None, **options):
    return Case(name, command, expected, options, damage)


def each(name, command, options, damage=lambda files: None):
    """A case for each of some impossible settings, whose line must name the option."""
    return [
        case(f"{name}[{one}]", command, next(iter(one)).replace("_", "-"), damage=damage, **one)
        for one in options
    ]


# what is done to the files of a case


def rewrite(path, edit):
    """Replace the content of a JSON file of the catalog by `edit` of it."""

    def damage(files):
        file = files.catalog / path
        file.write_text(json.dumps(edit(read(file))))

    return damage


def replace(path, text):
    return lambda files: (files.catalog / path).write_text(text)


def elsewhere(name, content):
    """Write a file beside the catalog."""
    return lambda files: (files.tmp / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


def half(*path):
    """Cut a file: half("store", "ids.json") is that of the copied store."""
    return lambda files: cut(getattr(files, path[0]) / path[1])


def foreign_target(rows):
    rows[3]["target"] = "B000000000"
    return rows


def narrow(files):
    np.save(files.store / "features.npy", np.load(files.store / "features.npy")[:, :8])
    change(files.store / "store.json", "dimensions", 8)


def other_weights(files):
    weights = load_file(files.retriever / "weights.safetensors")
    save_file(
        {name: tensor for name, tensor in weights.items() if name != "special"},
        files.retriever / "weights.safetensors",
    )


def first_and_one_id(files):
    (files.tmp / "ids.json").write_text('["one"]')


def not_finite(files):
    np.save(files.tmp / "nan.npy", np.full((60, 4), np.nan, np.float32))


CASES = [
    # what the parser refuses
    case("an_unknown_flag_is_named", "parse train-captioner", "--widht", category="dresses", widht=32),
    case("a_missing_flag_is_named", "parse train-captioner", "category"),
    case("a_word_where_a_number_belongs_is_named", "parse train-captioner", "epochs", "many", category="dresses", epochs="many"),
    case("an_unknown_choice_names_the_known_ones", "parse train-retriever", "triplet-unsquared", category="dresses", loss="hinge"),
    case("an_unknown_key_of_a_config_is_named", "parse train-captioner", "widht", config="{tmp}/config.yaml",
         damage=elsewhere("config.yaml", "category: dresses\nwidht: 32\n")),
    case("a_missing_config_is_named", "parse train-captioner", "none.yaml", config="{tmp}/none.yaml"),
    case("a_config_that_is_not_yaml_is_refused", "parse train-captioner", "config", config="{tmp}/config.yaml",
         damage=elsewhere("config.yaml", "category: [dresses\n")),
    # catalogs
    case("a_missing_folder_is_named", "captioner", "there is no folder {tmp}/none", data="{tmp}/none"),
    case("a_folder_without_splits_says_what_is_missing", "captioner", "image_splits/split.*.json", data="{tmp}/empty",
         damage=lambda files: (files.tmp / "empty").mkdir()),
    case("a_missing_category_names_those_that_there_are", "captioner", "dresses, shirts, tops", category="jeans"),
    case("a_category_that_cannot_name_a_file_is_refused", "captioner", "'../dresses' is not a valid category", category="../dresses"),
    case("captions_of_ids_outside_the_split_are_refused", "captioner", "entry 3", "'B000000000' is not in the train split",
         damage=rewrite(TRAIN_CAPTIONS, foreign_target)),
    case("an_empty_split_is_refused", "captioner", "the train split of dresses is empty", damage=replace(TRAIN_SPLIT, "[]")),
    case("an_id_twice_in_a_split_is_refused", "captioner", "duplicates", damage=rewrite(TRAIN_SPLIT, lambda ids: ids * 2)),
    *[case(f"captions_that_say_nothing_are_refused[{name}]", "captioner", "has no caption with words",
           damage=rewrite(TRAIN_CAPTIONS, lambda rows, captions=captions: [{**row, "captions": captions} for row in rows]))
      for name, captions in (("empty", ["", " "]), ("without a word", [".", "?!"]))],
    case("captions_without_targets_cannot_be_trained_on", "captioner", "have no targets",
         damage=rewrite(TRAIN_CAPTIONS, lambda rows: [{key: value for key, value in row.items() if key != "target"} for row in rows])),
    *[case(f"truncated_json_of_a_catalog_is_named[{path}]", "captioner", f"{{catalog}}/{path} is not valid JSON", damage=half("catalog", path))
      for path in (TRAIN_SPLIT, "captions/cap.dress.val.json", "catalog.json")],
    *[case(f"a_split_that_is_no_list_of_ids_is_refused[{content}]", "captioner", f"{{catalog}}/{TRAIN_SPLIT}",
           damage=replace(TRAIN_SPLIT, content)) for content in ('{"a": 1}', "[1, 2]", '["a", null]')],
    *[case(f"malformed_captions_are_refused[{content}]", "captioner", f"{{catalog}}/{TRAIN_CAPTIONS}", damage=replace(TRAIN_CAPTIONS, content))
      for content in ('{"a": 1}', "[1]", '[{"candidate": "x"}]', '[{"candidate": ["x"], "captions": ["red"]}]')],
    # feature stores
    case("a_missing_store_names_the_command_that_makes_it", "captioner", "fashioniq extract-features", features="{tmp}/none"),
    *[case(f"a_truncated_store_is_named[{name}]", "captioner", f"{{store}}/{name}", features="{store}", damage=half("store", name))
      for name in ("store.json", "ids.json", "features.npy", "attributes.npy")],
    case("a_store_of_another_category_is_refused", "captioner", "extract this category's features", category="tops"),
    case("attributes_asked_of_a_store_without_are_refused", "captioner", "omit --attrs", features="{store}", attrs=True,
         damage=lambda files: change(files.store / "store.json", "attribute_words", [])),
    case("an_extraction_without_pictures_says_so", "no pictures", "no picture", data="{catalog}"),
    case("ids_must_be_as_many_as_vectors", "vectors", "1 ids", "60 rows", ids="{tmp}/ids.json", damage=first_and_one_id),
    case("vectors_that_are_not_finite_are_refused", "vectors", "expected finite numbers", vectors="{tmp}/nan.npy", damage=not_finite),
    # weights of an encoder
    case("imagenet_weights_without_a_network_name_the_ways_out", "pictures", "could not be downloaded", "model.safetensors", "--weights",
         weights="imagenet"),
    case("an_unknown_encoder_is_named", "pictures", "efficientnet-b99", "efficientnet-b7", encoder="efficientnet-b99"),
    case("a_size_that_an_encoder_does_not_take_is_told", "pictures", "vit_tiny_patch16_224 does not support pictures of 64 pixels",
         encoder="vit_tiny_patch16_224", weights="none", image_size=64),
    case("a_missing_file_of_weights_is_named", "pictures", "{tmp}/none.pth", weights="{tmp}/none.pth"),
    *[case(f"a_file_that_holds_no_weights_is_named[{name}]", "pictures", f"cannot read tensors from {{tmp}}/{name}",
           weights=f"{{tmp}}/{name}", damage=elsewhere(name, b"no weights at all")) for name in ("weights.pth", "weights.safetensors")],
    case("weights_of_another_network_are_refused", "pictures", "does not contain weights of {encoder}",
         weights="{captioner}/weights.safetensors"),
    *[case(f"an_attribute_training_without_its_weights_leaves_no_run[{weights}]", "attributes", weights="imagenet" if "." not in weights else weights)
      for weights in ("imagenet", "none.pth")],
    case("an_attribute_training_whose_first_stage_is_damaged_leaves_no_run", "second attributes", "is damaged", init_from="{first}",
         damage=half("first", "weights.safetensors")),
    case("labels_that_no_product_carries_often_enough_are_told", "attributes", "--min-count", min_count=999, category=None),
    # runs
    case("a_missing_run_is_named[captioner]", "retriever", "in {tmp}/none, found no such folder", captioner="{tmp}/none"),
    case("a_missing_run_is_named[run]", "dialogs", "in {tmp}/none, found no such folder", run="{tmp}/none"),
    case("a_missing_run_is_named[user]", "dialogs", "in {tmp}/none, found no such folder", user="{tmp}/none"),
    case("a_misspelled_user_is_told_with_the_known_ones", "dialogs", "expected human, sessions, differences, grammar", "correct --user", user="humn"),
    case("a_missing_default_captioner_is_told_with_the_ways_out", "retriever", "found no captioner in runs/captioner-dresses, the default",
         "`fashioniq train-captioner --data", "--category dresses --features", "--captioner", "--users differences recorded", captioner=None),
    case("an_unknown_training_user_is_named_with_the_known_ones", "retriever", "expected captioner, differences, recorded, a run",
         "found strangers", users="strangers"),
    case("a_missing_run_is_told_before_missing_data", "dialogs", "in {tmp}/none, found no such folder", "`fashioniq train-retriever`",
         run="{tmp}/none", data="{tmp}/none"),
    case("a_folder_that_is_no_run_is_told_before_missing_data", "dialogs", "in {tmp}/empty, found no model.json", "`fashioniq train-retriever`",
         run="{tmp}/empty", data="{tmp}/none", damage=lambda files: (files.tmp / "empty").mkdir()),
    case("a_run_of_the_wrong_kind_is_refused[captioner]", "retriever", "expected a captioner, found a retriever", captioner="{retriever}"),
    case("a_run_of_the_wrong_kind_is_refused[run]", "dialogs", "expected a retriever, found a captioner", run="{captioner}"),
    case("a_run_of_the_wrong_kind_is_refused[user]", "dialogs", "expected a captioner, found a retriever", user="{retriever}"),
    case("a_captioner_of_another_category_is_refused[captioner]", "retriever", "was trained on dresses, not on tops", category="tops"),
    case("a_captioner_of_another_category_is_refused[run]", "dialogs", "was trained on dresses, not on shirts", category="shirts"),
    case("a_captioner_of_other_features_is_refused[captioner]", "retriever", "trained with a different encoder", "{encoder}",
         captioner="{other_captioner}"),
    case("a_captioner_of_other_features_is_refused[user]", "dialogs", "trained with a different encoder", "{encoder}",
         user="{other_captioner}"),
    case("a_store_of_another_size_is_refused", "retriever", "a different vector size", features="{store}", damage=narrow),
    *[case(f"a_truncated_run_is_named[{kind}-{name}]", "retriever" if kind == "captioner" else "dialogs", f"{{{kind}}}/{name} is {what}",
           damage=half(kind, name), **{"captioner" if kind == "captioner" else "run": f"{{{kind}}}"})
      for kind in ("captioner", "retriever") for name, what in (("weights.safetensors", "damaged"), ("model.json", "not valid JSON"))],
    case("weights_of_another_model_are_refused", "dialogs", "belongs to another model", run="{retriever}", damage=other_weights),
    case("missing_word_vectors_are_named", "retriever", "{tmp}/glove.txt", word_vectors="{tmp}/glove.txt"),
    case("malformed_word_vectors_are_refused", "retriever", "is not a complete word vector file", word_vectors="{tmp}/glove.txt",
         damage=elsewhere("glove.txt", "neither\nof both formats\n")),
    case("the_default_retriever_has_no_place_for_word_vectors", "retriever", "--word-vectors needs", "--model.kind transformer or rnn",
         word_vectors="{tmp}/glove.txt", damage=elsewhere("glove.txt", "is 0.1 0.2\nred 0.3 0.4\n"), **{"model.kind": None}),
    case("a_composer_without_captions_has_no_place_for_word_vectors", "parse train-composer", "composition E reads no captions",
         category="dresses", word_vectors="{tmp}/glove.txt", **{"model.composition": "E"}),
    # numbers that cannot be
    *each("a_captioner_of_impossible_settings_is_refused", "captioner",
          [{"model.heads": 5}, {"model.heads": -1}, {"batch_size": -1}, {"epochs": 0}, {"beam": 0}, {"warmup": -1},
           {"model.max_words": 0}, {"model.dropout": 2.0},
           {"model.layers": -1}, {"precision": "half"}]),
    *each("a_retriever_of_impossible_settings_is_refused", "retriever", [{"model.heads": 5}, {"turns": 0}, {"batch_size": 0}, {"epochs": 0}]),
    *each("an_extraction_of_impossible_settings_is_refused", "pictures", [{"image_size": 0}, {"batch_size": 0}, {"batch_size": -1}]),
    # evaluations
    *each("an_evaluation_of_impossible_settings_is_refused", "dialogs", [{"turns": 0}, {"beam": 0}, {"batch_size": 0}]),
    case("an_evaluation_of_an_unknown_split_is_refused", "dialogs", "split", "nonsense", split="nonsense"),
    case("an_evaluation_on_an_unknown_device_is_refused", "dialogs", "device", "abacus", device="abacus"),
    case("recorded_captions_without_targets_cannot_be_evaluated", "dialogs", "use train or val", user="human", split="test"),
    # the gallery holds 12
    case("more_turns_than_products_cannot_all_show_another_one", "dialogs", "--turns", exclude_shown=True, turns=13),
    case("what_is_for_the_other_kind_of_user_is_refused[captions]", "dialogs", "--captions joined", captions="joined"),
]  # fmt: skip


class Files:
    """What the cases damage: copies, each made when first asked for."""

    def __init__(self, tmp, vector_runs, runs, attribute_runs, encoder):
        self.tmp, self.dialogs, self.other_captioner, self.encoder = (
            tmp,
            vector_runs.dialogs,
            runs.captioner,
            encoder,
        )
        self._originals = {"store": vector_runs.store, "captioner": vector_runs.captioner, "retriever": vector_runs.retriever,
                           "first": attribute_runs[0], "catalog": vector_runs.catalog}  # fmt: skip

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._originals:
            raise AttributeError(name)
        without = {"images", "features"} if name == "catalog" else set()
        copy = copytree(
            self._originals[name], self.tmp / name, ignore=lambda folder, names: without & set(names)
        )
        setattr(self, name, copy)
        return copy


@pytest.fixture
def files(tmp_path, vector_runs, runs, attribute_runs, project):
    return Files(tmp_path, vector_runs, runs, attribute_runs, project.pictures["encoder"])


def commands(files, project, vector_runs, sample):
    """Of each name in CASES the command, its options, and the path that it must not leave."""
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    run, out, store = files.tmp / "run", files.tmp / "out", files.tmp / "new"
    pictures = {"data": sample, "category": "dresses", "features": store, **project.pictures}
    vectors = {
        "vectors": vector_runs.store.parent / "vectors.npy",
        "ids": vector_runs.store.parent / "ids.json",
    }
    return {
        "captioner": (
            "train-captioner",
            {**common, **project.captioner, "data": "{catalog}", "run": run},
            run,
        ),
        "retriever": (
            "train-retriever",
            {**common, **project.retriever, "captioner": vector_runs.captioner, "run": run},
            run,
        ),
        "dialogs": ("eval-dialogs", {**common, "run": vector_runs.retriever, "out": out}, out),
        "pictures": ("extract-features", pictures, store),
        "no pictures": ("extract-features", pictures, store / "store.json"),
        "vectors": ("extract-features", {**common, **vectors, "features": store}, store),
        "attributes": (
            "train-attributes",
            {"data": sample, "category": "dresses", "run": run, "min_count": 3, **project.pictures},
            run,
        ),
        "second attributes": (
            "train-attributes",
            {"data": sample, "category": "dresses", "run": run, "min_count": 3, "workers": 0},
            run,
        ),
    }


@pytest.fixture
def offline(monkeypatch):
    real = timm.create_model

    def create_model(name, pretrained=False, **options):
        if pretrained:
            raise ConnectionError("Max retries exceeded with url: /timm\nmore of it")
        return real(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_refused_in_one_line_that_names_it(
    case, files, refused, project, vector_runs, sample, offline
):
    case.damage(files)

    def filled(value):
        return value.format_map(Attributes(files)) if isinstance(value, str) else value

    parsing, _, command = case.command.partition("parse ")
    if parsing:
        command, options, made = commands(files, project, vector_runs, sample)[case.command]
        options = {**options, **case.options}
    else:
        options, made = case.options, files.tmp / "run"
    line = refused(command, **{name: filled(value) for name, value in options.items() if value is not None})
    for part in case.expected:
        assert filled(part) in line
    assert not made.exists()


class Attributes(dict):
    """The attributes of an object, for str.format_map."""

    def __init__(self, of):
        self.of = of

    def __missing__(self, name):
        return getattr(self.of, name)


def test_an_unknown_command_names_those_that_there_are(capsys):
    assert main(["train"]) == 2
    printed = capsys.readouterr().err
    assert (
        printed.startswith("error: unknown command 'train'")
        and "train-captioner" in printed
        and printed.count("\n") == 1
    )


@pytest.fixture
def catalog(files):
    return files.catalog


def test_a_single_empty_caption_is_only_left_out(project, catalog, vector_runs, tmp_path, capsys):
    path = catalog / "captions/cap.dress.train.json"
    rows = read(path)
    rows[0]["captions"][1] = ""
    rows[1]["captions"] = ["", ""]
    path.write_text(json.dumps(rows))
    project.run("train-captioner", data=catalog, category="dresses", features=vector_runs.store, run=tmp_path / "run",
                **{**project.captioner, "epochs": 1})  # fmt: skip
    assert f"{len(rows) - 1} of {len(rows) - 1} captioned pairs" in capsys.readouterr().out


def test_a_store_of_another_encoder_is_not_mixed(refused, vector_runs, tmp_path):
    store = copytree(vector_runs.store, tmp_path / "store")
    before = {path: path.read_bytes() for path in store.iterdir()}
    printed = refused(
        "extract-features", data=vector_runs.catalog, category="dresses", features=store, encoder="metadata"
    )
    assert "a different encoder" in printed and "metadata" in printed and "--features" in printed
    assert {path: path.read_bytes() for path in store.iterdir()} == before


def test_a_full_disk_leaves_a_store_that_the_same_command_completes(
    refused, project, vector_runs, tmp_path, monkeypatch
):
    store, folder = tmp_path / "store", vector_runs.store.parent
    options = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": store,
        "vectors": folder / "vectors.npy",
        "ids": folder / "ids.json",
    }

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        assert "no space left to write" in refused("extract-features", **options)
    assert not (store / "store.json").exists() and not list(store.rglob(".*"))
    project.run("extract-features", **options)
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
    assert not {path.name for path in (tmp_path / "run").iterdir()} - {
        "config.yaml",
        "judge",
        "listener",
        "metrics.csv",
        "model.json",
        "weights.safetensors",
    }


def test_an_existing_run_is_not_written_over(refused, project, vector_runs):
    before = (vector_runs.captioner / "config.yaml").read_bytes()
    told = refused("train-captioner", config=vector_runs.captioner / "config.yaml", seed=5)
    assert "already has a run" in told and "--resume" in told
    assert (vector_runs.captioner / "config.yaml").read_bytes() == before


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

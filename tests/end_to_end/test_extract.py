"""Extraction of pictures: killed, taken away, added to; nothing is lost and nothing is there twice."""

import json
import os
import signal
from shutil import copytree, ignore_patterns

import numpy as np
import pytest
import torch

from fashioniq.cli import main
from fashioniq.features import pictures as sources, writer as filling
from fashioniq.features.store import FeatureStore
from tests.waiting import ended


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(filling, "PART", 16)


@pytest.fixture
def catalog(sample, tmp_path):
    """A copy of the sample to be changed, in which one picture cannot be read."""
    folder = copytree(sample, tmp_path / "catalog", ignore=lambda folder, names: {"features"} & set(names))
    picture_of(folder, "val", 0).write_bytes(b"<html>404</html>")
    return folder


@pytest.fixture
def command(catalog, project):
    """The arguments of the extraction of the dresses' pictures."""

    def command(**options):
        common = {"data": catalog, "category": "dresses", "features": catalog / "store", "batch_size": 5}
        return project.arguments("extract-features", **{**common, **project.pictures, **options})

    return command


@pytest.fixture
def refused(command, capsys):
    """Run the extraction, which has to fail at something that the user can mend; return its one line."""

    def refused(**options):
        capsys.readouterr()
        assert main(command(**options)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refused


def ids_of(catalog, split):
    return json.loads((catalog / f"image_splits/split.dress.{split}.json").read_text())


def picture_of(catalog, split, place):
    (path,) = (catalog / "images").rglob(f"{ids_of(catalog, split)[place]}.*")
    return path


def content(store):
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_killed_between_part_and_manifest_it_goes_on_to_the_same_bytes(catalog, command, tmp_path, forked):
    assert main(command(features=tmp_path / "whole")) == 0
    replace = os.replace

    def die_before(moment):
        def replace_or_die(old, new):
            if os.path.basename(new) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(old, new)

        os.replace = replace_or_die  # in the forked process alone
        main(command(workers=1))

    for moment in ("000002.npz", "store.json"):
        process = forked(die_before, moment)
        assert ended(process) == -signal.SIGKILL
        files = [path.name for path in (catalog / "store").rglob("*")]
        assert "000001.npz" in files and moment not in files
    assert main(command()) == 0
    assert content(catalog / "store") == content(tmp_path / "whole")


def test_a_second_run_does_nothing_and_says_so(catalog, command, capsys):
    assert main(command()) == 0
    assert (
        f"left out: {picture_of(catalog, 'val', 0).stem}: UnidentifiedImageError" in capsys.readouterr().out
    )
    before = {path: path.stat().st_mtime_ns for path in (catalog / "store").iterdir()}
    assert main(command()) == 0
    told = capsys.readouterr().out
    assert (
        told.startswith("nothing to do, the store is complete: 59 of 60 products")
        and "1 left out" in told
        and told.count("\n") == 1
    )
    assert {path: path.stat().st_mtime_ns for path in (catalog / "store").iterdir()} == before


def test_reading_in_processes_makes_the_same_store(catalog, command):
    for workers in (0, 2):
        assert main(command(features=catalog / f"store{workers}", workers=workers)) == 0
    assert content(catalog / "store0") == content(catalog / "store2")


def test_an_update_adds_what_is_new_or_can_be_read_now(catalog, command, refused, sample):
    val, split = ids_of(catalog, "val"), catalog / "image_splits/split.dress.val.json"
    split.write_text(json.dumps(val[:3]))
    assert main(command()) == 0
    split.write_text(json.dumps(val))
    assert f"lacks {len(val) - 3} products, such as {val[3]}: add them with --update" in refused()
    before = FeatureStore(catalog / "store")
    picture_of(catalog, "val", 0).write_bytes(picture_of(sample, "val", 0).read_bytes())
    assert main(command(update=True)) == 0
    after = FeatureStore(catalog / "store")
    assert after.ids == [*before.ids, val[0], *val[3:]] and not after.facts.failures
    rows = np.load(catalog / "store" / "features.npy")
    assert (
        rows[: len(before.ids)].tobytes()
        == before.items(before.ids).features_ND[:].numpy().astype(rows.dtype).tobytes()
    )
    assert main(command(features=catalog / "at_once")) == 0
    at_once = FeatureStore(catalog / "at_once")
    np.testing.assert_allclose(
        after.items(after.ids).features_ND[:], at_once.items(after.ids).features_ND[:], rtol=1e-2, atol=1e-2
    )


def test_new_products_do_not_change_the_words_of_a_store(catalog, command):
    train, split = ids_of(catalog, "train"), catalog / "image_splits/split.dress.train.json"
    split.write_text(json.dumps(train[:20]))
    assert main(command()) == 0
    words = FeatureStore(catalog / "store").attribute_words
    split.write_text(json.dumps(train))
    assert main(command(update=True)) == 0
    store = FeatureStore(catalog / "store")
    assert main(command(features=catalog / "at_once")) == 0
    assert store.attribute_words == words != FeatureStore(catalog / "at_once").attribute_words
    assert len(store.ids) == 59 and store.items(store.ids).attributes_NA.max() <= len(words)


def test_only_pictures_can_be_added(refused):
    assert "--update cannot be combined" in refused(update=True, encoder="metadata")


def test_words_of_the_shop_follow_the_vector_of_the_picture(catalog, command, project):
    names = ids_of(catalog, "train")
    titles = {name: f"{color} dress" for name, color in zip(names, ["red", "blue"] * 15, strict=False)}
    (catalog / "titles").mkdir(exist_ok=True)
    (catalog / "titles/dress.train.json").write_text(json.dumps(titles))
    assert main(command()) == 0
    shop = {"data": catalog, "category": "dresses", "features": catalog / "words"}
    assert main(project.arguments("extract-features", **shop, encoder="metadata")) == 0
    assert main(command(features=catalog / "both", metadata=True)) == 0
    alone, words, both = (FeatureStore(catalog / name) for name in ("store", "words", "both"))
    assert both.size == alone.size + words.size and both.facts.encoder.endswith(" + metadata")
    vectors_ND = both.items(alone.ids).features_ND[:]
    pictures_ND, words_ND = vectors_ND.split([alone.size, words.size], dim=1)
    normal_ND = torch.nn.functional.normalize(alone.items(alone.ids).features_ND[:])
    torch.testing.assert_close(pictures_ND, normal_ND, rtol=0, atol=1e-3)
    described = words.items([name for name in alone.ids if name in set(words.ids)]).features_ND[:]
    expected_ND = torch.zeros_like(words_ND)
    expected_ND[[name in set(words.ids) for name in alone.ids]] = described
    torch.testing.assert_close(words_ND, expected_ND, rtol=0, atol=1e-3)


def test_the_words_of_the_shop_belong_to_the_store(catalog, command, refused):
    assert main(command(metadata=True)) == 0
    assert "has a different encoder" in refused(update=True)
    path = catalog / "attributes/asin2attr.dress.train.json"
    labels = json.loads(path.read_text())
    path.write_text(json.dumps({name: [["dress"], ["red"], [], [], [], []] for name in labels}))
    assert "has different weights" in refused(metadata=True, update=True)


def test_pictures_that_vanish_are_not_recorded_as_missing(catalog, command, refused, tmp_path, monkeypatch):
    assert main(command(features=tmp_path / "whole")) == 0
    read, real, images = [], sources.load_square, catalog / "images"

    def vanishes(path, size):
        read.append(path)
        if len(read) == 40:
            images.rename(catalog / "away")
        return real(path, size)

    with monkeypatch.context() as patch:
        patch.setattr(sources, "load_square", vanishes)
        assert "disappeared during the run" in refused()
    assert "there is no picture of dresses in" in refused()
    (catalog / "away").rename(images)
    read.clear()
    monkeypatch.setattr(sources, "load_square", lambda path, size: read.append(path) or real(path, size))
    assert main(command()) == 0
    assert len(read) == 60 - 32
    assert content(catalog / "store") == content(tmp_path / "whole")


def test_the_reason_of_each_product_that_was_left_out_is_kept(catalog, command):
    names = ids_of(catalog, "train")
    paths = [picture_of(catalog, "train", place) for place in range(4)]
    for path in paths:
        path.unlink()
    os.mkfifo(paths[0])
    paths[1].symlink_to("nowhere")
    (catalog / "coverage.json").write_text(json.dumps({"dress": {"missing": {names[2]: "dead: 404"}}}))
    assert main(command(workers=1)) == 0
    failures = FeatureStore(catalog / "store").facts.failures
    assert [failures[name] for name in names[:4]] == [
        "not a file",
        "no such file",
        "no picture (dead: 404)",
        "no picture",
    ]
    assert len(failures) == 5


def test_every_metric_carries_the_share_of_products_that_have_a_picture(
    project, runs, attribute_runs, tmp_path
):
    catalog, common = tmp_path / "catalog", {"data": tmp_path / "catalog", "category": "dresses"}
    copytree(runs.catalog, catalog, ignore=ignore_patterns("features"))
    test_ids = json.loads((catalog / "image_splits/split.dress.test.json").read_text())
    gone = test_ids[:3]
    for name in gone:
        (catalog / "images" / "dress" / f"{name}.png").unlink(missing_ok=True)
        (catalog / "images" / "dress" / f"{name}.jpg").unlink(missing_ok=True)
    (catalog / "coverage.json").write_text(json.dumps({"dress": {"missing": {gone[0]: "dead: 404"}}}))
    project.run("extract-features", **common, predictor=attribute_runs[1], workers=0)
    failures = json.loads((catalog / "features/dress/store.json").read_text())["failures"]
    assert failures == {gone[0]: "no picture (dead: 404)", gone[1]: "no picture", gone[2]: "no picture"}
    project.run(
        "eval-dialogs",
        **common,
        run=runs.retriever,
        user=runs.captioner,
        out=tmp_path / "dialogs",
        turns=2,
        beam=1,
    )
    metrics = json.loads((tmp_path / "dialogs/metrics.json").read_text())
    assert metrics["gallery"] == len(test_ids) - 3 and metrics["coverage"] == pytest.approx(
        1 - 3 / len(test_ids)
    )


def test_random_weights_and_equal_vectors_are_reported(command, catalog, capsys):
    train = ids_of(catalog, "train")
    picture_of(catalog, "train", 1).write_bytes(picture_of(catalog, "train", 0).read_bytes())
    assert main(command()) == 0
    printed = capsys.readouterr().out
    assert "warning: the encoder has random weights; give --weights" in printed
    assert "warning: 1 product has the vector of another one" in printed
    store = FeatureStore(catalog / "store")
    assert store.encoder == "test_efficientnet, random weights" and store.duplicates() == 1
    assert torch.equal(*store.items(train[:2]).features_ND[:])


@pytest.mark.parametrize("option", ["metadata", "update"])
def test_vectors_of_words_alone_exclude_options_for_pictures(option, refused):
    assert f"--{option}" in refused(encoder="metadata", **{option: True})

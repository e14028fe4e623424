"""Real data: the released captions and splits, and the photos of a shop.

Skipped where the folder of real data is absent.
"""

import csv
import json

import pytest

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.words import tokenize

IDS = {"dresses": (11452, 3817, 3818), "shirts": (19036, 6346, 6346), "tops": (16121, 5373, 5374)}
PAIRS = {"dresses": (5985, 2017, 2024), "shirts": (5988, 2038, 2038), "tops": (6027, 1961, 2056)}
WORDLESS_CAPTIONS = 17  # 16 are empty, one is a full stop
KEPT = {"train": 60, "val": 30, "test": 30}  # pairs of the reduced copy
PHOTOS = 300


def read(path):
    return json.loads(path.read_text())


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture(scope="module")
def released(shared):
    folder = shared / "fashioniq"
    if not folder.is_dir():
        pytest.skip(f"no released Fashion IQ files at {folder}")
    return folder


@pytest.fixture(scope="module")
def few_dresses(released, tmp_path_factory):
    """Some released dresses: some pairs of each split and the products in them."""
    folder = tmp_path_factory.mktemp("released") / "fashioniq"
    for split, count in KEPT.items():
        labels, titles = (
            read(released / f"attributes/asin2attr.dress.{split}.json"),
            read(released / f"titles/dress.{split}.json"),
        )
        rows = [row for row in read(released / f"captions/cap.dress.{split}.json")
                if all(name in labels or name in titles for name in (row["candidate"], row.get("target", row["candidate"])))][:count]  # fmt: skip
        ids = list(
            dict.fromkeys(
                name for row in rows for name in (row["candidate"], row.get("target", row["candidate"]))
            )
        )
        write(folder / f"captions/cap.dress.{split}.json", rows)
        write(folder / f"image_splits/split.dress.{split}.json", ids)
        write(
            folder / f"attributes/asin2attr.dress.{split}.json",
            {name: labels[name] for name in ids if name in labels},
        )
        write(folder / f"titles/dress.{split}.json", {name: titles[name] for name in ids if name in titles})
    return folder


@pytest.fixture(scope="module")
def dress_runs(few_dresses, project, tmp_path_factory):
    """Captioner and retriever on the metadata of these dresses."""
    folder, common = tmp_path_factory.mktemp("runs"), {"data": few_dresses, "category": "dresses"}
    project.run("extract-features", **common, encoder="metadata")
    project.run("train-captioner", **common, attrs=True, run=folder / "captioner", **project.captioner)
    project.run(
        "train-retriever",
        **common,
        attrs=True,
        captioner=folder / "captioner",
        run=folder / "retriever",
        **project.retriever,
    )
    return folder


@pytest.fixture(scope="module")
def catalogs(released):
    """The released catalog of each category, whose files are read once."""
    return {category: Catalog(released, category) for category in IDS}


@pytest.mark.parametrize("category", IDS)
def test_released_splits_have_the_sizes_of_the_paper(category, catalogs):
    catalog = catalogs[category]
    assert tuple(len(catalog.ids(split)) for split in SPLITS) == IDS[category]


@pytest.mark.parametrize("category", PAIRS)
def test_released_captions_are_read_as_they_are(category, catalogs):
    catalog = catalogs[category]
    pairs = {split: catalog.pairs(split) for split in SPLITS}
    assert tuple(len(some) for some in pairs.values()) == PAIRS[category]
    assert all(pair.target for pair in pairs["train"] + pairs["val"]) and not any(
        pair.target for pair in pairs["test"]
    )
    assert catalog.captions_origin == "human" and catalog.pictures_origin == "photographs"


def test_captions_of_the_release_without_a_word_are_left_out(catalogs):
    captions = [
        text
        for category in PAIRS
        for split in SPLITS
        for pair in catalogs[category].pairs(split)
        for text in pair.captions
    ]
    assert [text for text in captions if not tokenize(text)] == []
    assert len(captions) == 2 * sum(map(sum, PAIRS.values())) - WORDLESS_CAPTIONS


@pytest.mark.parametrize("category", IDS)
def test_released_labels_have_six_lists(category, catalogs):
    labels = catalogs[category].labels
    assert len(labels) > 10_000 and all(len(lists) == 6 for lists in labels.values())


def test_released_dresses_go_all_the_way_by_their_metadata(few_dresses, dress_runs, project):
    project.run(
        "eval-dialogs",
        data=few_dresses,
        category="dresses",
        run=dress_runs / "retriever",
        out=dress_runs / "dialogs",
        user=dress_runs / "captioner",
        turns=3,
        beam=2,
    )
    metrics, ids = (
        read(dress_runs / "dialogs/metrics.json"),
        read(few_dresses / "image_splits/split.dress.test.json"),
    )
    assert (
        metrics["features"] == "metadata"
        and metrics["captions"] == "human"
        and metrics["user"] == str(dress_runs / "captioner")
    )
    assert metrics["gallery"] == metrics["dialogs"] == round(metrics["coverage"] * len(ids)) > 0.8 * len(ids)
    said = [
        turn["words"]
        for line in (dress_runs / "dialogs/dialogs.jsonl").read_text().splitlines()
        for turn in json.loads(line)["turns"]
    ]
    assert all(1 <= len(words.split()) <= 8 for words in said)


def test_recorded_captions_of_val_are_evaluated_as_one_turn(few_dresses, dress_runs, project):
    project.run("eval-dialogs", data=few_dresses, category="dresses", run=dress_runs / "retriever", out=dress_runs / "human",
                split="val", user="human")  # fmt: skip
    metrics = read(dress_runs / "human/metrics.json")
    assert [turn["turn"] for turn in metrics["turns"]] == [1] and metrics["user"] == "recorded captions, each"
    assert 0 < metrics["dialogs"] <= 2 * KEPT["val"] and metrics["split"] == "val"


@pytest.fixture(scope="module")
def shop(shared, project, tmp_path_factory):
    """Some shirts of a shop, imported."""
    source, folder = shared / "myntra", tmp_path_factory.mktemp("shop")
    if not source.is_dir():
        pytest.skip(f"no photos of a shop at {source}")
    with open(source / "styles.csv", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = [row for row in reader if row["category"] == "shirt"][:PHOTOS]
    with open(folder / "styles.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames)
        writer.writeheader()
        writer.writerows(rows)
    project.run("import-catalog", csv=folder / "styles.csv", images=source / "img60x80", data=folder / "catalog", category="shirts", id="id",
                title="productDisplayName", where="category=shirt", attributes=["baseColour", "usage"])  # fmt: skip
    return folder


def test_photos_of_a_shop_go_all_the_way_and_say_how_captions_were_made(shop, project, capsys):
    common = {"data": shop / "catalog", "category": "shirts"}
    project.run("extract-features", **common, **project.pictures)
    project.run("train-captioner", **common, run=shop / "captioner", **{**project.captioner, "epochs": 1})
    project.run(
        "train-retriever",
        **common,
        run=shop / "retriever",
        captioner=shop / "captioner",
        **{**project.retriever, "epochs": 1},
    )
    capsys.readouterr()
    project.run("eval-dialogs", **common, run=shop / "retriever", out=shop / "dialogs",
                user=shop / "captioner", turns=2, beam=1)  # fmt: skip
    origin = "made from attribute differences"
    assert origin in capsys.readouterr().out
    metrics = read(shop / "dialogs/metrics.json")
    assert (
        metrics["captions"] == origin and metrics["pictures"] == "photographs" and metrics["coverage"] == 1.0
    )
    assert metrics["gallery"] == len(Catalog(shop / "catalog", "shirts").ids("test")) > 50
    assert origin in (shop / "dialogs/report.html").read_text()
    assert read(shop / "captioner/model.json")["data"]["captions"] == origin

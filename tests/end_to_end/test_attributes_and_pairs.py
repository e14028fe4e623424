"""extract-attributes and pairs by titles on folders small enough to reckon by hand."""

import json

import pytest

from fashioniq.cli import main
from fashioniq.data.attributes import TYPES
from fashioniq.data.catalog import Catalog
from fashioniq.data.vocabularies import read_vocabulary
from fashioniq.prepare import labelling

SPLITS = ("train", "val", "test")
ROWS = {
    "train": {
        "a": {"title": "Red lace dress", "baseColour": "Crimson"},
        "b": {"title": "Dress", "summary": "with long sleeves", "baseColour": "Navy Blue|Off White"},
        "c": {"title": "Thing", "baseColour": "NA"},
        "d": {"title": ""},
    },
    "val": {"e": {"title": "V neck dress"}, "f": {"title": "red dress"}, "g": {"title": "dress"}},
    "test": {
        "h": {"description": "Of cotton."},
        "i": {"title": "cotton dress"},
        "j": {"title": "cotton dress"},
    },
}
IDS = {"train": ["d", "c", "b", "a", "untitled"], "val": ["g", "f", "e"], "test": ["j", "i", "h"]}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path):
    for split in SPLITS:
        write(tmp_path / f"image_splits/split.dress.{split}.json", IDS[split])
        write(tmp_path / f"titles/dress.{split}.json", ROWS[split])
    return tmp_path


def labels(folder, split):
    return json.loads((folder / f"attributes/asin2attr.dress.{split}.json").read_text())


def run(project, capsys, command, **options):
    """The exit code, what was printed and what was told of an error."""
    code = main(project.arguments(command, category="dresses", **options))
    return code, *capsys.readouterr()


def test_words_of_title_summary_and_description_become_labels_of_all_splits(project, capsys, folder):
    code, told, _ = run(project, capsys, "extract-attributes", data=folder)
    assert code == 0
    assert labels(folder, "train") == {
        "c": [[], [], [], [], [], []],
        "b": [["dress"], [], [], [], ["long sleeve"], []],
        "a": [["dress"], ["red"], ["lace"], [], [], []],
    }
    assert labels(folder, "val")["e"] == [["dress"], [], [], [], ["v-neck"], []]
    assert labels(folder, "test")["h"] == [[], [], ["cotton"], [], [], []]
    cells = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.startswith(SPLITS)}
    assert cells["train"] == [
        "5",
        "3",
        "2",
        "1",
        "1.7",
        "308",
    ]  # of 312 words dress, red, lace and long sleeve
    assert "306 of 312 words were not found in any split" in told


def test_a_vocabulary_of_the_user_and_columns_are_taken(project, capsys, folder):
    (folder / "words.csv").write_text(
        "word,type,synonyms\nrobe,garment,dress\nivory,colour,off white\nred,colour,scarlet\n"
    )
    code, _, _ = run(
        project,
        capsys,
        "extract-attributes",
        data=folder,
        vocabulary=folder / "words.csv",
        column=["colour=baseColour"],
    )
    assert code == 0
    assert labels(folder, "train") == {
        "c": [[], [], [], [], [], []],
        "b": [["robe"], ["navy blue", "ivory"], [], [], [], []],
        "a": [["robe"], ["red", "crimson"], [], [], [], []],
    }


def test_labels_that_are_there_are_kept_unless_told_to_replace_them(project, capsys, folder):
    write(folder / "image_attributes/asin2attr.dress.val.json", {"e": [["mine"], [], [], [], [], []]})
    code, _, error = run(project, capsys, "extract-attributes", data=folder)
    assert code == 2 and "--replace" in error and error.count("\n") == 1
    assert not (folder / "attributes").exists()
    assert run(project, capsys, "extract-attributes", data=folder, replace=True)[0] == 0
    assert labels(folder, "val")["e"][0] == ["dress"]


def test_of_a_folder_with_a_broken_file_no_labels_are_written(project, capsys, folder):
    (folder / "titles/dress.test.json").write_text('{"h": {"title": "cut')
    code, _, error = run(project, capsys, "extract-attributes", data=folder)
    assert code == 2 and "dress.test.json" in error
    assert not (folder / "attributes").exists()


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("baseColour", "TYPE=COLUMN"),
        ("size=baseColour", "TYPE=COLUMN"),
        ("colour=hue", "no product has a column 'hue'"),
    ],
)
def test_a_column_that_is_malformed_or_missing_is_told(project, capsys, folder, column, told):
    code, _, error = run(project, capsys, "extract-attributes", data=folder, column=[column])
    assert code == 2 and told in error


def test_a_page_script_in_the_place_of_a_title_is_left_out(project, capsys, folder):
    rows = {**ROWS["val"], "g": {"title": "var light = 1; " * 100}}
    write(folder / "titles/dress.val.json", rows)
    code, told, _ = run(project, capsys, "extract-attributes", data=folder)
    assert code == 0 and "1 titles of more than 1,000 characters" in told
    assert "g" not in labels(folder, "val")


def pairs(folder, split):
    return [
        (row["target"], row["candidate"])
        for row in json.loads((folder / f"pairs.dress.{split}.json").read_text())
    ]


def test_every_title_is_paired_with_the_nearest_of_its_split_ties_by_id(project, capsys, folder):
    write(folder / "titles/dress.test.json", {name: {"title": "cotton dress"} for name in "hij"})
    code, told, _ = run(
        project, capsys, "caption-pairs", data=folder, titles=True, count=3, export=folder / "pairs.csv"
    )
    assert code == 0
    assert pairs(folder / "pairs", "train") == [("b", "a"), ("a", "b")]  # c shares no word, d has none
    assert pairs(folder / "pairs", "test") == [("j", "h"), ("i", "h"), ("h", "i")]
    assert (
        "dresses train: 2 pairs of 2 targets; 2 products have no title, 1 share no word with another" in told
    )


def test_a_split_of_one_title_cannot_be_paired(project, capsys, folder):
    write(folder / "titles/dress.val.json", {"e": {"title": "dress"}})
    code, _, error = run(
        project, capsys, "caption-pairs", data=folder, titles=True, count=3, export=folder / "pairs.csv"
    )
    assert code == 2 and "in the val split of dresses, found 1" in error
    assert not (folder / "pairs").exists()


def test_the_released_labels_are_found_again_in_the_released_titles(shared):
    catalog = Catalog(shared / "fashioniq", "dresses")
    words = read_vocabulary(shared / "word_vectors/deepfashion_list_attr_cloth.txt")
    rows = labelling.read_rows(catalog, [])
    found = {
        name: lists
        for split in rows
        for name, lists in labelling.label_products(rows[split], words, []).items()
        if name in catalog.labels
    }
    pairs = [
        (kind, set(ours), set(theirs))
        for name, lists in found.items()
        for kind, (ours, theirs) in enumerate(zip(lists, catalog.labels[name], strict=True))
    ]
    precise = sum(len(ours & theirs) for _, ours, theirs in pairs) / sum(len(ours) for _, ours, _ in pairs)
    garments = [(ours, theirs) for kind, ours, theirs in pairs if kind == TYPES["garment"]]
    recalled = sum(len(ours & theirs) for ours, theirs in garments) / sum(
        len(theirs) for _, theirs in garments
    )
    assert precise > 0.9 and recalled > 0.75

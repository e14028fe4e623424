"""extract-attributes and pair-references on folders small enough to reckon by hand."""

import json

import pytest

from fashioniq.cli import main

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


def test_compare_measures_against_the_labels_and_writes_nothing(project, capsys, folder):
    write(folder / "attributes/asin2attr.dress.train.json", {
        "a": [["dress"], ["red", "floral"], [], [], [], []],
        "b": [["dress"], [], [], [], ["collar", "sleeve"], []],
        "untitled": [["dress"], [], [], [], [], []],
    })  # fmt: skip
    before = (folder / "attributes/asin2attr.dress.train.json").read_bytes()
    code, told, _ = run(project, capsys, "extract-attributes", data=folder, compare=True)
    assert code == 0
    assert "2 products with text and labels; 1 with labels only" in told
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()}
    assert rows["garment"] == ["2", "2", "2", "100.0", "100.0", "100.0"]
    assert rows["texture"] == ["2", "1", "1", "100.0", "50.0", "66.7"]
    assert rows["fabric"] == ["0", "1", "0", "0.0", "0.0", "0.0"]
    assert rows["all"] == ["6", "5", "3", "60.0", "50.0", "54.5"]
    assert "found, not labelled: lace 1, long sleeve 1" in told
    assert [path.name for path in (folder / "attributes").iterdir()] == ["asin2attr.dress.train.json"]
    assert (folder / "attributes/asin2attr.dress.train.json").read_bytes() == before


def test_compare_needs_labels(project, capsys, folder):
    code, _, error = run(project, capsys, "extract-attributes", data=folder, compare=True)
    assert code == 2 and "no labels of dresses to compare with" in error


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
    code, told, _ = run(project, capsys, "pair-references", data=folder)
    assert code == 0
    assert pairs(folder / "pairs", "train") == [("b", "a"), ("a", "b")]  # c shares no word, d has none
    assert pairs(folder / "pairs", "test") == [("j", "h"), ("i", "h"), ("h", "i")]
    assert (
        "dresses train: 2 pairs of 2 targets; 2 products have no title, 1 share no word with another" in told
    )


def test_several_references_stand_nearest_first(project, capsys, folder):
    assert (
        run(project, capsys, "pair-references", data=folder, per_target=2, out=folder / "elsewhere")[0] == 0
    )
    assert pairs(folder / "elsewhere", "val") == [
        ("g", "e"),
        ("g", "f"),
        ("f", "e"),
        ("f", "g"),
        ("e", "f"),
        ("e", "g"),
    ]
    assert not (folder / "pairs").exists()


def test_a_split_of_one_title_cannot_be_paired(project, capsys, folder):
    write(folder / "titles/dress.val.json", {"e": {"title": "dress"}})
    code, _, error = run(project, capsys, "pair-references", data=folder)
    assert code == 2 and "in the val split of dresses, found 1" in error
    assert not (folder / "pairs").exists()


def test_compare_counts_captioned_references_among_the_first(project, capsys, folder):
    write(folder / "titles/dress.test.json", ROWS["test"])
    said = ["is longer", "is red"]
    train = [("a", "b"), ("b", "a"), ("a", "c"), ("untitled", "a")]
    write(
        folder / "captions/cap.dress.train.json",
        [{"target": target, "candidate": other, "captions": said} for target, other in train],
    )
    write(folder / "captions/cap.dress.val.json", [{"target": "g", "candidate": "f", "captions": said}])
    code, told, _ = run(project, capsys, "pair-references", data=folder, compare=True)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()}
    assert rows["train"] == ["3", "4", "3", "66.7", "66.7", "66.7"]
    assert rows["val"] == ["3", "1", "1", "0.0", "100.0", "100.0"]
    assert not (folder / "pairs").exists()


def test_the_released_labels_are_found_again_in_the_released_titles(project, capsys, shared):
    options = {"data": shared / "fashioniq", "compare": True}
    code, told, _ = run(
        project,
        capsys,
        "extract-attributes",
        vocabulary=shared / "word_vectors/deepfashion_list_attr_cloth.txt",
        **options,
    )
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()}
    assert code == 0 and float(rows["all"][3]) > 90 and float(rows["garment"][4]) > 75

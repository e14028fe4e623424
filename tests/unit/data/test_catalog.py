import json

import pytest

from fashioniq.data.catalog import Catalog, Pair, text_of
from fashioniq.data.catalog_files import categories_in
from fashioniq.files import UserError

SPLITS = {"train": ["A", "B", "C"], "val": ["D", "E"], "test": ["F", "G"]}
PAIRS = [
    {"target": "A", "candidate": "B", "captions": ["is longer", "has sleeves"]},
    {"target": "C", "candidate": "A", "captions": ["is red", ""]},
]


def put(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def root(tmp_path):
    put(tmp_path, {f"image_splits/split.toptee.{split}.json": ids for split, ids in SPLITS.items()})
    put(tmp_path, {"captions/cap.toptee.train.json": PAIRS})
    return tmp_path


@pytest.mark.parametrize("name", ["tops", "toptee", "Tops&Tees"])
def test_a_category_is_found_under_each_of_its_names(root, name):
    catalog = Catalog(root, name)
    assert catalog.category == "tops" and catalog.ids("train") == ["A", "B", "C"]
    assert categories_in(root) == ["tops"]


def test_all_ids_are_those_of_all_splits_each_once(root):
    put(root, {"image_splits/split.toptee.val.json": ["D", "B"]})
    assert Catalog(root, "tops").all_ids() == ["A", "B", "C", "D", "F", "G"]


def test_a_folder_without_a_test_split_has_the_others(root):
    (root / "image_splits/split.toptee.test.json").unlink()
    catalog = Catalog(root, "tops")
    assert catalog.all_ids() == ["A", "B", "C", "D", "E"]
    with pytest.raises(UserError, match="cannot find the test split of tops"):
        catalog.ids("test")


def test_empty_captions_are_left_out_and_pairs_that_have_no_other(root):
    captions = [
        *PAIRS,
        {"target": "B", "candidate": "C", "captions": ["", "  ", "?!"]},
        {"target": "B", "candidate": "A", "captions": [" blue\n"]},
    ]
    put(root, {"captions/cap.toptee.train.json": captions})
    assert Catalog(root, "tops").pairs("train") == [
        Pair("A", "B", ("is longer", "has sleeves")),
        Pair("C", "A", ("is red",)),
        Pair("B", "A", ("blue",)),
    ]


def test_released_test_captions_have_no_target(root):
    put(
        root,
        {"captions/cap.toptee.test.json": [{"candidate": "F", "captions": ["is longer", "has sleeves"]}]},
    )
    assert Catalog(root, "tops").pairs("test") == [Pair(None, "F", ("is longer", "has sleeves"))]


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        ([PAIRS[0], {"target": "A"}], r"entry 1: expected .*found .*target"),
        ([{"target": "A", "candidate": "B", "captions": "is longer"}], "entry 0: expected"),
        (["A"], "entry 0: expected"),
        (
            [PAIRS[0], {"target": "A", "candidate": "X", "captions": ["is red"]}],
            "entry 1: 'X' is not in the train split",
        ),
        ([{"target": "D", "candidate": "A", "captions": ["is red"]}], "'D' is not in the train split"),
        ([{"target": "A", "candidate": ["B"], "captions": ["is red"]}], "entry 0"),
        ([{"target": "A", "candidate": "B", "captions": ["", " "]}], "has no caption with words"),
        ([], "lists no pairs: write captions for pairs of the train split"),
        ({"target": "A"}, "expected a list"),
        ('[{"target": "A", "can', "not valid JSON"),
    ],
)
def test_malformed_captions_are_told_with_file_and_entry(root, captions, message):
    put(root, {"captions/cap.toptee.train.json": captions})
    with pytest.raises(UserError, match=message) as caught:
        Catalog(root, "tops").pairs("train")
    assert "cap.toptee.train.json" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "empty"),
        (["A", "A"], "duplicates"),
        (["\u00e9", "e\u0301"], "duplicates"),
        (["A", 7], "as strings"),
        (["A", ""], "as strings"),
        ([["A"]], "as strings"),
        ({"A": 1}, "a list"),
    ],
)
def test_malformed_splits_are_told(root, ids, message):
    put(root, {"image_splits/split.toptee.train.json": ids})
    with pytest.raises(UserError, match=message):
        Catalog(root, "tops").ids("train")


def test_a_missing_folder_or_category_is_told_with_what_is_there(root):
    with pytest.raises(UserError, match=r"there is no folder .*nowhere.*draw-sample"):
        Catalog(root / "nowhere", "tops")
    with pytest.raises(UserError, match=r"no category 'dresses' .*found tops"):
        Catalog(root, "dress")
    (root / "empty").mkdir()
    with pytest.raises(UserError, match="found no image_splits"):
        Catalog(root / "empty", "tops")


SIX = [["top"], ["floral"], ["cotton"], [], ["v-neck", "sleeve"], ["summer"]]
MORE = [["top"], ["striped", "floral"], [], ["long"], ["sleeve"], []]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        (SIX, SIX),
        (
            SIX + MORE,
            [["top"], ["floral", "striped"], ["cotton"], ["long"], ["v-neck", "sleeve"], ["summer"]],
        ),
        (
            SIX + SIX + MORE,
            [["top"], ["floral", "striped"], ["cotton"], ["long"], ["v-neck", "sleeve"], ["summer"]],
        ),
    ],
    ids=["6", "12", "18"],
)
def test_rows_of_12_and_18_lists_are_merged_into_6(root, lists, expected):
    put(root, {"attributes/asin2attr.toptee.val.json": {"D": lists}})
    assert Catalog(root, "tops").labels == {"D": expected}


@pytest.mark.parametrize("folder", ["attributes", "image_attributes", "."])
def test_labels_are_found_where_people_keep_them(root, folder):
    put(root, {f"{folder}/asin2attr.toptee.{split}.json": {ids[0]: SIX} for split, ids in SPLITS.items()})
    assert Catalog(root, "tops").labels == {"A": SIX, "D": SIX, "F": SIX}


@pytest.mark.parametrize(
    "lists",
    [[], SIX[:5], SIX + SIX[:1], "top", None, ["top", "floral", "", "", "", ""], [*SIX[:5], None]],
    ids=str,
)
def test_malformed_labels_are_told(root, lists):
    put(root, {"attributes/asin2attr.toptee.train.json": {"A": lists}})
    with pytest.raises(UserError, match="lists of words for A"):
        _ = Catalog(root, "tops").labels


def test_titles_are_read_and_missing_ones_left_out(root):
    put(root, {"titles/toptee.train.json": {"A": {"title": "Red top"}, "B": {"title": ""}, "C": {}}})
    put(root, {"titles/toptee.val.json": {"D": {"title": "Tee"}}})
    assert Catalog(root, "tops").titles == {"A": "Red top", "D": "Tee"}


def test_descriptions_are_read_as_released_and_say_where_words_come_from(root):
    assert Catalog(root, "tops").pictures_behind(of_words=True) == "none"
    put(root, {"titles/toptee.train.json": {"A": {"title": "Linnea top"}}})
    put(
        root, {"descriptions/image_captions_toptee_train.json": {"A": "a red top ", "B": "stripes", "C": " "}}
    )
    catalog = Catalog(root, "tops")
    assert catalog.descriptions == {"A": "a red top", "B": "stripes"}
    assert [text_of(catalog, name).split() for name in "ABC"] == [
        ["Linnea", "top", "a", "red", "top"],
        ["stripes"],
        [],
    ]
    assert catalog.pictures_behind(of_words=True) == "words of a captioning model"
    assert catalog.pictures_behind(of_words=False) == "photographs"


def test_attribute_words_of_descriptions_are_labels_beside_those_of_files(root):
    written = {"A": [["top"], ["red", "solid"], [], [], [], []]}
    said = {
        "A": "a woman in a red striped top and jeans",
        "B": "a grey tee with short sleeves",
        "C": "a person",
    }
    put(root, {"attributes/asin2attr.toptee.train.json": written})
    put(root, {"descriptions/image_captions_toptee_train.json": said})
    catalog = Catalog(root, "tops")
    assert catalog.labels == {  # the first garment is the product
        "A": [["top"], ["red", "solid", "striped"], [], [], [], []],
        "B": [["t-shirt"], ["grey"], [], [], ["short sleeve"], []],
    }
    assert (
        catalog.written_labels == written
    )  # whose words metadata vectors and BM25 count beside the description
    assert text_of(catalog, "A") == f" top red solid {said['A']}"


@pytest.mark.parametrize("text", [None, 3, ["a red top"]])
def test_a_description_that_is_no_sentence_is_told(root, text):
    put(root, {"descriptions/image_captions_toptee_val.json": {"D": "a red top", "E": text}})
    with pytest.raises(UserError, match=r"image_captions_toptee_val\.json: expected a sentence .* for E"):
        text_of(Catalog(root, "tops"), "D")


def test_pictures_of_the_category_go_before_those_of_all(root):
    put(
        root,
        {
            "images/A.jpg": "",
            "images/B.png": "",
            "images/toptee/A.png": "",
            "images/tops/C.webp": "",
            "images/X.jpg": "",
            "images/D.txt": "",
        },
    )
    images = Catalog(root, "tops").images
    assert {name: str(path.relative_to(root)) for name, path in images.items()} == {
        "A": "images/toptee/A.png",
        "B": "images/B.png",
        "C": "images/tops/C.webp",
    }


def test_a_folder_without_pictures_labels_or_titles_has_none(root):
    catalog = Catalog(root, "tops")
    assert (catalog.images, catalog.labels, catalog.titles) == ({}, {}, {})


def test_the_fingerprint_changes_with_splits_and_captions_only(root):
    before = Catalog(root, "tops").fingerprint()
    put(root, {"titles/toptee.train.json": {}, "captions/cap.dress.train.json": []})
    assert Catalog(root, "toptee").fingerprint() == before and len(before) == 16
    put(root, {"captions/cap.toptee.val.json": []})
    with_val = Catalog(root, "tops").fingerprint()
    put(root, {"image_splits/split.toptee.train.json": ["A", "B"]})
    assert len({before, with_val, Catalog(root, "tops").fingerprint()}) == 3


def test_pictures_are_photographs_and_captions_human_unless_the_catalog_says_otherwise(root):
    catalog = Catalog(root, "tops")
    assert (catalog.pictures_origin, catalog.captions_origin) == ("photographs", "human")
    put(root, {"catalog.json": {"pictures": "drawn", "captions": "grammar"}})
    catalog = Catalog(root, "tops")
    assert (catalog.pictures_origin, catalog.captions_origin) == ("drawn", "grammar")


def test_coverage_json_tells_why_a_product_has_no_picture(root):
    assert Catalog(root, "tops").picture_failures == {}
    put(
        root,
        {
            "coverage.json": {
                "toptee": {"splits": {}, "missing": {"A": "dead: 404"}},
                "dress": {"missing": {"B": "dead: 410"}},
            }
        },
    )
    assert Catalog(root, "tops").picture_failures == {"A": "dead: 404"}


@pytest.mark.parametrize("content", [{}, {"toptee": []}, {"toptee": {"missing": ["A"]}}], ids=str)
def test_a_coverage_json_that_tells_nothing_of_the_category_is_passed_over(root, content):
    put(root, {"coverage.json": content})
    assert Catalog(root, "tops").picture_failures == {}


def test_ids_in_two_splits_whose_accents_are_written_in_two_ways_are_refused(root):
    put(
        root,
        {
            "image_splits/split.toptee.val.json": ["\u00e9"],
            "image_splits/split.toptee.test.json": ["\ufb01", "fi"],
        },
    )
    assert {"\u00e9", "\ufb01", "fi"} <= {*Catalog(root, "tops").all_ids()}
    put(root, {"image_splits/split.toptee.test.json": ["e\u0301"]})
    with pytest.raises(UserError, match="found 'é' with its accents written in two ways; rename one of them"):
        Catalog(root, "tops").all_ids()


def test_labels_titles_and_captions_have_composed_letters(root):
    labels = {"A": [["la\u030ang", "l\u00e5ng"], [], [], [], [], []]}
    put(
        root,
        {
            "attributes/asin2attr.toptee.train.json": labels,
            "titles/toptee.train.json": {"A": {"title": "robe e\u0301te\u0301"}},
            "captions/cap.toptee.train.json": [
                {"target": "A", "candidate": "A", "captions": ["plus e\u0301troit"]}
            ],
            "image_splits/split.toptee.train.json": ["A"],
        },
    )
    catalog = Catalog(root, "tops")
    assert catalog.labels["A"][0] == ["l\u00e5ng"] and catalog.titles["A"] == "robe \u00e9t\u00e9"
    assert catalog.pairs("train")[0].captions == ("plus \u00e9troit",)


@pytest.mark.parametrize("forms", [("\u00e9", "e\u0301"), ("e\u0301", "\u00e9")])
def test_pictures_are_found_whichever_way_accents_are_written(root, forms):
    name, file = forms
    put(root, {"image_splits/split.toptee.val.json": [name], f"images/{file}.jpg": ""})
    assert Catalog(root, "tops").images[name].name == f"{file}.jpg"

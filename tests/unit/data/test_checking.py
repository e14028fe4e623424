import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError
from fashioniq.prepare.checking import FOLDER, check_folder

IDS = {"train": ["A", "B", "C", "D", "E", "F"], "val": ["G", "H", "I"], "test": ["J", "K", "L"]}
SIX = [["shoe"], ["striped"], ["leather"], [], ["heel"], ["casual"]]


def put(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content if isinstance(content, str) else json.dumps(content))


def draw(path, seed):
    """A picture unlike that of any other seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((48, 48), Image.Resampling.BICUBIC).save(path)


def pair(target, candidate, captions=("is red", "has a heel")):
    return {**({"target": target} if target else {}), "candidate": candidate, "captions": list(captions)}


@pytest.fixture
def root(tmp_path):
    """A clean folder of one category of its own."""
    root = tmp_path / "data"
    for split, ids in IDS.items():
        put(root, {
            f"image_splits/split.shoes.{split}.json": ids,
            f"captions/cap.shoes.{split}.json": [pair(None if split == "test" else ids[0], ids[1])],
            f"attributes/asin2attr.shoes.{split}.json": {ids[0]: SIX},
            f"titles/shoes.{split}.json": {ids[0]: {"title": "Red shoe"}, ids[1]: {}},
        })  # fmt: skip
    put(
        root,
        {
            "image_url/asin2url.shoes.txt": "".join(
                f"{name}\thttp://shop/{name}.jpg\n" for ids in IDS.values() for name in ids
            )
        },
    )
    for seed, name in enumerate(name for ids in IDS.values() for name in ids):
        draw(root / "images" / f"{name}.jpg", seed)
    return root


def state(root):
    """Every file with its content and time, every folder with its time."""
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [root, *sorted(root.rglob("*"))]
    }


def look_through(root, category=None, images=None, workers=0):
    """The findings of a check, which has to leave the folder as it is."""
    before = state(root)
    told = check_folder(root, category, images, workers, lambda things, total, of: things)
    assert state(root) == before
    return told


def findings(root, **options):
    """All kinds of findings of all categories with their examples."""
    return {
        kind: examples
        for found in look_through(root, **options).values()
        for kind, examples in found.findings.items()
    }


def test_a_clean_folder_is_counted_and_has_no_finding(root):
    told = look_through(root)
    assert [found.findings for found in told.values()] == [{}, {}]
    assert told["shoes"].counts == {
        "products": [6, 3, 3], "pairs": [1, 1, 1], "labels": [1, 1, 1], "titles": [1, 1, 1], "addresses": [12], "pictures": [6, 3, 3]}  # fmt: skip
    assert told["shoes"].notes == {
        "test pairs whose target is not published, as in Fashion IQ": ["cap.shoes.test.json entry 0"],
        "titles that are not used: empty, or longer than 1,000 characters": [
            f"shoes.{split}.json: {ids[1]}" for split, ids in IDS.items()
        ],
    }


def test_offers_are_counted_where_there_are_any(root):
    put(root, {OFFERS: {"A": {"in_stock": True}, "G": {}}})
    told = look_through(root)["shoes"]
    assert told.counts["offers"] == [2] and not told.findings


def test_titles_are_counted_as_the_catalog_reads_them(root):
    put(root, {TITLES: {"J": {"title": "Red shoe"}, "K": {"title": "x" * 1001}, "L": {"title": " "}}})
    told = look_through(root)["shoes"]
    assert told.counts["titles"] == [1, 1, 1] and not told.findings
    assert sum(told.counts["titles"]) == len(Catalog(root, "shoes").titles)


def test_pairs_whose_captions_describe_no_difference_are_told(root):
    alike = [
        pair("A", "B", ("looks the same", "Very similar to this one.")),
        pair("A", "C", ("looks the same", "is red")),
    ]
    put(root, {CAPTIONS: alike})
    assert findings(root) == {
        "pairs without a difference to describe": [f"{Path(CAPTIONS).name} entry 0: 'looks the same'"]
    }


TRAIN, VAL, TEST = (f"image_splits/split.shoes.{split}.json" for split in IDS)
CAPTIONS, LABELS = "captions/cap.shoes.train.json", "attributes/asin2attr.shoes.val.json"
TITLES, ADDRESSES = "titles/shoes.test.json", "image_url/asin2url.shoes.txt"
OFFERS = "offers/shoes.json"


@pytest.mark.parametrize(
    ("file", "content", "kind", "example"),
    [
        (TRAIN, [*IDS["train"], "B", "B"], "ids several times in a split", "B 3 times in train"),
        (TEST, [*IDS["test"], "G"], "ids in several splits", "G in val and test"),
        (VAL, [*IDS["val"], 7], "ids that are not text", "split.shoes.val.json entry 3: 7"),
        (TRAIN, [*IDS["train"], ""], "ids that are not text", "split.shoes.train.json entry 6: ''"),
        (CAPTIONS, [pair("A", "X")], "pairs with ids outside of their split", "cap.shoes.train.json entry 0: X"),
        (CAPTIONS, [pair("A", "B"), pair("G", "B")], "pairs with ids outside of their split", "cap.shoes.train.json entry 1: G"),
        (CAPTIONS, [pair("A", "B", ["is red", " "])], "captions without a word", "cap.shoes.train.json entry 0: ' '"),
        (CAPTIONS, [pair("A", "B", [".", "is red"])], "captions without a word", "cap.shoes.train.json entry 0: '.'"),
        (CAPTIONS, [pair("A", "B", ["is red"])], "pairs with other than two captions", "cap.shoes.train.json entry 0 has 1"),
        (CAPTIONS, [pair("A", "B", ["a", "b", "c"])], "pairs with other than two captions", "cap.shoes.train.json entry 0 has 3"),
        (CAPTIONS, [pair(None, "B")], "train or val pairs without a target", "cap.shoes.train.json entry 0"),
        (CAPTIONS, [pair("A", "B", ["is red", None])], "pairs that cannot be used", "cap.shoes.train.json entry 0: expected target and captions"),
        (CAPTIONS, [{"target": None, "candidate": "B", "captions": []}], "pairs that cannot be used", "cap.shoes.train.json entry 0: expected"),
        (CAPTIONS, [pair("A", "B"), "A"], "pairs that cannot be used", "cap.shoes.train.json entry 1: expected {\"target\""),
        (CAPTIONS, {"A": "B"}, "files that cannot be read", "the file cap.shoes.train.json: expected a list, found a dict"),
        (CAPTIONS, '[{"target": "A", "can', "files that cannot be read", "the file cap.shoes.train.json is not valid JSON"),
        (CAPTIONS, "[" * 100_000, "files that cannot be read", "the file cap.shoes.train.json is not valid JSON"),
        (LABELS, {"G": SIX + SIX}, "label rows with 12 or 18 lists, which are merged when read", "asin2attr.shoes.val.json: G"),
        (LABELS, {"G": 3 * SIX}, "label rows with 12 or 18 lists, which are merged when read", "asin2attr.shoes.val.json: G"),
        (LABELS, {"G": SIX[:5]}, "unusable label rows: not 6, 12 or 18 lists", "asin2attr.shoes.val.json: G"),
        (LABELS, {"G": [*SIX[:5], "red"]}, "unusable label rows: not lists of words", "asin2attr.shoes.val.json: G"),
        (LABELS, {"G": [*SIX[:5], [7]]}, "unusable label rows: not lists of words", "asin2attr.shoes.val.json: G"),
        (LABELS, {"G": SIX, "X": SIX}, "rows of ids in no split", "asin2attr.shoes.val.json: X"),
        (TITLES, {"J": {"title": 7}}, "title rows that cannot be read", "shoes.test.json: J"),
        (TITLES, {"J": "Red shoe"}, "title rows that cannot be read", "shoes.test.json: J"),
        (TITLES, {"X\n": {"title": "Red shoe"}}, "rows of ids in no split", "shoes.test.json: X\\n"),
        (OFFERS, {"A": {"in_stock": True}, "X": {}}, "rows of ids in no split", "offers/shoes.json: X"),
        (OFFERS, {"A": {"price_minor": 5}}, "offers that cannot be read", "shoes.json: A: price_minor and currency need each other"),
        (OFFERS, {"A": {"cost": 5}}, "offers that cannot be read", "shoes.json: A: Object contains unknown field"),
        (OFFERS, [], "files that cannot be read", "the file shoes.json: expected a dict"),
        (ADDRESSES, "A\thttp://shop/a.jpg\nX\thttp://shop/x.jpg\n", "rows of ids in no split", "asin2url.shoes.txt: X"),
        (ADDRESSES, "A\tshop/a.jpg\nB\thttp://shop/b.jpg\n", "products without an http or https address", "asin2url.shoes.txt: A"),
        (ADDRESSES, "", "files that cannot be read", "asin2url.shoes.txt has no address"),
        ("image_splits/split.Two Words.train.json", [], "splits of no category", "split.Two Words.train.json: 'two words' is not a valid category"),
        ("catalog.json", "{", "files that cannot be read", "the file catalog.json is not valid JSON"),
        ("coverage.json", [], "files that cannot be read", "the file coverage.json: expected a dict"),
        ("images/X.jpg", "", "files among the pictures that belong to no product", "X.jpg"),
        ("images/A.gif", "", "files among the pictures that belong to no product", "A.gif"),
        ("images/boots/A.jpg", "", "files among the pictures that belong to no product", "boots"),
        ("images/shoes/X.jpg", "", "files among the pictures that belong to no product", "X.jpg"),
        ("images/shoes/A.jpg", "no picture", "pictures that cannot be read", "A.jpg: UnidentifiedImageError"),
    ],
)  # fmt: skip
def test_a_defect_is_the_one_finding(root, file, content, kind, example):
    put(root, {file: content})
    found = findings(root)
    assert list(found) == [kind]
    assert len(found[kind]) == 1 and found[kind][0].startswith(example)


@pytest.mark.parametrize("file", [VAL, TEST, CAPTIONS, LABELS, TITLES])
def test_a_file_that_its_sisters_have_is_missed(root, file):
    (root / file).unlink()
    assert findings(root) == {"missing files": [file]}


def test_a_folder_of_captions_that_is_not_there_is_missed_but_not_one_of_labels_or_titles(root):
    for folder in ("captions", "attributes", "titles", "image_url"):
        os.rename(root / folder, root.parent / folder)
    assert findings(root) == {"missing files": [f"captions/cap.shoes.{split}.json" for split in IDS]}
    assert look_through(root)["shoes"].counts["labels"] == [None, None, None]


def test_an_empty_split_is_told(root):
    put(root, {VAL: [], "captions/cap.shoes.val.json": [], LABELS: {}, "titles/shoes.val.json": {}})
    assert "splits without a product" in findings(root)


def test_a_split_that_cannot_be_read_does_not_make_its_products_unknown(root):
    put(root, {VAL: '["G", '})
    assert list(findings(root)) == ["files that cannot be read"]


def test_several_broken_files_are_all_told_and_the_others_are_checked(root):
    put(root, {CAPTIONS: "{", LABELS: "[]", TITLES: "[", ADDRESSES: "", VAL: [*IDS["val"], "G"]})
    found = findings(root)
    assert len(found.pop("files that cannot be read")) == 4
    assert found == {"ids several times in a split": ["G 2 times in val"]}


@pytest.mark.parametrize("folder", ["titles", "images"])
def test_a_file_where_a_folder_should_be_is_told(root, folder):
    os.rename(root / folder, root.parent / folder)
    put(root, {folder: ""})
    found = findings(root)
    assert found.pop("folders that cannot be read") == [f"{folder}: Not a directory"]
    assert list(found) == (["categories without any picture"] if folder == "images" else [])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("file", [CAPTIONS, ADDRESSES, "images/A.jpg"])
def test_a_pipe_is_not_waited_for(root, file):
    (root / file).unlink()
    os.mkfifo(root / file)
    ((kind, (example,)),) = findings(root).items()
    assert kind in ("files that cannot be read", "pictures that cannot be read") and "not a file" in example


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_read_is_told(root):
    (root / "titles").chmod(0)
    found = check_folder(root, None, None, 0, lambda things, total, of: things)
    (root / "titles").chmod(0o755)
    assert found["shoes"].findings == {"folders that cannot be read": ["titles: Permission denied"]}


def test_products_without_a_picture_are_told_where_others_have_one(root):
    (root / "images/C.jpg").unlink()
    assert findings(root) == {"products without a picture": ["C"]}
    for path in (root / "images").iterdir():
        path.unlink()
    expected = "expected images/shoes/<id>.jpg"
    assert findings(root) == {
        "categories without any picture": [f"{expected}; `fashioniq download-images` downloads them"]
    }
    (root / ADDRESSES).unlink()
    assert findings(root) == {"categories without any picture": [expected]}


def test_a_missing_picture_that_the_downloader_told_of_is_a_note(root):
    for name in "BC":
        (root / f"images/{name}.jpg").unlink()
    put(root, {"coverage.json": {"shoes": {"missing": {"B": "dead: 404", "A": "dead: 404"}}}})
    told = look_through(root)["shoes"]
    assert told.findings == {"products without a picture": ["C"]}
    assert told.notes["products whose picture could not be downloaded, according to coverage.json"] == ["B"]


@pytest.mark.parametrize("coverage", [{"shoes": 3}, {"shoes": {"missing": ["B"]}}, {}])
def test_coverage_of_another_form_excuses_nothing(root, coverage):
    (root / "images/B.jpg").unlink()
    put(root, {"coverage.json": coverage})
    assert findings(root) == {"products without a picture": ["B"]}


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("AB", "pictures shared by 2 to 4 products"),
        ("ABCDE", "pictures shared by 5 products or more, likely a logo or placeholder"),
    ],
)
def test_a_picture_of_several_products_is_told(root, names, kind):
    for name in names:
        draw(root / f"images/{name}.jpg", 100)
    assert findings(root) == {kind: [f"{len(names)} products: {' '.join(names)}"]}


def test_pictures_are_found_where_the_catalog_finds_them(root):
    put(
        root,
        {
            "images/shoes/A.png": "x",
            "images/shoes/B.webp": "x",
            "images/C.png": "x",
            "images/D.png": "x",
            "images/A.webp": "x",
        },
    )
    (root / "images/D.jpg").unlink()
    unreadable = {example.partition(":")[0] for example in findings(root)["pictures that cannot be read"]}
    seen_by_catalog = {
        path.name for path in Catalog(root, "shoes").images.values() if path.read_bytes() == b"x"
    }
    assert unreadable == seen_by_catalog == {"A.png", "B.webp", "D.png"}


@pytest.mark.parametrize("folder", ["images", "images/shoes"])
def test_a_picture_named_with_its_accents_apart_is_that_of_the_product(root, folder):
    put(
        root,
        {
            "image_splits/split.shoes.train.json": ["Ä", *IDS["train"][1:]],
            "captions/cap.shoes.train.json": [pair("Ä", "B")],
            "titles/shoes.train.json": {},
            "attributes/asin2attr.shoes.train.json": {},
            "image_url/asin2url.shoes.txt": "Ä\thttp://shop",
        },
    )
    (root / folder).mkdir(exist_ok=True)
    (root / "images/A.jpg").rename(root / folder / "A\u0308.jpg")  # as a Mac writes it
    assert "Ä" in Catalog(root, "shoes").images
    told = look_through(root)
    assert told["shoes"].counts["pictures"] == [6, 3, 3] and not any(
        found.findings for found in told.values()
    )


def test_another_folder_of_pictures_can_be_checked(root, tmp_path):
    draw(tmp_path / "others/A.jpg", 7)
    told = look_through(root, images=tmp_path / "others")["shoes"]
    assert told.counts["pictures"] == [1, 0, 0] and len(told.findings["products without a picture"]) == 11
    with pytest.raises(UserError, match="there is no folder of pictures"):
        look_through(root, images=tmp_path / "nowhere")


def test_workers_find_what_is_found_without_them(root):
    draw(root / "images/A.jpg", 1)
    put(root, {"images/C.jpg": "no picture"})
    assert findings(root, workers=2) == findings(root) != {}


def test_hidden_files_are_nobodys_business(root):
    put(
        root,
        {
            "images/.DS_Store": "",
            "captions/._cap.shoes.train.json": "",
            "image_splits/.split.shoes.train.json": "",
        },
    )
    assert findings(root) == {}


def other_category(root, name, ids):
    put(root, {f"image_splits/split.{name}.{split}.json": ids[split] for split in IDS})
    put(root, {f"captions/cap.{name}.{split}.json": [pair(ids[split][0], ids[split][1])] for split in IDS})


def test_ids_of_two_categories_are_a_note_and_their_pictures_nobodys_fault(root):
    other_category(root, "boots", {**IDS, "test": ["J", "K", "M"]})
    draw(root / "images/M.jpg", 99)
    told = look_through(root)
    assert told[FOLDER].notes == {
        "ids both in boots and in shoes": [name for ids in IDS.values() for name in ids][:-1]
    }
    assert [found.findings for found in told.values()] == [{}, {}, {}]


def test_one_category_alone_is_checked_and_the_others_ids_are_known(root):
    other_category(root, "boots", {"train": ["M", "N"], "val": ["O", "P"], "test": ["Q", "R"]})
    put(root, {"captions/cap.boots.train.json": "{"})
    draw(root / "images/M.jpg", 99)
    told = look_through(root, category="shoes")
    assert list(told) == ["shoes", FOLDER] and not told["shoes"].findings and not told[FOLDER].findings
    assert look_through(root)["boots"].findings["products without a picture"] == ["N", "O", "P", "Q", "R"]


@pytest.mark.parametrize("content", ["[", [], {}, [7], '["A"'])
def test_a_category_whose_train_split_cannot_be_read_is_unusable_and_others_are_checked(root, content):
    other_category(root, "boots", {"train": ["M", "N"], "val": ["O", "P"], "test": ["Q", "R"]})
    put(root, {TRAIN: content, "captions/cap.boots.train.json": [pair("M", "X")]})
    told = look_through(root)
    assert "train split of shoes" in told["shoes"].unusable and not told["boots"].unusable
    assert told["boots"].findings == {
        "pairs with ids outside of their split": ["cap.boots.train.json entry 0: X"],
        "categories without any picture": ["expected images/boots/<id>.jpg"],
    }


def test_a_category_without_a_train_split_is_unusable(root):
    (root / TRAIN).unlink()
    assert look_through(root)["shoes"].unusable


@pytest.mark.parametrize("damage", ["nowhere", "empty", "no splits", "a file"])
def test_a_folder_without_splits_is_refused(tmp_path, damage):
    root = tmp_path / "data"
    if damage != "nowhere":
        root.mkdir()
    if damage == "no splits":
        put(root, {"image_splits/readme.txt": ""})
    if damage == "a file":
        put(root, {"image_splits": ""})
    with pytest.raises(UserError, match=r"image_splits.*give a Fashion IQ folder with --data"):
        check_folder(root, None, None, 0, lambda things, total, of: things)


def test_a_category_that_is_not_there_is_refused_with_those_that_are(root):
    with pytest.raises(UserError, match=r"no category 'dresses' in .*: found shoes"):
        look_through(root, category="dress")


def test_counts_are_compared_with_the_release_where_the_folder_was_not_made_here(root):
    other_category(root, "dress", {"train": ["M", "N"], "val": ["O", "P"], "test": ["Q", "R"]})
    for seed, name in enumerate("MNOPQR"):
        draw(root / "images/dress" / f"{name}.jpg", 100 + seed)
    told = look_through(root)
    assert told["dresses"].findings == {"counts that differ from the release": [
        "2 products of train, released 11452", "2 products of val, released 3817", "2 products of test, released 3818",
        "1 pairs of train, released 5985", "1 pairs of val, released 2017", "1 pairs of test, released 2024"]}  # fmt: skip
    assert not told["shoes"].findings
    put(root, {"image_url/asin2url.dress.txt": "M\thttp://shop/m.jpg\n"})
    assert (
        "1 addresses, released 19087"
        in look_through(root)["dresses"].findings["counts that differ from the release"]
    )
    put(root, {"catalog.json": {"made_by": "fashioniq import-catalog"}})
    assert not look_through(root)["dresses"].findings


def test_a_folder_that_may_only_be_read_is_checked(root):
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert findings(root) == {}
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755)


def test_the_release_has_what_it_should_and_the_findings_that_are_known(shared):
    root = shared / "fashioniq"
    if not root.is_dir():
        pytest.skip(f"no released Fashion IQ files at {root}")
    told = check_folder(root, None, root / "real_images_13", 0, lambda things, total, of: things)
    assert [sum(len(found.findings.get("captions without a word", ())) for found in told.values())] == [17]
    assert told["dresses"].findings.keys() == {
        "captions without a word", "products without a picture", "pictures shared by 2 to 4 products",
        "pictures shared by 5 products or more, likely a logo or placeholder"}  # fmt: skip
    assert told["tops"].findings["rows of ids in no split"] == ["asin2url.toptee.txt: B000NKXU22"]
    assert [len(examples) for examples in told[FOLDER].notes.values()] == [3302] and not told[FOLDER].findings

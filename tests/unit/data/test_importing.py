import csv
import json
import os
import shutil
import zipfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote

import msgspec
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from fashioniq.cli import main
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.offers import Offer, offers_file, read_offers, write_offers
from fashioniq.data.titles import product_rows
from fashioniq.files import UserError
from fashioniq.prepare import atomic_folder, importing, write_category as layout
from fashioniq.prepare.caption_files import CaptionFiles
from fashioniq.prepare.html_texts import without_html
from fashioniq.prepare.importing import import_catalog
from fashioniq.prepare.offers import joined
from fashioniq.prepare.picture_files import title_of
from fashioniq.prepare.reimporting import update_offers
from fashioniq.prepare.retailer_products import listings_of_table, select_rows
from fashioniq.prepare.source import ImportSource

COLOURS = ("Red", "Navy Blue", "White", "Green")
PATTERNS = ("striped", "checked", "printed", "solid")


def row(number, **other):
    return {"kind": "shirt", "sku": f"s{number:03}", "name": f"{PATTERNS[number // 4 % 4]} cotton shirt", "colour": COLOURS[number % 4],
            "use": "Casual", "style_code": f"g{number // 3}", **other}  # fmt: skip


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


class Shop:
    """A retailer's CSV and pictures."""

    def __init__(self, folder):
        self.csv, self.images, self.out, self.folder = (
            folder / "shop.csv",
            folder / "img",
            folder / "made" / "catalog",
            folder,
        )
        self.images.mkdir()
        self.out.parent.mkdir()

    def write(self, rows, pictures=True, suffix=".jpg", under="."):
        with open(self.csv, "w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, list(max(rows, key=len, default=row(0))))
            writer.writeheader()
            writer.writerows(rows)
        if pictures:
            for each in rows:
                self.picture(each["sku"] + suffix, under)
        return self

    def picture(self, name, under="."):
        (self.images / under).mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(self.images / under / name)

    def run(self, category="shirts", **other):
        out, seed = other.pop("out", self.out), other.pop("seed", 0)
        source = {
            "table": self.csv,
            "images": self.images,
            "id": "sku",
            "title": "name",
            "attributes": ("colour", "use"),
            **other,
        }
        return import_catalog(ImportSource(**source), out, category, seed=seed)

    def refused(self, match, **other):
        with pytest.raises(UserError, match=match) as caught:
            self.run(**other)
        assert "\n" not in str(caught.value)
        assert list(self.out.parent.iterdir()) == []

    def dropped(self, category="shirts"):
        return {
            entry["id"]: entry["reason"]
            for entry in json.loads((self.out / "dropped.json").read_text())[category]
        }


def test_the_catalog_reads_an_imported_folder(shop):
    report = shop.write([row(number) for number in range(60)]).run()
    catalog = Catalog(shop.out, "shirts")
    assert report.offered == report.kept == 60 == len(catalog.all_ids()) == len(catalog.images)
    assert report.dropped == {} and report.splits == {split: len(catalog.ids(split)) for split in SPLITS}
    assert catalog.labels["s001"] == [["shirt"], ["striped", "navy blue"], ["cotton"], [], [], ["casual"]]
    assert catalog.titles["s001"] == "striped cotton shirt"
    assert catalog.images["s001"] == shop.out / "images" / "shirt" / "s001.jpg"
    assert (
        catalog.pictures_origin == "photographs"
        and catalog.captions_origin == "made from attribute differences"
    )
    assert catalog.about["made_by"] == "fashioniq import-catalog"
    assert catalog.about["categories"]["shirts"]["source"] == "shop.csv"


def test_every_product_is_the_target_of_one_pair_of_its_split(shop):
    shop.write([row(number) for number in range(60)]).run()
    catalog = Catalog(shop.out, "shirts")
    for split in ("train", "val"):
        pairs = catalog.pairs(split)
        assert [pair.target for pair in pairs] == catalog.ids(split)
        assert all(pair.candidate != pair.target and len(pair.captions) == 2 for pair in pairs)
    assert {pair.target for pair in catalog.pairs("test")} == {None}
    assert len(catalog.pairs("test")) == len(catalog.ids("test"))


def test_a_reference_with_other_labels_goes_before_an_equal_one(shop):
    shop.write([row(number, name="striped shirt") for number in range(60)]).run()
    said = {caption for pair in Catalog(shop.out, "shirts").pairs("train") for caption in pair.captions}
    assert "looks the same" not in said


def test_products_without_words_in_their_titles_still_have_pairs(shop):
    shop.write([row(number, name="" if number % 2 else f"word{number}") for number in range(60)]).run()
    assert len(Catalog(shop.out, "shirts").pairs("train")) == len(Catalog(shop.out, "shirts").ids("train"))


def test_splits_are_disjoint_about_60_20_20_and_stable_when_products_are_added(shop):
    before = splits_of(shop.write([row(number) for number in range(300)]).run, shop.out)
    after = splits_of(
        shop.write([row(number) for number in (*range(300, 330), *range(300))]).run, shop.folder / "later"
    )
    assert {split: len(ids) for split, ids in before.items()} == pytest.approx(
        {"train": 180, "val": 60, "test": 60}, abs=25
    )
    assert sum(map(len, before.values())) == len(set().union(*before.values())) == 300
    assert all(before[split] <= after[split] for split in SPLITS)


def splits_of(run, out):
    run(out=out)
    return {split: set(Catalog(out, "shirts").ids(split)) for split in SPLITS}


def test_the_seed_decides_the_splits(shop):
    shop.write([row(number) for number in range(60)])

    def splits(name, seed):
        return splits_of(lambda out: shop.run(out=out, seed=seed), shop.folder / name)

    first, again, other = splits("a", 0), splits("b", 0), splits("c", 1)
    assert first == again != other


def test_no_value_is_no_group_and_no_title(shop):
    shop.write([row(number, style_code="N/A", name="None") for number in range(60)]).run(group="style_code")
    catalog = Catalog(shop.out, "shirts")
    assert min(len(catalog.ids(split)) for split in SPLITS) >= 6 and not any(catalog.titles.values())


def test_several_values_of_a_column_are_as_many_attributes(shop):
    shop.write([row(number, colour="navy blue|Red") for number in range(40)]).run()
    lists = Catalog(shop.out, "shirts").labels["s000"]
    assert {"navy blue", "red"} <= {word for words in lists for word in words} and not any(
        "|" in word for words in lists for word in words
    )


def test_an_accent_may_be_written_in_two_ways(shop):
    shop.write([row(number, sku=f"t\u00e9{number}") for number in range(40)], pictures=False)
    for number in range(40):
        shop.picture(f"te\u0301{number}.jpg")
    assert shop.run().kept == 40


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_columns_values_and_folders_may_be_given_in_another_form(shop, forms, suffix):
    own, given = (partial(normalize, form) for form in forms)
    rows = [
        {own("Größe"): own("lång" if number % 3 else "x"), own("idé"): f"s{number}", own("couleur é"): COLOURS[number % 4]}
        for number in range(40)
    ]  # fmt: skip
    table = shop.folder / f"table{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    else:
        lines = [",".join(values) for values in (rows[0], *(row.values() for row in rows))]
        table.write_text("\n".join(lines if suffix == ".csv" else map(json.dumps, rows)) + "\n")
    for number in range(40):
        shop.picture(f"s{number}.jpg", own("röcke"))
        shop.picture(f"s{number}.jpg", "others")
    options = {"table": table, "id": given("idé"), "title": None, "attributes": [given("couleur é")]}
    report = shop.run(**options, where=given("Größe=lång"), folders=[given("Röcke")])
    assert report.kept == 26 and any(Catalog(shop.out, "shirts").labels["s1"])


def test_the_split_of_a_product_does_not_depend_on_the_form_of_its_id(shop):
    found = []
    for form in ("NFC", "NFD"):
        shop.write([row(number, sku=normalize(form, f"é{number}")) for number in range(60)])
        shop.run(out=shop.folder / form)
        catalog = Catalog(shop.folder / form, "shirts")
        found.append([{normalize("NFC", name) for name in catalog.ids(split)} for split in SPLITS])
    assert found[0] == found[1]


@pytest.mark.parametrize("file", ["NFC", "NFD"])
@pytest.mark.parametrize("id", ["NFC", "NFD"])
def test_a_numbered_picture_of_another_product_is_not_taken_in_any_form(shop, id, file):
    shop.write([row(number) for number in range(20)])
    names = [normalize(id, f"é{end}") for end in ("", "_1")]
    shop.write(
        [*(row(number) for number in range(20)), *(row(1, sku=name) for name in names)], pictures=False
    )
    shop.picture(normalize(file, "é_1.jpg"))
    assert shop.run().dropped == {"no picture": 1}
    assert names[1] in Catalog(shop.out, "shirts").images


@pytest.mark.parametrize("unseen", ["\u200b", "\u200f", "\u202e", "\u00ad", "\u00a0"])
def test_ids_that_no_catalog_may_have_are_not_imported(shop, unseen):
    shop.write([row(number) for number in range(20)])
    shop.write([*(row(number) for number in range(20)), row(1, sku=f"a{unseen}b")])
    assert shop.run().dropped == {"unsafe id": 1}
    assert len(Catalog(shop.out, "shirts").all_ids()) == 20


def test_a_group_stays_in_one_split(shop):
    shop.write([row(number) for number in range(90)]).run(group="style_code")
    catalog = Catalog(shop.out, "shirts")
    split_of = {name: split for split in SPLITS for name in catalog.ids(split)}
    assert all(len({split_of[f"s{number + k:03}"] for k in range(3)}) == 1 for number in range(0, 90, 3))


def test_two_imports_of_the_same_files_are_equal(shop):
    shop.write([row(number) for number in range(60)])
    shop.run()
    shop.run(out=shop.folder / "again")
    for path in shop.out.rglob("*.json"):
        assert path.read_bytes() == (shop.folder / "again" / path.relative_to(shop.out)).read_bytes()


def test_where_selects_rows(shop):
    shop.write([row(number, kind=("shirt", "Dress up")[number % 2]) for number in range(100)])
    assert shop.run("dresses", where=" kind = Dress up ").offered == 50
    assert all(int(name[1:]) % 2 for name in Catalog(shop.out, "dress").all_ids())


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".png", ".webp", ".JPG"])
def test_pictures_of_every_suffix_are_found_in_folders(shop, suffix):
    shop.write([row(number) for number in range(40)], suffix=suffix, under="some").run()
    assert {path.suffix for path in Catalog(shop.out, "shirts").images.values()} == {suffix.lower()}
    assert len(Catalog(shop.out, "shirts").images) == 40


def test_a_folder_that_holds_itself_is_searched_once(shop):
    shop.write([row(number) for number in range(40)], under="one")
    shop.picture("s999.jpg")
    (shop.images / "one" / "again").symlink_to(shop.images, target_is_directory=True)
    assert shop.run().kept == 40


def test_the_folder_of_the_category_goes_before_those_of_others(shop):
    shop.write([row(number) for number in range(40)], under="shirt")
    shop.picture("s000.jpg", "dress")
    shop.picture("s999.jpg", "dress")
    shop.write([*(row(number) for number in range(40)), row(999)], pictures=False)
    assert shop.run().kept == 40
    assert shop.dropped() == {"s999": "no picture"}


def test_an_id_with_pictures_in_several_folders_is_dropped(shop):
    shop.write([row(number) for number in range(40)], under="one")
    shop.picture("s003.jpg", "two")
    assert shop.run().dropped == {"several pictures": 1}
    assert "two" in shop.dropped()["s003"]


def test_the_first_picture_that_can_be_read_stands_for_the_product(shop):
    shop.write([row(number) for number in range(40)])
    (shop.images / "s000.jpg").write_bytes(b"broken")
    (shop.images / "s000_1.jpg").write_bytes(b"")
    for name in ("s000-10.jpg", "s000_2.png", "s001_1.jpg", "s001_0.png"):
        shop.picture(name)
    (shop.images / "s002.jpg").unlink()
    shop.picture("s002_7.webp")
    (shop.images / "s003.jpg").write_bytes(b"broken")
    (shop.images / "s003_1.jpg").write_bytes(b"")
    report = shop.run()
    images = Catalog(shop.out, "shirts").images
    assert (
        images["s000"].read_bytes() == (shop.images / "s000_2.png").read_bytes()
        and images["s000"].name == "s000.png"
    )
    assert [images[name].name for name in ("s001", "s002")] == ["s001.jpg", "s002.webp"]
    assert report.replaced == 1 and report.dropped == {"unreadable picture": 1}
    assert shop.dropped()["s003"].startswith("unreadable picture: s003.jpg: ") and shop.dropped()[
        "s003"
    ].endswith("s003_1.jpg: empty file")


def test_a_numbered_picture_is_not_taken_from_the_product_of_that_id(shop):
    shop.write(
        [*(row(number) for number in range(40)), row(1, sku="s000_1", kind="dress"), row(2, sku="s000_1_2")]
    )
    (shop.images / "s000.jpg").write_bytes(b"broken")
    assert shop.run(where="kind=shirt").dropped == {"unreadable picture": 1}
    assert shop.dropped().keys() == {"s000"}


def test_a_column_names_the_pictures(shop):
    rows = [row(number, use=f"p{number}.jpg | {number}/a.png") for number in range(40)]
    shop.write(rows, pictures=False)
    for number in range(40):
        shop.picture(f"p{number}.jpg")
        shop.picture("a.png", str(number))
    (shop.images / "p0.jpg").write_bytes(b"broken")
    (shop.images / "p1.jpg").unlink()
    shop.write(
        [*rows, row(41, use="a.png"), row(42, use="../shop.csv|/etc/x.jpg"), row(43, use="NA")],
        pictures=False,
    )
    report = shop.run(picture="use", attributes=["colour"])
    images = Catalog(shop.out, "shirts").images
    assert report.kept == 40 and report.replaced == 1
    assert [images[name].name for name in ("s000", "s001", "s002")] == ["s000.png", "s001.png", "s002.jpg"]
    dropped = shop.dropped()
    assert dropped["s041"].startswith("several pictures: 0/a.png, 1/a.png")
    assert (dropped["s042"], dropped["s043"]) == ("no picture: ../shop.csv|/etc/x.jpg", "no picture: NA")


def test_an_archive_gives_the_same_folder_as_its_files(shop):
    shop.write([row(number) for number in range(40)], under="shirt").run()
    archive = Path(shutil.make_archive(str(shop.folder / "all"), "zip", shop.folder, "img"))
    shop.run(images=archive, out=shop.folder / "unpacked")
    assert contents(shop.folder / "unpacked") == contents(shop.out)
    assert not list(shop.folder.glob(".*"))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_skipped_members_of_an_archive_are_listed(shop):
    shop.write([row(number) for number in range(40)])
    archive = shop.folder / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in shop.images.iterdir():
            file.write(path, path.name)
        file.writestr("../s040.jpg", b"x")
    report = shop.run(images=archive)
    assert report.kept == 40 and report.skipped == {"its path is outside the folder": 1}
    entries = json.loads((shop.out / "dropped.json").read_text())["shirts"]
    assert entries == [{"file": "../s040.jpg", "reason": "not unpacked: its path is outside the folder"}]


def test_an_archive_above_the_limit_leaves_nothing(shop, monkeypatch):
    monkeypatch.setattr(importing, "MAX_BYTES", 1e3)
    shop.write([row(number) for number in range(40)])
    archive = shutil.make_archive(str(shop.folder / "all"), "zip", shop.images)
    with pytest.raises(UserError, match="unpacks to more"):
        import_catalog(ImportSource(shop.csv, Path(archive), "sku", "name"), shop.out, "shirts")
    assert list(shop.out.parent.iterdir()) == []


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_another_kind_of_table_gives_the_same_folder(shop, suffix):
    rows = [row(number, use=str(number % 3)) for number in range(40)]
    shop.write(rows).run()
    table = shop.folder / f"shop{suffix}"
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(
            pyarrow.Table.from_pylist([{**each, "use": int(each["use"])} for each in rows]), table
        )
    else:
        table.write_text("".join(json.dumps({**each, "use": int(each["use"])}) + "\n" for each in rows))
    shop.run(table=table, out=shop.folder / "other")
    first, other = contents(shop.out), contents(shop.folder / "other")
    assert (
        first.pop("catalog.json") == other.pop("catalog.json").replace(table.name.encode(), b"shop.csv")
        and first == other
    )


def test_the_values_of_columns_are_kept_with_the_titles(shop):
    shop.write([row(number, use="NA") for number in range(40)]).run(group="style_code")
    titles = {}
    for split in SPLITS:
        titles.update(json.loads((shop.out / f"titles/shirt.{split}.json").read_text()))
    assert titles["s001"] == {"title": "striped cotton shirt", "colour": "Navy Blue", "style_code": "g0"}


def test_pictures_without_a_table_are_products_with_titles_of_their_words(shop):
    for number in range(20):
        shop.picture(f"IMG_{number}.jpg", "red-dress")
        shop.picture(f"{number}.jpg", "blue dress")
    shop.picture("7.png", "blue dress")
    (shop.images / "green").mkdir()
    shop.picture("deep.jpg", "green/dress")
    (shop.images / "red-dress" / "broken.jpg").write_bytes(b"x")
    report = import_catalog(ImportSource(images=shop.images), shop.out, "dresses")
    catalog = Catalog(shop.out, "dresses")
    assert report.kept == 41 == len(catalog.images) and report.dropped == {
        "repeated id": 1,
        "unreadable picture": 1,
    }
    assert report.folders == {"blue dress": 21, "green": 1, "red-dress": 21} and report.other_folders == {}
    assert catalog.titles["green-dress-deep"] == "green dress deep"
    assert catalog.titles["blue dress-3"] == "blue dress"  # a number says nothing
    assert catalog.titles["red-dress-IMG_3"] == "red dress IMG 3" and catalog.labels["blue dress-3"] == [
        ["dress"],
        ["blue"],
        [],
        [],
        [],
        [],
    ]
    assert {entry["file"] for entry in json.loads((shop.out / "dropped.json").read_text())["dresses"]} == {
        "blue dress/7.png",
        "red-dress/broken.jpg",
    }


def class_folders(shop, **folders):
    for folder, numbers in folders.items():
        for number in numbers:
            shop.picture(f"{number:08}-11aa-22bb-33cc-44dd55ee66ff.jpg", folder)


def test_pairs_of_photos_of_one_class_have_no_captions_and_are_counted(shop):
    class_folders(shop, **{"dress": range(70), "red dress": range(70, 80)})
    report = import_catalog(ImportSource(images=shop.images), shop.out, "clothes")
    captions = [json.loads((shop.out / f"captions/cap.clothes.{split}.json").read_text()) for split in SPLITS]
    assert report.kept == 80 and report.alike == 80 - report.differing >= 40
    assert sum(map(len, captions)) == report.differing
    assert not {"looks the same"} & {text for rows in captions for row in rows for text in row["captions"]}
    assert set(Catalog(shop.out, "clothes").titles.values()) == {"dress", "red dress"}


@pytest.mark.parametrize(
    "folders, taken, others",
    [
        ([], {"shirt": 30}, {"dress": 20, "t-shirt": 10}),
        (["Dress", "shirt"], {"dress": 20, "shirt": 30}, {"t-shirt": 10}),
    ],
)
def test_the_folders_of_a_category_are_its_own_or_those_given_and_others_are_counted(
    shop, folders, taken, others
):
    class_folders(shop, **{"dress": range(20), "shirt": range(20, 50), "t-shirt": range(50, 60)})
    report = import_catalog(ImportSource(images=shop.images, folders=folders), shop.out, "shirts")
    assert (report.folders, report.other_folders, report.kept) == (taken, others, sum(taken.values()))
    garments = {words[0][0] for words in Catalog(shop.out, "shirts").labels.values() if words[0]}
    assert garments == (set(taken) if folders else set())  # the name of its own folder is not read


def test_a_class_folder_that_is_missing_is_refused_with_those_that_there_are(shop):
    class_folders(shop, dress=range(20), shirt=range(20, 50))
    with pytest.raises(UserError, match=r"there is no folder 'shirts' in .*: found dress, shirt"):
        import_catalog(ImportSource(images=shop.images, folders=["shirts"]), shop.out, "shirts")
    assert not shop.out.exists()


@pytest.mark.parametrize(
    "folder, stem, title",
    [
        ("dress", "005d3a4d-b8cc-4f14-9d2b-0123456789ab", "dress"),
        ("", "d41d8cd98f00b204e9800998ecf8427e", ""),
        ("red/long", "123_4", "red long"),
        ("", "facade", "facade"),
        ("", "blue-dress-12", "blue dress 12"),
    ],
)
def test_file_names_that_are_identifiers_are_no_titles(folder, stem, title):
    assert title_of(folder, stem) == title


def test_products_that_no_label_tells_apart_have_no_captions_and_are_told(shop):
    for number in range(40):
        shop.picture(f"{number}.jpg")
    report = import_catalog(ImportSource(images=shop.images), shop.out, "dresses")
    catalog = Catalog(shop.out, "dresses")
    assert report.differing == 0 and len(catalog.images) == 40 and catalog.titles == {}
    assert (
        catalog.captions_origin == "none: no label tells two products apart"
        and not (shop.out / "captions").exists()
    )
    shop.write([row(number) for number in range(40)]).run("shirts")
    assert Catalog(shop.out, "shirts").captions_origin == "made from attribute differences"


def test_names_of_files_that_are_no_text_are_dropped_and_listed(shop):
    for number in range(40):
        shop.picture(f"{number}.jpg")
    try:
        (shop.images / os.fsdecode(b"\xff.jpg")).write_bytes(b"x")
    except OSError:
        pytest.skip("a file system that takes only text for names")
    assert import_catalog(ImportSource(images=shop.images), shop.out, "dresses").dropped == {"unsafe id": 1}
    assert json.loads((shop.out / "dropped.json").read_text())["dresses"][0]["file"] == "\\udcff.jpg"


@pytest.mark.parametrize("source, told", [
    ({"images": "x", "title": "name"}, "--title refers to a column: give the table"),
    ({"images": "x", "attributes": ["name"]}, "--attributes refers to a column"),
    ({"table": "x", "id": "sku"}, "expected either --images"),
    ({"table": "x", "id": "sku", "images": "x", "url": "link"}, "expected either --images"),
    ({"table": "x", "id": "sku", "picture": "file", "url": "link"}, "cannot be combined with --url"),
    ({}, "expected either --images"),
    ({"images": "x", "price": "cost"}, "--price refers to a column"),
    ({"table": "x", "id": "sku", "images": "x", "currency": "EUR"}, "give their column with --price"),
    ({"table": "x", "id": "sku", "stock": "left", "title": "name"}, "--title is for a new catalog"),
    ({"table": "x", "id": "sku", "url": "link", "folders": ["dress"]}, "--folders refers to folders in --images"),
])  # fmt: skip
def test_parts_that_do_not_go_together_are_refused(source, told):
    with pytest.raises(UserError, match=told):
        ImportSource(**source)


def test_a_table_without_an_id_column_is_told_with_the_columns_that_there_are(shop):
    shop.write([row(number) for number in range(40)])
    with pytest.raises(
        UserError, match=r"--table needs --id, .* are kind, sku, name, colour, use, style_code"
    ):
        ImportSource(table=shop.csv, images=shop.images)
    with pytest.raises(UserError, match=r"there is no file .*none.csv"):
        ImportSource(table=shop.folder / "none.csv", images=shop.images)


def test_a_tar_of_pictures_is_refused_with_what_to_do(shop):
    (shop.folder / "all.tar.gz").touch()
    shop.write([row(number) for number in range(40)]).refused(
        "unpack it and give the folder, or create a .zip", images=shop.folder / "all.tar.gz"
    )


def test_a_file_that_is_no_archive_is_refused_as_pictures(shop):
    shop.write([row(number) for number in range(40)]).refused(
        "shop.csv is neither a folder nor a .zip archive", images=shop.csv
    )


def test_pictures_are_linked_or_copied_where_they_cannot_be(shop, monkeypatch):
    shop.write([row(number) for number in range(40)]).run()
    assert os.path.samefile(shop.out / "images/shirt/s000.jpg", shop.images / "s000.jpg")

    def no_links(*_):
        raise OSError("no hard links here")

    monkeypatch.setattr(layout.os, "link", no_links)
    shop.run(out=shop.folder / "copied")
    copy = shop.folder / "copied/images/shirt/s000.jpg"
    assert copy.read_bytes() == (shop.images / "s000.jpg").read_bytes() and not os.path.samefile(
        copy, shop.images / "s000.jpg"
    )


@pytest.mark.parametrize("forms", [("\u00e9", "e\u0301"), ("e\u0301", "\u00e9")])
def test_an_id_is_the_same_whichever_way_its_accents_are_written(shop, forms):
    own, other = forms
    shop.write([row(number) for number in range(20)])
    shop.write([*(row(number) for number in range(20)), row(1, sku=own), row(2, sku=other)], pictures=False)
    shop.picture(f"{other}.jpg")
    report = shop.run()
    assert report.dropped == {"repeated id": 1} and report.kept == 21
    assert own in Catalog(shop.out, "shirts").all_ids() and own in Catalog(shop.out, "shirts").images
    shop.write([row(1, sku=other, use="5")], pictures=False)
    update_offers(ImportSource(table=shop.csv, id="sku", price="use", currency="EUR"), shop.out, "shirts")
    assert [*Catalog(shop.out, "shirts").offers] == [own]


def test_titles_and_descriptions_with_html_are_stored_as_plain_text(shop):
    told = row(1, name="Süßes Kleid &amp; Gürtel <b>Grün</b>", description="<p>Weich.</p>size < 40 > 38")
    shop.write([told if number == 1 else row(number) for number in range(40)])
    shop.run()
    catalog = Catalog(shop.out, "shirts")
    assert catalog.titles["s001"] == "Süßes Kleid & Gürtel Grün"
    stored = next(rows["s001"] for split in SPLITS if "s001" in (rows := product_rows(catalog, split)))
    assert stored["description"] == "Weich. size < 40 > 38"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("size < 40 > 38", "size < 40 > 38"),
        ("a <3 b", "a <3 b"),
        ("sizes <S> <M> <XL>", "sizes <S> <M> <XL>"),
        ("H&M Jeans&parka &notice; &foo;", "H&M Jeans&parka &notice; &foo;"),
        ("R&amp;D  &#39;x&#x27; &lt;b&gt;y&lt;/b&gt;&nbsp;z", "R&D 'x' y z"),
        ("G<b>r</b>ün<br/>weich<BR>neu", "Grün weich neu"),
        ('<a href="x">Kleid</a><!-- old --> <style>p {}</style>rot', "Kleid rot"),
        ("<" * 50_000 + "<!--" * 20_000, "<" * 50_000 + "<!--" * 20_000),
        ("two  spaces", "two  spaces"),
    ],
)
def test_only_html_is_removed_from_texts(text, plain):
    assert without_html(text) == plain


def test_dropped_rows_are_listed_with_their_reason(shop):
    rows = [row(number) for number in range(40)]
    shop.write(rows)
    unsafe = ["../s001", "..", "a/b", "a\\b", ".hidden", "x" * 300]
    shop.write(
        [*rows, rows[0], row(1, sku=" "), *(row(1, sku=name) for name in unsafe), row(777), row(778)],
        pictures=False,
    )
    (shop.images / "s778.jpg").write_bytes(b"")
    with open(shop.csv, "a", encoding="utf-8") as file:
        file.write("shirt,s005,too,many,fields,in,this\nshirt,s006\n")
    report = shop.run()
    assert report.offered == 52 and report.kept == 40
    assert report.dropped == {
        "repeated id": 1,
        "empty id": 1,
        "unsafe id": 1,
        "no picture": 6,
        "unreadable picture": 1,
        "unreadable row": 2,
    }
    dropped = json.loads((shop.out / "dropped.json").read_text())["shirts"]
    assert [unquote(entry["id"]) for entry in dropped[2:8]] == unsafe
    assert dropped[-1] == {"line": 53, "id": "", "reason": "unreadable row: expected 6 fields, found 2"}


def test_ids_that_cannot_name_files_are_percent_encoded(shop):
    odd = ["B/005", "B/005_red", "a:b?", ".7", "50%", "B%2F006", "Straße 7", "con", "Com1.x", "p3.", "cone"]
    encoded = ["B%2F005", "B%2F005_red", "a%3Ab%3F", "%2E7", "50%", "B%252F006", "Straße 7"]
    encoded += ["%63on", "%43om1.x", "p3%2E", "cone"]
    rows = [row(number, sku=name) for number, name in enumerate(odd)] + [row(number) for number in range(40)]
    shop.write(rows[len(odd) :]).write(rows, pictures=False)
    shop.picture("005.jpg", "B")  # in a folder of its own, or encoded
    for name in ("005_red", *encoded[2:]):
        shop.picture(f"{name}.jpg", "B" if name == "005_red" else ".")
    report = shop.run()
    catalog = Catalog(shop.out, "shirts")
    assert report.kept == 51 and report.encoded == [
        new for new, old in zip(encoded, odd, strict=True) if new != old
    ]
    assert set(encoded) <= set(catalog.all_ids()) == set(catalog.images)
    assert [unquote(name) for name in encoded] == odd


def test_values_of_a_column_with_a_type_are_words_of_this_type(shop):
    shop.write([row(number, colour="Bottle Green | Petrol", use="Navy") for number in range(40)])
    shop.run(attributes=("texture=colour", "style=use"))
    labels = Catalog(shop.out, "shirts").labels["s000"]
    assert labels[1] == ["striped", "dark green", "petrol"] and labels[5] == ["navy"]
    titles = json.loads((shop.out / "titles/shirt.train.json").read_text())
    assert all("colour" in each and "use" in each for each in titles.values())


def test_a_column_with_an_unknown_type_is_refused(shop):
    shop.write([row(number) for number in range(40)]).refused(
        "--attributes: expected TYPE=COLUMN", attributes=("size=colour",)
    )


@pytest.mark.parametrize("suffix", [".xlsx", "latin-1"])
def test_a_workbook_and_a_table_in_another_encoding_give_the_same_folder(shop, suffix):
    rows = [row(number, name=f"{PATTERNS[number % 4]} blouse für dich") for number in range(40)]
    shop.write(rows).run()
    if suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for cells in [list(rows[0]), *(list(each.values()) for each in rows)]:
            book.active.append(cells)
        book.save(shop.folder / "shop.xlsx")
        given = {"table": shop.folder / "shop.xlsx"}
    else:
        text = shop.csv.read_text(encoding="utf-8-sig")
        shop.csv.write_text(text.replace(",", ";"), encoding="latin-1")
        given = {"encoding": "latin-1"}
    shop.run(**given, out=shop.folder / "other")
    first, other = contents(shop.out), contents(shop.folder / "other")
    assert first.pop("catalog.json") == other.pop("catalog.json").replace(b"shop.xlsx", b"shop.csv")
    assert first == other


def test_a_column_without_a_value_gives_no_attribute(shop):
    shop.write([row(number, use="NA", colour="") for number in range(40)]).run()
    assert Catalog(shop.out, "shirts").labels["s000"] == [["shirt"], ["striped"], ["cotton"], [], [], []]


def test_another_category_is_added_and_the_first_stays(shop):
    shop.write([row(number, kind=("shirt", "dress")[number % 2]) for number in range(100)])
    shop.run("shirts", where="kind=shirt")
    first = {path: path.read_bytes() for path in shop.out.rglob("*.shirt.*")}
    shop.run("dresses", where="kind=dress", seed=3)
    about = json.loads((shop.out / "catalog.json").read_text())["categories"]
    assert first and all(path.read_bytes() == content for path, content in first.items())
    assert {name: each["seed"] for name, each in about.items()} == {"shirts": 0, "dresses": 3}
    assert set(json.loads((shop.out / "dropped.json").read_text())) == {"shirts", "dresses"}
    assert [len(Catalog(shop.out, name).images) for name in ("shirts", "dresses")] == [50, 50]


def split_of(catalog):
    return {name: split for split in SPLITS for name in catalog.ids(split)}


def test_a_category_is_imported_again_with_the_products_of_today(shop):
    shop.write([row(number) for number in range(60)]).run(seed=3)
    shop.run("dresses")
    before, others = (
        split_of(Catalog(shop.out, "shirts")),
        {path: path.read_bytes() for path in shop.out.rglob("*.dress.*")},
    )
    shop.write([row(number, name="plain linen shirt") for number in range(5, 80)])
    report = shop.run()
    catalog = Catalog(shop.out, "shirts")
    now = split_of(catalog)
    assert (report.again, report.new, report.gone, len(now)) == (True, 20, 5, 75)
    assert all(now[name] == split for name, split in before.items() if name in now)  # of the first seed
    assert set(catalog.images) == set(now) and set(catalog.titles.values()) == {"plain linen shirt"}
    assert {pair.target for pair in catalog.pairs("train")} <= set(now)
    assert catalog.imported["seed"] == 3 and catalog.imported["fingerprint"] == catalog.fingerprint()
    assert others and all(path.read_bytes() == content for path, content in others.items())
    assert [path.name for path in shop.out.parent.iterdir()] == ["catalog"]


def test_captions_by_people_and_offers_are_kept_where_their_products_are(shop):
    shop.write([row(number) for number in range(60)]).run()
    catalog = Catalog(shop.out, "shirts")
    kept, lost = [name for name in catalog.ids("train") if name >= "s010"][:2], min(catalog.ids("train"))
    by_person = {"captions": ["is longer"], "people": ["ann"]}
    pairs = [{"target": kept[0], "candidate": kept[1]}, {"target": kept[0], "candidate": lost}]
    (shop.out / "captions/cap.shirt.train.json").write_text(json.dumps([pair | by_person for pair in pairs]))
    for split in ("val", "test"):
        (shop.out / f"captions/cap.shirt.{split}.json").unlink()
    about = json.loads((shop.out / "catalog.json").read_text())
    about["categories"]["shirts"]["captions"] = "human"
    (shop.out / "catalog.json").write_text(json.dumps(about))
    write_offers(
        offers_file(shop.out, "shirts"),
        {kept[0]: Offer(price_minor=100, currency="EUR"), lost: Offer(price_minor=1, currency="EUR")},
    )
    assert lost < "s010"
    assert shop.write([row(number) for number in range(10, 60)]).run().by_people == 1
    catalog = Catalog(shop.out, "shirts")
    assert json.loads((shop.out / "captions/cap.shirt.train.json").read_text()) == [pairs[0] | by_person]
    assert catalog.captions_origin == "human" and not (shop.out / "captions/cap.shirt.val.json").exists()
    assert {name: one.price_minor for name, one in catalog.offers.items()} == {kept[0]: 100}


def test_captions_by_people_wait_for_products_that_come_back(shop):
    shop.write([row(number) for number in range(60)]).run()
    names = Catalog(shop.out, "shirts").ids("train")
    rows = [{"target": one, "candidate": two, "captions": ["is red"]} for one, two in pairwise(names)]
    path = shop.out / "captions/cap.shirt.train.json"
    path.write_text(json.dumps(rows))
    for split in ("val", "test"):
        (shop.out / f"captions/cap.shirt.{split}.json").unlink()
    for numbers, waiting in ((range(20, 60), True), (range(25, 60), True), (range(60), False)):
        report = shop.write([row(number) for number in numbers]).run()
        kept = json.loads(path.read_text())
        assert len(kept) + report.by_people == len(rows) and bool(report.by_people) == waiting
    assert sorted(kept, key=rows.index) == rows and not any(shop.out.glob("set_aside/*"))


@pytest.mark.parametrize("damaged", ["[1]", '[{"candidate": ["s1"]}]', "{}"])
def test_damaged_captions_that_wait_are_refused_and_stay(damaged, shop):
    shop.write([row(number) for number in range(60)]).run()
    (shop.out / "captions/cap.shirt.train.json").unlink()
    (shop.out / "set_aside").mkdir()
    (shop.out / "set_aside/cap.shirt.train.json").write_text(damaged)
    with pytest.raises(UserError, match=r"set_aside/cap\.shirt\.train\.json"):
        shop.run()
    assert (shop.out / "set_aside/cap.shirt.train.json").read_text() == damaged


def test_products_keep_their_splits_in_another_group_and_new_ones_join_theirs(shop):
    shop.write([row(number) for number in range(60)]).run(group="style_code")
    before = split_of(Catalog(shop.out, "shirts"))
    others = [row(number, style_code=f"other {number // 3}") for number in range(90)]
    shop.write([*others, row(90, style_code="other 3")]).run(group="style_code")
    now = split_of(Catalog(shop.out, "shirts"))
    assert {name: now[name] for name in before} == before and now["s090"] == before["s009"]


@pytest.mark.parametrize("about", [{"shirts": None}, {"shirts": {"captions": "human", "columns": None}}])
def test_a_category_of_an_odd_description_is_refused_in_a_line(shop, about):
    shop.write([row(number) for number in range(60)]).run()
    path = shop.out / "catalog.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"categories": about}))
    with pytest.raises(UserError, match="was imported with --attributes none"):
        shop.run()


def test_what_was_to_be_replaced_stays_where_it_cannot_be_put_back(shop, monkeypatch):
    shop.write([row(number) for number in range(60)]).run()
    before = contents(shop.out)
    moved = []

    def failing(self, target):
        moved.append(target)
        if len(moved) > 9:  # also of what puts back
            raise OSError(28, "No space left on device")
        return os.rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_folder.Path, "rename", failing)
        with pytest.raises(UserError, match="no space left"):
            shop.run()
    assert contents(shop.out) != before
    with atomic_folder.staged(shop.out):
        assert without_locks(contents(shop.out)) == before
    assert [path.name for path in shop.out.parent.iterdir()] == ["catalog"]


def without_locks(files):
    return {name: content for name, content in files.items() if not name.endswith(".lock")}


def test_another_table_is_no_new_one_of_a_category(shop):
    shop.write([row(number) for number in range(60)]).run()
    before = contents(shop.out)
    for match, other in (
        ("was imported with --title name, and is now with none", {"title": None}),
        (
            "was imported with --attributes colour use, and is now with colour: give the same",
            {"attributes": ("colour",)},
        ),
        ("was imported with --language en, and is now with de", {"language": "de"}),
    ):
        with pytest.raises(UserError, match=match):
            shop.run(**other)
    shop.write([row(number) for number in range(31, 91)])
    with pytest.raises(
        UserError, match=r"29 of the 60 products of shirts in .* are among those that are imported now"
    ):
        shop.run()
    assert without_locks(contents(shop.out)) == before


def test_a_folder_that_the_command_did_not_make_is_refused_and_left_alone(shop):
    shop.write([row(number) for number in range(40)])
    shop.out.mkdir()
    (shop.out / "mine.txt").write_text("mine")
    for about in (None, {"made_by": "fashioniq draw-sample"}):
        if about:
            (shop.out / "catalog.json").write_text(json.dumps(about))
        with pytest.raises(UserError, match="was not made by `fashioniq import-catalog`"):
            shop.run()
    assert sorted(path.name for path in shop.out.iterdir()) == ["catalog.json", "mine.txt"]


def test_a_failed_addition_leaves_the_folder_as_it_was(shop, monkeypatch):
    shop.write([row(number) for number in range(80)]).run()
    before = {path: path.read_bytes() for path in shop.out.rglob("*") if path.is_file()}
    replace = atomic_folder.Path.replace

    def fails(path, target):
        if target == shop.out / "catalog.json":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(atomic_folder.Path, "replace", fails)
    with pytest.raises(UserError, match="no space left to write"):
        shop.run("dresses")
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in shop.out.rglob("*") if path.is_file()} == before
    assert [path.name for path in shop.out.parent.iterdir()] == ["catalog"]
    shop.run("dresses")


def test_files_of_an_unknown_category_are_not_overwritten(shop):
    shop.write([row(number) for number in range(40)]).run()
    stray = shop.out / "image_splits" / "split.dress.train.json"
    stray.write_text("[]")
    with pytest.raises(UserError, match=r"split\.dress\.train\.json exists"):
        shop.run("dresses")
    assert stray.read_text() == "[]" and not (shop.out / "images" / "dress").exists()


def test_a_failure_while_writing_leaves_nothing(shop, monkeypatch):
    shop.write([row(number) for number in range(40)])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout, "_link_or_copy", full)
    shop.refused("no space left to write")


def test_an_interruption_leaves_nothing(shop, monkeypatch):
    shop.write([row(number) for number in range(40)])

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(layout, "_link_or_copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    assert list(shop.out.parent.iterdir()) == []


OFFERED = {"price": "cost", "currency": "EUR", "sizes": "fits", "stock": "left", "link": "page"}


def with_offers(shop, count, **wrong):
    """A table of offers, in which the first row has the wrong values."""
    right = {"cost": "49,90 €", "fits": "L/S", "left": "2", "page": "https://shop.example/s"}
    rows = [
        {"sku": f"s{number:03}", "name": "cotton shirt", **right, **(wrong if number == 0 else {})}
        for number in range(count)
    ]
    shop.csv.write_text("\n".join(json.dumps(row) for row in rows))
    shop.csv = shop.csv.rename(shop.csv.with_suffix(".jsonl"))
    return shop


READ = Offer(price_minor=4990, currency="EUR", sizes=("S", "L"), in_stock=True, url="https://shop.example/s")


def test_offers_are_imported_and_what_cannot_be_read_is_listed(shop):
    with_offers(shop, 40, cost="49-59", left="maybe")
    for number in range(40):
        shop.picture(f"s{number:03}.jpg")
    report = shop.run(attributes=(), **OFFERED)
    catalog = Catalog(shop.out, "shirts")
    assert report.offers == report.kept == 40 and report.unread == {"price not read": 1, "stock not read": 1}
    assert catalog.offers.pop("s000") == Offer(sizes=("S", "L"), url=READ.url)
    assert set(catalog.offers.values()) == {READ} and len(catalog.offers) == 39
    listed = json.loads((shop.out / "offers/shirt.unread.json").read_text())
    assert [(one["line"], one["id"]) for one in listed] == [(1, "s000")] * 2
    assert listed[0]["reason"] == "price not read: expected one number, found '49-59'"
    assert catalog.imported["columns"]["price"] == "cost" and shop.dropped() == {}


def test_a_catalog_without_offers_has_no_file_of_them(shop):
    shop.write([row(number) for number in range(40)]).run()
    assert not (shop.out / "offers").exists() and Catalog(shop.out, "shirts").offers == {}


def test_a_table_without_pictures_replaces_the_offers(shop):
    with_offers(shop, 40)
    for number in range(40):
        shop.picture(f"s{number:03}.jpg")
    shop.run(attributes=(), **OFFERED)
    before = {
        path: path.read_bytes()
        for path in shop.out.rglob("*")
        if path.is_file() and path.parent.name != "offers"
    }
    lines = [
        {"sku": "s001", "cost": "5"},
        {"sku": "s002", "left": "?"},
        {"sku": "none", "cost": "5"},
        {"sku": "s001", "cost": "6"},
    ]
    shop.csv.write_text(
        "\n".join(json.dumps({"cost": "", "fits": "", "left": "", "page": "", **one}) for one in lines)
    )
    source = ImportSource(table=shop.csv, id="sku", **OFFERED)
    report = update_offers(source, shop.out, "shirts")
    assert Catalog(shop.out, "shirts").offers == {"s001": Offer(price_minor=500, currency="EUR")}
    assert (report.products, report.offers, report.unread) == (40, 1, {"stock not read": 1})
    assert report.dropped == {"no such product": 1}
    listed = json.loads((shop.out / "offers/shirt.unread.json").read_text())
    assert [(one["line"], one["id"]) for one in listed] == [(3, "none"), (2, "s002")]
    assert all(path.read_bytes() == content for path, content in before.items())
    shop.csv.write_text(json.dumps({"sku": "other", "cost": "5", "fits": "", "left": "", "page": ""}))
    with pytest.raises(UserError, match=r"no row of .* is a product of shirts"):
        update_offers(source, shop.out, "shirts")
    with pytest.raises(UserError, match="has no category 'tops'"):
        update_offers(source, shop.out, "tops")
    assert len(Catalog(shop.out, "shirts").offers) == 1


def test_facts_without_a_column_stay_for_the_products_of_the_table(shop):
    with_offers(shop, 40)
    for number in range(40):
        shop.picture(f"s{number:03}.jpg")
    shop.run(attributes=(), **OFFERED)
    lines = [{"sku": "s001", "cost": "5"}, {"sku": "s002", "cost": ""}]
    shop.csv.write_text("\n".join(map(json.dumps, lines)))
    update_offers(ImportSource(table=shop.csv, id="sku", price="cost", currency="EUR"), shop.out, "shirts")
    without_price = Offer(sizes=READ.sizes, in_stock=READ.in_stock, url=READ.url)
    cheaper = msgspec.structs.replace(READ, price_minor=500)
    assert Catalog(shop.out, "shirts").offers == {"s001": cheaper, "s002": without_price}
    shop.csv.write_text(json.dumps({"sku": "s001", "fits": "XL", "left": "", "page": "-"}))
    others = {name: OFFERED[name] for name in ("sizes", "stock", "link")}
    update_offers(ImportSource(table=shop.csv, id="sku", **others), shop.out, "shirts")
    kept = Offer(price_minor=500, currency="EUR", sizes=("XL",))
    assert Catalog(shop.out, "shirts").offers == {"s001": kept}


def test_damaged_offers_are_replaced_only_by_all_columns(shop):
    with_offers(shop, 40)
    for number in range(40):
        shop.picture(f"s{number:03}.jpg")
    shop.run(attributes=(), **OFFERED)
    (shop.out / "offers/shirt.json").write_text('{"s001": 5}')
    with pytest.raises(UserError, match=r"shirt\.json.*remove it and import the offers again"):
        update_offers(ImportSource(table=shop.csv, id="sku", stock="left"), shop.out, "shirts")
    update_offers(ImportSource(table=shop.csv, id="sku", **OFFERED), shop.out, "shirts")
    assert len(Catalog(shop.out, "shirts").offers) == 40


def test_a_missing_column_of_offers_is_told(shop):
    shop.write([row(number) for number in range(40)])
    shop.refused("--price cost: .* has no column 'cost'", price="cost")
    shop.refused("--currency money: .* has no column 'money'", price="name", currency="money")


def test_a_missing_csv_is_told(shop):
    shop.refused("there is no file .*shop.csv")


def test_a_folder_for_a_csv_is_told(shop):
    shop.csv.mkdir()
    shop.refused("cannot read .*shop.csv")


def test_a_csv_in_another_encoding_is_told(shop):
    shop.csv.write_bytes("kind,sku,name,colour,use\nshirt,1,caf\u00e9,red,x\n".encode("latin-1"))
    shop.refused("not UTF-8")


@pytest.mark.parametrize(
    "column",
    [{"id": "asin"}, {"title": "asin"}, {"attributes": ["asin"]}, {"group": "asin"}, {"where": "asin=1"}],
)
def test_a_missing_column_is_told_with_those_that_there_are(shop, column):
    shop.write([row(number) for number in range(40)]).refused(
        f"--{next(iter(column))} asin: .* no column 'asin': found kind, sku, name, colour, use, style_code",
        **column,
    )


def test_an_empty_csv_is_told(shop):
    shop.csv.write_text("")
    shop.refused("found an empty file")


def test_a_missing_picture_folder_is_told(shop):
    shop.write([row(number) for number in range(40)], pictures=False)
    shop.images.rmdir()
    shop.refused("img does not exist: give a folder of pictures")


def test_no_selected_row_is_told_with_the_values_that_there_are(shop):
    shop.write([row(number) for number in range(40)])
    shop.refused("'kind' is never 'skirt', its most common values are 'shirt'", where="kind=skirt")


def test_a_csv_with_a_header_only_is_told(shop):
    shop.write([]).refused("no row of .* was selected")


def test_no_row_with_a_picture_is_told(shop):
    shop.write([row(number) for number in range(40)], pictures=False)
    (shop.images / "logo.jpg").touch()
    shop.refused("no row has a picture: expected .*img/<sku>.jpg")


def test_an_empty_picture_folder_is_told(shop):
    shop.write([row(number) for number in range(40)], pictures=False)
    shop.refused("img has no pictures: expected files such as <sku>.jpg")
    with pytest.raises(UserError, match=r"img has no pictures: expected files such as \*.jpg"):
        import_catalog(ImportSource(images=shop.images), shop.out, "dresses")


def test_fewer_than_ten_products_are_told(shop):
    shop.write([row(number) for number in range(9)]).refused("at least 10 products with a picture, found 9")


def test_a_split_too_small_for_a_pair_is_told(shop):
    shop.write([row(number, style_code="one") for number in range(40)]).refused(
        "at least 2 products in the .* split, found 0", group="style_code"
    )


@pytest.mark.parametrize("where", ["kind", "=shirt", "", " = "])
def test_a_malformed_where_is_told(shop, where):
    shop.write([row(number) for number in range(40)]).refused("expected column=value", where=where)


def test_a_category_that_cannot_name_files_is_refused(shop):
    shop.write([row(number) for number in range(40)]).refused("is not a valid category", category="a/b")


def test_captions_with_a_number_that_cannot_be_written_again_are_refused(shop):
    shop.write([row(number) for number in range(60)]).run()
    path = shop.out / "captions/cap.shirt.train.json"
    path.write_text(json.dumps([{**json.loads(path.read_text())[0], "more": float("nan")}]))
    with pytest.raises(UserError, match=r"cap\.shirt\.train\.json is not valid JSON \(NaN"):
        CaptionFiles(Catalog(shop.out, "shirts")).rows("train")


@pytest.mark.parametrize("between", ["|", " | ", ", ", ",", "; ", " ", "\n"])
def test_addresses_of_a_product_are_told_apart_as_shops_write_them(tmp_path, between):
    first, second = "https://shop.example/w_80,h_60/1, 2.jpg", "HTTP://shop.example/2.jpg"
    (tmp_path / "shop.csv").write_text(f'id,link\n1,"{first}{between}{second}"\n')
    source = ImportSource(table=tmp_path / "shop.csv", id="id", url="link")
    [product] = listings_of_table(source, *select_rows(source), None)
    assert product.addresses == [first, second] and not product.reason


SHOPIFY = """Handle,Title,Type,Option1 Value,Variant Price,Variant Inventory Qty,Image Src
red-dress,Red dress,Dresses,XL,39.90,0,https://shop.example/1.jpg
red-dress,,,S,49.90,2,https://shop.example/2.jpg
red-dress,,,M,44.90,1,
red-dress,,,,,,https://shop.example/3.jpg
blue-dress,Blue dress,Dresses,M,29.90,0,https://shop.example/4.jpg
blue-dress,,,L,27.90,0,
red-shirt,Red shirt,Shirts,M,19.90,3,https://shop.example/5.jpg
red-shirt,,,L,19.90,3,
"""


def test_the_rows_of_a_product_for_each_size_are_one_offer(tmp_path):
    (tmp_path / "shop.csv").write_text(SHOPIFY)
    columns = {
        "price": "Variant Price",
        "currency": "EUR",
        "sizes": "Option1 Value",
        "stock": "Variant Inventory Qty",
    }
    source = ImportSource(
        table=tmp_path / "shop.csv",
        id="Handle",
        title="Title",
        url="Image Src",
        where="Type=Dresses",
        **columns,
    )
    listings = listings_of_table(source, *select_rows(source), None)
    red, blue = (one for one in listings if not one.reason)
    assert (red.title, blue.title) == ("Red dress", "Blue dress")
    assert red.offer == Offer(price_minor=4490, currency="EUR", sizes=("S", "M"), in_stock=True)
    assert blue.offer == Offer(price_minor=2790, currency="EUR", sizes=("M", "L"), in_stock=False)
    assert [one.reason for one in listings if one.reason] == ["repeated id"] * 4


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        ([], Offer()),
        ([Offer(), Offer(in_stock=False)], Offer(in_stock=False)),
        ([Offer(sizes=("S",)), Offer(sizes=("M",), in_stock=False)], Offer(sizes=("S",))),
        (
            [Offer(price_minor=500, currency="EUR"), Offer(price_minor=400, currency="USD")],
            Offer(price_minor=500, currency="EUR"),
        ),
        ([Offer(url="https://a.example"), Offer(url="https://b.example")], Offer(url="https://a.example")),
    ],
)
def test_offers_of_rows_are_joined(offers, expected):
    assert joined(offers) == expected


def test_a_size_that_cannot_be_read_is_told_with_its_row(tmp_path):
    (tmp_path / "shop.csv").write_text("id,link,price\n1,https://a.example/1.jpg,5 EUR\n1,,5-7 EUR\n")
    source = ImportSource(table=tmp_path / "shop.csv", id="id", url="link", price="price")
    product, _ = listings_of_table(source, *select_rows(source), None)
    assert product.offer.price_minor == 500
    assert product.unread == ["price not read: expected one number, found '5-7 EUR' (line 3)"]


def test_a_table_with_a_row_for_each_size_is_told_how_it_was_read(shop, capsys):
    shop.write([row(number) for number in range(20)] + [row(number, use="Party") for number in range(20)])
    names = ["import-catalog", "--table", shop.csv, "--id", "sku", "--sizes", "use", "--category", "shirts"]
    given = ["--images", shop.images, "--workers", 0]
    assert main([*map(str, [*names, "--data", shop.out, *given])]) == 0
    printed = capsys.readouterr().out
    assert "dropped: 20 × repeated id" in printed and "of rows with one id" in printed
    imported = read_offers(offers_file(shop.out, "shirts"))
    assert len({offer.sizes for offer in imported.values()}) == 1 and "Party" in imported["s000"].sizes
    assert main([*map(str, [*names, "--data", shop.out])]) == 0  # an update of the offers
    assert "dropped" not in capsys.readouterr().out
    assert read_offers(offers_file(shop.out, "shirts")) == imported

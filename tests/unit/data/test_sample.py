"""The drawn sample: layout, determinism, pictures that open, captions that are true."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.files import UserError
from fashioniq.sample import draw_sample
from fashioniq.sample.differences import differences
from fashioniq.sample.drawing import draw_garment
from fashioniq.sample.garments import COLOURS, Garment, random_garment
from fashioniq.sample.grammar import two_captions
from fashioniq.sample.labels import labels_of
from fashioniq.sample.offers import offer_of

CATEGORIES = ("dresses", "shirts", "tops")
COMPARING = re.compile(
    r"\b(more|less|fewer|instead|much|darker|lighter|longer|shorter|looser|tighter|brighter|plainer|simpler|busier|higher|lower|deeper|"
    r"wider|barer|dressier|shinier|lacier)\b"
)
NEGATING = re.compile(r"\b(no|not)\b")
SLEEVES = {
    "strapless": 0,
    "spaghetti straps": 0,
    "sleeveless": 0,
    "short sleeve": 1,
    "three quarter sleeve": 2,
    "long sleeve": 3,
}
LENGTHS = {"mini": 0, "knee length": 1, "maxi": 2, "cropped": 0, "regular": 1, "long": 2}
MEANS = {  # what a caption says: a label that the target then has
    "striped|stripes": "striped", "plaid|checked|checks": "plaid", "floral|flowers": "floral", "dots|dotted": "polka dot",
    "chevron|zigzags?": "chevron", "color blocked|color blocks": "color block", "solid color|plain|one color": "solid",
    "strapless": "strapless", "thin straps|spaghetti straps|strappy": "spaghetti straps", "sleeveless": "sleeveless",
    "short sleeves|short sleeved": "short sleeve", "three-quarter sleeves": "three quarter sleeve",
    "long sleeves|long sleeved": "long sleeve", "maxi|floor length": "maxi", "mini": "mini", "a v-neck|v-necked": "v-neck",
    "a turtleneck": "turtleneck", "a collar|collared": "collar", "a zipper|zip front": "zipper", "belted|a belt": "belt",
    "a bow": "bow", "pockets?": "pockets", "bell sleeves": "bell sleeve", "a heart": "heart", "lettering|letters|writing": "lettering",
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "made"
    draw_sample(folder, products=40, seed=3)
    return folder


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def drawn_pairs(category: str, number: int = 400):
    """Targets, candidates alike in part, and their captions, without a folder."""
    for seed in range(number):
        rng = random.Random(seed)
        target, candidate = random_garment(category, rng), random_garment(category, rng)
        if seed % 2:
            candidate = replace(
                candidate,
                colour=target.colour,
                second=target.second,
                pattern=target.pattern,
                sleeves=target.sleeves,
            )
        yield target, candidate, two_captions(target, candidate, rng)


def positive_part(caption: str) -> str:
    """What a caption says of the target itself: without negations and without what the candidate had or is
    measured by.
    """
    caption = re.sub(r" (instead of|than) .*", "", caption)
    return re.sub(r"\b(no|not|more|less) (as )?[\w-]+( \w+)?", "", caption)


@pytest.mark.parametrize("category", CATEGORIES)
def test_layout_is_read_by_catalog(root: Path, category: str) -> None:
    catalog = Catalog(root, category)
    assert [len(catalog.ids(split)) for split in SPLITS] == [24, 8, 8]
    names = catalog.all_ids()
    assert len(set(names)) == 40 and all(len(name) == 10 for name in names)
    assert set(catalog.images) == set(catalog.titles) == set(catalog.labels) == set(names)
    assert all(len(lists) == 6 for lists in catalog.labels.values())
    for split in ("train", "val"):
        pairs = catalog.pairs(split)
        assert len({pair.target for pair in pairs}) == len(pairs) > len(catalog.ids(split)) / 2
        assert all(pair.target != pair.candidate and len(pair.captions) == 2 for pair in pairs)
    assert (catalog.pictures_origin, catalog.captions_origin) == ("drawn", "drawn sample's grammar")


def test_every_garment_has_an_offer_of_its_own_random_numbers(root: Path) -> None:
    sizes = ("XS", "S", "M", "L", "XL", "XXL")
    for category in CATEGORIES:
        catalog = Catalog(root, category)
        assert set(catalog.offers) == set(catalog.all_ids())
        for name, offer in catalog.offers.items():
            first = sizes.index(offer.sizes[0])
            assert offer.sizes == sizes[first : first + len(offer.sizes)] and len(offer.sizes) >= 2
            assert offer.url == f"https://shop.example/products/{name}" and offer.currency == "EUR"
    rng = random.Random(0)
    garments = [random_garment("dresses", rng) for _ in range(1000)]
    offers = [offer_of(str(number), garment, rng) for number, garment in enumerate(garments)]
    prices = sorted(offer.price_minor for offer in offers)
    assert (
        all(price % 100 == 90 for price in prices)
        and prices[0] > 1000
        and prices[100] * 2 < prices[900] < 20000
    )
    assert 0.87 < sum(offer.in_stock for offer in offers) / 1000 < 0.93


def test_catalog_json_tells_how_the_sample_was_made(root: Path) -> None:
    about = json.loads((root / "catalog.json").read_text())
    assert (about["made_by"], about["seed"], about["products"], about["size"]) == (
        "fashioniq draw-sample",
        3,
        40,
        96,
    )


def test_test_captions_have_no_target(root: Path) -> None:
    for path in (root / "captions").glob("cap.*.test.json"):
        assert all(set(row) == {"candidate", "captions"} for row in json.loads(path.read_text()))


def test_same_seed_gives_the_same_bytes_and_another_does_not(root: Path, tmp_path: Path) -> None:
    draw_sample(tmp_path / "again", products=40, seed=3)
    draw_sample(tmp_path / "other", products=40, seed=4)
    again, other, first = files_of(tmp_path / "again"), files_of(tmp_path / "other"), files_of(root)
    assert again == first
    assert other.keys() == first.keys()
    assert all(other[name] != content for name, content in first.items() if name.endswith(".jpg"))


def test_larger_sample_has_the_smaller_ones_garments_first(root: Path, tmp_path: Path) -> None:
    draw_sample(tmp_path / "larger", products=60, seed=3, categories=["shirts"])
    small, large = Catalog(root, "shirts"), Catalog(tmp_path / "larger", "shirts")
    for split in SPLITS:
        assert large.ids(split)[: len(small.ids(split))] == small.ids(split)
    for name in small.all_ids():
        assert large.titles[name] == small.titles[name]
        assert large.images[name].read_bytes() == small.images[name].read_bytes()


def test_category_does_not_depend_on_which_others_are_drawn(root: Path, tmp_path: Path) -> None:
    draw_sample(tmp_path / "tops", products=40, seed=3, categories=["toptee"])
    alone = files_of(tmp_path / "tops")
    del alone["catalog.json"]
    assert alone == {name: content for name, content in files_of(root).items() if "toptee" in name}


def test_every_picture_opens_and_shows_a_garment_on_a_light_ground(root: Path) -> None:
    for category in CATEGORIES:
        for path in Catalog(root, category).images.values():
            with Image.open(path) as picture:
                assert picture.size == (96, 96) and picture.mode == "RGB"
                assert all(
                    min(picture.getpixel(corner)) > 210 for corner in ((1, 1), (94, 1), (1, 94), (94, 94))
                )
                assert len(picture.getcolors(96 * 96)) > 20


def test_picture_keeps_its_drawing_at_another_size() -> None:
    garment = random_garment("dresses", random.Random(1))
    small, large = (draw_garment(garment, size, random.Random(2)) for size in (96, 192))
    shrunk = large.resize((96, 96), Image.Resampling.BOX)
    apart = sum(abs(one - two) for one, two in zip(small.tobytes(), shrunk.tobytes(), strict=True)) / len(
        small.tobytes()
    )
    assert large.size == (192, 192) and apart < 6


PLAIN = Garment(
    "dresses", "green", "white", "solid", "short", "round", length="knee", fit="straight", closure="", motif="", details=frozenset(),
    fabric="cotton", style="casual",
)  # fmt: skip
CHANGES = {
    "colour": "red", "pattern": "plaid", "sleeves": "long", "neckline": "square", "length": "maxi", "fit": "flared", "closure": "buttons",
    "motif": "star", "details": frozenset({"belt"}), "fabric": "lace",
}  # fmt: skip


@pytest.mark.parametrize("part", CHANGES)
def test_every_part_of_a_garment_is_seen(part: str) -> None:
    changed = replace(PLAIN, **{part: CHANGES[part]})
    one, two = (draw_garment(garment, 96, random.Random(5)).tobytes() for garment in (PLAIN, changed))
    assert sum(abs(before - after) > 30 for before, after in zip(one, two, strict=True)) > 100


@pytest.mark.parametrize("category", CATEGORIES)
def test_nearly_all_products_differ(category: str) -> None:
    drawn = [
        labels_of(random_garment(category, random.Random(f"0 {category} {number}"))) for number in range(1200)
    ]
    assert len({json.dumps(words) for words in drawn}) > 1150


def test_labels_have_the_words_of_titles(root: Path) -> None:
    for category in CATEGORIES:
        catalog = Catalog(root, category)
        for name, title in catalog.titles.items():
            said = {word.lower() for lists in catalog.labels[name] for word in lists}
            for word in (
                "Striped",
                "Plaid",
                "Floral",
                "Polka Dot",
                "V-Neck",
                "Maxi",
                "Mini",
                "Cropped",
                "Satin",
                "Linen",
                "Sleeveless",
            ):
                assert word not in title or word.lower() in said, title
            assert any(word.endswith(colour) or word == "navy blue" for word in said for colour in COLOURS)


@pytest.mark.parametrize("category", CATEGORIES)
def test_captions_are_true_of_the_target(category: str) -> None:
    tried = 0
    for target, candidate, captions in drawn_pairs(category):
        has = {word for words in labels_of(target) for word in words}
        had = {word for words in labels_of(candidate) for word in words}
        for caption in captions:
            for said, label in MEANS.items():
                if re.search(rf"\b({said})\b", positive_part(caption)):
                    assert label in has, (caption, has)
                    tried += 1
                if re.search(rf"\b(no|not) ({said})\b", caption):
                    assert label not in has and label in had, (caption, has, had)
            of_target = re.sub(r" (instead of|than) .*|not \w+|dark blue|navy blue", "", caption)
            for colour in re.findall(rf"\b({'|'.join(COLOURS)})\b", of_target):
                assert colour in (target.colour, target.second), caption
    assert tried > 200


@pytest.mark.parametrize("category", CATEGORIES)
def test_comparisons_are_true_of_the_pair(category: str) -> None:
    tried = 0
    for target, candidate, captions in drawn_pairs(category):
        (sleeves, length), (sleeves_before, length_before) = (
            (SLEEVES[words[4][0]], LENGTHS[words[3][0]])
            for words in (labels_of(target), labels_of(candidate))
        )
        for caption in captions:
            checks = {
                r"longer sleeves": sleeves > sleeves_before, r"shorter sleeves": sleeves < sleeves_before,
                r"longer(?! sleeves)": length > length_before, r"shorter(?! sleeves)": length < length_before,
            }  # fmt: skip
            for said, holds in checks.items():
                if re.search(said, caption):
                    assert holds, caption
                    tried += 1
    assert tried > 30


def test_captions_are_short_lower_case_and_never_empty() -> None:
    captions = [
        caption for category in CATEGORIES for _, _, both in drawn_pairs(category) for caption in both
    ]
    lengths = [len(caption.split()) for caption in captions]
    assert all(caption == caption.lower() == " ".join(caption.split()) for caption in captions)
    assert min(lengths) >= 1 and max(lengths) <= 12
    assert sum(length <= 8 for length in lengths) > 0.85 * len(lengths)
    assert len(set(captions)) > 0.6 * len(captions)


def test_shares_of_the_forms_are_near_those_of_fashion_iq() -> None:
    captions = [
        caption for category in CATEGORIES for _, _, both in drawn_pairs(category) for caption in both
    ]

    def share(pattern: re.Pattern[str]) -> float:
        return sum(bool(pattern.search(caption)) for caption in captions) / len(captions)

    assert 0.5 < share(re.compile(r" and | with ")) < 0.7
    assert 0.06 < share(NEGATING) < 0.16
    assert 0.4 < share(COMPARING) < 0.6


def test_garments_that_look_the_same_are_said_to() -> None:
    rng = random.Random(0)
    garment = random_garment("tops", rng)
    assert differences(garment, garment) == []
    assert all("same" in caption for caption in two_captions(garment, garment, rng))


def test_second_draw_replaces_the_first(tmp_path: Path) -> None:
    draw_sample(tmp_path, products=35, categories=["dresses", "shirts"])
    (tmp_path / "features" / "shirt").mkdir(parents=True)  # other garments will have the same ids
    draw_sample(tmp_path, products=30, categories=["shirts"])
    assert len(Catalog(tmp_path, "shirts").images) == 30
    assert not list(tmp_path.rglob("*dress*"))
    assert not (tmp_path / "features").exists()


def test_draw_that_was_killed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fashioniq.sample.two_captions", killed)
        draw_sample(tmp_path / "cut", products=30, categories=["tops"])
    assert not (tmp_path / "cut" / "catalog.json").exists()
    draw_sample(tmp_path / "cut", products=30, categories=["tops"])
    draw_sample(tmp_path / "whole", products=30, categories=["tops"])
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"products": 10}, "at least 30"),
        ({"categories": ["shoes"]}, "choose from dresses"),
        ({"categories": []}, "no category"),
    ],
)
def test_unusable_argument_is_told_and_nothing_is_written(tmp_path: Path, arguments: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        draw_sample(tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [None, '{"made_by": "someone"}', "not json"])
def test_folder_with_something_else_is_left_alone(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "mine.jpg").write_bytes(b"mine")
    if content:
        (tmp_path / "catalog.json").write_text(content)
    before = files_of(tmp_path)
    with pytest.raises(UserError):
        draw_sample(tmp_path, products=30)
    assert files_of(tmp_path) == before


def test_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        draw_sample(tmp_path / "file", products=30)

"""Labels from captions and pixels, for products of a catalog that has none."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.languages import LANGUAGES
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary
from fashioniq.language.colors import Lab
from fashioniq.language.terms import COLOR
from fashioniq.language.wishes import Wishes
from fashioniq.loop.wording import Wording
from fashioniq.models.labels import LabelModel, SeenLabels
from fashioniq.training import stated_labels
from fashioniq.training.pixels import HUES, _name, color_words, shares_of_colors
from fashioniq.training.stated_labels import (
    FEW,
    MOSTLY,
    _families,
    _hues,
    colors_by_pixels,
    fit_label_model,
    read_stated_labels,
    with_stated_labels,
)

IDS = [f"p{number}" for number in range(60)]
COLORS, SLEEVES = ("red", "navy", "black"), ("with long sleeves", "and sleeveless")
LOOKS = {name: (number % 3, number // 3 % 2) for number, name in enumerate(IDS)}
CLASSES = {name: [["dress"], [], [], [], [], []] for name in IDS}  # of a folder for each class


def catalog_of(labels=CLASSES, images=None, language="en"):
    return SimpleNamespace(
        category="dresses",
        labels=labels,
        written_labels=labels,
        titles={},
        descriptions={},
        images=images or {},
        language=language,
        ids=lambda split: IDS,
        all_ids=lambda: [*IDS, "new"],
    )


def items():
    draw = torch.Generator().manual_seed(0)
    seen_ND = torch.tensor(
        [[float(color == one) for one in range(3)] + [float(sleeve)] for color, sleeve in LOOKS.values()]
    )
    return Items.without_attributes(
        IDS, seen_ND @ torch.randn(4, 8, generator=draw) + 0.1 * torch.randn(60, 8, generator=draw)
    )


def caption_of(name):
    color, sleeve = LOOKS[name]
    return f"is {COLORS[color]} {SLEEVES[sleeve]}"


PAIRS = [Pair(name, IDS[0], (caption_of(name),)) for name in IDS[1:40]]


def says(said, name):
    row = said.ids.index(name)
    known = zip(said.kinds, said.has_SL[row].tolist(), said.known_SL[row].tolist(), strict=True)
    return {label: has >= 0.5 for label, has, known in known if known}


def test_a_caption_says_what_its_target_has_and_of_the_same_family_what_not():
    pairs = [
        *PAIRS,
        Pair("p50", "p0", ("is red",)),
        Pair("p51", "p0", ("has long sleeves, and is not black",)),
    ]
    said = read_stated_labels(catalog_of(), items(), pairs, {})
    colors = {"red": False, "navy blue": False, "blue": False, "black": False}
    assert says(said, "p50") == colors | {"red": True}
    assert says(said, "p51") == {"long sleeve": True, "sleeveless": False, "black": False}
    navy = next(name for name in IDS[1:40] if LOOKS[name] == (1, 0))
    assert says(said, navy) == colors | {
        "navy blue": True,
        "blue": True,
        "long sleeve": True,
        "sleeveless": False,
    }
    assert "p59" not in said.ids


def test_a_label_that_any_caption_asserts_is_not_denied_by_another():
    captions = ("is red", "is not red")
    pairs = [*PAIRS, Pair("p50", "p0", captions), Pair("p51", "p0", captions[::-1])]
    said = read_stated_labels(catalog_of(), items(), pairs, {})
    assert says(said, "p50")["red"] and says(said, "p51")["red"]


def test_comparisons_alternatives_and_rare_labels_say_nothing():
    pairs = [Pair(name, "p0", ("is darker", "red or black")) for name in IDS[1:9]]
    assert (
        read_stated_labels(catalog_of(), items(), [*pairs, Pair("p9", "p0", ("is purple",))], {}).kinds == {}
    )


def test_families_that_the_catalog_labels_are_left_to_it():
    labels = {name: [["dress"], ["green"], [], [], [], []] for name in IDS}
    assert set(read_stated_labels(catalog_of(labels), items(), PAIRS, {}).kinds) == {
        "long sleeve",
        "sleeveless",
    }


@pytest.mark.parametrize(("products", "left"), [(FEW - 1, False), (FEW, True)])
def test_a_family_is_labelled_by_the_catalog_if_some_products_have_a_label_of_it(products, left):
    labels = {name: [["dress"], ["green"], [], [], [], []] for name in IDS[:products]}
    assert (COLOR in _families(catalog_of(labels), IDS)) == left


@torch.no_grad()
def test_labels_that_were_said_are_found_by_words_among_all_products_and_stay_with_the_labels_of_a_catalog():
    said = read_stated_labels(catalog_of(), items(), PAIRS, {})
    model = with_stated_labels(LabelModel(8, 0), said, items())
    seen = SeenLabels(model, list(said.kinds), items())
    found = Wording.of(catalog_of(), IDS, Vocabulary(["is"]), Weights(0, 2, 2), seen, said=said.kinds)
    for text, wanted in (
        ("a red dress", (0, None)),
        ("black and sleeveless", (2, 1)),
        ("not red, long sleeves", (None, 0)),
    ):
        best = np.argsort(-found.bonus(found.after(Wishes(), text, None)))[:8]
        assert all(
            want is None or LOOKS[IDS[item]][side] == want
            for item in best
            for side, want in enumerate(wanted)
        ), text
    assert {"dress", "red", "long sleeve"} <= set(found.labels) and "dress" in found.labels_of(55)
    assert set(found.labels_of(55)) & {"red", "navy blue", "black"}
    assert model(items().features_ND).abs().max() < 6  # a few captions leave doubts
    own = LabelModel(8, 2)
    own.standardize(items().features_ND)
    torch.nn.init.normal_(own.linear.weight)
    both = with_stated_labels(own, said, items())
    assert torch.equal(both(items().features_ND)[:, :2], own(items().features_ND))


def photo(path, garment, ground, exposure=1.0):
    """A garment on a floor, with some noise."""
    pixels = np.full((90, 70, 3), ground, float)
    pixels[15:75, 18:52] = garment
    noise = np.random.default_rng(0).normal(0, 4, pixels.shape)
    Image.fromarray((exposure * pixels + noise).clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return path


@pytest.mark.parametrize("ground", [(225, 205, 190), (120, 80, 50), (190, 40, 110)])
@pytest.mark.parametrize(
    ("color", "rgb"),
    [
        ("red", (200, 25, 30)),
        ("blue", (30, 70, 190)),
        ("blue", (150, 185, 230)),
        ("green", (30, 110, 50)),
        ("yellow", (235, 200, 40)),
        ("black", (25, 25, 28)),
        ("white", (245, 244, 240)),
        ("grey", (125, 126, 128)),
    ],
)
def test_the_garment_has_its_color_on_any_floor(color, rgb, ground, tmp_path):
    shares = shares_of_colors(photo(tmp_path / "one.jpg", rgb, ground))
    assert shares[color] > 0.7 and sum(shares.values()) == pytest.approx(1)


def test_a_dark_photo_of_a_white_garment_is_white_and_a_damaged_one_says_nothing(tmp_path):
    assert (
        shares_of_colors(photo(tmp_path / "dark.jpg", (235, 235, 235), (190, 40, 110), exposure=0.8))["white"]
        > 0.7
    )
    (tmp_path / "damaged.jpg").write_bytes(b"no picture")
    assert shares_of_colors(tmp_path / "damaged.jpg") == {}


def test_colors_that_the_border_has_too_count_less(tmp_path):
    pixels = np.full((64, 64, 3), (125, 126, 128), np.uint8)
    pixels[20:44, 20:32], pixels[20:44, 32:44], pixels[:4] = (200, 25, 30), (30, 70, 190), (30, 70, 190)
    Image.fromarray(pixels).save(tmp_path / "bag.png")
    red, blue = 1 / 2, 1 / 2 - 4 * 64 / (64**2 - 56**2)
    expected = {"red": red / (red + blue), "blue": blue / (red + blue)}
    assert shares_of_colors(tmp_path / "bag.png") == pytest.approx(expected, abs=0.02)


def test_the_middle_of_a_picture_is_as_far_to_the_left_as_to_the_right(tmp_path):
    pixels = np.full((64, 64, 3), (125, 126, 128), np.uint8)
    pixels[20:44, 20:32], pixels[20:44, 32:44] = (200, 25, 30), (30, 70, 190)
    Image.fromarray(pixels).save(tmp_path / "bag.png")
    assert shares_of_colors(tmp_path / "bag.png") == pytest.approx({"red": 0.5, "blue": 0.5}, abs=0.01)


def test_a_black_picture_is_black(tmp_path):
    Image.new("RGB", (70, 90)).save(tmp_path / "black.png")
    assert shares_of_colors(tmp_path / "black.png") == {"black": 1.0}


def test_what_is_nearly_black_has_no_hue():
    assert _name(Lab(13.5, 20.0, 0.0)) == "black" and _name(Lab(14.5, 20.0, 0.0)) in HUES


def test_pixels_say_the_colors_that_no_caption_names(tmp_path):
    rgb = ((200, 25, 30), (20, 30, 80), (25, 25, 28))
    images = {
        name: photo(tmp_path / f"{name}.jpg", rgb[LOOKS[name][0]], (225, 205, 190))
        for name in IDS
        if name != "p58"
    }
    (tmp_path / "p57.jpg").write_bytes(b"no picture")
    pairs = [Pair("p50", "p0", ("is green",)), Pair("p51", "p0", ("has long sleeves",))]
    images["new"] = photo(tmp_path / "new.jpg", rgb[0], (225, 205, 190))
    catalog = catalog_of(images=images)
    pixels = colors_by_pixels(catalog, IDS)
    said = read_stated_labels(catalog, items(), pairs, pixels)
    assert set(said.kinds) == {"red", "blue", "black"} and says(said, "p50") == dict.fromkeys(
        said.kinds, False
    )
    for name in ("p51", "p52"):
        color = ("red", "blue", "black")[LOOKS[name][0]]
        assert says(said, name) == dict.fromkeys(said.kinds, False) | {color: True}
    assert not {"p57", "p58", "new"} & {*said.ids} and not {"p57", "p58"} & {*pixels}
    assert said.hues["new"] == {"red": 1.0} and said.hues["p50"] == {}  # it is black
    labels = {name: [["dress"], ["green"], [], [], [], []] for name in IDS}
    assert colors_by_pixels(catalog_of(labels, images), IDS) == {}


@pytest.mark.parametrize(
    ("count", "looked_at"), [(0, []), (2, [0, 1]), (3, [0, 2]), (4, [0, 2]), (5, [0, 3])]
)
def test_of_many_pictures_every_nth_is_looked_at_and_teaches_colors(count, looked_at, monkeypatch):
    monkeypatch.setattr(stated_labels, "MOST", 2)
    monkeypatch.setattr(stated_labels, "PICTURES", 2)
    monkeypatch.setattr(stated_labels, "shares_of_colors", lambda path: {"red": MOSTLY / 2, "black": 0.7})
    monkeypatch.setattr(stated_labels, "_families", lambda *_: set())
    monkeypatch.setattr(stated_labels, "_by_captions", lambda *_: {})
    catalog = catalog_of(images={name: f"{name}.jpg" for name in IDS[:count]})
    others = dict.fromkeys(color_words("en"), 0.0)
    expected = {IDS[place]: others | {"red": 0.5, "black": 1.0} for place in looked_at}
    assert colors_by_pixels(catalog, IDS) == expected
    pixels = {name: {"red": 1.0} for name in IDS[:count]}
    assert read_stated_labels(catalog, items(), [], pixels).ids == list(expected)


@pytest.mark.parametrize(("code", "red", "black"), [("en", "red", "black"), ("de", "rot", "schwarz")])
def test_the_hues_of_pixels_are_shares_of_at_least_a_hundredth_and_black_is_none(code, red, black):
    pixels = {"p1": {red: 0.754, black: 1.0}, "p2": {red: 0.01}, "p3": {red: 0.009}}
    assert _hues(pixels, code) == {"p1": {red: 0.75}, "p2": {red: 0.01}, "p3": {}}


def test_the_hues_of_a_product_by_its_pixels_count_instead_of_its_features():
    model, gallery = LabelModel(2, 3), Items.without_attributes(["a", "b"], torch.randn(2, 2))
    hues = {"b": {"blue": 0.75}, "c": {"red": 1.0}, "d": {"odd": 1.0}}
    seen = SeenLabels(model, ["red", "floral", "blue"], gallery, hues)
    found = [seen.probability(label).tolist() for label in ("red", "floral", "blue")]
    assert found == [[0.5, 0], [0.5, 0.5], [0.5, 0.75]]
    assert seen.likely(1) == ["floral", "blue"] and seen.probability("odd") is None


def test_hues_are_kept_to_the_hundredth_without_light_and_dark_and_tiny_shares():
    pixels = {
        "p1": {"red": 0.256, "blue": 0.01, "pink": 0.0099, "black": 0.9, "odd": 1.0},
        "p2": {"white": 1.0},
    }
    assert read_stated_labels(catalog_of(), items(), [], pixels).hues == {
        "p1": {"red": 0.26, "blue": 0.01},
        "p2": {},
    }


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_words_for_most_basic_colors(code):
    words = color_words(code)
    assert (
        {"black", "white", "grey", "red", "blue", "green", "yellow"}
        <= set(words)
        <= {"black", "white", "grey", *HUES}
    )
    if code == "de":
        assert (words["red"], words["white"], words["grey"]) == ("rot", "weiß", "grau")


@pytest.mark.parametrize(("labelled", "left_out"), [(4, False), (5, True)])
def test_a_catalog_labels_a_family_if_five_products_have_a_label_of_it(labelled, left_out):
    labels = {name: [["dress"], ["green"] * (row < labelled), [], [], [], []] for row, name in enumerate(IDS)}
    kinds = read_stated_labels(catalog_of(labels), items(), PAIRS, {}).kinds
    assert ("red" not in kinds) == left_out and "sleeveless" in kinds


def test_of_several_captions_one_that_names_a_label_counts_more_than_one_that_denies_it():
    for captions in (("is red", "is not red"), ("is not red", "is red")):
        pairs = [*PAIRS, Pair("p50", "p0", captions), Pair("p51", "p0", ("is not red",))]
        said = read_stated_labels(catalog_of(), items(), pairs, {})
        assert says(said, "p50")["red"] and not says(said, "p51")["red"]


def test_what_is_unknown_of_a_product_counts_for_nothing():
    features_ND = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    has_NL = (features_ND[:, :2] > 0.3).float()
    known_NL = (torch.rand(60, 2, generator=torch.Generator().manual_seed(1)) < 0.7).float()
    weights = []
    for other_NL in (has_NL, torch.where(known_NL > 0, has_NL, 1 - has_NL)):
        model = LabelModel(3, 2)
        model.standardize(features_ND)
        fit_label_model(model, features_ND, other_NL, 1e-3, known_NL)
        weights.append(model.linear.weight.detach().clone())
        assert model.linear.bias.isfinite().all()
    assert torch.allclose(weights[0], weights[1], atol=1e-2) and weights[0][0, 0] > 1 and weights[0][1, 1] > 1


@pytest.mark.parametrize("times", [2, 3])
def test_a_label_is_learned_if_three_products_are_said_to_have_it(times):
    pairs = [Pair(name, IDS[0], ("is purple",)) for name in IDS[1 : times + 1]]
    assert ("purple" in read_stated_labels(catalog_of(), items(), pairs, {}).kinds) == (times == 3)


@pytest.mark.parametrize(("has", "learned"), [(0.49, False), (0.5, True)])
def test_a_color_is_learned_if_three_products_probably_have_it(has, learned):
    pixels = {name: {"purple": has} for name in IDS[:3]}
    assert ("purple" in read_stated_labels(catalog_of(), items(), [], pixels).kinds) == learned

"""Photographs of products as a generator: those with most words of the prompt, chosen by the seed."""

import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators.photographs import Photographs
from fashioniq.generators.pictures import PictureRequest

LABELS = {
    "a": [["shirt"], ["red"]],
    "b": [["shirt"], ["blue"]],
    "c": [["top"], ["red"]],
    "d": [["shirt"], ["red", "dots"]],
}
COLORS = {"a": (250, 0, 0), "b": (0, 0, 250), "c": (120, 0, 0), "d": (250, 120, 0)}


@pytest.fixture
def photographs(tmp_path):
    for name, color in COLORS.items():
        Image.new("RGB", (8, 8), color).save(tmp_path / f"{name}.png")
    return Photographs(str.split, LABELS, {name: tmp_path / f"{name}.png" for name in LABELS}, "shop val")


def found(photographs, prompt, seeds=range(20)):
    names = {color: name for name, color in COLORS.items()}
    made = photographs.generate([PictureRequest(prompt, seed) for seed in seeds])
    assert all(one.status == "ok" for one in made)
    return [names[one.picture.getpixel((0, 0))] for one in made]


def test_a_photograph_has_as_many_words_of_the_prompt_as_any(photographs):
    assert set(found(photographs, "red shirt")) == {"a", "d"}
    assert set(found(photographs, "dots top")) == {"c", "d"}
    assert set(found(photographs, "")) == set(LABELS)


def test_the_seed_chooses_one_of_them(photographs):
    assert found(photographs, "red shirt") == found(photographs, "red shirt")


def test_a_photograph_that_cannot_be_read_is_an_error_of_this_request_alone(photographs, tmp_path):
    (tmp_path / "b.png").write_bytes(b"no picture")
    blue, red = photographs.generate([PictureRequest("blue", 0), PictureRequest("dots", 0)])
    assert blue.status == "error" and blue.picture is None and blue.reason
    assert red.status == "ok"


def test_without_photographs_there_is_no_generator():
    with pytest.raises(UserError, match="expected pictures"):
        Photographs(str.split, LABELS, {}, "shop val")

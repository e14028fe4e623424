import numpy as np
import pytest
from PIL import Image

from fashioniq.report.tables import ten_of
from fashioniq.report.training_plots import Cell, write_contact_sheet


def greenish(image, box):
    """How many pixels have the colour of what is right."""
    red, green, blue = np.asarray(image.crop(box)).astype(int).transpose(2, 0, 1)
    return int(((green - red > 40) & (green - blue >= 0)).sum())


def test_words_both_true_and_predicted_are_marked(tmp_path):
    grey = Image.new("RGB", (60, 80), "grey")
    cells = [Cell(grey, ["red"], ["red", "blue"]), Cell(grey, ["red"], ["blue"])]
    write_contact_sheet(tmp_path / "sheet.jpg", "two", cells)
    with Image.open(tmp_path / "sheet.jpg") as image:
        image = image.convert("RGB")
        middle = image.width // 2
        assert greenish(image, (0, 0, middle, image.height)) > 50
        assert greenish(image, (middle, 0, image.width, image.height)) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 24])
def test_pictures_of_any_shape_and_words_of_any_length_have_their_place(tmp_path, count):
    cells = [
        Cell(Image.new("RGB", (8 + number, 400), "red"), ["word " * 30] * 20, []) for number in range(count)
    ]
    write_contact_sheet(tmp_path / "sheet.jpg", "title " * 100, cells)
    with Image.open(tmp_path / "sheet.jpg") as image:
        red = np.asarray(image.convert("RGB")).astype(int)
        assert ((red[..., 0] > 200) & (red[..., 1] < 60)).sum() >= count * 8 * 3
        assert image.height < 2000


def test_the_ten_best_and_worst_have_no_word_in_common():
    words = [{"word": number, "AP": float(number)} for number in range(30)] + [
        {"word": "unmeasured", "AP": None}
    ]
    best, worst = ([word["word"] for word in part] for part in ten_of(words))
    assert best == list(range(29, 19, -1)) and worst == list(range(10))
    best, worst = ([word["word"] for word in part] for part in ten_of(words[:5]))
    assert best == [4, 3, 2] and worst == [0, 1]
    assert ten_of(words[:1]) == ([words[0]], []) and ten_of(words[-1:]) == ([], [])

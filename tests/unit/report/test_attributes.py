import numpy as np
import pytest
from PIL import Image

from fashioniq.report.attributes import Cell, ten_of, write_contact_sheet, write_curves


def rows_of(epochs, *types):
    figures = {"train_loss": 0.3, "val_loss": 0.2, "val_mAP": 50.0} | {
        f"val_mAP_{kind}": 40.0 for kind in types
    }
    return [{"epoch": float(epoch), **figures} for epoch in range(epochs)]


@pytest.mark.parametrize("rows", [rows_of(1), rows_of(3, "texture", "style")], ids=["one epoch", "three"])
def test_curves_are_drawn_of_any_number_of_epochs_and_types(tmp_path, rows):
    write_curves(tmp_path / "curves.png", rows, 12.5)
    with Image.open(tmp_path / "curves.png") as image:
        assert image.format == "PNG" and image.width > 1000
        assert len(image.convert("RGB").getcolors(10**6)) > 10


def test_the_same_figures_make_the_same_curves(tmp_path):
    for name in ("a.png", "b.png"):
        write_curves(tmp_path / name, rows_of(2, "part"), 10.0)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


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

"""Pictures that were generated before, in the layouts of GenIR and DAR."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators.folder import Folder, seed_of
from fashioniq.generators.pictures import PictureRequest, generate_usable


def save(path, shade):
    """A picture that is recognized by its mean."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((16, 16, 3), shade, np.uint8)
    pixels[:8] += 20
    Image.fromarray(pixels).save(path)


def shades(found):
    return [one.picture and round(np.asarray(one.picture)[8:].mean(), -1) for one in found]


def requests(*keys):
    return [PictureRequest("ignored", seed_of(*key)) for key in keys]


def test_pictures_of_dar_are_found_by_dialog_and_round(tmp_path):
    for number, name in enumerate(["0_0.jpg", "0_1.jpg", "12_0.JPEG", "12_10.png"]):
        save(tmp_path / name, 20 + 40 * number)
    found = Folder(tmp_path).generate(requests((12, 10), (0, 0), (12, 0), (0, 1)))
    assert shades(found) == [140, 20, 100, 60]
    assert {(one.status, one.seed, one.sent, one.seconds) for one in found} == {("ok", None, "ignored", 0.0)}


def test_several_pictures_of_a_round_are_told_apart(tmp_path):
    for number, name in enumerate(["3_1.jpg", "3_1_1.jpg", "3_1_2.jpg", "4_1_0.jpg"]):
        save(tmp_path / name, 20 + 40 * number)
    found = Folder(tmp_path).generate(requests((3, 1, 2), (3, 1, 0), (3, 1, 1), (4, 1, 0), (4, 1, 1)))
    assert shades(found) == [100, 20, 60, 140, None]
    assert found[-1].status == "error" and found[-1].reason == "no picture 4_1_1"


def test_pictures_of_genir_are_found_by_the_ids_of_a_batch(tmp_path):
    ids = ["000000000139", "B00ABC_x"]
    for number, name in enumerate(ids):
        save(tmp_path / "generated_images" / f"{name}_3.jpg", 20 + 40 * number)
    save(tmp_path / "original_images" / f"{ids[0]}_original.jpg", 200)
    found = Folder(tmp_path, ids[::-1]).generate(requests((0, 3), (1, 3), (1, 4), (2, 3)))
    assert shades(found) == [60, 20, None, None]
    assert [one.reason for one in found[2:]] == ["no picture 000000000139_4", "no key of dialog 2"]


@pytest.mark.parametrize(
    ("names", "by_image"),
    [
        (["generated_images/7_0.jpg", "generated_images/b_x_0.jpg"], True),
        (["generated_images/7_0_0.jpg", "generated_images/b_x_0_0.jpg"], True),
        (["7_0.jpg", "b_x_0.jpg"], True),  # 7 is the image of dialog 0, and there is no dialog 7
        (["0_0.jpg", "1_0.jpg"], False),
        (["0_0.jpg", "1_0.jpg", "7_0.jpg"], False),
        (["generated_images/0_0.jpg", "generated_images/1_0.jpg"], False),
    ],
)
def test_the_names_in_a_folder_are_those_of_images_or_of_dialogs(tmp_path, names, by_image):
    for number, name in enumerate(names):
        save(tmp_path / name, 20 + 40 * number)
    found = Folder(tmp_path).of_images(["coco/7.jpg", "b_x.png"], tmp_path / "dialogs.json")
    assert shades(found.generate(requests((0, 0), (1, 0)))) == [20, 60]
    assert (found._keys == ["7", "b_x"]) is by_image


def test_pictures_of_other_dialogs_are_refused(tmp_path):
    save(tmp_path / "train-1_0.jpg", 20)
    with pytest.raises(UserError, match=r"found none of the dialogs in dialogs\.json; give their folder"):
        Folder(tmp_path).of_images(["1.jpg"], Path("dialogs.json"))


def test_pictures_that_cannot_be_used_are_errors_and_not_replaced_by_others(tmp_path):
    (tmp_path / "0_0.jpg").write_bytes(b"no picture")
    Image.new("RGB", (16, 16)).save(tmp_path / "1_0.png")
    save(tmp_path / "2_0.png", 100)
    attempts = generate_usable(Folder(tmp_path), requests((0, 0), (1, 0), (2, 0), (3, 0)))
    assert [[one.status for one in tried] for tried in attempts] == [["error"], ["error"], ["ok"], ["error"]]
    reasons = [tried[0].reason for tried in attempts]
    assert reasons[0].startswith("0_0.jpg is unreadable") and reasons[1:] == [
        "1_0.png is black",
        "",
        "no picture 3_0",
    ]


@pytest.mark.parametrize("dialog, round, number", [(-1, 0, 0), (0, 1000, 0), (0, 0, 1000), (0, -1, 0)])
def test_a_seed_never_means_two_pictures(dialog, round, number):
    with pytest.raises(ValueError):
        seed_of(dialog, round, number)


def test_other_pictures_are_another_identity(tmp_path):
    save(tmp_path / "0_0.png", 100)
    before = Folder(tmp_path).identity
    assert before == Folder(tmp_path).identity and before["count"] == 1
    save(tmp_path / "0_1.png", 100)
    assert Folder(tmp_path).identity["checksum"] != before["checksum"]


def test_a_folder_without_pictures_is_told(tmp_path):
    (tmp_path / "dress.jpg").write_bytes(b"")
    with pytest.raises(UserError, match=r"expected pictures such as 0_1\.jpg"):
        Folder(tmp_path)
    with pytest.raises(UserError, match="cannot read the folder"):
        Folder(tmp_path / "none")

"""What counts as black, and how often a picture is tried."""

import numpy as np
import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators.pictures import BETWEEN, Generated, PictureRequest, generate_usable, is_black


def picture(values, shape=(4, 4, 3)):
    return Image.fromarray(np.broadcast_to(np.uint8(values), shape).copy())


@pytest.mark.parametrize("value", [0, 7, 128, 255])
def test_a_picture_of_one_color_is_black(value):
    assert is_black(picture(value))


def test_a_dark_picture_is_black_and_one_with_a_light_pixel_is_not():
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[::2] = 7
    assert is_black(Image.fromarray(pixels))
    pixels[::2] = 8
    assert not is_black(Image.fromarray(pixels))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_a_picture_of_any_mode_is_judged_by_its_colors(mode):
    pixels = np.linspace(0, 255, 256, dtype=np.uint8).reshape(16, 16)
    assert not is_black(Image.fromarray(pixels).convert(mode))
    assert is_black(Image.new("RGB", (4, 4)).convert(mode))


class Scripted:
    """Gives each prompt the statuses in its text, one per attempt."""

    identity = {"backend": "scripted"}  # noqa: RUF012

    def __init__(self):
        self.calls = []

    def generate(self, requests):
        self.calls.append(list(requests))
        number = len(self.calls) - 1
        return [
            Generated(None, request.prompt.split(",")[number], request.seed, request.prompt)
            for request in requests
        ]


def test_only_black_and_blocked_pictures_are_tried_again_with_new_seeds_at_most_twice():
    prompts = ["ok", "black,blocked,black,ok", "error", "blocked,ok", "timeout", "wrong size", "black,error"]
    requests = [PictureRequest(prompt, seed) for seed, prompt in enumerate(prompts)]
    generator = Scripted()
    attempts = generate_usable(generator, requests)
    assert [",".join(one.status for one in tried) for tried in attempts] == [
        "ok",
        "black,blocked,black",
        "error",
        "blocked,ok",
        "timeout",
        "wrong size",
        "black,error",
    ]
    assert [one.seed for one in attempts[1]] == [1, 1 + BETWEEN, 1 + 2 * BETWEEN]
    assert [tried[0].sent for tried in attempts] == prompts
    assert [len(call) for call in generator.calls] == [7, 3, 1]


def test_without_requests_nothing_is_generated():
    generator = Scripted()
    assert generate_usable(generator, []) == [] and generator.calls == []


def test_an_error_of_the_user_ends_all_attempts():
    class Refused:
        identity = {}  # noqa: RUF012

        def generate(self, requests):
            raise UserError("no key")

    with pytest.raises(UserError, match="no key"):
        generate_usable(Refused(), [PictureRequest("a", 0)])

"""The user of GenIR that is a vision-language model."""

import io

import pytest
import torch
from PIL import Image

from fashioniq.loop.messages import Message
from fashioniq.users.describing_pictures import DescribingPictures
from fashioniq.users.vision import PicturesByName


class Model:
    """In an endpoint's place: answers with what `say` makes of a prompt, and keeps prompts and colors."""

    def __init__(self, say):
        self.say, self.asked = say, []

    def complete(self, prompts, tokens, pictures):
        for prompt, some in zip(prompts, pictures, strict=True):
            colors = [Image.open(io.BytesIO(one)).getpixel((0, 0)) for one in some]
            names = ["red" if red > 128 else "blue" for red, _, _ in colors]
            self.asked.append((prompt, names))
        return [self.say(prompt) for prompt in prompts]


@pytest.fixture
def pictures(tmp_path):
    Image.new("RGB", (40, 40), "red").save(tmp_path / "a.png")
    return PicturesByName({"a": tmp_path / "a.png"})


def replies(model, pictures, offers, **options):
    user = DescribingPictures(model, pictures, ["a"], **options)
    return [user.reply(torch.tensor([0]), offer, turn).texts for turn, offer in enumerate(offers)]


def answer(prompt):
    if prompt.startswith("Describe"):
        return "a red dress\n"
    return (
        "it is <b>blue</b>\nand short"
        if "first picture" in prompt or "criticism" in prompt
        else "a long red dress"
    )


def test_a_correction_compares_two_pictures_and_then_writes_with_the_target_alone(pictures):
    model, shown = Model(answer), Message(pictures=[Image.new("RGB", (8, 8), "blue")])
    said = replies(model, pictures, [Message(), shown], sight=lambda offer: offer.pictures)
    assert said == [["a red dress"], ["a long red dress"]]
    assert [colors for _, colors in model.asked] == [["red"], ["red", "blue"], ["red"]]
    assert "“a red dress”" in model.asked[1][0] and "drawn from" in model.asked[1][0]
    assert "it is blue and short" in model.asked[2][0] and "“a red dress”" in model.asked[2][0]


@pytest.mark.parametrize("sight", [None, lambda offer: offer.pictures])
def test_without_a_picture_the_description_is_criticized(pictures, sight):
    model = Model(answer)
    replies(model, pictures, [Message(), Message(pictures=[None])], sight=sight)
    assert [colors for _, colors in model.asked] == [["red"]] * 3 and "second picture" not in model.asked[1][
        0
    ]


def test_an_empty_answer_keeps_the_description(pictures):
    model = Model(lambda prompt: "a red dress" if prompt.startswith("Describe") else " \n")
    assert replies(model, pictures, [Message(), Message(), Message()]) == [["a red dress"]] * 3


def test_the_description_of_the_last_round_is_the_one_corrected(pictures):
    texts = iter(["first", "remark", "second", "remark", "third"])
    model = Model(lambda prompt: next(texts))
    assert replies(model, pictures, [Message()] * 3) == [["first"], ["second"], ["third"]]
    assert "“second”" in model.asked[3][0] and "“second”" in model.asked[4][0]

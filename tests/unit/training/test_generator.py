"""Training of the picture generator."""

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq.generators.pictures import Generated
from fashioniq.metrics.found_words import families
from fashioniq.models.denoiser import NOISE_STEPS, Denoiser, noise_schedule, sample
from fashioniq.training.generator import GeneratorTraining, averaging, draw_times
from fashioniq.training.generator_evaluation import GeneratedSample, evaluate


@pytest.fixture
def module():
    torch.manual_seed(0)
    model = Denoiser(3, image_size=8, patch=4, width=32, heads=2, layers=1)
    return GeneratorTraining(model, learning_rate=0.003)


def test_the_average_follows_the_weights_quickly_at_first():
    assert averaging(0) == pytest.approx(0.1) and averaging(10**6) == 0.999


@pytest.mark.parametrize("shuffled", [False, True])
def test_pictures_are_learnt_by_their_words(module, shuffled):
    """Each word is a light color channel; in pictures learnt with the words of others, it is found by chance."""
    words_NV = torch.cartesian_prod(*3 * [torch.tensor([0, 1], dtype=torch.int8)])[1:].repeat(2, 1)
    pictures = torch.where(words_NV > 0, 235, 20).to(torch.uint8)[:, :, None, None].repeat(1, 1, 8, 8)
    optimizer = torch.optim.AdamW(module.model.parameters(), lr=0.003)
    for _ in range(100):
        said_NV = words_NV[torch.randperm(14)] if shuffled else words_NV
        loss = module.training_step([pictures, said_NV], 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    made = sample(module.model, noise_schedule(), words_NV.float(), range(14), steps=5, guidance=2.0)
    right = ((made.float().mean((2, 3)) > 128) == words_NV).float().mean()
    assert 0.3 < right < 0.7 if shuffled else right > 0.9


def test_most_times_have_much_noise():
    time_N = draw_times(torch.linspace(0, 1, 1001))
    assert (
        time_N.min() == 0 and time_N.max() == NOISE_STEPS - 1 and time_N.float().median() > 0.7 * NOISE_STEPS
    )


def test_validation_draws_the_same_noise_in_every_epoch(module):
    logged = []
    module.log = lambda name, value, **_: logged.append(float(value))
    batch = [torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8), torch.ones(4, 3, dtype=torch.int8)]
    for _ in range(2):
        module.on_validation_epoch_start()
        module.validation_step(batch, 0)
    assert logged[:2] == logged[2:] and logged[0] == -logged[1]


class Seeing:
    """Judge of pictures of one color."""

    words, types = ["red", "blue", "white"], ["texture"] * 3

    def score(self, pictures):
        return np.array([[float(one.getpixel((0, 0)) == color) for color in COLORS] for one in pictures])

    def wanted(self, lists):
        return np.array([[float(word in words) for word in self.words] for words in lists])


COLORS = (255, 0, 0), (0, 0, 255), (255, 255, 255)
RED, BLUE, WHITE = (Image.new("RGB", (8, 8), color) for color in COLORS)


def test_generated_pictures_are_judged_by_their_own_words_beside_those_of_other_products():
    known = [(RED, ["red"]), (BLUE, ["blue"])]

    def made(picture):
        return Generated(picture, "ok" if picture else "failed", 0, "")

    samples = [
        GeneratedSample(["red"], RED, made(RED)),
        GeneratedSample(["red"], BLUE, made(RED)),
        GeneratedSample(["blue"], BLUE, made(None)),  # failed
        GeneratedSample(["blue"], BLUE, made(BLUE)),
    ]
    found = evaluate(Seeing(), known, samples)
    assert families(Seeing.words, Seeing.types) == ["what color is it?"] * 3
    assert found["products"] == 4
    # in the control, the second product has the picture of the first, and the last the one that failed
    assert [found[name]["colors"] for name in ("real", "generated", "control")] == [75, 75, 25]

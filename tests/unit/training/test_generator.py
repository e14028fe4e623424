"""Training of the picture generator."""

import json
import shutil
from itertools import cycle, islice

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq.data.attributes import TYPES
from fashioniq.data.images import to_square
from fashioniq.data.prompts import GeneratedPair
from fashioniq.files import UserError
from fashioniq.loop.exact import NotFiniteError
from fashioniq.metrics.found_words import families
from fashioniq.models.denoiser import NOISE_STEPS, Denoiser, noise_schedule, sample
from fashioniq.runs.predictor import PictureFeatures
from fashioniq.training import generator
from fashioniq.training.generator import GeneratorTraining, Judge, draw_times, ema_decay, evaluate_generator


@pytest.fixture
def module():
    torch.manual_seed(0)
    model = Denoiser(3, image_size=8, patch=4, width=32, heads=2, layers=1)
    return GeneratorTraining(model, learning_rate=0.003)


def test_the_average_follows_the_weights_quickly_at_first():
    assert ema_decay(0) == pytest.approx(0.1) and ema_decay(10**6) == 0.999


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


def test_pictures_are_learnt_from_black_at_minus_1_to_white_at_1_as_they_are_drawn():
    pictures = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
    pictures_BCHW, _ = generator._prepared([pictures, torch.ones(2, 3, dtype=torch.int8)])
    assert pictures_BCHW.flatten().tolist() == [-1, 1]


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
    samples = [
        GeneratedPair(["red"], RED, RED),
        GeneratedPair(["red"], BLUE, RED),
        GeneratedPair(["blue"], BLUE, None),  # failed
        GeneratedPair(["blue"], BLUE, BLUE),
    ]
    found = evaluate_generator(Seeing(), known, samples)
    assert families(Seeing.words, Seeing.types) == ["what color is it?"] * 3
    assert found["products"] == 4
    # in the control, the second product has the picture of the first, and the last the one that failed
    assert [found[name]["colors"] for name in ("real", "generated", "control")] == [75, 75, 25]


def test_a_picture_that_failed_is_judged_as_one_that_is_all_black(monkeypatch):
    seen, judge = [], Seeing()

    def score(pictures):
        seen.append([to_square(one, 6) for one in pictures])
        return Seeing.score(judge, pictures)

    monkeypatch.setattr(judge, "score", score)
    samples = [GeneratedPair(["red"], RED, None)]
    evaluate_generator(judge, [(RED, ["red"])], samples)
    (generated,) = seen[-1]
    assert generated.shape == (3, 6, 6) and not generated.any()


def test_the_averaged_weights_follow_by_the_decay_of_the_step(module, monkeypatch):
    before = [weight.clone() for weight in module.average.parameters()]
    with torch.no_grad():
        for weight in module.model.parameters():
            weight.add_(1.0)
    monkeypatch.setattr(type(module), "global_step", 10)
    module.on_before_zero_grad(None)
    for old, new in zip(before, module.average.parameters(), strict=True):
        assert torch.allclose(new, old + 1 - 11 / 20, atol=1e-6)


def test_a_validation_that_is_not_finite_ends_the_training(module):
    with torch.no_grad():
        next(module.average.parameters()).fill_(float("nan"))
    module.on_validation_epoch_start()
    pictures, words = torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.ones(2, 3, dtype=torch.int8)
    with pytest.raises(NotFiniteError):
        module.validation_step([pictures, words], 0)


def test_a_judge_reads_pictures_as_its_predictor_does_and_needs_the_types_of_words(shop, tmp_path):
    with pytest.raises(UserError, match="lacks the types of its words"):
        Judge(shop.run("predictor"))
    run = shutil.copytree(shop.run("predictor"), tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    types = list(islice(cycle(TYPES), len(about["attribute_words"])))
    (run / "model.json").write_text(json.dumps(about | {"attribute_types": types}))
    judge = Judge(run)
    assert judge.words == about["attribute_words"] and judge.types == types
    assert judge.size == 32
    numbers = np.random.default_rng(0)
    pictures = [Image.fromarray(numbers.integers(0, 255, (20, 30, 3), np.uint8)) for _ in range(5)]
    score_NA = judge.score(pictures, batch=2)
    assert score_NA.shape == (5, len(types))
    for row, picture in enumerate(pictures):
        np.testing.assert_allclose(judge.score([picture])[0], score_NA[row], rtol=1e-3, atol=1e-4)
    features = PictureFeatures(shop.features, shop.run("predictor"), "cpu")
    chance_NA = features.chances(features(pictures))
    np.testing.assert_allclose(1 / (1 + np.exp(-score_NA)), chance_NA, atol=0.02)
    wanted_NA = judge.wanted([[judge.words[2], judge.words[0]], []])
    assert sorted(wanted_NA.nonzero()[1]) == [0, 2] and not wanted_NA[1].any()


@pytest.mark.parametrize(
    ("drawn", "mirrored", "words"), [(0.05, True, False), (0.3, True, True), (0.7, False, True)]
)
def test_half_of_the_pictures_are_mirrored_from_left_to_right_and_one_in_ten_has_no_words(
    module, monkeypatch, drawn, mirrored, words
):
    seen = []
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(shape, drawn))
    monkeypatch.setattr(generator, "denoising_loss", lambda *given, **_: seen.append(given))
    pictures = torch.arange(2 * 3 * 64, dtype=torch.uint8).view(2, 3, 8, 8)
    words_BV = torch.ones(2, 3, dtype=torch.int8)
    module.training_step([pictures, words_BV], 0)
    [(_, _, pictures_BCHW, found_BV)] = seen
    plain = generator._prepared([pictures, words_BV])[0]
    assert torch.equal(pictures_BCHW, plain.flip(3) if mirrored else plain)
    assert found_BV.bool().all() if words else not found_BV.any()

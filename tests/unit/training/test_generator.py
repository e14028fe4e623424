"""Training of the picture generator."""

import pytest
import torch

from fashioniq.models.denoiser import NOISE_STEPS, Denoiser
from fashioniq.training.generator import GeneratorTraining, averaging, draw_times


@pytest.fixture
def module():
    torch.manual_seed(0)
    model = Denoiser(2, image_size=8, patch=4, width=32, heads=2, layers=1)
    return GeneratorTraining(model, learning_rate=0.003, no_words=0.1)


def test_the_average_follows_the_weights_quickly_at_first():
    assert averaging(0) == pytest.approx(0.1) and averaging(10**6) == 0.999


def test_pictures_are_learnt_and_told_apart_by_their_words(module):
    """A dark and a light picture, each with a word of its own; with the words swapped the error is larger."""
    pictures = (
        torch.tensor([20, 235], dtype=torch.uint8)[:, None, None, None].expand(2, 3, 8, 8).repeat(8, 1, 1, 1)
    )
    words = torch.eye(2, dtype=torch.int8).repeat(8, 1)
    optimizer = torch.optim.AdamW(module.model.parameters(), lr=0.003)
    losses = []
    for _ in range(150):
        loss = module.training_step([pictures, words], 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) < 0.2 * sum(losses[:20])
    module.no_words = 0.0
    with torch.no_grad():
        right, swapped = (
            sum(module.training_step([pictures, said], 0).item() for _ in range(20))
            for said in (words, words.flip(1))
        )
    assert swapped > 3 * right


def test_most_times_have_much_noise():
    time_N = draw_times(torch.linspace(0, 1, 1001))
    assert (
        time_N.min() == 0 and time_N.max() == NOISE_STEPS - 1 and time_N.float().median() > 0.7 * NOISE_STEPS
    )


def test_validation_draws_the_same_noise_in_every_epoch(module):
    logged = []
    module.log = lambda name, value, **_: logged.append(float(value))
    batch = [torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8), torch.ones(4, 2, dtype=torch.int8)]
    for _ in range(2):
        module.on_validation_epoch_start()
        module.validation_step(batch, 0)
    assert logged[:2] == logged[2:] and logged[0] == -logged[1]

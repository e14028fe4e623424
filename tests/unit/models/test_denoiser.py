"""Denoiser of the picture generator."""

import pytest
import torch

from fashioniq.models.denoiser import (
    LARGEST_WEIGHT,
    NOISE_STEPS,
    Denoiser,
    denoising_loss,
    noise_schedule,
    sample,
)

SIZES = {"image_size": 16, "patch": 4, "width": 16, "heads": 2, "layers": 1}


@pytest.fixture
def model():
    """A denoiser whose prediction depends on all of its inputs."""
    torch.manual_seed(0)
    model = Denoiser(5, **SIZES)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return model.eval()


@pytest.fixture
def words_BV():
    return torch.tensor([[2.0, 0, 0, 0, 0], [0, 2, 0, 0, 1], [0, 0, 0, 0, 0]])


def test_the_loss_weighs_the_error_of_grey_pictures_as_that_of_velocities():
    schedule, clean_BCHW = noise_schedule(), torch.rand(NOISE_STEPS, 3, 16, 16) * 2 - 1
    grey = lambda noisy_BCHW, time_B, words_BV: torch.zeros_like(noisy_BCHW)  # noqa: E731
    time_N, words_NV = torch.arange(NOISE_STEPS), torch.zeros(NOISE_STEPS, 5)
    loss = denoising_loss(grey, schedule, clean_BCHW, words_NV, time_N, torch.randn_like(clean_BCHW))
    weight_N = (1 / (1 - schedule.alphas_cumprod)).clamp(max=LARGEST_WEIGHT)
    expected = (clean_BCHW.square().mean((1, 2, 3)) * weight_N).mean().item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_the_patches_of_a_picture_are_put_back_where_they_were(model):
    noisy_BCHW = torch.randn(1, 3, 16, 16, requires_grad=True)
    with torch.no_grad():
        for weights in model.blocks.parameters():  # no token sees another one
            weights.zero_()
        model.colors.weight.zero_()  # of the whole picture
    model(noisy_BCHW, torch.tensor([3]), torch.zeros(1, 5))[0, :, 4:8, 8:12].sum().backward()
    inside = torch.zeros(16, 16, dtype=torch.bool)
    inside[4:8, 8:12] = True
    inside[:12, 4:] = True  # convolutions see two pixels of the patches beside it
    assert torch.equal(noisy_BCHW.grad[0].abs().sum(0) > 0, inside)


def test_a_picture_depends_on_its_words_and_seed_alone(model, words_BV):
    together = sample(model, noise_schedule(), words_BV, [1, 2, 3], steps=3, guidance=2.0)
    for row, seed in enumerate([1, 2, 3]):
        alone = sample(model, noise_schedule(), words_BV[row : row + 1], [seed], steps=3, guidance=2.0)
        assert (alone[0].int() - together[row].int()).abs().max() <= 1
    assert together.shape == (3, 3, 16, 16) and together.dtype == torch.uint8
    other_words = sample(model, noise_schedule(), words_BV.flip(0), [1, 2, 3], steps=3, guidance=2.0)
    other_seeds = sample(model, noise_schedule(), words_BV, [1, 9, 3], steps=3, guidance=2.0)
    assert not torch.equal(other_words[0], together[0]) and not torch.equal(other_seeds[1], together[1])


def test_the_main_word_is_another_condition(model):
    noisy_BCHW, time_B = torch.randn(2, 3, 16, 16)[:1].repeat(2, 1, 1, 1), torch.tensor([500, 500])
    one, other = model(noisy_BCHW, time_B, torch.tensor([[2.0, 1, 0, 0, 0], [1, 2, 0, 0, 0]]))
    assert not torch.allclose(one, other, atol=1e-5)


def test_the_vector_of_a_main_word_replaces_that_of_the_word(model):
    seen = []
    model.condition.register_forward_pre_hook(lambda _layers, inputs: seen.append(inputs[0]))
    for row in ([2.0, 1, 0, 0, 0], [0.0, 0, 0, 0, 0]):
        model(torch.zeros(1, 3, 16, 16), torch.tensor([7]), torch.tensor([row]))
    both_D = model.main.weight[:, 0] + model.words.weight[:, 1]
    assert torch.allclose((seen[0] - seen[1])[0], both_D, atol=1e-5)


@torch.no_grad()
def test_a_pixel_mixes_the_colors_of_the_palette():
    model = Denoiser(5, **SIZES)
    for weights in (model.pixels.weight, model.colors.weight):
        weights.zero_()
    color_CK = model.colors.bias.view(3, 6)
    inputs = torch.randn(1, 3, 16, 16), torch.tensor([7]), torch.zeros(1, 5)
    for scores, expected_C in (
        ([0.0] * 6, color_CK.mean(1)),
        ([0.0, 9, 0, 0, 0, 0], color_CK[:, 1]),
        ([9.0, 9, 0, 0, 0, 0], color_CK[:, :2].mean(1)),
    ):
        model.joined[-1].bias[3:] = torch.tensor(scores)
        assert torch.allclose(model(*inputs), expected_C[None, :, None, None], atol=1e-5)


def test_guidance_changes_pictures_with_words_only(model, words_BV):
    pictures = [
        sample(model, noise_schedule(), words_BV, [1, 2, 3], steps=3, guidance=by) for by in (1.0, 3.0)
    ]
    assert not torch.equal(pictures[0][0], pictures[1][0])
    assert (pictures[0][2].int() - pictures[1][2].int()).abs().max() <= 1


def test_saved_by_diffusers_it_is_loaded_as_it_was(model, words_BV, tmp_path):
    model.save_pretrained(tmp_path)
    loaded, noisy_BCHW, time_B = (
        Denoiser.from_pretrained(tmp_path),
        torch.randn(3, 3, 16, 16),
        torch.tensor([1, 500, 999]),
    )
    assert torch.equal(loaded.eval()(noisy_BCHW, time_B, words_BV), model(noisy_BCHW, time_B, words_BV))

"""Denoiser of the small picture generator: a diffusion transformer on pixels (Peebles & Xie 2023).

Its tokens are patches of a noisy picture, and it predicts the clean one, which needs fewer steps of
training than predicting the noise (Li & He 2025). The condition is a set of words, some of which are main words:
the sum of their vectors and of the vector of the time, after two more layers, modulates every layer. Two convolutions
remove the seams of the patches. Each pixel mixes the few colors of a palette of the whole picture.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.files import UserError

try:
    from diffusers import DDIMScheduler
    from diffusers.configuration_utils import ConfigMixin, register_to_config
    from diffusers.models.embeddings import get_timestep_embedding
    from diffusers.models.modeling_utils import ModelMixin
except ImportError as error:
    raise UserError(
        f"the trained generator needs diffusers, which cannot be imported ({error}); install it with "
        "pip install 'fashioniq[generate]'"
    ) from error

NOISE_STEPS = 1000  # times of the diffusion, of which sampling visits few
LARGEST_WEIGHT = 2.0  # of the loss at times with little noise
PALETTE = 6  # colors of a picture, of which each pixel is a mixture
CHANNELS = 9  # features of a pixel that the convolutions read: three colors, and one per color of the palette
SHARPNESS = 3.0  # factor of the scores from which the shares of a palette's colors follow


def noise_schedule() -> Any:
    """DDIMScheduler with a cosine schedule that ends in pure noise, for a model that predicts the clean picture."""
    return DDIMScheduler(
        num_train_timesteps=NOISE_STEPS,
        beta_schedule="squaredcos_cap_v2",
        prediction_type="sample",
        clip_sample=True,
        timestep_spacing="trailing",
        rescale_betas_zero_snr=True,
    )


class Denoiser(ModelMixin, ConfigMixin):  # type: ignore[misc]
    """Clean picture from a noisy one, its time and the words that it shows.

    `vocabulary` is the number of words. The picture size is a multiple of the patch size.
    """

    @register_to_config
    def __init__(
        self,
        vocabulary: int,
        image_size: int = 64,
        patch: int = 8,
        width: int = 192,
        heads: int = 4,
        layers: int = 6,
    ) -> None:
        super().__init__()
        self.patch, self.width = patch, width
        tokens = (image_size // patch) ** 2
        self.patches = nn.Linear(3 * patch**2, width)
        self.places = nn.Parameter(0.5 * torch.randn(1, tokens, width))
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.words = nn.Linear(vocabulary, width, bias=False)
        self.blocks = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm = _ModulatedNorm(width)
        self.pixels = nn.Linear(width, CHANNELS * patch**2)
        nn.init.normal_(self.words.weight, std=0.5)
        self.main = nn.Linear(vocabulary, width, bias=False)
        nn.init.normal_(self.main.weight, std=0.5)
        self.condition = nn.Sequential(
            nn.SiLU(), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )
        first = nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, padding=1)
        last = nn.Conv2d(2 * CHANNELS, 3 + PALETTE, 3, padding=1)
        self.joined = nn.Sequential(first, nn.SiLU(), last)
        nn.init.normal_(self.pixels.weight, std=0.02)
        nn.init.zeros_(self.pixels.bias)
        self.colors = nn.Linear(2 * width, 3 * PALETTE)
        nn.init.normal_(self.colors.weight, std=0.02)
        nn.init.normal_(self.colors.bias, std=0.5)
        for weights in (*self.norm.modulation.parameters(), *last.parameters()):
            nn.init.zeros_(weights)

    def forward(self, noisy_BCHW: Tensor, time_B: Tensor, words_BV: Tensor) -> Tensor:
        """Predict the clean pictures, B×3×H×W with values from -1 to 1.

        `words_BV` is 1 for each word of the condition, or 2 for a main word; a row of zeros is no condition.
        """
        x_BLD = (
            self.patches(F.pixel_unshuffle(noisy_BCHW, self.patch).flatten(2).transpose(1, 2)) + self.places
        )
        main_BV = (words_BV - 1).clamp(min=0)
        waves_BD = get_timestep_embedding(time_B, self.width, flip_sin_to_cos=True, downscale_freq_shift=0)
        sum_BD = self.time(waves_BD) + self.words(words_BV - 2 * main_BV)
        sum_BD = sum_BD + self.main(main_BV)
        condition_BD = F.silu(sum_BD + self.condition(sum_BD))
        for layer in self.blocks:
            x_BLD = layer(x_BLD, condition_BD)
        x_BLD = self.norm(x_BLD, condition_BD)
        pixels_BPL = self.pixels(x_BLD).transpose(1, 2)
        side = noisy_BCHW.shape[-1] // self.patch
        pixels_BCHW = F.pixel_shuffle(pixels_BPL.unflatten(2, (side, side)), self.patch)
        pixels_BCHW = pixels_BCHW[:, : 3 + PALETTE] + self.joined(pixels_BCHW)
        shares_BKHW = (SHARPNESS * pixels_BCHW[:, 3:]).softmax(1)
        colors_BCK = self.colors(torch.cat([condition_BD, x_BLD.mean(1)], 1)).unflatten(1, (3, PALETTE))
        mixed_BCHW = (colors_BCK @ shares_BKHW.flatten(2)).unflatten(2, noisy_BCHW.shape[2:])
        return mixed_BCHW + pixels_BCHW[:, :3]


class _ModulatedNorm(nn.Module):
    """Layer norm whose scale and shift follow from the condition."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(width, 2 * width)

    def forward(self, x_BLD: Tensor, condition_BD: Tensor) -> Tensor:
        scale_B1D, shift_B1D = self.modulation(condition_BD)[:, None].chunk(2, 2)
        return self.norm(x_BLD) * (1 + scale_B1D) + shift_B1D


class _Layer(nn.Module):
    """Transformer layer whose norms and residual branches are modulated by the condition (adaLN-Zero)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = _ModulatedNorm(width), _ModulatedNorm(width)
        self.queries_keys_values, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gates = nn.Linear(width, 2 * width)
        for modulation in (self.before.modulation, self.between.modulation, self.gates):
            nn.init.zeros_(modulation.weight)
            nn.init.zeros_(modulation.bias)

    def forward(self, x_BLD: Tensor, condition_BD: Tensor) -> Tensor:
        attention_B1D, feed_forward_B1D = self.gates(condition_BD)[:, None].chunk(2, 2)
        x_BLD = x_BLD + attention_B1D * self._attend(self.before(x_BLD, condition_BD))
        return x_BLD + feed_forward_B1D * self.out(F.gelu(self.hidden(self.between(x_BLD, condition_BD))))

    def _attend(self, x_BLD: Tensor) -> Tensor:
        """Self-attention in plain operations: for tokens this few, torch's fused one is slower on a CPU."""
        query_BHLE, key_BHLE, value_BHLE = (
            self.queries_keys_values(x_BLD).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )
        scores_BHLL = query_BHLE @ key_BHLE.transpose(2, 3) * query_BHLE.shape[-1] ** -0.5
        weights_BHLL = scores_BHLL.softmax(-1).to(value_BHLE.dtype)
        return self.joined((weights_BHLL @ value_BHLE).transpose(1, 2).flatten(2))


def denoising_loss(
    model: nn.Module,
    schedule: Any,
    clean_BCHW: Tensor,
    words_BV: Tensor,
    time_B: Tensor,
    noise_BCHW: Tensor,
) -> Tensor:
    """Squared error of the predicted clean pictures, weighted as an error of velocities is, up to a maximum."""
    kept_B = schedule.alphas_cumprod.to(clean_BCHW.device)[time_B]
    noisy_BCHW = schedule.add_noise(clean_BCHW, noise_BCHW, time_B)
    error_B = (model(noisy_BCHW, time_B, words_BV).float() - clean_BCHW).square().mean((1, 2, 3))
    return (error_B * (1 / (1 - kept_B)).clamp(max=LARGEST_WEIGHT)).mean()


@torch.inference_mode()
def sample(
    model: Denoiser,
    schedule: Any,
    words_BV: Tensor,
    seeds: Sequence[int],
    *,
    steps: int,
    guidance: float,
) -> Tensor:
    """Generate a picture for each row of words: uint8, B×3×H×W.

    Each picture begins with noise of its own seed. With a `guidance` other than 1, the prediction without words
    is moved by this factor of its difference to that with words (Ho & Salimans 2022).
    """
    size, device = model.config["image_size"], words_BV.device
    noise = [torch.randn(3, size, size, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    x_BCHW = torch.stack(noise).to(device)
    schedule.set_timesteps(steps, device=device)
    for time in schedule.timesteps:
        time_B = time.expand(len(x_BCHW))
        clean_BCHW = model(x_BCHW, time_B, words_BV)
        if guidance != 1:
            plain_BCHW = model(x_BCHW, time_B, torch.zeros_like(words_BV))
            clean_BCHW = plain_BCHW + guidance * (clean_BCHW - plain_BCHW)
        x_BCHW = schedule.step(clean_BCHW, time, x_BCHW, return_dict=False)[0]
    return ((x_BCHW.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)

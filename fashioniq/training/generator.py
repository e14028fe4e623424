"""Training of the picture generator: denoising of pictures, given their words."""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from fashioniq.loop.exact import NotFiniteError
from fashioniq.models.denoiser import NOISE_STEPS, Denoiser, denoising_loss, noise_schedule
from fashioniq.training.processes import FusedTraining, stepwise

DECAY = 0.999  # of the averaged weights; less in the first steps
BETAS = 0.9, 0.99  # of AdamW
WARMUP = 0.05  # share of the steps
NO_WORDS = 0.1  # share of the pictures without their words, which guidance needs
NOISY = (
    0.4  # exponent of the times: less than 1 draws more of them with much noise, where the shape is decided
)


def averaging(step: int) -> float:
    """Decay of the averaged weights after a number of steps: the first weights are forgotten soon."""
    return min(DECAY, (1 + step) / (10 + step))


def draw_times(uniform_B: Tensor) -> Tensor:
    """Times of the diffusion from uniform random numbers below 1."""
    return (NOISE_STEPS * uniform_B**NOISY).long().clamp(max=NOISE_STEPS - 1)


class GeneratorTraining(FusedTraining):
    """Lightning module for batches of (uint8 pictures, int8 words).

    `average` has the moving average of the weights, which is what is validated and kept.
    """

    def __init__(self, model: Denoiser, *, learning_rate: float) -> None:
        super().__init__()
        self.model, self.average = model, copy.deepcopy(model).requires_grad_(False)
        self.learning_rate = learning_rate
        self.schedule = noise_schedule()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pictures_BCHW, words_BV = _prepared(batch)
        batch_size, device = len(pictures_BCHW), pictures_BCHW.device
        mirrored_B = torch.rand(batch_size, device=device) < 0.5
        pictures_BCHW = torch.where(mirrored_B[:, None, None, None], pictures_BCHW.flip(3), pictures_BCHW)
        words_BV = words_BV * (torch.rand(batch_size, 1, device=device) >= NO_WORDS)
        time_B = draw_times(torch.rand(batch_size, device=device))
        noise_BCHW = torch.randn_like(pictures_BCHW)
        return denoising_loss(
            self.model, self.schedule, pictures_BCHW, words_BV, time_B=time_B, noise_BCHW=noise_BCHW
        )

    @torch.no_grad()
    def on_before_zero_grad(self, optimizer: Any) -> None:
        weight = 1 - averaging(self.global_step)
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), weight)

    def on_validation_epoch_start(self) -> None:
        self._draws = torch.Generator().manual_seed(0)  # every epoch is validated with the same noise

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pictures_BCHW, words_BV = _prepared(batch)
        time_B = draw_times(torch.rand(len(words_BV), generator=self._draws)).to(words_BV.device)
        noise_BCHW = torch.randn(pictures_BCHW.shape, generator=self._draws).to(words_BV.device)
        loss = denoising_loss(
            self.average, self.schedule, pictures_BCHW, words_BV, time_B=time_B, noise_BCHW=noise_BCHW
        )
        if not bool(loss.isfinite()):
            raise NotFiniteError("the validation loss is not finite")
        self.log("val_loss", loss, batch_size=len(words_BV))
        self.log("val_fit", -loss, batch_size=len(words_BV))  # higher is better

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.learning_rate,
            betas=BETAS,
            weight_decay=0.01,
            fused=self.can_fuse,
        )
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, int(WARMUP * steps))

        def factor(step: int) -> float:
            return min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))

        return stepwise(optimizer, factor)


def _prepared(batch: list[Tensor]) -> tuple[Tensor, Tensor]:
    pictures_BCHW, words_BV = batch
    return pictures_BCHW.float() / 127.5 - 1, words_BV.float()

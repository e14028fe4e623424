"""Data-parallel training: random draws and averages cover the whole batch, and each rank takes its share.

Rank r of R takes examples r, r + R, r + 2R, … of one common order. All ranks take equally many; a
remainder is left out of that epoch.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn

S = TypeVar("S", Tensor, list[str])


def rank_and_count() -> tuple[int, int]:
    """Return the rank of this process and the number of processes; (0, 1) without distribution."""
    return (
        (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)
    )


def shared_out(whole_G: S) -> S:
    """This rank's share of a sample that every rank drew with the same seed, a tensor or a list."""
    rank, count = rank_and_count()
    return whole_G[rank::count]


def whole_batch(own_B: Tensor) -> Tensor:
    """Gather the shares of all ranks in the order of the whole batch, without gradients."""
    _, count = rank_and_count()
    if count == 1:
        return own_B
    parts = [torch.empty_like(own_B) for _ in range(count)]
    dist.all_gather(parts, own_B.contiguous())
    return torch.stack(parts, 1).flatten(0, 1)


def mean_over_processes(own: Tensor) -> Tensor:
    """Average a tensor over all ranks, without gradients."""
    _, count = rank_and_count()
    if count > 1:
        own = own.detach().clone()
        dist.all_reduce(own)
    return own / count


def stepwise(optimizer: torch.optim.Optimizer, factor: Callable[[int], float]) -> dict[str, Any]:
    """What `configure_optimizers` returns for a learning rate that `factor` changes in every step."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def warm_cosine(steps: int, warmup: int) -> Callable[[int], float]:
    """Factor of the learning rate that rises for `warmup` steps, and falls to 0 as half a cosine."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))

    return factor


class FusedTraining(pl.LightningModule):
    """Lightning module with a fused optimizer.

    It clips gradients itself, because Lightning does not for fused optimizers in mixed precision.
    """

    @property
    def can_fuse(self) -> bool:
        """False for float16: a fused optimizer unscales gradients after they are clipped."""
        return self._trainer is None or self.trainer.precision != "16-mixed"

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        if gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

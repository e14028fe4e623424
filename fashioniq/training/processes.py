"""Several processes train as one: what they draw and what they average is of the whole batch, and each takes
its share.

Of one order of examples process r of R takes every R-th from the r-th on, as many as the others; a last rest
that cannot be shared out is left out of that epoch.
"""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn


def rank_and_count() -> tuple[int, int]:
    """The number of this process and how many there are: 0 of 1 where nothing is shared out."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def shared_out(whole_G: Tensor) -> Tensor:
    """This process's part of what all drew alike for the whole batch."""
    rank, count = rank_and_count()
    return whole_G[rank::count]


def whole_batch(own_B: Tensor) -> Tensor:
    """The parts of all processes, as one process would have them; no gradient goes through."""
    _, count = rank_and_count()
    if count == 1:
        return own_B
    parts = [torch.empty_like(own_B) for _ in range(count)]
    dist.all_gather(parts, own_B.contiguous())
    return torch.stack(parts, 1).flatten(0, 1)


def mean_over_processes(own: Tensor) -> Tensor:
    """The mean of a number that each process has; no gradient goes through."""
    _, count = rank_and_count()
    if count > 1:
        own = own.detach().clone()
        dist.all_reduce(own)
    return own / count


class FusedTraining(pl.LightningModule):
    """A training whose optimizer is one kernel: it clips the gradients itself, since Lightning does not for
    such optimizers in mixed precision."""

    @property
    def can_fuse(self) -> bool:
        """Everywhere but where float16's gradients are scaled, which such an optimizer undoes too late for
        clipping."""
        return self._trainer is None or self.trainer.precision != "16-mixed"

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: int | float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        if gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

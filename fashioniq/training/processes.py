"""Processes that train together, on one machine or several: which of them this is, and whether they agree.

They are started by torchrun, by SLURM, by hand with NODE_RANK, MASTER_ADDR and MASTER_PORT on each machine, or by
Lightning for --devices on one machine (docs/scale.md). Only the process of rank 0 reads and writes the run folder.

Random draws and averages cover the whole batch, and each rank takes its share: rank r of R takes examples r, r + R,
r + 2R, … of one common order. All ranks take equally many; a remainder is left out of that epoch.
"""

import io
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from lightning_fabric.plugins import ClusterEnvironment, TorchCheckpointIO
from lightning_fabric.plugins.environments import LightningEnvironment, SLURMEnvironment
from torch import Tensor, nn

from fashioniq.compat import number_in
from fashioniq.files import UserError, atomic_write, why

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


def launched_rank(devices: int, num_nodes: int) -> int:
    """Rank of this process by the variables of its launcher, before the processes are connected.

    Raises UserError if the variables do not match --devices and --num-nodes: such processes would wait for
    others that never come.
    """
    count = devices * num_nodes
    if launcher := _launcher():
        name, *wanted, rank = launcher
        if count == 1 and number_in(rank, 0) == 0:
            return 0  # such as a training in an allocation of SLURM without srun
        for variable, expected in zip(wanted, (count, devices), strict=True):
            if expected != (found := number_in(variable, 1)):
                raise UserError(
                    f"expected {variable}={expected} of {name} for --devices {devices} and --num-nodes {num_nodes}, "
                    f"found {found}; give the same numbers to both"
                )
        return number_in(rank)
    needed = ("NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    if num_nodes > 1 and (missing := [name for name in needed if name not in os.environ]):
        raise UserError(
            f"--num-nodes is {num_nodes}, but {missing[0]} is not set; start the command with torchrun or srun, or set "
            f"{', '.join(needed)} on each machine (docs/scale.md)"
        )
    if (node := number_in("NODE_RANK", number_in("GROUP_RANK", 0))) >= num_nodes:
        raise UserError(
            f"expected NODE_RANK below --num-nodes {num_nodes}, found {node}; unset it, or give --num-nodes"
        )
    return node * devices + (number_in("LOCAL_RANK", 0) if devices > 1 else 0)


def environment(devices: int, num_nodes: int) -> list[ClusterEnvironment]:
    """How the processes find each other, where Lightning's own choice would not do.

    One process trains alone, whatever variables an allocation or a launcher has set. In a job of SLURM, Lightning would
    write a checkpoint of its own at SIGUSR1 and queue the job again, without --resume.
    """
    if devices * num_nodes == 1:
        return [LightningEnvironment()]
    launcher = _launcher()
    return [SLURMEnvironment(auto_requeue=False)] if launcher and launcher[0] == "SLURM" else []


def _launcher() -> tuple[str, ...] | None:
    """Name of the launcher, and its variables with the number of processes, those of a machine, and the rank."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK"
    if "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        return "SLURM", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID"
    return None


class RunCheckpoints(TorchCheckpointIO):
    """Checkpoints in the folder of a run, which need not be on the machines of other processes than the first.

    They are complete or absent: Lightning writes to the system's temporary folder, and if that is another file system,
    copies the file over the earlier checkpoint, which is lost if the process is killed or the disk is full.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)
        with atomic_write(Path(path)) as temporary:
            temporary.write_bytes(content.getbuffer())

    def load_checkpoint(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Read a checkpoint in the process of rank 0 and send it to the others."""
        rank, count = rank_and_count()
        loaded = [super().load_checkpoint(*arguments, **options) if rank == 0 else None]
        if count > 1:
            dist.broadcast_object_list(loaded, src=0)
        return loaded[0]  # type: ignore[return-value]


class Peers(pl.Callback):
    """Compares the options, data and features of processes that train together, and explains lost connections.

    `facts` must be the same in all processes. A process that ends closes its connections, and the next operation with
    it fails in the others; torchrun starts them again (docs/scale.md).
    """

    def __init__(self, run: Path, facts: dict[str, Any]) -> None:
        self.run, self.facts = run, facts
        self._on_interrupt: Any = None  # handler of Ctrl-C while it is replaced

    def meet(self, trainer: pl.Trainer) -> None:
        """Print where this process waits for the others, up to half an hour, until Ctrl-C ends it."""
        meeting = trainer.strategy.cluster_environment  # type: ignore[attr-defined]
        address = f"{meeting.main_address}:{meeting.main_port}"
        print(
            f"process {trainer.global_rank} of {trainer.world_size} meets the others at {address}", flush=True
        )
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # torch waits without calling it
            self._on_interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self._on_interrupt:
            signal.signal(signal.SIGINT, self._on_interrupt)
        if (count := rank_and_count()[1]) == 1:
            return
        found: list[Any] = [None] * count
        dist.all_gather_object(found, self.facts)
        for other, facts in enumerate(found):
            if odd := [key for key in self.facts if facts[key] != found[0][key]]:
                raise UserError(
                    f"process {other} has {odd[0]} {facts[odd[0]]}, process 0 has {found[0][odd[0]]}; give all "
                    "machines the same options and data"
                )

    def explain(self, error: Exception) -> None:
        """Raise UserError if an operation with other processes has failed, as it does when one of them ends."""
        if not _of_connection(error):
            return
        raise UserError(
            f"no connection to the other training processes ({why(error)}); start all of them, and continue with "
            f"--resume --run {self.run} if an epoch was complete"
        ) from error


def _of_connection(error: BaseException) -> bool:
    """Whether an error is of torch's communication: its own kinds, or those of gloo and NCCL without a kind."""
    return isinstance(error, dist.DistError) or (
        type(error) is RuntimeError and any(name in str(error) for name in ("gloo", "NCCL"))
    )

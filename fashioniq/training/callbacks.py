"""Callbacks of all trainings: the best weights, weights halfway, and resuming."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from fashioniq.config import (
    Training,
)
from fashioniq.files import (
    UserError,
)
from fashioniq.provenance import Provenance, provenance, seconds
from fashioniq.runs import Run
from fashioniq.runs.checks import check_made_of, fingerprints, made_of
from fashioniq.runs.weights import save_model
from fashioniq.training.folder import append_row, write_config
from fashioniq.training.processes import mean_over_processes


def epoch_seed(seed: int, epoch: int) -> int:
    """Derive the seed of an epoch from the seed of the run."""
    return (seed * 100_003 + epoch) % 2**32


class Resumption(pl.Callback):
    """Updates config.yaml when training continues, after the checkpoint has been loaded."""

    def __init__(self, run: Path, settings: Training) -> None:
        self.run, self.settings, self.loaded = run, settings, False

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for optimizer in trainer.optimizers:
            for parameter, state in optimizer.state.items():
                if odd := [key for key, value in state.items() if _shape(value) not in ((), parameter.shape)]:
                    raise ValueError(f"{odd[0]} of the optimizer has another shape than its weights")
        self.loaded = True
        if trainer.is_global_zero:
            write_config(self.run, self.settings)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


class KeepBest(pl.Callback):
    """After every epoch with a validation a row in metrics.csv; where `monitor` has risen, the weights and description
    of the run.
    """

    def __init__(
        self, run: Path, model: nn.Module, about: Run, *, monitor: str, seed: int, patience: int
    ) -> None:
        self.run, self.model, self.about, self.monitor, self.seed, self.patience = (
            run,
            model,
            about,
            monitor,
            seed,
            patience,
        )
        self.best: dict[str, float] = {}
        self.trained = False  # set by this process only: resuming a complete run changes nothing
        self._earlier: dict[str, float] = {}  # seconds of earlier, interrupted processes
        self._losses: list[Tensor] = []
        self._loss = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "seconds": self._spent(), "made_of": made_of(self.about)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]
        check_made_of(self.run, self.about, state_dict)
        self._earlier = state_dict["seconds"]

    def provenance(self) -> Provenance:
        """The provenance of the run so far, with the seconds of interrupted processes."""
        return provenance(fingerprints(self.about), earlier=self._earlier)

    def _spent(self) -> dict[str, float]:
        return {name: value + self._earlier.get(name, 0.0) for name, value in seconds().items()}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # checkpoints restore the old patience, but not the stop
        for stopping in trainer.early_stopping_callbacks:
            stopping.patience = self.patience
            trainer.should_stop = trainer.should_stop or stopping.wait_count >= self.patience

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx == 0:  # not earlier: random draws before the first batch differ in a resumed epoch
            pl.seed_everything(epoch_seed(self.seed, trainer.current_epoch), verbose=False)
            self._losses = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._losses.append(outputs["loss"].detach())

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._check_loss(trainer)

    def _check_loss(self, trainer: pl.Trainer) -> None:
        self._loss = mean_over_processes(torch.stack(self._losses).mean()).item()
        if not math.isfinite(self._loss):
            raise UserError(
                f"training diverged in epoch {trainer.current_epoch}: its loss is not "
                f"finite; lower the learning rate"
            )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if (trainer.current_epoch + 1) % (trainer.check_val_every_n_epoch or 1):
            self._check_loss(trainer)  # before the checkpoint
            return
        figures = {"epoch": float(trainer.current_epoch), "train_loss": self._loss}
        figures |= {
            name: value.item() for name, value in trainer.callback_metrics.items() if name.startswith("val_")
        }
        better = not self.best or figures[self.monitor] > self.best[self.monitor]
        self.best = figures if better else self.best
        if not trainer.is_global_zero:
            return
        self.trained = True
        append_row(self.run / "metrics.csv", figures)
        summary = "  ".join(f"{name} {value:.4g}" for name, value in figures.items() if name != "epoch")
        pl_module.print(f"epoch {trainer.current_epoch}  {summary}", flush=True)
        if better:
            made = msgspec.structs.replace(self.about, metrics=figures, provenance=self.provenance())
            save_model(self.run, self.model, made)


class Halfway(pl.Callback):
    """Validates and saves the means of the weights before the training and the trained ones; trains the latter.

    A model that was fitted to people's captions and is then trained with simulated users learns from these, and forgets
    some of the captions. Halfway it keeps most of both (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR
    2022, where weights of 0.5 are recommended). `weights` have their values before the training, also where this is
    resumed.
    """

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = weights
        self._before = [weight.detach().clone() for weight in weights]
        self._trained: list[Tensor] = []

    @torch.no_grad()
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._trained = [weight.detach().clone() for weight in self.weights]
        for weight, before in zip(self.weights, self._before, strict=True):
            weight.lerp_(before.to(weight), 0.5)

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for weight, trained in zip(self.weights, self._trained, strict=True):
            weight.copy_(trained)

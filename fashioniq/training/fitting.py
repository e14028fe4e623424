"""What all trainings share: the run's folder, order of examples, best weights, resuming, early stop."""

import csv
import dataclasses
import io
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytorch_lightning as pl
import torch
import yaml
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from fashioniq.config import TrainAttributes, Training
from fashioniq.files import UserError, cannot_write, write_text
from fashioniq.gallery import NotFiniteError
from fashioniq.runs import Run, described, load_weights, read_run, save_model
from fashioniq.training.processes import mean_over_processes, rank_and_count, shared_out

MAY_CHANGE = {"resume", "epochs", "patience", "devices", "num_nodes", "strategy", "accelerator", "run", "seeds"}  # without making it another training
STEPS = {"epochs", "devices", "num_nodes"}  # how many steps there are hangs on these


def begin_run(run: Path, command: str, settings: Training) -> None:
    """Make the run's folder with its complete config.yaml.

    Raises UserError where it holds a run already and --resume is not given, or is given with other settings.
    """
    values = {key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(settings).items()}
    path = run / "config.yaml"
    if settings.resume:
        if not (run / "last.ckpt").exists():
            raise UserError(f"nothing to resume: {run} has no last.ckpt, since no epoch was completed; start again without --resume")
        before = {field.name: field.default for field in dataclasses.fields(settings)} | _read_config(path)  # of a version that knew less
        scheduled = isinstance(settings, TrainAttributes) or getattr(settings, "schedule", "") == "cosine"
        may_change = MAY_CHANGE - STEPS if scheduled else MAY_CHANGE  # the learning rate falls until the last step
        if changed := [key for key in values if key not in may_change and before.get(key) != values[key]]:
            key = changed[0]
            raise UserError(
                f"{run} was begun with {key} {before.get(key)}, not {values[key]}: resume it with --config {path}, or train anew with another --run"
            )
    elif (run / "last.ckpt").exists() or (run / "model.json").exists():
        raise UserError(f"{run} holds a run already: give --resume to go on with it, or another --run, or remove the folder")
    values |= {"resume": False, "run": str(run)}
    write_text(path, f"# fashioniq {command} --config {path}\n" + yaml.safe_dump(values, sort_keys=False))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"cannot resume: {path} is missing or damaged ({str(error).splitlines()[0]}): train anew with another --run") from error
    if not isinstance(values, dict):
        raise UserError(f"cannot resume: {path} is damaged, it holds no settings: train anew with another --run")
    return values


def _readable_checkpoint(path: Path) -> Path:
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and torch each have their own
        raise UserError(f"cannot resume: {path} is damaged ({str(error).splitlines()[0][:120]}): train anew with another --run") from error
    return path


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for each epoch of each seed."""
    return (seed * 100_003 + epoch) % 2**32


class Shuffled(Sampler[int]):
    """Another order every epoch, the same in every run of one seed, whatever came before; shared out where there are several devices."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch  # Lightning calls this at the start of every epoch

    def __len__(self) -> int:
        return self.count // rank_and_count()[1]

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch)))
        return iter(shared_out(order)[: len(self)].tolist())


def loaders(
    train: Dataset[Any], val: Dataset[Any], batch_size: int, seed: int, workers: int = 0, collate: Callable[[Any], Any] | None = None
) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Batches of both splits, training shuffled, and put together by `collate`; the last partial batch counts in both."""
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": workers, "persistent_workers": workers > 0}
    return DataLoader(train, sampler=Shuffled(len(train), seed), collate_fn=collate, **options), DataLoader(val, **options)  # type: ignore[arg-type]


def fit(
    module: pl.LightningModule,
    model: nn.Module,
    train: DataLoader[Any],
    val: DataLoader[Any],
    run: Path,
    settings: Training,
    facts: dict[str, Any],
    monitor: str,
) -> dict[str, float]:
    """Train, keep the best weights by `monitor` (more is better) in the run, load them into `model`; return the best epoch's figures."""
    if settings.accelerator == "gpu" and not torch.cuda.is_available():
        raise UserError("--accelerator gpu: torch finds no GPU here; use cpu or auto")
    if torch.cuda.is_available() and settings.accelerator != "cpu" and settings.devices > torch.cuda.device_count():
        raise UserError(f"--devices is {settings.devices}: torch finds {torch.cuda.device_count()} GPUs here")
    about = described(facts)
    best = KeepBest(run, model, about, monitor, settings.seed, settings.patience)
    last = ModelCheckpoint(run, filename="last", monitor=None, save_on_train_epoch_end=True, enable_version_counter=False)
    accelerator = ("gpu" if torch.cuda.is_available() else "cpu") if settings.accelerator == "auto" else settings.accelerator
    trainer = pl.Trainer(
        accelerator=accelerator,
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        strategy=settings.strategy,
        sync_batchnorm=accelerator == "gpu",  # torch has none for CPUs: there each process normalises by its own share of the batch
        precision=settings.precision,  # type: ignore[arg-type]
        max_epochs=settings.epochs,
        gradient_clip_val=5.0,
        callbacks=[best, EarlyStopping(monitor, patience=settings.patience, mode="max"), last],
        enable_progress_bar=sys.stderr.isatty(),  # a log file needs no moving bar
        logger=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,  # ours shares out the training examples; every device validates on all
        enable_model_summary=False,
    )
    resumed = _readable_checkpoint(run / "last.ckpt") if settings.resume else None
    try:
        trainer.fit(module, train, val, ckpt_path=resumed, weights_only=True)
    except OSError as error:
        raise cannot_write(run, error) from error
    except NotFiniteError as error:
        raise UserError(f"the training diverged ({error}): lower the learning rate") from error
    except SystemExit:  # Lightning's answer to Ctrl-C
        if not trainer.interrupted:
            raise
    if trainer.interrupted:
        raise UserError(
            f"interrupted: go on with --resume --run {run}" if (run / "last.ckpt").exists() else "interrupted before the first epoch was complete"
        )
    if not trainer.is_global_zero:
        raise SystemExit(0)  # the first process tells the rest
    load_weights(run, model)
    return dict(read_run(run, type(about)).metrics or {})  # processes that were forked leave nothing in this one


class KeepBest(pl.Callback):
    """After every epoch a row in metrics.csv, and where `monitor` has risen, the weights and description of the run."""

    def __init__(self, run: Path, model: nn.Module, about: Run, monitor: str, seed: int, patience: int) -> None:
        self.run, self.model, self.about, self.monitor, self.seed, self.patience = run, model, about, monitor, seed, patience
        self.best: dict[str, float] = {}
        self._losses: list[Tensor] = []
        self._loss = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for stopping in trainer.early_stopping_callbacks:  # a checkpoint brings the old patience, and forgets that it had run out
            stopping.patience = self.patience
            trainer.should_stop = trainer.should_stop or stopping.wait_count >= self.patience

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx == 0:  # here, since what an epoch draws before its first batch differs when it is resumed
            pl.seed_everything(epoch_seed(self.seed, trainer.current_epoch), verbose=False)
            self._losses = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._losses.append(outputs["loss"].detach())

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._loss = mean_over_processes(torch.stack(self._losses).mean()).item()
        if not math.isfinite(self._loss):
            raise UserError(f"the training diverged in epoch {trainer.current_epoch}, its loss is not finite: lower the learning rate")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figures = {"epoch": float(trainer.current_epoch), "train_loss": self._loss}
        figures |= {name: value.item() for name, value in trainer.callback_metrics.items() if name.startswith("val_")}
        better = not self.best or figures[self.monitor] > self.best[self.monitor]
        self.best = figures if better else self.best
        if not trainer.is_global_zero:
            return
        _append_row(self.run / "metrics.csv", figures)
        told = "  ".join(f"{name} {value:.4g}" for name, value in figures.items() if name != "epoch")
        pl_module.print(f"epoch {trainer.current_epoch}  {told}", flush=True)
        if better:
            save_model(self.run, self.model, msgspec.structs.replace(self.about, metrics=figures))


def _append_row(path: Path, figures: dict[str, float]) -> None:
    rows = []
    if path.exists() and figures["epoch"] > 0:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if float(row["epoch"]) < figures["epoch"]]  # a killed epoch is told once
    text = io.StringIO()
    writer = csv.DictWriter(text, list(figures), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*rows, figures])
    write_text(path, text.getvalue())

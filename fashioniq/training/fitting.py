"""Shared parts of all trainings: run folder, example order, best weights, resuming and early stopping."""

import csv
import dataclasses
import io
import math
import os
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

from fashioniq.categories import canonical
from fashioniq.config import (
    TrainAttributes,
    TrainCaptioner,
    TrainChatsearcher,
    TrainComposer,
    TrainGenerator,
    Training,
    TrainRetriever,
)
from fashioniq.data.images import UnreadableImage
from fashioniq.data.words import Vocabulary
from fashioniq.features.store import FeatureStore
from fashioniq.files import (
    UserError,
    cannot_write,
    read_yaml,
    reading,
    refuse_special,
    remove_leftovers,
    why,
    write_text,
)
from fashioniq.loop.exact import NotFiniteError
from fashioniq.provenance import Provenance, provenance, seconds
from fashioniq.runs import (
    ChatSearcherRun,
    DialogEncoderRun,
    GeneratorRun,
    PredictorRun,
    Run,
    described,
    read_run,
    write_run,
)
from fashioniq.runs.weights import load_weights, save_model
from fashioniq.training.folder import command_of
from fashioniq.training.nodes import Peers, ReadByFirst, launched_rank
from fashioniq.training.processes import mean_over_processes, rank_and_count, shared_out

LOADED = 600  # seconds for a batch from the worker processes, which read pictures from a slow disk
# options that may differ when a run is resumed
MAY_CHANGE = {"resume", "epochs", "patience", "devices", "num_nodes", "device", "run"}
STEPS = {"epochs", "devices", "num_nodes"}  # options that change the number of steps
_MADE = "# fashioniq "  # the beginning of every config.yaml
BATCH = {"batch_size", "devices", "num_nodes"}  # options whose product is the number of examples per step


def begin_run(run: Path, settings: Training) -> bool:
    """Create the folder of a run with its complete config.yaml, and return whether this process may write there.

    Of processes that train together, that is the first. With --resume, `fit` updates config.yaml after the
    checkpoint has been loaded. Raises UserError if the folder already has a run and --resume is not given, if
    --resume is given with other settings or damaged files, or if the variables of the launcher do not match.
    """
    is_first = launched_rank(settings.devices, settings.num_nodes) == 0
    if not is_first and not run.exists():
        return False  # it is on another machine
    values = _plain(settings)
    path = run / "config.yaml"
    if is_first:
        remove_leftovers(run)
    if settings.resume:
        if not (run / "last.ckpt").exists():
            raise UserError(
                f"nothing to resume: {run} has no last.ckpt, so no epoch was completed; "
                f"start again without --resume"
            )
        now, before = _flat(values), _flat(_read_config(path))
        scheduled = (
            isinstance(settings, TrainAttributes | TrainGenerator | TrainChatsearcher)
            or getattr(settings, "schedule", "") == "cosine"
        )
        may_change = MAY_CHANGE - STEPS if scheduled else MAY_CHANGE  # the schedule depends on the last step
        if _whole_batch(now) == _whole_batch(before):
            may_change = may_change | BATCH
        if changed := [key for key in now if key not in may_change and before.get(key) != now[key]]:
            key = changed[0]
            raise UserError(
                f"{run} was started with {key} {before.get(key)}, not {now[key]}; resume it with "
                f"--config {path}, or start another run with --run"
            )
        _check_checkpoint(run / "last.ckpt")
        if (run / "metrics.csv").exists() and not _rows_before(run / "metrics.csv", math.inf):
            raise UserError(
                f"cannot resume: {run / 'metrics.csv'} has no epoch; start another run with --run"
            )
        return is_first
    has_model = (run / "model.json").exists() and not _died_in_first_epoch(run)
    if (run / "last.ckpt").exists() or has_model:
        raise UserError(
            f"{run} already has a run; continue it with --resume, choose another --run, or remove the folder"
        )
    if is_first:
        refuse_foreign(run)
        write_config(run, settings)
    return is_first


def refuse_foreign(run: Path) -> None:
    """Raise UserError if a folder has files of the same names as a run, of something else."""
    config, figures = run / "config.yaml", run / "metrics.csv"
    first = ""
    if config.is_file():
        with reading(config, "configuration", "give another --run"), open(config, errors="replace") as file:
            first = file.readline(len(_MADE))
    if first != _MADE and (
        found := next((path for path in (config, figures) if os.path.lexists(path)), None)
    ):
        raise UserError(
            f"expected a new folder or a run in {run}, found a {found.name} of something else; give another --run"
        )


def _whole_batch(options: dict[str, Any]) -> float:
    """Examples per step of all processes; NaN if an option is not a number."""
    numbers = [options.get(key) for key in BATCH]
    return math.prod(one if isinstance(one, int) else math.nan for one in numbers)


def _died_in_first_epoch(run: Path) -> bool:
    """Whether a training was killed after its first weights and before its first checkpoint: it begins again."""
    checkpoint, figures = run / "last.ckpt", run / "metrics.csv"
    return figures.exists() and not checkpoint.exists() and len(_rows_before(figures, math.inf)) == 1


def model_facts(
    kind: str,
    settings: TrainCaptioner | TrainRetriever | TrainComposer,
    store: FeatureStore,
    vocabulary: Vocabulary,
    sizes: dict[str, Any],
    *,
    data: dict[str, Any],
) -> dict[str, Any]:
    """Return the first keys of model.json; `data` is from `describe_data`."""
    return {
        "kind": kind,
        "category": canonical(settings.category),
        "attrs": settings.attrs,
        "model": settings.model.kind,
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": data,
    }


def write_config(run: Path, settings: Training) -> None:
    """Write config.yaml of a run, with all options of its command."""
    values, path = _plain(settings) | {"run": str(run)}, run / "config.yaml"
    values |= {"resume": False} if "resume" in values else {}
    write_text(
        path,
        f"{_MADE}{command_of(settings)} --config {path}\n" + yaml.safe_dump(values, sort_keys=False),
    )


def _plain(settings: Training) -> dict[str, Any]:
    values = dataclasses.asdict(settings)
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Flatten options to full names, such as model.width."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= (
            {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        )
    return flat


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.yaml of a run."""
    try:
        values = read_yaml(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot resume: {path} is missing or damaged ({why(error)}); start another run with --run"
        ) from error
    if not isinstance(values, dict):
        raise UserError(
            f"cannot resume: {path} is damaged (it has no settings); start another run with --run"
        )
    return values


def _check_checkpoint(path: Path) -> None:
    refuse_special(path)
    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zipfile and torch raise different exceptions
        raise UserError(
            f"cannot resume: {path} is damaged ({why(error)}); start another run with --run"
        ) from error


def epoch_seed(seed: int, epoch: int) -> int:
    """Derive the seed of an epoch from the seed of the run."""
    return (seed * 100_003 + epoch) % 2**32


class Shuffled(Sampler[int]):
    """Sampler whose order depends on the seed and the epoch only; each rank takes its share."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch  # Lightning calls this at the start of every epoch

    def __len__(self) -> int:
        return self.count // rank_and_count()[1]

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(
            self.count, generator=torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        )
        return iter(shared_out(order)[: len(self)].tolist())


def loaders(
    train: Dataset[Any],
    val: Dataset[Any],
    batch_size: int,
    seed: int,
    workers: int = 0,
    collate: Callable[[Any], Any] | None = None,
) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Data loaders of both splits: train is shuffled and uses `collate`. Partial last batches are kept."""
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "num_workers": workers,
        "persistent_workers": workers > 0,
        "timeout": LOADED if workers else 0,
    }
    shuffled = Shuffled(len(train), seed)  # type: ignore[arg-type]
    return DataLoader(train, sampler=shuffled, collate_fn=collate, **options), DataLoader(val, **options)


def accelerator_of(device: str) -> str:
    """Return Lightning's accelerator for --device; "auto" is a GPU if available.

    Raises UserError for cuda without a GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device is cuda, but torch finds no GPU; use cpu or auto")
    return "gpu" if device != "cpu" and torch.cuda.is_available() else "cpu"


def fit(
    module: pl.LightningModule,
    model: nn.Module,
    batches: tuple[DataLoader[Any], DataLoader[Any]],
    *,
    run: Path,
    settings: Training,
    facts: dict[str, Any],
    monitor: str,
    strategy: str = "auto",
    halfway: bool = False,
) -> dict[str, float]:
    """Train on the loaders of train and val, and save the best weights by `monitor` (higher is better) in
    `run`.

    Loads the best weights into `model`, and returns the metrics of the best epoch. `strategy` is
    Lightning's, for several devices. With `halfway`, weights are validated and saved halfway between those that
    `model` has now and the trained ones (see `Halfway`).
    """
    accelerator = accelerator_of(settings.device)
    if accelerator == "gpu" and settings.devices > torch.cuda.device_count():
        raise UserError(f"--devices is {settings.devices}: torch finds {torch.cuda.device_count()} GPUs here")
    about = described(facts)
    best = KeepBest(run, model, about, monitor=monitor, seed=settings.seed, patience=settings.patience)
    peers = Peers(run, _shared_facts(settings, about))
    resumption = Resumption(run, settings) if settings.resume else None
    last = ModelCheckpoint(
        run, filename="last", monitor=None, save_on_train_epoch_end=True, enable_version_counter=False
    )
    trainer = pl.Trainer(
        accelerator=accelerator,
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        strategy=strategy,
        # torch supports it on GPUs only; on CPUs, each rank normalizes its own share
        sync_batchnorm=accelerator == "gpu",
        precision=settings.precision,  # type: ignore[arg-type]
        max_epochs=settings.epochs,
        gradient_clip_val=5.0,
        callbacks=[
            peers,
            best,
            *([Halfway(model)] if halfway else []),  # after `best`, which saves its weights
            EarlyStopping(monitor, patience=settings.patience, mode="max"),
            last,
            *([resumption] if resumption else []),
        ],
        enable_progress_bar=sys.stderr.isatty(),  # no progress bar in log files
        logger=False,
        num_sanity_val_steps=0,
        plugins=[ReadByFirst()],
        use_distributed_sampler=False,  # Shuffled splits the training examples; every rank validates on all
        enable_model_summary=False,
    )
    if settings.num_nodes > 1:
        peers.meet(trainer)
    _fit_or_explain(trainer, module, batches, peers, resumption=resumption)
    if not trainer.is_global_zero:
        raise SystemExit(0)  # the first process prints the results
    load_weights(run, model)
    told = read_run(run, type(about))  # processes that were forked leave nothing in this one
    figures = dict(told.metrics or {})
    if missing := sorted(best.best.keys() - figures.keys()):
        raise UserError(f"{run / 'model.json'} lacks {missing[0]}; start another run with --run")
    if best.trained:
        told.provenance = best.provenance()  # of the whole training, not until its best epoch
        write_run(run, told)
    return figures


def _shared_facts(settings: Training, about: Run) -> dict[str, Any]:
    """What must be the same in all processes: options that are no paths, sizes, features and data."""
    fields = [one.name for one in dataclasses.fields(settings) if "Path" not in str(one.type)]
    options = {name: getattr(settings, name) for name in fields}
    parts = {name: str(getattr(about, name, None)) for name in ("sizes", "features")}
    return options | parts | {"data": fingerprints(about)}


def _fit_or_explain(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    batches: tuple[DataLoader[Any], DataLoader[Any]],
    peers: Peers,
    *,
    resumption: "Resumption | None",
) -> None:
    """Train until the last epoch.

    Raises UserError if the training is interrupted, diverges or cannot be saved, if another process is lost, or
    if the checkpoint to resume from is of another training.
    """
    run = peers.run
    resumed = run / "last.ckpt" if resumption else None
    try:
        trainer.fit(module, *batches, ckpt_path=resumed, weights_only=True)
    except UnreadableImage as error:  # in a worker process, the traceback precedes the reason
        reason = str(error).strip().rpartition("UnreadableImage: ")[-1]
        raise UserError(
            f"a picture became unreadable during training, {reason}; restore it and continue with --resume"
        ) from error
    except OSError as error:
        raise cannot_write(run, error) from error
    except NotFiniteError as error:
        raise UserError(f"training diverged ({error}); lower the learning rate") from error
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        peers.explain(error)
        if resumption is None or resumption.loaded:
            raise
        raise UserError(
            f"cannot resume: {resumed} is not of this training ({why(error)}); start another run with --run"
        ) from error
    except SystemExit:  # Lightning exits this way after Ctrl-C
        if not trainer.interrupted:
            raise
    if trainer.interrupted:
        raise UserError(
            f"interrupted; continue with --resume --run {run}"
            if (run / "last.ckpt").exists()
            else "interrupted before the first epoch was complete"
        )


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
    """After every epoch a row in metrics.csv; where `monitor` has risen, the weights and description of the
    run.
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
        return {"best": self.best, "seconds": self._spent()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]
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
        self._loss = mean_over_processes(torch.stack(self._losses).mean()).item()
        if not math.isfinite(self._loss):
            raise UserError(
                f"training diverged in epoch {trainer.current_epoch}: its loss is not "
                f"finite; lower the learning rate"
            )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        figures = {"epoch": float(trainer.current_epoch), "train_loss": self._loss}
        figures |= {
            name: value.item() for name, value in trainer.callback_metrics.items() if name.startswith("val_")
        }
        better = not self.best or figures[self.monitor] > self.best[self.monitor]
        self.best = figures if better else self.best
        if not trainer.is_global_zero:
            return
        self.trained = True
        _append_row(self.run / "metrics.csv", figures)
        summary = "  ".join(f"{name} {value:.4g}" for name, value in figures.items() if name != "epoch")
        pl_module.print(f"epoch {trainer.current_epoch}  {summary}", flush=True)
        if better:
            made = msgspec.structs.replace(self.about, metrics=figures, provenance=self.provenance())
            save_model(self.run, self.model, made)


class Halfway(pl.Callback):
    """Validates and saves the means of the weights before the training and the trained ones; trains the latter.

    A model that was fitted to people's captions and is then trained with simulated users learns from these, and forgets
    some of the captions. Halfway it keeps most of both (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR
    2022, where weights of 0.5 are recommended). `model` has the weights before the training, also if this is resumed.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._before = [weight.detach().clone() for weight in model.parameters()]
        self._trained: list[Tensor] = []

    @torch.no_grad()
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._trained = [weight.detach().clone() for weight in self.model.parameters()]
        for weight, before in zip(self.model.parameters(), self._before, strict=True):
            weight.lerp_(before.to(weight), 0.5)

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for weight, trained in zip(self.model.parameters(), self._trained, strict=True):
            weight.copy_(trained)


def fingerprints(about: Run) -> dict[str, str]:
    """What identifies the data of a run: the fingerprints of its categories, or the checksums of its files."""
    if isinstance(about, PredictorRun | GeneratorRun):
        return dict((about.data or {}).get("fingerprints", {}))
    if isinstance(about, DialogEncoderRun | ChatSearcherRun):
        return about.data.checksums
    return {about.category: about.data.fingerprint}


def _rows_before(path: Path, epoch: float) -> list[dict[str, str]]:
    """Rows of a metrics.csv of earlier epochs. Raises UserError if it is damaged."""
    refuse_special(path)
    if not path.exists() or epoch == 0:
        return []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        for value in (value for row in rows for value in row.values() if value):
            float(value)
        return [row for row in rows if float(row["epoch"]) < epoch]
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise UserError(
            f"cannot resume: {path} is damaged ({why(error)}); correct it, or start another run with --run"
        ) from error


def _append_row(path: Path, figures: dict[str, float]) -> None:
    rows = _rows_before(path, figures["epoch"])  # without those of epochs that are repeated
    text = io.StringIO()
    writer = csv.DictWriter(text, list(figures), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*rows, figures])
    write_text(path, text.getvalue())

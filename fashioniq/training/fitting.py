"""Shared parts of all trainings: run folder, example order, best weights, resuming and early stopping."""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from fashioniq.categories import canonical
from fashioniq.config import (
    TrainCaptioner,
    TrainComposer,
    Training,
    TrainRetriever,
)
from fashioniq.data.images import UnreadableImage
from fashioniq.data.words import Vocabulary
from fashioniq.features.store import FeatureStore
from fashioniq.files import (
    UserError,
    cannot_write,
    why,
)
from fashioniq.loop.exact import NotFiniteError
from fashioniq.runs import (
    Run,
    read_run,
    write_run,
)
from fashioniq.runs.checks import described, fingerprints
from fashioniq.runs.weights import load_weights
from fashioniq.training.callbacks import Halfway, KeepBest, Resumption, epoch_seed
from fashioniq.training.processes import Peers, RunCheckpoints, environment, rank_and_count, shared_out

LOADED = 600  # seconds for a batch from the worker processes, which read pictures from a slow disk


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
    halfway: Sequence[nn.Parameter] = (),
    every: int = 1,
) -> dict[str, float]:
    """Train on the loaders of train and val, and save the best weights by `monitor` (higher is better) in
    `run`.

    Loads the best weights into `model`, and returns the metrics of the best epoch. `strategy` is
    Lightning's, for several devices. The weights of the model in `halfway` are validated and saved halfway between
    their values now and the trained ones (see `Halfway`). One epoch of `every` is validated, and can be the best one.
    """
    every = min(every, settings.epochs)
    patience = math.ceil(settings.patience / every)
    accelerator = accelerator_of(settings.device)
    if accelerator == "gpu" and settings.devices > torch.cuda.device_count():
        raise UserError(f"--devices is {settings.devices}: torch finds {torch.cuda.device_count()} GPUs here")
    about = described(facts)
    best = KeepBest(run, model, about, monitor=monitor, seed=settings.seed, patience=patience)
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
        check_val_every_n_epoch=every,
        gradient_clip_val=5.0,
        callbacks=[
            peers,
            best,
            *([Halfway(halfway)] if halfway else []),  # after `best`, which saves its weights
            EarlyStopping(monitor, patience=patience, mode="max"),
            last,
            *([resumption] if resumption else []),
        ],
        enable_progress_bar=sys.stderr.isatty(),  # no progress bar in log files
        logger=False,
        num_sanity_val_steps=0,
        plugins=[RunCheckpoints(), *environment(settings.devices, settings.num_nodes)],
        # where Lightning looks for checkpoints of a job of SLURM: those of other projects are in the working directory
        default_root_dir=run,
        use_distributed_sampler=False,  # Shuffled splits the training examples; every rank validates on all
        enable_model_summary=False,
    )
    if settings.num_nodes > 1:
        peers.meet(trainer)
    _fit_or_explain(trainer, module, batches, peers, resumption=resumption)
    if not trainer.is_global_zero:
        raise SystemExit(0)  # the first process prints the results
    # resumed with fewer epochs than it has trained, none of them validated
    if not (run / "model.json").exists():
        raise UserError(
            f"no epoch of {run} was validated in --epochs {settings.epochs}; continue with --resume and more --epochs"
        )
    load_weights(run, model)
    told = read_run(run, type(about))  # processes that were forked leave nothing in this one
    figures = dict(told.metrics or {})
    if missing := sorted(best.best.keys() - figures.keys()):
        raise UserError(f"{run / 'model.json'} lacks {missing[0]}; start another run with --run")
    if best.trained:
        # of the whole training, not until its best epoch; the data may have been moved since that
        whole = msgspec.structs.replace(told, provenance=best.provenance(), data=about.data)
        write_run(run, whole)
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

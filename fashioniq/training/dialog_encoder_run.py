"""Training run of a text encoder of dialogs."""

from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.config import TrainDialogEncoder
from fashioniq.data.catalog_files import split_file
from fashioniq.data.dialogues import Dialogue, in_search_space, names_in, read_dialogues
from fashioniq.data.words import Vocabulary
from fashioniq.encoders.protocol import Encoder
from fashioniq.features.store import FeatureStore, features_folder
from fashioniq.features.stores import check_encoder
from fashioniq.files import UserError, checksum
from fashioniq.models.dialog_encoder import DialogEncoder, TextHalf, TextTower
from fashioniq.runs.trained import trainable
from fashioniq.training.dialog_encoder import LOSSES, DialogEncoderTraining
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of

LEARNING_RATES = {True: 1e-3, False: 5e-5}  # transformer from scratch; CLIP and BLIP as in ChatIR


@alone
def train_dialog_encoder(settings: TrainDialogEncoder) -> str:
    """Train the text encoder on the dialogs whose images have features; return a one-line summary.

    Raises UserError if a file is missing or does not match, or if options exclude each other.
    """
    store = FeatureStore(_path(settings, "features"))
    paths = {"train": _path(settings, "dialogues"), "val": _path(settings, "val_dialogues")}
    dialogues, data = _read_dialogues(paths, store)
    if settings.mask != "none" and any(dialogue.alone for dialogue in dialogues["train"]):
        raise UserError(
            f"the rounds of {paths['train']} are complete queries without a caption to mask; give --mask none"
        )
    items = {
        split: store.items(list(dict.fromkeys(dialogue.image for dialogue in some)))
        for split, some in dialogues.items()
    }
    folder = folder_of(settings)
    pl.seed_everything(settings.seed, verbose=False)
    model, facts = _model(settings, store, dialogues)
    begin_run(folder, settings)
    facts |= {
        "kind": "dialog encoder",
        "encoder": settings.encoder,
        "features": store.identity,
        "joined": settings.separator,
        "loss": settings.loss,
        "mask": settings.mask,
        "data": data,
    }
    module = DialogEncoderTraining(
        model,
        dialogues,
        items,
        losses=LOSSES[settings.loss],
        mask=settings.mask,
        mask_share=settings.mask_share,
        separator=settings.separator,
        micro_batch=settings.micro_batch,
        learning_rate=settings.learning_rate or LEARNING_RATES[facts["model"] == "transformer"],
    )
    of_train, of_val = (TensorDataset(torch.arange(len(dialogues[split]))) for split in ("train", "val"))
    batches = loaders(of_train, of_val, settings.batch_size, settings.seed)
    best = fit(module, model, batches, run=folder, settings=settings, facts=facts, monitor="val_score")
    measured = ", ".join(f"{best[f'val_R@10_{last}']:.1f} after round {last}" for last in module.val_rounds)
    return (
        f"dialog encoder of epoch {best['epoch']:.0f} in {folder}: R@10 {measured}, among the "
        f"{len(items['val'])} images of val"
    )


def _read_dialogues(
    paths: dict[str, Path], store: FeatureStore
) -> tuple[dict[str, list[Dialogue]], dict[str, dict[str, Any]]]:
    """Dialogs with features of each split, and `data` of model.json."""
    read = {split: read_dialogues(path, repeated=True) for split, path in paths.items()}
    dialogues = {split: _with_features(some, store, paths[split]) for split, some in read.items()}
    return dialogues, {
        "dialogues": {split: str(path) for split, path in paths.items()},
        "checksums": {split: checksum(path) for split, path in paths.items()},
        "coverage": {split: len(some) / len(read[split]) for split, some in dialogues.items()},
    }


def _model(
    settings: TrainDialogEncoder, store: FeatureStore, dialogues: dict[str, list[Dialogue]]
) -> tuple[TextTower, dict[str, Any]]:
    """Model to train, with the words of the dialogs of train, and its metadata.

    Raises UserError if the features are not those of the given CLIP or BLIP.
    """
    if settings.encoder == "transformer":
        vocabulary = Vocabulary.of(
            (text for dialogue in dialogues["train"] for text in dialogue.rounds), settings.min_count
        )
        sizes = settings.model.sizes(features=store.size)
        model = DialogEncoder(settings.model, vocabulary=vocabulary, features=store.size)
        return model, {"model": "transformer", "sizes": sizes, "words": vocabulary.words}
    encoder = trainable(settings.encoder)
    check_encoder(store, settings.encoder, cast(Encoder, encoder))
    return TextHalf(encoder), {"model": store.facts.encoder, "sizes": {}, "words": []}


def _path(settings: TrainDialogEncoder, option: str) -> Path:
    """Value of an option, by default the file or folder of the category in --data."""
    if given := getattr(settings, option):
        return given
    if not settings.category:
        raise UserError(
            f"expected --{option.replace('_', '-')} or --category, found neither; give one of them"
        )
    if option == "features":
        return features_folder(settings.data, settings.category, None)
    split = "val" if option == "val_dialogues" else "train"
    return split_file(settings.data, "dialogues", settings.category, split)


def _with_features(dialogues: list[Dialogue], store: FeatureStore, path: Path) -> list[Dialogue]:
    """Dialogs whose image has features; prints their number. Raises UserError if there are fewer than two."""
    found = [
        dialogue for dialogue, name in zip(dialogues, names_in(dialogues, store.ids), strict=True) if name
    ]
    if len(found) < 2:
        raise UserError(
            f"expected features for at least two dialogs of {path}, found {len(found)} in {store.root}; "
            "give the features of their images with --features"
        )
    print(f"{path}: {len(found)} of {len(dialogues)} dialogs have image features")
    return in_search_space(found, store.ids, path, repeated=True)

"""`fashioniq train-dialog-encoder`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.categories import file_name
from fashioniq.commands.chat_encoders import load_pretrained
from fashioniq.commands.common import features_folder, run_folder, sizes_of
from fashioniq.config import TrainDialogEncoder
from fashioniq.data.dialogues import Dialogue, in_search_space, names_in, read_dialogues
from fashioniq.data.features import FeatureStore
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, checksum
from fashioniq.models.dialog_encoder import DialogEncoder, TextHalf, TextTower
from fashioniq.training.dialog_encoder import LOSSES, DialogEncoderTraining
from fashioniq.training.fitting import begin_run, fit, loaders

LEARNING_RATES = {True: 1e-3, False: 5e-5}  # from scratch, and of CLIP and BLIP as ChatIR has it


def run(settings: TrainDialogEncoder) -> None:
    """Train the text encoder on the dialogs whose images have features, and leave it in the run's folder."""
    if (devices := settings.devices * settings.num_nodes) > 1:
        raise UserError(f"--devices times --num-nodes is {devices}: only the images on one device are each other's negatives: leave it out")
    store = FeatureStore(_place(settings, "features"))
    paths = {"train": _place(settings, "dialogues"), "val": _place(settings, "val_dialogues")}
    read = {split: read_dialogues(path) for split, path in paths.items()}
    dialogues = {split: _with_features(some, store, paths[split]) for split, some in read.items()}
    if settings.mask != "none" and any(dialogue.alone for dialogue in dialogues["train"]):
        raise UserError(f"the rounds of {paths['train']} are whole queries, which have no {settings.mask} to mask: give --mask none")
    items = {split: store.items([dialogue.image for dialogue in some]) for split, some in dialogues.items()}
    folder = settings.run or (run_folder(None, "dialog-encoder", settings.category, False) if settings.category else Path("runs/dialog-encoder"))
    pl.seed_everything(settings.seed, verbose=False)
    model, facts = _model(settings, store, dialogues["train"])
    begin_run(folder, "train-dialog-encoder", settings)
    facts |= {
        "kind": "dialog encoder",
        "encoder": settings.encoder,
        "features": store.identity,
        "joined": settings.joined,
        "loss": settings.loss,
        "mask": settings.mask,
        "data": {
            "dialogues": {split: str(path) for split, path in paths.items()},
            "checksums": {split: checksum(path) for split, path in paths.items()},
            "coverage": {split: len(some) / len(read[split]) for split, some in dialogues.items()},
        },
    }
    module = DialogEncoderTraining(
        model,
        dialogues,
        items,
        LOSSES[settings.loss],
        settings.mask,
        settings.mask_share,
        settings.joined,
        settings.chunk,
        settings.learning_rate or LEARNING_RATES[facts["model"] == "transformer"],
    )
    of_train, of_val = (TensorDataset(torch.arange(len(dialogues[split]))) for split in ("train", "val"))
    batches = loaders(of_train, of_val, settings.batch_size, settings.seed)
    best = fit(module, model, *batches, folder, settings, facts, "val_score")
    told = ", ".join(f"{best[f'val_R@10_{last}']:.1f} after round {last}" for last in module.val_rounds)
    print(f"dialog encoder of epoch {best['epoch']:.0f} in {folder}: R@10 {told}, among the {len(items['val'])} images of val")


def _model(settings: TrainDialogEncoder, store: FeatureStore, dialogues: list[Dialogue]) -> tuple[TextTower, dict[str, Any]]:
    """What is to be trained, and the facts that rebuild it. Raises UserError where CLIP or BLIP did not make the features."""
    if settings.encoder == "transformer":
        vocabulary = Vocabulary.of((text for dialogue in dialogues for text in dialogue.rounds), settings.at_least)
        sizes = sizes_of(DialogEncoder, asdict(settings) | {"features": store.size})
        return DialogEncoder(vocabulary, **sizes), {"model": "transformer", "sizes": sizes, "words": vocabulary.words}
    encoder = load_pretrained(settings.encoder)
    if (store.facts.encoder, store.facts.weights) != (encoder.kind, encoder.fingerprint()):
        raise UserError(
            f"{store.root} holds vectors of {store.facts.encoder}, not of {settings.encoder}'s own images: "
            "give the store that `fashioniq eval-chatir` fills with that --encoder"
        )
    return TextHalf(encoder), {"model": encoder.kind, "sizes": {}, "words": []}


def _place(settings: TrainDialogEncoder, option: str) -> Path:
    """A file or folder as given, or where the category's lies in the data."""
    if given := getattr(settings, option):
        return given
    if not settings.category:
        raise UserError(f"give --{option.replace('_', '-')}, or a --category whose own is in --data")
    if option == "features":
        return features_folder(settings.data, settings.category, None)
    return settings.data / "dialogues" / f"{file_name(settings.category)}.{'val' if option == 'val_dialogues' else 'train'}.json"


def _with_features(dialogues: list[Dialogue], store: FeatureStore, path: Path) -> list[Dialogue]:
    """The dialogs whose image has features; how many is told. Raises UserError where fewer than two have."""
    there = [dialogue for dialogue, name in zip(dialogues, names_in(dialogues, store.ids), strict=True) if name]
    if len(there) < 2:
        raise UserError(f"{store.root} has features of the images of {len(there)} of the dialogs of {path}: at least two are needed")
    print(f"{path}: {len(there)} of {len(dialogues)} dialogs have features of their image")
    return in_search_space(there, store.ids, path)

"""`fashioniq train-dialog-encoder`."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.categories import file_name
from fashioniq.config import TrainDialogEncoder
from fashioniq.data.dialogues import Dialogue, in_search_space, names_in, read_dialogues
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import run_folder
from fashioniq.features.store import FeatureStore, features_folder
from fashioniq.files import UserError, checksum
from fashioniq.models.dialog_encoder import DialogEncoder, TextHalf, TextTower
from fashioniq.trained import load_pretrained
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
        raise UserError(f"the rounds of {paths['train']} are complete queries without a caption to mask: give --mask none")
    items = {split: store.items([dialogue.image for dialogue in some]) for split, some in dialogues.items()}
    folder = settings.run or (run_folder(None, "dialog-encoder", settings.category, False) if settings.category else Path("runs/dialog-encoder"))
    pl.seed_everything(settings.seed, verbose=False)
    model, facts = _model(settings, store, dialogues["train"])
    begin_run(folder, "train-dialog-encoder", settings)
    facts |= {
        "kind": "dialog encoder",
        "encoder": settings.encoder,
        "features": store.identity,
        "joined": settings.separator,
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
    told = ", ".join(f"{best[f'val_R@10_{last}']:.1f} after round {last}" for last in module.val_rounds)
    print(f"dialog encoder of epoch {best['epoch']:.0f} in {folder}: R@10 {told}, among the {len(items['val'])} images of val")


def _model(settings: TrainDialogEncoder, store: FeatureStore, dialogues: list[Dialogue]) -> tuple[TextTower, dict[str, Any]]:
    """What is to be trained, and the facts that rebuild it. Raises UserError where CLIP or BLIP did not make the features."""
    if settings.encoder == "transformer":
        vocabulary = Vocabulary.of((text for dialogue in dialogues for text in dialogue.rounds), settings.min_count)
        sizes = settings.model.sizes(features=store.size)
        model = DialogEncoder(settings.model, vocabulary=vocabulary, features=store.size)
        return model, {"model": "transformer", "sizes": sizes, "words": vocabulary.words}
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

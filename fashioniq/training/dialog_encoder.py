"""Training of the image retriever F on partial dialogs, with frozen image features (ChatIR, Levy et al.
2023).

Each dialog is cut after a random round. Some lack their caption, so that the model does not rely on it
alone. All other images of a batch are negatives, also if several processes share it, or if the texts are
encoded in micro-batches.
"""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset

from fashioniq.config import TrainDialogEncoder
from fashioniq.data.catalog_files import split_file
from fashioniq.data.dialogues import (
    Dialogue,
    dialog_text,
    in_search_space,
    join_rounds,
    names_in,
    read_dialogues,
    separated,
)
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.encoders.protocol import Encoder
from fashioniq.features.store import FeatureStore, features_folder
from fashioniq.features.stores import check_encoder
from fashioniq.files import UserError, checksum
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.measures import percentile, recall_at
from fashioniq.models.dialog_encoder import DialogEncoder, TextHalf, TextTower
from fashioniq.runs.trained import trainable
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.losses import TurnLoss, contrastive, recall_surrogate
from fashioniq.training.processes import shared_out, whole_batch

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


LOSSES: dict[str, tuple[TurnLoss, ...]] = {
    "recall": (recall_surrogate,),
    "contrastive": (contrastive,),
    "both": (recall_surrogate, contrastive),
}
_DECAY, _LEAST_RATE = 0.93, 1e-6  # decay of the learning rate per epoch, and its minimum


def without_caption(rounds: Sequence[str]) -> list[str]:
    """Remove the caption from the rounds of a dialog, unless nothing else is left."""
    return [text for text in rounds[1:] if text] or list(rounds)


def partial_text(dialogue: Dialogue, mask: str, share: float, separator: str) -> str:
    """Text of a dialog up to a uniformly drawn round.

    Each part of the kind `mask`, such as the caption, each question or each token, is removed with probability `share`,
    unless nothing else is left (section 5, figure 7a).
    """
    last = random.randrange(len(dialogue.rounds))
    rounds = dialogue.rounds[: last + 1]
    if dialogue.alone or mask == "none":
        return dialog_text(dialogue, last, separator)
    if mask == "caption":
        return join_rounds(without_caption(rounds) if random.random() < share else rounds, separator)
    if mask == "token":
        texts = separated(rounds, separator)
        words = [[word for word in text.split() if random.random() >= share] for text in texts]
        return separator.join(" ".join(left) for left in words if left) or dialog_text(
            dialogue, last, separator
        )
    kept: list[str] = [rounds[0]]
    for said in rounds[1:]:
        masked = random.random() < share
        kept.append({"question": said.answer, "answer": said.question, "round": ""}[mask] if masked else said)
    return join_rounds([text for text in kept if text], separator)


def embed_in_micro_batches(model: TextTower, texts: Sequence[str], size: int, device: torch.device) -> Tensor:
    """Encode texts, B×D, in micro-batches that are recomputed in the backward pass (with the same dropout).

    Gradients equal those of the full batch, as in gradient caching (Gao et al. 2021). Texts of similar
    length share a micro-batch, for less padding.
    """
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    parts = [
        model.tokens([texts[place] for place in order[start : start + size]]).to(device)
        for start in range(0, len(texts), size)
    ]
    query_BD = torch.cat(
        [checkpoint(model, part, use_reentrant=False) for part in parts]
        if len(parts) > 1
        else [model(parts[0])]
    )
    return query_BD[torch.tensor(order).argsort().to(device)]


class DialogEncoderTraining(pl.LightningModule):
    """Lightning module for dialog encoders; batches are positions of dialogs in their split.

    `items` are the images of each split; dialogs refer to them by name.
    """

    def __init__(
        self,
        model: TextTower,
        dialogues: dict[str, list[Dialogue]],
        items: dict[str, Items],
        *,
        losses: Sequence[TurnLoss],
        mask: str,
        mask_share: float,
        separator: str,
        micro_batch: int,
        learning_rate: float,
    ) -> None:
        super().__init__()
        self.model, self.dialogues, self.losses = model, dialogues, losses
        self.separator, self.micro_batch, self.learning_rate = separator, micro_batch, learning_rate
        self._text = partial(partial_text, mask=mask, share=mask_share, separator=separator)
        self._items, self._target = items, {}
        for split, some in dialogues.items():
            position_of = items[split].positions
            self._target[split] = torch.tensor([position_of[dialogue.image] for dialogue in some])
        last = len(dialogues["val"][0].rounds) - 1
        # validation on all rounds would take longer than training
        self.val_rounds = sorted({0, last // 2, last})
        self._ranks: list[Tensor] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        rows = whole_batch(batch[0]).tolist()
        # each process draws all texts, so that the draws do not depend on the number of processes
        texts = shared_out([self._text(self.dialogues["train"][row]) for row in rows])
        query_BTD = embed_in_micro_batches(self.model, texts, self.micro_batch, self.device).unsqueeze(1)
        target_N = self._target["train"][rows]
        vectors_ND = self.model.embed_images(self._items["train"].features_ND[target_N].to(self.device))
        same_BN = (shared_out(target_N).unsqueeze(1) == target_N).to(self.device)
        return torch.stack([loss(query_BTD, vectors_ND, same_BN) for loss in self.losses]).sum()

    def on_validation_epoch_start(self) -> None:
        items = self._items["val"].to(self.device)
        self._gallery, self._ranks = Gallery(items, items.embedded(self.model.embed_images)), []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        rows = batch[0].tolist()
        target_B = self._target["val"][rows].to(self.device)
        texts = (
            [dialog_text(self.dialogues["val"][row], last, self.separator) for row in rows]
            for last in self.val_rounds
        )
        rank_BT = [
            self._gallery.rank(
                embed_in_micro_batches(self.model, some, self.micro_batch, self.device), target_B
            )
            for some in texts
        ]
        self._ranks.append(torch.stack(rank_BT, 1))

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for place, last in enumerate(self.val_rounds):
            self.log(f"val_R@10_{last}", recall_at(rank_BT[:, place], 10))
        # P breaks ties of R@10
        self.log(
            "val_score",
            recall_at(rank_BT.flatten(), 10) + percentile(rank_BT.flatten(), len(self._gallery)) / 1000,
        )

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            (weight for weight in self.model.parameters() if weight.requires_grad), lr=self.learning_rate
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda epoch: max(_DECAY**epoch, _LEAST_RATE / self.learning_rate)
        )
        return {"optimizer": optimizer, "lr_scheduler": schedule}

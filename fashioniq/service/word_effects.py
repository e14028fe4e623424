"""What each word of a request did: how many places it moved a product up or down."""

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from fashioniq.data.words import tokenize
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.query import Query

MOST = 8  # words of a request that are left out in turn


def effects(
    before: Dialog, step: DialogStep, words: Sequence[str], ids: Sequence[str]
) -> list[dict[str, int]]:
    """For each product, the places in the whole gallery that it would lose if a word had not been said.

    `before` is the dialog before the step, `words` are words of it that the model knows.
    """
    gallery = before.system.gallery
    item_K = torch.tensor([gallery.items.positions[name] for name in ids], device=gallery.vectors_ND.device)

    def rank_K(live: Dialog) -> Tensor:
        return gallery.rank(Query.joined([live.query] * len(item_K)), item_K)

    rank_with_K = rank_K(before.after(step))
    moved = [(rank_K(before.after(_without(before, step, word))) - rank_with_K).tolist() for word in words]
    return [dict(zip(words, places, strict=True)) for places in zip(*moved, strict=True)] or [{} for _ in ids]


def _without(before: Dialog, step: DialogStep, word: str) -> DialogStep:
    """A step without a word or phrase, and without the parts of which nothing else is known."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    says = [" ".join(tokenize(pattern.sub(" ", part))) for part in step.says]
    says = [part for part in says if before.system.read(part).known]
    return step._replace(says=tuple(says), text=pattern.sub(" ", step.text))

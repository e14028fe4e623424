"""What each word of a request did: how many places it moved a product up or down."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fashioniq.data.words import tokenize
from fashioniq.loop.live import Live, Step
from fashioniq.loop.query import Query

MOST = 8  # words of a request that are left out in turn


def effects(before: Live, step: Step, words: Sequence[str], ids: Sequence[str]) -> list[dict[str, int]]:
    """For each product, the places in the whole gallery that it would lose if a word had not been said.

    `before` is the dialog before the step, `words` are words of it that the model knows.
    """
    gallery = before.system.gallery
    item_K = torch.tensor([gallery.items.positions[name] for name in ids], device=gallery.vectors_ND.device)

    def rank_K(live: Live) -> Tensor:
        return gallery.rank(Query.joined([live.query] * len(item_K)), item_K)

    rank_with_K, moved = rank_K(before.after(step)), []
    for word in words:
        rest = [" ".join(one for one in tokenize(clause) if one != word) for clause in step.says]
        says = tuple(clause for clause in rest if before.system.read(clause).understood)
        moved.append((rank_K(before.after(step._replace(says=says))) - rank_with_K).tolist())
    return [dict(zip(words, places, strict=True)) for places in zip(*moved, strict=True)] or [{} for _ in ids]

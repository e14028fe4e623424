"""Reference implementation in the style of public code, on the weights of our modules.

`speed.py` checks and times our implementation against it. Attention is written out. Every turn encodes the
whole dialog again. Every word encodes both products and the whole caption again, also for finished
captions. The gallery is embedded in every step, and searched for one dialog at a time. Network passes are
batched, as in public code.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import END, PAD, START, UNKNOWN
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.captioner import Captioner
from fashioniq.models.layers import Attention, Decoder, Encoder
from fashioniq.models.retriever import DialogRetriever

Say = Callable[[ItemInputs, ItemInputs], Tensor]


class Dialogs(NamedTuple):
    """Finished dialogs, like `fashioniq.loop.rollout.Dialogs`."""

    shown_BT: Tensor
    words_BTL: Tensor
    query_BTD: Tensor
    rank_BT: Tensor


def attend(attention: Attention, x_BLD: Tensor, memory_BLD: Tensor, attend_mask: Tensor) -> Tensor:
    """Multi-head attention with an explicit attention matrix; `attend_mask` is boolean and broadcasts to
    B×H×L×L."""
    query, key, value = (
        part.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        for part in (attention.query(x_BLD), *attention.key_value(memory_BLD).chunk(2, -1))
    )
    scores_BHLL = (query @ key.transpose(2, 3) / query.shape[-1] ** 0.5).masked_fill(
        ~attend_mask, float("-inf")
    )
    share_BHLL = F.dropout(scores_BHLL.softmax(-1), attention.dropout, attention.training)
    return attention.out((share_BHLL @ value).transpose(1, 2).flatten(2))


def encode(encoder: Encoder, x_BLD: Tensor, attend_mask: Tensor) -> Tensor:
    for layer in encoder.layers:
        y_BLD = layer.norm_attention(x_BLD)
        x_BLD = x_BLD + layer.drop(attend(layer.attention, y_BLD, y_BLD, attend_mask))
        x_BLD = x_BLD + layer.drop(layer.feed_forward(layer.norm_feed_forward(x_BLD)))
    return encoder.norm(x_BLD)


def decode(decoder: Decoder, x_BLD: Tensor, memory_BLD: Tensor, memory_mask_BL: Tensor) -> Tensor:
    earlier = torch.ones(x_BLD.shape[1], x_BLD.shape[1], dtype=torch.bool, device=x_BLD.device).tril()
    for layer in decoder.layers:
        y_BLD = layer.norm_words(x_BLD)
        x_BLD = x_BLD + layer.drop(attend(layer.words, y_BLD, y_BLD, earlier))
        x_BLD = x_BLD + layer.drop(
            attend(layer.memory, layer.norm_memory(x_BLD), memory_BLD, memory_mask_BL[:, None, None])
        )
        x_BLD = x_BLD + layer.drop(layer.feed_forward(layer.norm_feed_forward(x_BLD)))
    return decoder.norm(x_BLD)


def next_words(
    captioner: Captioner, reference: ItemInputs, target: ItemInputs, words_BL: Tensor, last: bool = False
) -> Tensor:
    """Logits of every next word, B×L×V, or of the last one only.

    Captions of the same pair are consecutive rows, and the pair is encoded once.
    """
    tokens = [
        captioner.image(reference.features_BD - target.features_BD).unsqueeze(1) + captioner.role.weight[0]
    ]
    masks = [torch.ones_like(tokens[0][..., 0], dtype=torch.bool)]
    for role, ids_BA in ((1, reference.attributes_BA), (2, target.attributes_BA)):
        tokens.append(captioner.attribute(ids_BA) + captioner.role.weight[role])
        masks.append(ids_BA != 0)
    mask_BL = torch.cat(masks, 1)
    memory_BLD = encode(captioner.encoder, captioner.drop(torch.cat(tokens, 1)), mask_BL[:, None, None])
    captions = len(words_BL) // len(memory_BLD)
    x_BLD = captioner.drop(captioner.word(words_BL) + captioner.place.weight[: words_BL.shape[1]])
    x_BLD = decode(
        captioner.decoder,
        x_BLD,
        memory_BLD.repeat_interleave(captions, 0),
        mask_BL.repeat_interleave(captions, 0),
    )
    return captioner.out(x_BLD[:, -1:] if last else x_BLD)


def _last_log_probabilities(
    captioner: Captioner, reference: ItemInputs, target: ItemInputs, words_BL: Tensor
) -> Tensor:
    scores_BV = next_words(captioner, reference, target, words_BL, last=True)[:, 0].log_softmax(-1)
    never = [PAD, START, UNKNOWN] if words_BL.shape[1] > 1 else [PAD, START, UNKNOWN, END]
    scores_BV[:, never] = float("-inf")
    return scores_BV


@torch.no_grad()
def greedy(captioner: Captioner, reference: ItemInputs, target: ItemInputs) -> Tensor:
    """Greedy decoding until every caption has an end token."""
    words_BL = torch.full((len(reference.features_BD), 1), START, device=reference.features_BD.device)
    while words_BL.shape[1] <= captioner.max_words and not (words_BL == END).any(1).all():
        last_B = _last_log_probabilities(captioner, reference, target, words_BL).argmax(-1)
        words_BL = torch.cat([words_BL, last_B.unsqueeze(1)], 1)
    ended_BL = (words_BL == END).cumsum(1) > 0
    words_BL = words_BL.masked_fill(ended_BL, PAD)[:, 1:]
    return F.pad(words_BL, (0, captioner.max_words - words_BL.shape[1]), value=PAD)


class Hypothesis(NamedTuple):
    """Words of a beam, from the start token, and the sum of their log-probabilities."""

    words: list[int]
    total: float

    @property
    def ended(self) -> bool:
        return self.words[-1] == END

    def mean(self) -> float:
        return self.total / (len(self.words) - 1)


@torch.no_grad()
def beam(captioner: Captioner, reference: ItemInputs, target: ItemInputs, beams: int) -> Tensor:
    """Beam search with batched network passes, but bookkeeping beam by beam.

    The hypothesis with the highest mean log-probability per word is returned.
    """
    device = reference.features_BD.device
    dialogs = [[Hypothesis([START], 0.0)] for _ in reference.features_BD]
    for length in range(1, captioner.max_words + 1):
        rows = [one.words + [PAD] * (length - len(one.words)) for beamed in dialogs for one in beamed]
        scores_BV = _last_log_probabilities(captioner, reference, target, torch.tensor(rows, device=device))
        dialogs = [
            _extend(beamed, scores_KV, beams)
            for beamed, scores_KV in zip(dialogs, scores_BV.split(len(dialogs[0])), strict=True)
        ]
        if all(one.ended for beamed in dialogs for one in beamed):
            break
    best = [max(beamed, key=Hypothesis.mean) for beamed in dialogs]
    captions = [[word for word in one.words[1:] if word != END] for one in best]
    return torch.tensor(
        [words + [PAD] * (captioner.max_words - len(words)) for words in captions], device=device
    )


def _extend(beamed: Sequence[Hypothesis], scores_KV: Tensor, beams: int) -> list[Hypothesis]:
    longer = []
    for one, scores_V in zip(beamed, scores_KV, strict=True):
        if one.ended:
            longer.append(one)
            continue
        best = scores_V.topk(beams)
        longer += [
            Hypothesis([*one.words, word], one.total + score)
            for score, word in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
    return sorted(longer, key=lambda one: -one.total)[:beams]


def query(retriever: DialogRetriever, turns: Sequence[Turn]) -> Tensor:
    """Encode all turns, and return the query, B×D."""
    tokens, masks, numbers = [], [], []
    place = retriever.place.weight
    for number, turn in enumerate(turns):
        mark = retriever.turn.weight[min(number, retriever.max_turns - 1)]
        always_B1 = torch.ones(len(turn.words_BL), 1, dtype=torch.bool, device=mark.device)
        parts = [
            (retriever.special + place[0]).expand(len(turn.words_BL), 1, -1),
            retriever.word(turn.words_BL) + place[1 : 1 + turn.words_BL.shape[1]],
            retriever.attribute(turn.attributes_BA) + place[-2],
            (retriever.width**0.5 * embed(retriever, turn.image_BD) + place[-1]).unsqueeze(1),
        ]
        tokens.append(torch.cat(parts, 1) + mark)
        masks.append(torch.cat([always_B1, turn.words_BL != PAD, turn.attributes_BA != 0, always_B1], 1))
        numbers += [number] * tokens[-1].shape[1]
    mask_BL, number_L = torch.cat(masks, 1), torch.tensor(numbers, device=place.device)
    attend_mask = mask_BL[:, None, None]
    if retriever.turn_causal:
        attend_mask = attend_mask & (number_L.unsqueeze(1) >= number_L)
    outputs_BLD = encode(retriever.encoder, torch.cat(tokens, 1), attend_mask)
    return retriever.query(
        F.relu((outputs_BLD * mask_BL.unsqueeze(-1)).sum(1) / mask_BL.sum(1, keepdim=True))
    )


def embed(retriever: DialogRetriever, features_BD: Tensor) -> Tensor:
    return F.normalize(retriever.image(features_BD), dim=-1)


@torch.no_grad()
def search(query_BD: Tensor, vectors_ND: Tensor, target_B: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest item and the target's rank, dialog by dialog, from the squared distances to all
    items."""
    best, ranks = [], []
    for query_D, target in zip(query_BD, target_B, strict=True):
        distance_N = (vectors_ND - query_D).square().sum(1)
        best.append(distance_N.argmin())
        ranks.append((distance_N < distance_N[target]).sum())
    return torch.stack(best), torch.stack(ranks)


@torch.no_grad()
def ranks_by_products(query_BD: Tensor, vectors_ND: Tensor, target_B: Tensor) -> Tensor:
    """Return the target's rank, dialog by dialog, from one matrix product; item norms are computed once."""
    half_N, ranks = 0.5 * vectors_ND.square().sum(1), []
    for query_D, target in zip(query_BD, target_B, strict=True):
        distance_N = half_N - vectors_ND @ query_D
        ranks.append((distance_N < distance_N[target]).sum())
    return torch.stack(ranks)


def simulate(
    retriever: DialogRetriever, say: Say, items: Items, target_B: Tensor, first_B: Tensor, turns: int
) -> Dialogs:
    """Simulate a batch of dialogs, with gradients through the retriever if enabled."""
    with torch.no_grad():
        vectors_ND = embed(retriever, items.features_ND)
    history: list[Turn] = []
    found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    item_B = first_B
    for _ in range(turns):
        shown, wanted = (items.inputs(some_B) for some_B in (item_B, target_B))
        words_BL = say(shown, wanted)
        history.append(Turn(Message(item_B=item_B), Message(words_BL=words_BL), shown))
        query_BD = query(retriever, history)
        next_B, rank_B = search(query_BD, vectors_ND, target_B)
        found.append((item_B, words_BL, query_BD, rank_B))
        item_B = next_B
    return Dialogs(*(torch.stack(parts, 1) for parts in zip(*found, strict=True)))


def triplet_loss(query_BTD: Tensor, target_BD: Tensor, margin: float = 0.1) -> Tensor:
    """Triplet loss turn by turn; negatives are the other targets of the batch."""
    losses = []
    others_BB = ~torch.eye(len(target_BD), dtype=torch.bool, device=target_BD.device)
    for query_BD in query_BTD.unbind(1):
        distance_BB = (query_BD.unsqueeze(1) - target_BD).square().sum(-1)
        hinge_BB = (distance_BB.diagonal().unsqueeze(1) - distance_BB + margin).clamp(min=0)
        losses.append(hinge_BB[others_BB].mean())
    return torch.stack(losses).sum()


def caption_loss(captioner: Captioner, reference: ItemInputs, target: ItemInputs, words_BL: Tensor) -> Tensor:
    logits_BLV = next_words(captioner, reference, target, words_BL[:, :-1])
    return F.cross_entropy(logits_BLV.flatten(0, 1), words_BL[:, 1:].flatten(), ignore_index=PAD)

"""The operations of Fashion IQ's released code, on the weights of our modules.

`speed.py` checks and times our implementation against it. Attention and layer norms are written out. Every
turn encodes the whole dialog again. A turn encodes its pairs once, and every word decodes the whole caption
again, to the last word of all. Beams are searched one dialog at a time. The gallery is searched for one
dialog at a time, and once more for the rank.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import END, PAD, START, UNKNOWN
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.captioner import Captioner
from fashioniq.models.layers import Attention, Decoder, TransformerLayers
from fashioniq.models.retriever import DialogRetriever

Say = Callable[[ItemInputs, ItemInputs], Tensor]


class Dialogs(NamedTuple):
    """Finished dialogs, like `fashioniq.loop.rollout.Dialogs`."""

    shown_BT: Tensor
    words_BTL: Tensor
    query_BTD: Tensor
    rank_BT: Tensor


def attend(attention: Attention, x_BLD: Tensor, memory_BLD: Tensor, attend_mask: Tensor | None) -> Tensor:
    """Multi-head attention with an explicit attention matrix.

    `attend_mask` is boolean and broadcasts to B×H×L×L; None attends to all positions.
    """
    query, key, value = (
        part.unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        for part in (attention.query(x_BLD), *attention.key_value(memory_BLD).chunk(2, -1))
    )
    scores_BHLL = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
    if attend_mask is not None:
        scores_BHLL = scores_BHLL.masked_fill(~attend_mask, float("-inf"))
    share_BHLL = F.dropout(scores_BHLL.softmax(-1), attention.dropout, attention.training)
    return attention.out((share_BHLL @ value).transpose(1, 2).flatten(2))


def normalize(norm: nn.LayerNorm, x_BLD: Tensor) -> Tensor:
    """Layer norm by mean and standard deviation."""
    variance_BL1, mean_BL1 = torch.var_mean(x_BLD, -1, correction=0, keepdim=True)
    return norm.weight * (x_BLD - mean_BL1) / (variance_BL1 + norm.eps).sqrt() + norm.bias


def encode(encoder: TransformerLayers, x_BLD: Tensor, attend_mask: Tensor | None) -> Tensor:
    for layer in encoder.layers:
        y_BLD = normalize(layer.norm_attention, x_BLD)
        x_BLD = x_BLD + layer.drop(attend(layer.attention, y_BLD, y_BLD, attend_mask))
        x_BLD = x_BLD + layer.drop(layer.feed_forward(normalize(layer.norm_feed_forward, x_BLD)))
    return normalize(encoder.norm, x_BLD)


def decode(decoder: Decoder, x_BLD: Tensor, memory: "Memory") -> Tensor:
    earlier = torch.ones(x_BLD.shape[1], x_BLD.shape[1], dtype=torch.bool, device=x_BLD.device).tril()
    for layer in decoder.layers:
        y_BLD = normalize(layer.norm_words, x_BLD)
        x_BLD = x_BLD + layer.drop(attend(layer.words, y_BLD, y_BLD, earlier))
        y_BLD = normalize(layer.norm_memory, x_BLD)
        x_BLD = x_BLD + layer.drop(attend(layer.memory, y_BLD, memory.outputs_BLD, memory.mask_B11L))
        x_BLD = x_BLD + layer.drop(layer.feed_forward(normalize(layer.norm_feed_forward, x_BLD)))
    return normalize(decoder.norm, x_BLD)


class Memory(NamedTuple):
    """Encoded pairs of products, and which of their positions may be attended to (None: all)."""

    outputs_BLD: Tensor
    mask_B11L: Tensor | None

    def repeat(self, count: int) -> "Memory":
        """Each pair `count` times."""
        return Memory(*(x if x is None else x.repeat_interleave(count, 0) for x in self))


def encode_pairs(captioner: Captioner, reference: ItemInputs, target: ItemInputs) -> Memory:
    tokens = [
        captioner.image(reference.features_BD - target.features_BD).unsqueeze(1) + captioner.role.weight[0]
    ]
    masks = [torch.ones_like(tokens[0][..., 0], dtype=torch.bool)]
    for role, ids_BA in ((1, reference.attributes_BA), (2, target.attributes_BA)):
        tokens.append(captioner.attribute(ids_BA) + captioner.role.weight[role])
        masks.append(ids_BA != 0)
    mask_BL = torch.cat(masks, 1)
    mask_B11L = None if mask_BL.all() else mask_BL[:, None, None]
    return Memory(encode(captioner.encoder, captioner.drop(torch.cat(tokens, 1)), mask_B11L), mask_B11L)


def next_words(captioner: Captioner, memory: Memory, words_BL: Tensor) -> Tensor:
    """Logits of every next word, B×L×V."""
    x_BLD = captioner.drop(captioner.word(words_BL) + captioner.place.weight[: words_BL.shape[1]])
    return captioner.out(decode(captioner.decoder, x_BLD, memory))


def _last_log_probabilities(captioner: Captioner, memory: Memory, words_BL: Tensor) -> Tensor:
    scores_BV = next_words(captioner, memory, words_BL)[:, -1].log_softmax(-1)
    never = [PAD, START, UNKNOWN] if words_BL.shape[1] > 1 else [PAD, START, UNKNOWN, END]
    scores_BV[:, never] = float("-inf")
    return scores_BV


@torch.no_grad()
def greedy(captioner: Captioner, reference: ItemInputs, target: ItemInputs) -> Tensor:
    """Greedy decoding of `max_words` words, also after end tokens."""
    memory = encode_pairs(captioner, reference, target)
    words_BL = torch.full((len(reference.features_BD), 1), START, device=reference.features_BD.device)
    for _ in range(captioner.max_words):
        last_B = _last_log_probabilities(captioner, memory, words_BL).argmax(-1)
        words_BL = torch.cat([words_BL, last_B.unsqueeze(1)], 1)
    return words_BL.masked_fill((words_BL == END).cumsum(1) > 0, PAD)[:, 1:]


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
    """Beam search, dialog by dialog."""
    pairs = (
        [ItemInputs(*(part[row : row + 1] for part in item[:2])) for item in (reference, target)]
        for row in range(len(reference.features_BD))
    )
    return torch.cat([_beam_of_one(captioner, *pair, beams) for pair in pairs])


def _beam_of_one(captioner: Captioner, reference: ItemInputs, target: ItemInputs, beams: int) -> Tensor:
    """The hypothesis with the highest mean log-probability per word, 1×L. Ended ones stay in the batch."""
    device = reference.features_BD.device
    memory, beamed = encode_pairs(captioner, reference, target), [Hypothesis([START], 0.0)]
    for length in range(1, captioner.max_words + 1):
        words_KL = torch.tensor([one.words + [PAD] * (length - len(one.words)) for one in beamed])
        scores_KV = _last_log_probabilities(captioner, memory.repeat(len(beamed)), words_KL.to(device))
        beamed = _extend(beamed, scores_KV, beams)
        if all(one.ended for one in beamed):
            break
    words = [word for word in max(beamed, key=Hypothesis.mean).words[1:] if word != END]
    return torch.tensor([words + [PAD] * (captioner.max_words - len(words))], device=device)


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


class History(NamedTuple):
    """Tokens of all turns so far, B×L×D, their mask, and the turn of each position."""

    tokens_BLD: Tensor
    mask_BL: Tensor
    turn_L: Tensor


def hear(retriever: DialogRetriever, turn: Turn, number: int, history: History | None) -> History:
    """Append the tokens of a turn."""
    batch, place = len(turn.words_BL), retriever.place.weight
    always_B1 = torch.ones(batch, 1, dtype=torch.bool, device=place.device)
    tokens_BLD = torch.cat(
        [
            (retriever.special + place[0]).expand(batch, 1, -1),
            retriever.word(turn.words_BL) + place[1 : 1 + turn.words_BL.shape[1]],
            retriever.attribute(turn.attributes_BA) + place[-2],
            (retriever.width**0.5 * embed(retriever, turn.image_BD) + place[-1]).unsqueeze(1),
        ],
        1,
    )
    new = History(
        tokens_BLD + retriever.turn.weight[min(number, retriever.max_turns - 1)],
        torch.cat([always_B1, turn.words_BL != PAD, turn.attributes_BA != 0, always_B1], 1),
        torch.full((tokens_BLD.shape[1],), number, device=place.device),
    )
    return (
        History(
            *(torch.cat(pair, -1 if pair[0].dim() == 1 else 1) for pair in zip(history, new, strict=True))
        )
        if history
        else new
    )


def query(retriever: DialogRetriever, history: History) -> Tensor:
    """Encode all turns, and return the query, B×D."""
    tokens_BLD, mask_BL, turn_L = history
    attend_mask = mask_BL[:, None, None]
    if retriever.turn_causal:
        attend_mask = attend_mask & (turn_L.unsqueeze(1) >= turn_L)
    outputs_BLD = encode(retriever.encoder, tokens_BLD, attend_mask)
    return retriever.query(
        F.relu((outputs_BLD * mask_BL.unsqueeze(-1)).sum(1) / mask_BL.sum(1, keepdim=True))
    )


def embed(retriever: DialogRetriever, features_BD: Tensor) -> Tensor:
    return F.normalize(retriever.image(features_BD), dim=-1)


@torch.no_grad()
def embed_gallery(retriever: DialogRetriever, items: Items, batch: int) -> Tensor:
    """Embed all items, batch by batch."""
    return torch.cat([embed(retriever, features_BD) for features_BD in items.features_ND.split(batch)])


@torch.no_grad()
def nearest(query_BD: Tensor, vectors_ND: Tensor) -> Tensor:
    """The nearest item of each dialog, from the squared distances to all items."""
    return torch.stack([(vectors_ND - query_D).square().sum(1).argmin() for query_D in query_BD])


@torch.no_grad()
def ranks(query_BD: Tensor, vectors_ND: Tensor, target_B: Tensor) -> Tensor:
    """The rank of each dialog's target, from the squared distances to all items."""
    found = []
    for query_D, target in zip(query_BD, target_B, strict=True):
        distance_N = (vectors_ND - query_D).square().sum(1)
        found.append((distance_N < distance_N[target]).sum())
    return torch.stack(found)


@torch.no_grad()
def ranks_by_products(query_BD: Tensor, vectors_ND: Tensor, target_B: Tensor) -> Tensor:
    """Return the target's rank, dialog by dialog, from one matrix product; item norms are computed once."""
    half_N, ranks = 0.5 * vectors_ND.square().sum(1), []
    for query_D, target in zip(query_BD, target_B, strict=True):
        distance_N = half_N - vectors_ND @ query_D
        ranks.append((distance_N < distance_N[target]).sum())
    return torch.stack(ranks)


def simulate(
    retriever: DialogRetriever,
    say: Say,
    gallery: tuple[Items, Tensor],
    target_B: Tensor,
    first_B: Tensor,
    turns: int,
) -> Dialogs:
    """Simulate a batch of dialogs, with gradients through the retriever if enabled.

    The gallery is items and their vectors.
    """
    items, vectors_ND = gallery
    history, item_B = None, first_B
    found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for number in range(turns):
        shown, wanted = (items.inputs(some_B) for some_B in (item_B, target_B))
        words_BL = say(shown, wanted)
        turn = Turn(Message(item_B=item_B), Message(words_BL=words_BL), shown)
        history = hear(retriever, turn, number, history)
        query_BD = query(retriever, history)
        found.append((item_B, words_BL, query_BD, ranks(query_BD, vectors_ND, target_B)))
        item_B = nearest(query_BD, vectors_ND)
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
    memory = encode_pairs(captioner, reference, target)
    logits_BLV = next_words(captioner, memory, words_BL[:, :-1])
    return F.cross_entropy(logits_BLV.flatten(0, 1), words_BL[:, 1:].flatten(), ignore_index=PAD)

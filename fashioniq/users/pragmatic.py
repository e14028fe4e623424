"""Pragmatic user: a captioner that says what a listener understands (Andreas and Klein 2016)."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.models.linear import Example, LinearRetriever, caption_ranks

COMPLETED = 6  # captions of a turn that are completed, the most informative ones by their beginnings
MOST_OTHERS = 5000  # products among which the listener looks for the target


class Listener(NamedTuple):
    """Linear retriever that knows only captions of people, with its vocabulary.

    A caption is informative if the listener finds the target by it.
    """

    model: LinearRetriever
    words: Vocabulary

    @torch.no_grad()
    def ranks(self, examples: Sequence[Example], items: Items) -> Tensor:
        """0-based ranks N of the targets among `items`, from the text of each example."""
        items = items.to(self.model.bias_D.device)
        gallery = Gallery(items, items.embedded(self.model.embed_images))
        return caption_ranks(self.model, self.words, gallery, examples)


class PragmaticUser:
    """User simulator that draws captions from a frozen captioner and says the most informative one.

    That is the caption by which the `listener` ranks the target best among the products, at most `MOST_OTHERS` of them;
    the first one drawn wins ties. The likeliest caption, which greedy decoding finds, is drawn as seldom as people say
    it. Of more than `COMPLETED` captions, those are completed whose first words are the most informative: the others
    would hardly be said. With `truth`, only the captions with the fewest statements that are false by the labels of
    `items` are considered: a listener who computes with words finds many a target best by a lie. A reply depends on the
    target, the offer, the turn and `seed`. Word ids are translated from the captioner's `own` vocabulary to the
    retriever's.
    """

    def __init__(
        self,
        captioner: BaseCaptioner,
        items: Items,
        own: Vocabulary,
        retriever: Vocabulary,
        *,
        listener: Listener,
        samples: int,
        seed: int,
        truth: StatementCheck | None = None,
    ) -> None:
        device = items.features_ND.device
        self.captioner = captioner.eval().requires_grad_(False)
        self.items, self.words, self.truth = items, own, truth
        self.listener = listener.model.to(device).eval().requires_grad_(False)
        self._to_retriever = own.translation(retriever).to(device)
        self._to_listener = own.translation(listener.words).to(device)
        self._vectors_ND = items.embedded(self.listener.embed_images)
        step = -(-len(items) // MOST_OTHERS)
        self._other_M = torch.arange(0, len(items), step, device=device)
        self.samples, self.seed = samples, seed

    @torch.no_grad()
    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe how the targets differ from the items offered."""
        assert offer.item_B is not None, "a captioner needs an offer with items"
        item_B = offer.item_B

        def promising(words_BKL: Tensor) -> Tensor:
            cost_BK = self._ranks(target_B, item_B, words_BKL)
            cost_BK = cost_BK + len(self.items) * self._false_beginnings(target_B, item_B, words_BKL)
            return cost_BK <= cost_BK.kthvalue(COMPLETED, dim=1, keepdim=True).values

        words_BKL = self.captioner.sample(
            self.items.inputs(item_B),
            self.items.inputs(target_B),
            self._chances(target_B, turn),
            promising if self.samples > COMPLETED else None,
        )
        # a stable order: among captions of one rank, the first
        order_BK = self._ranks(target_B, item_B, words_BKL).argsort(dim=1, stable=True)
        best_B = self._truest(target_B, item_B, words_BKL, order_BK)
        words_BL = words_BKL[torch.arange(len(target_B), device=best_B.device), best_B]
        return Message(words_BL=self._to_retriever[words_BL])

    def _chances(self, target_B: Tensor, turn: int) -> Tensor:
        """Uniform numbers of [0, 1) for each target, B×K×L, the same in every batch."""
        size = (self.samples, self.captioner.max_words)
        drawn = [
            np.random.default_rng((self.seed, turn, target)).random(size, dtype=np.float32)
            for target in target_B.tolist()
        ]
        return torch.from_numpy(np.stack(drawn)).to(target_B.device)

    def _false_beginnings(self, target_B: Tensor, item_B: Tensor, words_BKL: Tensor) -> Tensor:
        """Numbers B×K of statements that are false by the labels, in captions that go on; 0 without `truth`."""
        if self.truth is None:
            return torch.zeros_like(words_BKL[..., 0])
        false = list[list[int]]()
        for beginnings, target, item in self._captions(target_B, item_B, words_BKL):
            found = {one: self.truth.decided(one, target, item, begun=True)[1] for one in set(beginnings)}
            false.append([found[one] for one in beginnings])
        return torch.tensor(false, device=target_B.device)

    def _truest(self, target_B: Tensor, item_B: Tensor, words_BKL: Tensor, order_BK: Tensor) -> Tensor:
        """The captions B with the fewest false statements; of several, or without `truth`, the first in this order."""
        if self.truth is None:
            return order_BK[:, 0]
        best, pairs = [], self._captions(target_B, item_B, words_BKL)
        for (captions, target, item), order in zip(pairs, order_BK.tolist(), strict=True):
            found, fewest = order[0], math.inf
            for number in order:
                false = self.truth.decided(captions[number], target, item)[1]
                if false < fewest:
                    found, fewest = number, false
                if not false:
                    break  # the others need not be read, which takes most of the time
            best.append(found)
        return torch.tensor(best, device=target_B.device)

    def _captions(
        self, target_B: Tensor, item_B: Tensor, words_BKL: Tensor
    ) -> Iterator[tuple[list[str], str, str]]:
        """The captions of each pair, and the ids of its target and candidate."""
        texts, count, ids = self.words.decode(words_BKL.flatten(0, 1)), words_BKL.shape[1], self.items.ids
        for number, pair in enumerate(zip(target_B.tolist(), item_B.tolist(), strict=True)):
            yield texts[number * count : (number + 1) * count], *(ids[one] for one in pair)

    def _ranks(self, target_B: Tensor, item_B: Tensor, words_BKL: Tensor) -> Tensor:
        """0-based ranks B×K of the targets for the listener, who hears one caption; equal ones are heard once."""
        count = words_BKL.shape[1]
        dialog_R = torch.arange(len(target_B), device=target_B.device).repeat_interleave(count)
        rows = torch.cat([dialog_R.unsqueeze(1), self._to_listener[words_BKL.flatten(0, 1)]], 1)
        heard_UL, heard_R = torch.unique(rows, dim=0, return_inverse=True)
        dialog_U = heard_UL[:, 0]
        query_UD = self.listener.query_of(self._vectors_ND[item_B[dialog_U]], heard_UL[:, 1:])
        target_U = target_B[dialog_U]
        own_U1 = (query_UD * self._vectors_ND[target_U]).sum(1, keepdim=True)
        better_UM = query_UD @ self._vectors_ND[self._other_M].T > own_U1
        rank_U = (better_UM & (self._other_M != target_U.unsqueeze(1))).sum(1)
        return rank_U[heard_R].unflatten(0, (-1, count))

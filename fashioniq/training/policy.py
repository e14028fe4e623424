"""Policy improvement of a dialog retriever by looking ahead (Guo et al. 2018, section 3.3).

The retriever chooses which product to show. At a turn of each dialog, its best candidates are tried: the
simulated user replies, the dialog goes on to its end, and the candidate with the best ranks of the target from
there on is the one that should have been shown.
"""

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.askers.best_item import BestItem
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.measures import percentiles
from fashioniq.training.dialog_sources import DialogStarts
from fashioniq.training.retriever import RetrieverTraining

CANDIDATES = 4  # products tried
OTHERS = 5  # random products that the best candidate is compared with


class PolicyTraining(RetrieverTraining):
    """Lightning module: cross-entropy of the best of `CANDIDATES` products against `OTHERS` random ones.

    Every training step looks ahead from one turn, drawn uniformly from all but the last.
    """

    def __init__(self, *arguments: Any, temperature: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.temperature = temperature

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, start: DialogStarts) -> Tensor:
        target_B, first_B, user, turns, _ = start
        turn = random.Random(self.global_step).randrange(1, turns)  # the same in all processes
        system = System(self.model, self.asker, gallery)
        state = rollout(system, user, target_B, Message(item_B=first_B), turn, rank=False).state
        query_BD = state.queries[-1].vector_BD
        others_BC = torch.randint(len(gallery), (len(target_B), OTHERS)).to(self.device)
        item_BC = torch.cat([self._best(system, start, state), others_BC], 1)
        vectors_BCD = self.model.embed_images(gallery.items.features_ND[item_BC])
        square_BC = (query_BD.unsqueeze(1) - vectors_BCD).square().sum(-1)
        return F.cross_entropy(-square_BC / self.temperature, torch.zeros_like(target_B))

    @torch.no_grad()
    def _best(self, system: System, start: DialogStarts, state: DialogState) -> Tensor:
        """The candidate after which the target ranks best on average until the end, B×1."""
        assert isinstance(self.asker, BestItem), "looking ahead chooses among the best items"
        item_BK = self.asker.candidates(state, system.gallery, CANDIDATES)
        values = [
            percentiles(
                rollout(
                    system, start.user, start.target_B, Message(item_B=item_B), start.turns, state=state
                ).ranks,
                len(system.gallery),
            ).mean(1)
            for item_B in item_BK.unbind(1)
        ]
        return item_BK.gather(1, torch.stack(values, 1).argmax(1, keepdim=True))

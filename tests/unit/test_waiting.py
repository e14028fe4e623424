"""How often a dialog waits for the device: on a GPU, the host needs a value or a size before it can go on.

The meta device stands for the GPU: its tensors have shapes and no values, and every operation that needs values
is refused, or counted here.
"""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop import exact, gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.rnn import RNNCaptioner
from fashioniq.users.captioner import CaptionerUser

N, B = 100, 8
SIZES = {"width": 16, "heads": 2, "hidden": 32, "layers": 1}
OF_DATA = {"vocabulary": 20, "features": 6, "attributes": 12}


class Waits(TorchDispatchMode):
    """Counts the operations whose values or sizes the host waits for, and replaces what they return."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.overloadpacket.__name__
        if name == "nonzero":
            self.count += 1
            return args[0].new_empty(0, args[0].dim(), dtype=torch.long)
        if name == "_local_scalar_dense":
            self.count += 1
            return True
        if name == "index" and any(part is not None and part.dtype == torch.bool for part in args[1]):
            raise AssertionError("a mask as an index makes the host wait for the number of its elements")
        return operation(*args, **(kwargs or {}))


def looks(count=N):
    return torch.randn(count, 6), torch.randint(1, 12, (count, 8))


@pytest.mark.parametrize("kind", [Captioner, RNNCaptioner])
def test_no_word_of_a_caption_waits_for_the_device(kind):
    with torch.device("meta"), Waits() as waits:
        items = Items([str(n) for n in range(N)], *looks())
        captioner = kind(CaptionerConfig(**SIZES), **OF_DATA).eval()
        pair = items.inputs(torch.arange(B)), items.inputs(torch.arange(B))
        assert captioner.greedy(*pair).shape == captioner.beam(*pair, 4).shape == (B, 8)
        assert captioner.sample(*pair, torch.rand(B, 3, 8)).shape == (B, 3, 8)
    assert waits.count == 0


@pytest.mark.parametrize("attention", ["both-ways", "turn-causal"])
def test_a_greedy_turn_waits_once_and_the_checks_wait_for_the_end(attention, monkeypatch):
    monkeypatch.setattr(exact, "_full_float32", nullcontext)  # there is no autocast for meta

    def waited(turns):
        items = Items([str(n) for n in range(N)], *looks())
        retriever = DialogRetriever(RetrieverConfig(**SIZES, attention=attention), **OF_DATA)
        found = gallery.Gallery(items, retriever.embed_images(items.features_ND))
        words = Vocabulary([f"word{number}" for number in range(16)])
        user = CaptionerUser(Captioner(CaptionerConfig(**SIZES), **OF_DATA), items, words, words)
        with Waits() as waits:
            system = System(retriever, BestItem(exclude_shown=True), found)
            dialogs = rollout(system, user, torch.arange(B), Message(item_B=torch.arange(B)), turns)
        assert dialogs.ranks.shape == (B, turns)
        return waits.count

    with torch.device("meta"):
        alone, six = waited(1), waited(6)
    assert six - alone == 5
    assert alone == 3  # whether the queries are finite, and the ties of two precisions

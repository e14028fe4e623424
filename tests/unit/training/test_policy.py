"""The policy stage: which product is shown after looking ahead, and that training makes the retriever show it."""

import torch
from torch import nn

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.retriever import BaseRetriever
from fashioniq.training import retriever
from fashioniq.training.dialog_sources import DialogSimulation
from fashioniq.training.losses import triplet
from fashioniq.training.retriever import CANDIDATES, PolicyTraining


class Pointing(BaseRetriever):
    """The query of a turn is its word times a learned matrix; before that the item shown, if the word is 0."""

    def __init__(self):
        nn.Module.__init__(self)
        self.width, self.max_words = 2, 1
        self.word = nn.Embedding(12, 2)

    def embed_images(self, features_BD):
        return features_BD

    def start(self, batch):
        return None

    def step(self, state, turn):
        return self.word(turn.words_BL[:, 0]), None


class Honest:
    """Says which product is the target if it was shown a product of the same half, else a word of no use."""

    def reply(self, target_B, offer, turn):
        near_B = offer.item_B // 5 == target_B // 5
        return Message(words_BL=torch.where(near_B, target_B, 10 + target_B // 5).unsqueeze(1))


def training():
    torch.manual_seed(0)
    items = Items.without_attributes([str(n) for n in range(10)], torch.randn(10, 2))
    model = Pointing()
    with torch.no_grad():
        model.word.weight[:10] = items.features_ND  # known words point at their product
    source = DialogSimulation(lambda *_: Honest(), None, {"train": items}, turns=3, seed=0, max_words=1)
    return PolicyTraining(
        model,
        source,
        BestItem(),
        loss=triplet,
        negatives="batch",
        learning_rate=0.05,
        schedule="constant",
        temperature=1.0,
    )


def starts(module):
    module._enter("train")
    return module.source.train(torch.arange(10), 0)._replace(first_B=(torch.arange(10) + 5) % 10)


def test_the_best_candidate_is_the_one_after_which_the_target_ranks_best():
    module = training()
    start = starts(module)
    system = System(module.model, module.asker, module.galleries["train"])
    talk = rollout(system, Honest(), start.target_B, Message(item_B=start.first_B), 1, rank=False).state
    best_B = module._best(system, start, talk)[:, 0]
    _, item_BK = system.gallery.top(talk.queries[-1], CANDIDATES)
    for target, best, items in zip(range(10), best_B.tolist(), item_BK.tolist(), strict=True):
        helpful = [item for item in items if item // 5 == target // 5]
        assert best in items and (best in helpful or not helpful)


def test_steps_look_ahead_from_every_turn_but_the_first_offer_and_the_last_reply(monkeypatch):
    module = training()
    start, turns = starts(module), []

    def recorded(*arguments, rank=True, **options):
        turns.extend([] if rank else arguments[4:])
        return rollout(*arguments, rank=rank, **options)

    monkeypatch.setattr(retriever, "rollout", recorded)
    for step in range(12):
        monkeypatch.setattr(PolicyTraining, "global_step", step)
        module._loss_of_dialogs(module.galleries["train"], None, start)
    assert set(turns) == {1, 2} and len(turns) == 12


def test_training_makes_the_retriever_show_what_helps():
    """Words 10 and 11 say in which half the target is; the retriever learns to show a product of that half."""
    module = training()
    start, optimizer = starts(module), torch.optim.Adam(module.model.parameters(), 0.05)

    def helped():
        module._enter("train")
        system = System(module.model, module.asker, module.galleries["train"])
        dialogs = rollout(system, Honest(), start.target_B, Message(item_B=start.first_B), 3)
        return (dialogs.ranks[:, -1] == 0).float().mean()

    before = helped()
    for _ in range(60):
        loss = module._loss_of_dialogs(module.galleries["train"], None, start)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert before <= 0.5 and helped() >= 0.9

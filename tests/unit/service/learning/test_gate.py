"""The gate passes a model that is better, and no other."""

from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.rnn import RNNRetriever
from fashioniq.service.learning.gate import judge, replay
from fashioniq.service.learning.rules import LiveSession, LiveStep
from fashioniq.users.recorded import RecordedReplies

WORSE, BETTER = 40, 3  # ranks


def session(number, *texts, split="test"):
    return LiveSession(
        session=f"s{number}",
        split=split,
        target=f"p{number}",
        weight=1.0,
        signal="this_is_it",
        model="m",
        begun=datetime(2026, 11, 1, tzinfo=UTC),
        steps=[LiveStep("p0", text) for text in texts or ("is red", "is long")],
    )


SESSIONS = [session(number) for number in range(60)]
TRAINING = [session(number, "is red", "is long", split="train") for number in range(20)]


def verdict(running, new, sessions=SESSIONS, simulated=(80.0, 80.0), shown=(), least=50):
    return judge(sessions, running, new, simulated, training=TRAINING, shown=set(shown), min_targets=least)


def ranks(*values):
    return [list(values)] * 60


def test_a_better_model_passes():
    found = verdict(ranks(WORSE, WORSE), ranks(BETTER, BETTER))
    assert found.passed and found.targets == 60
    assert (found.rows[0].running, found.rows[0].new) == (0.0, 100.0)
    assert found.rows[1].new == pytest.approx(1 / (1 + BETTER))


def test_an_equal_model_does_not_pass():
    assert not verdict(ranks(WORSE, BETTER), ranks(WORSE, BETTER)).passed


def test_a_difference_that_chance_explains_does_not_pass():
    chance = np.random.default_rng(0)
    running, new = (chance.integers(0, 100, (60, 2)).tolist() for _ in range(2))
    assert not verdict(running, new).passed


def test_too_few_targets_do_not_pass():
    found = verdict(ranks(WORSE, WORSE), ranks(BETTER, BETTER), least=61)
    assert found.reasons == ["60 held-out targets, fewer than 61"]


def test_sessions_of_one_target_count_once():
    same = [session(1)] * 60
    assert verdict(ranks(WORSE, WORSE), ranks(BETTER, BETTER), sessions=same).targets == 1


def test_no_sessions_do_not_pass():
    assert not verdict([], [], sessions=[]).passed


def test_worse_simulated_dialogs_do_not_pass():
    better = ranks(WORSE, WORSE), ranks(BETTER, BETTER)
    assert verdict(*better, simulated=(80.0, 79.1)).passed
    assert not verdict(*better, simulated=(80.0, 78.9)).passed


@pytest.mark.parametrize("name", ["first turn", "turns with rare words", "products not shown before"])
def test_a_slice_that_becomes_worse_does_not_pass(name):
    """The slice loses all it had, and the rest gains more."""
    if name == "first turn":
        sessions, running, new = (
            SESSIONS,
            ranks(BETTER, WORSE, WORSE, WORSE),
            ranks(WORSE, BETTER, BETTER, BETTER),
        )
        sessions = [session(number, *["is red"] * 4) for number in range(60)]
        shown = {one.target for one in sessions}
    else:
        odd = {"turns with rare words": "is crimson"}.get(name, "is red")
        sessions = [session(number, odd if number < 6 else "is red") for number in range(60)]
        running = [[BETTER if number < 6 else WORSE] for number in range(60)]
        new = [[WORSE if number < 6 else BETTER] for number in range(60)]
        shown = (
            {one.target for one in sessions[6:]}
            if name != "turns with rare words"
            else {one.target for one in sessions}
        )
    found = verdict(running, new, sessions=sessions, shown=shown)
    assert [reason.split(" is ")[0] for reason in found.reasons] == [f"R@10, {name}"]


def test_the_replay_ranks_as_the_loop_does():
    torch.manual_seed(0)
    words = Vocabulary(["is", "red", "long"])
    items = Items(
        [f"p{number}" for number in range(20)], torch.randn(20, 6), torch.zeros(20, 8, dtype=torch.long)
    )
    retriever = RNNRetriever(
        RetrieverConfig(kind="rnn", width=16), vocabulary=len(words), features=6, attributes=0
    )
    retriever.eval().requires_grad_(False)
    gallery = Gallery(items, retriever.embed_images(items.features_ND))
    system = System(retriever, BestItem(), gallery, words)
    found = replay(system, [session(7, "is red", "wholly unheard", "is long")])[0]
    known = [Message(words_BL=words.encode([text], 2)) for text in ("is red", "is long")]

    class AsShown:
        def offer(self, talk, gallery):
            return Message(item_B=torch.tensor([0]))

    again = System(retriever, AsShown(), gallery, words)
    dialogs = rollout(again, RecordedReplies(known), torch.tensor([7]), Message(item_B=torch.tensor([0])), 2)
    assert found == [int(dialogs.ranks[0, 0]), int(dialogs.ranks[0, 0]), int(dialogs.ranks[0, 1])]

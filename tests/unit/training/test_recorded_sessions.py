"""Recorded sessions as a source of training dialogs."""

import pytest
import torch

from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.messages import DialogState, Message
from fashioniq.training.dialog_sources import RecordedSessions

WORDS = Vocabulary(["red", "long"])
ITEMS = Items([f"p{number}" for number in range(5)], torch.randn(5, 3), torch.zeros(5, 0, dtype=torch.long))


def source(train, val=()):
    made = RecordedSessions({"train": train, "val": val}, {"train": ITEMS, "val": ITEMS}, WORDS, max_words=2)
    made.enter("train", 0, torch.device("cpu"))
    return made


def test_a_session_shows_its_items_and_says_its_words():
    start = source([("p4", [("p1", "red"), ("p2", "long dress")], 1.0)]).train(torch.arange(3), 0)
    assert start.turns == 2 and start.target_B.tolist() == [4, 4, 4] and start.first_B.tolist() == [1, 1, 1]
    replies = [start.user.reply(start.target_B, Message(), turn).words_BL for turn in range(2)]
    assert WORDS.decode(replies[0][:1]) == ["red"] and WORDS.decode(replies[1][:1]) == ["long <unknown>"]
    talk = DialogState(3, None, turns=(None,))
    assert start.asker.offer(talk, None).item_B.tolist() == [2, 2, 2]


def test_sessions_are_drawn_by_weight_and_by_length():
    torch.manual_seed(0)
    short, rare = ("p0", [("p1", "red")], 1.0), ("p1", [("p2", "red")], 0.25)
    long = ("p2", [("p3", "red"), ("p4", "long")], 1.25)
    starts = [source([short, rare, long]).train(torch.arange(20), step) for step in range(100)]
    assert {start.turns for start in starts} == {1, 2}
    assert sum(start.turns == 1 for start in starts) == pytest.approx(50, abs=15)
    drawn = torch.cat([start.target_B for start in starts if start.turns == 1])
    assert (drawn == 0).float().mean() == pytest.approx(0.8, abs=0.05)


def test_each_turn_of_val_is_a_dialog():
    made = source([("p0", [("p1", "red")], 1.0)], [("p4", [("p1", "red"), ("p2", "long")], 1.0)])
    assert (made.count("train"), made.count("val")) == (1, 2)
    start = made.val(torch.arange(2))["live"]
    assert start.turns == 1 and start.first_B.tolist() == [1, 2] and start.target_B.tolist() == [4, 4]


def test_without_sessions_of_val_there_is_no_validation():
    made = source([("p0", [("p1", "red")], 1.0)])
    assert made.count("val") == 0 and made.val(torch.arange(0)) == {}

"""Recorded sessions run through the ordinary rollout: what is shown and said is what was recorded."""

import pytest
import torch

from fashioniq.askers.recorded import recorded_items
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System, rollout
from fashioniq.users.recorded import RecordedReplies


class Shown:
    """A retriever whose query is the product shown."""

    def start(self, batch):
        return None

    def step(self, state, turn):
        return turn.image_BD, None


@pytest.fixture
def gallery():
    vectors_ND = torch.eye(6)
    return Gallery(Items.without_attributes(list("ABCDEF"), vectors_ND), vectors_ND)


def test_a_session_shows_and_says_what_was_recorded(gallery):
    item_BT, target_B = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([2, 0])
    words_BTL = torch.arange(4, 16).view(2, 3, 2)
    asker = recorded_items(item_BT)
    system = System(Shown(), asker, gallery)
    dialogs = rollout(system, RecordedReplies.of_words(words_BTL), target_B, asker.offers[0], turns=3)
    assert torch.equal(dialogs.shown_BT, item_BT)
    assert torch.equal(torch.stack([turn.words_BL for turn in dialogs.state.turns], 1), words_BTL)
    # one other product is as near as all others, and ties are broken by the order of the gallery
    assert dialogs.ranks.tolist() == [[2, 2, 0], [1, 1, 1]]


def test_a_log_has_what_was_shown_and_the_words_or_the_texts_that_were_said(gallery):
    item_BT, target_B = torch.tensor([[0, 1], [3, 4]]), torch.tensor([2, 0])
    vocabulary = Vocabulary(["red", "blue", "long", "short"])
    words_BTL = vocabulary.encode(["red", "blue", "long", "short"], 2).view(2, 2, 2)
    asker = recorded_items(item_BT)
    system = System(Shown(), asker, gallery, vocabulary)

    def logged(texts, known):
        user = RecordedReplies.of_words(words_BTL, texts)
        turns = rollout(system, user, target_B, asker.offers[0], 2).logged(gallery.items.ids, known)
        return [[(turn.words, turn.rank, turn.offer.item, turn.reply.text) for turn in one] for one in turns]

    assert logged(None, vocabulary) == [
        [("red", 2, "A", "red"), ("blue", 2, "B", "blue")],
        [("long", 1, "D", "long"), ("short", 1, "E", "short")],
    ]
    typed = [["Red!", "BLUE"], ["looong", "short."]]
    found = logged(typed, vocabulary)
    assert [[text for *_, text in one] for one in found] == typed

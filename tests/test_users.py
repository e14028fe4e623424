import pytest
import torch

from fashioniq.askers import Offer
from fashioniq.data.features import Items
from fashioniq.data.words import PAD, SPECIAL, UNKNOWN, Vocabulary
from fashioniq.models.captioner import Captioner
from fashioniq.models.decoding import Looks
from fashioniq.users import CaptionerUser, RecordedUser

SPEAKS = Vocabulary([f"word{n}" for n in range(16)])
HEARS = Vocabulary([f"word{n}" for n in reversed(range(2, 16))])  # other ids, and two words that it never heard


@pytest.fixture
def items():
    torch.manual_seed(0)
    return Items([str(n) for n in range(30)], torch.randn(30, 6), torch.randint(1, 10, (30, 8)))


@pytest.fixture
def captioner():
    torch.manual_seed(1)
    model = Captioner(len(SPEAKS), 6, 10, width=16, heads=2, hidden=32, layers=1)
    torch.nn.init.normal_(model.out.weight)
    return model


def looks(items, item_B):
    return Looks(items.features_ND[item_B], items.attributes_NA[item_B])


OFFERED, WANTED = torch.arange(0, 15), torch.arange(15, 30)


@pytest.mark.parametrize("beams", [1, 3])
def test_the_captioner_tells_how_the_target_differs_from_the_offer(items, captioner, beams):
    user = CaptionerUser(captioner, items, SPEAKS, SPEAKS, beams)
    expected_BL = captioner.beam(looks(items, OFFERED), looks(items, WANTED), beams)
    assert torch.equal(user.reply(WANTED, Offer(0, OFFERED)).words_BL, expected_BL)
    assert not torch.equal(user.reply(OFFERED, Offer(0, WANTED)).words_BL, expected_BL)


def test_words_arrive_in_the_vocabulary_of_the_listener(items, captioner):
    said = SPEAKS.decode(CaptionerUser(captioner, items, SPEAKS, SPEAKS).reply(WANTED, Offer(0, OFFERED)).words_BL)
    heard_BL = CaptionerUser(captioner, items, SPEAKS, HEARS).reply(WANTED, Offer(0, OFFERED)).words_BL
    expected = [" ".join(word if word in HEARS else SPECIAL[UNKNOWN] for word in text.split()) for text in said]
    assert HEARS.decode(heard_BL) == expected


def test_the_captioner_is_frozen_and_speaks_without_dropout(items, captioner):
    user = CaptionerUser(captioner.train(), items, SPEAKS, SPEAKS)
    assert not captioner.training and not any(weight.requires_grad for weight in captioner.parameters())
    assert torch.equal(*(user.reply(WANTED, Offer(0, OFFERED)).words_BL for _ in range(2)))


def test_a_recorded_user_repeats_the_words_of_each_turn():
    words_BTL = torch.randint(4, 20, (5, 3, 8))
    words_BTL[0, 1, 4:] = PAD
    user = RecordedUser(words_BTL)
    for turn in (2, 0, 1):
        assert torch.equal(user.reply(torch.arange(5), Offer(turn, torch.arange(5))).words_BL, words_BTL[:, turn])

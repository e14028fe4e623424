from itertools import pairwise

import pytest
import torch

from fashioniq.data.items import Items
from fashioniq.data.words import PAD, SPECIAL, UNKNOWN, Vocabulary
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.messages import Message
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.decoding import BEGINNING
from fashioniq.models.linear import LinearRetriever
from fashioniq.users import pragmatic as pragmatic_user
from fashioniq.users.by_name import WordedUser
from fashioniq.users.captioner import CaptionerUser
from fashioniq.users.noisy import NoisyUser, corrupt, negation, noise_draws
from fashioniq.users.pragmatic import Listener, PragmaticUser
from fashioniq.users.recorded import RecordedReplies
from fashioniq.users.remembering import RememberingUser

COLORS = ["red", "blue", "green", "black"]
SPEAKS = Vocabulary([*(f"word{n}" for n in range(9)), *COLORS, "word9", "word10", "word11"])
# other ids, and two words that it never heard
HEARS = Vocabulary([*reversed(COLORS), *(f"word{n}" for n in reversed(range(2, 12)))])


@pytest.fixture
def items():
    torch.manual_seed(0)
    return Items([str(n) for n in range(30)], torch.randn(30, 6), torch.randint(1, 10, (30, 8)))


@pytest.fixture
def captioner():
    torch.manual_seed(1)
    config = CaptionerConfig(width=16, heads=2, hidden=32, layers=1)
    model = Captioner(config, vocabulary=len(SPEAKS), features=6, attributes=10)
    torch.nn.init.normal_(model.out.weight)
    return model


def looks(items, item_B):
    return items.inputs(item_B)


OFFERED, WANTED = torch.arange(0, 15), torch.arange(15, 30)


@pytest.mark.parametrize("beams", [1, 3])
def test_the_captioner_tells_how_the_target_differs_from_the_offer(items, captioner, beams):
    user = CaptionerUser(captioner, items, SPEAKS, SPEAKS, beams)
    expected_BL = captioner.beam(looks(items, OFFERED), looks(items, WANTED), beams)
    assert torch.equal(user.reply(WANTED, Message(item_B=OFFERED), 0).words_BL, expected_BL)
    assert not torch.equal(user.reply(OFFERED, Message(item_B=WANTED), 0).words_BL, expected_BL)


def test_words_arrive_in_the_vocabulary_of_the_listener(items, captioner):
    said = SPEAKS.decode(
        CaptionerUser(captioner, items, SPEAKS, SPEAKS).reply(WANTED, Message(item_B=OFFERED), 0).words_BL
    )
    heard_BL = (
        CaptionerUser(captioner, items, SPEAKS, HEARS).reply(WANTED, Message(item_B=OFFERED), 0).words_BL
    )
    expected = [
        " ".join(word if word in HEARS else SPECIAL[UNKNOWN] for word in text.split()) for text in said
    ]
    assert HEARS.decode(heard_BL) == expected


def test_the_captioner_is_frozen_and_speaks_without_dropout(items, captioner):
    user = CaptionerUser(captioner.train(), items, SPEAKS, SPEAKS)
    assert not captioner.training and not any(weight.requires_grad for weight in captioner.parameters())
    assert torch.equal(*(user.reply(WANTED, Message(item_B=OFFERED), 0).words_BL for _ in range(2)))


def test_a_remembering_user_says_the_same_and_asks_only_about_other_offers(items, captioner):
    class Counted(CaptionerUser):
        def reply(self, target_B, offer, turn):
            asked.append((target_B.tolist(), offer.item_B.tolist(), turn))
            return super().reply(target_B, offer, turn)

    asked, said, user = [], {}, Counted(captioner, items, SPEAKS, SPEAKS)
    others = torch.cat([OFFERED[:10], WANTED[:5]])
    for offered, turn in [(OFFERED, 0), (OFFERED, 1), (OFFERED, 0), (others, 0), (OFFERED, 0)]:
        offer = Message(item_B=offered)
        words_BL = RememberingUser(user, said).reply(WANTED, offer, turn).words_BL
        assert torch.equal(
            words_BL, CaptionerUser(captioner, items, SPEAKS, SPEAKS).reply(WANTED, offer, turn).words_BL
        )
    assert [turn for *_, turn in asked] == [0, 1, 0, 0]
    assert asked[2][:2] == (WANTED[10:].tolist(), others[10:].tolist())
    assert asked[3][:2] == (WANTED[10:].tolist(), OFFERED[10:].tolist())


@pytest.fixture
def listener():
    """A listener with weights for the words that it knows, fewer than the captioner says."""
    torch.manual_seed(2)
    config = RetrieverConfig(kind="linear", width=6)
    model = LinearRetriever(config, vocabulary=len(HEARS), features=6, bigrams=0, max_words=8)
    torch.nn.init.normal_(model.bag_GD)
    torch.nn.init.normal_(model.image.weight)
    return model


def pragmatic(captioner, items, listener, samples, retriever=SPEAKS, seed=0, truth=None):
    heard = Listener(listener, HEARS)
    return PragmaticUser(
        captioner, items, SPEAKS, retriever, listener=heard, samples=samples, seed=seed, truth=truth
    )


def ranks(listener, items, offered_B, target_B, words_BL):
    """Ranks of the targets for the listener, one caption at a time."""
    vectors_ND = listener.embed_images(items.features_ND)
    found = []
    for offered, target, words_L in zip(offered_B, target_B, words_BL, strict=True):
        text = SPEAKS.decode(words_L.unsqueeze(0))
        query_D = listener.query_of(vectors_ND[offered], HEARS.encode(text, 8))[0]
        score_N = vectors_ND @ query_D
        found.append(int((score_N > score_N[target]).sum()))
    return torch.tensor(found)


def test_a_pragmatic_user_says_what_the_listener_understands_best(items, captioner, listener):
    user, offer = pragmatic(captioner, items, listener, 6), Message(item_B=OFFERED)
    said_BL = user.reply(WANTED, offer, 1).words_BL
    drawn_BKL = captioner.sample(looks(items, OFFERED), looks(items, WANTED), user._chances(WANTED, 1))
    rank_BK = torch.stack(
        [ranks(listener, items, OFFERED, WANTED, drawn_BL) for drawn_BL in drawn_BKL.unbind(1)], 1
    )
    assert torch.equal(ranks(listener, items, OFFERED, WANTED, said_BL), rank_BK.min(1).values)
    assert (rank_BK.min(1).values < rank_BK[:, 0]).any()
    first_B = (rank_BK == rank_BK.min(1, keepdim=True).values).int().argmax(1)
    assert torch.equal(said_BL, drawn_BKL[torch.arange(15), first_B])


def test_of_many_captions_those_with_the_most_informative_beginnings_are_completed(
    items, captioner, listener, monkeypatch
):
    monkeypatch.setattr(pragmatic_user, "COMPLETED", 3)
    user = pragmatic(captioner, items, listener, 9)
    said_BL = user.reply(WANTED, Message(item_B=OFFERED), 1).words_BL
    drawn_BKL = captioner.sample(looks(items, OFFERED), looks(items, WANTED), user._chances(WANTED, 1))
    begun_BKL = drawn_BKL.clone()
    begun_BKL[:, :, BEGINNING:] = PAD

    def ranks_of(words_BKL):
        return torch.stack([ranks(listener, items, OFFERED, WANTED, one) for one in words_BKL.unbind(1)], 1)

    first_BK, last_BK = ranks_of(begun_BKL), ranks_of(drawn_BKL)
    kept_BK = first_BK <= first_BK.sort(1).values[:, 2:3]
    kept_BK |= begun_BKL[:, :, BEGINNING - 1] == PAD  # finished
    kept_BK[:, 0] = True  # the first one
    best_B = last_BK.masked_fill(~kept_BK, len(items)).argmin(1)
    assert torch.equal(said_BL, drawn_BKL[torch.arange(15), best_B])
    assert (last_BK.argmin(1) != best_B).any()  # some of the best are given up


def test_a_pragmatic_user_lies_only_if_all_its_captions_are_false(items, captioner, listener):
    """Of the captions with the fewest false statements, it says the most informative."""
    truth = StatementCheck({name: [[], [COLORS[number % 4]]] for number, name in enumerate(items.ids)})
    offer, user = Message(item_B=OFFERED), pragmatic(captioner, items, listener, 6)
    honest = pragmatic(captioner, items, listener, 6, truth=truth)
    said_BL = honest.reply(WANTED, offer, 1).words_BL
    drawn_BKL = captioner.sample(looks(items, OFFERED), looks(items, WANTED), user._chances(WANTED, 1))

    def false(words_BL):
        texts = SPEAKS.decode(words_BL)
        about = zip(texts, WANTED.tolist(), OFFERED.tolist(), strict=True)
        return torch.tensor(
            [truth.decided(text, items.ids[one], items.ids[other])[1] for text, one, other in about]
        )

    false_BK = torch.stack([false(words_BL) for words_BL in drawn_BKL.unbind(1)], 1)
    rank_BK = torch.stack(
        [ranks(listener, items, OFFERED, WANTED, drawn_BL) for drawn_BL in drawn_BKL.unbind(1)], 1
    )
    assert torch.equal(false(said_BL), false_BK.min(1).values)
    least_BK = rank_BK.masked_fill(false_BK > false_BK.min(1, keepdim=True).values, len(items))
    assert torch.equal(ranks(listener, items, OFFERED, WANTED, said_BL), least_BK.min(1).values)
    assert (false(user.reply(WANTED, offer, 1).words_BL) > false(said_BL)).any()


def test_a_pragmatic_user_with_one_sample_says_it(items, captioner, listener):
    user = pragmatic(captioner, items, listener, 1)
    said_BL = user.reply(WANTED, Message(item_B=OFFERED), 0).words_BL
    drawn_BKL = captioner.sample(looks(items, OFFERED), looks(items, WANTED), user._chances(WANTED, 0))
    assert torch.equal(said_BL, drawn_BKL[:, 0])


def test_a_pragmatic_user_says_the_same_in_every_batch_and_other_things_in_other_turns(
    items, captioner, listener
):
    user = pragmatic(captioner, items, listener, 6)
    said_BL = user.reply(WANTED, Message(item_B=OFFERED), 1).words_BL
    alone = [user.reply(WANTED[n : n + 1], Message(item_B=OFFERED[n : n + 1]), 1).words_BL for n in range(15)]
    assert torch.equal(torch.cat(alone), said_BL)
    assert not torch.equal(user.reply(WANTED, Message(item_B=OFFERED), 2).words_BL, said_BL)
    other = pragmatic(captioner, items, listener, 6, seed=1)
    assert not torch.equal(other.reply(WANTED, Message(item_B=OFFERED), 1).words_BL, said_BL)


def test_the_words_of_a_pragmatic_user_arrive_in_the_vocabulary_of_the_retriever(items, captioner, listener):
    said, heard = (
        words.decode(
            pragmatic(captioner, items, listener, 6, words).reply(WANTED, Message(item_B=OFFERED), 0).words_BL
        )
        for words in (SPEAKS, HEARS)
    )
    expected = [
        " ".join(word if word in HEARS else SPECIAL[UNKNOWN] for word in text.split()) for text in said
    ]
    assert heard == expected


def test_a_recorded_user_repeats_the_words_of_each_turn():
    words_BTL = torch.randint(4, 20, (5, 3, 8))
    words_BTL[0, 1, 4:] = PAD
    user = RecordedReplies.of_words(words_BTL)
    for turn in (2, 0, 1):
        assert torch.equal(
            user.reply(torch.arange(5), Message(item_B=torch.arange(5)), turn).words_BL, words_BTL[:, turn]
        )


# a user that errs

TALK = Vocabulary(["no", "not", *(f"w{n}" for n in range(8))])
NO, NOT = 4, 5
SAID = ["w1 w2 w3 w4", "w5", "", "w1 w2 w3 w4 w5 w6 w7 w0"]


def said_with(errors, chance_BL, word=NOT):
    return TALK.decode(
        corrupt(TALK.encode(SAID, 8), errors, torch.as_tensor(chance_BL).expand(len(SAID), 8), word)
    )


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        (0.1, ["w2 w3 w4", "w5", "", "w2 w3 w4 w5 w6 w7 w0"]),
        (0.3, ["w2 w1 w3 w4", "w5", "", "w2 w1 w3 w4 w5 w6 w7 w0"]),
        (0.5, ["not w1 w2 w3 w4", "not w5", "", "not w1 w2 w3 w4 w5 w6 w7"]),
        (0.6, SAID),
    ],
)
def test_a_word_is_dropped_swapped_or_negated_by_its_chance(chance, expected):
    assert said_with(0.6, [chance, *[0.9] * 7]) == expected


def test_the_last_word_is_swapped_with_the_one_before():
    assert said_with(0.6, [0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9])[0] == "w1 w2 w4 w3"


def test_a_negated_word_keeps_its_negation_when_another_is_swapped_with_it():
    assert said_with(0.6, [0.3, 0.5, *[0.9] * 6])[0] == "not w2 w1 w3 w4"


def test_nobody_is_silenced_and_nobody_who_is_silent_speaks():
    assert said_with(0.9, torch.zeros(8)) == ["w1", "w5", "", "w1"]


def test_without_errors_every_word_stays_as_it_is():
    words_BL = TALK.encode(SAID, 8)
    assert torch.equal(corrupt(words_BL, 0.0, torch.rand(words_BL.shape), NOT), words_BL)


def test_a_listener_without_negations_hears_drops_and_swaps_only():
    assert (negation(TALK), negation(Vocabulary(["no"])), negation(Vocabulary(["red"]))) == (NOT, NO, None)
    assert said_with(0.6, [0.29, *[0.9] * 7], word=None)[0] == "w2 w3 w4"
    assert said_with(0.6, [0.31, *[0.9] * 7], word=None)[0] == "w2 w1 w3 w4"
    assert said_with(0.6, [0.59, *[0.9] * 7], word=None)[0] == "w2 w1 w3 w4"


def test_each_kind_of_error_comes_as_often_as_it_should():
    rows, length, errors = 4000, 20, 0.06
    words_BL = torch.nn.functional.pad(torch.arange(10, 10 + length), (0, length)).repeat(
        rows, 1
    )  # in order, with room for negations
    heard_BL = corrupt(
        words_BL, errors, torch.rand(words_BL.shape, generator=torch.Generator().manual_seed(0)), NOT
    )
    others = [[word for word in row if word > NOT] for row in heard_BL.tolist()]
    swapped = sum(later < word for row in others for word, later in pairwise(row))
    dropped = rows * length - sum(map(len, others))
    rates = [count / (rows * length) for count in (dropped, swapped, (heard_BL == NOT).sum().item())]
    assert rates == pytest.approx([errors / 3] * 3, rel=0.1)


class Parrot:
    """Says the same whatever is offered."""

    def __init__(self, words_BL):
        self.words_BL = words_BL

    def reply(self, target_B, offer, turn):
        return Message(words_BL=self.words_BL[target_B])


@pytest.fixture
def parrot():
    return Parrot(torch.randint(6, 14, (50, 8), generator=torch.Generator().manual_seed(0)))


def test_fixed_errors_belong_to_the_dialog_and_its_turn(parrot):
    user = NoisyUser(parrot, 0.5, TALK, noise_draws(seed=0, turns=3, dialogs=50, words=8))
    all_BL = user.reply(torch.arange(50), Message(item_B=torch.zeros(50)), 1).words_BL
    some_B = torch.tensor([31, 4, 17])
    assert torch.equal(
        user.reply(some_B, Message(item_B=torch.ones(3)), 1).words_BL, all_BL[some_B]
    )  # whatever the batch and the offer
    assert not torch.equal(user.reply(torch.arange(50), Message(item_B=torch.zeros(50)), 2).words_BL, all_BL)
    assert torch.equal(noise_draws(0, 3, 50, 8)[:2], noise_draws(0, 2, 50, 8)) and not torch.equal(
        noise_draws(0, 1, 50, 8), noise_draws(1, 1, 50, 8)
    )


class Says:
    """A user with this reply."""

    def __init__(self, **reply):
        self.said = Message(**reply)

    def reply(self, target_B, offer, turn):
        return self.said


def test_a_reply_in_texts_gets_the_ids_of_its_first_words():
    user = WordedUser(Says(texts=["red odd word2 blue", "blue"]), SPEAKS, 3)
    said = user.reply(torch.zeros(2), Message(), 0)
    assert said.texts == ["red odd word2 blue", "blue"]
    assert said.words_BL.tolist() == SPEAKS.encode(said.texts, 3).tolist()
    assert SPEAKS.decode(said.words_BL) == [f"red {SPECIAL[UNKNOWN]} word2", "blue"]


@pytest.mark.parametrize("reply", [{"words_BL": torch.tensor([[5, 6]])}, {"content": ((),)}])
@pytest.mark.parametrize("texts", [None, ["red"]])
def test_a_reply_with_ids_or_without_texts_stays_as_it_is(reply, texts):
    user = Says(**reply, texts=texts if "words_BL" in reply else None)
    assert WordedUser(user, SPEAKS, 3).reply(torch.zeros(1), Message(), 0) is user.said

import itertools
from functools import partial

import pytest
import torch

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import END, PAD, SPECIAL, START, UNKNOWN
from fashioniq.models import decoding
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig
from fashioniq.models.rnn import RNNCaptioner

ATTRIBUTES = 12


def make(kind, vocabulary=20, seed=0, end=6.0, attributes=ATTRIBUTES, layers=2, **sizes):
    torch.manual_seed(seed)
    config = CaptionerConfig(kind=kind, width=16, heads=2, hidden=32, layers=layers, **sizes)
    model_class = RNNCaptioner if kind == "rnn" else Captioner
    model = model_class(config, vocabulary=vocabulary, features=6, attributes=attributes).eval()
    torch.nn.init.normal_(model.out.weight)  # far from uniform, so that captions differ
    model.out.bias.data[END] += end  # and that some end early
    return model


@pytest.fixture(params=["transformer", "rnn"])
def captioner(request):
    return partial(make, request.param)


def looks(batch, seed=0):
    torch.manual_seed(seed)
    attributes_BA = torch.randint(1, ATTRIBUTES + 1, (batch, 8))
    attributes_BA[::2, 5:] = 0
    return ItemInputs(3 * torch.randn(batch, 6), attributes_BA)


def pairs(batch):
    return looks(batch, 1), looks(batch, 2)


def forbidden(scores_V, first):
    scores_V = scores_V.clone()
    scores_V[[PAD, START, UNKNOWN] + ([END] if first else [])] = float("-inf")
    return scores_V


def one_by_one_without_cache(model, reference, target):
    """Greedy words by the whole teacher-forced pass at every place."""
    words_BL = torch.full((len(reference.features_BD), 1), START)
    for place in range(model.max_words):
        scores_BV = model(reference, target, words_BL)[:, -1].log_softmax(-1)
        choice_B = torch.stack([forbidden(scores_V, place == 0).argmax() for scores_V in scores_BV])
        ended_B = (words_BL == END).any(1)
        words_BL = torch.cat([words_BL, choice_B.where(~ended_B, END).unsqueeze(1)], 1)
    return words_BL[:, 1:].masked_fill((words_BL[:, 1:] == END).cumsum(1) > 0, PAD)


def test_cached_decoding_is_the_argmax_of_teacher_forcing(captioner):
    model, (reference, target) = captioner(), pairs(40)
    words_BL = model.greedy(reference, target)
    assert torch.equal(words_BL, one_by_one_without_cache(model, reference, target))
    assert (words_BL[:, -1] == PAD).any() and len(
        words_BL.unique(dim=0)
    ) > 5  # short ones are among them, and different ones


def test_one_beam_is_greedy(captioner):
    model, (reference, target) = captioner(), pairs(20)
    assert torch.equal(model.beam(reference, target, 1), model.greedy(reference, target))


def all_captions(words, longest):
    for length in range(1, longest + 1):
        yield from itertools.product(words, repeat=length)


def exhaustive(model, reference, target):
    """The caption with the best mean log-probability a word, of all there are; the end counts as a word, but
    not after the last place.
    """
    best, best_score = None, float("-inf")
    for said in all_captions(range(len(SPECIAL), model.out.out_features), model.max_words):
        forced = torch.tensor([[START, *said]])
        scores_LV = model(reference, target, forced)[0].log_softmax(-1)
        next_words = [*said, END][: model.max_words]
        score = sum(scores_LV[place, word].item() for place, word in enumerate(next_words)) / len(next_words)
        if score > best_score:
            best, best_score = said, score
    return list(best) + [PAD] * (model.max_words - len(best))


@pytest.mark.parametrize("seed", range(4))
def test_enough_beams_find_the_best_of_all_captions(captioner, seed):
    model = captioner(vocabulary=len(SPECIAL) + 3, seed=seed, end=2.0, max_words=3, layers=1)
    reference, target = looks(3, seed), looks(3, seed + 10)
    rows = [
        [ItemInputs(*(x[row : row + 1] for x in items[:2])) for items in (reference, target)]
        for row in range(3)
    ]
    expected = [exhaustive(model, *pair) for pair in rows]
    assert model.beam(reference, target, 400).tolist() == expected


def decodings():
    return [
        pytest.param(lambda model, *pair: model.greedy(*pair), id="greedy"),
        pytest.param(lambda model, *pair: model.beam(*pair, 4), id="beam"),
    ]


@pytest.mark.parametrize("decode", decodings())
def test_a_row_alone_says_what_it_says_in_a_batch(captioner, decode):
    model, (reference, target) = captioner(), pairs(12)
    alone = [
        decode(
            model,
            ItemInputs(*(x[row : row + 1] for x in reference[:2])),
            ItemInputs(*(x[row : row + 1] for x in target[:2])),
        )
        for row in range(12)
    ]
    assert torch.equal(decode(model, reference, target), torch.cat(alone))


@pytest.mark.parametrize("decode", decodings())
def test_captions_have_words_and_only_words_before_their_padding(captioner, decode):
    words_BL = decode(captioner(), *pairs(50))
    assert words_BL.shape == (50, 8) and words_BL.dtype == torch.int64
    assert not any((words_BL == never).any() for never in (START, END, UNKNOWN))
    assert (words_BL[:, 0] != PAD).all()
    assert ((words_BL == PAD).int().diff(dim=1) >= 0).all()


def test_no_sample_is_the_greedy_caption_but_by_chance(captioner):
    model, (reference, target) = captioner(), pairs(20)
    words_BKL = model.sample(reference, target, torch.rand(20, 3, 8))
    greedy_B1L = model.greedy(reference, target).unsqueeze(1)
    assert (words_BKL != greedy_B1L).any(2).float().mean(0).min() > 0.3  # none of the three is always greedy
    assert not torch.equal(words_BKL[:, 0], words_BKL[:, 1])
    assert ((words_BKL == PAD).int().diff(dim=2) >= 0).all() and (words_BKL[:, :, 0] != PAD).all()


def test_samples_depend_on_their_own_numbers_only(captioner):
    model, (reference, target), chance_BKL = captioner(), pairs(12), torch.rand(12, 4, 8)
    together_BKL = model.sample(reference, target, chance_BKL)
    for row in range(12):
        alone = [ItemInputs(*(x[row : row + 1] for x in items[:2])) for items in (reference, target)]
        assert torch.equal(model.sample(*alone, chance_BKL[row : row + 1])[0], together_BKL[row])


def test_captions_whose_beginnings_are_not_promising_are_given_up(captioner):
    """They are the first caption instead; finished ones and the others are as they would be."""
    model, (reference, target), chance_BKL = of_many_lengths(captioner), pairs(40), torch.rand(40, 6, 8)
    whole_BKL = model.sample(reference, target, chance_BKL)
    begun = []

    def promising(words_BKL):
        begun.append(words_BKL)
        return words_BKL.sum(2) % 2 == 0

    words_BKL = model.sample(reference, target, chance_BKL, promising)
    [begun_BKL] = begun
    assert torch.equal(begun_BKL[:, :, : decoding.BEGINNING], whole_BKL[:, :, : decoding.BEGINNING])
    assert (begun_BKL[:, :, decoding.BEGINNING :] == PAD).all()
    unfinished_BK = begun_BKL[:, :, decoding.BEGINNING - 1] != PAD
    dropped_BK = unfinished_BK & (begun_BKL.sum(2) % 2 != 0)
    dropped_BK[:, 0] = False
    expected_BKL = whole_BKL.masked_scatter(
        dropped_BK.unsqueeze(2).expand_as(whole_BKL), whole_BKL[:, :1].expand_as(whole_BKL)[dropped_BK]
    )
    assert torch.equal(words_BKL, expected_BKL) and dropped_BK.any() and (unfinished_BK & ~dropped_BK).any()
    everything = model.sample(reference, target, chance_BKL, lambda words_BKL: words_BKL[:, :, 0] > 0)
    assert torch.equal(everything, whole_BKL)


def test_rows_that_are_given_up_are_not_decoded(captioner, monkeypatch):
    model, rows = of_many_lengths(captioner), []
    reference, target = pairs(10)
    advance = model.advance

    def counted(last_R, place, state):
        rows.append(len(last_R))
        return advance(last_R, place, state)

    monkeypatch.setattr(model, "advance", counted)
    model.sample(reference, target, torch.rand(10, 6, 8), lambda words_BKL: words_BKL[:, :, 0] < 0)
    later = rows[decoding.BEGINNING :]
    assert rows[decoding.BEGINNING - 1] > 10 >= max(later) > 0  # the first captions


def test_captions_are_sampled_as_often_as_they_are_likely(captioner):
    model = captioner(vocabulary=len(SPECIAL) + 2, seed=0, end=1.0, max_words=2, layers=1)
    reference, target = looks(1, 0), looks(1, 10)
    words_KL = model.sample(reference, target, torch.rand(1, 3000, 2))[0]
    for said in all_captions(range(len(SPECIAL), len(SPECIAL) + 2), 2):
        allowed_LV = model(reference, target, torch.tensor([[START, *said]]))[0].clone()
        allowed_LV[:, [PAD, START, UNKNOWN]] = float("-inf")
        allowed_LV[0, END] = float("-inf")
        next_words = [*said, END][:2]
        chances_LV = allowed_LV.softmax(-1)
        expected = chances_LV[0, next_words[0]] * chances_LV[1, next_words[1]]
        words_L = torch.tensor([*said, PAD][:2])
        assert abs((words_KL == words_L).all(1).float().mean() - expected) < 0.04


def test_padding_of_words_and_attributes_changes_no_score(captioner):
    model, (reference, target) = captioner(), pairs(6)
    words_BL = torch.randint(4, 20, (6, 5))
    scores_BLV = model(reference, target, words_BL)
    longer_BL = torch.nn.functional.pad(words_BL, (0, 3), value=PAD)
    more_attributes = [
        ItemInputs(x.features_BD, torch.nn.functional.pad(x.attributes_BA, (0, 4)))
        for x in (reference, target)
    ]
    torch.testing.assert_close(model(*more_attributes, longer_BL)[:, :5], scores_BLV, atol=1e-5, rtol=1e-4)


def test_the_order_of_attributes_changes_nothing_but_whose_they_are_does(captioner):
    model, (reference, target) = captioner(), pairs(6)
    words_BL = torch.randint(4, 20, (6, 5))
    scores_BLV = model(reference, target, words_BL)
    turned = [ItemInputs(x.features_BD, x.attributes_BA.flip(1)) for x in (reference, target)]
    torch.testing.assert_close(model(*turned, words_BL), scores_BLV, atol=1e-5, rtol=1e-4)
    swapped = (
        reference._replace(attributes_BA=target.attributes_BA),
        target._replace(attributes_BA=reference.attributes_BA),
    )
    assert not torch.allclose(model(*swapped, words_BL), scores_BLV, atol=1e-3)


def test_only_the_difference_of_the_features_is_seen(captioner):
    model, (reference, target) = captioner(), pairs(6)
    moved = [x._replace(features_BD=x.features_BD + 5) for x in (reference, target)]
    words_BL = torch.randint(4, 20, (6, 5))
    torch.testing.assert_close(
        model(*moved, words_BL), model(reference, target, words_BL), atol=1e-4, rtol=1e-4
    )


def of_many_lengths(captioner):
    """A captioner for which whether to end depends much on the pair."""
    kind = captioner.args[0]
    model = captioner(seed=2, end=5.0 if kind == "transformer" else 0.0)
    model.out.weight.data[END] *= 4
    for name, weight in model.named_parameters():
        if "image" in name or "attribute" in name or "memory.out" in name:
            weight.data *= 5
    return model


def test_captions_that_end_leave_and_the_others_say_what_they_say_alone(captioner, monkeypatch):
    model, (reference, target) = of_many_lengths(captioner), pairs(40)
    rows, advance = [], model.advance
    monkeypatch.setattr(
        model, "advance", lambda last_R, *rest: rows.append(len(last_R)) or advance(last_R, *rest)
    )
    words_BL = model.beam(reference, target, 4)
    assert {1, model.max_words} <= set((words_BL != PAD).sum(1).tolist())  # of very different lengths
    assert rows[0] == 40 and rows[1] > 40 and rows[-1] < max(rows)
    for row in range(0, 40, 8):
        alone_BL = model.beam(
            *(ItemInputs(*(x[row : row + 1] for x in looks[:2])) for looks in (reference, target)), 4
        )
        assert torch.equal(alone_BL[0], words_BL[row])
    rows.clear()
    lengths_B = (model.greedy(reference, target) != PAD).sum(1)
    assert rows == [int((lengths_B >= place).sum()) for place in range(len(rows))]


def test_captions_that_stay_after_their_end_say_the_same(captioner, monkeypatch):
    model, (reference, target), chance_BKL = of_many_lengths(captioner), pairs(40), torch.rand(40, 3, 8)

    def said():
        return (
            model.greedy(reference, target),
            model.beam(reference, target, 4),
            model.sample(reference, target, chance_BKL),
            model.sample(reference, target, chance_BKL, lambda words_BKL: words_BKL[:, :, 0] % 2 == 0),
        )

    expected = said()
    monkeypatch.setattr(decoding, "drops_finished", lambda device: False)
    assert all(torch.equal(one, other) for one, other in zip(said(), expected, strict=True))
    assert len((expected[0] != PAD).sum(1).unique()) > 1


def test_two_captions_of_a_pair_score_as_each_of_them_alone(captioner):
    model, (reference, target) = captioner(), pairs(6)
    words_RL = torch.randint(4, 20, (12, 5))
    twice = [ItemInputs(*(x.repeat_interleave(2, 0) for x in looks[:2])) for looks in (reference, target)]
    torch.testing.assert_close(
        model(reference, target, words_RL), model(*twice, words_RL), atol=1e-5, rtol=1e-4
    )


def test_without_attributes_they_are_not_looked_at(captioner):
    model = captioner(attributes=0)
    reference, target = pairs(3)
    blind = [ItemInputs(x.features_BD, torch.zeros_like(x.attributes_BA)) for x in (reference, target)]
    assert torch.equal(model.greedy(reference, target), model.greedy(*blind))

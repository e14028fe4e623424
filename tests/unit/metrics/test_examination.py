"""How often places are looked at, from clicks on products at random places."""

import numpy as np
import pytest

from fashioniq.metrics.examination import counted, examination, position_bias
from fashioniq.service.exploring import place_probabilities

EXAMINED_P = 1 / np.arange(1, 9) ** 0.7
RELEVANCE_R = np.array([0.12, 0.1, 0.09, 0.08, 0.08, 0.07, 0.03])
PLACE_RP = np.array([place_probabilities(rank, 8, 1000) for rank in range(50)])
SHOWN_RP = np.vstack([PLACE_RP[:6], PLACE_RP[6:].sum(0)])


def test_expected_clicks_give_the_examination_of_each_place():
    shown_RP = 1e7 * SHOWN_RP
    assert examination(shown_RP * EXAMINED_P * RELEVANCE_R[:, None], shown_RP) == pytest.approx(
        EXAMINED_P, rel=1e-4
    )


def test_clicks_of_a_log_give_it_with_some_noise():
    shown_RP = np.round(30_000 * SHOWN_RP)
    clicks_RP = np.random.default_rng(0).poisson(shown_RP * EXAMINED_P * RELEVANCE_R[:, None])
    found_P = examination(clicks_RP, shown_RP)
    assert found_P[0] == 1 and found_P == pytest.approx(EXAMINED_P, rel=0.2)
    assert (clicks_RP.sum(0) / clicks_RP.sum(0)[0])[7] < 0.7 * EXAMINED_P[
        7
    ]  # without the relevance of the ranks


def test_few_clicks_say_little_and_none_nothing():
    shown_RP = np.full((2, 3), 1000)
    many_RP = np.array([[50, 50, 24], [50, 50, 25]])
    assert examination(many_RP, shown_RP)[2] == pytest.approx(0.49, abs=0.02)
    assert examination(many_RP // 25, shown_RP)[2] == pytest.approx(0.4, abs=0.1)
    assert examination(np.eye(2, 3), shown_RP)[2] > 0.4  # of two clicks
    assert examination(np.zeros((2, 3)), shown_RP) is None


@pytest.mark.parametrize("clicks", [np.zeros(3), np.zeros((2, 3)), np.full((2, 2), -1)])
def test_other_counts_are_refused(clicks):
    with pytest.raises(ValueError, match="same shape"):
        examination(clicks, np.full((2, 2), 9))


def test_drawn_products_are_counted_together():
    clicks_RP, shown_RP = counted(
        [[0, 30, 1], [9, 0, 1], [0, 1, -1]], [[0, 1, 0], [0, 1, 0], [1, 0, 0]], first=2
    )
    assert shown_RP.tolist() == [[2, 1, 0], [0, 1, 2], [1, 1, 0]]
    assert clicks_RP.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]]


def test_places_after_what_the_shopper_looked_for_do_not_count():
    draw = np.random.default_rng(0)
    rank_NK = draw.permuted(np.tile(np.arange(3), (60_000, 1)), axis=1)
    examined_NK = draw.random(rank_NK.shape) < [1, 0.7, 0.5]
    final_NK = examined_NK & (rank_NK == draw.integers(9, size=(60_000, 1)))
    examined_NK &= final_NK.cumsum(1) - final_NK == 0  # nobody looks further
    clicked_NK = final_NK | (examined_NK & (draw.random(rank_NK.shape) < 0.3))
    assert examination(*counted(rank_NK, clicked_NK, 3, final_NK)) == pytest.approx([1, 0.7, 0.5], abs=0.03)
    assert examination(*counted(rank_NK, clicked_NK, 3))[2] < 0.47


def explored_log(count, seed):
    """Ranks, clicks and final choices of `count` answers of three places, of which the second is looked at in 70 %."""
    draw = np.random.default_rng(seed)
    rank_NP = draw.permuted(np.tile(np.arange(3), (count, 1)), axis=1)
    examined_NP = draw.random(rank_NP.shape) < [1, 0.7, 0.5]
    final_NP = examined_NP & (rank_NP == draw.integers(9, size=(count, 1)))
    examined_NP &= final_NP.cumsum(1) - final_NP == 0
    return rank_NP, final_NP | (examined_NP & (draw.random(rank_NP.shape) < 0.3)), final_NP


def test_the_influence_of_an_answer_is_what_leaving_it_out_changes():
    rank_NP, clicked_NP, final_NP = explored_log(3000, seed=0)
    bias = position_bias(rank_NP, clicked_NP, 3, final_NP, np.arange(3000))
    assert bias.influence_MP.sum(0) == pytest.approx(0, abs=0.01) and (bias.influence_MP[:, 0] == 0).all()
    for left_out in range(0, 3000, 100):
        kept = np.arange(3000) != left_out
        without_P = examination(*counted(rank_NP[kept], clicked_NP[kept], 3, final_NP[kept]))
        moved_P = np.log(bias.examination_P / without_P)
        assert moved_P == pytest.approx(bias.influence_MP[left_out], abs=2e-5)


def test_influences_tell_how_uncertain_the_examination_is():
    logs = [explored_log(1000, seed) for seed in range(200)]
    found = [position_bias(rank, clicked, 3, final, np.arange(1000)) for rank, clicked, final in logs]
    deviation_P = np.std([np.log(one.examination_P) for one in found], 0)
    predicted_P = np.mean([np.sqrt((one.influence_MP**2).sum(0)) for one in found], 0)
    assert predicted_P == pytest.approx(deviation_P, rel=0.12)


def test_without_a_choice_there_is_no_position_bias():
    nothing_NP = np.zeros((5, 3), dtype=bool)
    assert position_bias(np.tile(np.arange(3), (5, 1)), nothing_NP, 3, nothing_NP, np.arange(5)) is None

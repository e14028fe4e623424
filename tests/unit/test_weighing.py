"""Weights of words by the ranks of the targets of captions."""

import msgspec
import numpy as np
import pytest
import torch

from fashioniq.data.wording import OUTWEIGHS, Weights, obeying
from fashioniq.loop.weighing import MEMORY, Asked, best_weights


def asked(similar, lexical, wishes, candidate=0, target=1):
    return Asked(torch.tensor(similar), (np.array(lexical), np.array(wishes)), candidate, target)


def test_the_product_shown_is_no_rival_and_equal_products_share_their_places():
    weights, figures = best_weights([asked([0.9, 0.5, 0.5, 0.5], [0.0] * 4, [0.0] * 4)])
    assert figures == pytest.approx({"captions": 1, "near": 10 / 11, "without": 10 / 11})
    assert weights == obeying(0.0)  # wishes that no caption has cost nothing


def test_words_that_tell_the_target_outweigh_similarity():
    weights, figures = best_weights([asked([0.0, 0.1, 0.9, 0.8], [0.0] * 4, [0.0, 1.0, 0.0, 0.0])])
    assert weights == obeying(0.0)
    assert figures["near"] == 1 and figures["without"] == pytest.approx(10 / 12)


def test_wishes_that_mislead_get_the_share_of_a_small_weight():
    helps = asked([0.0, 0.50, 0.54, 0.3], [0.0] * 4, [0.0, 1.0, 0.0, 0.0])
    misleads = asked([0.0, 0.50, 0.10, 0.2], [0.0] * 4, [0.0, 0.0, 1.0, 1.0])
    weights, _ = best_weights([helps, misleads], share=1 / 2)
    assert weights == Weights(0.0, 0.025, OUTWEIGHS, MEMORY, full=0.05) and OUTWEIGHS > 1
    assert (
        msgspec.json.decode(msgspec.json.encode(weights), type=Weights) == weights
    )  # a run has them in a file


def test_lexical_search_counts_with_the_least_weight_that_is_best():
    weights, _ = best_weights([asked([0.0, 0.50, 0.53, 0.1], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])])
    assert (weights.lexical, weights.wanted, weights.denied) == (0.04, 0.0, 0.0)  # labels tell nothing


def test_lexical_search_gets_its_share_too():
    told = asked([0.0, 0.50, 0.53, 0.1], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    assert best_weights([told], share=1 / 2)[0].lexical == 0.02

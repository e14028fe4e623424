"""The token of attribute scores, against the formula, one step at a time."""

import torch
from torch import nn

from fashioniq.data.items import ItemInputs
from fashioniq.models.attributes import AttributeScores
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig

FEATURES, ATTRIBUTES, WIDTH = 5, 7, 4


def scores_of(head):
    torch.manual_seed(1)
    scores = AttributeScores(features=FEATURES, attributes=ATTRIBUTES, width=WIDTH)
    scores.take(head)
    return scores


def test_the_token_is_a_linear_layer_on_the_normalized_difference_of_the_scores():
    torch.manual_seed(0)
    head = nn.Linear(FEATURES, ATTRIBUTES)
    one_BD, other_BD = torch.randn(9, FEATURES), torch.randn(9, FEATURES)
    scores = scores_of(head)
    difference_BA = head(one_BD) - head(other_BD)
    mean_A, deviation_A = difference_BA.mean(0), (difference_BA.var(0, unbiased=False) + 1e-5).sqrt()
    wanted_BW = scores.linear((difference_BA - mean_A) / deviation_A)
    assert torch.allclose(scores(one_BD - other_BD), wanted_BW, atol=1e-5)
    running_A = 0.1 * difference_BA.var(0) + 0.9
    assert torch.allclose(scores.norm.running_var, running_A, atol=1e-5)
    single_1W = scores(one_BD[:1])  # one example has no variance: as in evaluation
    scores.eval()
    assert torch.equal(scores(one_BD[:1]), single_1W)
    assert torch.allclose(scores(one_BD)[:1], single_1W, atol=1e-6)


def test_the_head_of_the_predictor_is_not_trained():
    scores = scores_of(nn.Linear(FEATURES, ATTRIBUTES))
    assert "head_AD" not in dict(scores.named_parameters()) and "head_AD" in scores.state_dict()


def test_a_captioner_with_scores_does_not_read_the_highest_attributes():
    torch.manual_seed(0)
    config = CaptionerConfig(width=8, heads=2, hidden=16, layers=1)
    captioner = Captioner(config, vocabulary=9, features=FEATURES, attributes=ATTRIBUTES, scores=True).eval()
    captioner.scores.take(nn.Linear(FEATURES, ATTRIBUTES))
    words_RL = torch.tensor([[4, 5, 6]])

    def said(attributes, features=1.0):
        reference, target = (
            ItemInputs(torch.full((1, FEATURES), x), torch.tensor([attributes])) for x in (0.0, features)
        )
        return captioner(reference, target, words_RL)

    assert torch.equal(said([1, 2]), said([3, 0])) and not torch.allclose(said([1, 2]), said([1, 2], 2.0))
    before = said([1, 2])
    captioner.scores.head_AD.mul_(2)
    assert not torch.allclose(said([1, 2]), before)

import math

import pytest
import torch
from torch.nn.functional import normalize

from fashioniq.training.losses import (
    TURN_LOSSES,
    contrastive,
    cross_entropy,
    pairwise_ranking,
    recall_surrogate,
    triplet,
    triplet_unsquared,
    turn_loss,
)

LOSSES = [(triplet, 0.1), (triplet_unsquared, 10.0)]


def itself(batch):
    return torch.eye(batch, dtype=torch.bool)


def naive(query_BTD, target_BD, same_BB, margin, power):
    total = 0.0
    for b, dialog in enumerate(query_BTD.double()):
        others = [target for c, target in enumerate(target_BD) if not same_BB[b, c]]
        for query in dialog:
            near = (query - target_BD[b]).norm() ** power
            total += sum(
                max(0.0, (near - (query - other).norm() ** power + margin).item()) for other in others
            ) / max(1, len(others))
    return total / len(query_BTD)


TWO_DIALOGS = torch.tensor([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [0.5, 1.0]]])
TWO_TARGETS = torch.tensor([[1.0, 0.0], [0.0, 0.5]])


def test_the_triplet_loss_by_hand():
    # first dialog: 1 − 0.25 + 0.1, then 0 − 1.25 + 0.1, clamped to 0; second: 0 − 1.25 + 0.1, clamped; then
    # 0.5 − 1.25 + 0.1, clamped
    assert triplet(TWO_DIALOGS, TWO_TARGETS, itself(2)).item() == pytest.approx(0.85 / 2)


def test_the_unsquared_loss_by_hand():
    far = math.sqrt(1.25)
    turns = [1 - 0.5 + 10, 0 - far + 10, 0 - far + 10, math.sqrt(0.5) - far + 10]
    assert triplet_unsquared(TWO_DIALOGS, TWO_TARGETS, itself(2)).item() == pytest.approx(
        sum(turns) / 2, rel=1e-5
    )


@pytest.mark.parametrize(("loss", "margin", "power"), [(triplet, 0.1, 2), (triplet_unsquared, 10.0, 1)])
def test_the_loss_is_that_of_loops_over_dialogs_turns_and_other_targets(loss, margin, power):
    torch.manual_seed(0)
    query_BTD, target_BD, same_BB = torch.randn(7, 3, 5), torch.randn(7, 5), itself(7)
    same_BB[1, 4] = same_BB[4, 1] = True
    target_BD[4] = target_BD[1]
    assert loss(query_BTD, target_BD, same_BB).item() == pytest.approx(
        naive(query_BTD, target_BD, same_BB, margin, power), rel=1e-4
    )


def test_the_ranking_loss_is_that_of_loops_over_other_images_and_other_queries():
    torch.manual_seed(1)
    query_BTD, target_BD, same_BB = torch.randn(6, 2, 5), torch.randn(6, 5), itself(6)
    same_BB[1, 4] = same_BB[4, 1] = True
    target_BD[4] = target_BD[1]

    def score(query, target):
        return torch.cosine_similarity(query, target, dim=0).item()

    total = 0.0
    for b in range(6):
        others = [c for c in range(6) if not same_BB[b, c]]
        for t in range(2):
            own = score(query_BTD[b, t], target_BD[b])
            images = [max(0.0, 0.3 - own + score(query_BTD[b, t], target_BD[c])) for c in others]
            queries = [max(0.0, 0.3 - own + score(query_BTD[c, t], target_BD[b])) for c in others]
            total += (sum(images) + sum(queries)) / len(others) / 6
    assert pairwise_ranking(query_BTD, target_BD, same_BB, 0.3).item() == pytest.approx(total, rel=1e-4)
    order_B = torch.randperm(6)  # the images of a gallery have another order than the dialogs
    mixed = pairwise_ranking(query_BTD, target_BD[order_B], same_BB[:, order_B], 0.3)
    assert mixed.item() == pytest.approx(total, rel=1e-4)


def test_the_ranking_loss_counts_other_images_and_other_queries_by_hand():
    """Cosines of query 0: 0.6 with its target, 0.8 with the other; of query 1: 1 with its target, 0 with the other."""
    query_BTD, target_BD = torch.tensor([[[0.6, 0.8]], [[0.0, 1.0]]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    images = (0.5 - 0.6 + 0.8) + 0  # of query 1: 0.5 − 1 + 0
    queries = 0 + (0.5 - 1 + 0.8)  # of target 0: 0.5 − 0.6 + 0
    assert pairwise_ranking(query_BTD, target_BD, itself(2), 0.5).item() == pytest.approx(
        (images + queries) / 2
    )


def test_a_loss_by_name_has_the_margin_or_temperature_that_is_given_and_else_its_own():
    torch.manual_seed(0)
    batch = torch.randn(4, 3, 5), torch.randn(4, 5), itself(4)
    for name, loss in TURN_LOSSES.items():
        option = "temperature" if name == "cross-entropy" else "margin"
        assert turn_loss(name)(*batch) == loss(*batch)
        assert turn_loss(name, **{option: 0.7})(*batch) == loss(*batch, 0.7) != loss(*batch)
        assert turn_loss(name, **{option: 0.0 if option == "margin" else 2.0})(*batch) != loss(*batch)


@pytest.mark.parametrize("scale", [1.0, 2.0, 4.0])
def test_a_loss_of_scaled_vectors_has_their_distances(scale):
    torch.manual_seed(0)
    query_BTD, target_BD = torch.randn(4, 3, 16) / 4, torch.randn(4, 16) / 4
    loss = turn_loss("triplet-unsquared", scale=scale)
    assert loss(query_BTD, target_BD, itself(4)).item() == pytest.approx(
        naive(scale * query_BTD, scale * target_BD, itself(4), 10.0, 1), rel=1e-4
    )


def test_a_loss_by_name_has_its_own_margin_and_scale_by_default():
    vectors = (TWO_DIALOGS, TWO_TARGETS, itself(2))
    for name, loss in TURN_LOSSES.items():
        assert turn_loss(name)(*vectors) == loss(*vectors)
    assert turn_loss("triplet", margin=0.3)(*vectors) == triplet(*vectors, margin=0.3) > triplet(*vectors)
    assert turn_loss("cross-entropy", temperature=0.5)(*vectors) == cross_entropy(*vectors, 0.5)


@pytest.mark.parametrize(("loss", "margin"), LOSSES)
@pytest.mark.parametrize("batch", [2, 9])
def test_at_equal_distances_the_loss_is_the_margin_of_every_turn(loss, margin, batch):
    target_BD = torch.nn.functional.normalize(torch.randn(batch, 8), dim=1)
    assert loss(torch.zeros(batch, 5, 8), target_BD, itself(batch)).item() == pytest.approx(
        5 * margin, rel=1e-4
    )


@pytest.mark.parametrize(("loss", "margin"), LOSSES)
def test_a_negative_that_is_the_target_does_not_count(loss, margin):
    torch.manual_seed(0)
    query_BTD, target_BD = torch.randn(3, 2, 5), torch.randn(3, 5)
    target_BD[1] = target_BD[0]  # two dialogs want the same
    same_BB = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    value = loss(query_BTD, target_BD, same_BB)
    assert value.item() == pytest.approx(
        naive(query_BTD, target_BD, same_BB, margin, 2 if loss is triplet else 1), rel=1e-4
    )
    assert value.item() != pytest.approx(loss(query_BTD, target_BD, itself(3)).item(), rel=1e-4)
    assert loss(query_BTD[:2], target_BD[:2], same_BB[:2, :2]) == 0


def test_cross_entropy_is_that_of_the_share_of_the_target_among_the_images():
    torch.manual_seed(0)
    query_BTD, vectors_ND, own_B = torch.randn(4, 3, 5), torch.randn(9, 5), torch.tensor([3, 0, 8, 3])
    same_BN = own_B.unsqueeze(1) == torch.arange(9)
    weights_BTN = (-(query_BTD.unsqueeze(2) - vectors_ND).square().sum(-1) / 0.5).double().exp()
    shares_BT = weights_BTN[torch.arange(4), :, own_B] / weights_BTN.sum(-1)
    assert cross_entropy(query_BTD, vectors_ND, same_BN, 0.5).item() == pytest.approx(
        -shares_BT.log().sum(1).mean().item(), rel=1e-4
    )
    at_start = cross_entropy(torch.zeros(4, 3, 5), torch.nn.functional.normalize(vectors_ND, dim=1), same_BN)
    assert at_start.item() == pytest.approx(3 * math.log(9), rel=1e-4)  # chance


def test_the_recall_surrogate_is_that_of_ranks_among_the_images():
    torch.manual_seed(0)
    query_BTD, vectors_ND = normalize(torch.randn(4, 3, 5), dim=-1), normalize(torch.randn(9, 5), dim=-1)
    own_B, total = [3, 0, 8, 3], 0.0
    for query_TD, own in zip(query_BTD, own_B, strict=True):
        for cosine_N in query_TD @ vectors_ND.T:
            before_N = torch.sigmoid((cosine_N - cosine_N[own]) / 0.1)
            rank = 1 + before_N.sum() - before_N[own]
            total += sum(1 - torch.sigmoid(k - rank) for k in (1, 2, 4, 8, 16)) / 5
    same_BN = torch.tensor(own_B).unsqueeze(1) == torch.arange(9)
    assert recall_surrogate(query_BTD, vectors_ND, same_BN, 0.1).item() == pytest.approx(
        (total / 4).item(), rel=1e-4
    )


def test_the_recall_surrogate_of_a_rank_is_how_far_it_is_below_1_2_4_8_and_16():
    vectors_ND, own = torch.eye(41), torch.arange(41) == 40
    for rank, places in ((1, (0, 1, 3, 7, 15)), (6, (-5, -4, -2, 2, 10)), (16, (-15, -14, -12, -8, 0))):
        query_D = vectors_ND[40] + 2 * vectors_ND[: rank - 1].sum(0)  # these are clearly before the target
        missed = [1 / (1 + math.exp(place)) for place in places]
        loss = recall_surrogate(query_D.view(1, 1, -1), vectors_ND, own.unsqueeze(0))
        assert loss.item() == pytest.approx(sum(missed) / 5, rel=1e-5)
    two_turns = recall_surrogate(torch.stack([query_D, query_D]).unsqueeze(0), vectors_ND, own.unsqueeze(0))
    assert two_turns.item() == pytest.approx(2 * loss.item())


def test_a_target_that_is_twice_among_the_images_is_no_negative_of_itself():
    torch.manual_seed(0)
    query_BTD, vectors_ND = torch.randn(2, 3, 5), torch.randn(4, 5)
    vectors_ND[3] = vectors_ND[0]
    same_BN = torch.tensor([[True, False, False, True], [False, True, False, False]])
    for loss in (triplet, cross_entropy):
        only_first = loss(query_BTD[:1], vectors_ND[:3], same_BN[:1, :3])
        assert loss(query_BTD[:1], vectors_ND, same_BN[:1]).item() == pytest.approx(
            only_first.item(), rel=1e-4
        )


def test_a_batch_of_one_dialog_has_no_loss():
    for loss in TURN_LOSSES.values():
        assert loss(torch.randn(1, 3, 4), torch.randn(1, 4), itself(1)) == 0


def test_the_order_of_a_batch_changes_nothing():
    query_BTD, target_BD, order = torch.randn(6, 3, 5), torch.randn(6, 5), torch.randperm(6)
    for loss in TURN_LOSSES.values():
        torch.testing.assert_close(
            loss(query_BTD[order], target_BD[order], itself(6)), loss(query_BTD, target_BD, itself(6))
        )


def test_the_loss_falls_as_queries_near_their_targets():
    torch.manual_seed(0)
    target_BD = torch.randn(20, 5)
    values = [
        triplet(share * target_BD.unsqueeze(1), target_BD, itself(20)).item()
        for share in (-1.0, 0.0, 0.5, 1.0)
    ]
    assert values == sorted(values, reverse=True) and values[-1] < 0.1 * values[0]


@pytest.mark.parametrize("loss", TURN_LOSSES.values(), ids=TURN_LOSSES)
def test_gradients_are_finite_even_on_the_target(loss):
    query_BTD, target_BD = torch.ones(2, 1, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    loss(query_BTD, target_BD, itself(2)).backward()
    assert query_BTD.grad.isfinite().all() and target_BD.grad.isfinite().all()


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (triplet, {"margin": 0.1}),
        (triplet_unsquared, {"margin": 10.0}),
        (pairwise_ranking, {"margin": 0.2}),
        (cross_entropy, {"temperature": 0.05}),
        (contrastive, {"temperature": 0.07}),
        (recall_surrogate, {"temperature": 0.01}),
    ],
)
def test_margins_and_temperatures_are_by_default_those_of_the_sources(loss, options):
    generator = torch.Generator().manual_seed(0)
    query_BTD, vectors_ND = (torch.randn(*shape, generator=generator) for shape in ((4, 2, 3), (4, 3)))
    query_BTD, vectors_ND = (normalize(some, dim=-1) for some in (query_BTD, vectors_ND))
    of_default, of_options = (loss(query_BTD, vectors_ND, itself(4), **given) for given in ({}, options))
    assert of_default == of_options and of_default.isfinite()

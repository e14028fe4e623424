"""Queries from text and generated pictures: fusion, failures, costs, and two bounds on every generator."""

import numpy as np
import pytest
import torch
from PIL import Image

from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.data.dialogues import last_round
from fashioniq.data.items import Items
from fashioniq.encoders.protocol import unit
from fashioniq.generators.described_products import WEIGHTS
from fashioniq.generators.illustrated import Costs, Illustrated, fuse
from fashioniq.generators.pictures import BETWEEN, Generated
from fashioniq.llm.rewriting import prompts
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Turn
from fashioniq.loop.rollout import System, rollout

N, D, B, K = 60, 8, 5, 3


def vectors(*shape, seed=0):
    return unit(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)))


def fused(weight=0.7, fusion="sum", usable_BK=None):
    usable_BK = torch.ones(B, K, dtype=torch.bool) if usable_BK is None else usable_BK
    return fuse(vectors(B, D), vectors(B, K, D, seed=1), usable_BK, weight, fusion)


def ranked(query_BD):
    return gallery().top(query_BD, N)[1]


def by_scores(text_weight, picture_weights_K):
    """Items by the weighted sum of cosine similarities, computed one by one."""
    text_BD, picture_BKD, gallery_ND = vectors(B, D), vectors(B, K, D, seed=1), vectors(N, D, seed=2)
    score_BN = torch.zeros(B, N)
    for row in range(B):
        for item in range(N):
            score_BN[row, item] = text_weight * float(text_BD[row] @ gallery_ND[item]) + sum(
                weight * float(picture_BKD[row, number] @ gallery_ND[item])
                for number, weight in enumerate(picture_weights_K)
            )
    return score_BN.argsort(dim=1, descending=True, stable=True)


@pytest.mark.parametrize(("fusion", "share"), [("sum", 0.3), ("mean", 0.1)])
def test_fusion_of_vectors_ranks_like_fusion_of_scores(fusion, share):
    assert torch.equal(ranked(fused(0.7, fusion)), by_scores(0.7, [share] * K))


def test_three_summed_pictures_weigh_more_than_their_mean():
    assert not torch.equal(ranked(fused(0.7, "sum")), ranked(fused(0.7, "mean")))


@pytest.mark.parametrize("fusion", ["sum", "mean"])
def test_a_dialog_without_a_usable_picture_is_searched_with_its_text(fusion):
    usable_BK = torch.ones(B, K, dtype=torch.bool)
    usable_BK[2] = False
    query_BD = fused(0.0, fusion, usable_BK)
    assert torch.equal(query_BD[2], vectors(B, D)[2]) and not torch.equal(query_BD[1], vectors(B, D)[1])


def test_a_failed_picture_does_not_change_the_mean_of_the_others():
    usable_BK = torch.tensor([[True, True, False]] * B)
    text_BD, picture_BKD = vectors(B, D), vectors(B, K, D, seed=1)
    expected = 0.5 * text_BD + 0.25 * (picture_BKD[:, 0] + picture_BKD[:, 1])
    assert torch.allclose(fused(0.5, "mean", usable_BK), expected, atol=1e-6)


@pytest.mark.parametrize(("weights", "first_three"), [("paper", [0.7, 0.7, 0.5]), ("code", [0.8, 0.8, 0.5])])
def test_the_weights_of_dar_change_with_the_third_round(weights, first_three):
    assert WEIGHTS[weights] == first_three


# In dialogs: prompts are the numbers of products, pictures are of a single color that is read as a number


class Texts:
    """Text retriever with the same query for everything."""

    def start(self, batch):
        return None

    def step(self, state, turn):
        return vectors(1, D, seed=9).expand(len(turn.reply.texts), D), None


class Numbers:
    """User that says the number of the target and of the turn, and keeps the offers."""

    def __init__(self):
        self.offers = []

    def reply(self, target_B, offer, turn):
        self.offers.append(offer)
        return Message(texts=[f"{target} {turn}" for target in target_B.tolist()])


class Painter:
    """Generator whose pictures have the color that `colour` makes of a request; None fails with `status`."""

    def __init__(self, colour, status="error"):
        self.identity = {"backend": "painter"}
        self.colour, self.status, self.requests = colour, status, []

    def generate(self, requests):
        self.requests += requests
        made = []
        for request in requests:
            colour = self.colour(request)
            picture = None if colour is None else Image.new("RGB", (4, 4), (colour, 0, 0))
            status = self.status if picture is None else "ok"
            made.append(Generated(picture, status, request.seed, request.prompt, seconds=0.5))
        return made


def encoded(pictures):
    return vectors(N, D, seed=2)[[np.asarray(picture)[0, 0, 0].item() for picture in pictures]]


def gallery():
    vectors_ND = vectors(N, D, seed=2)
    return Gallery(Items.without_attributes([str(n) for n in range(N)], vectors_ND), vectors_ND)


def illustrated(generator, weights=(0.0,), **options):
    return Illustrated(Texts(), prompts(last_round), generator, encoded, weights=weights, **options)


def dialogs(generator, turns=3, **options):
    user, retriever = Numbers(), illustrated(generator, **options)
    done = rollout(System(retriever, GeneratedPicture(), gallery()), user, torch.arange(N), Message(), turns)
    return done.ranks, retriever.costs.rows(), user


def target_of(request):
    return int(request.prompt.split()[0])


def test_a_generator_of_the_targets_picture_ranks_every_target_first_at_round_0():
    ranks, _, _ = dialogs(Painter(target_of))
    assert (ranks == 0).all()


def test_a_generator_of_noise_stays_at_chance():
    ranks, _, _ = dialogs(Painter(lambda request: request.seed % N), turns=20)
    hits_T = (ranks < 10).float().mean(0)
    assert abs(hits_T.mean() - 10 / N) < 0.03  # three standard deviations of 1,200 draws
    assert abs(ranks.float().mean() - (N - 1) / 2) < 1.5


def test_the_user_sees_the_picture_of_the_last_description():
    _, _, user = dialogs(Painter(target_of), turns=2)
    assert user.offers[0] == Message()
    assert [np.asarray(picture)[0, 0, 0] for picture in user.offers[1].pictures] == list(range(N))


def test_pictures_depend_on_seed_and_prompt_alone():
    first, again, other = Painter(target_of), Painter(target_of), Painter(target_of)
    dialogs(first, count=2)
    dialogs(again, count=2)
    dialogs(other, count=2, seed=1)
    assert first.requests == again.requests and len(set(first.requests)) == 2 * 3 * N
    assert not set(first.requests) & set(other.requests)


def test_a_failed_picture_keeps_the_target_in_the_sample_and_is_counted():
    generator = Painter(
        lambda request: None if target_of(request) == 7 else target_of(request), status="black"
    )
    ranks, costs, user = dialogs(generator, turns=2)
    by_text, _, _ = dialogs(Painter(lambda request: None), turns=2)
    assert len(ranks) == N and torch.equal(ranks[7], by_text[7]) and (ranks[:7] == 0).all()
    tried = [request.seed for request in generator.requests if request.prompt == "7 0"]
    assert tried == [tried[0], tried[0] + BETWEEN, tried[0] + 2 * BETWEEN]
    assert user.offers[1].pictures[7] is None
    assert costs[0] == {
        "pictures": (N + 2) / N,
        "failed": 3 / N,
        "without_picture": 1 / N,
        "unchanged": 0.0,
        "seconds": 0.5 * (N + 2) / N,
        "gpu_gb": 0.0,
    }


def test_an_unchanged_prompt_keeps_its_pictures():
    generator, said = Painter(target_of), ["3", "3", "5"]
    retriever = illustrated(generator)
    state, queries = retriever.start(2), []
    for prompt in said:
        query_BD, state = retriever.step(state, Turn(Message(), Message(texts=[prompt, "4"])))
        queries.append(query_BD)
    assert [request.prompt for request in generator.requests] == ["3", "4", "5"]
    assert torch.equal(queries[0], queries[1]) and torch.equal(queries[1][1], queries[2][1])
    assert torch.allclose(queries[2][0], encoded([Image.new("RGB", (4, 4), (5, 0, 0))])[0], atol=1e-6)
    assert retriever.costs.rows()[1]["unchanged"] == 1.0


def test_several_prompts_are_drawn_in_turn():
    generator = Painter(lambda request: 0)
    retriever = illustrated(generator, count=3)
    retriever.write = lambda dialogs: [("red", "blue")] * len(dialogs)
    retriever.step(retriever.start(1), Turn(Message(), Message(texts=["any"])))
    assert [request.prompt for request in generator.requests] == ["red", "blue", "red"]
    assert len({request.seed for request in generator.requests}) == 3


def test_each_round_has_its_own_weight_of_the_text():
    retriever = illustrated(Painter(lambda request: 3), (0.0, 0.5, 1.0))
    state, text_D, picture_D = retriever.start(1), vectors(1, D, seed=9)[0], vectors(N, D, seed=2)[3]
    for weight in (0.0, 0.5, 1.0, 1.0):
        query_BD, state = retriever.step(state, Turn(Message(), Message(texts=["any"])))
        torch.testing.assert_close(query_BD[0], weight * text_D + (1 - weight) * picture_D)


def test_pictures_of_another_size_are_usable_and_no_failures():
    costs = Costs()
    costs.dialogs.update({0: 4, 1: 2})
    costs.pictures.update({(0, "ok"): 3, (0, "wrong size"): 2, (0, "black"): 1, (1, "error"): 1})
    costs.without_picture.update({0: 1})
    costs.unchanged.update({1: 1})
    costs.seconds[1] = 3.0
    assert costs.rows() == [
        {"pictures": 1.5, "failed": 0.25, "without_picture": 0.25, "unchanged": 0, "seconds": 0, "gpu_gb": 0},
        {"pictures": 0.5, "failed": 0.5, "without_picture": 0, "unchanged": 0.5, "seconds": 1.5, "gpu_gb": 0},
    ]


def test_the_most_memory_of_the_gpu_is_told_for_each_round(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 22_300_000_000)
    assert [row["gpu_gb"] for row in dialogs(Painter(target_of), turns=2)[1]] == [22.3, 22.3]

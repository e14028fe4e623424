import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items, Rows
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.measures import recall_at
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.training.dialog_sources import (
    SIMILAR,
    DialogSimulation,
    RecordedDialogs,
    RecordedTurns,
    random_others,
)
from fashioniq.training.losses import TURN_LOSSES, triplet, turn_loss
from fashioniq.training.retriever import DialogsInTurn, RetrieverTraining
from fashioniq.training.users import captioner_dialogs
from fashioniq.users.captioner import Simulator
from fashioniq.users.recorded import RecordedReplies

VOCABULARY = Vocabulary([f"word{n}" for n in range(26)])


def some_items(count):
    torch.manual_seed(count)
    return Items([str(n) for n in range(count)], torch.randn(count, 12), torch.randint(1, 10, (count, 8)))


ITEMS = {"train": some_items(30), "val": some_items(20)}
SIZES = {"width": 16, "heads": 2, "hidden": 32, "layers": 1}


def retriever(**sizes):
    config = RetrieverConfig(**SIZES, attention="both-ways")
    return DialogRetriever(config, vocabulary=len(VOCABULARY), features=12, attributes=10, **sizes)


def training(turns=2, beams=1, source=None, asker=BestItem(), **options):  # noqa: B008
    torch.manual_seed(0)
    model = retriever()
    captioner = Captioner(CaptionerConfig(**SIZES), vocabulary=len(VOCABULARY), features=12, attributes=10)
    source = source or captioner_dialogs(
        Simulator(captioner, VOCABULARY, beams), VOCABULARY, ITEMS, turns=turns, seed=0
    )
    settings = {
        "loss": triplet,
        "negatives": "batch",
        "learning_rate": 1e-3,
        "schedule": "constant",
    } | options
    return RetrieverTraining(model, source, asker, **settings), captioner


def test_another_item_is_never_the_item_itself_and_every_other_is_as_likely():
    torch.manual_seed(0)
    other_B = random_others(torch.full((9000,), 3), 10)
    counts = other_B.bincount(minlength=10).tolist()
    assert counts[3] == 0 and all(850 < count < 1150 for item, count in enumerate(counts) if item != 3)
    assert random_others(torch.arange(2), 2).tolist() == [1, 0]


def recorded_dialogs(model, items, words_BTL):
    """20 dialogs that all begin with the item 20, so that only the words can tell their targets, 0 to 19."""
    gallery = Gallery(items, model.embed_images(items.features_ND))
    system, first = System(model, BestItem(), gallery), Message(item_B=torch.full((20,), 20))
    return rollout(system, RecordedReplies.of_words(words_BTL), torch.arange(20), first, words_BTL.shape[1])


def recorded_loss(model, items, words_BTL):
    target_BD = model.embed_images(items.features_ND[:20])
    return triplet(
        recorded_dialogs(model, items, words_BTL).query_BTD, target_BD, torch.eye(20, dtype=torch.bool)
    )


def test_the_retriever_learns_20_recorded_dialogs_by_their_words():
    items = some_items(21)
    config = RetrieverConfig(width=32, heads=4, hidden=64, layers=1, attention="both-ways")
    model = DialogRetriever(config, vocabulary=len(VOCABULARY), features=12, attributes=10)
    words_BTL = torch.randint(4, len(VOCABULARY), (20, 2, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = recorded_loss(model, items, words_BTL)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        shuffled_BTL = words_BTL.roll(7, 0)
        assert recorded_loss(model, items, words_BTL) < 0.01
        assert (recorded_dialogs(model, items, words_BTL).ranks == 0).double().mean() > 0.9
        assert recorded_loss(model, items, shuffled_BTL) > 0.3  # it began with 0.2
        assert (recorded_dialogs(model, items, shuffled_BTL).ranks == 0).double().mean() < 0.3


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("negatives", ["batch", "gallery"])
@pytest.mark.parametrize("loss", TURN_LOSSES)
def test_a_step_moves_the_retriever_and_leaves_the_captioner(loss, negatives, beams):
    module, captioner = training(loss=turn_loss(loss), negatives=negatives, beams=beams)
    before = {name: tensor.clone() for name, tensor in captioner.state_dict().items()}
    module.on_train_epoch_start()
    optimizer = module.configure_optimizers()
    value = module.training_step([torch.arange(12)], 0)
    value.backward()
    optimizer.step()
    assert value > 0 and all(
        weight.grad is not None and weight.grad.isfinite().all() for weight in module.model.parameters()
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in captioner.state_dict().items())


@pytest.mark.parametrize("exclude_shown", [False, True])
def test_training_shows_a_product_again_unless_told_not_to(monkeypatch, exclude_shown):
    module, _ = training(turns=12, asker=BestItem(exclude_shown))
    shown, step = [], module.model.step
    monkeypatch.setattr(
        module.model, "step", lambda state, turn: shown.append(turn.image_BD) or step(state, turn)
    )
    module.on_train_epoch_start()
    module.training_step([torch.arange(12)], 0)
    different = [len(image_TD.unique(dim=0)) for image_TD in torch.stack(shown, 1)]
    assert set(different) == {12} if exclude_shown else min(different) < 12


PAIRS = [
    Pair("5", "7", ("word1 word2", "word3")),
    Pair("2", "9", ("word4",)),
    Pair(None, "3", ("word5",)),
    Pair("5", "8", ("word6",)),
]
SAID = {(5, 7, "word1 word2"), (5, 7, "word3"), (5, 8, "word6"), (2, 9, "word4")}


def recorded_dialogs_of_both_splits():
    recorded = {split: RecordedTurns.of_pairs(PAIRS, items, VOCABULARY, 8) for split, items in ITEMS.items()}
    return RecordedDialogs(recorded, ITEMS)


def said_by(start):
    target_B, first_B, user, *_ = start
    words = VOCABULARY.decode(user.reply(target_B, Message(item_B=first_B), 0).words_BL)
    return list(zip(target_B.tolist(), first_B.tolist(), words, strict=True))


def test_sources_take_turns_and_recorded_captions_are_drawn_uniformly():
    simulated_dialogs = training()[0].source
    source = DialogsInTurn([simulated_dialogs, recorded_dialogs_of_both_splits()])
    source.enter("train", 0, torch.device("cpu"))
    torch.manual_seed(0)
    row_B = torch.arange(30).repeat(133)
    assert source.turns == 2 and source.count("train") == 30 and source.count("val") == 20
    other = DialogsInTurn(source.sources[::-1])  # an epoch is one of the first source
    assert other.count("train") == len(SAID) and other.count("val") == 20
    assert source.train(row_B, 0).turns == source.train(row_B, 2).turns == 2
    recorded = source.train(row_B, 1)
    drawn = said_by(recorded)
    assert recorded.turns == 1 and set(drawn) == SAID
    assert all(900 < drawn.count(said) < 1100 for said in SAID)


def test_captions_that_are_recorded_for_one_split_leave_the_other_to_the_other_users():
    recorded = RecordedDialogs({"train": RecordedTurns.of_pairs(PAIRS, ITEMS["train"], VOCABULARY, 8)}, ITEMS)
    assert recorded.count("train") == len(SAID) and recorded.count("val") == 0
    source = DialogsInTurn([training()[0].source, recorded])
    source.enter("val", 0, torch.device("cpu"))
    assert list(source.val(torch.arange(20))) == ["captioner"]


def test_a_part_of_each_source_is_validated_whose_captions_are_of_all_kinds():
    pairs = [Pair(str(n % 20), str((n + 1) % 20), ("word1", "word2")) for n in range(100)]
    turns = RecordedTurns.of_pairs(pairs, ITEMS["val"], VOCABULARY, 8, joined=True)
    recorded = RecordedDialogs({"train": turns, "val": turns}, ITEMS)
    source = DialogsInTurn([training()[0].source, recorded], validated=100)
    source.enter("val", 0, torch.device("cpu"))
    assert source.count("val") == 100 and source.validated == 20
    starts = source.val(torch.arange(100))
    assert len(starts["captioner"].target_B) == 20 and len(starts["recorded"].target_B) == 100
    counts = Counter(words for *_, words in said_by(starts["recorded"]))
    assert min(counts.values()) > 20 and len(counts) == 3


@pytest.mark.parametrize("seed", [0, 1, 2, 18, 19, 20])
def test_a_dialog_of_validation_begins_with_another_product_than_its_target(seed):
    source = DialogSimulation(lambda *_: None, None, ITEMS, turns=1, seed=seed, max_words=8)
    source.enter("val", 0, torch.device("cpu"))
    (start,) = source.val(torch.arange(20)).values()
    assert (start.first_B != start.target_B).all() and sorted(start.first_B.tolist()) == list(range(20))


def test_validation_uses_all_users_and_scores_their_mean(monkeypatch):
    source = DialogsInTurn([training()[0].source, recorded_dialogs_of_both_splits()])
    module, figures = training(source=source)[0], {}
    monkeypatch.setattr(module, "log", figures.__setitem__)
    module.on_validation_epoch_start()
    for row_B in torch.arange(20).split(12):
        module.validation_step([row_B], 0)
    module.on_validation_epoch_end()
    ranks = {name: torch.cat(parts) for name, parts in module._ranks.items()}
    assert {name: tuple(rank_BT.shape) for name, rank_BT in ranks.items()} == {
        "captioner": (20, 2),
        "recorded": (4, 1),
    }
    own, recorded = figures["val_R@10_captioner"], figures["val_R@10_recorded"]
    assert figures["val_R@10_1"] == (recall_at(ranks["captioner"][:, 0], 10) + recorded) / 2
    assert figures["val_R@10_2"] == own and int(figures["val_score"]) == int((own + recorded) / 2)


def test_without_a_captioner_the_recorded_captions_alone_are_heard_each_once_and_validated(monkeypatch):
    module, _ = training(source=recorded_dialogs_of_both_splits())
    heard, figures, step = [], {}, module.model.step
    monkeypatch.setattr(module.model, "step", lambda state, turn: heard.append(turn) or step(state, turn))
    monkeypatch.setattr(module, "log", figures.__setitem__)
    module.on_train_epoch_start()
    assert module.training_step([torch.arange(4)], 0) > 0
    module.on_validation_epoch_start()
    module.validation_step([torch.tensor([2, 3])], 0)
    module.on_validation_epoch_end()
    assert sorted(VOCABULARY.decode(heard[0].words_BL)) == sorted(words for *_, words in SAID)
    assert torch.equal(heard[1].image_BD, some_items(20).features_ND[[9, 8]]) and len(heard) == 2
    assert set(figures) == {"val_P_1", "val_R@10_1", "val_distance_95", "val_score"}


def test_the_captioner_is_no_part_of_what_is_trained_and_saved():
    module, captioner = training()
    trained = {
        id(weight) for group in module.configure_optimizers().param_groups for weight in group["params"]
    }
    assert trained == {id(weight) for weight in module.model.parameters()}
    assert not trained & {id(weight) for weight in captioner.parameters()}
    assert all(name.startswith("model.") for name in module.state_dict())


def test_frozen_word_vectors_are_not_trained():
    module, _ = training()
    module.model = retriever(word_vector_size=5)
    trained = {
        id(weight) for group in module.configure_optimizers().param_groups for weight in group["params"]
    }
    assert id(module.model.word[0].weight) not in trained and id(module.model.word[1].weight) in trained


def test_the_user_speaks_with_as_many_beams_as_asked():
    module, _ = training(beams=3)
    module.on_train_epoch_start()
    module.on_validation_epoch_start()
    train, val = (module.source.users[split] for split in ("train", "val"))
    assert [train.beams, val.user.beams] == [3, 3]


def test_the_gallery_of_an_epoch_is_the_one_that_it_begins_with():
    module, _ = training()
    module.on_train_epoch_start()
    gallery = module.galleries["train"]
    torch.testing.assert_close(
        gallery.vectors_ND, module.model.embed_images(ITEMS["train"].features_ND).detach()
    )
    assert not gallery.vectors_ND.requires_grad


def test_the_gallery_can_follow_every_step_as_in_the_released_code(monkeypatch):
    module, _ = training(gallery_every="step")
    module.on_train_epoch_start()
    monkeypatch.setattr(type(module), "global_step", 0)
    with torch.no_grad():
        module.model.image.weight.mul_(-1)  # as a step would change it
    module.training_step([torch.arange(4)], 0)
    torch.testing.assert_close(
        module.galleries["train"].vectors_ND, module.model.embed_images(ITEMS["train"].features_ND).detach()
    )


@pytest.mark.parametrize(
    ("options", "loaded"), [({"negatives": "gallery"}, True), ({"gallery_every": "step"}, True), ({}, False)]
)
def test_features_on_a_disk_are_read_into_memory_where_every_step_embeds_all_products(options, loaded):
    module, _ = training(**options)
    on_disk = {
        split: Items(
            items.ids, Rows(items.features_ND.numpy(), np.arange(len(items)), OSError()), items.attributes_NA
        )
        for split, items in ITEMS.items()
    }
    module.source.items = on_disk
    module.on_train_epoch_start()
    items = module.galleries["train"].items
    assert isinstance(items.features_ND, torch.Tensor) == loaded
    assert torch.equal(items.features_ND[:], ITEMS["train"].features_ND)


@torch.no_grad()
def test_validation_measures_every_target_in_the_same_dialogs_each_time(monkeypatch):
    module, _ = training(turns=3)
    module.eval()
    logged = []
    for batches in ([torch.arange(20)], [torch.arange(12), torch.arange(12, 20)]):
        figures = {}
        monkeypatch.setattr(module, "log", figures.__setitem__)
        module.on_validation_epoch_start()
        for number, target_B in enumerate(batches):
            module.validation_step([target_B], number)
        module.on_validation_epoch_end()
        logged.append(figures)
    assert logged[0] == logged[1] and set(logged[0]) == {
        "val_P_1",
        "val_R@10_1",
        "val_P_3",
        "val_R@10_3",
        "val_distance_95",
        "val_score",
    }
    assert all(0 <= value <= 100 for value in logged[0].values())


@pytest.mark.parametrize("share", [0.6, None])
def test_some_dialogs_begin_with_a_similar_product_by_default_none(share):
    """Product n lies on a circle at angle n, so that its neighbors are the similar ones."""
    angle_N = torch.arange(400) * 2 * torch.pi / 400
    features_ND = torch.stack([angle_N.cos(), angle_N.sin()], 1) * torch.linspace(1, 9, 400)[:, None]
    items = Items.without_attributes([str(n) for n in range(400)], features_ND)
    source = DialogSimulation(
        lambda *_: None,
        VOCABULARY,
        {"train": items, "val": items},
        turns=2,
        seed=0,
        max_words=8,
        **({"similar_first": share} if share else {}),
    )
    source.enter("train", 0, torch.device("cpu"))
    torch.manual_seed(0)
    target_B = torch.arange(400).repeat(10)
    first_B = source.train(target_B, 0).first_B
    apart_B = ((first_B - target_B + 200) % 400 - 200).abs()
    assert (apart_B > 0).all()
    # a quarter of the random products are among the similar ones
    similar, share = apart_B <= SIMILAR / 2, share or 0
    assert abs(similar.float().mean() - (share + (1 - share) * SIMILAR / 399)) < 0.03
    assert (
        apart_B[similar].bincount().argmin() == 0 and apart_B[similar].bincount()[1:].min() > 10
    )  # all of them


def test_an_epoch_is_scored_by_the_last_turn_of_each_user_and_all_turns_by_their_distance(monkeypatch):
    module, figures = training()[0], {}
    monkeypatch.setattr(module, "log", figures.__setitem__)
    module.on_validation_epoch_start()
    module._ranks = {
        "own": [torch.tensor([[19, 0], [15, 9]]), torch.tensor([[10, 10]])],
        "other": [torch.tensor([[0], [19]])],
    }
    module._distances = [torch.arange(20.0), torch.tensor([20.0])]
    module.on_validation_epoch_end()
    p = {rank: 100 * (20 - rank) / 20 for rank in range(20)}
    own, other = (p[0] + p[9] + p[10]) / 3, (p[0] + p[19]) / 2
    wanted = {
        "val_distance_95": 19.0,
        "val_P_1": ((p[19] + p[15] + p[10]) / 3 + other) / 2,
        "val_R@10_1": (0 + 50) / 2,
        "val_P_2": own,
        "val_R@10_2": 200 / 3,
        "val_R@10_own": 200 / 3,
        "val_R@10_other": 50.0,
        "val_score": (200 / 3 + own / 1000 + 50 + other / 1000) / 2,
    }
    assert {name: float(value) for name, value in figures.items()} == pytest.approx(wanted, rel=1e-7)


def test_the_learning_rate_rises_for_a_tenth_of_the_steps_and_falls_to_zero_by_a_cosine():
    module, _ = training(schedule="cosine", learning_rate=0.5)
    for steps, rises in ((25, [0.5, 1.0]), (9, [1.0])):
        module.trainer = SimpleNamespace(estimated_stepping_batches=steps, precision="32-true")
        made = module.configure_optimizers()
        optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
        rates = []
        for _ in range(steps + 1):
            rates.append(optimizer.param_groups[0]["lr"] / 0.5)
            optimizer.step()
            schedule.step()
        fall = steps - len(rises)
        falls = [0.5 * (1 + math.cos(math.pi * step / fall)) for step in range(fall + 1)]
        assert rates == pytest.approx([*rises, *falls])


@pytest.mark.parametrize("count", [2, 5])
def test_of_few_products_all_others_are_similar(count):
    items = {split: some_items(count) for split in ("train", "val")}
    source = DialogSimulation(
        lambda *_: None, VOCABULARY, items, turns=2, seed=0, max_words=8, similar_first=1.0
    )
    source.enter("train", 0, torch.device("cpu"))
    torch.manual_seed(0)
    start = source.train(torch.arange(count).repeat(60), 0)
    drawn = set(zip(start.target_B.tolist(), start.first_B.tolist(), strict=True))
    assert drawn == {(one, other) for one in range(count) for other in range(count) if one != other}

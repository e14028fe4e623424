"""The training of a ChatSearcher: its sum of losses, its negatives, and that it learns."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

from fashioniq.data.conversation_records import ConversationTurn, Text, TurnPicture
from fashioniq.data.words import Vocabulary
from fashioniq.features.frozen import FrozenFeatures
from fashioniq.models.chat_tokens import VISION
from fashioniq.models.chatsearcher import distinct_items, enqueued
from fashioniq.models.configs import ChatSearcherConfig
from fashioniq.runs.trained import new_chatsearcher
from fashioniq.training.chatsearcher import ChatSearcherTraining, predicted

WORDS = [f"w{number}" for number in range(200)]
VOCABULARY = Vocabulary(["user", "assistant", *WORDS])
COUNT, FEATURES = 40, 16
POSITIONS = {str(number): number for number in range(COUNT)}


def talk(number, rng):
    """A shown picture, and words that together with it tell the target."""
    shown = str((number + 7) % COUNT)
    said = " ".join(rng.choice(WORDS) for _ in range(4))
    return (
        ConversationTurn("user", (Text(said),)),
        ConversationTurn("assistant", (Text("w1 w2"), TurnPicture(shown))),
        ConversationTurn("user", (Text(" ".join(rng.choice(WORDS) for _ in range(4))),)),
    )


def training(talks=20, negatives="queue", queue=30, **sizes):
    torch.manual_seed(0)
    own = {
        "image_tokens": 2,
        "space": 32,
        "width": 32,
        "heads": 2,
        "hidden": 64,
        "layers": 2,
        "dropout": 0.0,
        "max_tokens": 64,
    }
    config = ChatSearcherConfig(**own | sizes)
    model, tokens = new_chatsearcher(
        config.sizes(features=FEATURES), VOCABULARY.words, "", half=False, tune="all"
    )
    features = FrozenFeatures([str(n) for n in range(COUNT)], torch.randn(COUNT, FEATURES), {})
    rng = random.Random(0)
    turns = [talk(number, rng) for number in range(talks)]
    train = [[tokens.conversation(one, POSITIONS, str(number))] for number, one in enumerate(turns)]
    val = [(tokens.conversation(one, POSITIONS), number) for number, one in enumerate(turns)]
    return ChatSearcherTraining(
        model, tokens, features, train=train, val=val, train_items=torch.arange(COUNT), negatives=negatives,
        queue=queue, learning_rate=3e-3,
    )  # fmt: skip


def batch_of(module, *numbers):
    return module.tokens.collate([module.train_examples[number][0] for number in numbers])


def ranks(module, targets=None):
    module.model.eval()
    asked = module.tokens.collate([module.tokens.query(one) for one, _ in module.val_examples])
    query_BS, shows_B = module.model.search(asked, module.features.pictures(asked.image_R, "cpu"))
    score_BN = query_BS @ module.model.embed_images(module.features.vector_NF).T
    target_B = torch.tensor(targets or [target for _, target in module.val_examples])
    own_B1 = score_BN.gather(1, target_B.unsqueeze(1))
    return (score_BN > own_B1).sum(1).tolist(), shows_B


# the loss


def test_the_parts_of_a_batch_have_the_losses_of_the_whole():
    for negatives in ("queue", "batch", "full"):
        sums, gradients = [], []
        for parts in (((0, 1, 2, 3, 4),), ((3, 1), (0, 2, 4))):
            module = training(negatives=negatives)
            words, pictures, counts = module.losses(*(batch_of(module, *part) for part in parts))
            (words + pictures).backward()
            sums.append([words.item(), pictures.item(), *counts])
            gradients.append(module.model.query.weight.grad)
        assert sums[0] == pytest.approx(sums[1]) and torch.allclose(*gradients, atol=1e-5)


def test_the_loss_is_one_sum_over_the_assistants_words_and_pictures():
    module = training(negatives="full")
    sequences = batch_of(module, 0, 3)
    words, pictures, counts = module.losses(sequences)
    model, total, number = module.model, [0.0, 0.0], [0, 0]
    key_NS = model.embed_images(module.features.vector_NF)
    seen = iter(sequences.image_R.tolist())
    hidden_BLD, _ = model(
        sequences.ids_BL, sequences.there_BL, module.features.pictures(sequences.image_R, "cpu")
    )
    for row, ids in enumerate(sequences.ids_BL.tolist()):
        for place in range(1, len(ids)):
            item = next(seen) if ids[place - 1] == module.tokens.image else None
            if not sequences.learned_BL[row, place]:
                continue
            hidden_D = hidden_BLD[row, place - 1]
            if ids[place] == VISION:
                logits = model.queries(hidden_D.unsqueeze(0))[0] @ key_NS.T / model.temperature
                total[1] -= logits.log_softmax(0)[item].item()
                number[1] += 1
            else:
                total[0] -= model.logits(hidden_D.unsqueeze(0))[0].log_softmax(0)[ids[place]].item()
                number[0] += 1
    assert (words.item(), pictures.item()) == pytest.approx(tuple(total), rel=1e-4)
    # two words, a block and an end; a block and an end: <CLS> is a picture, the tokens of the perceiver are nothing
    assert counts == tuple(number) == (2 * (5 + 3), 2 * 2)


def test_a_picture_is_predicted_at_the_token_before_it():
    module = training()
    sequences = batch_of(module, 0, 1, 2)
    _, picture_BL = predicted(sequences)
    assert (sequences.ids_BL[:, :-1][picture_BL] == module.tokens.image).all() and int(picture_BL.sum()) == 6


def test_the_loss_starts_near_its_chance_value():
    module = training(negatives="full", width=128, space=512)
    words, pictures, (of_words, of_pictures) = module.losses(batch_of(module, *range(20)))
    assert words.item() / of_words == pytest.approx(math.log(len(VOCABULARY) + 2), rel=0.15)
    assert pictures.item() / of_pictures == pytest.approx(math.log(COUNT), rel=0.15)


def test_a_queue_of_one_has_no_negatives():
    module = training(queue=1)
    asked = module.tokens.conversation((ConversationTurn("user", (Text("w3"),)),), POSITIONS, "5")
    assert module.losses(module.tokens.collate([asked]))[1].item() == pytest.approx(0, abs=1e-6)
    assert module.losses(batch_of(module, 0))[1].item() > 0.1  # it shows two pictures


# the negatives


def test_the_newest_pictures_come_in_and_the_oldest_leave():
    queue = torch.full((4,), -1)
    for new, expected in (([3, 5], [-1, -1, 3, 5]), ([1, 1, 9], [5, 1, 1, 9]), ([2] * 6, [2, 2, 2, 2])):
        queue = enqueued(queue, torch.tensor(new))
        assert queue.tolist() == expected


def test_an_item_is_no_negative_of_itself_however_often_it_is_in_the_queue():
    queue = torch.tensor([-1, 5, 5, 2, 5])
    assert distinct_items(queue, torch.tensor([5, 7])).tolist() == [2, 5, 7]
    module = training(queue=8)
    asked = module.tokens.collate(
        [module.tokens.conversation((ConversationTurn("user", (Text("w3"),)),), POSITIONS, "5")]
    )
    for times in range(1, 9):  # also before the queue is full
        _, pictures, _ = module.losses(asked)
        assert module.queue_Q.tolist() == [-1] * (8 - times) + [5] * times
        assert pictures.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("negatives", "expected"), [("batch", 4), ("queue", 6), ("full", COUNT)])
def test_the_negatives_are_those_asked_for(negatives, expected, monkeypatch):
    module, sizes = training(negatives=negatives), []
    monkeypatch.setattr(
        module,
        "_candidates",
        lambda item_R, real=module._candidates: sizes.append(found := real(item_R)) or found,
    )
    module.losses(batch_of(module, 0))
    module.losses(batch_of(module, 1, 2))
    assert len(sizes[1]) == expected


def test_what_the_user_says_is_read_and_not_learned():
    module = training()
    sequences = batch_of(module, 0)
    word_BL, _ = predicted(sequences)
    said = module.tokens.tokens.decode(sequences.ids_BL[:, 1:][word_BL][:2].tolist())
    assert said == "w1 w2"


# that it learns


def train(module, steps):
    optimizer = torch.optim.AdamW(module.model.parameters(), lr=3e-3, weight_decay=0)
    for _ in range(steps):
        words, pictures, counts = module.losses(batch_of(module, *range(len(module.train_examples))))
        optimizer.zero_grad()
        ((words + pictures) / sum(counts)).backward()
        optimizer.step()
    return words.item() / counts[0], pictures.item() / counts[1]


def test_it_overfits_twenty_conversations_and_shows_a_picture_by_itself():
    module = training(negatives="full")
    words, _ = train(module, 120)
    found, shows_B = ranks(module)
    assert found == [0] * 20 and words < 0.1 and shows_B.all()
    exchanged, _ = ranks(module, targets=[*range(10, 20), *range(10)])
    assert sum(rank < 10 for rank in exchanged) < 12  # chance is 5


def test_validation_and_the_training_itself_agree_on_the_query():
    """An off-by-one position of [IMG] in either of them fails here."""
    module = training()
    sequences = batch_of(module, 4)
    _, picture_BL = predicted(sequences)
    hidden_BLD, _ = module.model(
        sequences.ids_BL, sequences.there_BL, module.features.pictures(sequences.image_R, "cpu")
    )
    trained = module.model.queries(hidden_BLD[:, :-1][picture_BL])[-1:]
    asked = module.tokens.collate([module.tokens.query(module.val_examples[4][0])])
    found, _ = module.model.search(asked, module.features.pictures(asked.image_R, "cpu"))
    assert torch.allclose(F.normalize(trained, dim=1), found, atol=1e-5)


def test_a_step_is_the_mean_over_what_is_predicted_of_one_drawn_sequence_each(monkeypatch):
    module = training(talks=40)
    first, second = module.train_examples[3], module.train_examples[5]
    module.train_examples = [[*first, *second], *module.train_examples[1:]]
    monkeypatch.setattr(random, "choice", lambda some: some[-1])
    batches = []
    collate = module.tokens.collate
    monkeypatch.setattr(module.tokens, "collate", lambda some: batches.append(some) or collate(some))
    rows = list(range(40))
    loss = module.training_step([torch.tensor(rows)], 0)
    assert [len(some) for some in batches] == [16, 16, 8]
    lengths = [len(one.ids) for some in batches for one in some]
    assert lengths == sorted(lengths) and second[0] in [one for some in batches for one in some]
    assert first[0] not in [one for some in batches for one in some] or first[0] in module.train_examples[3]
    module.queue_Q = torch.full_like(module.queue_Q, -1)
    words, pictures, (count, shown) = module.losses(*map(collate, batches))
    assert loss.item() == pytest.approx((words + pictures).item() / (count + shown), rel=1e-5)


def test_validation_ranks_the_targets_among_the_items_of_train(monkeypatch):
    module = training(talks=30)
    module.train_items = torch.arange(5, COUNT)
    module.val_examples = module.val_examples[5:]
    module.eval()
    module.on_validation_epoch_start()
    module.validation_step([torch.arange(10)], 0)
    module.validation_step([torch.arange(10, 25)], 1)
    vectors_ND = module.model.embed_images(module.features.vector_NF)[5:]
    logged = {}
    monkeypatch.setattr(module, "log", lambda name, value: logged.update({name: float(value)}))
    ranks = torch.cat(module._ranks).tolist()
    for row, (asked, target) in enumerate(module.val_examples):
        batch = module.tokens.collate([module.tokens.query(asked)])
        query_1S, _ = module.model.search(batch, module.features.pictures(batch.image_R, "cpu"))
        score_N = (query_1S @ vectors_ND.T)[0]
        assert ranks[row] == int((score_N > score_N[target - 5]).sum())
    module.on_validation_epoch_end()
    hits = {n: 100 * sum(rank < n for rank in ranks) / 25 for n in (1, 5, 10)}
    assert all(logged[f"val_R@{n}"] == pytest.approx(hits[n], abs=1e-3) for n in hits)
    above = sum(100 * (35 - rank) / 35 for rank in ranks) / 25
    assert logged["val_score"] == pytest.approx(sum(hits.values()) / 3 + above / 1000, abs=1e-4)
    module.on_validation_epoch_start()
    assert module._ranks == []


def test_the_learning_rate_rises_and_falls_to_zero_by_a_cosine():
    module = training()
    module.trainer = type("Trainer", (), {"estimated_stepping_batches": 200, "global_step": 0})()
    made = module.configure_optimizers()
    optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
    assert made["lr_scheduler"]["interval"] == "step" and optimizer.param_groups[0]["weight_decay"] == 0
    rates = []
    for _ in range(201):
        rates.append(optimizer.param_groups[0]["lr"] / 3e-3)
        optimizer.step()
        schedule.step()
    assert rates[:6] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    assert (
        rates[6] == pytest.approx(1) and rates[103] == pytest.approx(0.5) and rates[200] == pytest.approx(0)
    )

"""The training of the image retriever F: its losses, what it hears, its gradients, and that it learns."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from fashioniq.data.dialogues import Dialogue, Round
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.encoders.protocol import fingerprint
from fashioniq.models.configs import DialogEncoderConfig
from fashioniq.models.dialog_encoder import DialogEncoder, TextHalf
from fashioniq.training import dialog_encoder
from fashioniq.training.dialog_encoder import (
    LOSSES,
    DialogEncoderTraining,
    embed_in_micro_batches,
    partial_text,
    without_caption,
)
from fashioniq.training.losses import contrastive, recall_surrogate

VOCABULARY = Vocabulary([f"w{n}" for n in range(40)])
CAPTION, *OTHERS = ROUNDS = tuple(
    map(Round.read, ("a red dress", "is it long? yes, very", "any belt? no", "plain? it is"))
)


def unit(*shape):
    return F.normalize(torch.randn(*shape), dim=-1)


def itself(count):
    return torch.eye(count, dtype=torch.bool)


def some_texts(count, words=6):
    rng = random.Random(0)
    return [" ".join(f"w{rng.randrange(40)}" for _ in range(rng.randint(3, words))) for _ in range(count)]


def encoder(**options):
    torch.manual_seed(0)
    own = {"width": 32, "heads": 2, "hidden": 64, "layers": 1, "dropout": 0.0, "max_tokens": 30}
    return DialogEncoder(DialogEncoderConfig(**own | options), vocabulary=VOCABULARY, features=12)


def training(count, texts=None, losses="both", rounds=1, mask="none", **options):
    """Dialogs whose rounds are the same text again and again, each of an image of its own."""
    torch.manual_seed(1)
    texts = texts or some_texts(count)
    dialogues = [Dialogue(str(place), (text,) * rounds) for place, text in enumerate(texts)]
    items = Items([str(place) for place in range(count)], torch.randn(count, 12), torch.zeros(count, 0))
    settings = {
        "mask": mask,
        "mask_share": 0.2,
        "separator": " ",
        "micro_batch": 512,
        "learning_rate": 3e-3,
    } | options
    both, products = {"train": dialogues, "val": dialogues}, {"train": items, "val": items}
    return DialogEncoderTraining(encoder(), both, products, losses=LOSSES[losses], **settings)


# the losses


def test_the_recall_surrogate_is_the_naive_one_and_another_dialog_of_the_same_image_is_no_negative():
    torch.manual_seed(0)
    query_BTD, vectors_ND = unit(6, 1, 8), unit(6, 8)
    vectors_ND[4] = vectors_ND[1]
    same_BN = itself(6)
    same_BN[1, 4] = same_BN[4, 1] = True
    total = 0.0
    for b, query_D in enumerate(query_BTD[:, 0]):
        others = [n for n in range(6) if not same_BN[b, n]]
        rank = 1 + sum(
            torch.sigmoid((query_D @ vectors_ND[n] - query_D @ vectors_ND[b]) / 0.01) for n in others
        )
        total += sum(1 - torch.sigmoid(k - rank).item() for k in (1, 2, 4, 8, 16)) / 5
    assert recall_surrogate(query_BTD, vectors_ND, same_BN).item() == pytest.approx(total / 6, rel=1e-5)


def test_the_recall_surrogate_falls_with_the_rank_to_the_least_that_its_docstring_tells():
    vectors_ND, losses = torch.eye(40), []
    for before in (0, 1, 4, 20):  # images that are more similar to each query than its target
        query_BD = vectors_ND + sum(1.1 * vectors_ND.roll(n, 0) for n in range(1, 1 + before))
        losses.append(recall_surrogate(query_BD.unsqueeze(1), vectors_ND, itself(40)).item())
    assert losses[0] == pytest.approx(0.163, abs=0.001) and losses == sorted(losses) and losses[-1] > 0.95


def test_the_contrastive_loss_is_the_cross_entropy_of_cosines():
    torch.manual_seed(0)
    query_BTD, vectors_ND = unit(7, 1, 8), unit(7, 8)
    expected = F.cross_entropy(query_BTD[:, 0] @ vectors_ND.T / 0.07, torch.arange(7))
    assert contrastive(query_BTD, vectors_ND, itself(7)).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["recall", "contrastive"])
def test_the_loss_starts_at_what_vectors_by_chance_have(name):
    (loss,) = LOSSES[name]
    torch.manual_seed(0)
    model, texts = encoder(width=256), some_texts(200, words=20)
    query_BTD = model.texts(texts).unsqueeze(1)
    begun = loss(query_BTD, model.embed_images(torch.randn(200, 12)).detach(), itself(200)).item()
    chance = sum(loss(unit(200, 1, 256), unit(200, 256), itself(200)).item() for _ in range(10)) / 10
    assert begun == pytest.approx(chance, rel=0.12)


# what is heard


def test_a_dialog_without_its_caption_keeps_all_answers():
    assert without_caption(ROUNDS) == OTHERS


def test_a_caption_alone_is_never_masked_away():
    assert without_caption(("dress",)) == ["dress"]


def test_every_round_is_as_likely_and_a_fifth_lack_the_caption():
    random.seed(0)
    texts = [partial_text(Dialogue("image", ROUNDS), "caption", 0.2, " | ") for _ in range(4000)]
    counts = Counter(text.count(" | ") + (not text.startswith(CAPTION)) for text in texts)
    assert all(abs(counts[last] - 1000) < 120 for last in range(4)) and len(counts) == 4
    assert sum(not text.startswith(CAPTION) for text in texts) == pytest.approx(4000 * 0.75 * 0.2, abs=90)
    assert {partial_text(Dialogue("image", ROUNDS), "none", 0.2, " | ") for _ in range(100)} == {
        " | ".join(ROUNDS[:n]) for n in (1, 2, 3, 4)
    }


def parts_left(mask, count=3000, separator=" | "):
    random.seed(0)
    dialogue = Dialogue("image", tuple(map(Round.read, ("a b c d", "is it? yes", "was it? no"))))
    return Counter(partial_text(dialogue, mask, 0.2, separator) for _ in range(count))


def test_a_fifth_of_the_questions_answers_or_rounds_are_masked_each_by_itself():
    left = parts_left("question")
    assert {"a b c d", "a b c d | is it? yes", "a b c d | yes", "a b c d | yes | no"} <= set(left) and len(
        left
    ) == 7
    assert parts_left("answer").keys() >= {"a b c d | is it?", "a b c d | is it? | was it? no"}
    rounds = parts_left("round")
    assert set(rounds) == {
        "a b c d",
        "a b c d | is it? yes",
        "a b c d | was it? no",
        "a b c d | is it? yes | was it? no",
    }
    # after the last round, drawn in a third of the cases, each of its two rounds is left out in a fifth
    assert rounds["a b c d | was it? no"] / 1000 == pytest.approx(0.2 * 0.8, abs=0.04)
    assert rounds["a b c d | is it? yes | was it? no"] / 1000 == pytest.approx(0.8**2, abs=0.06)


def test_a_fifth_of_the_tokens_are_masked_and_never_all():
    texts = parts_left("token")
    words = sum(count * len(text.replace(" | ", " ").split()) for text, count in texts.items())
    whole = sum(parts * 1000 for parts in (4, 7, 10))
    assert words / whole == pytest.approx(0.8, abs=0.03) and "" not in texts


@pytest.mark.parametrize("mask", ["none", "caption", "question", "answer", "round", "token"])
def test_masked_dialogs_have_the_separator_of_bert_between_questions_and_answers(mask):
    texts = parts_left(mask, separator=" [SEP] ")
    parts = {part for text in texts for part in text.split(" [SEP] ")}
    assert parts >= {"a b c d", "is it?", "yes", "was it?", "no"} and not any("? " in part for part in parts)


def test_rounds_that_are_whole_queries_are_heard_alone():
    random.seed(0)
    assert {
        partial_text(Dialogue("image", ROUNDS, alone=True), "none", 0.2, ", ") for _ in range(100)
    } == set(ROUNDS)


# the gradient


def gradients(module, size):
    module.micro_batch = size
    module.zero_grad()
    pieces = []
    hook = module.model.register_forward_pre_hook(lambda _, given: pieces.append(len(given[0])))
    torch.manual_seed(5)
    loss = module.training_step([torch.arange(20)], 0)
    loss.backward()
    hook.remove()
    return loss.item(), [weight.grad.clone() for weight in module.model.parameters()], pieces


@pytest.mark.parametrize(("size", "sizes"), [(6, [6, 6, 6, 2]), (12, [12, 8])])
@pytest.mark.parametrize("losses", ["recall", "contrastive"])
def test_micro_batches_have_the_gradient_of_the_whole_batch_all_images_being_negatives(losses, size, sizes):
    module = training(20, losses=losses)
    (whole, expected, at_once), (loss, found, pieces) = gradients(module, 20), gradients(module, size)
    assert at_once == [20] and pieces == sizes + sizes[::-1]  # each computed again, one after the other
    assert loss == pytest.approx(whole, rel=1e-6) and max(grad.abs().max() for grad in expected) > 1e-4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_a_micro_batch_that_is_computed_again_drops_the_same_activations(monkeypatch):
    module = training(20)
    module.model = encoder(dropout=0.3)
    _, found, _ = gradients(module, 6)
    monkeypatch.setattr(dialog_encoder, "checkpoint", lambda model, part, use_reentrant: model(part))
    _, expected, pieces = gradients(module, 6)
    assert pieces == [6, 6, 6, 2]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("size", [2, 5, 8, 9, 20])  # 5, 2, 2, 1 and 1 parts
def test_vectors_come_in_the_order_of_the_texts_however_they_are_split(size):
    model, texts = encoder().eval(), some_texts(9)
    torch.testing.assert_close(
        embed_in_micro_batches(model, texts, size, torch.device("cpu")),
        torch.cat([model.texts([text]) for text in texts]),
    )


def test_the_learning_rate_falls_by_7_percent_an_epoch_to_one_in_a_million():
    configured = training(4, learning_rate=5e-5).configure_optimizers()
    rates = []
    for _ in range(60):
        rates.append(configured["lr_scheduler"].get_last_lr()[0])
        configured["optimizer"].step()
        configured["lr_scheduler"].step()
    assert (
        rates[:3] == pytest.approx([5e-5, 5e-5 * 0.93, 5e-5 * 0.93**2])
        and rates[-1] == pytest.approx(1e-6)
        and min(rates) == rates[-1]
    )


# that it learns


@pytest.mark.parametrize("losses", LOSSES)
def test_20_dialogs_are_learnt_by_their_words_and_shuffling_them_destroys_it(losses):
    module = training(20, losses=losses)
    optimizer = module.configure_optimizers()["optimizer"]
    for _ in range(60):
        optimizer.zero_grad()
        loss = module.training_step([torch.arange(20)], 0)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        vectors_ND = module.model.embed_images(module._items["train"].features_ND)
        query_BD = module.model.texts([dialogue.rounds[0] for dialogue in module.dialogues["train"]])
        least = sum(one(vectors_ND.unsqueeze(1), vectors_ND, itself(20)).item() for one in module.losses)
        right = ((query_BD @ vectors_ND.T).argmax(1) == torch.arange(20)).double().mean()
        shuffled = ((query_BD.roll(7, 0) @ vectors_ND.T).argmax(1) == torch.arange(20)).double().mean()
    assert loss.item() < least + 0.15 and right >= 0.9 and shuffled < 0.2


def test_validation_measures_the_caption_the_middle_and_the_end_whatever_the_batches(monkeypatch):
    logged = []
    module = training(20, rounds=5).eval()
    with torch.no_grad():
        for batches in ([torch.arange(20)], [torch.arange(7), torch.arange(7, 20)]):
            figures = {}
            monkeypatch.setattr(module, "log", figures.__setitem__)
            module.on_validation_epoch_start()
            for number, rows in enumerate(batches):
                module.validation_step([rows], number)
            module.on_validation_epoch_end()
            logged.append(figures)
    assert logged[0] == logged[1] and set(logged[0]) == {
        "val_R@10_0",
        "val_R@10_2",
        "val_R@10_4",
        "val_score",
    }


def test_dialog_encoders_with_the_same_recall_are_compared_by_their_ranks(monkeypatch):
    module, scores = training(20), {}
    monkeypatch.setattr(module, "log", scores.__setitem__)
    found = []
    module.on_validation_epoch_start()
    for ranks in ([0, 0], [0, 9], [0, 19], [9, 19]):
        module._ranks = [torch.tensor([[rank] for rank in ranks])]
        module.on_validation_epoch_end()
        found.append(scores["val_score"])
    assert found == sorted(found, reverse=True) and len(set(found)) == 4
    assert 100 <= found[1] <= found[0] < 101 and 50 <= found[3] < found[2] < 51


# the text half of a pretrained model


class Tokenizer:
    """Stands for the one of a pretrained model: a number of each word."""

    model_max_length = 16

    def __call__(self, texts, **_):
        from transformers import BatchEncoding

        ids_BL = VOCABULARY.encode(texts, 16)
        return BatchEncoding({"input_ids": ids_BL, "attention_mask": (ids_BL != 0).long()})


def tiny(kind):
    transformers = pytest.importorskip("transformers")
    from fashioniq.encoders.transformers import BLIP, CLIP

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    text, vision = (
        {"vocab_size": 60, "max_position_embeddings": 24, **sizes},
        {"image_size": 32, "patch_size": 16, **sizes},
    )
    processor = SimpleNamespace(to_dict=dict)
    if kind == "clip":
        config = transformers.CLIPConfig(
            text_config={**text, "eos_token_id": 2}, vision_config=vision, projection_dim=12
        )
        return CLIP("clip", transformers.CLIPModel(config), Tokenizer(), processor)
    config = transformers.BlipConfig(
        text_config={**text, "encoder_hidden_size": 16}, vision_config=vision, image_text_hidden_size=12
    )
    return BLIP("blip", transformers.BlipForImageTextRetrieval(config), Tokenizer(), processor)


def image_half(encoder):
    return fingerprint(getattr(encoder.model, name) for name in encoder.image_names)


@pytest.mark.parametrize("kind", ["clip", "blip"])
def test_a_step_moves_the_text_half_and_leaves_the_images(kind):
    whole = tiny(kind)
    before, images = (
        {name: tensor.clone() for name, tensor in whole.model.state_dict().items()},
        image_half(whole),
    )
    module = training(20, losses="contrastive", micro_batch=8, learning_rate=1e-3)
    module.model = TextHalf(whole)
    assert module.model.embed_images(torch.full((1, 12), 2.0)).norm().item() == pytest.approx(1)
    first, optimizer = whole.texts(some_texts(20)), module.configure_optimizers()["optimizer"]
    module.training_step([torch.arange(20)], 0).backward()
    optimizer.step()
    module.eval()
    assert image_half(whole) == images and not torch.allclose(whole.texts(some_texts(20)), first)
    torch.testing.assert_close(module.model.texts(some_texts(20)), whole.texts(some_texts(20)))
    moved = {
        name.split(".")[0]
        for name, tensor in whole.model.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert moved == set(whole.text_names)
    assert all(name.split(".")[0] in whole.text_names for name in module.model.state_dict())


def test_recall_is_that_of_the_first_ten_after_each_round(monkeypatch):
    module, figures = training(20, rounds=5), {}
    monkeypatch.setattr(module, "log", figures.__setitem__)
    module.on_validation_epoch_start()
    module._ranks = [torch.tensor([[10, 9, 0], [9, 9, 10]]), torch.tensor([[11, 9, 10], [19, 19, 10]])]
    module.on_validation_epoch_end()
    assert [figures[f"val_R@10_{last}"] for last in (0, 2, 4)] == [25.0, 75.0, 25.0]

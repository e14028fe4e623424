"""What each training hands to `fit`, and what it writes beside: nothing is trained here."""

import dataclasses
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fashioniq.askers.best_item import BestItem
from fashioniq.cli.inputs import check_inputs
from fashioniq.config import (
    TrainAttributes,
    TrainCaptioner,
    TrainChatsearcher,
    TrainDialogEncoder,
    TrainGenerator,
    TrainRetriever,
)
from fashioniq.data.conversation_records import ConversationTurn, Text, TurnPicture
from fashioniq.data.conversations import DOCUMENTS, TALKS, Conversations, Document, Talk
from fashioniq.data.dialogues import Dialogue, read_dialogues, write_dialogues
from fashioniq.data.words import LEARNED_SIZE, SPECIAL, Vocabulary
from fashioniq.features.frozen import frozen_features
from fashioniq.files import UserError, checksum, write_jsonl
from fashioniq.generators.pictures import Generated
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.measures import percentile
from fashioniq.metrics.speech import truthfulness
from fashioniq.models.configs import (
    CaptionerConfig,
    ChatSearcherConfig,
    DenoiserConfig,
    DialogEncoderConfig,
    RetrieverConfig,
)
from fashioniq.models.dialog_encoder import DialogEncoder
from fashioniq.models.encoder import create_encoder
from fashioniq.runs.checks import described
from fashioniq.runs.trained import JUDGE, LISTENER, load_chatsearcher, load_predictor, load_retriever
from fashioniq.runs.weights import save_model
from fashioniq.training import (
    attributes as attributes_run,
    captioner,
    chatsearcher_run,
    dialog_encoder as dialog_encoder_run,
    folder,
    generator as generator_run,
    retriever_run,
)
from fashioniq.training.attributes import chance_logits
from fashioniq.training.dialog_encoder import LOSSES
from fashioniq.training.retriever import PolicyTraining, RetrieverTraining
from fashioniq.training.verdict import captioner_verdict
from fashioniq.training.wording import HALFWAY, TRAINED


class Fit:
    """Stands for `fit`: keeps what it is given, and returns the best epoch."""

    def __init__(self, **best):
        self.best = {"epoch": 3.0} | best

    def __call__(self, module, model, batches, **given):
        self.module, self.model, self.batches = module, model, batches
        self.__dict__ |= given
        return self.best


@pytest.fixture
def fitted(monkeypatch):
    def fitted(module, **best):
        fit = Fit(**best)
        monkeypatch.setattr(module, "fit", fit)
        return fit

    return fitted


# dialog encoders


@pytest.fixture
def dialog_encoder(shop, tmp_path, fitted):
    """Train a dialog encoder with these options; return what was handed to `fit`, and the summary."""

    def trained(**options):
        fit = fitted(dialog_encoder_run, **{"val_R@10_0": 12.34, "val_R@10_5": 23.42, "val_R@10_10": 34.56})
        own = {"data": shop.data, "category": "dresses", "run": tmp_path / "run", "device": "cpu"}
        model = DialogEncoderConfig(width=16, heads=2, hidden=16, layers=1)
        summary = dialog_encoder_run.train_dialog_encoder(
            TrainDialogEncoder(**own | {"model": model, "batch_size": 4} | options)
        )
        return fit, summary

    return trained


def test_a_dialog_encoder_is_trained_on_the_files_of_its_category(shop, tmp_path, dialog_encoder):
    fit, summary = dialog_encoder(min_count=3, seed=5)
    train, val = shop.dialogues("train"), shop.dialogues("val")
    vocabulary = Vocabulary.of((text for one in read_dialogues(train) for text in one.rounds), 3)
    assert isinstance(fit.model, DialogEncoder) and fit.module.model is fit.model
    assert fit.facts == {
        "model": "transformer",
        "sizes": DialogEncoderConfig(width=16, heads=2, hidden=16, layers=1).sizes(features=256),
        "words": vocabulary.words,
        "kind": "dialog encoder",
        "encoder": "transformer",
        "features": shop.features.identity,
        "joined": ", ",
        "loss": "both",
        "mask": "caption",
        "data": {
            "dialogues": {"train": str(train), "val": str(val)},
            "checksums": {"train": checksum(train), "val": checksum(val)},
            "coverage": {"train": 1.0, "val": 1.0},
        },
    }
    assert fit.monitor == "val_score" and fit.run == tmp_path / "run" and fit.settings.seed == 5
    assert fit.module.losses == LOSSES["both"] and fit.module.micro_batch == 128
    assert fit.module._text.keywords == {"mask": "caption", "share": 0.2, "separator": ", "}
    assert fit.module.learning_rate == 1e-3 and fit.module.separator == ", "
    assert [len(one.dataset) for one in fit.batches] == [18, 6] and fit.batches[1].batch_size == 4
    assert fit.batches[0].dataset.tensors[0].tolist() == list(range(18))
    ids = fit.module._items["train"].ids
    assert [ids[place] for place in fit.module._target["train"]] == [
        one.image for one in fit.module.dialogues["train"]
    ]
    assert summary == (
        f"dialog encoder of epoch 3 in {tmp_path / 'run'}: R@10 12.3 after round 0, 23.4 after round 5, "
        "34.6 after round 10, among the 6 images of val"
    )
    assert (tmp_path / "run" / "config.yaml").exists()


def test_options_of_a_dialog_encoder_reach_its_training(dialog_encoder):
    fit, _ = dialog_encoder(
        learning_rate=0.01, loss="recall", mask="none", mask_share=0.5, separator=" | ", micro_batch=3
    )
    assert fit.module.learning_rate == 0.01 and fit.module.losses == LOSSES["recall"]
    assert fit.module._text.keywords == {"mask": "none", "share": 0.5, "separator": " | "}
    assert (fit.facts["joined"], fit.facts["mask"], fit.facts["loss"]) == (" | ", "none", "recall")
    assert fit.module.micro_batch == 3


def test_complete_queries_have_no_caption_to_mask(tmp_path, dialog_encoder):
    some = [Dialogue(name, ("a", "red dress", "long dress")) for name in ("D000000000", "D000000001")]
    write_dialogues(tmp_path / "some.json", some)
    with pytest.raises(UserError, match="are complete queries without a caption to mask"):
        dialog_encoder(dialogues=tmp_path / "some.json")
    fit, _ = dialog_encoder(dialogues=tmp_path / "some.json", mask="none", run=tmp_path / "other")
    assert fit.module.dialogues["train"][0].alone


def test_dialogs_without_features_are_left_out_and_two_must_remain(shop, tmp_path, dialog_encoder, capsys):
    some = [Dialogue(name, ("a", "b? c")) for name in ("D000000000", "gone", "D000000001", "lost")]
    write_dialogues(tmp_path / "some.json", some)
    fit, _ = dialog_encoder(dialogues=tmp_path / "some.json")
    assert [one.image for one in fit.module.dialogues["train"]] == ["D000000000", "D000000001"]
    assert fit.facts["data"]["coverage"] == {"train": 0.5, "val": 1.0}
    assert f"{tmp_path / 'some.json'}: 2 of 4 dialogs have image features" in capsys.readouterr().out
    write_dialogues(tmp_path / "some.json", some[:2])
    with pytest.raises(UserError, match=r"at least two dialogs .* found 1 in"):
        dialog_encoder(dialogues=tmp_path / "some.json", run=tmp_path / "other")


@pytest.mark.parametrize("option", ["features", "dialogues", "val_dialogues"])
def test_without_a_category_the_files_must_be_given(shop, option, tmp_path):
    given = {
        "features": shop.store,
        "dialogues": shop.dialogues("train"),
        "val_dialogues": shop.dialogues("val"),
    }
    for name, path in given.items():
        assert dialog_encoder_run._path(TrainDialogEncoder(data=shop.data, category="dresses"), name) == path
        assert dialog_encoder_run._path(TrainDialogEncoder(**given), name) == path
    settings = TrainDialogEncoder(**{name: path for name, path in given.items() if name != option})
    with pytest.raises(UserError, match=f"expected --{option.replace('_', '-')} or --category"):
        dialog_encoder_run._path(settings, option)


# ChatSearchers


@pytest.fixture
def chatsearcher(shop, conversation_folder, tmp_path, fitted):
    def trained(**options):
        fit = fitted(chatsearcher_run, **{"val_R@1": 12.34, "val_R@10": 45.67})
        model = ChatSearcherConfig(
            image_tokens=2, space=8, width=16, heads=2, hidden=16, layers=1, max_tokens=64
        )
        own = {"data": conversation_folder, "features": [str(shop.store)], "run": tmp_path / "run"}
        settings = TrainChatsearcher(
            **own | {"model": model, "min_count": 1, "device": "cpu", "batch_size": 2} | options
        )
        return fit, chatsearcher_run.train_chatsearcher(settings)

    return trained


@pytest.mark.parametrize("stage", ["captions", "conversations"])
def test_a_chatsearcher_is_trained_on_what_is_not_held_out(
    shop, conversation_folder, tmp_path, chatsearcher, capsys, stage
):
    fit, summary = chatsearcher(stage=stage, seed=3, held_out=0.5, negatives="full")
    data, run = Conversations(conversation_folder), tmp_path / "run"
    ids = shop.catalog.ids("train")
    held_out = chatsearcher_run._held_out(ids, 0.5, 3)
    if stage == "captions":
        assert len(fit.module.train_examples) == 9 and len(fit.module.val_examples) == 9
    else:  # two samples of t and one of i; that of m has a target without features
        val = [row for row in (1, 2, 1) if ids[row] in held_out]
        assert [place for _, place in fit.module.val_examples] == val and 0 < len(val) < 3
        assert len(fit.module.train_examples) == 3 - len(val)
    features = frozen_features(list(data.items), [str(shop.store)])
    places = sorted(features.positions[name] for name in ids)
    assert fit.module.train_items.tolist() == places
    assert torch.allclose(fit.model.mean_F, features.vector_NF[places].mean(0), atol=1e-6)
    assert fit.module.learning_rate == {"captions": 1e-3, "conversations": 5e-4}[stage]
    assert fit.module.negatives == "full" and fit.facts["negatives"] == "full"
    assert fit.facts["sizes"] == fit.settings.model.sizes(features=256) and fit.facts["stage"] == stage
    assert fit.facts["language_model"] == "" and fit.facts["tuned"] == "all"
    assert fit.facts["features"] == features.facts
    assert {"next", "longer", "dress"} & set(fit.facts["words"])
    names = [f"{kind}.train.jsonl" for kind in "tim"]
    assert fit.facts["data"] == {
        "dialogues": {name: str(conversation_folder / name) for name in names},
        "checksums": {name: checksum(conversation_folder / name) for name in ("items.jsonl", *names)},
        "coverage": {"train": 0.75},
    }
    for split, own in (("train", set(ids) - held_out), ("val", held_out)):
        written = read_dialogues(run / f"{stage}.{split}.json", repeated=True)
        assert [one.image for one in written if one.rounds[0].startswith("dress ")] == [
            name for name in ids if name in own
        ]
    assert f"to train, {len(fit.module.val_examples)} to validate, 18 items" in capsys.readouterr().out
    assert summary == (
        f"ChatSearcher of epoch 3 in {run}: R@1 12.3, R@10 45.7 on {len(fit.module.val_examples)} held-out "
        f"{stage}, among 18 items of train"
    )
    assert fit.monitor == "val_score" and [len(one.dataset) for one in fit.batches] == [
        len(fit.module.train_examples), len(fit.module.val_examples),
    ]  # fmt: skip


def test_options_of_a_chatsearcher_reach_its_training(chatsearcher):
    fit, _ = chatsearcher(stage="captions", queue=7, learning_rate=0.5, subtasks=["t"], min_count=3)
    assert fit.facts["negatives"] == "queue of 7" and len(fit.module.queue_Q) == 7
    assert fit.module.learning_rate == 0.5 and list(fit.facts["data"]["dialogues"]) == ["t.train.jsonl"]
    assert "longer" not in fit.facts["words"] and "dress" in fit.facts["words"]


def test_a_chatsearcher_that_goes_on_keeps_its_words_sizes_and_means(conversation_folder, chatsearcher):
    run = conversation_folder / "run"
    fit, _ = chatsearcher(stage="captions", init_from=run)
    before, _, about = load_chatsearcher(run)
    assert fit.facts["words"] == about.words and fit.facts["sizes"] == about.sizes
    assert torch.equal(fit.model.mean_F, before.mean_F)
    assert torch.equal(fit.model.query.weight, before.query.weight)


def test_a_chatsearcher_needs_two_conversations_with_features_and_some_of_both_kinds(
    shop, conversation_folder, chatsearcher, tmp_path
):
    with pytest.raises(UserError, match="found them for 1; give"):
        chatsearcher(subtasks=["i"])
    with pytest.raises(UserError, match=r"to validate with, found [03] and [30]"):
        chatsearcher(subtasks=["t", "i"], held_out=0.01)


def test_two_items_of_train_are_enough(shop, chatsearcher, monkeypatch):
    two = shop.catalog.ids("train")[1:3]

    def of_two(items, stores):
        return frozen_features([name for name in items if name in two], stores)

    monkeypatch.setattr(chatsearcher_run, "frozen_features", of_two)
    fit, _ = chatsearcher(stage="captions", held_out=0.5, subtasks=["t"])
    assert len(fit.module.train_items) == 2


# attribute predictors


@pytest.fixture
def attributes(shop, tmp_path, fitted, monkeypatch):
    def trained(**options):
        fit = fitted(attributes_run)

        def score(module, batches, device):
            fit.scored_on = device
            return np.zeros(val_shape(batches.dataset))

        monkeypatch.setattr(attributes_run, "score", score)
        own = {
            "data": shop.data,
            "category": "dresses",
            "run": tmp_path / "run",
            "device": "cpu",
            "workers": 2,
        }
        settings = TrainAttributes(
            **own
            | {"encoder": "test_efficientnet", "weights": "none", "image_size": 32, "min_count": 3}
            | {"batch_size": 4}
            | options
        )
        return fit, attributes_run.train_attributes(settings)

    return trained


def test_the_last_layer_alone_is_trained_on_an_encoder_from_a_file(shop, tmp_path, attributes):
    encoder = create_encoder("test_efficientnet")
    file = tmp_path / "authors.safetensors"
    save_file({name: one.contiguous() for name, one in encoder.state_dict().items()}, file)
    settings = TrainAttributes(category="dresses", init_from=file, data=shop.data)
    check_inputs(settings)
    fit, _ = attributes(init_from=file)
    assert fit.settings.weights == str(file) and f"weights: {file}" in (fit.run / "config.yaml").read_text()
    assert not any(one.requires_grad for one in fit.model.encoder.parameters())
    found, given = fit.model.encoder.state_dict(), encoder.state_dict()
    assert (
        all(torch.equal(found[name], given[name]) for name in given) and fit.model.head.weight.requires_grad
    )


def val_shape(images):
    return images.labels_NA.shape


def test_an_attribute_predictor_is_trained_on_the_labels_of_its_category(shop, tmp_path, attributes, capsys):
    fit, stage = attributes(learning_rate=0.25)
    assert fit.facts == stage.facts == {
        "kind": "attribute predictor",
        "category": "dresses",
        "encoder": "test_efficientnet",
        "image_size": 32,
        "attribute_words": stage.facts["attribute_words"],
        "attribute_types": stage.facts["attribute_types"],
        "pictures": "drawn",
        "data": {"fingerprints": {"dresses": shop.catalog.fingerprint()}},
        "coverage": {"train": 1.0, "val": 1.0},
    }  # fmt: skip
    labels = shop.catalog.labels

    def count(split, word):
        return sum(any(word in words for words in labels[name]) for name in shop.catalog.ids(split))

    words = {word for some in labels.values() for words in some for word in words}
    counts = {word: count("train", word) for word in words}
    assert set(stage.facts["attribute_words"]) == {
        word
        for word, count in counts.items()
        if count >= 3 and word != "dress"  # which all have
    }
    assert fit.monitor == "val_mAP" and fit.module.learning_rate == 0.25
    assert [len(one.dataset) for one in fit.batches] == [18, 6] and fit.batches[1].batch_size == 4
    assert fit.batches[0].num_workers == 0  # all pictures are in memory
    assert stage.folder == tmp_path / "run" and stage.val is fit.batches[1].dataset
    figures = json.loads((tmp_path / "run" / "attributes.json").read_text())
    assert figures == stage.figures and figures["epoch"] == 3
    assert [(one["word"], one["type"], one["train"], one["val"]) for one in figures["words"]] == [
        (word, kind, counts[word], count("val", word))
        for word, kind in zip(stage.facts["attribute_words"], stage.facts["attribute_types"], strict=True)
    ]
    assert stage.scores_NA.shape == (6, len(stage.facts["attribute_words"]))
    printed = capsys.readouterr().out
    assert "train: 18 of 18 have labels and a readable picture\nval: 6 of 6" in printed
    assert "left out" not in printed and "box outside" not in printed
    assert all(one.requires_grad for one in fit.model.encoder.parameters())
    chances = chance_logits(fit.batches[0].dataset.labels_NA)
    assert torch.allclose(fit.model.head.bias, torch.as_tensor(chances).float())
    assert not fit.model.head.weight.any()
    assert fit.scored_on.type == "cpu"  # as --device says


def test_a_predictor_needs_a_val_picture_with_any_of_its_words(shop, tmp_path, attributes):
    data = shutil.copytree(shop.data, tmp_path / "data")
    path = data / "attributes" / "asin2attr.dress.val.json"
    labels = json.loads(path.read_text())
    path.write_text(json.dumps({name: [["dress"], ["seldom"], [], [], [], []] for name in labels}))
    with pytest.raises(UserError, match="no val picture has any of the attribute words"):
        attributes(data=data)


def test_a_second_stage_keeps_encoder_size_and_the_words_that_it_knows(shop, tmp_path, attributes, capsys):
    run = shutil.copytree(shop.run("predictor"), tmp_path / "first")
    about = json.loads((run / "model.json").read_text())
    words = about["attribute_words"]
    words[0], words[1] = "unknown", words[0]  # others have moved
    (run / "model.json").write_text(json.dumps(about | {"attribute_words": words}))
    fit, stage = attributes(init_from=run, encoder="another", image_size=224, weights="imagenet")
    before, _ = load_predictor(run)
    assert (stage.facts["encoder"], stage.facts["image_size"]) == ("test_efficientnet", 32)
    assert (fit.settings.encoder, fit.settings.image_size, fit.settings.weights) == (
        "test_efficientnet", 32, "none",
    )  # fmt: skip
    known = [word for word in stage.facts["attribute_words"] if word in words]
    assert f"{len(known)} of {len(stage.facts['attribute_words'])} attribute words start with" in (
        capsys.readouterr().out
    )
    for word in known:
        own, theirs = stage.facts["attribute_words"].index(word), words.index(word)
        assert torch.equal(fit.model.head.weight[own], before.head.weight[theirs])
        assert fit.model.head.bias[own] == before.head.bias[theirs]
    encoders = zip(fit.model.encoder.parameters(), before.encoder.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in encoders)
    assert fit.module.head_only


def test_pictures_that_cannot_be_read_are_told_up_to_three(shop, tmp_path, attributes, capsys):
    data = shutil.copytree(shop.data, tmp_path / "data")
    for name in shop.catalog.ids("train")[:5]:
        (data / "images" / "dress" / f"{name}.jpg").write_bytes(b"none")
    _, stage = attributes(data=data, category=None)
    printed = capsys.readouterr().out
    assert printed.count("left out: ") == 4 and "left out: 2 more" in printed
    assert stage.facts["coverage"] == {"train": 13 / 18, "val": 1.0} and stage.facts["category"] == "all"
    for name in shop.catalog.ids("val"):
        (data / "images" / "dress" / f"{name}.jpg").write_bytes(b"none")
    with pytest.raises(UserError, match="no val picture can be read, such as"):
        attributes(data=data, run=tmp_path / "other")
    assert capsys.readouterr().out.count("more") == 2  # three of val, and two more of train


# generators


@pytest.fixture
def generator(shop, tmp_path, fitted, monkeypatch):
    class Gray:
        """Stands for the trained generator; keeps what is asked of it."""

        def __init__(self, folder, device):
            asked.append((folder, device))

        def generate(self, requests):
            asked.append(requests)
            return [Generated(None, "failed", 0, "")] * len(requests)

    asked = []

    def trained(**options):
        fit = fitted(generator_run)
        plain = fit.__call__

        def saved(module, model, batches, **given):
            plain(module, model, batches, **given)
            save_model(given["run"], model, described(given["facts"]))

        monkeypatch.setattr(generator_run, "fit", saved)
        monkeypatch.setattr(generator_run, "RunGenerator", Gray)
        own = {
            "data": shop.data,
            "category": "dresses",
            "run": tmp_path / "run",
            "device": "cpu",
            "workers": 0,
        }
        model = DenoiserConfig(patch=4, width=8, heads=2, layers=1)
        settings = TrainGenerator(
            **own | {"image_size": 8, "model": model, "min_count": 3, "batch_size": 4} | options
        )
        return fit, generator_run.train_generator(settings), asked

    return trained


def test_a_generator_is_trained_on_the_words_of_its_category_and_draws_test_products(
    shop, tmp_path, generator
):
    fit, trained, (made, requests) = generator(seed=7, learning_rate=0.5)
    about = trained.about
    assert (about.kind, about.category, about.pictures, about.language) == (
        "generator",
        "dresses",
        "drawn",
        "en",
    )
    assert about.coverage == {"train": 1.0, "val": 1.0} and about.sizes["vocabulary"] == len(about.words)
    assert about.data == {"fingerprints": {"dresses": shop.catalog.fingerprint()}}
    assert fit.monitor == "val_fit" and fit.model is fit.module.average and fit.module.learning_rate == 0.5
    assert [len(one.dataset) for one in fit.batches] == [18, 6] and fit.batches[1].batch_size == 4
    assert made == (tmp_path / "run", "cpu")
    assert [request.seed for request in requests] == [7 + row for row in range(6)]
    assert len(trained.samples) == 6 and trained.folder == tmp_path / "run"
    assert (tmp_path / "run" / "scheduler").is_dir() and (
        tmp_path / "run" / "denoiser" / "config.json"
    ).exists()


@pytest.mark.parametrize(
    ("count", "most", "rows"),
    [(5, 3, [0, 2, 4]), (3, 5, [0, 1, 2]), (1, 5, [0]), (10, 4, [0, 3, 6, 9]), (2, 1, [0])],
)
def test_rows_are_spread_from_the_first_to_the_last(count, most, rows):
    assert generator_run._spread(count, most) == rows


def test_more_products_are_drawn_for_a_judge_than_for_the_contact_sheet(
    shop, tmp_path, generator, monkeypatch
):
    monkeypatch.setattr(generator_run, "ON_SHEET", 2)
    monkeypatch.setattr(generator_run, "JUDGED", 4)
    monkeypatch.setattr(generator_run, "Judge", lambda run: "judge")
    monkeypatch.setattr(
        generator_run, "evaluate_generator", lambda judge, known, samples: {"products": len(samples)}
    )
    _, trained, _ = generator(predictor=shop.run("predictor"))
    assert trained.about.evaluation["products"] == 4 and len(trained.samples) == 2
    _, trained, (*_, requests) = generator(run=tmp_path / "other")
    assert len(requests) == len(trained.samples) == 2


def test_a_generator_needs_a_readable_picture_of_each_split(shop, tmp_path, generator):
    data = shutil.copytree(shop.data, tmp_path / "data")
    for name in shop.catalog.ids("val"):
        (data / "images" / "dress" / f"{name}.jpg").write_bytes(b"none")
    with pytest.raises(UserError, match="no val picture can be read, such as"):
        generator(data=data)


# retrievers


@pytest.fixture
def wording(monkeypatch):
    """What the wording of a run is fitted to."""
    found = {}

    def fit_wording(folder, catalog, items, pairs, vocabulary, **given):
        found.update(given, items=items, pairs=pairs, vocabulary=vocabulary)
        return "words"

    monkeypatch.setattr(retriever_run, "fit_wording", fit_wording)
    return found


@pytest.fixture
def retriever(shop, tmp_path, fitted, wording):
    def trained(**options):
        fit = fitted(
            retriever_run,
            **{"val_P_2": 80.0, "val_R@10_2": 61.23, "val_P_1": 70.0, "val_R@10_1": 50.0},
            **{"val_R@10_differences": 40.0, "val_R@10_recorded": 30.0},
        )
        own = {"data": shop.data, "category": "dresses", "run": tmp_path / "run", "device": "cpu", "turns": 2}
        model = RetrieverConfig(kind="rnn", width=16)
        settings = TrainRetriever(
            **own | {"model": model, "users": ["differences"], "batch_size": 4, "epochs": 2} | options
        )
        return fit, retriever_run.train_retriever(settings)

    return trained


def test_a_retriever_is_trained_with_its_users(shop, tmp_path, retriever, wording):
    fit, summary = retriever(learning_rate=0.5, loss="triplet", schedule="constant", exclude_shown=True)
    assert type(fit.module) is RetrieverTraining and fit.monitor == "val_score" and fit.halfway == ()
    assert isinstance(fit.module.asker, BestItem) and fit.module.asker.exclude_shown
    assert [len(one.dataset) for one in fit.batches] == [18, 6]
    about = {
        "kind": "retriever",
        "category": "dresses",
        "attrs": False,
        "model": "rnn",
        "user": None,
        "loss": "triplet",
        "users": ["differences"],
        "dialogs": "simulated",
        "errors": 0.0,
        "exclude_shown": True,
    }
    assert {name: fit.facts[name] for name in about} == about
    assert fit.facts["data"]["coverage"] == {"train": 1.0, "val": 1.0}
    assert fit.facts["sizes"]["attributes"] == 0 and fit.facts["sizes"]["width"] == 16
    assert summary.startswith(
        f"retriever of epoch 3 in {tmp_path / 'run'}: turn 2 P 80.0, R@10 61.2 among the 6 products of val; "
        "users: differences\nwords\n"
    )
    assert "by chance 100.0" in summary, "any ranking of the 6 products finds the target among the first ten"
    assert wording["seed"] == 0 and wording["share"] == TRAINED
    assert wording["items"].ids == shop.catalog.ids("train")
    assert len(wording["pairs"]) == len(shop.catalog.pairs("train"))
    assert wording["vocabulary"].words == fit.facts["words"]


def test_recorded_captions_alone_are_single_turns_and_their_pairs_are_covered(shop, retriever):
    fit, summary = retriever(users=["recorded"])
    assert fit.facts["dialogs"] == "recorded" and "turn 1 P 70.0" in summary
    captions = [pair.captions for pair in shop.catalog.pairs("val") if pair.target]
    assert len(fit.batches[1].dataset) == sum(map(len, captions))
    assert fit.facts["data"]["coverage"] == {"train": 1.0, "val": 1.0}


def test_only_dialogs_of_several_turns_need_a_product_for_each_turn(retriever, tmp_path):
    many = {"turns": 7, "exclude_shown": True}
    fit, _ = retriever(users=["recorded"], **many)
    assert fit.module.source.turns == 1
    with pytest.raises(UserError, match="needs a product for each of the --turns 7, found 6 products"):
        retriever(users=["recorded", "differences"], **many, run=tmp_path / "other")


def test_long_validations_are_thinned(retriever, monkeypatch):
    monkeypatch.setattr(retriever_run, "VALIDATED", 2)
    fit, _ = retriever()
    assert len(fit.batches[1].dataset) == 2
    fit, _ = retriever(turns=1, run=fit.run.with_name("other"))
    assert len(fit.batches[1].dataset) == 6


def test_a_policy_needs_a_trained_retriever_whose_weights_it_begins_with(shop, tmp_path, retriever):
    run = shop.run("retriever")
    fit, _ = retriever(stage="policy", init_from=run)
    assert isinstance(fit.module, PolicyTraining) and fit.module.negatives == "batch"
    assert fit.module.temperature == 1.0
    options = {"stage": "policy", "init_from": run, "loss": "cross-entropy", "temperature": 0.25}
    assert retriever(**options, run=tmp_path / "soft")[0].module.temperature == 0.25
    before, vocabulary, _ = load_retriever(run, "dresses", shop.features)
    assert fit.facts["words"] == vocabulary.words
    for own, other in zip(fit.model.parameters(), before.parameters(), strict=True):
        assert torch.equal(own, other)
    with pytest.raises(UserError, match=r"has other sizes or words than this training; .* --word-vectors,"):
        retriever(init_from=run, model=RetrieverConfig(kind="rnn", width=8), run=tmp_path / "other")


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("kind", ["linear", "residual"])
def test_a_fitted_retriever_starts_from_captions_and_has_a_temperature_of_its_own(
    kind, halfway, retriever, wording
):
    fit, _ = retriever(
        model=RetrieverConfig(kind=kind, width=512, heads=2, hidden=16, layers=1),
        users=["differences", "recorded"],
        loss="cross-entropy",
        halfway=halfway,
    )
    assert fit.facts["sizes"]["width"] == 256 and fit.facts["sizes"]["bigrams"] > 0
    assert fit.facts["dialogs"] == "both"
    linear = fit.model if kind == "linear" else fit.model.linear
    assert linear.bag_GD.any() and len(linear.bigram_G) == fit.facts["sizes"]["bigrams"]
    of_ridge = {id(weight) for weight in linear.parameters()}
    if kind == "residual":  # the other weights of the transformer are random before
        of_ridge |= {id(weight) for weight in fit.model.transformer.query.parameters()}
    assert {id(weight) for weight in fit.halfway} == (of_ridge if halfway else set())
    assert wording["share"] == (HALFWAY if halfway else TRAINED)
    assert retriever_run._temperature(fit.settings) == retriever_run.LINEAR_TEMPERATURE
    assert retriever_run._temperature(replace(fit.settings, temperature=2.0)) == 2.0
    assert retriever_run._temperature(replace(fit.settings, loss="triplet")) is None
    rnn = replace(fit.settings, model=RetrieverConfig(kind="rnn"))
    assert retriever_run._temperature(rnn) is None


def test_a_live_source_is_every_second_one(wording, shop, tmp_path, monkeypatch):
    made = {}

    def trained(settings, folder, model, sources, facts, **given):
        made.update(sources=sources, facts=facts, **given)
        return "best", "verdict"

    monkeypatch.setattr(retriever_run, "fit_retriever", trained)
    settings = TrainRetriever(
        data=shop.data,
        category="dresses",
        run=tmp_path / "run",
        device="cpu",
        model=RetrieverConfig(kind="rnn", width=16),
        users=["differences", "recorded"],
    )
    given = []
    summary = retriever_run.train_retriever(settings, lambda *some: given.append(some) or "live")
    first, live, second, again = made["sources"]
    assert (live, again) == ("live", "live") and first.name == "differences" and second.name == "recorded"
    assert made["facts"]["users"] == ["differences", "recorded", "live"] and given[0][2] == 8
    assert summary.startswith("best; users: differences, recorded\nwords\n")


def test_token_features_of_pictures_have_a_size_of_their_own(
    shop, conversation_folder, chatsearcher, monkeypatch
):
    def with_patches(ids, stores):
        found = frozen_features(ids, stores)
        place_N2 = np.array([[0, row] for row in range(len(found.ids))])
        return replace(found, patches=[np.zeros((len(found.ids), 3, 7), np.float16)], place_N2=place_N2)

    monkeypatch.setattr(chatsearcher_run, "frozen_features", with_patches)
    fit, _ = chatsearcher(stage="captions")
    assert fit.facts["sizes"]["token_features"] == 7 and fit.facts["sizes"]["features"] == 256


@pytest.fixture
def mixed(conversation_folder, tmp_path, monkeypatch):
    """Conversations, of which one ends in words and one in a picture, and a document."""
    data = shutil.copytree(conversation_folder, tmp_path / "mixed", ignore=shutil.ignore_patterns("run"))
    first, second = list(Conversations(data).items)[:2]
    monkeypatch.setattr(chatsearcher_run, "_held_out", lambda items, share, seed: {"D000000002"})
    user = ConversationTurn("user", (TurnPicture(first), Text("longer please")))
    ends = (Text("sure"),), (TurnPicture(second),)
    write_jsonl(data / TALKS, [Talk((user, ConversationTurn("assistant", end))) for end in ends])
    page = (Text("a red dress"), TurnPicture(first), Text("sure"), TurnPicture(second))
    write_jsonl(data / DOCUMENTS, [Document(page)])
    return data, (first, second)


def test_the_mixture_of_the_second_stage_ends_in_words_or_pictures(mixed, chatsearcher):
    """ChatSearch, section 4.3: all that the assistant says and shows is predicted, in each round."""
    data, (first, second) = mixed
    fit, _ = chatsearcher(data=data, subtasks=["t"])
    words, picture = (one for [one] in fit.module.train_examples[-2:])
    tokens, positions = fit.module.tokens, fit.module.features.positions
    learned = [number for number, is_learned in zip(words.ids, words.learned, strict=True) if is_learned]
    assert learned == [*tokens.tokens.encode("sure"), tokens.tokens.end] and words.images == [
        positions[first]
    ]
    assert picture.images == [positions[first], positions[second]]
    shown = [place for place, one in enumerate(picture.ids) if one == tokens.image]
    assert [picture.learned[place] for place in shown] == [False, True]
    assert TALKS in fit.facts["data"]["checksums"]


def test_a_page_of_the_first_stage_has_pictures_before_or_after_their_sentences(mixed, chatsearcher):
    data, names = mixed
    orders = set()
    for seed in range(6):
        fit, _ = chatsearcher(data=data, stage="captions", seed=seed, run=data / f"run{seed}")
        [page] = fit.module.train_examples[-1]
        assert all(
            page.learned[place] for place, one in enumerate(page.ids) if one == fit.module.tokens.image
        )
        assert sorted(page.images) == sorted(fit.module.features.positions[name] for name in names)
        orders.add(tuple(page.ids))
    assert len(orders) == 2 and DOCUMENTS in fit.facts["data"]["checksums"]


def test_a_picture_stays_beside_its_sentence():
    first, second, one, two, three = TurnPicture("1"), TurnPicture("2"), *map(Text, "abc")
    page, orders = (first, one, two, second, three), set()
    for seed in range(40):
        orders.add(chatsearcher_run.around_sentences(page, random.Random(seed)))
    starts, ends = ((first, one), (one, first)), ((second, three), (three, second))
    assert orders == {(*start, two, *end) for start in starts for end in ends}
    beside = (first, second, one)  # two pictures of one sentence
    found = {chatsearcher_run.around_sentences(beside, random.Random(seed)) for seed in range(20)}
    assert found == {beside, (first, one, second)}


def test_a_page_about_all_products_that_are_not_held_out_is_trained_on(mixed, chatsearcher, monkeypatch):
    data, names = mixed

    def of_three(items, stores):
        return frozen_features([*names, "D000000002"], stores)

    monkeypatch.setattr(chatsearcher_run, "frozen_features", of_three)
    fit, _ = chatsearcher(data=data, subtasks=["t"], stage="captions")
    positions = fit.module.features.positions
    [page] = fit.module.train_examples[-1]
    assert set(positions) == {*names, "D000000002"}
    assert set(page.images) == {positions[name] for name in names}


def test_a_long_page_is_divided_and_never_loses_a_picture(mixed, chatsearcher):
    data, (first, _) = mixed
    page = [part for _ in range(12) for part in (TurnPicture(first), Text("a red dress longer please sure"))]
    write_jsonl(data / DOCUMENTS, [Document(tuple(page))])
    fit, _ = chatsearcher(data=data, stage="captions")
    parts = [some[0] for some in fit.module.train_examples if len(some) == 1]  # captions have two orders
    assert (
        sum(len(one.images) for one in parts) == 12
        and max(len(one.ids) for one in parts) <= 64
        and len(parts) > 1
    )


# captioners


@pytest.mark.parametrize("attrs", [False, True])
def test_a_captioner_reads_labels_with_attrs(attrs, shop, tmp_path, fitted):
    fit = fitted(captioner, **{"val_P": 60.0, "val_R@10": 12.0, "val_BLEU-4": 3.0})
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "run"}
    captioner.train_captioner(TrainCaptioner(**own, device="cpu", attrs=attrs))
    assert fit.facts["sizes"]["attributes"] == (len(shop.features.attribute_words) if attrs else 0)


def test_a_captioner_is_validated_on_all_pairs_of_val_each_once(shop, tmp_path, fitted):
    fit = fitted(captioner, **{"val_P": 60.04, "val_R@10": 12.16, "val_BLEU-4": 3.27})
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "run"}
    made, summary, _ = captioner.train_captioner(TrainCaptioner(**own, device="cpu", beam=3))
    pairs = [pair for pair in shop.catalog.pairs("val") if pair.target]
    reference_N, target_N, number_N = fit.batches[1].dataset.tensors
    ids = fit.module.items["val"].ids
    assert [
        (ids[reference], ids[target]) for reference, target in zip(reference_N, target_N, strict=True)
    ] == [(pair.candidate, pair.target) for pair in pairs]
    assert number_N.tolist() == list(range(len(pairs))) and fit.module.val_pairs == pairs
    assert made == tmp_path / "run" and summary == (
        f"captioner of epoch 3 in {made}: by its captions, a linear retriever fitted to the recorded ones finds the "
        f"target with P 60.0, R@10 12.2; BLEU-4 3.3 on {len(pairs)} pairs of val (100.0 %), beam 3, "
        f"captions: {shop.catalog.captions_origin}"
    )


def test_words_of_val_that_a_captioner_cannot_know_are_counted_and_five_are_told(capsys):
    vocabulary = Vocabulary(["is", "red"])
    captioner._print_unknown(vocabulary, ["is red", "is blue blue", "one two three four five"])
    captioner._print_unknown(vocabulary, ["is red"])
    assert capsys.readouterr().out == (
        "2 words; 70.0 % of the words of val are unknown, such as blue, one, two, three, four\n"
        "2 words; 0.0 % of the words of val are unknown\n"
    )


def test_a_captioner_can_be_trained_with_a_pair_per_step(shop, tmp_path, fitted):
    fit = fitted(captioner, **{"val_P": 60.0, "val_R@10": 12.0, "val_BLEU-4": 3.0})
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "run"}
    captioner.train_captioner(TrainCaptioner(**own, device="cpu", batch_size=1))
    assert len(fit.batches[0]) == len(fit.batches[0].dataset)


def test_a_captioner_is_compared_with_the_first_caption_of_each_pair_and_with_none(shop, tmp_path, fitted):
    fit = fitted(captioner, **{"val_P": 61.24, "val_R@10": 12.04, "val_BLEU-4": 3.06})
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "run"}
    _, summary, verdict = captioner.train_captioner(TrainCaptioner(**own, device="cpu", beam=2, seed=2))
    pairs, val = shop.catalog.pairs("val"), fit.module.items["val"]

    def with_captions(text_of):
        said = [(pair.candidate, text_of(pair), pair.target) for pair in pairs]
        return percentile(fit.module.judge.ranks(said, val), len(val))

    people, last, alone = map(
        with_captions, (lambda pair: pair.captions[0], lambda pair: pair.captions[-1], lambda pair: "")
    )
    assert (
        verdict.startswith(captioner_verdict(61.24, people, alone, len(pairs)))
        and len({people, last, alone}) == 3
    )
    assert summary == (
        f"captioner of epoch 3 in {tmp_path / 'run'}: by its captions, a linear retriever fitted to the recorded ones "
        f"finds the target with P 61.2, R@10 12.0; BLEU-4 3.1 on {len(pairs)} pairs of val (100.0 %), beam 2, "
        f"captions: {shop.catalog.captions_origin}"
    )


def test_a_captioner_is_trained_on_the_captions_of_its_category_with_a_listener_and_a_judge(
    shop, tmp_path, fitted
):
    fit = fitted(captioner, **{"val_P": 60.0, "val_R@10": 12.0, "val_BLEU-4": 3.0})
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "run"}
    captioner.train_captioner(TrainCaptioner(**own, device="cpu", batch_size=8, min_count=1))
    catalog, module = shop.catalog, fit.module
    pairs, val = catalog.pairs("train"), module.items["val"]
    texts = [text for pair in pairs for text in pair.captions]
    assert fit.facts["words"] == Vocabulary.of(texts, 1).words and fit.facts["kind"] == "captioner"
    assert fit.facts["data"]["coverage"] == {"train": 1.0, "val": 1.0}
    said = [(text, pair.target, pair.candidate) for pair in pairs for text in pair.captions]
    assert fit.facts["captions_true"] == truthfulness(said, StatementCheck.of(catalog))["true"]
    assert module.truth.labels == catalog.labels and module.val_pairs == catalog.pairs("val")
    assert len(texts) == 2 * len(pairs) and fit.batches[0].batch_size == 4  # of two captions each
    places = [tuple(part.tolist()) for part in fit.batches[1].dataset.tensors]
    assert [(val.ids[shown], val.ids[target]) for shown, target in zip(*places[:2], strict=True)] == [
        (pair.candidate, pair.target) for pair in module.val_pairs
    ]
    assert places[2] == tuple(range(len(module.val_pairs)))
    assert all((tmp_path / "run" / name / "weights.safetensors").exists() for name in (LISTENER, JUDGE))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["a red dress", "Red a a shirt"], "57.1 % of the words of val are unknown, such as a, shirt"),
        (["red dress"], "0.0 % of the words of val are unknown"),
        (
            ["f e d c b a", "f e d c b f", "red dress dress red"],
            "75.0 % of the words of val are unknown, such as f, e, d, c, b",
        ),
    ],
)
def test_the_share_of_unknown_words_of_val_is_told_with_the_most_frequent_ones(texts, told, capsys):
    captioner._print_unknown(Vocabulary(["red", "dress"]), texts)
    assert capsys.readouterr().out == f"2 words; {told}\n"


@pytest.mark.parametrize("select", ["P", "BLEU-4", "BLEU-3"])
def test_the_epoch_of_a_captioner_is_selected_by_the_measure_of_the_option(shop, tmp_path, fitted, select):
    fit = fitted(captioner, **{"val_P": 60.0, "val_R@10": 12.0, "val_BLEU-4": 3.0})
    settings = TrainCaptioner(
        data=shop.data,
        category="dresses",
        features=shop.store,
        run=tmp_path / "run",
        device="cpu",
        select=select,
    )
    captioner.train_captioner(settings)
    assert fit.every == (5 if select == "BLEU-3" else 1)
    logged = {}
    fit.module.log = logged.__setitem__
    pairs = fit.module.val_pairs
    fit.module._captions = [(number, pair.captions[0]) for number, pair in enumerate(pairs)]
    fit.module.on_validation_epoch_end()
    assert fit.monitor == "val_score" and logged["val_score"] == logged[f"val_{select}"] > 0
    fit.module._captions = [(number, "red red") for number, _ in enumerate(pairs)]
    fit.module.on_validation_epoch_end()
    less = 100 if select == "P" else 0  # no language, however well a listener guesses
    assert logged["val_BLEU-1"] < 20 and logged["val_score"] == logged[f"val_{select}"] - less


TRAININGS = {
    "attributes": (attributes_run.train_attributes, TrainAttributes),
    "captioner": (captioner.train_captioner, TrainCaptioner),
    "chatsearcher": (chatsearcher_run.train_chatsearcher, TrainChatsearcher),
    "dialog encoder": (dialog_encoder_run.train_dialog_encoder, TrainDialogEncoder),
    "generator": (generator_run.train_generator, TrainGenerator),
    "retriever": (retriever_run.train_retriever, TrainRetriever),
}


@pytest.mark.parametrize("kind", TRAININGS)
def test_every_training_locks_its_folder(kind, monkeypatch, tmp_path):
    def locked(path):
        raise UserError(f"{path} is locked")

    monkeypatch.setattr(folder, "exclusive", locked)
    train, settings = TRAININGS[kind]
    with pytest.raises(UserError, match=f"{tmp_path / 'run'} is locked"):
        train(
            settings(
                **{"run": tmp_path / "run"}
                | (
                    {}
                    if kind in ("attributes", "chatsearcher", "dialog encoder", "generator")
                    else {"category": "dresses"}
                )
            )
        )


def test_a_category_without_captions_of_people_is_trained_with_its_labels(shop, tmp_path, retriever, wording):
    data = shutil.copytree(shop.data, tmp_path / "data", ignore=shutil.ignore_patterns("captions"))
    retriever(data=data, features=shop.store)
    assert wording["pairs"] == []


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("rnn", None, True),
        ("transformer", None, True),
        ("linear", None, False),
        ("residual", None, False),
        ("rnn", "word_vectors", False),
        ("rnn", "init_from", False),
    ],
)
def test_a_transformer_or_rnn_without_word_vectors_is_said_to_learn_its_words_from_scratch(
    kind, given, told, shop, tmp_path, retriever, capsys
):
    (tmp_path / "vectors.txt").write_text("red 1 2\n")
    paths = {"word_vectors": tmp_path / "vectors.txt", "init_from": shop.run("retriever")}
    retriever(
        model=RetrieverConfig(kind=kind, width=16, heads=2, hidden=16, layers=1),
        users=["differences", "recorded"],
        **({given: paths[given]} if given else {}),
    )
    assert ("word embeddings are learned from scratch" in capsys.readouterr().out) == told


@pytest.mark.parametrize("known", [("red",), ("red", "is", "with", "a")])
def test_word_vectors_are_set_and_words_without_them_are_told(tmp_path, retriever, capsys, known):
    lines = [f"{word} {number} {number + 0.5}" for number, word in enumerate(known)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    fit, _ = retriever(word_vectors=tmp_path / "vectors.txt")
    words = fit.facts["words"][len(SPECIAL) :]
    there = [word for word in words if word in known]
    missing = [word for word in words if word not in known]
    told = f"{len(there)} of {len(words)} words have vectors in {tmp_path / 'vectors.txt'}; without: "
    assert told + ", ".join(missing[:8]) in capsys.readouterr().out and len(missing) > 8
    assert fit.facts["sizes"]["word_vector_size"] == 2


def test_word_vectors_may_be_learned_from_the_texts_of_the_catalog(retriever, capsys):
    fit, _ = retriever(word_vectors=Path("catalog"), seed=2)
    words = fit.facts["words"][len(SPECIAL) :]
    told = f"{len(words)} of {len(words)} words have vectors in catalog; without: none"
    assert told in capsys.readouterr().out and fit.facts["sizes"]["word_vector_size"] == LEARNED_SIZE
    again, _ = retriever(word_vectors=Path("catalog"), seed=2)
    learned, same = (
        [weight for weight in one.model.state_dict().values() if weight.shape[1:] == (LEARNED_SIZE,)]
        for one in (fit, again)
    )
    assert torch.equal(learned[0], same[0]) and learned[0].std() > 0


def test_word_vectors_of_the_catalog_know_the_words_of_a_captioner(shop, tmp_path, retriever, capsys):
    own = {"data": shop.data, "category": "dresses", "features": shop.store, "run": tmp_path / "speaker"}
    small = CaptionerConfig(width=16, heads=2, hidden=16, layers=1)
    captioner.train_captioner(TrainCaptioner(**own, device="cpu", epochs=1, beam=1, model=small))
    fit, _ = retriever(word_vectors=Path("catalog"), users=["captioner"], captioner=tmp_path / "speaker")
    words = fit.facts["words"][len(SPECIAL) :]
    told = f"{len(words)} of {len(words)} words have vectors in catalog; without: none"
    assert fit.facts["users"] == [str(tmp_path / "speaker")] and told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "given", "recommended"),
    [
        ("rnn", "nothing", True),
        ("transformer", "nothing", True),
        ("linear", "nothing", False),
        ("rnn", "vectors", False),
        ("rnn", "weights", False),
    ],
)
def test_word_vectors_are_recommended_where_word_embeddings_are_learned_from_scratch(
    kind, given, recommended, tmp_path, shop, retriever, capsys
):
    (tmp_path / "vectors.txt").write_text("red 0 1\n")
    options = {
        "nothing": {},
        "vectors": {"word_vectors": tmp_path / "vectors.txt"},
        "weights": {"init_from": shop.run("retriever")},
    }[given]
    model = RetrieverConfig(kind=kind, width=16, heads=2, hidden=16, layers=1)
    retriever(model=model, users=["recorded"], **options)
    told = "learned from scratch; the paper has GloVe's of 300 numbers: --word-vectors FILE\n"
    assert (told in capsys.readouterr().out) == recommended


def told_of(settings, name):
    """The default that the help of an option tells."""
    [option] = [one for one in dataclasses.fields(settings) if one.name == name]
    return str(option.metadata)


def test_the_learning_rates_are_those_that_the_options_tell():
    rates = [f"{rate:.0e}".replace("e-0", "e-") for rate in chatsearcher_run.RATES.values()]
    assert rates == ["1e-3", "5e-4", "2e-5", "2e-6"]
    told = told_of(TrainChatsearcher, "learning_rate")
    assert all(rate in told for rate in rates)
    rates = [f"{rate:.0e}".replace("e-0", "e-") for rate in dialog_encoder_run.LEARNING_RATES.values()]
    assert rates == ["1e-3", "5e-5"] and all(
        rate in told_of(TrainDialogEncoder, "learning_rate") for rate in rates
    )

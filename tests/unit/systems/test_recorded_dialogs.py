"""ChatIR's evaluation: which queries its options make of recorded dialogs, and what it reports and refuses."""

import json
import os

import numpy as np
import pytest
import torch

from fashioniq.askers.attribute_questions import CandidateAware
from fashioniq.config import EvalChatIR
from fashioniq.data.dialogues import Dialogue, Round, read_dialogues, write_dialogues
from fashioniq.data.facts import Questions
from fashioniq.files import UserError, checksum
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import rollout
from fashioniq.runs import search_space
from fashioniq.runs.training_data import Selection, first_path, recorded_settings, store_of, version_of
from fashioniq.systems import chatir
from tests.unit.shop import stated

CPU = torch.device("cpu")


@pytest.fixture
def options_of(shop):
    def options_of(**options):
        own = {
            "dialogues": [str(shop.dialogues())],
            "search_space": shop.data / "image_splits" / "split.dress.test.json",
            "device": "cpu",
        }
        if "query_vectors" not in options and "gallery_vectors" not in options:
            own |= {"encoder": str(shop.run("encoder")), "features": shop.store}
        return EvalChatIR(**own | options)

    return options_of


@pytest.fixture
def encoder(shop):
    return search_space.search_space(
        str(shop.run("encoder")), shop.catalog.ids("test"), CPU, store=shop.store
    ).encoder


@pytest.mark.parametrize(
    ("options", "text", "about"),
    [
        ({}, ", ".join, "rounds joined by ', '"),
        ({"separator": " | "}, " | ".join, "rounds joined by ' | '"),
        ({"query": "last"}, lambda rounds: rounds[-1], "each round alone"),
    ],
)
def test_the_query_is_the_text_of_the_rounds_so_far(shop, options_of, encoder, options, text, about):
    [task] = chatir.build(options_of(**options))
    system, user, target_B, first = task.batch([3, 1])
    done = rollout(system, user, target_B, first, task.turns)
    read = [read_dialogues(shop.dialogues())[row] for row in (3, 1)]
    assert [system.gallery.items.ids[item] for item in target_B] == [one.image for one in read]
    for number, query_BD in enumerate(done.query_BTD.unbind(1)):
        wanted_BD = encoder.texts([text(one.rounds[: number + 1]) for one in read])
        assert torch.allclose(query_BD, wanted_BD, atol=1e-5)
    assert stated(task)["query"] == about and first == Message()
    assert (task.name, task.protocol, task.count, task.turns) == ("dress.test", "ChatIR", 6, 11)


def test_the_facts_of_recorded_dialogs(shop, options_of):
    [task] = chatir.build(options_of())
    space = options_of().search_space
    questions = stated(task)["questions"]
    assert stated(task) == {
        "search_space": str(space),
        "coverage": 1.0,
        "encoder": str(shop.run("encoder")),
        "model": "dialog encoder",
        "limit": 128,
        "store": str(shop.store),
        "query": "rounds joined by ', '",
        "cut": [0] * 11,
        "questions": questions,
    }
    assert set(questions) == {"exact_repeats", "unique_tokens", "without_mark"}
    assert task.data == {path.name: checksum(path) for path in (shop.dialogues(), space)}
    assert task.advice == f"the weights of {shop.run('encoder')} are damaged"


def test_texts_that_are_longer_than_the_limit_are_counted_by_round(options_of, shop, tmp_path):
    long = " ".join(["red"] * 126)  # of at most 128 words, and the rounds before count
    dialogues = [
        Dialogue("D000000004", (long, "is it red? it is", "long? yes")),
        Dialogue("D000000009", ("a dress", "is it red? no", "long? no")),
    ]
    write_dialogues(tmp_path / "some.json", dialogues)
    [task] = chatir.build(options_of(dialogues=[str(tmp_path / "some.json")], query="rounds"))
    assert stated(task)["cut"] == [0, 1, 1] and task.turns == 3


def test_rounds_without_a_question_and_repeated_ones_are_counted():
    some = [
        Dialogue("A", tuple(map(Round.read, ("a dress", "is it red? no", "it is long", "is it Red? no")))),
        Dialogue("B", tuple(map(Round.read, ("a dress?", "red", "is it new? yes", "red")))),
    ]
    assert chatir._questions(some) == Questions(exact_repeats=0.5, unique_tokens=3.0, without_mark=3)
    assert chatir._questions([Dialogue("A", ("a dress", "a red dress"), alone=True)]) is None


def test_a_question_is_offered_and_a_round_without_one_offers_nothing(shop, options_of, tmp_path):
    some = [Dialogue("D000000004", ("a dress", "is it red? no", "it is long", "is it new? yes"))]
    write_dialogues(tmp_path / "some.json", some)
    [task] = chatir.build(options_of(dialogues=[str(tmp_path / "some.json")]))
    system, user, target_B, first = task.batch([0])
    turns = rollout(system, user, target_B, first, 4).state.turns
    assert [turn.offer.questions for turn in turns] == [None, ["is it red?"], None, ["is it new?"]]
    assert [list(turn.reply.texts) for turn in turns] == [["a dress"], ["no"], ["it is long"], ["yes"]]


@pytest.fixture
def vectors(tmp_path, shop):
    """Files of vectors: of the gallery, and of two dialog files; and the options with them."""
    numbers = np.random.default_rng(0)
    for name, shape in (("gallery", (6, 4)), ("dress.test", (6, 11, 4)), ("dress.val", (6, 11, 4))):
        np.save(tmp_path / f"{name}.npy", numbers.normal(size=shape))
    return {
        "query_vectors": [str(tmp_path / "dress.test.npy")],
        "gallery_vectors": tmp_path / "gallery.npy",
    }


def test_queries_of_a_file_are_taken_by_dialog_and_round(options_of, vectors):
    [task] = chatir.build(options_of(**vectors))
    system, user, target_B, first = task.batch([5, 2])
    done = rollout(system, user, target_B, first, 11)
    query_NTD = torch.from_numpy(np.load(vectors["query_vectors"][0])).float()
    assert torch.allclose(done.query_BTD, torch.nn.functional.normalize(query_NTD[[5, 2]], dim=-1), atol=1e-6)
    assert stated(task)["query"] == f"vectors of {vectors['query_vectors'][0]}"
    assert stated(task)["encoder"] == f"vectors of {vectors['gallery_vectors']}" and "cut" not in stated(task)


def test_each_dialog_file_has_its_own_vectors_and_checksum(shop, options_of, vectors, tmp_path):
    every = shop.catalog.ids("test") + shop.catalog.ids("val")
    (tmp_path / "space.json").write_text(json.dumps(every))
    np.save(tmp_path / "gallery.npy", np.random.default_rng(0).normal(size=(12, 4)))
    first, second = chatir.build(
        options_of(
            dialogues=[str(shop.dialogues()), str(shop.dialogues("val"))],
            search_space=tmp_path / "space.json",
            query_vectors=[str(tmp_path / "dress.test.npy"), str(tmp_path / "dress.val.npy")],
            gallery_vectors=tmp_path / "gallery.npy",
        )
    )
    assert (first.name, second.name) == ("dress.test", "dress.val")
    assert stated(first)["query"].endswith("test.npy") and stated(second)["query"].endswith("val.npy")
    assert (
        list(first.data) == ["dress.test.json", "space.json"] and next(iter(second.data)) == "dress.val.json"
    )


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"dialogues": []}, "give --dialogues FILE"),
        ({"encoder": None}, "give either --encoder, or both"),
        ({"query_vectors": ["q.npy"]}, "or both --query-vectors and --gallery-vectors"),
        ({"gallery_vectors": "g.npy"}, "or both --query-vectors and --gallery-vectors"),
        ({"query_vectors": ["q.npy"], "gallery_vectors": "g.npy", "encoder": "e"}, "give either --encoder"),
        ({"query_vectors": ["q.npy"], "gallery_vectors": "g.npy", "separator": ""}, "--separator needs"),
        ({"query_vectors": ["q.npy"], "gallery_vectors": "g.npy", "features": "f"}, "--features needs"),
        ({"query_vectors": ["q.npy"], "gallery_vectors": "g.npy", "weights": "w"}, "--weights needs"),
        (
            {"query_vectors": ["q", "r"], "gallery_vectors": "g.npy"},
            "each of --dialogues: expected 1, found 2",
        ),
    ],
)
def test_options_that_cannot_be_combined(options_of, options, found):
    with pytest.raises(UserError, match=found):
        chatir.build(options_of(**options))


def test_two_files_of_one_name_are_refused(shop, options_of, tmp_path):
    (tmp_path / "dress.test.json").write_text(shop.dialogues().read_text())
    with pytest.raises(UserError, match="expected different file names"):
        chatir.build(options_of(dialogues=[str(shop.dialogues()), str(tmp_path / "dress.test.json")]))


def test_a_target_without_features_is_refused_by_name(shop, options_of, tmp_path):
    some = [Dialogue(name, ("a", "b? c")) for name in ("D000000004", "gone", "lost")]
    write_dialogues(tmp_path / "some.json", some)
    (tmp_path / "space.json").write_text(json.dumps([one.image for one in some]))
    options = options_of(dialogues=[str(tmp_path / "some.json")], search_space=tmp_path / "space.json")
    with pytest.raises(UserError, match="2 target images of some have no readable picture, such as gone"):
        chatir.build(options)
    write_dialogues(tmp_path / "some.json", some[:1])
    [task] = chatir.build(options)
    assert stated(task)["coverage"] == pytest.approx(1 / 3)


def test_a_folder_without_the_pictures_is_told(shop, options_of, tmp_path, capsys):
    [task] = chatir.build(options_of(images=tmp_path))
    assert f"{tmp_path} has no picture of the search space, such as D000000004" in capsys.readouterr().out
    assert task.cards.images == {}
    [task] = chatir.build(options_of(images=shop.data / "images" / "dress"))
    assert capsys.readouterr().out == "" and len(task.cards.images) == 6


# a loaded run


def test_a_loaded_dialog_encoder_asks_about_the_labels_of_its_catalog(shop):
    system = chatir.load(shop.run("encoder"), Selection(None, "val", "cpu", None, None, None))
    assert system.gallery.items.ids == shop.catalog.ids("val")
    asker = system.asker.asker
    assert isinstance(asker, CandidateAware) and asker.count == 100 and system.asker.count == 16
    answers = asker.topics["what color is it?"].answers
    assert len(answers) == 6 and not {"none"} & set(answers)
    assert "red" in system.vocabulary
    assert system.retriever.write([["a", "b"]]) == ["a, b"]
    assert not any(one.requires_grad for one in system.retriever.encoder.parameters())
    assert set(system.cards.titles) >= set(system.gallery.items.ids)
    vectors_ND = system.retriever.encoder.embed_images(
        shop.features.items(shop.catalog.ids("val")).features_ND[:]
    )
    assert torch.allclose(
        system.gallery.vectors_ND, torch.nn.functional.normalize(vectors_ND, dim=1), atol=1e-5
    )


def test_without_a_catalog_all_images_of_the_store_are_searched_and_nothing_is_asked(shop):
    run = shop.run("encoder")
    data = chatir.RunData(None, shop.features)
    system = chatir.system_of(run, Selection(None, "val", "cpu", None, None, None), data)
    assert len(system.gallery) == 30 and system.asker.asker is None and system.asker.count == 0
    assert system.cards.titles == {}


# data of a run


def test_settings_are_those_of_the_file_or_none(tmp_path):
    assert recorded_settings(tmp_path) == {}
    (tmp_path / "config.yaml").write_text("data: shop\n")
    assert recorded_settings(tmp_path) == {"data": "shop"}
    (tmp_path / "config.yaml").write_text("[1, 2]")
    with pytest.raises(UserError, match="expected options and values, found list"):
        recorded_settings(tmp_path)
    (tmp_path / "config.yaml").write_text("{")
    with pytest.raises(UserError, match="expected YAML in"):
        recorded_settings(tmp_path)


def test_the_version_of_a_run_has_its_day_and_checksum(tmp_path):
    about = {"provenance": {"date": "2026-01-02T10:00"}, "checksum": "abcdef012345"}
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert version_of(tmp_path, "dresses") == "dresses@2026-01-02-abcdef"
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "weights.safetensors").write_bytes(b"weights")
    os.utime(tmp_path / "model.json", (86400 * 2, 86400 * 2))
    digest = checksum(tmp_path / "weights.safetensors")
    assert version_of(tmp_path, "tops") == f"tops@1970-01-03-{digest[:6]}"


def test_the_first_path_that_is_given():
    assert str(first_path(None, "", "a", "b")) == "a" and first_path(None, "") is None


@pytest.mark.parametrize("given", ["features", "data and category"])
def test_the_store_is_that_given_or_that_of_the_category(shop, tmp_path, given):
    arguments = (None, None, shop.store) if given == "features" else (shop.data, "dresses", None)
    assert store_of(tmp_path, *arguments).root == shop.store
    for lacking in ((None, "dresses", None), (shop.data, None, None)):
        with pytest.raises(UserError, match="found none; give --features"):
            store_of(tmp_path, *lacking)


def test_the_data_of_a_run_can_be_replaced(shop, tmp_path):
    run = shop.run("encoder")
    catalog, store = chatir.run_data(run, features=None, data=None, category=None)
    assert (catalog.root, catalog.category, store.root) == (shop.data, "dresses", shop.store)
    # with another folder, its own store is used
    catalog, store = chatir.run_data(run, features=None, data=shop.data, category="dresses")
    assert store.root == shop.store
    with pytest.raises(UserError):
        chatir.run_data(run, features=tmp_path, data=None, category=None)
    with pytest.raises(UserError):
        chatir.run_data(run, features=None, data=tmp_path, category=None)

"""Evaluations of a retriever of Fashion IQ: users, first candidates, noise, recorded pairs and sessions, and facts."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.config import EvalDialogs, EvalFashionIQDAR
from fashioniq.data.catalog import Catalog
from fashioniq.data.wording import WordingRun, obeying
from fashioniq.files import UserError
from fashioniq.generators.described_products import describer_of
from fashioniq.generators.illustrated import Illustrated
from fashioniq.language.wishes import Wishes
from fashioniq.loop.rollout import rollout
from fashioniq.models.labels import LabelModel
from fashioniq.models.linear import LastShown, NoVectors
from fashioniq.runs.evaluation_inputs import read_evaluation_inputs, users_of_training
from fashioniq.runs.trained import load_retriever
from fashioniq.runs.training_data import Selection
from fashioniq.runs.weights import save_wording
from fashioniq.systems import fashion_iq, fashion_iq_dar
from fashioniq.systems.fashion_iq_dar import wanted
from fashioniq.users.by_name import WordedUser, users_of_catalog
from fashioniq.users.describing import DescribingUser
from fashioniq.users.noisy import NoisyUser, corrupt, negation, noise_draws
from tests.unit.shop import stated


@pytest.fixture
def options_of(shop):
    def options_of(kind=EvalDialogs, **options):
        own = {"data": shop.data, "category": "dresses", "device": "cpu", "run": shop.run("retriever")}
        return kind(**own | {"split": "val", "turns": 3} | options)

    return options_of


def dialogs(task, rows=None):
    system, user, target_B, first = task.batch(range(task.count) if rows is None else rows)
    return rollout(system, user, target_B, first, task.turns)


def retriever_of(shop):
    return load_retriever(shop.run("retriever"), "dresses", shop.features)[:2]


# simulated dialogs


def test_each_product_is_a_target_and_another_one_is_shown_first(shop, options_of):
    [task] = fashion_iq.build(options_of(user=["differences"], seed=5))
    system, _, target_B, first = task.batch([4, 0])
    step_N = torch.randint(1, 6, (6,), generator=torch.Generator().manual_seed(5))
    assert target_B.tolist() == [4, 0]
    assert first.item_B.tolist() == [(4 + int(step_N[4])) % 6, int(step_N[0])]
    assert (task.name, task.protocol, task.count, task.turns) == (
        "dialogs of val", "Fashion IQ dialogs", 6, 3,
    )  # fmt: skip
    assert not task.repeated and task.advice.endswith("a lower --learning-rate")
    assert isinstance(system.asker, BestItem) and not system.asker.exclude_shown
    retriever, _ = retriever_of(shop)
    features_ND = shop.features.items(shop.catalog.ids("val")).features_ND[:].float()
    assert torch.allclose(system.gallery.vectors_ND, retriever.embed_images(features_ND), atol=1e-4)
    assert dialogs(task).ranks.shape == (6, 3)


def test_the_facts_of_simulated_dialogs(shop, options_of):
    [task] = fashion_iq.build(options_of(user=["differences"], seed=5, word_noise=0.25))
    fingerprint = shop.catalog.fingerprint()
    assert stated(task) == {
        "data": str(shop.data),
        "category": "dresses",
        "split": "val",
        "coverage": 1.0,
        "features": shop.features.encoder,
        "store": str(shop.store),
        "pictures": shop.catalog.pictures_behind(shop.features.facts.of_words),
        "fingerprint": fingerprint,
        "user": "differences",
        "captions": "differences of attribute labels",
        "labelled": 1.0,
        "decoding": "none",
        "errors": 0.25,
        "attributes": False,
        "exclude_shown": False,
        "index": None,
        "retriever": str(shop.run("retriever")),
        "seed": 5,
    }
    assert task.data == {"dresses": fingerprint}


def test_the_drawn_grammar_can_be_the_user(shop, options_of):
    [task] = fashion_iq.build(options_of(user=["grammar"]))
    user = task.batch([0]).user
    assert isinstance(user, WordedUser) and isinstance(user.user, DescribingUser)
    assert stated(task)["user"] == "grammar" and stated(task)["captions"] == shop.catalog.captions_origin
    assert "labelled" not in stated(task) and stated(task)["errors"] == 0.0


def test_noise_is_that_of_the_seed_for_each_target_and_turn(options_of):
    [plain] = fashion_iq.build(options_of(user=["differences"], seed=3))
    [noisy] = fashion_iq.build(options_of(user=["differences"], seed=3, word_noise=0.5))
    user, own = noisy.batch([2]).user, plain.batch([2]).user
    assert isinstance(user, NoisyUser) and isinstance(own, WordedUser)
    target_B = torch.tensor([2, 5])
    first = noisy.batch([2, 5]).first
    words_BL = own.reply(target_B, first, 1).words_BL
    chance_TNL = noise_draws(3, 3, 6, words_BL.shape[1])
    vocabulary = noisy.batch([2]).system.vocabulary
    found = corrupt(words_BL, 0.5, chance_TNL[1, target_B], negation(vocabulary))
    assert torch.equal(user.reply(target_B, first, 1).words_BL, found)


def test_a_retriever_without_a_captioner_needs_a_user(options_of):
    with pytest.raises(UserError, match="was trained without a captioner; give --user"):
        fashion_iq.build(options_of())


def test_an_index_is_measured_on_queries_of_all_dialogs(options_of):
    options = options_of(user=["differences"], index="Flat", batch_size=2)
    [task] = fashion_iq.build(options)
    assert stated(task)["index"]["index"] == "Flat" and stated(task)["index"]["recall@10"] == 1.0
    assert stated(task)["index"]["queries"] == 2 * 3  # every third of six dialogs, and each turn
    assert task.batch([0]).system.gallery.index is not None


def test_an_index_for_a_retriever_that_has_diverged_is_refused_in_a_line(options_of, monkeypatch):
    def diverged(options, run):
        parts = read_evaluation_inputs(options, run)
        with torch.no_grad():
            for weight in parts.retriever.parameters():
                weight.fill_(float("nan"))
        return parts

    monkeypatch.setattr(fashion_iq, "read_evaluation_inputs", diverged)
    with pytest.raises(UserError, match=r"queries are not finite numbers .* has diverged; train it again"):
        fashion_iq.build(options_of(user=["differences"], index="Flat"))


# recorded pairs


@pytest.mark.parametrize("captions", ["each", "joined"])
def test_pairs_show_the_candidate_and_say_the_captions(shop, options_of, captions):
    [task] = fashion_iq.build(options_of(user=["human"], captions=captions))
    pairs, ids = [pair for pair in shop.catalog.pairs("val") if pair.target], shop.catalog.ids("val")
    rows = [
        (pair, text)
        for pair in pairs
        for text in (pair.captions if captions == "each" else [" and ".join(pair.captions)])
    ]
    assert task.count == len(rows) and task.turns == 1 and task.repeated
    last = task.count - 1
    system, user, target_B, first = task.batch([last, 0])
    reply = user.reply(target_B, first, 0)
    longest = 8 if captions == "each" else 16
    for place, (pair, text) in enumerate((rows[last], rows[0])):
        assert ids[target_B[place]] == pair.target and ids[first.item_B[place]] == pair.candidate
        assert reply.texts[place] == text
        assert torch.equal(reply.words_BL[place], system.vocabulary.encode([text], longest)[0])
    assert stated(task)["user"] == f"recorded captions, {captions}" and stated(task)["decoding"] == "none"
    assert stated(task)["pairs"] == len(pairs) and stated(task)["coverage_of_pairs"] == 1.0


def test_noise_in_recorded_pairs_leaves_no_text(options_of):
    [task] = fashion_iq.build(options_of(user=["human"], word_noise=0.5, seed=2))
    [plain] = fashion_iq.build(options_of(user=["human"]))
    rows = range(task.count)
    words_NL = plain.batch(rows).user.reply(None, None, 0).words_BL
    reply = task.batch(rows).user.reply(None, None, 0)
    chance_NL = noise_draws(2, 1, *words_NL.shape)[0]
    vocabulary = plain.batch([0]).system.vocabulary
    assert torch.equal(reply.words_BL, corrupt(words_NL, 0.5, chance_NL, negation(vocabulary)))
    assert reply.texts is None and stated(task)["errors"] == 0.5


# sessions


@pytest.fixture
def sessions(shop, tmp_path):
    """A folder of sessions: of val, two of two turns and one of three; one reaches outside; and of train."""
    val, train = shop.catalog.ids("val"), shop.catalog.ids("train")

    def session(target, *steps):
        return {"target": ["", target], "reference": [["", list(said), name] for name, *said in steps]}

    (tmp_path / "dress.val.json").write_text(
        json.dumps(
            [
                session(val[0], (val[1], "is red", "is long"), (val[2], "is blue")),
                session(val[3], (val[0], "is long"), (val[1], "is red"), (val[2], "is a dress")),
                session(val[5], (val[4], "is short"), (val[3], "with buttons", "not red")),
                session(val[5], (train[0], "is short"), (val[3], "with buttons")),
            ]
        )
    )
    for split in ("val", "train"):
        (tmp_path / f"split.dress.{split}.json").write_text(json.dumps(val + train))
    return tmp_path


def test_sessions_of_a_number_of_turns_are_a_task(shop, options_of, sessions):
    two, three = fashion_iq.build(options_of(user=["sessions"], sessions=sessions))
    assert (two.name, two.count, two.turns) == ("2-turns", 2, 2)
    assert (three.name, three.count, three.turns) == ("3-turns", 1, 3)
    assert two.protocol == "recorded sessions" and two.repeated and two.advice.endswith("--learning-rate")
    done = dialogs(two, [1, 0])
    assert done.target_B.tolist() == [5, 0] and done.shown_BT.tolist() == [[4, 3], [1, 2]]
    assert said_in(done) == [["is short", "is red and is long"], ["with buttons and not red", "is blue"]]
    vocabulary, words_BL = two.batch([0]).system.vocabulary, done.state.turns[1].words_BL
    assert torch.equal(words_BL, vocabulary.encode(["with buttons and not red", "is blue"], 16))
    assert dialogs(three).shown_BT.tolist() == [[0, 1, 2]]


def said_in(done):
    return [list(turn.reply.texts) for turn in done.state.turns]


def test_the_facts_of_sessions(shop, options_of, sessions):
    [task, _] = fashion_iq.build(options_of(user=["sessions"], sessions=sessions))
    own = {
        "user": "recorded sessions",
        "captions": "human",
        "decoding": "none",
        "errors": 0.0,
        "sessions": str(sessions),
        "coverage_of_sessions": 0.75,
        "clean_rows": [0, 1],
        "exclude_shown": False,
        "coverage": 1.0,
        "index": None,
    }
    assert {name: stated(task)[name] for name in own} == own
    assert task.data == {"dresses": shop.catalog.fingerprint()} and task.truth.labels == shop.catalog.labels


def test_sessions_of_train_are_not_clean_nor_those_that_they_leak_into(options_of, sessions):
    text = json.loads((sessions / "dress.val.json").read_text())
    (sessions / "dress.train.json").write_text(json.dumps(text[:1]))
    two, _ = fashion_iq.build(options_of(user=["sessions"], sessions=sessions))
    assert two.count == 3 and stated(two)["clean_rows"] == [2]
    assert stated(two)["coverage_of_sessions"] == 0.8


def test_noise_in_sessions_is_drawn_by_session_and_turn(options_of, sessions):
    options = options_of(user=["sessions"], sessions=sessions)
    [plain, _] = fashion_iq.build(options)
    [noisy, _] = fashion_iq.build(replace(options, word_noise=0.5, seed=4))
    own, user = plain.batch([0, 1]).user, noisy.batch([0, 1]).user
    vocabulary = plain.batch([0]).system.vocabulary
    chance_TNL = noise_draws(4, 2, 2, 16)
    for turn in range(2):
        reply = user.reply(None, None, turn)
        words_BL = own.reply(None, None, turn).words_BL
        assert torch.equal(reply.words_BL, corrupt(words_BL, 0.5, chance_TNL[turn], negation(vocabulary)))
        assert reply.texts is None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"sessions": "some", "user": ["human"]}, "--sessions needs --user sessions"),
        ({"user": ["sessions"]}, "give --sessions FOLDER"),
        ({"user": ["sessions"], "sessions": "some", "index": "Flat"}, "--index cannot be combined"),
    ],
)
def test_options_that_sessions_exclude(options_of, options, found):
    with pytest.raises(UserError, match=found):
        fashion_iq.build(options_of(**options))


def test_sessions_outside_the_gallery_and_missing_files(options_of, sessions, tmp_path):
    with pytest.raises(UserError, match=r"found none of 4 in .*; give --split val"):
        fashion_iq.build(options_of(user=["sessions"], sessions=sessions, split="train"))
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="val"):
        fashion_iq.build(options_of(user=["sessions"], sessions=tmp_path / "none"))


# inputs


def test_shown_products_are_excluded_as_in_the_training_unless_recorded(shop, options_of, tmp_path, capsys):
    run = shutil.copytree(shop.run("retriever"), tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(about | {"exclude_shown": True}))
    for given, users, excluded in (
        (None, ["differences"], True),
        (None, ["human"], False),
        (None, ["sessions"], False),
        (False, ["differences"], False),
    ):
        options = options_of(run=run, user=users, exclude_shown=given)
        assert read_evaluation_inputs(options, run).exclude_shown == excluded
        warned = "was trained with --exclude-shown" in capsys.readouterr().out
        assert warned == (given is False)
    parts = read_evaluation_inputs(
        options_of(user=["differences"], exclude_shown=True, turns=6), shop.run("retriever")
    )
    assert parts.exclude_shown
    with pytest.raises(UserError, match="needs 7 products, found 6; give fewer --turns"):
        read_evaluation_inputs(
            options_of(user=["differences"], exclude_shown=True, turns=7), shop.run("retriever")
        )
    assert capsys.readouterr().out == ""


def test_a_run_of_another_catalog_is_noted(shop, options_of, tmp_path, capsys):
    run = shutil.copytree(shop.run("retriever"), tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    about["data"]["fingerprint"] = "another"
    (run / "model.json").write_text(json.dumps(about))
    read_evaluation_inputs(options_of(run=run, user=["human"]), run)
    assert "the splits or captions of dresses differ from those" in capsys.readouterr().out


def test_the_baseline_of_the_product_shown_last_needs_no_run(shop, options_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = read_evaluation_inputs(options_of(run=Path("last-shown"), user=["human"]), Path("last-shown"))
    assert isinstance(parts.retriever, LastShown) and parts.about.user is None
    assert len(parts.vocabulary) == 4 and not parts.about.attrs
    assert users_of_training(Path("last-shown")) == ([], None)
    (tmp_path / "last-shown").mkdir()
    with pytest.raises(UserError, match=r"found no model\.json"):
        read_evaluation_inputs(options_of(run=Path("last-shown"), user=["human"]), Path("last-shown"))


def test_plain_bm25_needs_no_run_and_reads_what_people_wrote(shop, options_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("bm25")
    parts = read_evaluation_inputs(options_of(run=run, user=["human"]), run)
    assert isinstance(parts.retriever, NoVectors) and users_of_training(run) == ([], None)
    (task,) = fashion_iq.build(options_of(run=run, user=["human"]))
    system = task.batch([0])[0]
    labels = [label for some in parts.catalog.labels[parts.items.ids[0]] for label in some]
    wished_N, denied_N = (
        system.wording.bonus(system.wording.after(Wishes(), text, 1))
        for text in (f"is {labels[-1]}", f"no {labels[-1]}")
    )
    assert wished_N[0] == denied_N[0] > 0  # what is denied counts, too
    both = system.wording.after(system.wording.after(Wishes(), labels[0], None), labels[-1], None)
    assert system.wording.bonus(both)[0] > wished_N[0] and not both.held  # and so do earlier turns
    for refused in (
        {"user": ["differences"]},
        {"word_noise": 0.1},
        {"index": "Flat"},
        {"system": "fashion-iq-dar"},
    ):
        with pytest.raises(
            UserError, match="--run bm25 reads what people wrote; give --user human or sessions"
        ):
            read_evaluation_inputs(options_of(**{"run": run, "user": ["human"], **refused}), run)


def test_the_users_of_a_training_begin_with_its_captioner(shop, tmp_path):
    run = shutil.copytree(shop.run("retriever"), tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    assert users_of_training(run) == ([], None)
    (run / "model.json").write_text(json.dumps(about | {"user": "b", "users": ["a", "b"]}))
    assert users_of_training(run) == (["b", "a"], "b")


def test_a_catalog_has_the_users_for_which_it_has_data(shop, tmp_path):
    assert users_of_catalog(shop.catalog, "val") == ["differences", "grammar", "human"]
    assert users_of_catalog(shop.catalog, "test") == ["differences", "grammar"]
    shutil.copytree(shop.data, tmp_path / "shop", ignore=shutil.ignore_patterns("attributes", "features"))
    assert users_of_catalog(Catalog(tmp_path / "shop", "dresses"), "val") == ["human"]


# a loaded run


def test_a_loaded_retriever_shows_products_of_the_split(shop):
    system = fashion_iq.load(shop.run("retriever"), Selection(None, "val", "cpu", None, None, None))
    assert isinstance(system.asker, BestItem) and not system.asker.exclude_shown
    assert system.gallery.items.ids == shop.catalog.ids("val") and system.wording is None
    assert set(system.cards.titles) >= set(system.gallery.items.ids)
    assert not any(one.requires_grad for one in system.retriever.parameters())
    retriever, vocabulary = retriever_of(shop)
    assert system.vocabulary.words == vocabulary.words
    features_ND = shop.features.items(shop.catalog.ids("val")).features_ND[:].float()
    assert torch.allclose(system.gallery.vectors_ND, retriever.embed_images(features_ND), atol=1e-4)


# with generated pictures


def test_pictures_show_what_is_wanted_of_the_product_shown(shop, options_of, tmp_path):
    options = options_of(
        EvalFashionIQDAR,
        user=["differences"],
        generator="drawn:1",
        predictor=shop.run("predictor"),
        cache=tmp_path,
        pictures=2,
        seed=6,
    )
    [task] = fashion_iq_dar.build(options)
    system, user, target_B, first = task.batch([3, 1])
    retriever = system.retriever
    assert isinstance(retriever, Illustrated) and retriever.seed == 6 and retriever.count == 2
    assert retriever.weights == [0.7, 0.7, 0.5] and retriever.fusion == "mean"
    with torch.no_grad():
        talk = rollout(system, user, target_B, first, 1).state
    describer, catalog = describer_of(shop.catalog), shop.catalog
    said = retriever.said(talk.turns[0])
    feedback = system.vocabulary.decode(talk.turns[0].words_BL)
    for place, item in enumerate(first.item_B.tolist()):
        words = [word for some in catalog.labels[system.gallery.items.ids[item]] for word in some]
        assert said[place] == f"{describer.write(tuple(words))}, but {feedback[place]}"
        assert retriever.write([[said[place]]]) == [(wanted([said[place]], describer),)]
    assert stated(task)["generator"]["backend"] == "drawn" and stated(task)["pictures_per_round"] == 2
    assert stated(task)["weights_of_text"]["name"] == "paper"


@pytest.mark.parametrize(
    ("shown", "feedback", "found"),
    [
        ("a red solid mini dress", "is brown", "a brown solid mini dress"),
        ("a red solid mini dress", "is longer", "a red solid knee length dress"),
        ("a red solid maxi dress", "is longer", "a red solid maxi dress"),
        ("a red solid maxi dress", "is shorter", "a red solid knee length dress"),
        ("a red solid mini dress", "is shorter", "a red solid mini dress"),
        ("a red solid dress", "is longer", "a red solid dress"),
        ("a red solid dress", "is not red", "a solid dress"),
        ("a red mini maxi dress", "is longer", "a red maxi knee length dress"),
        ("a red mini maxi dress", "is shorter", "a red maxi mini dress"),
    ],
)
def test_what_is_wanted_of_one_product(shop, shown, feedback, found):
    describer = describer_of(shop.catalog)
    assert wanted([f"{shown}, but {feedback}"], describer) == found
    # earlier rounds count for what they say, not for what was shown
    assert wanted(["a green lace dress, but is casual", f"{shown}, but {feedback}"], describer) != found


def test_words_count_in_the_search_of_a_run_that_has_them_unless_its_query_is_fused(
    shop, options_of, tmp_path
):
    run = shutil.copytree(shop.run("retriever"), tmp_path / "run")
    save_wording(run, LabelModel(shop.features.size, 0), WordingRun(weights=obeying(lexical=0.01), labels=[]))
    [task] = fashion_iq.build(options_of(run=run, user=["human"]))
    system = task.batch([0]).system
    assert system.wording is not None and system.gallery.scorer is system.wording
    [task] = fashion_iq.build(
        options_of(run=run, user=["human"]), lambda parts, gallery: (parts.retriever, {"fusion": "mean"})
    )
    assert task.batch([0]).system.wording is None and stated(task)["fusion"] == "mean"
    for words in (True, False):
        loaded = fashion_iq.load(run, Selection(None, "val", "cpu", None, None, None, words))
        assert loaded.wording is not None and loaded.offers is not None
    [task] = fashion_iq.build(options_of(user=["human"]))
    assert task.batch([0]).system.wording is None and "fusion" not in stated(task)

"""Which users a retriever is trained with, by the options and by what the catalog has."""

import json
import random
import re
import shutil
from itertools import pairwise

import pytest
import torch

from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import language
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.messages import Message
from fashioniq.models.configs import RetrieverConfig
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_retriever
from fashioniq.training import user_names, users
from fashioniq.training.callbacks import epoch_seed
from fashioniq.training.dialog_sources import DialogSimulation, RecordedDialogs
from fashioniq.training.linear import MAX_WORDS, examples_of
from fashioniq.training.retriever_run import train_retriever
from fashioniq.training.users import training_users
from fashioniq.training.wording import fit_wording
from fashioniq.users.describing import DescribingUser
from fashioniq.users.differences import LabelSpeaker

RNN = RetrieverConfig(kind="rnn", width=8)


@pytest.fixture
def settings_of(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the default captioner lies in runs/

    def settings_of(**options):
        return TrainRetriever(**{"data": shop.data, "category": "dresses", "model": RNN, **options})

    return settings_of


def without(shop, folder, *names):
    shutil.copytree(shop.data, folder, ignore=shutil.ignore_patterns(*names))
    return Catalog(folder, "dresses")


def test_by_default_the_users_are_those_for_which_the_catalog_has_data(shop, settings_of, tmp_path):
    (tmp_path / "runs" / "captioner-dresses").mkdir(parents=True)
    (tmp_path / "runs" / "captioner-dresses" / "model.json").touch()
    own = ["runs/captioner-dresses", "differences", "recorded"]
    assert user_names.names_of(settings_of(), shop.catalog) == own
    assert user_names.names_of(settings_of(), without(shop, tmp_path / "a", "attributes")) == [own[0], own[2]]
    (tmp_path / "runs" / "captioner-dresses-attrs").mkdir()
    assert user_names.names_of(settings_of(attrs=True), shop.catalog)[0] == "runs/captioner-dresses-attrs"
    named = settings_of(users=["recorded", "captioner", "runs/captioner-dresses", "recorded"])
    assert user_names.names_of(named, shop.catalog) == ["recorded", "runs/captioner-dresses"]


def test_a_captioner_that_is_given_need_not_be_there_yet(shop, settings_of):
    found = user_names.names_of(settings_of(captioner="some/run", users=["captioner"]), shop.catalog)
    assert found == ["some/run"]


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, "--category dresses`"),
        ({"features": "store", "attrs": True}, "--category dresses --features store --attrs`"),
    ],
)
def test_without_the_default_captioner_the_command_that_trains_it_is_told(
    shop, settings_of, options, command
):
    with pytest.raises(UserError, match="found no captioner in runs/captioner-dresses") as found:
        user_names.names_of(settings_of(**options), shop.catalog)
    assert f"`fashioniq train-captioner --data {shop.data} {command}" in str(found.value)


def test_users_that_cannot_be(shop, settings_of, tmp_path):
    with pytest.raises(UserError, match="--users differences needs attribute labels"):
        user_names.names_of(settings_of(users=["differences"]), without(shop, tmp_path / "a", "attributes"))
    (tmp_path / "empty").mkdir()
    for name in ("somebody", str(tmp_path / "empty")):
        with pytest.raises(UserError, match=f"in --users, found {name}"):
            user_names.names_of(settings_of(users=[name]), shop.catalog)
        settings = settings_of(
            users=["recorded", name], epochs=0, model=RetrieverConfig(kind="linear"), run=tmp_path / "r"
        )
        with pytest.raises(UserError, match=f"in --users, found {name}"):
            train_retriever(settings)


@pytest.mark.parametrize(
    ("options", "names", "found"),
    [
        ({"stage": "policy"}, ["differences"], "give its run with --init-from"),
        ({"stage": "policy", "init_from": "run"}, ["differences", "recorded"], "two turns or more"),
        ({"stage": "policy", "init_from": "run", "turns": 1}, ["differences"], "two turns or more"),
        ({"word_noise": 0.1}, ["recorded"], "--word-noise 0.1 needs a simulated user"),
        ({"word_noise": 0.1}, ["recorded", "mt"], "--word-noise 0.1 needs a simulated user"),
        ({"word_noise": 0.1}, ["mt", "differences"], None),
        ({"stage": "policy", "init_from": "run"}, ["differences", "mt"], "two turns or more"),
        ({"stage": "policy", "init_from": "run", "turns": 2}, ["differences"], None),
        ({"word_noise": 0.1}, ["recorded", "differences"], None),
        ({}, ["recorded"], None),
    ],
)
def test_options_that_need_simulated_users(settings_of, options, names, found):
    sessions = {"mt"} & set(names)
    if found is None:
        return user_names.check_user_options(settings_of(**options), names, sessions)
    with pytest.raises(UserError, match=found):
        user_names.check_user_options(settings_of(**options), names, sessions)


def test_recorded_captions_and_differences_are_sources_in_their_order(shop, settings_of):
    settings = settings_of(
        users=["recorded", "differences"], turns=3, seed=4, word_noise=0.25, similar_first=0.75
    )
    found = training_users(settings, shop.catalog, shop.features)
    recorded, differences = found.sources
    assert type(recorded) is RecordedDialogs and type(differences) is DialogSimulation
    assert (differences.name, differences.turns, recorded.turns) == ("differences", 3, 1)
    assert (differences.seed, differences.word_noise, differences.similar_first) == (4, 0.25, 0.75)
    assert found.kind == "both" and found.captioner is None and found.pairs_alone is None
    assert found.names == ["recorded", "differences"] and found.max_words == 8
    assert {split: some.ids for split, some in found.items.items()} == {
        split: shop.catalog.ids(split) for split in ("train", "val")
    }
    pairs = [pair for pair in shop.catalog.pairs("train") if pair.target]
    assert found.examples == examples_of(pairs)
    described = users._descriptions(speaker_of(shop, shop.catalog.ids("train")), shop.catalog.ids("train"))
    wanted = users._vocabulary([], pairs, described)
    assert found.vocabulary.words == wanted.words and len(wanted) > len(SPECIAL)


def speaker_of(shop, ids):
    return LabelSpeaker([shop.catalog.labels[name] for name in ids], language("en"))


def test_recorded_captions_alone_and_differences_alone(shop, settings_of):
    found = training_users(settings_of(users=["recorded"]), shop.catalog, shop.features)
    assert found.kind == "recorded" and {*found.pairs_alone} == {"train", "val"}
    assert (
        not set(found.vocabulary.words)
        - set(SPECIAL)
        - {
            word
            for pair in found.pairs_alone["train"]
            for text in pair.captions
            for word in text.lower().split()
        }
        - set("',.!")
    )
    found = training_users(settings_of(users=["differences"]), shop.catalog, shop.features)
    assert found.kind == "simulated" and found.pairs_alone is None
    ids = shop.catalog.ids("train")
    assert len(found.examples) == users.DESCRIBED * len(ids) and found.examples[0][2] == ids[0]
    assert all(candidate in ids and target in ids for candidate, _, target in found.examples)
    assert [target for _, _, target in found.examples] == [name for name in ids for _ in range(4)]


class Wordy:
    """A user who says as many words as are read."""

    def __init__(self, inputs):
        self.text = " ".join(f"word{number}" for number in range(inputs.max_words))

    def reply(self, target_B, offer, turn):
        return Message(texts=[self.text] * len(target_B))


def test_a_user_of_ones_own_is_rehearsed_with_all_words_that_are_read(shop, settings_of):
    found = training_users(settings_of(users=[f"{__name__}:Wordy"]), shop.catalog, shop.features)
    said = [f"word{number}" for number in range(found.max_words)]
    assert len(said) == 8 and found.vocabulary.words[len(SPECIAL) :] == said
    assert {text for _, text, _ in found.examples} == {" ".join(said)}


class Whimsical:
    """A user who draws words at random."""

    def __init__(self, inputs):
        self.words = [f"word{number}" for number in torch.randperm(40).tolist()]

    def reply(self, target_B, offer, turn):
        return Message(texts=random.choices(self.words, k=len(target_B)))


def test_what_a_user_who_draws_says_about_random_pairs_is_the_same_in_every_training(shop, settings_of):
    settings = settings_of(users=[f"{__name__}:Whimsical"])
    first, second = (training_users(settings, shop.catalog, shop.features) for _ in range(2))
    assert first.vocabulary.words == second.vocabulary.words and first.examples == second.examples


def test_words_of_val_are_not_learned(shop, settings_of, tmp_path):
    catalog = without(shop, tmp_path / "a")
    path = catalog.root / "captions/cap.dress.val.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([row | {"captions": ["is zigzagged", "is zigzagged"]} for row in rows]))
    found = training_users(settings_of(users=["recorded"]), Catalog(catalog.root, "dresses"), shop.features)
    assert found.pairs_alone["val"][0].captions == ("is zigzagged", "is zigzagged")
    assert "zigzagged" not in found.vocabulary.words
    assert not any("zigzagged" in text for _, text, _ in found.examples)


@pytest.fixture
def sessions(shop, tmp_path):
    """Folder with a session of three products of train, one that repeats a recorded pair, and one about others."""
    ids, pair = shop.catalog.ids("train"), shop.catalog.pairs("train")[0]

    def session(*items, captions=("is glittery", "has a glittery hem")):
        turns = [["u", list(captions), item] for item in items[:-1]]
        return {"target": ["u", items[-1]], "reference": turns}

    again = session(pair.candidate, pair.target, captions=pair.captions)
    rows = [session(*ids[:3]), again, session(ids[0], "elsewhere", ids[1])]
    folder = tmp_path / "mt"
    folder.mkdir()
    (folder / "dress.train.json").write_text(json.dumps(rows))
    return folder


def test_sessions_of_people_are_a_source_and_their_steps_are_examples(shop, settings_of, sessions):
    ids, linear = shop.catalog.ids("train"), RetrieverConfig(kind="linear")
    given = {"users": ["differences", "recorded", str(sessions)], "model": linear}
    found = training_users(settings_of(**given), shop.catalog, shop.features)
    source = found.sources[2]
    assert found.names == ["differences", "recorded", "sessions"] and found.kind == "both"
    assert (source.name, source.turns, source.count("train"), source.count("val")) == ("sessions", 1, 2, 0)
    source.enter("train", 0, torch.device("cpu"))
    drawn = [source.train(torch.arange(4), step) for step in range(30)]
    [longer] = {
        tuple(ids[one] for one in [*(offer.item_B[0] for offer in some.asker.offers), some.target_B[0]])
        for some in drawn
        if some.turns == 2
    }
    assert longer == tuple(ids[:3]) and {some.turns for some in drawn} == {1, 2}
    pairs = [pair for pair in shop.catalog.pairs("train") if pair.target]
    new = [text for text in ("is glittery", "has a glittery hem", "is glittery and has a glittery hem")]
    steps = [(first, text, second) for first, second in pairwise(ids[:3]) for text in new]
    assert found.examples == examples_of(pairs) + steps, "the recorded pair counts once"
    assert "glittery" in found.vocabulary.words
    both = training_users(
        settings_of(**given | {"users": ["recorded", str(sessions)]}), shop.catalog, shop.features
    )
    assert both.kind == "recorded" and both.pairs_alone is None and both.examples == found.examples
    with pytest.raises(UserError, match="are not about; add another user to --users, such as recorded"):
        training_users(settings_of(users=[str(sessions)]), shop.catalog, shop.features)


def test_a_transformer_reads_both_captions_of_a_turn(shop, settings_of, sessions):
    found = training_users(settings_of(users=["recorded", str(sessions)]), shop.catalog, shop.features)
    source = found.sources[1]
    source.enter("train", 0, torch.device("cpu"))
    said = source.train(torch.arange(1), 0).user.reply(torch.tensor([0]), Message(), 0)
    assert found.max_words == 8 and said.words_BL.shape == (1, 16)


def test_ridge_regression_is_fitted_to_the_steps_of_sessions_too(shop, settings_of, sessions, tmp_path):
    found = {}
    for name, users_of in {"pairs": [], "both": ["recorded", str(sessions)]}.items():
        settings = settings_of(
            users=users_of, epochs=0, model=RetrieverConfig(kind="linear"), run=tmp_path / name
        )
        said = train_retriever(settings)
        found[name] = read_run(tmp_path / name, RetrieverRun), int(re.search(r"(\d+) pairs", said)[1])
    (alone, few), (both, many) = found["pairs"], found["both"]
    assert many == few + 2 and "glittery" in both.words and "glittery" not in alone.words
    assert (alone.users, both.users) == (["recorded"], ["recorded", "sessions"])


def test_ridge_regression_that_was_killed_while_it_wrote_starts_again(
    shop, settings_of, tmp_path, monkeypatch
):
    def killed(*arguments, **options):
        fit_wording(*arguments, **options)
        raise KeyboardInterrupt

    settings = settings_of(epochs=0, model=RetrieverConfig(kind="linear"), run=tmp_path / "run")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fashioniq.training.linear_run.fit_wording", killed)
        train_retriever(settings)
    train_retriever(settings)
    assert (tmp_path / "run" / "model.json").exists()


def test_sessions_about_other_products_cannot_be_trained_with(shop, settings_of, sessions):
    rows = json.loads((sessions / "dress.train.json").read_text())
    (sessions / "dress.train.json").write_text(json.dumps(rows[2:]))
    settings = settings_of(users=["recorded", str(sessions)])
    with pytest.raises(
        UserError, match=r"none of the 1 sessions of dresses .* leave the folder out of --users"
    ):
        training_users(settings, shop.catalog, shop.features)
    (sessions / "dress.train.json").rename(sessions / "shirt.train.json")
    with pytest.raises(UserError, match=r"expected dress\.train\.json in"):
        training_users(settings, shop.catalog, shop.features)


def test_differences_are_told_of_the_products_of_the_split(shop, settings_of):
    [source] = training_users(settings_of(users=["differences"]), shop.catalog, shop.features).sources
    source.enter("val", 7, torch.device("cpu"))
    user, ids = source.users["val"], shop.catalog.ids("val")
    assert isinstance(user.user, DescribingUser) and (user.user.seed, user.max_words) == (0, 8)
    wanted = speaker_of(shop, ids).describe(2, 4, random.Random(1))
    assert user.user.speaker.describe(2, 4, random.Random(1)) == wanted
    source.enter("train", 7, torch.device("cpu"))
    assert source.users["train"].user.seed == epoch_seed(0, 7)


def test_a_linear_retriever_hears_whole_captions_and_needs_some(shop, settings_of, tmp_path):
    settings = settings_of(users=["recorded"], model=RetrieverConfig(kind="linear"))
    found = training_users(settings, shop.catalog, shop.features)
    assert found.max_words == MAX_WORDS and found.sources[0].recorded["train"].words_NTL.shape[2] > 8
    pairs = [pair for pair in shop.catalog.pairs("train") if pair.target]
    assert found.sources[0].count("train") == 3 * len(pairs)  # both captions, and both joined
    nobody = without(shop, tmp_path / "a", "captions", "attributes", "features")
    (tmp_path / "captioner").mkdir()
    monkey = settings_of(
        captioner=tmp_path / "captioner", users=["captioner"], model=RetrieverConfig(kind="linear")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "load_simulator", lambda *_, **__: (Simulator("captioner", [], 8), None))
        with pytest.raises(UserError, match=r"--model\.kind linear starts from captions"):
            training_users(monkey, nobody, shop.features)


def test_a_training_that_goes_on_keeps_the_words_of_its_run(shop, settings_of):
    run = shop.run("retriever")
    settings = settings_of(users=["differences"], init_from=run)
    found = training_users(settings, shop.catalog, shop.features)
    assert found.vocabulary.words == load_retriever(run)[1].words


class Simulator:
    """Stands for a captioner as user."""

    def __init__(self, name, words, longest):
        self.name, self.words = name, Vocabulary(words)
        self.captioner = type("Captioner", (), {"max_words": longest})()

    def user(self, items, vocabulary, seed):
        return self.name, items, vocabulary, seed


def test_captioners_are_loaded_with_the_options_and_named_by_their_folders(
    shop, settings_of, tmp_path, monkeypatch
):
    made = []

    def load(run, category, store, truth, **given):
        made.append((run, category, truth.labels, given))
        return Simulator(run.name, ["pinkish", "longer"], 5 + len(made)), None

    monkeypatch.setattr(users, "load_simulator", load)
    runs = [tmp_path / "a", tmp_path / "b", tmp_path / "deep" / "a"]
    for run in runs:
        run.mkdir(parents=True)
        (run / "model.json").touch()
    settings = settings_of(users=[str(runs[0]), str(runs[1])], beam=3, samples=1)
    found = training_users(settings, shop.catalog, shop.features)
    assert [source.name for source in found.sources] == ["a", "b"] and found.captioner == runs[0]
    assert found.max_words == 7 and found.vocabulary.words[len(SPECIAL) :] == ["pinkish", "longer"]
    assert made[0][0] == runs[0] and made[0][1] == "dresses" and made[0][2] == shop.catalog.labels
    assert made[0][3] == {"beams": 3, "samples": 1, "usual": users.DRAWN_IN_TRAINING}
    assert found.kind == "simulated" and found.examples == [] and found.pairs_alone is None
    settings = settings_of(users=[str(runs[0]), str(runs[2])])
    twice = training_users(settings, shop.catalog, shop.features)
    assert [source.name for source in twice.sources] == [str(runs[0]), str(runs[2])]
    assert [source.max_words for source in twice.sources] == [8, 9]

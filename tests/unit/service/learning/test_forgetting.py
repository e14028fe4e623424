"""Words of erased conversations are in no file, whatever happened before; where some cannot be reached, they are named."""

import os
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

import fashioniq
from fashioniq.cli import COMMANDS
from fashioniq.cli.commands import serve
from fashioniq.config import Serve
from fashioniq.files import UserError, read_json
from fashioniq.service.learning import rules, run as learning
from fashioniq.service.learning.export import Verdict, read_sessions
from fashioniq.service.store import Store, Unavailable
from tests.forgetting import KILLED, SPOKEN, Fault, Order, ShopWorld, do_not_train, make_database

ORDERS = int(os.environ.get("FASHIONIQ_ORDERS", "36"))  # of the property test, in tests of AT_ONCE
AT_ONCE = 12
EVERY = 8 if ORDERS < 1000 else 1  # change at which `learn` is killed
FIRST = SPOKEN[0]
NEVER = Fault(10**9, kills=True)  # of a process that does not clean up after itself


@pytest.fixture(scope="module")
def template(once):
    return once("forgetting", make_database)


@pytest.fixture
def make_world(template, monkeypatch, tmp_path):
    """Make a shop in a folder of its own."""
    do_not_train(monkeypatch, template / "catalog")
    made = []

    def make_world(name="shop"):
        made.append(ShopWorld(tmp_path / name, template))
        return made[-1]

    yield make_world
    for world in made:
        world.end_reading()


@pytest.fixture
def world(make_world):
    return make_world()


def test_a_folder_that_is_away_is_named_and_cleared_when_it_is_back(world):
    learned, elsewhere = world.root / "learned", world.root / "elsewhere"
    assert world.learn(learned).code == 0
    assert FIRST.word in (learned / "topics.tsv").read_text()
    learned.rename(elsewhere)
    ended = world.forget(session=FIRST.id)
    assert ended.code == 1 and f"{learned} may still have erased or withdrawn conversations" in ended.err
    assert len(ended.err.splitlines()) == 1 and ended.out == "erased 1 conversation in the database\n"
    assert world.forget().code == world.serve().code == 1
    assert world.learn(world.root / "again").code == 0 and {path.parent for path in world.left()} == {
        elsewhere,
        elsewhere / "catalog/captions",
    }
    elsewhere.rename(learned)
    assert world.serve() == (0, f"{learned}: removed 1 of 8 conversations\n", "")
    assert world.left() == {} and world.forget().code == 0
    assert {one.session for one in read_sessions(learned)} == {one.id for one in SPOKEN[1:]}


def test_another_folder_in_its_place_is_not_taken_for_it(world):
    learned, elsewhere = world.root / "learned", world.root / "elsewhere"
    assert world.learn(learned).code == 0
    learned.rename(elsewhere)
    assert world.learn(learned).code == 0
    ended = world.forget(session=FIRST.id)
    id = read_json(elsewhere / "export.json", "the id", dict)["id"]
    assert ended.code == 1 and f"{learned}: removed 1 of 8" in ended.out and id in ended.err
    shutil.rmtree(elsewhere)
    assert world.forget(deleted=[id]).code == 0
    assert world.forget(deleted=[id]).code == 2


def test_training_data_that_exist_cannot_be_called_deleted(world):
    assert world.learn(world.root / "learned").code == 0
    id = read_json(world.root / "learned/export.json", "the id", dict)["id"]
    ended = world.forget(deleted=[id])
    assert ended.code == 2 and "remove the folder first" in ended.err


def test_learn_writes_nothing_before_it_is_registered(world):
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = world.learn(world.root / "learned")
        other.execute("ROLLBACK")
    assert ended.code == 2 and "database is locked" in ended.err
    assert not (world.root / "learned").exists()


def test_what_a_killed_learn_left_is_forgotten(world):
    """Killed at its changes in turn, until it ends by itself."""
    for at in range(1, 400, EVERY):
        ended = world.learn(world.root / "learned", Fault(at, kills=True))
        if ended.code != KILLED:
            break
        assert world.forget(session=FIRST.id).code == 0, at
        assert world.left() == {}, at
        world.begin_again()
    assert ended.code == 0 and at > 40


def test_the_start_of_the_service_removes_what_was_erased(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    world.with_store(lambda store: store.erase_session(FIRST.id))
    assert world.left()
    settings = Serve(run=["missing"], database=world.url, port=0)
    ended = world.process(lambda: serve.run(settings), NEVER)
    assert ended.code == 2 and f"{learned}: removed 1 of 8" in ended.out and world.left() == {}


def test_the_service_starts_without_the_space_to_rewrite_the_database(world, monkeypatch):
    def full(engine, rewrite=False):
        if rewrite:
            raise Unavailable("the database is not available (database or disk is full)")
        return True

    world.with_store(lambda store: store.erase_session(FIRST.id))
    with monkeypatch.context() as patch:
        patch.setattr("fashioniq.service.store.privacy.clear_files", full)
        settings = Serve(run=["missing"], database=world.url, port=0)
        started = world.process(lambda: serve.run(settings), NEVER)
        assert "missing" in started.err and "erased conversations: the database" in started.err
        ended = world.forget()
        assert ended.code == 1 and "(database or disk is full)" in ended.err
    assert world.forget().code == 0 and world.left() == {}


def test_what_is_erased_while_the_log_is_read_is_not_written(world, monkeypatch):
    def choose(*arguments):
        chosen = rules.choose(*arguments)
        world.with_store(lambda store: store.erase_session(FIRST.id))
        return chosen

    monkeypatch.setattr(learning, "choose", choose)
    assert world.learn(world.root / "learned").code == 0
    assert world.left() == {} and len(read_sessions(world.root / "learned")) == 7


def test_what_is_erased_while_a_model_is_trained_is_removed_at_the_end(world, monkeypatch):
    learned, forgotten = world.root / "learned", []

    def train(*arguments):
        forgotten.append(world.forget(session=FIRST.id))
        return "trained"

    monkeypatch.setattr(learning, "train_retriever", train)
    monkeypatch.setattr("fashioniq.service.learning.export.WAIT", 0.01)
    assert world.learn(learned).code == 0 and world.left() == {}
    assert forgotten[0].code == 1 and f"another process is writing to {learned}" in forgotten[0].err


def test_a_failed_learn_removes_what_was_erased_meanwhile(world, monkeypatch):
    def train(*arguments):
        world.with_store(lambda store: store.erase_session(FIRST.id))
        raise UserError("no features")

    monkeypatch.setattr(learning, "train_retriever", train)
    assert world.learn(world.root / "learned").code == 2 and world.left() == {}


def test_nothing_is_said_of_the_files_of_a_database_that_goes_away_during_learn(world, monkeypatch):
    def lose(*arguments):
        def fail(store, work):
            raise Unavailable("the database is not available (connection refused)")

        for call in ("read", "write"):
            monkeypatch.setattr(Store, call, fail)
        return Verdict(targets=1, rows=[], reasons=[])

    monkeypatch.setattr(learning, "_judged", lose)
    ended = world.learn(world.root / "learned")
    assert ended.code == 2 and ended.err == "error: the database is not available (connection refused)\n"


def test_copies_that_a_killed_process_left_are_removed(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    for name in ("sessions.jsonl", "topics.tsv", "catalog/captions/cap.dress.train.json"):
        path = learned / name
        shutil.copy(path, path.with_name(f".{path.stem}-ab12cd34{path.suffix}"))
    assert world.forget(session=FIRST.id).code == 0 and world.left() == {}


def test_damaged_training_data_are_named_and_the_others_are_cleared(world):
    damaged, other = world.root / "a", world.root / "b"
    assert world.learn(damaged).code == world.learn(other).code == 0
    with open(damaged / "sessions.jsonl", "a") as file:
        file.write("{")
    ended = world.forget(session=FIRST.id)
    assert ended.code == 1 and str(damaged) in ended.err and f"{other}: removed 1 of 8" in ended.out
    (damaged / "sessions.jsonl").unlink()
    assert world.forget().code == 1


def test_a_reader_of_the_database_is_named(world):
    world.read()
    ended = world.forget(session=FIRST.id)
    assert ended.code == 1 and "another process reads the database" in ended.err
    world.end_reading()
    assert world.forget().code == 0 and world.left() == {}


def test_models_are_named_that_were_trained_with_it_or_started_from_such_a_model(world, monkeypatch):
    first, second = world.root / "first", world.root / "second"
    assert world.learn(first).code == 0
    monkeypatch.setattr(ShopWorld, "start", "first/run")
    assert world.learn(second).code == 0
    assert world.forget(session=FIRST.id).out.count("was trained with 1 of the erased or withdrawn") == 2
    ended = world.learn(world.root / "third")
    assert ended.code == 0 and "run was trained with conversations that were erased" in ended.out
    shutil.rmtree(first)
    assert str(second / "run") in world.forget().out


def test_a_model_is_named_with_all_conversations_of_the_models_that_it_started_from(world, monkeypatch):
    first, second = world.root / "first", world.root / "second"
    named = f"{second}/run was trained with {{}} of the erased or withdrawn conversations"
    assert world.learn(first).code == 0
    assert world.forget(session=FIRST.id).code == 0
    monkeypatch.setattr(ShopWorld, "start", "first/run")
    assert world.learn(second).code == 0  # on the other conversations
    assert named.format(1) in world.forget().out
    assert named.format(2) in world.forget(session=SPOKEN[1].id).out
    id = read_json(first / "export.json", "the id", dict)["id"]
    shutil.rmtree(first)
    ended = world.forget(deleted=[id])
    assert ended.code == 0 and named.format(2) in ended.out and str(first) not in ended.out
    assert world.forget(deleted=[id]).code == 2
    monkeypatch.setattr(ShopWorld, "start", "run")
    assert world.learn(first).code == 0  # into the folder of the deleted data, without these conversations
    ended = world.forget(session=SPOKEN[2].id)
    assert named.format(3) in ended.out and f"{first}/run was trained with 1 " in ended.out
    monkeypatch.setattr(ShopWorld, "start", "first/run")
    ended = world.learn(world.root / "third")
    assert ended.code == 0 and "was trained with conversations that were erased" in ended.out


def test_conversations_without_consent_for_training_any_more_leave_the_training_data(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    world.with_store(lambda store: store.set_consent(FIRST.id, "service"))
    assert set(world.left()) > {learned / "sessions.jsonl"}
    ended = world.forget()
    assert ended.code == 0 and f"{learned}: removed 1 of 8 conversations" in ended.out
    assert f"{learned}/run was trained with 1 of the erased or withdrawn conversations" in ended.out
    assert world.left() == {} and FIRST.id in world.stored()
    assert {one.session for one in read_sessions(learned)} == {one.id for one in SPOKEN[1:]}


def test_words_of_nobody_leave_the_report(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    assert "crimson" in (learned / "gate.json").read_text() + (learned / "report.html").read_text()
    for one in SPOKEN:
        world.forget(session=one.id)
    for name in ("gate.json", "report.html"):
        assert (learned / name).exists() and "crimson" not in (learned / name).read_text()


@pytest.mark.parametrize("option", ["session", "client"])
def test_an_empty_id_is_refused(option, refused, world):
    line = refused("forget", database=world.url, **{option: ""})
    assert f"found an empty --{option}; correct it" in line
    with pytest.raises(UserError, match=f"found an empty --{option}"):
        fashioniq.forget(database=world.url, **{option: ""})


@pytest.mark.parametrize("command", [name for name in COMMANDS if hasattr(COMMANDS[name], "database")])
def test_a_missing_database_is_refused_and_not_created(command, refused, world, tmp_path, monkeypatch):
    missing = tmp_path / "missing/typo.db"
    options = {"learn": {"run": tmp_path, "out": tmp_path / "learned"}}.get(command, {})
    monkeypatch.setattr("fashioniq.cli.inputs.check_inputs", lambda settings: None)
    line = refused(command, database=f"sqlite:///{missing}", **options)
    assert f"expected a database of the service, found no such file in sqlite:///{missing}" in line
    assert not missing.parent.exists() and not (tmp_path / "learned").exists()
    assert COMMANDS["serve"] is Serve  # of the commands with --database, only `serve --run` creates one


@pytest.mark.parametrize("first", range(0, ORDERS, AT_ONCE))
def test_no_order_leaves_a_word(first, make_world):
    for number in range(first, min(first + AT_ONCE, ORDERS)):
        world = make_world(f"shop{number}")
        order = Order(world, random.Random(number))
        try:
            order.run()
        except AssertionError:
            print(f"order {number}:", *order.done, sep="\n")
            raise
        shutil.rmtree(world.root)

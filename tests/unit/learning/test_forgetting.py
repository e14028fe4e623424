"""Words of erased conversations are in no file, whatever happened before; where some cannot be reached, they are named."""

import os
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fashioniq.cli import COMMANDS
from fashioniq.commands import serve
from fashioniq.config import Serve
from fashioniq.files import UserError, read_json
from fashioniq.learning import rules
from fashioniq.learning import run as learning
from fashioniq.learning.export import read_sessions
from tests.forgetting import KILLED, SPOKEN, Fault, ShopWorld, do_not_train, make_database

ORDERS = int(os.environ.get("FASHIONIQ_ORDERS", "36"))  # of the property test, in tests of AT_ONCE
AT_ONCE = 12
STEPS = 10
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
    assert ended.code == 1 and f"{learned} may still have erased conversations" in ended.err
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


def test_training_data_of_an_earlier_version_have_their_path_for_an_id(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    (learned / "export.json").unlink()
    with closing(sqlite3.connect(world.path)) as database, database:
        database.execute("UPDATE export SET id = folder")
        database.execute("UPDATE export_session SET export_id = ?", [str(learned)])
    assert world.forget(session=FIRST.id).code == 0 and world.left() == {}
    learned.rename(world.root / "elsewhere")
    assert world.learn(learned).code == 0
    ended = world.forget(session=SPOKEN[1].id)
    assert ended.code == 1 and f"--deleted {learned}`" in ended.err
    assert world.forget(deleted=[str(learned)]).code == 0


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
    monkeypatch.setattr("fashioniq.learning.export.WAIT", 0.01)
    assert world.learn(learned).code == 0 and world.left() == {}
    assert forgotten[0].code == 1 and f"another process is writing to {learned}" in forgotten[0].err


def test_a_failed_learn_removes_what_was_erased_meanwhile(world, monkeypatch):
    def train(*arguments):
        world.with_store(lambda store: store.erase_session(FIRST.id))
        raise UserError("no features")

    monkeypatch.setattr(learning, "train_retriever", train)
    assert world.learn(world.root / "learned").code == 2 and world.left() == {}


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
    assert world.forget(session=FIRST.id).out.count("was trained with 1 of the erased conversations") == 2
    ended = world.learn(world.root / "third")
    assert ended.code == 0 and "run was trained with conversations that were erased" in ended.out
    shutil.rmtree(first)
    assert str(second / "run") in world.forget().out


def test_words_of_nobody_leave_the_report(world):
    learned = world.root / "learned"
    assert world.learn(learned).code == 0
    assert "crimson" in (learned / "gate.json").read_text() + (learned / "report.html").read_text()
    for one in SPOKEN:
        world.forget(session=one.id)
    for name in ("gate.json", "report.html"):
        assert (learned / name).exists() and "crimson" not in (learned / name).read_text()


@pytest.mark.parametrize("command", [name for name in COMMANDS if hasattr(COMMANDS[name], "database")])
def test_a_missing_database_is_refused_and_not_created(command, refused, world, tmp_path, monkeypatch):
    missing = tmp_path / "missing/typo.db"
    options = {"learn": {"run": tmp_path, "out": tmp_path / "learned"}}.get(command, {})
    monkeypatch.setattr("fashioniq.inputs.check_inputs", lambda settings: None)
    line = refused(command, database=f"sqlite:///{missing}", **options)
    assert f"expected a database of the service, found no such file in sqlite:///{missing}" in line
    assert not missing.parent.exists() and not (tmp_path / "learned").exists()
    assert COMMANDS["serve"] is Serve  # of the commands with --database, only `serve --run` creates one


def words_missing(world, folder):
    """Words of conversations that remain but are not in the files of a folder of training data."""
    held = {one.session for one in read_sessions(folder)}
    topics = (folder / "topics.tsv").read_text()
    return [one.word for one in SPOKEN if one.id in held and one.word not in topics]


class Order:
    """A random order of steps, and what must hold after each."""

    def __init__(self, world, chance):
        self.world, self.chance, self.done = world, chance, []
        self.paths = [world.root / "one", world.root / "two"]
        self.away = {}  # places of folders that were moved, with where they were
        self.deleted = set()  # ids of training data
        self.held = {}  # ids of conversations by that of the training data

    def run(self):
        steps = [
            self.learn,
            self.learn,
            self.learn,
            self.forget,
            self.forget,
            self.forget,
            self.erase,
            self.serve,
        ]
        steps += [self.move_away, self.move_away, self.move_back, self.delete, self.read, self.export]
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            self.done.append(step.__name__)
            step()
        self.finish()

    def fault(self):
        """None, or a fault of half of the processes."""
        if self.chance.random() < 0.5:
            return None
        at = int(self.chance.choice((10, 40, 160)) * self.chance.random()) + 1
        return Fault(at, self.chance.random() < 0.5, self.chance.choice((1, 3, 1000)))

    def ended(self, ended, fault, codes=(0, 1)):
        self.done.append((fault, ended))
        assert ended.code != -1, ended.err
        if fault is None:
            assert ended.code in codes
        assert "Traceback" not in ended.err
        return fault is None or ended.code in (0, 1)

    def learn(self):
        out, fault = self.chance.choice(self.paths), self.fault()
        existed = out.exists()
        ended = self.world.learn(out, fault)
        completed = self.ended(ended, fault, codes=(2,) if existed else (0, 2))
        if not existed and completed and ended.code == 0:
            self.held[id_of(out)] = {one.session for one in read_sessions(out)}
        if fault is None:
            self.check(ended, named=not existed)

    def forget(self):
        fault, one = self.fault(), self.chance.choice(SPOKEN)
        options = self.chance.choice([{"session": one.id}, {"session": one.id}, {"client": one.client}, {}])
        self.done.append(options)
        ended = self.world.forget(fault, **options)
        if self.ended(ended, fault):
            assert (ended.code == 0) == (not ended.err)
            self.check(ended)

    def erase(self):
        """As a shopper does, over HTTP."""
        fault, one = self.fault(), self.chance.choice(SPOKEN)
        ended = self.world.with_store(lambda store: store.erase_session(one.id), fault)
        self.done.append(one.id)
        self.ended(ended, fault)
        assert fault or (ended.code == 0 and one.id not in self.world.stored())

    def serve(self):
        fault = self.fault()
        ended = self.world.serve(fault)
        if self.ended(ended, fault):
            self.check(ended)

    def export(self):
        one = self.chance.choice(SPOKEN)
        ended = self.world.with_store(lambda store: print(store.export_session(one.id)))
        assert (one.word in ended.out) == (one.id in self.world.stored())

    def read(self):
        self.world.end_reading() if self.world.is_read else self.world.read()

    def present(self):
        return [path for path in self.paths if path.exists()]

    def move_away(self):
        if present := self.present():
            path = self.chance.choice(present)
            place = self.world.root / f"away{len(self.done)}"
            path.rename(place)
            self.away[place] = path

    def move_back(self):
        if free := [place for place, path in self.away.items() if not path.exists()]:
            place = self.chance.choice(free)
            place.rename(self.away.pop(place))

    def delete(self):
        if self.chance.random() < 0.5 and (present := self.present()):
            path = self.chance.choice(present)
            self.deleted.add(id_of(path))
            shutil.rmtree(path)

    def check(self, ended, named=True):
        """No file has a word of an erased conversation, but those that are named."""
        left = self.world.left()
        if ended.code == 0 and not ended.err:
            assert not left or not named
        for path in left if named else ():
            place = self.world.root / path.relative_to(self.world.root).parts[0]
            if place == self.world.path or place.name == "service.db-wal":
                assert self.world.is_read and "reads the database" in ended.err
            else:
                assert f"{self.away.get(place, place)} may still have" in ended.err
                assert place not in self.away or id_of(place) in ended.err
        stored = self.world.stored()
        for path in self.present():
            if named and id_of(path) in self.held:
                held, right = {one.session for one in read_sessions(path)}, self.held[id_of(path)] & stored
                assert held == right or (held > right and f"{path} may still have" in ended.err)
                assert words_missing(self.world, path) == []

    def finish(self):
        """Every folder comes back once; then nothing is left, and nothing else was removed."""
        self.world.end_reading()
        for place in [None, *self.away]:
            if place is not None:
                path = self.away[place]
                if path.exists():
                    path.rename(self.world.root / f"done{len(self.done)}")
                place.rename(path)
            self.done.append(ended := self.world.forget())
            assert ended.code in (0, 1)
        assert self.world.left() == {}
        named = set(re.findall("--deleted (exp_[0-9a-f]+)", ended.err))
        assert named <= self.deleted and (ended.code == 1) == bool(named)
        if named:
            ended = self.world.forget(deleted=sorted(named))
            assert ended.code == 0
        stored = self.world.stored()
        for marked in self.world.root.rglob("export.json"):
            if (id := id_of(marked.parent)) in self.held:
                assert {one.session for one in read_sessions(marked.parent)} == self.held[id] & stored
                assert words_missing(self.world, marked.parent) == []


def id_of(folder):
    path = Path(folder, "export.json")
    return read_json(path, "the id", dict)["id"] if path.exists() else None


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

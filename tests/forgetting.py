"""A shop whose shoppers are learnt from and forgotten: a database, folders of training data, and processes that are
killed or fail at any file or statement. Nothing is trained: runs are a few bytes.
"""

import errno
import io
import os
import pickle
import re
import shutil
import signal
import sqlite3
import sys
import traceback
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from msgspec.structs import asdict
from sqlalchemy import event, insert
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from fashioniq.config import Forget, Learn
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, read_json, write_json
from fashioniq.service.learning import run as learning
from fashioniq.service.learning.export import MeasureComparison, Verdict, read_sessions
from fashioniq.service.learning.forget import Erasure, carry_out, forget
from fashioniq.service.learning.rules import Shop
from fashioniq.service.store import EventRow, SessionRow, Store, TurnRow, engine, tables
from tests.waiting import LIMIT

BEGAN = datetime(2026, 11, 22, 12, tzinfo=UTC)
TRAINING, TESTING = 6, 2  # conversations about products of train and of test
SPLITS = {"train": ["a1", "a2"], "val": ["b1", "b2"], "test": ["c1", "c2"]}
KILLED = 137
STEPS = 10  # of an order
REMOVALS = {"os.remove", "os.rmdir"}  # do not fail, as a full disk permits them
CHANGES = {"os.rename", "os.mkdir", "os.truncate", "shutil.copyfile"}


class Spoken(NamedTuple):
    """A conversation: its id, its client, and a word that nobody else said."""

    id: str
    client: str
    word: str


SPOKEN = [
    Spoken(f"ses_{number:02}zz{number:02}", f"client{number // 2}", f"quor{chr(97 + number)}{chr(110 + number)}zant")
    for number in range(TRAINING + TESTING)
]  # fmt: skip


def make_database(folder):
    """A database with SPOKEN, all with consent for training."""
    store = Store.open(f"sqlite:///{folder}/service.db", lambda: BEGAN)
    rows = {tables.session: [], tables.turn: [], tables.event: []}
    for number, one in enumerate(SPOKEN):
        about, target = SPLITS["train" if number < TRAINING else "test"]
        at = BEGAN + timedelta(minutes=number)
        times, client = {"created_at": at, "last_at": at}, store.client_hmac(one.client)
        session = SessionRow(
            id=one.id, category="dresses", model="m", client=client, consent="training", **times
        )
        heard = {"unknown": [one.word] * (1 + 600 * (number % 2))}  # some are longer than a page of SQLite
        turns = [
            TurnRow(query_id=f"{one.id}-{n}", session_id=one.id, n=n, kind="says" if n else "start", about=about if n else None,
                 says=f"is {one.word} and crimson" if n else None, heard=heard if n else {}, created_at=at)
            for n in range(3)
        ]  # fmt: skip
        bought = {"query_id": turns[-1].query_id, "action": "this_is_it", "product_id": target}
        rows[tables.session].append(asdict(session) | {"consent_at": at})
        rows[tables.turn] += map(asdict, turns)
        rows[tables.event].append(
            asdict(EventRow(event_id=one.id, session_id=one.id, server_at=at, **bought))
        )
    store.write(lambda connection: [connection.execute(insert(table), rows[table]) for table in rows])
    store.close()
    for split, ids in SPLITS.items():
        write_json(folder / "catalog" / "image_splits" / f"split.dress.{split}.json", ids)
    return folder


def do_not_train(monkeypatch, catalog):
    """Let `learn` write training data and reports, and a few bytes in place of runs."""

    def grow(run, out, store, sessions, words):
        write_json(out / "model.json", {"words": words})

    def train(settings, live):
        write_json(settings.run / "model.json", {"words": []})
        return "trained"

    row = MeasureComparison(name="R@10", running=1.0, new=2.0, passed=True)
    retriever = SimpleNamespace(max_words=20)
    changed = {
        "_training_of": lambda settings, base: SimpleNamespace(
            data=catalog, category="dresses", features=None, attrs=False, word_vectors=None, run=settings.out / "run"
        ),
        "open_store": lambda *arguments: None,
        "load_retriever": lambda *arguments: (retriever, Vocabulary(["is", "and"]), None),
        "shop_of": lambda *arguments: Shop({name: split for split, ids in SPLITS.items() for name in ids}),
        "grow": grow,
        "train_retriever": train,
        "_judged": lambda *arguments: Verdict(targets=1, rows=[row], reasons=[]),
    }  # fmt: skip
    for name, value in changed.items():
        monkeypatch.setattr(learning, name, value)
    monkeypatch.setattr(engine, "WAIT", 0.05)
    # the page cache survives a killed process
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    fast = tuple(one.replace("synchronous=FULL", "synchronous=OFF") for one in engine._SQLITE)
    monkeypatch.setattr(engine, "_SQLITE", fast)


@dataclass(frozen=True)
class Fault:
    """At the n-th change of a file or statement, the process dies, or this and the next `times` changes fail."""

    at: int
    kills: bool
    times: int = 1


class Ended(NamedTuple):
    """Exit code of a process and what it printed; `code` is KILLED without output if it was killed."""

    code: int
    out: str = ""
    err: str = ""


def install(fault, root):
    """Let this process die or fail as the fault says."""
    count = 0

    def fails():
        nonlocal count
        count += 1
        if count == fault.at and fault.kills:
            os._exit(KILLED)
        return fault.at <= count < fault.at + fault.times

    def changed(name, arguments):
        if name == "open":
            path, _, flags = arguments
            change = isinstance(path, str | os.PathLike) and flags & (os.O_WRONLY | os.O_RDWR)
            change = change and Path(path).is_relative_to(root)
        else:
            change = name in CHANGES | REMOVALS
        if change and fails() and name not in REMOVALS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def executed(*arguments):
        if fails():
            raise OperationalError("statement", None, sqlite3.OperationalError("database is locked"))

    sys.addaudithook(changed)
    event.listen(Engine, "before_cursor_execute", executed)
    event.listen(Engine, "commit", executed)


def captured(function):
    """How a function ends that prints and returns a result that may have `failed`, as a command of `fashioniq`."""
    out, err, code = io.StringIO(), io.StringIO(), -1
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = int(getattr(function(), "failed", False))
        except UserError as error:
            code = 2
            print(f"error: {error}", file=sys.stderr)
        except Exception:
            traceback.print_exc()
    return Ended(code, out.getvalue(), err.getvalue())


class ShopWorld:
    """A database and folders below `root`. Every command is a process of its own; `start` is the run that serves."""

    start = "run"

    def __init__(self, root, template):
        self.root, self.path, self.url = root, root / "service.db", f"sqlite:///{root}/service.db"
        self._template, self._reader = template, None
        self.begin_again()

    def begin_again(self):
        """Remove everything, and take a new database."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        shutil.copy(self._template / "service.db", self.path)

    def process(self, function, fault=None):
        """Call a function, in a forked process if there is a fault, and return how it ended; an exception is code -1."""
        if fault is None:
            return captured(function)
        result = self.root.with_suffix(".result")
        result.unlink(missing_ok=True)
        if not (child := os.fork()):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT)
            install(fault, self.root)
            try:
                result.write_bytes(pickle.dumps(captured(function)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return pickle.loads(result.read_bytes()) if result.exists() else Ended(KILLED)

    def learn(self, out, fault=None):
        settings = Learn(database=self.url, run=self.root / self.start, out=out, min_targets=2)
        return self.process(lambda: learning.learn(settings), fault)

    def forget(self, fault=None, **options):
        settings = Forget(database=self.url, **options)
        return self.process(lambda: forget(settings), fault)

    def with_store(self, function, fault=None):
        """Call a function with the open database in a process, as the service does."""

        def call():
            store = Store.open(self.url)
            try:
                return function(store)
            finally:
                store.close()

        return self.process(call, fault)

    def serve(self, fault=None):
        """What the start of the service does."""
        return self.with_store(lambda store: Erasure(not carry_out(store)), fault)

    def read(self):
        """Let a process read the database until `end_reading`."""
        (ready, to_parent), (stop, self._reader) = os.pipe(), os.pipe()
        self._reading = os.fork()
        if not self._reading:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT)
            reader = sqlite3.connect(self.path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM turn").fetchall()
            os.write(to_parent, b".")
            os.read(stop, 1)
            os._exit(0)
        os.read(ready, 1)
        for handle in (ready, to_parent, stop):
            os.close(handle)

    @property
    def is_read(self):
        return self._reader is not None

    def end_reading(self):
        if self._reader is not None:
            os.write(self._reader, b".")
            os.close(self._reader)
            os.waitpid(self._reading, 0)
            self._reader = None

    def stored(self, consent="%"):
        """Ids of the conversations in the database, all or those with a consent, read in a copy, as to open it would change its files."""
        copy = self.root.with_suffix(".copy")
        copy.mkdir(exist_ok=True)
        for suffix in ("", "-wal"):
            (copy / f"service.db{suffix}").unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                shutil.copy(f"{self.path}{suffix}", copy)
        with closing(sqlite3.connect(copy / "service.db")) as database:
            found = database.execute("SELECT id FROM session WHERE consent LIKE ?", [consent])
            return {id for (id,) in found}

    def left(self):
        """Files with a word or the id of a conversation that they may not have, with these: one that was erased, or
        outside the database one without consent for training.
        """
        stored, usable = self.stored(), self.stored("training")
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_file() and path.name != "service.db-shm":
                content = path.read_bytes()
                present = stored if path.name in ("service.db", "service.db-wal") else usable
                gone = [name for one in SPOKEN if one.id not in present for name in (one.id, one.word)]
                if names := [name for name in gone if name.encode() in content]:
                    found[path] = names
        return found


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
        steps += [
            self.move_away,
            self.move_away,
            self.move_back,
            self.delete,
            self.read,
            self.export,
            self.withdraw,
        ]
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

    def withdraw(self):
        """Take back the consent for training, as a shopper does, over HTTP."""
        fault, one = self.fault(), self.chance.choice(SPOKEN)
        if one.id in self.world.stored():
            self.done.append(one.id)
            self.ended(
                self.world.with_store(lambda store: store.set_consent(one.id, "service"), fault), fault
            )
            assert fault or one.id not in self.world.stored("training")

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
        stored = self.world.stored("training")
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
        stored = self.world.stored("training")
        for marked in self.world.root.rglob("export.json"):
            if (id := id_of(marked.parent)) in self.held:
                assert {one.session for one in read_sessions(marked.parent)} == self.held[id] & stored
                assert words_missing(self.world, marked.parent) == []


def id_of(folder):
    path = Path(folder, "export.json")
    return read_json(path, "the id", dict)["id"] if path.exists() else None

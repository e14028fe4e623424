"""Learning from a log of the service: a model that understands more, a gate that stops the others, erasure."""

import json
import random
import shutil
import zlib
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import torch
from msgspec.structs import asdict, replace
from sqlalchemy import delete, insert, update

from benchmarks.dialect import in_dialect
from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.wording import Weights, obeying
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder, unit
from fashioniq.features.store import open_store
from fashioniq.sample import draw_sample, garments_of
from fashioniq.service.exploring import explored_ranks, propensity
from fashioniq.service.learning import run as learning
from fashioniq.service.learning.export import Verdict, read_sessions
from fashioniq.service.learning.gate import replay
from fashioniq.service.learning.off_policy_gate import first_products
from fashioniq.service.learning.rules import LiveSession, LiveStep
from fashioniq.service.learning.start import grow
from fashioniq.service.models import models_of
from fashioniq.service.store import EventRow, SessionRow, Store, TurnRow, tables
from fashioniq.systems import load, zero_shot
from fashioniq.training import wording
from fashioniq.users.grammar import GarmentSpeaker

SESSIONS, TESTED, TURNS = 500, 100, 3
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class World:
    """A catalog, a run, and two logs: in one of them, the targets of the training sessions are exchanged."""

    catalog: Path
    run: Path
    log: Path
    shuffled: Path


class Trigrams(Encoder):
    """Texts as counts of their letter trigrams: an encoder without training that knows no word."""

    def __init__(self, inputs):
        self.size = 128
        self.identity = Identity(encoder="trigrams", weights="-", image_size=None, dimensions=self.size)

    def texts(self, texts):
        counts = torch.zeros(len(texts), self.size)
        for row, text in zip(counts, texts, strict=True):
            for start in range(len(text) - 2):
                row[zlib.crc32(text[start : start + 3].lower().encode()) % self.size] += 1
        return unit(counts)


def write_log(path, catalog, shuffled):
    """Sessions of shoppers with a dialect, each a client of its own, one a minute; the last ones want test products."""
    store = Store.open(f"sqlite:///{path}", now=lambda: BEGAN)
    garments, chance = garments_of(catalog), random.Random(0)
    speaker, position_of = (
        GarmentSpeaker(list(garments.values())),
        {name: n for n, name in enumerate(garments)},
    )
    wanted = [chance.choice(catalog.ids("train")) for _ in range(SESSIONS - TESTED)]
    chosen = chance.sample(wanted, len(wanted)) if shuffled else wanted
    tested = [chance.choice(catalog.ids("test")) for _ in range(TESTED)]

    rows = {tables.session: [], tables.turn: [], tables.event: []}
    for number, (target, told) in enumerate(zip([*wanted, *tested], [*chosen, *tested], strict=True)):
        split = "train" if number < SESSIONS - TESTED else "test"
        at, id = BEGAN + timedelta(minutes=number), f"s{number}"
        others = [name for name in catalog.ids(split) if name not in (target, told)]
        turns = []
        for n in range(TURNS + 1):
            about = chance.choice(others) if n else None
            says = n and in_dialect(speaker.describe(position_of[target], position_of[about], chance))
            kind = "says" if n else "start"
            turns.append(
                TurnRow(
                    query_id=f"{id}-{n}",
                    session_id=id,
                    n=n,
                    kind=kind,
                    about=about,
                    says=says or None,
                    created_at=at,
                )
            )
        times = {"created_at": at, "last_at": at}
        session = SessionRow(id=id, category="dresses", model="m", client=id, consent="training", **times)
        rows[tables.session].append(asdict(session) | {"consent_at": at})
        rows[tables.turn] += map(asdict, turns)
        bought = {"query_id": turns[-1].query_id, "action": "purchase", "product_id": told, "server_at": at}
        rows[tables.event].append(asdict(EventRow(event_id=id, session_id=id, **bought)))
    store.write(lambda connection: [connection.execute(insert(table), rows[table]) for table in rows])
    store.close()


def make_world(folder, project):
    catalog = folder / "catalog"
    draw_sample(catalog, products=300, categories=["dresses"])
    project.run("extract-features", data=catalog, category="dresses", encoder="metadata")
    project.run(
        "train-retriever",
        data=catalog,
        category="dresses",
        users=["differences", "recorded"],
        turns=3,
        epochs=4,
        learning_rate=0.01,
        run=folder / "run",
        **{"model.kind": "linear", "model.width": 64},
    )
    opened = Catalog(catalog, "dresses")
    write_log(folder / "log.db", opened, shuffled=False)
    write_log(folder / "shuffled.db", opened, shuffled=True)
    return World(catalog, folder / "run", folder / "log.db", folder / "shuffled.db")


@pytest.fixture(scope="module")
def world(once, project):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wording, "fit_weights", lambda *arguments, **options: (Weights(), {}))
        return once("learning", make_world, project)


@pytest.fixture(autouse=True)
def vectors_alone(monkeypatch):
    """Words have no weight: their synonyms would know the dialect that is to be learned."""
    monkeypatch.setattr(wording, "fit_weights", lambda *arguments, **options: (Weights(), {}))
    monkeypatch.setattr(zero_shot, "WEIGHTS", Weights())


@pytest.fixture
def learn(world, tmp_path, project):
    """Learn from a copy of a log into tmp_path/learned; return the exit code and the database."""

    def learn(log, *more):
        database = f"sqlite:///{shutil.copy(log, tmp_path / 'service.db')}"
        options = {"database": database, "run": world.run, "out": tmp_path / "learned"}
        options |= {"held_out": 0.2, "min_targets": 30, "epochs": 20}
        return main([*project.arguments("learn", **options), *more]), database

    return learn


def test_a_model_that_learnt_the_dialect_is_activated(learn, tmp_path, world, capsys):
    code, database = learn(world.log, "--activate")
    told = capsys.readouterr().out
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    assert code == 0 and gate["passed"], gate["reasons"]
    assert "crimson" in gate["new_words"]
    store = Store.open(database)
    active = store.active_model("dresses")
    store.close()
    assert active is not None and Path(active.folder) == (tmp_path / "learned/run").resolve()
    assert f"{active.id} is active" in told

    held = read_sessions(tmp_path / "learned")
    erased = next(one for one in held if one.split == "train")
    assert main(["forget", "--database", database, "--session", erased.session]) == 0
    told = capsys.readouterr().out
    assert f"removed 1 of {len(held)} conversations" in told and f"model {active.id}" in told
    assert read_sessions(tmp_path / "learned") == [one for one in held if one != erased]
    pairs = json.loads((tmp_path / "learned/catalog/captions/cap.dress.train.json").read_text())
    assert len(pairs) == sum(len(one.steps) for one in held if one.split == "train") - len(erased.steps)
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    assert gate["passed"] and "crimson" in gate["new_words"]  # others said it, too
    assert "no later conversation explored" in gate["notes"][0]
    assert "crimson" in (tmp_path / "learned/report.html").read_text()

    again = main(["forget", "--database", database]), capsys.readouterr()
    assert again[0] == 0 and again[1].out.startswith(f"model {active.id} in ") and not again[1].err
    shutil.rmtree(tmp_path / "learned")
    held.remove(erased)
    assert main(["forget", "--database", database, "--session", held[0].session]) == 1
    line = capsys.readouterr().err
    assert len(line.splitlines()) == 1 and str(tmp_path / "learned") in line
    id = line.split("--deleted ")[1].split("`")[0]
    assert main(["forget", "--database", database, "--deleted", id]) == 0 and not capsys.readouterr().err


def write_explored(path, world):
    """A copy of the log whose later conversations explored."""
    shutil.copy(world.log, path)
    store, system = Store.open(f"sqlite:///{path}"), load(world.run, split="all")
    random.seed(0)
    for session, turns, _ in store.log("dresses")[-TESTED:]:
        # the replay looks at answers with ranks only
        rows = [
            replace(one, heard={"clauses": [one.says]}, shown=[{"id": "-", "rank": 0}]) for one in turns[1:]
        ]
        changes = [(tables.session, tables.session.c.id == session.id, {"arm": "explore"})]
        for row, order in zip(rows, first_products(system, rows), strict=True):
            ranks = explored_ranks(8, len(order))
            chances = [propensity(rank, 8, len(order)) for rank in ranks]
            shown = [
                {"id": order[rank], "score": 0.0, "propensity": chance, "rank": rank}
                for rank, chance in zip(ranks, chances, strict=True)
            ]
            values = {"shown": shown, "heard": row.heard}
            changes.append((tables.turn, tables.turn.c.query_id == row.query_id, values))
        store.write(
            lambda connection, changes=changes: [
                connection.execute(update(table).where(which).values(values))
                for table, which, values in changes
            ]
        )
    store.close()


def test_conversations_that_explored_are_judged_by_what_both_models_show(learn, world, tmp_path, capsys):
    write_explored(tmp_path / "explored.db", world)
    code, _ = learn(tmp_path / "explored.db")
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    (row,) = [one for one in gate["rows"] if one["name"].startswith("choices per 100 answers")]
    assert (
        code == 1
        and row["count"] == TURNS * TESTED
        and row["low"] <= row["new"] - row["running"] <= row["high"]
    )
    assert any("of the new model's own, fewer than 300" in reason for reason in gate["reasons"])
    assert (
        row["name"] in (tmp_path / "learned/report.html").read_text()
        and row["name"] in capsys.readouterr().out
    )


def test_a_model_is_not_activated_in_the_place_of_one_that_it_was_not_compared_with(
    learn, tmp_path, world, capsys
):
    log = shutil.copy(world.log, tmp_path / "log.db")
    serving = shutil.copytree(world.run, tmp_path / "serving")
    with models_of(store := Store.open(f"sqlite:///{log}")) as models:
        models.activate(models.register(serving).version)
    store.close()
    assert learn(log, "--activate")[0] == 2 and not (tmp_path / "learned").exists()
    assert f"expected the run that serves dresses, {serving}, found {world.run}" in capsys.readouterr().err
    assert learn(log)[0] == 0
    note = f"{serving} serves dresses; the new model was compared with {world.run} alone"
    assert note in json.loads((tmp_path / "learned/gate.json").read_text())["notes"]


def test_a_model_is_not_activated_after_another_one_was_during_the_training(
    learn, tmp_path, world, capsys, monkeypatch
):
    serving = shutil.copytree(world.run, tmp_path / "serving")

    def trained(settings, source):
        with closing(Store.open(f"sqlite:///{tmp_path}/service.db")) as store, models_of(store) as models:
            models.activate(models.register(serving).version)
        return shutil.copytree(world.run, settings.run)

    passed = Verdict(targets=0, rows=[], reasons=[], notes=[])
    monkeypatch.setattr(learning, "train_retriever", trained)
    monkeypatch.setattr(learning, "_judged", lambda *given: passed)
    code, database = learn(world.log, "--activate")
    told = capsys.readouterr()
    assert code == 2 and "passes the gate" in told.out and "is active" not in told.out
    assert f"expected the run that serves dresses, {serving}, found {world.run}" in told.err
    with closing(Store.open(database)) as store:
        active = store.active_model("dresses")
    assert active is not None and active.folder == str(serving)


def test_a_model_trained_on_exchanged_targets_is_refused(learn, tmp_path, world):
    code, database = learn(world.shuffled, "--activate")
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    assert code == 1 and not gate["passed"]
    assert any(reason.startswith("R@10 is") for reason in gate["reasons"])
    store = Store.open(database)
    assert store.active_model("dresses") is None
    store.close()


def test_a_model_that_is_not_better_than_the_untrained_search_is_not_activated(
    learn, world, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(zero_shot, "WEIGHTS", obeying(0.01))  # its words have synonyms of the dialect
    code, database = learn(world.log, "--activate")
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    (row,) = [one for one in gate["rows"] if "untrained search by metadata" in one["name"]]
    assert code == 1 and row["new"] <= row["running"] and not row["passed"]
    (reason,) = gate["reasons"]
    assert "not better than" in reason and reason in " ".join(capsys.readouterr().out.split())
    assert reason in (tmp_path / "learned/report.html").read_text()
    store = Store.open(database)
    assert store.active_model("dresses") is None
    store.close()
    assert not (world.catalog / "zero-shot").exists()


def test_a_service_without_training_learns_from_its_log(world, tmp_path, project, capsys):
    catalog = shutil.copytree(world.catalog, tmp_path / "catalog")
    run = zero_shot.prepare_zero_shot(f"{__name__}:Trigrams", catalog, "dresses")
    options = {"database": f"sqlite:///{shutil.copy(world.log, tmp_path / 'service.db')}", "run": run}
    options |= {"held_out": 0.2, "min_targets": 30, "epochs": 20, "out": tmp_path / "learned"}
    code = main([*project.arguments("learn", **options), "--activate"])
    told, failed = capsys.readouterr()
    assert code == 0, told + failed
    gate = json.loads((tmp_path / "learned/gate.json").read_text())
    assert gate["passed"]
    assert gate["rule"]["run"] == str(run.resolve()) and "crimson" in gate["new_words"]
    first = gate["rows"][0]
    assert first["name"] == "R@10" and first["new"] > first["running"] + 10
    assert not any("untrained" in row["name"] for row in gate["rows"])  # it is the running model
    assert "is active" in told and load(tmp_path / "learned/run").gallery.items.ids


def test_a_folder_that_exists_is_not_overwritten(learn, tmp_path, world, capsys):
    (tmp_path / "learned").mkdir()
    assert learn(world.log)[0] == 2 and "exists already" in capsys.readouterr().err


def test_a_log_without_consent_teaches_nothing(learn, tmp_path, world, capsys):
    empty = Store.open(f"sqlite:///{tmp_path / 'empty.db'}")
    empty.close()
    assert learn(tmp_path / "empty.db")[0] == 2
    told = capsys.readouterr().err
    assert "expected 2 conversations in sqlite:" in told and "found 0; learn again when" in told
    unasked = Store.open(f"sqlite:///{shutil.copy(world.log, tmp_path / 'unasked.db')}")
    unasked.write(lambda connection: connection.execute(update(tables.session).values(consent="none")))
    unasked.close()
    assert learn(tmp_path / "unasked.db")[0] == 2
    told = capsys.readouterr().err
    assert "found 0 of " in told and "ask shoppers for their consent" in told
    assert not (tmp_path / "learned").exists()


def test_the_password_of_the_database_is_not_printed(project, world, tmp_path, server, administer, capsys):
    name = f"learned{uuid4().hex}"
    administer(f"CREATE DATABASE {name}")
    database = server.format(name).replace("shop@", "shop:geheim@")
    Store.open(database).close()
    assert main(project.arguments("learn", run=world.run, out=tmp_path / "learned", database=database)) == 2
    told = "".join(capsys.readouterr())
    assert f"conversations in postgresql+psycopg://shop:***@/{name}" in told and "geheim" not in told


def test_one_reason_is_given_for_too_few_conversations(learn, tmp_path, world, capsys):
    store = Store.open(f"sqlite:///{shutil.copy(world.log, tmp_path / 'lonely.db')}")
    store.write(lambda connection: connection.execute(delete(tables.event)))
    store.close()
    assert learn(tmp_path / "lonely.db")[0] == 2
    line = capsys.readouterr().err
    assert f"most were left out as sessions without a target ({SESSIONS})" in line and "consent" not in line


def test_a_conversation_that_never_was_cannot_be_forgotten(tmp_path, refused):
    Store.open(f"sqlite:///{tmp_path / 'log.db'}").close()
    line = refused("forget", database=f"sqlite:///{tmp_path / 'log.db'}", session="s1")
    assert "no conversation s1" in line


@pytest.mark.parametrize("kind", ["linear", "transformer", "residual"])
def test_a_grown_model_ranks_as_before(kind, world, runs, project, tmp_path):
    catalog, run, features = (
        (world.catalog, world.run, None) if kind == "linear" else (runs.catalog, runs.retriever, runs.store)
    )
    if kind == "residual":
        run = tmp_path / "residual"
        sizes = {"model.heads": 2, "model.hidden": 32, "model.layers": 1, "turns": 2, "epochs": 1}
        project.run(
            "train-retriever", data=catalog, category="dresses", features=features, run=run,
            users=["differences", "recorded"], halfway=True, **{"model.kind": kind}, **sizes,
        )  # fmt: skip
    store = open_store(catalog, "dresses", features)
    items = Catalog(catalog, "dresses").ids("test")
    said = [
        LiveSession(
            session=name,
            split="test",
            target=name,
            weight=1.0,
            signal="purchase",
            model="m",
            begun=BEGAN,
            steps=[
                LiveStep(items[0], text) for text in ("is red with long sleeves", "is not red and is red")
            ],
        )
        for name in items[1:6]
    ]
    grow(run, tmp_path / "grown", store, said, ["crimson", "wrist"])
    before, after = (load(one, features=features, device="cpu") for one in (run, tmp_path / "grown"))
    assert replay(before, said) == replay(after, said)
    assert not after.vocabulary.unknown(["crimson wrist"])
    assert before.vocabulary.unknown(["crimson"])
    assert after.vocabulary.words[: len(before.vocabulary)] == before.vocabulary.words

"""Users that the retriever was not trained with, and the baselines beside them, by the commands."""

import json
import re
import shutil
from html import escape

import msgspec
import pytest

from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import UserTable
from fashioniq.evaluation.user_table import TRAINING_ONLY, headline
from fashioniq.evaluation.users import SUMMARY
from fashioniq.features.store import FeatureStore
from fashioniq.language.statements import StatementCheck
from fashioniq.runs.trained import load_simulator


def session(*items):
    return {
        "target": ["u", items[-1]],
        "reference": [["u", ["is red", "has long sleeves"], item] for item in items[:-1]],
    }


def read_users(folder):
    return msgspec.json.decode((folder / SUMMARY).read_bytes(), type=UserTable)


@pytest.fixture
def common(vector_runs):
    return {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store, "split": "val"}


@pytest.fixture
def sessions(vector_runs, tmp_path):
    """Three sessions of val; the second ends as a train session, and one is outside the gallery."""
    ids = json.loads((vector_runs.catalog / "image_splits/split.dress.val.json").read_text())
    folder = tmp_path / "sessions"
    folder.mkdir()
    val = [session(*ids[:3]), session(*ids[3:6]), session(*ids[2:6]), session("elsewhere", *ids[:2])]
    val[2]["reference"][-1][2] = ids[8]
    (folder / "dress.val.json").write_text(json.dumps(val))
    (folder / "dress.train.json").write_text(json.dumps([session("elsewhere", *ids[4:6])]))
    (folder / "split.dress.val.json").write_text(json.dumps(ids[:9]))
    return folder


@pytest.mark.parametrize("user", ["differences", "grammar"])
def test_users_that_describe_any_pair_speak_in_every_turn(project, vector_runs, common, tmp_path, user):
    for name, noise in (("plain", 0.0), ("again", 0.0), ("noisy", 0.5)):
        project.run(
            "eval-dialogs",
            **common,
            run=vector_runs.retriever,
            user=user,
            out=tmp_path / name,
            word_noise=noise,
        )
    plain, again, noisy = (
        (tmp_path / name / "dialogs.jsonl").read_text() for name in ("plain", "again", "noisy")
    )
    assert plain == again != noisy
    metrics = json.loads((tmp_path / "plain" / "metrics.json").read_text())
    assert (metrics["user"], metrics["decoding"], metrics["errors"]) == (user, "none", 0.0)
    turns = json.loads(plain.splitlines()[0])["turns"]
    assert len(turns) == 5 and all(turn["words"] for turn in turns)


def test_a_retriever_finds_in_conversations_what_it_finds_in_sessions(
    project, vector_runs, common, sessions, by_vectors, tmp_path
):
    train = json.loads((vector_runs.catalog / "image_splits/split.dress.train.json").read_text())
    (sessions / "dress.train.json").write_text(json.dumps([session(*train[:3])]))
    run = by_vectors(vector_runs.retriever)  # conversations are searched with vectors
    given = {"data": vector_runs.catalog, "category": "dresses", "sessions": sessions}
    project.run("make-conversations", **given, out=tmp_path / "talks")
    project.run(
        "eval-chatsearch",
        data=tmp_path / "talks",
        features=vector_runs.store,
        retriever=run,
        method="retriever",
        out=tmp_path / "found",
    )
    for name, one, score in (("out", run, "words"), ("vectors", vector_runs.retriever, "vectors")):
        project.run(
            "eval-dialogs",
            **common,
            user="sessions",
            sessions=sessions,
            run=one,
            score=score,
            out=tmp_path / name,
        )
    dialogs = [
        json.loads(line)
        for path in (tmp_path / "out").rglob("dialogs.jsonl")
        for line in path.read_text().splitlines()
    ]
    for path in (tmp_path / "out").rglob("dialogs.jsonl"):
        assert path.read_text() == (tmp_path / "vectors" / path.parent.name / path.name).read_text()
    found = map(json.loads, (tmp_path / "found" / "ranks.retriever.jsonl").read_text().splitlines())
    ranks = sorted((one["target"], one["rank"]) for one in found if one["subtask"] == "m")
    assert len(ranks) == 3
    assert ranks == sorted((dialog["target"], dialog["turns"][-1]["rank"]) for dialog in dialogs)


def test_sessions_are_evaluated_by_their_number_of_turns(project, vector_runs, common, sessions, tmp_path):
    given = {**common, "user": "sessions", "sessions": sessions}
    project.run("eval-dialogs", **given, run=vector_runs.retriever, out=tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "sessions.json").read_text())["rows"]
    assert [(row["turns"], row["after"], row["sessions"]) for row in rows] == [
        (2, "last turn", 2),
        (3, "last turn", 1),
        ("all", "last turn", 3),
        ("all", "turn before the last", 3),
        ("clean", "last turn", 2),
    ]
    first = json.loads((tmp_path / "out" / "2-turns" / "dialogs.jsonl").read_text().splitlines()[0])
    recorded = json.loads((sessions / "dress.val.json").read_text())[0]
    assert [turn["shown"] for turn in first["turns"]] == [step[2] for step in recorded["reference"]]
    assert (
        first["target"] == recorded["target"][1] and (tmp_path / "out" / "2-turns" / "report.html").exists()
    )


def test_the_baselines_are_evaluated_as_any_retriever(project, common, sessions, tmp_path):
    training = {name: value for name, value in common.items() if name != "split"}
    project.run("train-retriever", **training, epochs=0, run=tmp_path / "linear")
    for run in (tmp_path / "linear", "last-shown", "bm25"):
        for user in ({"user": "human"}, {"user": "sessions", "sessions": sessions}):
            project.run("eval-dialogs", **common, run=run, out=tmp_path / "out", **user)
    project.run("eval-single-turn", **common, run=tmp_path / "linear", out=tmp_path / "single")
    model = json.loads((tmp_path / "linear" / "model.json").read_text())
    assert (model["kind"], model["model"], model["user"]) == ("retriever", "linear", None)


def test_what_a_catalog_or_a_command_lacks_is_named(vector_runs, common, sessions, project, tmp_path, capsys):
    def error(**options):
        assert (
            main(project.arguments("eval-dialogs", **{**common, "run": vector_runs.retriever, **options}))
            == 2
        )
        return capsys.readouterr().err

    assert "--sessions FOLDER" in error(user="sessions")
    assert "--user sessions" in error(user="human", sessions=sessions)
    assert "--user sessions" in error(user=["human", "grammar"], sessions=sessions)
    assert "--user human is given twice" in error(user=["human", "human"])
    assert "--linear is a baseline" in error(user="grammar", linear=vector_runs.retriever)
    assert "expected a linear retriever" in error(user="human", linear=vector_runs.retriever)
    assert "there is no folder" in error(user="sessions", sessions=tmp_path / "nowhere")
    assert "--score vectors" in error(run="bm25", user="human", score="vectors")


def test_missing_words_of_people_are_named_before_another_user_is_evaluated(
    vector_runs, common, sessions, project, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("fashioniq.evaluation.users.measure_tasks", lambda *given: pytest.fail("evaluated"))

    def error(*users, **options):
        given = {**common, "run": vector_runs.retriever, "user": [*users], "out": tmp_path / "out", **options}
        assert main(project.arguments("eval-dialogs", **given)) == 2
        return capsys.readouterr().err

    assert "--sessions FOLDER" in error("grammar", "sessions")
    assert "there is no folder" in error("grammar", "sessions", sessions=tmp_path / "nowhere")
    assert "give --split val" in error("grammar", "sessions", sessions=sessions, split="test")
    assert "have no targets" in error("grammar", "human", split="test")


@pytest.fixture
def captioner_of_strangers(vector_runs, tmp_path):
    """A copy of the captioner in another folder of the same name, which the retriever was not trained with."""
    return shutil.copytree(vector_runs.captioner, tmp_path / "other" / vector_runs.captioner.name)


def test_all_users_for_which_there_is_data_share_one_table(
    project, vector_runs, common, captioner_of_strangers, by_vectors, tmp_path, capsys
):
    training = {name: value for name, value in common.items() if name != "split"}
    project.run("train-retriever", **training, epochs=0, run=tmp_path / "linear")
    capsys.readouterr()
    out, given = tmp_path / "out", {**common, "run": by_vectors(vector_runs.retriever), "beam": 1, "turns": 2}
    project.run("eval-dialogs", **given, out=out, linear=tmp_path / "linear")
    printed, table = capsys.readouterr().out, read_users(out)
    own = str(vector_runs.captioner)
    assert table.users == {"own": [own], "truthful": ["grammar"], "people": ["human"]}
    assert set(table.galleries.values()) == {12} and "people: human, gallery 12" in printed
    assert list(table.folders.values()) == [
        "captioner",
        "differences",
        "grammar",
        "human",
        "human-last-shown",
        "human-bm25",
        "human-linear",
    ]
    ours, *baselines = table.rows
    for column, folder in (("own", "captioner"), ("truthful", "grammar"), ("people", "human")):
        turn = json.loads((out / folder / "metrics.json").read_text())["turns"][-1]
        assert ours.columns[column] == {"P": turn["P"], "R@10": turn["R@10"]}
    assert [(row.retriever, list(row.columns)) for row in baselines] == [
        ("last-shown", ["people"]),
        ("bm25", ["people"]),
        (str(tmp_path / "linear"), ["people"]),
    ]
    assert table.headline == min(ours.columns, key=lambda column: ours.columns[column]["R@10"])
    assert not table.training_only and f"\n{headline(table)}\n" in f"\n{printed}"
    page = (out / "report.html").read_text()
    assert headline(table) in page and page.index("<table>") < page.index('href="captioner/report.html"')
    drawn = re.search(r'aria-label="Line plot of percent after each turn. ([^"]+)"', page)[1]
    for user, folder in table.folders.items():
        turns = json.loads((out / folder / "metrics.json").read_text())["turns"]
        assert f"{escape(user)}: " + ", ".join(f"{turn['R@10']:.2f}" for turn in turns) in drawn
    assert page.count('<article class="dialog') == len(table.folders)  # one of each
    shares = {
        column: json.loads((out / of[0] / "metrics.json").read_text())["true_by_labels"]
        for column, of in {**table.users, "own": ["captioner"]}.items()
    }
    assert table.true == shares and min(shares["truthful"], shares["people"]) > 0.9
    assert f"truthful: grammar, gallery 12, {100 * shares['truthful']:.0f} % true by the labels" in printed
    # random vectors say nothing of the garments
    assert "people" in table.at_chance and "warning: P after the last turn is at chance level" in printed
    assert "P after the last turn is at chance level" in page
    alone = {**given, "user": "human", "out": tmp_path / "alone"}
    project.run("eval-dialogs", **alone)
    assert project.content(tmp_path / "alone" / "metrics.json") == project.content(
        out / "human" / "metrics.json"
    )


def test_other_captioners_and_sessions_have_columns(
    project, vector_runs, common, captioner_of_strangers, sessions, tmp_path
):
    users = [vector_runs.captioner, captioner_of_strangers, "differences", "sessions"]
    out = tmp_path / "out"
    project.run(
        "eval-dialogs",
        **common,
        run=vector_runs.retriever,
        user=users,
        sessions=sessions,
        beam=1,
        turns=2,
        out=out,
    )
    table = read_users(out)
    assert list(table.users) == ["own", "unseen", "truthful", "people"]
    assert table.users["unseen"] == [str(captioner_of_strangers)] and table.users["truthful"] == [
        "differences"
    ]
    assert table.folders[str(captioner_of_strangers)] == "captioner-2"
    ours = table.rows[0].columns
    assert ours["own"] == ours["unseen"]
    rows = json.loads((out / "sessions" / "sessions.json").read_text())["rows"]
    pooled = next(row for row in rows if row["turns"] == "all")
    assert ours["people"] == {"P": pooled["P"], "R@10": pooled["R@10"]}
    assert 'href="sessions/2-turns/report.html"' in (out / "report.html").read_text()


def test_a_simulator_keeps_to_labels_that_agree_with_the_captions_it_learned(vector_runs, tmp_path):
    run = shutil.copytree(vector_runs.captioner, tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    assert about["captions_true"] > 0.9
    store, truth = FeatureStore(vector_runs.store), StatementCheck.of(Catalog(vector_runs.catalog, "dresses"))

    def kept_to(share):
        content = {**about, "captions_true": share}
        content = {key: value for key, value in content.items() if value is not None}
        (run / "model.json").write_text(json.dumps(content))
        simulator, _ = load_simulator(run, "dresses", store, truth, samples=3)
        assert ("true by the labels" in simulator.decoding) == (simulator.truth is not None)
        return simulator.truth

    assert kept_to(0.8) is truth and kept_to(0.79) is None and kept_to(None) is None


def test_figures_with_the_own_simulator_only_say_so_first(
    project, vector_runs, common, captioner_of_strangers, tmp_path, capsys
):
    """A catalog without labels whose split has no pairs, and two users of the training."""
    catalog = shutil.copytree(
        vector_runs.catalog,
        tmp_path / "catalog",
        ignore=shutil.ignore_patterns("images", "attributes", "titles"),
    )
    given = {**common, "data": catalog, "split": "test", "beam": 1, "turns": 1, "run": vector_runs.retriever}
    project.run("eval-dialogs", **given, out=tmp_path / "one")
    assert f"\n{TRAINING_ONLY}\n" in f"\n{capsys.readouterr().out}"
    assert (tmp_path / "one" / "metrics.json").exists() and not (tmp_path / "one" / "users.json").exists()
    run = shutil.copytree(vector_runs.retriever, tmp_path / "run")
    facts = json.loads((run / "model.json").read_text())
    facts["users"] = [facts["user"], str(captioner_of_strangers)]
    (run / "model.json").write_text(json.dumps(facts))
    project.run("eval-dialogs", **given | {"run": run}, user=facts["users"], out=tmp_path / "two")
    assert f"\n{TRAINING_ONLY}\n" in f"\n{capsys.readouterr().out}"
    assert list(read_users(tmp_path / "two").users) == ["own"]


def test_a_captioner_without_its_listener_is_refused(project, vector_runs, common, tmp_path, capsys):
    captioner = tmp_path / "captioner"
    shutil.copytree(vector_runs.captioner, captioner, ignore=shutil.ignore_patterns("listener"))
    given = {**common, "run": vector_runs.retriever, "user": captioner, "turns": 2}
    assert main(project.arguments("eval-dialogs", **given)) == 2
    assert "found none; train the captioner again" in capsys.readouterr().err
    project.run("eval-dialogs", **given, samples=1, out=tmp_path / "greedy")  # does not need it
    assert json.loads((tmp_path / "greedy" / "metrics.json").read_text())["decoding"] == "greedy"
    assert main(project.arguments("eval-dialogs", **given, samples=4, beam=2)) == 2
    assert "--beam 2 and --samples 4 exclude each other" in capsys.readouterr().err


def test_two_seeds_of_the_default_recipe_are_about_as_good(project, vector_runs, tmp_path):
    """With vectors of titles and labels. The tiny sample has 12 products in test; by chance P is 50."""
    common = {"data": vector_runs.catalog, "category": "dresses", "features": tmp_path / "store"}
    project.run("extract-features", **common, encoder="metadata")
    captioner = tmp_path / "captioner"
    project.run("train-captioner", **common, **project.captioner, run=captioner)
    found = []
    for seed in (0, 1):
        run = tmp_path / str(seed)
        training = {"captioner": captioner, "epochs": 6, "batch_size": 12, "seed": seed, "samples": 2}
        project.run("train-retriever", **common, **training, run=run)
        project.run("eval-dialogs", **common, run=run, user="differences", out=run / "out")
        metrics = json.loads((run / "out" / "metrics.json").read_text())
        found.append(metrics["turns"][-1]["P"])
    assert min(found) > 60 and abs(found[0] - found[1]) < 10, found

"""ChatSearch from the command line: both stages of a ChatSearcher, its baselines, and their evaluation."""

import copy
import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import fashioniq
from fashioniq import Message
from fashioniq.cli import main
from fashioniq.data.conversations import Conversations
from fashioniq.evaluation.changed_histories import exchanged, other_history, without_history
from fashioniq.features.store import FeatureStore
from fashioniq.models.chat_tokens import Tokenized
from fashioniq.systems import chatsearch
from fashioniq.systems.chatsearch import _Space


@pytest.fixture(scope="module")
def trained(project, talks, vector_runs, tmp_path_factory):
    """Runs of both stages, and of a dual encoder on the same captions."""
    folder = tmp_path_factory.mktemp("chatsearch")
    own = {"data": talks, "features": vector_runs.store}
    project.run(
        "train-chatsearcher", **own, **project.chatsearcher, stage="captions", run=folder / "captions"
    )
    project.run(
        "train-chatsearcher",
        **own,
        run=folder / "conversations",
        init_from=folder / "captions",
        **{**project.chatsearcher, "epochs": 1},
    )
    project.run(
        "train-dialog-encoder",
        dialogues=folder / "conversations" / "conversations.train.json",
        val_dialogues=folder / "conversations" / "conversations.val.json",
        features=vector_runs.store,
        mask="none",
        run=folder / "dual",
        **{"model.width": 32, "model.heads": 2, "model.hidden": 64, "model.layers": 1, "epochs": 1},
    )
    return folder


@pytest.fixture(scope="module")
def evaluated(project, talks, vector_runs, trained):
    project.run(
        "eval-chatsearch",
        data=talks,
        features=vector_runs.store,
        run=trained / "conversations",
        encoder=trained / "dual",
    )
    return trained / "conversations" / "chatsearch"


def test_all_methods_are_rows_of_one_table(evaluated):
    metrics = json.loads((evaluated / "metrics.json").read_text())
    rows = {row["method"]: row for row in metrics["rows"]}
    assert list(rows) == ["chatsearcher", "image", "text", "both", "concatenation", "random"]
    assert metrics["samples"] == dict.fromkeys("tim", 8) and metrics["coverage"] == 1
    for row in rows.values():
        values = [row[f"{subtask} R@{n}"] for subtask in "tim" for n in (1, 5, 10)]
        known = [value for value in values if value is not None]
        assert row["mean"] == pytest.approx(sum(known) / len(known))
    assert rows["image"]["t R@1"] is None and rows["both"]["t R@10"] is None
    assert [rows["image"][f"i R@{n}"] for n in (1, 5, 10)] == [rows["image"][f"m R@{n}"] for n in (1, 5, 10)]
    assert [row["check"] for row in metrics["checks"]] == [
        "as it is", "history of another", "no history", "exchanged targets"
    ]  # fmt: skip
    assert set(metrics["shows_picture"]) == set("tim")
    assert {tuple(row["methods"]) for row in metrics["differences"]} == {
        ("chatsearcher", name) for name in rows if name != "chatsearcher"
    }
    page = (evaluated / "report.html").read_text()
    assert page.count("found, the target in place") == 24 and "<h2>Recall in percent</h2>" in page
    records = [json.loads(line) for line in (evaluated / "ranks.chatsearcher.jsonl").read_text().splitlines()]
    assert page.count("<div class=hit>") == sum(one["rank"] < 5 for one in records) > 0
    with open(evaluated / "table.csv", newline="") as file:
        assert [row["method"] for row in csv.DictReader(file)] == list(rows)


def test_the_ranks_are_those_of_the_trec_run(evaluated, talks):
    gallery = Conversations(talks).gallery("t")
    ranked = {}
    for line in (evaluated / "run.chatsearcher.trec").read_text().splitlines():
        sample, _, name, place, _, _ = line.split()
        ranked.setdefault(sample, []).append(name)
        assert len(ranked[sample]) == int(place)
    records = [json.loads(line) for line in (evaluated / "ranks.chatsearcher.jsonl").read_text().splitlines()]
    assert len(records) == 24 and all(len(names) == len(gallery) for names in ranked.values())
    assert all(ranked[one["sample"]][one["rank"]] == one["target"] for one in records)
    qrels = [line.split() for line in (evaluated / "qrels.trec").read_text().splitlines()]
    assert qrels == [[one["sample"], "0", one["target"], "1"] for one in records]
    topics = (evaluated / "topics.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in topics] == [one["sample"] for one in records]


def test_both_stages_leave_whole_runs(trained):
    for stage, first in (("captions", "captions"), ("conversations", "conversations")):
        about = json.loads((trained / stage / "model.json").read_text())
        assert about["stage"] == first and about["features"]["tokens"] == 1 and about["checksum"]
        assert about["provenance"]["data"]["items.jsonl"]
    dialogs = json.loads((trained / "captions" / "captions.train.json").read_text())
    assert dialogs[0]["dialog"][0].startswith("dress number")
    both = json.loads((trained / "conversations" / "conversations.train.json").read_text())
    assert both[: len(dialogs)] == dialogs and len({one["img"] for one in both}) == len(dialogs)
    said = {one["dialog"][0] for one in both[len(dialogs) :]}
    assert any(text.startswith("dress number") and "sure the next of" in text for text in said)


# the checks of the evaluation


def test_history_is_exchanged_or_left_out_and_the_last_request_stays(talks):
    samples = Conversations(talks).samples("m", "test")
    other, without = other_history(samples, seed=0), without_history(samples)
    for own, changed, short in zip(samples, other, without, strict=True):
        assert changed.turns[-2:] == own.turns[-2:] and changed.turns[:-2] != own.turns[:-2]
        assert (
            len(short.turns) == 1
            and short.pictures == own.pictures
            and own.turns[-1].text == short.turns[0].text
        )
    assert {one.turns[0] for one in other} == {one.turns[0] for one in samples}


def test_exchanged_targets_are_never_ones_own():
    for targets in ([0, 0, 1, 2, 3], [5, 1, 5, 1], list(range(30))):
        own = torch.tensor(targets)
        changed = exchanged(own, seed=3)
        assert sorted(changed.tolist()) == sorted(targets) and (changed != own).all()


# features


@pytest.fixture(scope="module")
def with_tokens(project, talks, tiny_clip, tmp_path_factory):
    """Data and a feature store with token features, as options."""
    folder = shutil.copytree(talks, tmp_path_factory.mktemp("tokens") / "talks")
    project.run("extract-features", encoder=tiny_clip, data=folder, patches=True, workers=0)
    return {"data": folder, "features": folder / "features"}


def test_a_store_with_token_features_is_used_by_training_and_all_methods(
    project, with_tokens, tiny_clip, tmp_path
):
    own = with_tokens
    project.run("train-chatsearcher", **own, **{**project.chatsearcher, "epochs": 1}, run=tmp_path / "run")
    about = json.loads((tmp_path / "run" / "model.json").read_text())
    assert (about["features"]["tokens"], about["features"]["dimensions"]) == (5, 8)
    assert (about["sizes"]["features"], about["sizes"]["token_features"]) == (8, 16)
    project.run("eval-chatsearch", **own, encoder=tiny_clip, run=tmp_path / "run")
    rows = json.loads((tmp_path / "run" / "chatsearch" / "metrics.json").read_text())["rows"]
    assert len(rows) == 6 and all(row["m R@10"] > 0 for row in rows)


def test_the_q_former_of_a_blip2_is_trained_in_both_stages(project, refused, with_tokens, blip2, tmp_path):
    copy = shutil.copytree(blip2, tmp_path / "blip2")
    first = {**project.chatsearcher, "epochs": 1, "init_from": copy, "stage": "captions"}
    told = refused("train-chatsearcher", **with_tokens, **first, run=tmp_path / "captions")
    assert "makes 4 tokens of a picture, not 2; give --model.image-tokens 4" in told
    assert not (tmp_path / "captions").exists()
    project.run(
        "train-chatsearcher", **with_tokens, **first | {"model.image_tokens": 4}, run=tmp_path / "captions"
    )
    shutil.rmtree(copy)
    second = {**first, "init_from": tmp_path / "captions", "stage": "conversations"}
    project.run("train-chatsearcher", **with_tokens, **second, run=tmp_path / "run")
    about = [json.loads((tmp_path / name / "model.json").read_text()) for name in ("captions", "run")]
    assert about[0]["sizes"] == about[1]["sizes"] and about[1]["sizes"]["image_tokens"] == 4
    assert about[1]["sizes"]["qformer"] == {"width": 16, "hidden": 16, "heads": 2, "layers": 1, "every": 1}
    states = [
        load_file(file)
        for file in (
            blip2 / "model.safetensors",
            *(tmp_path / name / "weights.safetensors" for name in ("captions", "run")),
        )
    ]
    name = "qformer.encoder.layer.0.output_query.dense.weight"
    start, after, end = states[0][name], *(state[f"perceiver.{name}"] for state in states[1:])
    assert 0 < (after - start).abs().max() < 0.05 and 0 < (end - after).abs().max() < 0.05
    project.run("eval-chatsearch", **with_tokens, run=tmp_path / "run", method="chatsearcher")


def test_the_store_of_the_encoder_is_found_among_several(project, refused, talks, vector_runs, tiny_clip, tiny_sentence, tmp_path):  # fmt: skip
    project.run("extract-features", encoder=tiny_sentence, data=talks, features=tmp_path / "texts")
    stores = [vector_runs.store, tmp_path / "texts"]
    project.run("eval-chatsearch", data=talks, features=stores, encoder=tiny_sentence, out=tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [row["method"] for row in metrics["rows"]] == ["image", "text", "both", "concatenation", "random"]
    assert metrics["features"]["weights"] == FeatureStore(vector_runs.store).facts.weights
    told = refused("eval-chatsearch", data=talks, features=stores, encoder=tiny_clip, out=tmp_path / "no")
    assert "expected a feature store of clip" in told and "of bert" in told


# mistakes


def test_mistakes_are_told(refused, talks, trained, vector_runs, runs, tmp_path):
    own = {"data": talks, "run": tmp_path / "run"}
    store = {"features": vector_runs.store}
    assert "expected the feature stores of the items" in refused("train-chatsearcher", **own)
    assert "expected some of t, i and m" in refused("train-chatsearcher", **own, **store, subtasks="x")
    assert "--tune lora needs a pretrained" in refused("train-chatsearcher", **own, **store, tune="lora")
    assert "cannot load the language model" in refused(
        "train-chatsearcher", **own, **store, language_model=tmp_path
    )
    assert "there must be room for eight" in refused(
        "train-chatsearcher", **own, **store, **{"model.image_tokens": 100}
    )
    told = refused(
        "train-chatsearcher",
        **own,
        features=runs.store,
        init_from=trained / "captions",
        stage="conversations",
    )
    assert "was trained with weights" in told
    assert not (tmp_path / "run").exists()
    evaluation = {"data": talks, **store}
    assert "--method dogs is unknown" in refused("eval-chatsearch", **evaluation, method="dogs", out=tmp_path)
    assert "give --encoder" in refused("eval-chatsearch", **evaluation, method="text", out=tmp_path)
    assert "give --out" in refused("eval-chatsearch", **evaluation, method="random")
    assert "expected a chatsearcher" in refused("eval-chatsearch", **evaluation, run=trained / "dual")


def test_a_conversation_in_two_sub_tasks_is_refused(refused, talks, vector_runs, tmp_path):
    """The lines of both would be those of one query for TREC tools."""
    copy = shutil.copytree(talks, tmp_path / "talks")
    samples = copy / "t.test.jsonl"
    samples.write_text(samples.read_text().replace('"t-test-0"', '"i-test-0"'))
    line = refused("eval-chatsearch", data=copy, features=vector_runs.store, out=tmp_path / "out")
    assert "found 'i-test-0' again in i.test.jsonl" in line and not (tmp_path / "out").exists()


def test_sub_tasks_without_conversations_are_left_out(project, refused, talks, vector_runs, tmp_path):
    copy = shutil.copytree(talks, tmp_path / "talks")
    given = {"data": copy, "features": vector_runs.store, "out": tmp_path / "out"}
    for subtask in "im":
        (copy / f"{subtask}.test.jsonl").write_text("")
    project.run("eval-chatsearch", **given)
    rows = json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"]
    assert [(row["method"], row["mean"] is None) for row in rows] == [("image", True), ("random", False)]
    (copy / "t.test.jsonl").write_text("")
    assert "expected conversations of test" in refused("eval-chatsearch", **given)
    (copy / "t.test.jsonl").unlink()
    assert "or an empty one if there are no samples" in refused("eval-chatsearch", **given)


def test_without_conversations_of_train_the_concatenation_is_left_out(
    project, refused, talks, vector_runs, trained, tmp_path, capsys, monkeypatch
):
    copy = shutil.copytree(talks, tmp_path / "talks")
    for subtask in "tim":
        (copy / f"{subtask}.train.jsonl").write_text("")
    given = {"data": copy, "features": vector_runs.store, "encoder": trained / "dual"}
    project.run("eval-chatsearch", **given, out=tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["image", "text", "both", "random"]
    assert "left out: concatenation" in capsys.readouterr().out
    monkeypatch.setattr(chatsearch, "_space", None)  # refused before pictures are encoded
    line = refused("eval-chatsearch", **given, method="concatenation", out=tmp_path / "other")
    assert "--method concatenation needs conversations of train" in line


def test_random_ranks_are_at_chance(project, talks, vector_runs, tmp_path):
    many = tmp_path / "talks"
    many.mkdir()
    for path in talks.iterdir():
        (many / path.name).write_bytes(path.read_bytes())
    for subtask in "tim":
        lines = (talks / f"{subtask}.test.jsonl").read_text().splitlines()
        copies = [line.replace("-test-", f"-test-{n}-", 1) for n in range(250) for line in lines]
        (many / f"{subtask}.test.jsonl").write_text("\n".join(copies) + "\n")
    project.run(
        "eval-chatsearch",
        data=many,
        features=vector_runs.store,
        method="random",
        out=tmp_path / "out",
    )
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    for n in (1, 5, 10):
        assert metrics["rows"][0][f"m R@{n}"] == pytest.approx(100 * n / metrics["galleries"]["m"], abs=4)


def test_a_retriever_gets_the_rounds_with_a_picture(project, talks, vector_runs, tmp_path):
    given = {"data": talks, "features": vector_runs.store, "retriever": vector_runs.retriever}
    project.run("eval-chatsearch", **given, out=tmp_path / "out")
    row = next(
        one
        for one in json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"]
        if one["method"] == "retriever"
    )
    assert row["t R@10"] is None
    assert [row[f"i {name}"] for name in ("R@1", "R@10", "MRR")] == [
        row[f"m {name}"] for name in ("R@1", "R@10", "MRR")
    ]


# scores of other systems


@pytest.fixture
def scored(project, talks, vector_runs, tmp_path):
    """Evaluate a score file; returns its row, its ranks by conversation, and its TREC run."""

    def scored(queries, ids, scores, name="other"):
        np.savez(tmp_path / f"{name}.npz", scores=scores, query_ids=queries, index_ids=ids)
        given = {"data": talks, "features": vector_runs.store, "out": tmp_path / "out"}
        project.run("eval-chatsearch", **given, method="random", scores=tmp_path / f"{name}.npz")
        row = json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"][-1]
        lines = (tmp_path / "out" / f"ranks.{name}.jsonl").read_text().splitlines()
        ranks = {one["sample"]: one["rank"] for one in map(json.loads, lines)}
        return row, ranks, (tmp_path / "out" / f"run.{name}.trec").read_text()

    return scored


def test_a_score_file_is_a_row(scored, talks):
    data = Conversations(talks)
    samples, ids = data.samples("m", "test"), data.gallery("m")
    scores = np.array([[name == one.target for name in ids[::-1]] for one in samples], np.float32)
    row, ranks, trec = scored([one.id for one in samples], ids[::-1], scores)
    assert (row["method"], row["m R@1"], row["m MRR"], row["mean"]) == ("other", 100, 1, 100)
    assert row["t R@1"] is None and set(ranks.values()) == {0}
    assert trec.splitlines()[0] == f"{samples[0].id} Q0 {samples[0].target} 1 1 fashioniq"
    _, ranks, _ = scored([one.id for one in samples], ids, np.zeros((len(samples), len(ids)), np.float32))
    assert ranks == {one.id: ids.index(one.target) for one in samples}  # ties in the order of the gallery


def test_targets_without_a_score_are_last(scored, talks, capsys):
    data = Conversations(talks)
    (first, second, *_), ids = data.samples("m", "test"), data.gallery("m")
    kept = [name for name in ids if name != first.target]
    scores = np.arange(2 * len(kept), dtype=np.float32).reshape(2, -1)
    _, ranks, _ = scored([first.id, second.id], kept, scores)
    assert ranks[first.id] == len(ids) - 1 and ranks[second.id] == len(kept) - 1 - kept.index(second.target)
    assert {rank for name, rank in ranks.items() if name not in (first.id, second.id)} == {len(ids) - 1}
    assert (
        f"scores of 2 of 8 conversations of m, and of {len(kept)} of {len(ids)} items"
        in capsys.readouterr().out
    )


def test_score_files_that_do_not_match_are_refused(refused, talks, vector_runs, tmp_path):
    given = {"data": talks, "features": vector_runs.store, "method": "random", "out": tmp_path / "out"}
    np.savez(tmp_path / "random.npz", scores=np.eye(2), query_ids=["a", "b"], index_ids=["c", "d"])
    assert "every row needs a name" in refused("eval-chatsearch", **given, scores=tmp_path / "random.npz")
    long = tmp_path / f"{'x' * 101}.npz"  # of files, which have a prefix and a suffix
    assert "at most 100 characters" in refused("eval-chatsearch", **given, scores=long)
    (tmp_path / "random.npz").rename(tmp_path / "other.npz")
    assert "expected scores of conversations of test" in refused(
        "eval-chatsearch", **given, scores=tmp_path / "other.npz"
    )
    (tmp_path / "other.npz").write_bytes(b"no scores")
    assert "expected scores in" in refused("eval-chatsearch", **given, scores=tmp_path / "other.npz")
    assert not (tmp_path / "out").exists()


# baselines


class Counting:
    """Dual encoder whose vectors are counts of letters; it reads five words."""

    size, limit = 2, 5

    def texts(self, texts):
        self.read = texts
        return torch.tensor([[text.count("a"), text.count("b")] for text in texts])

    def lengths(self, texts):
        return [len(text.split()) for text in texts]


def test_the_oldest_turns_are_left_out_of_texts_that_are_too_long(talks):
    encoder = Counting()
    sample = Conversations(talks).samples("m", "test")[3]
    _Space(encoder, torch.eye(2), {}).text([sample])
    assert encoder.read == ["the next of 3 please"] and len(sample.texts) == 3


def test_the_penalty_is_chosen_on_train(talks, monkeypatch):
    samples = Conversations(talks).samples("m", "train")
    names = sorted({name for one in samples for name in (one.target, *one.pictures)})
    vectors_ND = torch.nn.functional.normalize(
        torch.randn(len(names), 2, generator=torch.Generator().manual_seed(0))
    )
    space = _Space(Counting(), vectors_ND, {name: number for number, name in enumerate(names)})
    queries = {}
    for penalties in ((1e-4,), (1e4,), (1e-4, 1e4)):
        monkeypatch.setattr(chatsearch, "_PENALTIES", penalties)
        queries[penalties] = space.concatenation(samples)(samples).query_QD
    one, other, best = queries.values()
    assert not torch.allclose(one, other) and (torch.equal(best, one) or torch.equal(best, other))


def test_the_images_of_the_items_are_where_the_folder_says(talks):
    data = Conversations(talks)
    assert all(Path(data.picture(name)).is_file() for name in data.items)


# in the loop


@pytest.fixture(scope="module")
def system(trained):
    return fashioniq.load(trained / "conversations", device="cpu")


def decided(system, ids):
    """The system, whose model begins its answers with these ids in place of its own choice."""
    model = system.retriever.model

    class Decided(type(model)):
        def continued(self, tokens, asked, pictures, most, *, cached=True):
            said = Tokenized([*asked.ids, *ids], [False] * (len(asked.ids) + len(ids)), asked.images)
            batch = tokens.collate([said])
            query, _ = self.search(batch, pictures) if ids[-1] == tokens.image else (None, None)
            return ids, query

    other = copy.copy(model)
    other.__class__ = Decided
    return replace(system, retriever=replace(system.retriever, model=other))


def test_a_chatsearcher_answers_in_words_or_shows_a_product(system):
    tokens = system.retriever.tokens
    words = decided(system, [*tokens.tokens.encode("sure please"), tokens.tokens.end])
    talk = words.observe(words.start(1), words.offer(words.start(1)), Message(texts=["dress number 3"]))
    assert words.offer(talk) == Message(questions=["sure please"])
    shown = decided(system, [tokens.image])
    offer = shown.offer(shown.observe(shown.start(1), Message(), Message(texts=["dress number 3"])))
    assert offer.questions == [""] and offer.item_B.shape == (1,)
    again = shown.observe(
        shown.observe(shown.start(1), Message(), Message(texts=["dress"])), offer, Message(texts=["dress"])
    )
    assert int(shown.offer(again).item_B) != int(offer.item_B)  # no product is shown twice
    assert len(shown.top(shown.observe(shown.start(1), Message(), Message(texts=["dress"])), 5)[0]) == 5


def test_what_is_said_and_shown_is_in_the_next_query(system):
    talk = system.observe(system.start(1), Message(), Message(texts=["dress number 3"]))
    for offers in [Message(questions=["sure"])], [Message(item_B=torch.tensor([n])) for n in (0, 1)]:
        queries = [
            system.observe(talk, one, Message(texts=["the next please"])).queries[-1].vector_BD
            for one in offers
        ]
        assert all(query.shape == talk.queries[0].vector_BD.shape for query in queries)
    assert not torch.allclose(*queries)
    (said,) = system.observe(talk, Message(questions=["sure"]), Message(texts=["please"])).state.said
    assert [turn.role for turn in said] == ["user", "assistant", "user"]


def test_the_loop_searches_as_the_evaluation(system, talks, evaluated):
    lines = (evaluated / "run.chatsearcher.trec").read_text().splitlines()
    first = {line.split()[0]: line.split()[2] for line in reversed(lines)}
    ids = system.retriever.ids
    for sample in Conversations(talks).samples("m", "test"):
        request, answer, last = sample.turns
        talk = system.observe(system.start(1), Message(), Message(texts=[request.text]))
        shown = torch.tensor([ids.index(answer.pictures[0])])
        talk = system.observe(
            talk, Message(questions=[answer.text], item_B=shown), Message(texts=[last.text])
        )
        asked = system.retriever.tokens.conversation(talk.state.said[0], system.retriever.features.positions)
        batch = system.retriever.tokens.collate([system.retriever.tokens.query(asked)])
        query, _ = system.retriever.model.search(
            batch, system.retriever.features.pictures(batch.image_R, "cpu")
        )
        assert ids[int(system.gallery.top(query, 1)[1])] == first[sample.id]


def test_chat_talks_to_a_chatsearcher(trained, monkeypatch, capsys, tmp_path):
    lines = iter(["dress number 3", "undo", "dress number 4", "the next please", "this is it 1"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert main(["chat", "--run", str(trained / "conversations"), "--log", str(tmp_path / "log.jsonl")]) == 0
    assert "You chose" in capsys.readouterr().out
    (logged,) = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [turn["reply"]["text"] for turn in logged["turns"]] == ["dress number 4", "the next please"]

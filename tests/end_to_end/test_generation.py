"""GenIR, its baselines and DAR on the drawn sample, with a generator that draws the garment described."""

import importlib.util
import json
import shutil
import threading
import time
from itertools import pairwise

import pytest
import torch

import fashioniq
from fashioniq import Message
from fashioniq.cli import main
from fashioniq.config import EvalGenIR
from fashioniq.data.dialogues import read_dialogues
from fashioniq.data.person_questions import Answered
from fashioniq.files import UserError
from fashioniq.generators.drawn import Drawn
from fashioniq.models.denoiser import Denoiser
from fashioniq.report.person_page import person_page
from fashioniq.runs.checks import described
from fashioniq.runs.weights import save_model
from fashioniq.service.served_model import Served
from fashioniq.service.uploads import Uploads
from fashioniq.systems import genir
from tests.waiting import attempts, joined

SIZES = {"model.width": 16, "model.heads": 2, "model.hidden": 32, "model.layers": 1, "batch_size": 12,
         "epochs": 2, "learning_rate": 0.003, "device": "cpu"}  # fmt: skip


def make_encoder(folder, project, runs):
    for split in ("train", "val"):
        project.run(
            "make-dialogues",
            answerer="descriptions",
            rounds=5,
            data=runs.catalog,
            category="dresses",
            split=split,
            out=folder / f"{split}.json",
        )
    files = {"dialogues": folder / "train.json", "val_dialogues": folder / "val.json", "mask": "none"}
    project.run(
        "train-dialog-encoder", data=runs.catalog, category="dresses", run=folder / "run", **files, **SIZES
    )
    return folder


@pytest.fixture(scope="session")
def encoder(once, project, runs):
    """Descriptions of two splits, and a text encoder that has learned from them. Not to be written to."""
    return once("encoder of descriptions", make_encoder, project, runs)


@pytest.fixture(scope="module")
def world(runs, attribute_runs, encoder):
    common = {"data": runs.catalog, "category": "dresses", "features": runs.store, "device": "cpu"}
    return common | {"encoder": encoder / "run", "predictor": attribute_runs[1], "rounds": 3}


@pytest.fixture(scope="module")
def evaluate(project, world, tmp_path_factory):
    """Evaluate a system; return its metrics and its dialogs."""

    def evaluate(system, **options):
        out = tmp_path_factory.mktemp("out")
        given = {key: value for key, value in {**world, **options}.items() if value is not None}
        project.run("eval-dialogs", **{"system": system, **given, "out": out})
        lines = (out / "dialogs.jsonl").read_text().splitlines()
        return json.loads((out / "metrics.json").read_text()), [json.loads(line) for line in lines]

    return evaluate


def ranks(dialogs):
    return [[turn["rank"] for turn in one["turns"]] for one in dialogs]


def test_descriptions_grow_and_every_one_is_a_query_of_its_own(encoder):
    dialogues = read_dialogues(encoder / "train.json")
    assert all(one.alone and len(one.rounds) == 6 for one in dialogues)
    for one in dialogues:
        words = [set(text.split()) for text in one.rounds]
        assert all(before <= after for before, after in pairwise(words)) and words[0] < words[-1]


@pytest.mark.parametrize("count", [1, 2])
def test_genir_generates_pictures_in_every_round_and_the_user_corrects_them(evaluate, count):
    metrics, dialogs = evaluate("genir", generator="drawn:1", pictures=count)
    assert [row["round"] for row in metrics["rounds"]] == [0, 1, 2, 3] and metrics["gallery"] == 12
    for row in metrics["costs"]:
        assert row["pictures"] == pytest.approx(count * (1 - row["unchanged"]))
        assert row["failed"] == row["without_picture"] == 0
    assert metrics["generator"]["backend"] == "drawn" and metrics["feedback"] == "visual"
    replies = [[turn["reply"]["text"] for turn in one["turns"]] for one in dialogs]
    assert any(len(set(texts)) > 1 for texts in replies)


def test_photographs_of_other_products_can_be_the_pictures(evaluate):
    metrics, dialogs = evaluate("genir", generator="photographs:val")
    assert metrics["generator"]["backend"] == "photographs" and metrics["costs"][0]["pictures"] == 1
    assert ranks(dialogs) != ranks(evaluate("genir", feedback="verbal")[1])


def test_genir_twice_is_the_same_and_another_seed_is_not(evaluate):
    first, again, other = (
        ranks(evaluate("genir", generator="drawn:0.5", seed=seed)[1]) for seed in (0, 0, 1)
    )
    assert first == again != other


def test_a_run_that_is_loaded_with_a_generator_finds_what_the_evaluation_found(evaluate, world, runs):
    dialogs = evaluate("genir", generator="drawn:0.5", targets=3, batch_size=1)[1]
    drawing = {"generator": "drawn:0.5", "predictor": world["predictor"], "device": "cpu"}
    system = fashioniq.load(world["encoder"], **drawing)
    for dialog in dialogs:
        target_1 = torch.tensor([system.gallery.items.positions[dialog["target"]]])
        talk, found = system.start(1), []
        for turn in dialog["turns"]:
            talk = system.observe(talk, system.offer(talk), Message(texts=[turn["reply"]["text"]]))
            found.append(int(system.gallery.rank(talk.queries[-1], target_1)))
        assert found == [turn["rank"] for turn in dialog["turns"]]
        assert system.offer(talk).pictures[0].size == (64, 64)
    with pytest.raises(UserError, match="train-dialog-encoder, found a retriever"):
        fashioniq.load(runs.retriever, **drawing)
    with pytest.raises(UserError, match="--predictor"):
        fashioniq.load(world["encoder"], generator="drawn:0.5")


def test_a_chat_shows_the_picture_of_the_words(world, monkeypatch, tmp_path):
    lines, prompts = iter(["a red dress", "more like 1", "this is it"]), []
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or next(lines))
    options = {"run": world["encoder"], "generator": "drawn:1", "predictor": world["predictor"]}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    assert main(["chat", *flags, "--log", str(tmp_path / "chats.jsonl")]) == 0
    assert prompts == ["What are you looking for? > ", *["What should it look like? > "] * 2]
    assert "drawn from the last words" in (tmp_path / "chat.html").read_text()


def test_a_run_is_served_with_a_generator_of_its_own(world, attribute_runs, tmp_path):
    torch.manual_seed(0)
    sizes = {"vocabulary": 1, "image_size": 16, "patch": 4, "width": 16, "heads": 2, "layers": 1}
    facts = {"category": "dresses", "words": ["red"], "types": ["texture"]}
    model = Denoiser(**sizes)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    save_model(tmp_path / "made", model, described({"kind": "generator", "sizes": sizes, **facts}))
    uploads = [Uploads(run, "cpu", workers=0) for run in attribute_runs]
    run, options = world["encoder"], {"device": "cpu", "uploads": uploads}
    served = Served.of(run, generator=str(tmp_path / "made"), **options)
    talk = served.system.observe(served.system.start(1), Message(), Message(texts=["a red dress"]))
    assert served.draws and served.system.offer(talk).pictures[0].size == (16, 16)
    versions = {
        served.version,
        *(Served.of(run, generator=one, **options).version for one in ("drawn:1", None)),
    }
    assert len(versions) == 3, "a conversation goes on with its generator only"


@pytest.mark.parametrize("feedback", ["verbal", "prediction"])
def test_the_baselines_search_with_the_text_and_need_no_generator(evaluate, feedback):
    metrics, dialogs = evaluate("genir", feedback=feedback)
    assert "generator" not in metrics or metrics["generator"] is None
    assert all(row["words"] > 1 and not row["pictures"] for row in metrics["costs"])
    offered = [turn["offer"].get("item") for one in dialogs for turn in one["turns"][1:]]
    assert all(offered) if feedback == "prediction" else not any(offered)


@pytest.fixture(scope="module")
def recorded(world, runs):
    """Options of DAR for the dialogs that are drawn with the sample."""
    files = {
        "dialogues": [runs.catalog / "dialogues" / "dress.test.json"],
        "search_space": runs.catalog / "image_splits" / "split.dress.test.json",
    }
    return {**{key: value for key, value in world.items() if key != "rounds"}, **files}


@pytest.fixture(scope="module")
def dar(recorded, evaluate):
    """Evaluate DAR. A picture that was drawn for another evaluation is not drawn again."""
    draw, drawn = Drawn._draw, {}

    def draw_once(self, request):
        key = (self.quality, request.prompt, request.seed)
        if key not in drawn:
            drawn[key] = draw(self, request)
        return drawn[key]

    def dar(**options):
        chosen = {"system": "dar", "rounds": None, "generator": "drawn:1", "rewrite": "attributes"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Drawn, "_draw", draw_once)
            return evaluate(**{**recorded, **chosen, **options})

    return dar


def test_dar_without_pictures_in_the_query_has_the_ranks_of_chatir(dar, project, recorded, tmp_path):
    metrics, dialogs = dar(fusion_weights="text")
    options = {key: recorded[key] for key in ("dialogues", "search_space", "features", "encoder", "device")}
    project.run("eval-dialogs", system="chatir", **options, out=tmp_path / "chatir")
    lines = (tmp_path / "chatir" / "dialogs.jsonl").read_text().splitlines()
    assert ranks(dialogs) == ranks([json.loads(line) for line in lines])
    assert [row["pictures"] + row["unchanged"] for row in metrics["costs"]] == pytest.approx([1] * 11)


def test_genir_and_chatir_are_compared_on_the_targets_of_both(world, recorded, project, tmp_path, capsys):
    options = {key: recorded[key] for key in ("dialogues", "search_space", "features", "encoder", "device")}
    project.run("eval-dialogs", system="chatir", **options, out=tmp_path / "chatir")
    project.run("eval-dialogs", system="genir", **world, feedback="verbal", out=tmp_path / "genir")
    out = tmp_path / "out"
    assert main(["compare", str(tmp_path / "chatir"), str(tmp_path / "genir"), "--out", str(out)]) == 0
    told, page = capsys.readouterr().out, (out / "compare.html").read_text()
    assert "Hits@10 after round 3: 12 dialogs, gallery 12" in told and "note: the user differs" in told
    last = [
        json.loads((tmp_path / name / "metrics.json").read_text())["rounds"][3]["Hits@10"]
        for name in ("chatir", "genir")
    ]
    models = json.loads((out / "comparison.json").read_text())["models"]
    assert [model["mean"] for model in models] == pytest.approx(last)
    assert models[1]["difference"] == pytest.approx(last[1] - last[0])
    assert "data:image/jpeg" in page  # of the catalog, which genir names


@pytest.fixture(scope="module")
def usual_ranks(dar):
    return ranks(dar(pictures=3)[1])


@pytest.mark.parametrize(
    "changed",
    [
        {"fusion_weights": "pictures"},
        {"fusion": "mean"},
        {"fusion_weights": "1,0.2"},
        {"rewrite": "join"},
    ],
)
def test_the_options_of_dar_change_the_ranks(dar, usual_ranks, changed):
    assert ranks(dar(pictures=3, **changed)[1]) != usual_ranks


@pytest.mark.parametrize("place", ["made", "made/generated_images"])
def test_pictures_that_were_generated_before_are_found_by_dialog_or_image_and_round(
    dar, sample, runs, tmp_path, place
):
    """Pictures of the targets, in the layout of DAR's release or GenIR's, rank the targets like their own features."""
    targets = [one.image for one in read_dialogues(runs.catalog / "dialogues" / "dress.test.json")]
    (tmp_path / place).mkdir(parents=True)
    for number, name in enumerate(targets):
        for turn in range(11):
            source = sample / "images" / "dress" / f"{name}.png"
            source = source if source.exists() else next((sample / "images").rglob(f"{name}.*"))
            dialog = number if place == "made" else name
            (tmp_path / place / f"{dialog}_{turn}{source.suffix}").symlink_to(source)
    metrics, dialogs = dar(
        generator=f"folder:{tmp_path / 'made'}", fusion_weights="pictures", category=None, rewrite="last"
    )
    assert ranks(dialogs) == [[0] * 11] * len(targets)
    assert metrics["generator"]["backend"] == "folder" and not any(row["failed"] for row in metrics["costs"])


@pytest.mark.parametrize(
    ("system", "changed", "said"),
    [
        ("genir", {}, "give --generator"),
        ("genir", {"generator": "drawn:2"}, "a share from 0 to 1"),
        ("genir", {"generator": "drawn:x"}, "a share from 0 to 1"),
        ("genir", {"generator": "photographs:all"}, "train, val, test"),
        ("genir", {"generator": "drawn:1", "predictor": None}, "--predictor"),
        ("genir", {"feedback": "verbal", "user": "nobody"}, "--user"),
        ("genir", {"feedback": "verbal", "encoder": "missing"}, "missing"),
    ],
)
def test_a_mistake_is_refused_in_one_line(refused, world, tmp_path, system, changed, said):
    given = {key: value for key, value in {**world, **changed}.items() if value is not None}
    assert said in refused("eval-dialogs", system=system, **given, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_features_of_another_predictor_are_refused(refused, world, attribute_runs, tmp_path):
    options = {**world, "predictor": attribute_runs[0], "feedback": "prediction", "out": tmp_path / "out"}
    assert "extract them with --predictor" in refused("eval-dialogs", system="genir", **options)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rewrite": "attributes", "category": None}, "give --category"),
        ({"generator": "drawn:1", "category": None}, "the drawn sample"),
        ({"generator": "folder:missing"}, "missing"),
        ({"predictor": None}, "--predictor"),
        ({"fusion_weights": "1.2"}, "--fusion-weights"),
        ({"fusion_weights": "best"}, "--fusion-weights"),
        ({"rewrite": "poem"}, "--rewrite"),
    ],
)
def test_a_mistake_in_the_options_of_dar_is_refused(refused, recorded, tmp_path, changed, said):
    options = {**recorded, "generator": "drawn:1", "rewrite": "join", **changed, "out": tmp_path / "out"}
    given = {key: value for key, value in options.items() if value is not None}
    assert said in refused("eval-dialogs", system="dar", **given)


def test_plugir_asks_every_question_once_and_its_parts_change_the_dialogs(evaluate):
    complete = evaluate("plugir-asks", predictor=None)[1]
    for one in complete:
        asked = [turn["offer"]["text"] for turn in one["turns"][1:]]
        assert len(set(asked)) == 3 and all(text.endswith("?") for text in asked)
    for part in ("rewrite", "filter"):
        assert ranks(evaluate("plugir-asks", predictor=None, without=[part])[1]) != ranks(complete)


def test_an_unknown_part_of_plugir_is_refused(refused, world, tmp_path):
    options = {key: value for key, value in world.items() if key != "predictor"}
    line = refused("eval-dialogs", system="plugir-asks", **options, without=["magic"], out=tmp_path / "out")
    assert "magic" in line and "--without" in line


@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="the extra chat is not installed")
@pytest.mark.parametrize("feedback", ["visual", "verbal", "prediction"])
def test_a_model_on_a_server_sees_the_pictures_and_corrects_its_description(
    evaluate, http_server, monkeypatch, tmp_path, feedback
):
    asked = []

    def reply(handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        text, *pictures = body["messages"][0]["content"]
        asked.append(len(pictures))
        said = "a red dress" if text["text"].startswith("Describe") else "a red maxi dress"
        content = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server(reply).address}/v1")
    monkeypatch.setattr("fashioniq.llm.endpoint.CACHE", tmp_path / "answers")
    options = {"user": "endpoint:any", "feedback": feedback, "rounds": 1}
    metrics, dialogs = evaluate("genir", generator="drawn:1", **options)
    assert metrics["user"] == "endpoint:any" and len(asked) == 36  # 12 targets, three calls each
    assert sorted(asked) == [1] * (36 if feedback == "verbal" else 24) + [2] * (
        0 if feedback == "verbal" else 12
    )
    assert {turn["reply"]["text"] for one in dialogs for turn in one["turns"][1:]} == {"a red maxi dress"}
    again = evaluate("genir", generator="drawn:1", **options)[1]
    assert again == dialogs and len(asked) == 36


def test_a_retriever_of_fashion_iq_searches_with_pictures_of_what_is_wanted(
    project, world, runs, by_vectors, tmp_path
):
    options = {key: world[key] for key in ("data", "category", "features", "device", "predictor")}
    # pictures are fused with the vectors, without words
    options |= {"run": by_vectors(runs.retriever), "user": ["grammar"], "turns": 2}

    def metrics(system, **further):
        out = tmp_path / f"{system}{len(list(tmp_path.iterdir()))}"
        given = {key: value for key, value in options.items() if system != "fashion-iq" or key != "predictor"}
        project.run("eval-dialogs", system=system, **given, **further, out=out)
        return json.loads((out / "metrics.json").read_text())

    plain = metrics("fashion-iq")["turns"]
    text = metrics("fashion-iq-dar", generator="drawn:1", fusion_weights="text")
    both = metrics("fashion-iq-dar", generator="drawn:1", fusion_weights="0.3")
    assert text["turns"] == plain != both["turns"]
    assert (
        both["weights_of_text"] == {"name": "0.3", "rounds": [0.3]}
        and both["generator"]["backend"] == "drawn"
    )


def test_a_person_describes_some_targets_and_corrects_by_what_is_shown(evaluate, monkeypatch, capsys):
    lines = iter(["a red dress", "", "a blue dress", "a blue maxi dress"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    options = {"generator": "drawn:1", "user": "person", "targets": 2, "rounds": 1, "batch_size": 1}
    metrics, dialogs = evaluate("genir", **options)
    assert metrics["dialogs"] == 2 and metrics["gallery"] == 12
    replies = [[turn["reply"]["text"] for turn in one["turns"]] for one in dialogs]
    assert replies == [["a red dress"] * 2, ["a blue dress", "a blue maxi dress"]]
    printed = capsys.readouterr().out
    assert printed.count("wanted: ") == 4 and printed.count("shown: ") == 2 and "shown.png" in printed


def test_a_person_on_the_page_describes_and_judges_pictures(evaluate):
    page = person_page()

    def answer():
        for number, judged in enumerate((None, None, True, False)):
            for _ in attempts("the question was open"):
                if page.open_for("user")[1]:
                    break
                time.sleep(0.01)
            said = Answered(f"a dress {number}", judged)
            page.accept(page.open_for("user")[0], "user", said).set_result(said)

    person = threading.Thread(target=answer)
    person.start()
    metrics, dialogs = evaluate("genir", generator="drawn:1", user="page", targets=2, rounds=1)
    joined(person)
    assert metrics["user"] == "page" and metrics["dialogs"] == len(dialogs) == 2
    assert [row.get("useful") for row in metrics["costs"]] == [0.5, None]


def test_the_end_of_the_persons_input_is_one_line(refused, world, monkeypatch, tmp_path):
    def end(prompt):
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    options = {**world, "generator": "drawn:1", "user": "person", "out": tmp_path / "out"}
    assert "--targets" in refused("eval-dialogs", system="genir", **options)
    assert not (tmp_path / "out").exists()


class Killed(Exception):
    """Stands for a power cut: nothing of the package catches it."""


@pytest.fixture(scope="module")
def feedback(project, world, tmp_path_factory):
    """A complete folder of eval-dialogs --record, and the options that made it. Not to be written to."""
    out = tmp_path_factory.mktemp("feedback")
    options = {**world, "generator": "drawn:0.5", "batch_size": 5}
    project.run("eval-dialogs", system="genir", record=True, **options, out=out)
    return out, options


def rows(folder):
    return [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]


def test_visual_feedback_has_description_picture_product_and_hit_of_every_round(feedback, evaluate):
    made = rows(feedback[0])
    assert [row["round"] for row in made] == [0, 1, 2, 3] * 12
    assert all(row["hit"] == (row["rank"] < 10) for row in made)
    assert all((row["retrieved"] == row["target"]) == (row["rank"] == 0) == row["correct"] for row in made)
    assert [[row["rank"] for row in made[start : start + 4]] for start in range(0, 48, 4)] == ranks(
        evaluate("genir", generator="drawn:0.5")[1]
    )
    for row in made:
        entry = json.loads((feedback[0] / row["picture"]).with_suffix(".json").read_text())
        assert entry["prompt"] == row["query"]
    assert (feedback[0] / "report.html").is_file() and (feedback[0] / "metrics.json").is_file()


def test_killed_visual_feedback_continues_without_making_a_picture_twice(
    feedback, project, tmp_path, monkeypatch
):
    whole, options = feedback
    made, draw = [], Drawn._draw

    def stop_at(count):
        def counted(self, request):
            if len(made) == count:
                raise Killed
            made.append(request)
            return draw(self, request)

        monkeypatch.setattr(Drawn, "_draw", counted)

    for count in (9, 20):
        stop_at(count)
        with pytest.raises(Killed):
            main(
                project.arguments(
                    "eval-dialogs", system="genir", record=True, **options, out=tmp_path / "out"
                )
            )
        assert not (tmp_path / "out" / "feedback.jsonl").exists()
    stop_at(None)
    project.run("eval-dialogs", system="genir", record=True, **options, out=tmp_path / "out")
    assert rows(tmp_path / "out") == rows(whole)
    kept = len(list((whole / "pictures").rglob("*.png")))
    assert kept <= len(made) <= kept + 2 * 8  # those of an unfinished call of the generator are lost


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda made, folder: made[5].update(hit=not made[5]["hit"]), "line 6: expected a hit"),
        (
            lambda made, folder: made[5].update(correct=not made[5]["correct"]),
            "line 6: expected correct for rank 0",
        ),
        (lambda made, folder: made[0].update(query="a dress"), "another description"),
        (lambda made, folder: made.pop(6), "from 0, each once"),
        (lambda made, folder: made.pop(), "expected 4 rounds"),
        (
            lambda made, folder: made[3].update(retrieved="elsewhere", rank=0, hit=True, correct=True),
            "at rank 0 alone",
        ),
        (lambda made, folder: made[3].pop("rank"), "line 4: expected a round"),
        (lambda made, folder: made.clear(), "expected rounds, found none"),
        (lambda made, folder: (folder / made[2]["picture"]).write_bytes(b"no picture"), "cannot be used"),
    ],
)
def test_damaged_visual_feedback_is_found(feedback, project, tmp_path, capsys, change, message):
    folder = shutil.copytree(feedback[0], tmp_path / "copy")
    assert main(project.arguments("check-data", data=folder)) == 0
    made = rows(folder)
    change(made, folder)
    (folder / "feedback.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    capsys.readouterr()
    assert main(project.arguments("check-data", data=folder)) == 1
    assert message in capsys.readouterr().out


@pytest.mark.parametrize("feedback", ["visual", "prediction"])
def test_the_user_labels_needs_a_predictor_before_the_first_dialog(world, tmp_path, feedback, monkeypatch):
    monkeypatch.setattr(genir, "picture_encoder", lambda *_: None)  # as with a pretrained encoder
    options = {**world, "encoder": str(world["encoder"]), "predictor": None, "out": tmp_path / "out"}
    with pytest.raises(UserError, match="reads what is shown"):
        genir.build(EvalGenIR(**options, feedback=feedback, generator="drawn:1"))

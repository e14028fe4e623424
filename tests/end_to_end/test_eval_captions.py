"""`fashioniq eval-captions` on the tiny runs, without Java so that it is quick."""

import json
from html import unescape
from shutil import copytree

import pytest

from fashioniq.cli import main
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.evaluation.captions import _random_captions
from fashioniq.evaluation.speech import FACTS
from fashioniq.metrics.captions import METRICS
from tests.captions import caption_scores


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(autouse=True)
def no_java(monkeypatch):
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def evaluate(project, runs, tmp_path):
    """Evaluate the captioner of the tiny runs; return the results' folder."""

    def evaluate(name="captions", **options):
        common = {"data": runs.catalog, "category": "dresses", "run": runs.captioner, "out": tmp_path / name}
        project.run("eval-captions", **{**common, **options})
        return tmp_path / name

    return evaluate


def row_of(metrics, against, who):
    (row,) = [row for row in metrics["rows"] if (row["against"], row["who"]) == (against, who)]
    return row


def test_an_evaluation_of_captions_holds_what_it_depends_on(evaluate, project, runs, capsys):
    out = evaluate()
    pairs = read(runs.catalog / "captions/cap.dress.val.json")
    assert sorted(path.name for path in out.iterdir()) == ["captions.jsonl", "metrics.json", "report.html"]
    metrics = read(out / "metrics.json")
    wanted = {"category": "dresses", "split": "val", "pairs": len(pairs), "coverage_of_pairs": 1.0, "captions": "drawn sample's grammar",
              "run": str(runs.captioner), "features": project.pictures["encoder"], "attributes": True, "decoding": "beam 5", "seed": 0,
              "tokeniser": "PTB (NLTK)"}  # fmt: skip
    assert {key: metrics[key] for key in wanted} == wanted and metrics["protocol"]
    rows = [(row["against"], row["who"]) for row in metrics["rows"]]
    assert rows[:3] == [("all", "captioner"), ("all", "most frequent"), ("all", "random pair")]
    assert rows[3:] == [
        ("one", "people"),
        ("one", "captioner"),
        ("one", "most frequent"),
        ("one", "random pair"),
    ]
    told = capsys.readouterr().out
    assert (
        "METEOR not computed: there is no Java on the PATH" in told
        and "SPICE not computed: there is no Java" in told
    )
    assert metrics["most_frequent"]["caption"] in told and "one reference only" in told


def test_its_rows_are_the_scores_of_its_captions(evaluate):
    out = evaluate(samples=32, seed=3)
    metrics, lines = (
        read(out / "metrics.json"),
        [json.loads(line) for line in (out / "captions.jsonl").read_text().splitlines()],
    )
    assert metrics["decoding"] == "most informative of 32 samples that are true by the labels"
    speech = {row["who"]: row for row in metrics["speech"]}
    assert [*speech] == ["captioner", "random pair", "differences", "grammar", "people"]
    for row in speech.values():
        assert 0 <= row["P"] <= 100 and 0 < row["distinct"] <= 1 and row["stated"] > 0 and "AUC" not in row
    assert speech["people"]["true"] == speech["grammar"]["true"] == 1  # the grammar knows the garments
    assert speech["random pair"]["true"] < 1
    scores = caption_scores([line["said"] for line in lines], [line["references"] for line in lines])
    assert {name: row_of(metrics, "all", "captioner")[name] for name in METRICS} == {
        name: scores[name] for name in METRICS
    }
    assert sum(line["CIDEr"] for line in lines) / len(lines) == pytest.approx(scores["CIDEr"], abs=1e-3)
    both = [line["references"] for line in lines]
    people = caption_scores(
        [text for couple in both for text in couple], [[text] for couple in both for text in couple[::-1]]
    )
    assert {name: row_of(metrics, "one", "people")[name] for name in METRICS} == {
        name: people[name] for name in METRICS
    }
    one = caption_scores(
        [line["said"] for line in lines for _ in "12"], [[text] for couple in both for text in couple]
    )
    assert row_of(metrics, "one", "captioner")["ROUGE-L"] == pytest.approx(one["ROUGE-L"])
    assert {row["captions"] for row in metrics["rows"]} == {len(lines), 2 * len(lines)}


def test_captions_are_compared_with_those_of_people(evaluate, capsys):
    """The drawn captions are by the grammar, so that the user "grammar" speaks as these "people" do."""
    out = evaluate(split="train")
    speech = {row["who"]: row for row in read(out / "metrics.json")["speech"]}
    page = (out / "report.html").read_text()
    for who, row in speech.items():
        assert f">{who}<" in page and ", ".join(row["tell it"]) in unescape(page)
        assert [*row["reaction"]] == list(FACTS)
    for row in speech.values():
        for name in ("length distance", "divergence", "AUC of words", "AUC"):
            low, high = row[f"{name} interval"]
            assert low <= row[name] <= high
        assert row["tell it"] and row["tell people"] and row["words"] > 0
    assert speech["grammar"]["divergence"] < speech["differences"]["divergence"]
    assert abs(speech["grammar"]["words"] - speech["people"]["words"]) < 2
    told = capsys.readouterr().out
    assert "how like people's captions" in told and "what gives them away" in told


def test_another_speaker_is_compared_on_the_pairs_of_its_file(evaluate, runs, tmp_path):
    pairs = Catalog(runs.catalog, "dresses").pairs("train")
    rows = [
        {"target": pair.target, "candidate": pair.candidate, "captions": ["zz is what I want", "not read"]}
        for pair in pairs[3:]
    ]
    (tmp_path / "model.json").write_text(json.dumps(rows))
    out = evaluate(split="train", captions=tmp_path / "model.json")
    metrics = read(out / "metrics.json")
    assert metrics["pairs"] == len(rows) == len((out / "captions.jsonl").read_text().splitlines())
    assert row_of(metrics, "all", "model.json")["BLEU-1"] < row_of(metrics, "one", "people")["BLEU-1"]
    (spoken,) = [row for row in metrics["speech"] if row["who"] == "model.json"]
    assert spoken["AUC"] > 0.99 and spoken["words"] == 5 and "zz" in " ".join(spoken["tell it"])
    assert spoken["distinct"] == 1 / len(rows) and 0 <= spoken["P"] <= 100


def test_captions_of_no_pair_of_the_split_are_refused(runs, project, tmp_path, capsys):
    first, second = (pair for pair in Catalog(runs.catalog, "dresses").pairs("val")[:2])
    row = {"target": first.target, "candidate": second.target, "captions": ["is red"]}
    (tmp_path / "model.json").write_text(json.dumps([row]))
    given = {"data": runs.catalog, "category": "dresses", "captions": tmp_path / "model.json"}
    assert main(project.arguments("eval-captions", **given, out=tmp_path / "out")) == 2
    assert "has no caption of a pair of val" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_same_seed_gives_the_same_evaluation(evaluate, project):
    first, again, other = evaluate("first"), evaluate("again"), evaluate("other", seed=1, batch_size=3)
    assert project.content(first / "metrics.json") == project.content(again / "metrics.json")
    assert (first / "captions.jsonl").read_bytes() == (other / "captions.jsonl").read_bytes()
    assert row_of(read(other / "metrics.json"), "all", "random pair") != row_of(
        read(first / "metrics.json"), "all", "random pair"
    )


def test_without_a_captioner_people_and_baselines_are_scored_on_all_pairs(project, sample, tmp_path):
    project.run("eval-captions", data=sample, category="tops", split="test", out=tmp_path / "people")
    metrics = read(tmp_path / "people" / "metrics.json")
    assert (
        metrics["pairs"] == len(read(sample / "captions/cap.toptee.test.json")) and "decoding" not in metrics
    )
    assert {row["who"] for row in metrics["rows"]} == {"people", "most frequent", "random pair"}
    assert sorted(path.name for path in (tmp_path / "people").iterdir()) == ["metrics.json", "report.html"]


def test_pairs_with_one_caption_leave_no_people_to_compare(project, sample, tmp_path, capsys):
    catalog = copytree(sample, tmp_path / "catalog", ignore=lambda folder, names: ["features", "images"])
    path = catalog / "captions/cap.dress.val.json"
    path.write_text(json.dumps([{**row, "captions": row["captions"][:1]} for row in read(path)]))
    project.run("eval-captions", data=catalog, category="dresses", out=tmp_path / "people")
    assert {row["against"] for row in read(tmp_path / "people" / "metrics.json")["rows"]} == {"all"}
    told = capsys.readouterr().out
    assert "human agreement is not computed" in told and "are not compared with people's" in told


def test_pairs_without_targets_cannot_be_captioned(runs, tmp_path, capsys):
    catalog = copytree(runs.catalog, tmp_path / "catalog", ignore=lambda folder, names: ["images"])
    path = catalog / "captions/cap.dress.test.json"
    path.write_text(json.dumps([{key: row[key] for key in ("candidate", "captions")} for row in read(path)]))
    command = [
        "eval-captions",
        "--data",
        str(catalog),
        "--category",
        "dresses",
        "--run",
        str(runs.captioner),
        "--split",
        "test",
    ]
    assert main(command) == 2
    assert "have no targets" in capsys.readouterr().err


def test_a_random_caption_is_never_of_the_pair_itself(sample):
    train = Catalog(sample, "dresses").pairs("train")
    few = [Pair("t", "c", (str(number), f"{number} again")) for number in range(3)]
    for seed in range(20):
        assert all(
            text not in pair.captions
            for text, pair in zip(_random_captions(few, few, seed), few, strict=True)
        )
    assert len(set(_random_captions(train, train, 0))) > len(train) / 4


def test_samples_take_the_place_of_the_usual_beams(evaluate):
    assert (
        read(evaluate(samples=3) / "metrics.json")["decoding"]
        == "most informative of 3 samples that are true by the labels"
    )

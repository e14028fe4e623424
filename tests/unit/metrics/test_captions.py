import json
import math
import shutil
from collections import defaultdict

import pytest

from fashioniq.metrics import captions
from fashioniq.metrics.captions import METRICS, bleu, score_systems
from fashioniq.metrics.java import NotComputed
from tests.captions import caption_scores


@pytest.fixture
def no_java(monkeypatch):
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def no_spice(monkeypatch):
    """Leave out SPICE, which takes minutes."""

    def left_out(_):
        raise NotComputed("left out")

    monkeypatch.setattr(captions, "spice", left_out)


def test_the_same_words_score_100():
    assert bleu(
        ["is longer and has sleeves"], [["has no sleeves", "is longer and has sleeves"]]
    ) == pytest.approx([100] * 4, abs=1e-4)


def test_scores_are_computed_without_printing_anything(no_java, capsys):
    caption_scores(["is red", "is blue"], [["is red"], ["is green"]])
    assert capsys.readouterr() == ("", "")


def test_scores_by_hand():
    scores = bleu(["the red dress is long"], [["the blue dress is long"]])
    precisions = [4 / 5, 2 / 4, 1 / 3, 1e-15]
    expected = [100 * math.prod(precisions[: n + 1]) ** (1 / (n + 1)) for n in range(3)]
    assert scores[:3] == pytest.approx(expected, rel=1e-4) and scores[3] < 0.1


def test_the_scorer_of_bleu_prints_nothing(capsys):
    bleu(["the red dress is long"], [["the blue dress is long"]])
    assert capsys.readouterr().out == ""


def test_short_captions_pay_for_their_brevity():
    assert bleu(["is red"], [["is red and long"]])[0] == pytest.approx(100 * math.exp(1 - 4 / 2), rel=1e-4)


def test_the_closest_length_of_several_counts():
    assert bleu(["is red"], [["is red and long", "is bright"]])[0] == pytest.approx(100, rel=1e-4)


def test_the_closest_length_is_not_the_shortest():
    scores = bleu(["is red and long"], [["is red and long too", "is red"]])
    assert scores[0] == pytest.approx(100 * math.exp(1 - 5 / 4), rel=1e-4)


def test_words_are_counted_over_all_captions():
    assert bleu(["red", "is long and wide"], [["blue"], ["is long and wide"]])[0] == pytest.approx(
        80, rel=1e-4
    )


def test_case_and_punctuation_do_not_count():
    assert bleu(["Is longer, and has sleeves!"], [["is longer and has sleeves."]])[3] == pytest.approx(
        100, rel=1e-4
    )


def test_as_many_captions_as_references_are_needed():
    with pytest.raises(ValueError):
        bleu(["red"], [])


def test_scores_are_those_of_the_coco_tools(shared, no_spice):
    folder = shared / "caption_metrics"
    expected = json.loads((folder / "expected.json").read_text())["ms_vision_evaluation"]
    references = defaultdict(list)
    for row in json.loads((folder / "ms_vision_evaluation/image_caption_gt.json").read_text())["annotations"]:
        references[row["image_id"]].append(row["caption"])
    said = {
        row["image_id"]: row["caption"]
        for row in json.loads((folder / "ms_vision_evaluation/image_caption_prediction.json").read_text())
    }
    scores = caption_scores(list(said.values()), [references[name] for name in said])
    for name in METRICS[:6] if shutil.which("java") is None else METRICS[:7]:
        assert scores[name] == pytest.approx(
            expected[name.replace("BLEU-", "Bleu_").replace("-", "_")], abs=5e-4
        ), name


def test_without_java_the_scores_are_there_and_the_others_have_a_reason(no_java):
    scores = caption_scores(["is red.", "has long sleeves"], [["Is red!", "is blue"], ["has longer sleeves"]])
    assert set(scores) == {*METRICS, "tokeniser"} and scores["tokeniser"] == "PTB (NLTK)"
    assert all(isinstance(scores[name], float) for name in METRICS[:6])
    assert scores["METEOR"] == scores["SPICE"] == "not computed: there is no Java on the PATH"


def test_rouge_by_hand(no_java):
    precision, recall, beta = 2 / 3, 2 / 4, 1.2  # is … red
    expected = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
    assert caption_scores(["is very red"], [["is all over red"]])["ROUGE-L"] == pytest.approx(expected)


def test_bleu_by_hand_on_the_scale_of_the_tools(no_java):
    scores = caption_scores(["the red dress is long"], [["the blue dress is long"]])
    assert [scores[f"BLEU-{n}"] for n in (1, 2, 3)] == pytest.approx(
        [0.8, math.sqrt(0.8 / 2), (0.8 / 2 / 3) ** (1 / 3)]
    )


def test_cider_by_hand(no_java):
    """Of two captions one is its reference, the other shares nothing; captions of one word have unigrams
    only, a quarter of the score.
    """
    scores = caption_scores(["red", "blue"], [["red"], ["green"]])
    assert scores["CIDEr"] == pytest.approx(10 / 4 / 2)


@pytest.mark.parametrize(
    ("said", "references"), [(["red"], [["red"]]), (["red", "blue"], [["."], ["!", "."]])]
)
def test_cider_that_has_no_weights_is_not_computed(said, references, no_java):
    assert caption_scores(said, references)["CIDEr"].startswith("not computed: its weights")


def test_captions_without_words_score_nothing(no_java):
    scores = caption_scores(["", "..."], [["is red"], ["is blue"]])
    assert all(scores[name] == pytest.approx(0, abs=1e-6) for name in METRICS[:6])


def test_several_systems_score_as_each_by_itself(no_java):
    systems = [
        (["is red", "is blue"], [["is red"], ["blue"]]),
        (["is blue", "is blue"], [["is red", "is blue"], ["blue"]]),
    ]
    for together, (said, references) in zip(score_systems(systems), systems, strict=True):
        assert {**together.corpus, "tokeniser": together.tokeniser} == caption_scores(said, references)
        assert sum(together.each["CIDEr"]) / 2 == pytest.approx(together.corpus["CIDEr"])


@pytest.mark.parametrize(
    ("said", "references"),
    [([], []), (["red"], []), (["red"], [["red"], ["red"]]), (["red"], [[]]), (["red"], ["red"])],
)
def test_what_cannot_be_scored_is_refused(said, references):
    with pytest.raises(ValueError, match="references"):
        caption_scores(said, references)

"""Conversations made from labels: what is said is true, earlier turns matter, and the target can be found."""

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fashioniq.data.conversation_records import Text, TurnPicture
from fashioniq.data.writers import DescribedProduct, FeedbackPair, TwoRounds, WrittenDialog
from fashioniq.files import UserError
from fashioniq.prepare import conversation_pool, conversing
from fashioniq.prepare.conversation_pool import Pool
from fashioniq.prepare.conversation_summary import Report
from fashioniq.prepare.conversing import Pipeline
from fashioniq.prepare.templates import Templates
from fashioniq.sample.garments import random_garment
from fashioniq.sample.labels import labels_of

sys.path.insert(0, str(Path(__file__).resolve().parent))
from conversation_oracle import Oracle


def _products(count, seed):
    chance = random.Random(seed)
    labels = [labels_of(random_garment("dresses", chance)) for _ in range(count)]
    return [
        DescribedProduct(f"{seed}-{number}", ", ".join(word for words in lists for word in words), lists)
        for number, lists in enumerate(labels)
    ]


def _vectors(products):
    """Unit vectors of the label words, with noise."""
    words = sorted({word for product in products for word in product.words})
    vectors = np.array([[word in product.words for word in words] for product in products], dtype=np.float32)
    vectors += np.random.default_rng(0).normal(0, 0.2, vectors.shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def products():
    return {"train": _products(150, 1), "test": _products(150, 2)}


@pytest.fixture(scope="module")
def pools(products):
    return {split: [Pool(own, _vectors(own))] for split, own in products.items()}


@pytest.fixture(scope="module")
def made(pools, tmp_path_factory):
    """Samples of 100 conversations of each kind, of test, by sub-task; and the report."""
    pipeline, report = Pipeline(pools, Templates(), 0, 32), Report()
    parts = tmp_path_factory.mktemp("parts")
    groups = [
        group
        for line in ("merged", "mdc_t")
        for group in pipeline.conversations("test", line, 100, parts, report)
    ]
    samples = [sample for group in groups for sample in group]
    return {subtask: [one for one in samples if one.subtask == subtask] for subtask in "tim"}, report


@pytest.fixture(scope="module")
def oracle(products):
    return Oracle({product.id: product.labels for product in products["test"]})


def _mean_reciprocal(oracle, samples, turns_of):
    ids = list(oracle.words_of)
    return np.mean([1 / oracle.rank(turns_of(sample), sample.target, ids) for sample in samples])


def test_a_reader_who_knows_the_labels_finds_the_target(made, oracle):
    samples, _ = made
    ids = list(oracle.words_of)
    for subtask, least in (("t", 0.9), ("m", 0.8)):
        ranks = [oracle.rank(one.turns, one.target, ids) for one in samples[subtask]]
        assert np.mean(np.array(ranks) <= 10) > least, subtask


@pytest.mark.parametrize("kind", ["merged", "mdc_t"])
def test_without_the_history_the_target_is_harder_to_find(made, oracle, kind):
    samples = [one for one in made[0]["m"] if one.kind == kind]
    whole = _mean_reciprocal(oracle, samples, lambda sample: sample.turns)
    last = _mean_reciprocal(oracle, samples, lambda sample: sample.last_round)
    others = [*samples[1:], samples[0]]
    swapped = {
        one.id: (*other.turns[:-2], *one.turns[-2:]) for one, other in zip(samples, others, strict=True)
    }
    assert whole > last + 0.03
    assert whole > _mean_reciprocal(oracle, samples, lambda sample: swapped[sample.id]) + 0.1


def test_earlier_turns_have_attributes_that_the_last_one_does_not_repeat(made, oracle):
    for sample in made[0]["m"]:
        *earlier, last = [turn.text for turn in sample.turns if turn.role == "user"]
        assert oracle.wanted(earlier)[0] - oracle.read(last)[0]


def test_all_that_is_said_holds_for_the_target_unless_it_is_taken_back(made, oracle):
    for sample in made[0]["t"] + made[0]["m"]:
        wanted, unwanted, _ = oracle.wanted([turn.text for turn in sample.turns if turn.role == "user"])
        own = oracle.words_of[sample.target]
        assert wanted <= own and not unwanted & own, sample


def test_i_and_m_have_the_same_targets_pictures_and_last_request(made):
    samples, _ = made
    assert len(samples["t"]) == 100 and len(samples["i"]) == len(samples["m"]) == 200
    for single, whole in zip(samples["i"], samples["m"], strict=True):
        assert (single.target, single.turns) == (whole.target, whole.last_round)
    for dialog, merged in zip(samples["t"], samples["m"], strict=False):
        assert merged.turns[: len(dialog.turns)] == dialog.turns
        assert merged.turns[len(dialog.turns)].content == (TurnPicture(dialog.target),)
        assert merged.source.joined[0] == dialog.id


def test_every_sample_says_that_templates_wrote_it(made):
    assert {one.source.writer for samples in made[0].values() for one in samples} == {"templates"}


def test_texts_are_varied(made):
    texts = [one.turns[-1].text for one in made[0]["i"]]
    assert len(set(texts)) > 0.9 * len(texts)


def test_every_attempt_is_made_or_counted(made):
    for line, counts in made[1].counts.items():
        dropped = {
            name: count for name, count in counts.items() if not name.startswith(("neighbors", "mdc_i"))
        }
        whole = dropped.pop("attempts")
        assert 0 <= whole - sum(dropped.values()) < 32, line  # made, but not needed


class Fixed:
    """Writer of the same texts for all."""

    name, tokens = "fixed", {}

    def __init__(self, dialog="", caption="a blue sea", request="make it a bit longer please"):
        self.dialog, self.caption, self.request = dialog, caption, request

    def dialogs(self, products, seeds):
        return [WrittenDialog((f"{self.dialog} {seed}",)) if self.dialog else None for seed in seeds]

    def two_rounds(self, pairs, seeds):
        return [
            TwoRounds(f"please show me all of the things that you have {seed}", self.caption, "longer")
            for seed in seeds
        ]

    def requests(self, pairs, seeds):
        return [self.request] * len(pairs)


@pytest.mark.parametrize(
    ("line", "writer", "reason"),
    [
        ("merged", Fixed(), "dialogs that could not be written"),
        ("merged", Fixed("short"), "text: fewer than 40 words"),
        ("merged", Fixed("long " * 111), "text: more than 110 words"),
        ("merged", Fixed("as in image B " * 15), "text: names of files or pictures"),
        ("merged", Fixed("words " * 50, request="longer"), "mdc_i: fewer than 5 words"),
        (
            "merged",
            Fixed("words " * 50, request=None),
            "neighbors: no request, or it contradicts the dialog",
        ),
        ("mdc_t", Fixed(), "duplicates of an earlier text, of both splits"),
    ],
)
def test_each_filter_drops_and_counts(pools, tmp_path, monkeypatch, line, writer, reason):
    monkeypatch.setattr(conversing, "_ATTEMPTS", 2)
    report, pipeline = Report(), Pipeline(pools, writer, 0, 8)
    with pytest.raises(UserError, match=r"attempts: .*; give a smaller --test"):
        for folder in ("a", "b"):  # the second time, all are duplicates
            list(pipeline.conversations("test", line, 1, tmp_path / folder, report))
    assert report.counts[f"test {line}"][reason] > 0


def test_words_of_the_caption_in_a_row_are_dropped(pools, tmp_path, monkeypatch):
    monkeypatch.setattr(conversing, "_ATTEMPTS", 2)
    monkeypatch.setattr(conversation_pool, "LEAST_SIMILAR", 0)
    caption = pools["test"][0].products[0].caption
    writer = Fixed(f"I want this one with {caption} " + "and so on " * 12)
    with pytest.raises(UserError, match="5 words in a row"):
        list(Pipeline({"test": [Pool(pools["test"][0].products[:2], np.eye(2, dtype=np.float32))]}, writer, 0, 8)
             .conversations("test", "merged", 9, tmp_path, Report()))  # fmt: skip


def test_copies_and_strangers_are_no_neighbors(monkeypatch):
    monkeypatch.setattr(conversation_pool, "NEIGHBORS", 199)
    monkeypatch.setattr(conversation_pool, "MOST_SIMILAR", 0.99)
    products = _products(200, 3)
    vectors = _vectors(products)
    vectors[1] = vectors[0]
    vectors[2] = -vectors[0]
    dropped = Counter()
    pool = Pool(products, vectors)
    found = pool.neighbors(products[0].id, dropped)
    assert found and not {products[1].id, products[2].id} & {one.id for one, _, _ in found}
    assert dropped["neighbors: copies"] >= 1 and dropped["neighbors: too different"] > 100
    cosines = [cos for _, cos, _ in found]
    assert cosines == sorted(cosines, reverse=True)


def test_a_reference_text_finds_another_product_than_the_target(pools):
    pool = pools["test"][0]
    target = pool.products[5]
    found, _, above = pool.nearest(target.caption, target.id)
    assert found is not target and above == 0  # which the pipeline drops


def test_a_request_takes_back_what_is_no_longer_wanted():
    shown = DescribedProduct("a", "", [["dress"], ["red"], ["cotton"], ["mini"], [], []])
    wanted = DescribedProduct("b", "", [["dress"], ["blue"], ["cotton"], ["maxi"], ["belt"], []])
    texts = Templates().requests(
        [FeedbackPair(shown, wanted, frozenset({"red", "cotton"}))] * 50, list(map(str, range(50)))
    )
    assert all("blue" in text or "lighter" in text or "darker" in text for text in texts)
    assert not any("cotton" in text for text in texts)


def test_a_request_does_not_repeat_what_was_said():
    shown = DescribedProduct("a", "", [["dress"], ["red"], [], ["mini"], [], []])
    wanted = DescribedProduct("b", "", [["dress"], ["blue"], [], ["maxi"], [], []])
    texts = Templates().requests(
        [FeedbackPair(shown, wanted, frozenset({"blue"}))] * 50, list(map(str, range(50)))
    )
    assert not any("blue" in text for text in texts) and all(texts)


def test_a_turn_has_text_or_a_picture(made):
    parts = {type(part) for one in made[0]["m"] for turn in one.turns for part in turn.content}
    assert parts == {Text, TurnPicture}

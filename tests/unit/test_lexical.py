"""BM25 in arrays, compared with bm25s."""

import math
import random

import bm25s
import numpy as np
import pytest

from fashioniq.data.words import tokenize
from fashioniq.loop.labels import Having, ProductLabels
from fashioniq.loop.lexical import K1, LexicalIndex

WORDS = ["red", "dress", "v-neck", "long", "sleeves", "belt", "navy", "of", "silk"]


def stem(word):
    return word.rstrip("s")


def texts(seed, count=60):
    draw = random.Random(seed)
    return [
        " ".join(["dress", *draw.choices(WORDS, k=draw.randrange(9))]) if draw.random() < 0.9 else ""
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_bm25s(seed):
    given = texts(seed)
    index, reference = LexicalIndex(given, stem), bm25s.BM25()
    reference.index([[stem(word) for word in tokenize(text)] for text in given], show_progress=False)
    for said in ("red", "red long sleeves", "dress", "sleeve sleeves", "zorgle silk", "V-neck of navy belts"):
        tokens = [
            token for token in dict.fromkeys(map(stem, tokenize(said))) if token in reference.vocab_dict
        ]
        score_N = np.zeros(len(given), np.float32)
        index.add(score_N, said, 2.0)
        expected_N = 2 * reference.get_scores(tokens)
        np.testing.assert_allclose(score_N, expected_N, rtol=1e-5, atol=1e-6)
        assert [2 * index.score(said, item) for item in range(60)] == pytest.approx(expected_N, rel=1e-5)
        own = [set(map(stem, tokenize(text))) for text in given]
        every = set(map(stem, tokenize(said)))
        assert index.containing(said).tolist() == [item for item in range(60) if every <= own[item]]


@pytest.mark.parametrize("given", [[], ["", ""], ["red"]])
def test_few_words_are_no_error(given):
    index, score_N = LexicalIndex(given, stem), np.zeros(len(given), np.float32)
    index.add(score_N, "red dress", 1.0)
    assert (score_N > 0).tolist() == [text == "red" for text in given]
    assert index.containing("").tolist() == [] and index.containing("red").tolist() == [0] * given.count(
        "red"
    )


def test_labels_are_kept_by_product_and_by_label():
    given = [{"red", "long"}, None, set(), {"red"}, {"blue"}] + [{"blue"}] * 40
    labels = ProductLabels(given)
    assert [labels.of(item) for item in range(5)] == [*given[:2], frozenset(), *given[3:5]]
    assert labels.having(["red", "zorgle"]).tolist() == [0, 3] and labels.having(["zorgle"]).tolist() == []
    assert labels.having(["long", "red", "blue"]).tolist() == [0, 3, *range(4, 45)]
    assert set(labels.names) == {"red", "long", "blue"} and labels.unknown_N.tolist() == [
        one is None for one in given
    ]
    assert ProductLabels([]).having(["red"]).tolist() == [] and len(ProductLabels([None])) == 1


@pytest.mark.parametrize("has", [[1], [1, 7], list(range(0, 40, 2)), list(range(40)), []])
@pytest.mark.parametrize("denied", [False, True])
def test_few_and_many_products_count_alike(has, denied):
    having, own = Having.of(np.array(has, np.int32), 40), np.isin(np.arange(40), has)
    score_N, mask_N = np.ones(40, np.float32), np.arange(40) % 3 > 0
    having.add(score_N, -2.0)
    assert score_N.tolist() == np.where(own, -1, 1).tolist()
    assert [having.at(item) for item in range(40)] == own.tolist()
    having.keep(mask_N, 0.5, denied)
    assert mask_N.tolist() == ((np.arange(40) % 3 > 0) & (own != denied)).tolist()


def test_documents_of_no_words_on_average_are_not_divided_by_less_than_one():
    """Of four texts with one word in all, the mean length of 1/4 counts as 1."""
    index = LexicalIndex(["red", "", "", ""], stem)
    rarity = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    assert index.score("red", 0) == pytest.approx(rarity / (1 + K1), rel=1e-5)

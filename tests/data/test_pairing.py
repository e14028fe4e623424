import math

import numpy as np
import pytest

from fashioniq.data import pairing
from fashioniq.data.pairing import reference_pairs

WORDS = ["red", "blue", "dress", "long", "short", "v-neck", "lace", "striped", "cotton", "summer"]


def titles(count=60):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(count)]


def shared_weight(texts):
    """For each two titles the sum of the first one's TF-IDF weights over the words that both have; N×N, nothing with itself."""
    split = [text.split() for text in texts]
    weight = {word: math.log((1 + len(texts)) / (1 + sum(word in words for words in split))) + 1 for words in split for word in words}
    sums = np.array([[sum(one.count(word) * weight[word] for word in set(one) & set(other)) for other in split] for one in split])
    np.fill_diagonal(sums, -1)
    return sums


@pytest.mark.parametrize("block", [7, 1024])
def test_references_are_the_titles_that_share_the_heaviest_words(monkeypatch, block):
    monkeypatch.setattr(pairing, "BLOCK", block)
    texts = titles()
    references, sums = reference_pairs(texts, per_target=3), shared_weight(texts)
    assert (references != np.arange(60)[:, None]).all()
    found = np.where(references >= 0, np.take_along_axis(sums, references, 1), 0)
    np.testing.assert_allclose(found, np.maximum(-np.sort(-sums, axis=1)[:, :3], 0), rtol=1e-5)


def test_a_rare_word_weighs_more_than_a_common_one():
    assert reference_pairs(["lace dress", "dress", "lace", "dress red", "dress blue"])[0] == 2


def test_of_equal_ones_the_earlier_is_taken():
    assert reference_pairs(["red dress"] * 4).flatten().tolist() == [1, 0, 0, 0]


def test_who_shares_no_word_has_no_reference():
    assert reference_pairs(["red dress", "dress", "blue", ""], per_target=2).tolist() == [[1, -1], [0, -1], [-1, -1], [-1, -1]]


def test_titles_without_any_word_have_no_references():
    assert reference_pairs(["", "!"]).tolist() == [[-1], [-1]]

import numpy as np
import pytest
import torch

from fashioniq.data.words import END, PAD, SPECIAL, START, UNKNOWN, Vocabulary, load_word_vectors, tokenize
from fashioniq.files import UserError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is longer, and has a V-neck!", ["is", "longer", "and", "has", "a", "v-neck"]),
        ("don't  show\tme\n3/4 sleeves", ["don't", "show", "me", "3", "4", "sleeves"]),
        ("black_and_white (GRAU/größer)", ["black", "and", "white", "grau", "größer"]),
        ("-red- 'blue'", ["red", "blue"]),
        ("?!…", []),
        ("", []),
    ],
)
def test_words_are_lower_case_and_keep_what_joins_them(text, words):
    assert tokenize(text) == words


def test_a_vocabulary_holds_words_seen_often_the_most_frequent_first():
    vocabulary = Vocabulary.of(["red red blue", "blue green red", "green once"], at_least=2)
    assert vocabulary.words == [*SPECIAL, "red", "blue", "green"]
    assert len(vocabulary) == 7 and "blue" in vocabulary and "once" not in vocabulary
    assert Vocabulary.of(["b a c"], at_least=1).words == [*SPECIAL, "a", "b", "c"]


def test_special_ids_are_the_first():
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    assert Vocabulary([]).decode(torch.tensor([[UNKNOWN]])) == ["<unknown>"]


def test_texts_are_cut_and_padded_to_the_length():
    vocabulary = Vocabulary(["red", "blue"])
    assert vocabulary.encode(["Red", "", "blue red odd blue red"], 4).tolist() == [[4, 0, 0, 0], [0, 0, 0, 0], [5, 4, UNKNOWN, 5]]


def test_texts_come_back_as_tokenised():
    texts = ["is longer and has a v-neck", "", "red"]
    vocabulary = Vocabulary.of(texts, at_least=1)
    assert vocabulary.decode(vocabulary.encode(texts, 8)) == texts


def test_nothing_is_read_behind_the_first_end_or_padding():
    vocabulary = Vocabulary(["red", "blue"])
    assert vocabulary.decode(torch.tensor([[START, 4, END, 5], [5, 4, PAD, 4], [END, 4, 4, 4]])) == ["red", "blue red", ""]


def test_a_word_is_translated_into_the_same_word_of_another_vocabulary():
    speaks, hears = Vocabulary(["red", "blue", "odd"]), Vocabulary(["green", "blue", "red"])
    translation = speaks.translation(hears)
    assert translation.tolist() == [PAD, START, END, UNKNOWN, 6, 5, UNKNOWN]
    assert hears.decode(translation[speaks.encode(["blue red", "red"], 3)]) == ["blue red", "red"]


VECTORS = {"red": [1.0, 2.0, 3.0], "v-neck": [-1.0, 0.5, 2e-3], "other": [9.0, 9.0, 9.0]}


@pytest.mark.parametrize("header", ["", "3 3\n"], ids=["GloVe", "word2vec"])
def test_word_vectors_of_both_formats_are_put_in_the_rows_of_their_words(tmp_path, header):
    path = tmp_path / "vectors.txt"
    path.write_text(header + "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()))
    table, found = load_word_vectors(path, Vocabulary(["blue", "v-neck", "red"]))
    assert found == 2 and table.dtype == torch.float32
    np.testing.assert_allclose(table, [[0] * 3] * 5 + [VECTORS["v-neck"], VECTORS["red"]], rtol=1e-6)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"this is a text of words\nand one more line here\n",
        b"red 1 2 3\nblue 1 2\n",
        b"5 3\nred 1 2 3\n",
        b"2 3\nred \xff\xfe\x80\x81\n",
        b"\x1f\x8b\x08\0\xff\xfe",
    ],
    ids=["empty", "text", "short", "truncated", "binary", "packed"],
)
def test_what_holds_no_word_vectors_is_refused(tmp_path, content):
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(UserError, match=r"vectors.txt"):
        load_word_vectors(tmp_path / "vectors.txt", Vocabulary(["red"]))


def test_a_missing_file_of_word_vectors_is_told(tmp_path):
    with pytest.raises(UserError, match="there is no file of word vectors"):
        load_word_vectors(tmp_path / "nowhere.txt", Vocabulary(["red"]))

import numpy as np
import pytest
import torch

from fashioniq.data.words import (
    END,
    LEARNED_SIZE,
    PAD,
    SPECIAL,
    START,
    UNKNOWN,
    Vocabulary,
    learn_word_vectors,
    load_word_vectors,
    tokenize,
)
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
    assert vocabulary.encode(["Red", "", "blue red odd blue red"], 4).tolist() == [
        [4, 0, 0, 0],
        [0, 0, 0, 0],
        [5, 4, UNKNOWN, 5],
    ]


def test_texts_come_back_as_tokenised():
    texts = ["is longer and has a v-neck", "", "red"]
    vocabulary = Vocabulary.of(texts, at_least=1)
    assert vocabulary.decode(vocabulary.encode(texts, 8)) == texts


def test_nothing_is_read_behind_the_first_end_or_padding():
    vocabulary = Vocabulary(["red", "blue"])
    assert vocabulary.decode(torch.tensor([[START, 4, END, 5], [5, 4, PAD, 4], [END, 4, 4, 4]])) == [
        "red",
        "blue red",
        "",
    ]


def test_a_word_is_translated_into_the_same_word_of_another_vocabulary():
    speaks, hears = Vocabulary(["red", "blue", "odd"]), Vocabulary(["green", "blue", "red"])
    translation = speaks.translation(hears)
    assert translation.tolist() == [PAD, START, END, UNKNOWN, 6, 5, UNKNOWN]
    assert hears.decode(translation[speaks.encode(["blue red", "red"], 3)]) == ["blue red", "red"]


VECTORS = {
    "red": [1.0, 2.0, 3.0],
    "v-neck": [-1.0, 0.5, 2e-3],
    "three": [2.0, 0.0, 4.0],
    "quarter": [0.0, 2.0, 2.0],
    "other": [9.0, 9.0, 9.0],
}


def text_of(vectors, end=""):
    return "".join(f"{word} {' '.join(map(str, vector))}{end}\n" for word, vector in vectors.items())


@pytest.mark.parametrize(
    ("header", "end"), [("", ""), ("5 3\n", ""), ("5 3\n", " ")], ids=["GloVe", "gensim", "word2vec"]
)
def test_word_vectors_of_both_formats_are_put_in_the_rows_of_their_words(tmp_path, header, end):
    path = tmp_path / "vectors.txt"
    path.write_text(header + text_of(VECTORS, end))
    table, lacking = load_word_vectors(path, Vocabulary(["blue", "v-neck", "red"]))
    assert lacking == ["blue"] and table.dtype == torch.float32
    np.testing.assert_allclose(
        table[[0, 1, 2, 3, 5, 6]], [[0] * 3] * 4 + [VECTORS["v-neck"], VECTORS["red"]], rtol=1e-6
    )


def test_the_binary_format_gives_the_same_table(tmp_path):
    from gensim.models import KeyedVectors  # slow to import, and needed here alone

    vectors = KeyedVectors(3)
    vectors.add_vectors(list(VECTORS), np.array(list(VECTORS.values()), np.float32))
    vectors.save_word2vec_format(str(tmp_path / "vectors.bin"), binary=True)
    (tmp_path / "vectors.txt").write_text(text_of(VECTORS))
    vocabulary = Vocabulary(["blue", "v-neck", "red"])
    (binary, lacking), (text, lacking_too) = (
        load_word_vectors(tmp_path / f"vectors.{suffix}", vocabulary) for suffix in ("bin", "txt")
    )
    assert torch.equal(binary, text) and lacking == lacking_too


def test_fasttext_gives_words_it_has_not_seen_the_vector_of_their_parts(tmp_path):
    from gensim.models import FastText
    from gensim.models.fasttext import save_facebook_model

    model = FastText(
        [["red", "dress", "stripes"]] * 20, vector_size=4, min_count=1, epochs=1, bucket=50, seed=1
    )
    save_facebook_model(model, str(tmp_path / "vectors.bin"))
    table, lacking = load_word_vectors(tmp_path / "vectors.bin", Vocabulary(["red", "striped"]))
    assert lacking == [] and "striped" not in model.wv.key_to_index
    np.testing.assert_allclose(table[4:], [model.wv["red"], model.wv["striped"]], rtol=1e-5)
    whole = (tmp_path / "vectors.bin").read_bytes()
    for end in (8, 200):
        (tmp_path / "vectors.bin").write_bytes(whole[:end])
        with pytest.raises(UserError, match="is not a complete word vector file"):
            load_word_vectors(tmp_path / "vectors.bin", Vocabulary(["red"]))


def test_words_in_similar_places_get_similar_vectors_from_the_texts_of_a_catalog():
    texts = [f"a {color} dress" for color in ("red", "navy")] * 600
    texts += [f"its hem has {part}" for part in ("lace", "bows")] * 600
    vocabulary = Vocabulary(["red", "navy", "lace", "bows", "odd-bows", "other"])
    table_VD, lacking = learn_word_vectors(texts, vocabulary, seed=3)
    near = torch.nn.functional.cosine_similarity(table_VD[4:, None], table_VD[None, 4:], dim=2)
    assert table_VD.shape == (10, LEARNED_SIZE) and lacking == ["odd-bows", "other"]
    assert near[0, 1] > near[0, 2] + 0.1 and near[2, 3] > near[2, 1] + 0.1
    assert torch.equal(table_VD[8], table_VD[7])  # a compound has the mean of the parts that are known
    assert torch.equal(learn_word_vectors(texts, vocabulary, seed=3)[0], table_VD)
    assert not torch.equal(learn_word_vectors(texts, vocabulary, seed=4)[0], table_VD)
    with pytest.raises(UserError, match="the texts of the catalog have none of the words"):
        learn_word_vectors(["nothing"], vocabulary, seed=3)


def test_words_without_a_vector_are_the_mean_of_their_parts_or_else_random_and_all_different(tmp_path):
    (tmp_path / "vectors.txt").write_text(text_of(VECTORS))
    table, lacking = load_word_vectors(
        tmp_path / "vectors.txt", Vocabulary(["three-quarter", "teal", "fuchsia", "red"])
    )
    assert lacking == ["three-quarter", "teal", "fuchsia"]
    np.testing.assert_allclose(table[4], [1.0, 1.0, 3.0])
    assert (table[5] != table[6]).all() and table[5].any()
    again, _ = load_word_vectors(
        tmp_path / "vectors.txt", Vocabulary(["three-quarter", "teal", "fuchsia", "red"])
    )
    assert torch.equal(table, again)


def test_tokens_with_spaces_as_glove_840b_has_are_passed_over(tmp_path):
    lines = [". . . 1 2 3", "at name@domain.com 4 5 6", "red blue 7 8 9"]
    (tmp_path / "vectors.txt").write_text(text_of(VECTORS) + "\n".join(lines) + "\n")
    table, lacking = load_word_vectors(tmp_path / "vectors.txt", Vocabulary(["red", "at"]))
    assert lacking == ["at"] and table[4].tolist() == VECTORS["red"]


def test_a_file_of_no_word_that_is_needed_is_refused(tmp_path):
    (tmp_path / "vectors.txt").write_text(text_of(VECTORS))
    with pytest.raises(UserError, match="none of the 1 words"):
        load_word_vectors(tmp_path / "vectors.txt", Vocabulary(["rouge"]))


def test_words_that_are_not_in_the_vocabulary_are_counted():
    assert Vocabulary(["is", "yellow"]).unknown(["is yello", "Yello, is pink"]) == {"yello": 2, "pink": 1}


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
    with pytest.raises(UserError, match="there is no word vector file"):
        load_word_vectors(tmp_path / "nowhere.txt", Vocabulary(["red"]))

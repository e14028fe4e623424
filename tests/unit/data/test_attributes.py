import re

import numpy as np
import pytest

from fashioniq.data import attributes
from fashioniq.data.attributes import find_attributes, label_matrix, label_vocabulary, place_value, top_labels


def labels(garment="", texture="", fabric="", shape="", part="", style=""):
    return [
        [word.strip() for word in words.split(",") if word.strip()]
        for words in (garment, texture, fabric, shape, part, style)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Women's navy blue striped T-Shirt", labels("t-shirt", "navy blue, striped")),
        ("Cotton slim fit shirt, casual", labels("shirt", "", "cotton", "slim fit", "", "casual")),
        ("RED dress with long sleeves and a V-neck", labels("dress", "red", part="long sleeve, v-neck")),
        ("", labels()),
    ],
)
def test_words_of_a_text_stand_in_the_list_of_their_type(text, expected):
    assert find_attributes(text) == expected


def test_only_whole_words_are_found():
    assert find_attributes("Redish bluestone topsy unstriped shirting denims") == labels()
    assert find_attributes("red_blue") == labels(texture="red, blue")


@pytest.mark.parametrize("text", ["v-neck", "V neck", "vneck", "V-Necks", "v-necked", "v neckline"])
def test_forms_with_hyphen_space_and_ending_are_one_word(text):
    assert find_attributes(text) == labels(part="v-neck")


@pytest.mark.parametrize(
    "text", ["long sleeve", "long-sleeved", "Long Sleeves", "longsleeve", "full sleeves", "full-sleeved"]
)
def test_synonyms_are_one_word(text):
    assert find_attributes(text) == labels(part="long sleeve")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("dresses", "dress"),
        ("Tops", "top"),
        ("tshirts", "t-shirt"),
        ("blouses", "blouse"),
        ("tee", "t-shirt"),
    ],
)
def test_plurals_of_garments_are_found(text, word):
    assert find_attributes(text) == labels(word)


def test_the_longest_form_wins():
    assert find_attributes("navy blue") == labels(texture="navy blue")
    assert find_attributes("shirt dress") == labels("dress")
    assert find_attributes("short sleeve") == labels(part="short sleeve")
    assert find_attributes("navy blue and blue") == labels(texture="navy blue, blue")


def test_punctuation_parts_the_words_of_a_form():
    assert find_attributes("off, white") == labels(texture="white")


def test_a_possessive_is_one_word():
    assert find_attributes("Men's Logan shirt, women's mock-ups") == labels("shirt")


def test_a_word_said_twice_is_found_once():
    assert find_attributes("red shirt in red, RED shirts") == labels("shirt", "red")


def test_no_form_means_two_words():
    meanings = {}
    for group in attributes.GROUPS:
        for entry in group.entries.split(";"):
            word, _, others = " ".join(entry.split()).partition("=")
            for form in (word, *filter(None, others.split(","))):
                for ending in group.endings:
                    meanings.setdefault(re.sub(r"[\s-]", "", form) + ending, set()).add(word)
    assert [form for form, words in meanings.items() if len(words) > 1] == []


def test_every_word_of_the_vocabulary_is_found_as_itself():
    for word, group in attributes.GROUP_OF.items():
        assert find_attributes(word.upper())[group.kind] == [word]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("Navy Blue", (1, "navy blue")), ("Tshirts", (0, "t-shirt")), ("Sports", (5, "sporty")),
     ("Pebble Green", (1, "pebble green")), ("Autumn", (5, "autumn"))],
)  # fmt: skip
def test_a_column_value_goes_to_the_list_of_its_word_else_to_style(value, expected):
    assert place_value(value) == expected


LABELS = {
    "a": labels("shirt", "red, striped", style="casual"),
    "b": labels("shirt", "red", part="v-neck"),
    "c": labels("shirt", "red, striped", "cotton"),
}


def test_the_label_vocabulary_holds_frequent_attribute_words_most_frequent_first_then_by_name():
    assert label_vocabulary(LABELS, "abc", at_least=1) == ["red", "striped", "casual", "cotton", "v-neck"]
    assert label_vocabulary(LABELS, "abc", at_least=2) == ["red", "striped"]
    assert label_vocabulary(LABELS, ["b", "unlabelled"], at_least=1) == ["red", "v-neck"]


def test_top_labels_are_positions_plus_one_in_the_order_of_the_lists():
    vocabulary = ["casual", "red", "v-neck"]
    top = top_labels(LABELS, ["a", "b", "unlabelled"], vocabulary, count=2)
    assert top.dtype == np.int64 and top.tolist() == [[2, 1], [2, 3], [0, 0]]
    assert top_labels(LABELS, ["a"], vocabulary, count=1).tolist() == [[2]]
    assert top_labels(LABELS, ["a"], vocabulary).shape == (1, 8)


def test_the_label_matrix_marks_the_words_of_each_product():
    matrix = label_matrix(LABELS, ["c", "b", "unlabelled"], ["v-neck", "red", "cotton"])
    assert matrix.dtype == bool
    assert matrix.tolist() == [[False, True, True], [True, True, False], [False, False, False]]

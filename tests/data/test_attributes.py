import random
import re

import numpy as np
import pytest

from fashioniq.data import attributes
from fashioniq.data.attributes import can_tell_apart, describe_difference, find_attributes, label_matrix, label_vocabulary, place_value, top_labels


def labels(garment="", texture="", fabric="", shape="", part="", style=""):
    return [[word.strip() for word in words.split(",") if word.strip()] for words in (garment, texture, fabric, shape, part, style)]


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


@pytest.mark.parametrize("text", ["long sleeve", "long-sleeved", "Long Sleeves", "longsleeve", "full sleeves", "full-sleeved"])
def test_synonyms_are_one_word(text):
    assert find_attributes(text) == labels(part="long sleeve")


@pytest.mark.parametrize(("text", "word"), [("dresses", "dress"), ("Tops", "top"), ("tshirts", "t-shirt"), ("blouses", "blouse"), ("tee", "t-shirt")])
def test_plurals_of_garments_are_found(text, word):
    assert find_attributes(text) == labels(word)


def test_the_longest_form_wins():
    assert find_attributes("navy blue") == labels(texture="navy blue")
    assert find_attributes("shirt dress") == labels("dress")
    assert find_attributes("short sleeve") == labels(part="short sleeve")
    assert find_attributes("navy blue and blue") == labels(texture="navy blue, blue")


def test_punctuation_parts_the_words_of_a_form():
    assert find_attributes("off, white") == labels(texture="white")


def test_a_word_said_twice_is_found_once():
    assert find_attributes("red shirt in red, RED shirts") == labels("shirt", "red")


def test_no_form_means_two_words():
    meanings = {}
    for group in attributes._GROUPS:
        for entry in group.entries.split(";"):
            word, _, others = " ".join(entry.split()).partition("=")
            for form in (word, *filter(None, others.split(","))):
                for ending in group.endings:
                    meanings.setdefault(re.sub(r"[\s-]", "", form) + ending, set()).add(word)
    assert [form for form, words in meanings.items() if len(words) > 1] == []


def test_every_word_of_the_vocabulary_is_found_as_itself():
    for word, group in attributes._GROUP_OF.items():
        assert find_attributes(word.upper())[group.kind] == [word]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("Navy Blue", (1, "navy blue")), ("Tshirts", (0, "t-shirt")), ("Sports", (5, "sporty")),
     ("Pebble Green", (1, "pebble green")), ("Autumn", (5, "autumn"))],
)  # fmt: skip
def test_a_column_value_goes_to_the_list_of_its_word_else_to_style(value, expected):
    assert place_value(value) == expected


def test_captions_tell_what_the_target_has():
    said = {describe_difference(labels("shirt", "red"), labels("shirt", "navy blue", part="long sleeve"), seed) for seed in range(60)}
    captions = {caption for pair in said for caption in pair}
    assert "is navy blue and has long sleeves" in captions
    assert "is navy blue instead of red" in captions
    assert "navy blue rather than red" in captions
    assert "with long sleeves" in captions


def test_a_denied_word_is_one_that_the_target_lacks():
    captions = {caption for seed in range(20) for caption in describe_difference(labels(part="pockets"), labels(), seed)}
    assert captions == {"has no pockets", "without pockets"}


def test_scales_compare_in_the_right_direction():
    def said(candidate, target):
        return {caption for seed in range(60) for caption in describe_difference(candidate, target, seed)}

    short, long = labels(part="short sleeve"), labels(part="long sleeve")
    assert "has longer sleeves" in said(short, long) and "has shorter sleeves" not in said(short, long)
    assert "has shorter sleeves" in said(long, short)
    assert "is lighter" in said(labels(texture="black"), labels(texture="white"))
    assert not {"is lighter", "is darker"} & said(labels(texture="black"), labels(texture="white, red"))


def test_captions_are_true_by_the_labels():
    chance = random.Random(0)
    for seed in range(3000):
        candidate, target = random_labels(chance), random_labels(chance)
        for caption in describe_difference(candidate, target, seed):
            claimed, denied = claims(caption)
            assert all(word in flat(target) for word in claimed), (caption, target)
            assert all(word not in flat(target) and word in flat(candidate) for word in denied), (caption, candidate, target)


def test_captions_are_short_lower_case_and_differ_in_their_way_of_speaking():
    chance = random.Random(1)
    lengths = []
    for seed in range(1000):
        first, second = describe_difference(random_labels(chance), random_labels(chance), seed)
        assert first != second and first == first.lower() and second == second.lower()
        lengths += [len(first.split()), len(second.split())]
    assert max(lengths) <= 12 and np.mean([length <= 8 for length in lengths]) > 0.9


def test_the_same_seed_gives_the_same_captions_and_another_gives_others():
    candidate = labels("shirt", "red, striped", "cotton", "loose", "long sleeve", "casual")
    target = labels("dress", "blue, floral", "silk", "fitted", "v-neck", "formal")
    assert describe_difference(candidate, target, 5) == describe_difference(candidate, target, 5)
    assert len({describe_difference(candidate, target, seed) for seed in range(30)}) > 5


def test_equal_labels_are_said_to_look_the_same():
    item = labels("shirt", "red")
    assert describe_difference(item, item, 0)[0] == "looks the same"
    assert not can_tell_apart(item, item)
    assert not can_tell_apart(labels(texture="navy blue, blue"), labels(texture="navy blue"))


def test_labels_too_long_to_say_are_not_called_the_same():
    assert describe_difference(labels(style="a very long value of a column"), labels(), 0)[0] == "looks different"


def test_words_of_another_vocabulary_are_spoken_of_by_their_type():
    captions = {caption for seed in range(20) for caption in describe_difference(labels(), labels(fabric="bamboo"), seed)}
    assert captions == {"is made of bamboo", "made of bamboo"}


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


def random_labels(chance):
    lists = labels()
    for word in chance.sample(sorted(attributes._GROUP_OF), chance.randint(1, 12)):
        lists[attributes._GROUP_OF[word].kind].append(word)
    return lists


def flat(lists):
    return [word for words in lists for word in words]


def claims(caption):
    """The words that a caption gives to the target, and those that it denies it."""
    parts = re.split(r"\b(instead of|rather than|is not|has no|not|without|less|and|with|is|has)\b", caption)
    claimed, denied, denying = [], [], False
    for part in parts:
        if part in ("instead of", "rather than", "is not", "has no", "not", "without", "less"):
            denying = True
        elif part in ("and", "with", "is", "has"):
            denying = False
        else:
            (denied if denying else claimed).extend(flat(find_attributes(part)))
    return claimed, denied

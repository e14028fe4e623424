import random
import re

import numpy as np

from fashioniq.data.attributes import GROUP_OF, find_attributes
from fashioniq.data.differences import can_tell_apart, describe_difference


def labels(garment="", texture="", fabric="", shape="", part="", style=""):
    return [
        [word.strip() for word in words.split(",") if word.strip()]
        for words in (garment, texture, fabric, shape, part, style)
    ]


def test_captions_tell_what_the_target_has():
    said = {
        describe_difference(labels("shirt", "red"), labels("shirt", "navy blue", part="long sleeve"), seed)
        for seed in range(60)
    }
    captions = {caption for pair in said for caption in pair}
    assert "is navy blue and has long sleeves" in captions
    assert "is navy blue instead of red" in captions
    assert "navy blue rather than red" in captions
    assert "with long sleeves" in captions


def test_a_denied_word_is_one_that_the_target_lacks():
    captions = {
        caption
        for seed in range(20)
        for caption in describe_difference(labels(part="pockets"), labels(), seed)
    }
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
    for seed in range(800):
        candidate, target = random_labels(chance), random_labels(chance)
        for caption in describe_difference(candidate, target, seed):
            claimed, denied = claims(caption)
            assert all(word in flat(target) for word in claimed), (caption, target)
            assert all(word not in flat(target) and word in flat(candidate) for word in denied), (
                caption,
                candidate,
                target,
            )


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
    assert (
        describe_difference(labels(style="a very long value of a column"), labels(), 0)[0]
        == "looks different"
    )


def test_words_of_another_vocabulary_are_spoken_of_by_their_type():
    captions = {
        caption
        for seed in range(20)
        for caption in describe_difference(labels(), labels(fabric="bamboo"), seed)
    }
    assert captions == {"is made of bamboo", "made of bamboo"}


def random_labels(chance):
    lists = labels()
    for word in chance.sample(sorted(GROUP_OF), chance.randint(1, 12)):
        lists[GROUP_OF[word].kind].append(word)
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

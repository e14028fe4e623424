"""What holds after several turns."""

import pytest
from hypothesis import given, settings, strategies as st

from fashioniq.language.wishes import Wishes

from .conftest import said


def after(reader, *turns):
    """Wishes in short after turns: texts, or texts with the labels of the product they are about."""
    wishes = Wishes()
    for turn in turns:
        text, labels = turn if isinstance(turn, tuple) else (turn, None)
        wishes = wishes.after(reader.read(text), labels, reader.lexicon)
    return wishes


def held(reader, *turns):
    return [said(wish) for wish in after(reader, *turns).held]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (["is red", "has long sleeves"], ["red", "long sleeve"]),
        (["is red", "is green"], ["green"]),
        (["red and white", "green"], ["green"]),
        (["red or green"], ["green|red"]),
        (["red or green", "not red"], ["green", "not red"]),
        (["is red", "not red"], ["not red"]),
        (["not red", "is red"], ["red"]),
        (["not red", "is green"], ["not red", "green"]),
        (["striped", "floral"], ["floral"]),
        (["has a belt", "has pockets"], ["belt", "pockets"]),
        (["has a belt", "without a belt"], ["not belt"]),
        (["v-neck", "square neck"], ["square neck"]),
        (["red, not striped", "green instead of red"], ["not striped", "green", "not red"]),
        (["red, long sleeves", "any color"], ["long sleeve"]),
        (["red with a belt", "never mind the belt"], ["red"]),
        (["red without a belt", "the belt doesn't matter"], ["red"]),
        (["red", "start over"], []),
        (["red", "start over, green please"], ["green"]),
        (["red, floral", "any color but red"], ["floral", "not red"]),
        (["red", "qwrtz"], ["red"]),
    ],
)
def test_wishes_hold_until_they_are_contradicted_or_taken_back(turns, expected, english):
    assert held(english, *turns) == expected


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("longer", {"mini"})], ["knee length|maxi"]),
        ([("longer", {"knee length"})], ["maxi"]),
        ([("longer", {"maxi"})], ["maxi"]),
        (["longer"], ["maxi"]),
        (["shorter"], ["mini"]),
        ([("longer", {"red"})], ["maxi"]),
        ([("not so long", {"maxi"})], ["knee length|mini"]),
        (["not too short"], ["not mini"]),
        (["not too short, not too long"], ["not mini", "not maxi"]),
        ([("not too short, not too long", {"knee length"})], ["not mini", "not maxi"]),
        ([("not too long and not too short", {"mini"})], ["not mini", "not maxi"]),
        (["mini", "not so short"], ["not mini"]),
        (["too short"], ["maxi"]),
        (["not long enough"], ["maxi"]),
        ([("longer, but not too long", {"mini"})], ["knee length", "not maxi"]),
        ([("a bit shorter but not too short", {"maxi"})], ["knee length", "not mini"]),
        (["red but not too bright"], ["red"]),
        (["sleeves not too short"], ["not short sleeve|sleeveless|strapless"]),
        ([("looser", {"fitted"})], ["loose|straight fit"]),
        ([("longer sleeves", {"sleeveless"})], ["long sleeve|short sleeve|three quarter sleeve"]),
        ([("shorter sleeves", {"short sleeve"})], ["sleeveless|strapless"]),
        ([("darker", {"white"})], ["black|navy blue"]),
        (["maxi", ("shorter", {"maxi"})], ["knee length|mini"]),
        ([("shorter", {"maxi"}), "maxi"], ["maxi"]),
        ([("shorter", {"maxi"}), ("shorter", {"knee length"})], ["mini"]),
        ([("longer but not maxi", {"mini"})], ["knee length", "not maxi"]),
        (["not maxi", ("longer", {"mini"})], ["not maxi", "knee length"]),
    ],
)
def test_steps_are_resolved_by_the_labels_of_the_product(turns, expected, english):
    assert sorted(held(english, *turns)) == sorted(expected)


def test_what_no_longer_holds_is_no_longer_asserted(english):
    assert after(english, "a red dress", "with long sleeves").asserted == ("red dress", "long sleeve")
    assert after(english, "a red dress", "green instead").asserted == ("dress", "green")
    assert after(english, "a red dress", "not red").asserted == ("dress", "")


def test_labels_that_products_have_together_are_no_alternatives(english):
    lexicon = english.lexicon
    assert lexicon.alternatives({"v-neck"}, {"square neck"}, "neck")
    lexicon_of_both = type(lexicon).of(
        {
            "A": [[], [], [], [], ["bell sleeve", "long sleeve"], []],
            "B": [[], [], [], [], ["long sleeve"], []],
        },
        [],
        [],
        "en",
    )
    assert not lexicon_of_both.alternatives({"bell sleeve"}, {"long sleeve"}, "sleeves")


PHRASES_USED = """red;not red;green or red;not green;longer;shorter;maxi;not maxi;mini;long sleeves;no sleeves;blue
longer sleeves;shorter sleeves;without a belt;with a belt;floral;not floral;patterned;not patterned;darker;lighter
not blue;any color;never mind the belt;start over;under 50 euros;cheaper;qwrtz;odette;not odette;looser;fitted
red instead of green;not so long;too tight"""
PHRASES = st.sampled_from(PHRASES_USED.replace("\n", ";").split(";"))
LABELS = st.none() | st.sets(
    st.sampled_from(
        ["red", "navy blue", "maxi", "mini", "long sleeve", "sleeveless", "belt", "fitted", "floral"]
    )
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(PHRASES, min_size=1, max_size=3).map(", ".join), LABELS), max_size=5))
def test_no_label_is_both_wanted_and_denied(english, turns):
    wishes = Wishes()
    for text, labels in turns:
        wishes = wishes.after(english.read(text), labels, english.lexicon, 4999)
    wanted = {label for wish in wishes.held if not wish.denied for label in wish.labels}
    denied = {label for wish in wishes.held if wish.denied for label in wish.labels}
    assert not wanted & denied
    assert all(wish.labels or wish.text for wish in wishes.held)
    assert len(wishes.asserted) <= len(turns)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(PHRASES, max_size=4), st.sampled_from(["any color", "any length", "any sleeves", "start over"])
)
def test_what_is_taken_back_is_gone(english, texts, taken_back):
    request = english.read(taken_back)
    wishes = after(english, *texts, taken_back)
    families = {wish.family for wish in wishes.held}
    assert not families & request.taken_back
    assert "*" not in request.taken_back or not wishes.held

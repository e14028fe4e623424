"""Products that a request names by their place among those shown."""

import pytest

ENGLISH = {
    "shorter than the first one": 0,
    "like the second, in green": 1,
    "the third one, but without a belt": 2,
    "the fourth dress in navy": 3,
    "I like the 5th": 4,
    "more formal than the eighth": 7,
    "The second is too short": 1,
    "second one in blue": 1,
    "the second of these": 1,
    "for a wedding on the 2nd of May": None,
    "first I want red": None,
    "for the first time": None,
    "the first thing I want is red": None,
    "the second hand one": None,
    "the second neckline": None,
    "my first dress": None,
    "not number 2, number 3": 2,
    "not number 2": 1,
    "option 2 looks nice": 1,
    "the second looks better": 1,
    "the number 3 with sleeves": 2,
    "a shirt with number 5 on it": None,
    "a jersey with the number 7": None,
    "has the number 8 on the front": None,
    "my number one choice is red": None,
    "the number one thing is pockets": None,
    "an item one can wear to work": None,
    "first": None,
    "is red": None,
}
GERMAN = {
    "kürzer als das erste": 0,
    "wie das zweite, in grün": 1,
    "das dritte Kleid, aber ohne Gürtel": 2,
    "länger als die vierte": 3,
    "zum ersten Mal": None,
    "das erste Mal": None,
    "nicht Nummer 2, Nummer 3": 2,
    "die Nummer 3 in Rot": 2,
    "ein Trikot mit der Nummer 7": None,
    "rot": None,
}


@pytest.mark.parametrize("text", ENGLISH)
def test_a_product_is_named_by_its_place(text, english):
    assert english.read(text).place == ENGLISH[text]


@pytest.mark.parametrize("text", GERMAN)
def test_a_product_is_named_by_its_place_in_german(text, german):
    assert german.read(text).place == GERMAN[text]


@pytest.mark.parametrize(
    ("text", "like"),
    [("like the second, in red", True), ("the second, in red", False), ("like the second one", True)],
)
def test_like_a_place_may_show_the_product_again_and_the_place_is_no_unknown_word(text, like, english):
    request = english.read(text)
    assert (
        request.like_shown == like
        and not request.unknown
        and request.known == (("red",) if "red" in text else ())
    )


@pytest.mark.parametrize(
    "text",
    ["show me others", "Something else, please.", "none of these!", "do you have anything else?", "ok, more", "next",
     "show me other dresses", "a different dress?", "none of these dresses", "zeig mir andere", "hast du noch was anderes?", "die gefallen mir nicht", "nichts davon", "mehr davon bitte"],
)  # fmt: skip
def test_a_request_for_others_is_nothing_else(text, english, german):
    requests = [reader.read(text) for reader in (english, german)]
    assert [one for one in requests if one.others and not one.wishes]


@pytest.mark.parametrize(
    "text",
    [
        "show more skin",
        "something else in red",
        "more sleeves",
        "please",
        "",
        "?",
        "other colors",
        "not these red ones",
        "other red dresses",
        "a dress",
        "others under 50 euros",
        "others, any color",
    ],
)
def test_a_request_with_more_is_not_for_others(text, english):
    request = english.read(text)
    assert not request.others

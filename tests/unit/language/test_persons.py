"""Whom a product is for: a wish where titles or labels tell people apart, and no word at all elsewhere."""

import pytest

from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.wishes import Wishes


def reader_of(titles, labels=(), language="en"):
    """Reader of a catalog with these titles and how many products have each, or lists of labels with their numbers."""
    lists = [words for words, count in labels for _ in range(count)] or [["dress"]] * 20
    products = {f"p{number}": [words, [], [], [], [], []] for number, words in enumerate(lists)}
    spread = [title for title, count in titles for _ in range(count)]
    return Reader(Lexicon.of(products, spread, [], language))


APART = [("Anna Women Dress", 17), ("Bella Girls Dress", 3)]


@pytest.mark.parametrize(
    ("text", "words", "denied"),
    [
        ("a dress for a lady", "women", False),
        ("women's dress", "women", False),
        ("women's anna dress", "women", False),
        ("dress women", "women", False),
        ("girls", "girls", False),
        ("for girls", "girls", False),
        ("a girl dress", "girls", False),
        ("not for girls", "girls", True),
    ],
)
def test_people_are_a_wish_in_the_words_of_the_titles_that_tell_them_apart(text, words, denied):
    wish = reader_of(APART).read(text).wishes[0]
    assert (wish.words.removesuffix("'s"), wish.denied, wish.labels) == (words, denied, frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "for my wife",
        "for a girls trip",
        "for men",
        "for her",
        "oh man, i love it",
        "hey girl show me dresses",
        "like the girl in the picture",
        "the dress the woman is wearing",
        "it should not look like an old lady",
        "a man made dress",
    ],
)
def test_other_people_and_people_whom_no_product_is_for_are_no_wish(text):
    assert reader_of(APART).read(text).wishes == ()


@pytest.mark.parametrize("titles", [[("Women Dress", 20)], [("Women Dress", 400), ("Girls Dress", 19)]])
def test_people_are_no_wish_where_nearly_all_titles_say_the_same(titles):
    labels = [(["dress"], sum(count for _, count in titles))]
    request = reader_of(titles, labels).read("a dress for women")
    assert request.wishes == () and request.unknown == ()


def test_people_that_are_labels_are_obeyed_as_labels():
    (wish,) = reader_of([], [(["dress", "women"], 12), (["dress", "men"], 8)]).read("for a lady").wishes
    assert wish.labels == {"women"}


def test_a_german_shop_tells_people_apart():
    (wish,) = (
        reader_of([("Kleid Damen", 12), ("Kleid Mädchen", 8)], language="de").read("für eine frau").wishes
    )
    assert wish.words == "damen"


def held_after(reader, *texts):
    wishes = Wishes()
    for text in texts:
        wishes = wishes.after(reader.read(text), None, reader.lexicon)
    return sorted(wish.words for wish in wishes.held)


@pytest.mark.parametrize(
    ("first", "then", "held"),
    [
        ("a dress for girls", "no, for women", ["women"]),
        ("a dress by anna", "by bella instead", ["bella"]),
        ("a dress by anna for women", "in bella", ["bella", "women"]),
        ("a dress by anna or bella", "for women", ["anna", "bella", "women"]),
        ("a dress by anna", "not by bella", ["anna", "bella"]),
        ("a dress by anna", "the brand does not matter", []),
        ("a dress by anna for women", "any brand", ["women"]),
    ],
)
def test_other_people_and_another_name_replace_earlier_ones(first, then, held):
    assert held_after(reader_of(APART), first, then) == held


def test_words_in_titles_that_do_not_begin_them_are_no_names():
    titles = [("Anna Odette Dress", 3), ("Bella Corsage Dress", 3), ("Corsage", 1), ("Zora Odette", 1)]
    assert held_after(reader_of(titles), "odette", "corsage") == ["corsage", "odette"]
    assert held_after(reader_of(titles), "bella", "zora") == ["bella", "zora"]  # begins a single title


def test_a_name_that_is_a_day_of_the_week_is_no_date():
    reader = reader_of([("Sunday Loom Dress", 6), ("Anna Dress", 6)])
    assert held_after(reader, "dresses from sunday") == ["sunday"]
    assert held_after(reader, "I need a dress for friday, by anna") == ["anna"]
    assert reader.read("I need it on friday").unknown == ()


def test_attributes_that_begin_titles_are_no_names_without_labels():
    titles = [("Red Maxi Dress", 5), ("Striped Maxi Dress", 5), ("Vintage Lace Dress", 5)]
    reader = reader_of(titles, [(["dress"], 15)])
    assert held_after(reader, "red", "something striped", "vintage", "any brand") == [
        "red",
        "striped",
        "vintage",
    ]


def test_a_name_of_two_words_is_replaced_whole():
    reader = reader_of([("Calvin Klein Dress", 6), ("Anna Dress", 6)])
    assert held_after(reader, "by calvin klein", "by anna") == ["anna"]
    assert held_after(reader, "by calvin klein", "any brand") == []


def test_a_step_beside_the_brand_is_one_of_its_own_scale():
    reader = reader_of(APART, [(["dress", "mini"], 5), (["dress", "midi"], 5), (["dress", "maxi"], 5)])
    for text in ("the same brand in longer", "longer of the same brand"):
        assert [(wish.family, wish.step) for wish in reader.read(text).wishes] == [("length", 1)]


def test_other_words_for_the_same_people_are_looked_for_as_one_where_people_are_told_apart():
    lexicon = reader_of(
        [("Anna Women Dress", 9), ("Bella Ladies' Dress", 8), ("Cora Girls Dress", 3)]
    ).lexicon
    same = {lexicon.token(word) for word in ("Women", "womens", "women's", "ladies'", "lady", "woman")}
    assert len(same) == 1 and lexicon.token("girls") == lexicon.token("girl") not in same
    alike = reader_of([("Anna Women Dress", 12), ("Bella Ladies Dress", 8)]).lexicon
    assert alike.token("women") != alike.token("ladies") == alike.stem("ladies")

"""Places, corrections, unknown words, and texts of any kind."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from fashioniq.data.words import tokenize
from fashioniq.language.colors import difference, lab_of, named_colors
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.spelling import Speller

from .conftest import ENGLISH, GERMAN, in_short, lexicon_of

WORDS = """not no without or and , . ; ? ! - -> / ( ) instead of rather than less more too enough so long red
long sleeves belt swap for from to any color never mind doesn't matter a free 50 € under size M ä é İ ß ﬁ than isn't
dark sleeves start over like this nicht kein statt Ärmel zu lang egal Farbe oder unter Größe"""
ANY = st.text(max_size=600) | st.lists(st.sampled_from([*WORDS.split(), "\x00", "\u200d"]), max_size=30).map(
    " ".join
)


@settings(max_examples=400, deadline=None)
@given(ANY)
def test_any_text_is_read(english, german, text):
    for reader in (english, german):
        request = reader.read(text)
        assert request == Reader(reader.lexicon).read(text)
        for wish in request.wishes:
            start, end = wish.place
            assert 0 <= start < end <= len(text)
            assert text[start:end] == wish.text
        assert request.understood or not request.asserted


@pytest.mark.parametrize("text", ["not sleeves enough", "less sleeves enough", "too sleeve enough"])
def test_a_noun_before_enough_is_read(text, english):
    """Such a noun was taken out by its own step, which then had no place."""
    (wish,) = english.read(text).wishes
    assert (wish.family, abs(wish.step), wish.denied) == ("sleeves", 1, False)


@pytest.mark.parametrize(
    "text",
    ["", "   ", "is in the than", "please show me something", "qwrtz", "платье", "赤い", "12345", "!?"],
)
def test_fillers_and_unknown_words_are_not_understood(text, english):
    assert not english.read(text).understood


@pytest.mark.parametrize(
    ("text", "labels", "interpreted"),
    [
        ("navy", {"navy blue"}, False),  # a part of its name
        ("plain", {"solid"}, True),
        ("crimson", {"red"}, True),
        ("fuchsia", {"pink"}, True),  # of a line of synonyms; in Lab it is nearer to violet
    ],
)
def test_words_of_a_label_name_it_and_others_are_interpreted(text, labels, interpreted):
    colors = ["navy blue", "red", "violet", "pink", "solid"]
    shirts = {f"{color}-{n}": [["polo shirt"], [color]] for color in colors for n in range(8)}
    (wish,) = Reader(Lexicon.of(shirts, [], [], "en")).read(text).wishes
    assert (wish.labels, wish.interpreted) == (labels, interpreted)


@pytest.mark.parametrize(
    ("language", "pattern", "denied"),
    [
        ("english", "is {}", False),
        ("english", "a {} one", False),
        ("english", "not {}", True),
        ("english", "instead of {}", True),
        ("german", "ist {}", False),
        ("german", "nicht {}", True),
        ("german", "statt {}", True),
    ],
)
def test_every_label_of_a_catalog_is_read(language, pattern, denied, request):
    reader = request.getfixturevalue(language)
    for label in {label for words in (ENGLISH, GERMAN) for family in words.values() for label in family}:
        if label in reader.lexicon.labels - reader.lexicon.common:
            (wish,) = reader.read(pattern.format(label)).wishes
            assert (wish.labels, wish.denied) == ({label}, denied)


def test_unknown_words_are_named(english):
    request = english.read("a red qwrtz платье")
    assert request.unknown == ("qwrtz", "платье")
    assert request.known == ("red",)


def test_places_are_those_of_the_text_as_written(english):
    (wish,) = english.read("  with LONG  Sleeves!").wishes
    assert (wish.text, wish.place) == ("LONG  Sleeves", (7, 20))


def test_letters_with_separate_accents(german):
    (wish,) = german.read("gru\u0308n").wishes
    assert wish.labels == {"grün"}
    assert wish.text == "gru\u0308n"


def test_what_was_changed_is_said(english):
    assert english.read("strpied").changed == (("strpied", "striped"),)
    assert english.read("wiht long slevees").changed == (("wiht", "with"), ("slevees", "sleeves"))
    assert english.read("crimson").changed == (("crimson", "red"),)
    assert english.read("flowers and dots").changed == ()
    assert english.read("reddress").changed == ()


def test_the_corrected_text_keeps_the_rest(english):
    assert english.read("A  strpied dress, plaese!").corrected == "A  striped dress, please!"
    assert english.read("is red").corrected == "is red"


def test_asserted_words_are_wanted_ones(english):
    request = english.read("a crimson gown from Odette without a belt, longer")
    assert request.asserted == "crimson red gown dress odette"


@pytest.mark.parametrize("word", ["blank", "lose", "life", "book", "hat", "part", "number", "rad", "slack"])
def test_other_words_are_not_corrected(word, english):
    assert not english.read(word).changed


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a rde dress", "red"),
        ("is pnk", "pink"),
        ("gren", "green"),
        ("whate", "white"),
        ("prown", "brown"),
        ("kne length", "knee"),
    ],
)
def test_short_words_that_are_none_are_corrected_to_labels(text, right, english):
    assert [new for _, new in english.read(text).changed] == [right]


@pytest.mark.parametrize("word", ["mühle", "feder", "rat", "boot", "tor"])
def test_german_words_are_not_corrected(word, german):
    assert not german.read(word).changed


def test_frequent_words_and_neighbors_on_the_keyboard_are_preferred():
    speller = Speller({"straps": 500, "stripes": 5, "belt": 100, "bell": 100}, ["qwertyuiop", "asdfghjkl"])
    assert speller.correct("strapes") == "straps"
    assert speller.correct("belr") == "belt"
    assert speller.correct("xyz") is None


def test_a_short_word_is_corrected_only_to_words_that_occur():
    speller = Speller({"lace": 10}, ["qwertyuiop"], labels=["svg", "lace"])
    assert speller.correct("svv", word_itself=False) is None
    assert speller.correct("lac", word_itself=False) == "lace"


def test_letters_that_sound_alike_are_preferred_and_other_words_keep_theirs():
    speller = Speller({"pink": 10, "sink": 10}, ["qwertyuiop"], alike=["bp"])
    assert speller.correct("bink", word_itself=False) == "pink"
    assert speller.correct("bink") is None


def test_colors_are_the_nearest_in_lab():
    assert lab_of("#ffffff") == pytest.approx((100, 0, 0), abs=0.02)
    assert lab_of("#ff0000") == pytest.approx((53.24, 80.09, 67.20), abs=0.02)
    named = named_colors()
    assert difference(named["crimson"], named["red"]) < difference(named["crimson"], named["pink"])
    assert difference(named["navy"], named["navy"]) == 0


def test_a_color_far_from_all_of_the_catalog_is_none():
    reader = Reader(Lexicon.of({"A": [["dress"], ["pink"], [], [], [], []]}, [], [], "en"))
    assert reader.read("navy blue").wishes == ()
    assert [wish.labels for wish in reader.read("salmon").wishes] == [{"pink"}]


def test_words_of_other_families_are_no_colors(english):
    for word in ("leather", "denim", "velvet"):
        assert all(wish.family != "colour" for wish in english.read(word).wishes)


def test_labels_of_any_catalog_keep_their_own_families():
    labels = {
        "A": [
            ["shirt"],
            ["stripes", "palm tree"],
            ["slub"],
            ["regular"],
            ["kangaroo pocket"],
            ["red", "please"],
        ]
    }
    lexicon = Lexicon.of(labels, [], [], "en")
    reader = Reader(lexicon)
    found = {
        wish.text: (set(wish.labels), wish.family)
        for wish in reader.read("striped, red, palm trees, slub, kangaroo pockets, normal fit, please").wishes
    }
    assert found == {
        "striped": ({"stripes"}, "pattern"),
        "red": ({"red"}, "colour"),
        "palm trees": ({"palm tree"}, "print"),
        "slub": ({"slub"}, "pattern"),
        "kangaroo pockets": ({"kangaroo pocket"}, "detail"),
        "normal fit": ({"regular"}, "fit"),
    }
    assert lexicon.levels("fit") == ({"regular"},)


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_catalog_without_labels_has_free_words_only(language):
    reader = Reader(Lexicon.of({}, ["Odette Rot"], [], language))
    request = reader.read("odette rot xqzw")
    assert [wish.labels for wish in request.wishes] == [frozenset(), frozenset()]
    assert request.unknown == ("xqzw",)


def corrected_right(shared, category):
    """Whether each real misspelling of a word about garments is corrected right."""
    attributes = shared / "fashioniq" / "attributes"
    labels = {
        name: lists
        for path in sorted(attributes.glob(f"asin2attr.{category}.*.json"))
        for name, lists in json.loads(path.read_text()).items()
    }
    titles = [
        product["title"] or ""
        for path in sorted((shared / "fashioniq" / "titles").glob(f"*{category}*.json"))
        for product in json.loads(path.read_text()).values()
    ]
    captions = json.loads((shared / "fashioniq" / "captions" / f"cap.{category}.train.json").read_text())
    count = {}
    for word in (word for pair in captions for caption in pair["captions"] for word in tokenize(caption)):
        count[word] = count.get(word, 0) + 1
    words = sorted((word for word in count if count[word] > 1), key=lambda word: (-count[word], word))
    lexicon = Lexicon.of(labels, titles, words, "en")
    reader, rules = Reader(lexicon), lexicon.grammar
    corrections = json.loads(
        (shared / "fashioniq_descriptions" / f"correction_dict_{category}.json").read_text()
    )

    def meaning(text):
        word = text.lower().replace(" ", "").replace("-", "")
        term = lexicon.find(tuple(tokenize(text)))
        return (
            rules.nouns.get(word) or rules.steps.get(word) or (term.labels if term and term.labels else None)
        )

    def same(one, other):
        stems = [[lexicon.stem(word) for word in tokenize(text)] for text in (one, other)]
        return (
            meaning(one) == meaning(other)
            or stems[0] == stems[1]
            or one.replace(" ", "") == other.replace(" ", "")
        )

    return [
        same(reader.read(f"has {wrong}").corrected.removeprefix("has "), right)
        for wrong, right in corrections.items()
        if wrong != right and len(wrong) > 3 and meaning(right) and not meaning(wrong)
    ]


def test_real_misspellings(shared):
    judged = [right for category in ("dress", "shirt") for right in corrected_right(shared, category)]
    assert len(judged) > 200
    assert sum(judged) >= 0.89 * len(judged), f"{sum(judged)} of {len(judged)}"


@pytest.mark.parametrize(("shirts", "common"), [(90, True), (80, True), (70, False), (55, False)])
def test_a_garment_that_most_products_are_says_something_if_many_are_another(shirts, common):
    names = ["shirt"] * shirts + ["dress"] * (100 - shirts)
    lexicon = Lexicon.of({str(n): [[name], [], [], [], [], []] for n, name in enumerate(names)}, [], [], "en")
    assert lexicon.common == ({"shirt"} if common else set())
    assert bool(Reader(lexicon).read("is a shirt").wishes) != common
    untold = {str(n): [["shirt"] if n < 55 else [], ["red"], [], [], [], []] for n in range(100)}
    assert Lexicon.of(untold, [], [], "en").common == {"shirt"}


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("no short dresses", "not mini"),
        ("I don't want a dress with lace", "not lace"),
        ("no dresses", "not dress"),
        ("not a dress but a skirt", "not dress, skirt"),
        ("instead of a red dress a black skirt", "not red, black, skirt"),
        ("a skirt, not a red dress", "skirt, not red"),
        ("dresses are not for me", "not dress"),
    ],
)
def test_the_kind_of_a_garment_is_denied_and_not_the_garment(phrase, expected):
    reader = Reader(lexicon_of({**ENGLISH, "garment": ["dress", "skirt"]}, "en"))
    assert in_short(reader.read(phrase)) == expected

"""What words add to the score of each product: wishes by labels or their probabilities, and BM25."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fashioniq.data.wording import Weights, obeying
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.wishes import Wish, Wishes
from fashioniq.loop.labels import evidence, kinds_of
from fashioniq.loop.wording import Wording

COLORS, PATTERNS = ("red", "light blue", "black"), ("floral", "striped")
LENGTHS, SLEEVES = ("mini", "knee length", "maxi"), ("sleeveless", "long sleeve")


def products():
    """36 products with every combination of labels, by id."""
    found = {}
    for color in COLORS:
        for pattern in PATTERNS:
            for length in LENGTHS:
                for sleeves in SLEEVES:
                    style = "smart casual" if length == "maxi" else "casual" if color == "red" else "party"
                    found[f"P{len(found)}"] = [["dress"], [color, pattern], [], [length], [sleeves], [style]]
    return found


LABELS = products()
NAMES = ["Odette", "Odette Marie", "Linnea"]
TITLES = {name: f"{NAMES[number % 3]} dress" for number, name in enumerate(LABELS)}
IDS = list(LABELS)
WORDS = ["is", "and", "with", "has", "longer", "red", "not"]
LEXICON = Lexicon.of(LABELS, TITLES.values(), WORDS, "en")
OWN = [frozenset(label for some in LABELS[name] for label in some) for name in IDS]
TEXTS = [" ".join([TITLES[name], *(label for some in LABELS[name] for label in some)]) for name in IDS]


class Seen:
    """Probabilities of labels, the same for all products of the first half, and of the second."""

    def __init__(self, **chances):
        self.chances = {name.replace("_", " "): pair for name, pair in chances.items()}

    def probability(self, label):
        if label not in self.chances:
            return None
        return np.repeat(np.float32(self.chances[label]), len(IDS) // 2)

    def likely(self, item):
        return [label for label in self.chances if self.probability(label)[item] >= 0.5]


def wording(lexical=0.0, wanted=0.0, denied=0.0, labels=OWN, texts=TEXTS, seen=None, memory=1.0):
    return Wording(LEXICON, Weights(lexical, wanted, denied, memory), labels, texts, seen)


def bonus_of(text, found, item=None):
    return found.bonus(found.after(Wishes(), text, item))


def having(*labels, every=True):
    """1 for each product that has all of the labels, or any."""
    return np.float32([(all if every else any)(label in own for label in labels) for own in OWN])


def test_a_wish_in_words_that_the_retriever_never_saw_has_twice_the_full_weight():
    weights = Weights(wanted=0.125, denied=2, memory=0.5, full=0.25)
    found = Wording(LEXICON, weights, OWN, TEXTS, learned=["is", "red", "not", "less"])
    for text, expected in {
        "is red": 0.125 * having("red"),
        "is floral": 0.5 * having("floral"),
        "is not red": -2 * having("red"),
        "is not floral": -2 * having("floral"),
        "is less red": -0.25 * having("red"),
        "is less floral": -0.5 * having("floral"),
        "is red and floral": 0.125 * having("red") + 0.5 * having("floral"),
    }.items():
        assert np.array_equal(bonus_of(text, found, item=0), expected), text
    later = found.after(found.after(Wishes(), "is floral", 0), "is red", 0)
    assert np.array_equal(found.bonus(later), 0.25 * having("floral") + 0.125 * having("red"))
    obeys = Wording(LEXICON, Weights(wanted=2, denied=2), OWN, TEXTS, learned=["is"])
    assert np.array_equal(bonus_of("is floral", obeys), 2 * having("floral"))  # outweighs similarity already


def test_small_weights_are_those_of_words_about_a_product_and_what_is_said_without_one_is_obeyed():
    """Captions, which small weights are chosen by, say how a product differs from the one shown."""
    small = Weights(lexical=0.04, wanted=0.125, denied=2, memory=0.5, full=0.25)
    for text in ("is red", "is crimson", "is shorter", "without stripes", "by novara", "a floral maxi dress"):
        found, obeys = (Wording(LEXICON, weights, OWN, TEXTS) for weights in (small, obeying(0.04)))
        assert np.array_equal(bonus_of(text, found), bonus_of(text, obeys)), text
    first = found.after(Wishes(), "is red", None)
    kept = found.bonus(found.after(first, "is floral", 0)) - found.bonus(
        found.after(Wishes(), "is floral", 0)
    )
    assert kept.min() >= 0 and kept.max() >= 2  # and does not fade
    nothing = Wording(LEXICON, Weights(lexical=0.04, memory=0.5, full=0.0), OWN, TEXTS)
    assert bonus_of("is red", nothing).max() < 1  # where labels tell nothing


def titled(name):
    """1 for each product whose title has a word."""
    return np.float32([name in TITLES[one] for one in IDS])


def test_words_of_titles_that_are_no_label_and_no_vector_has_are_looked_for():
    """A brand is no label, and captions seldom name it."""
    obeys = Wording(LEXICON, Weights(0, 2, 2, interpreted=0.5), OWN, TEXTS, learned=WORDS)
    for text, expected in {
        "odette": titled("Odette"),
        "a red dress by odette": 2 * having("red") + titled("Odette"),
        "not by odette": -2 * titled("Odette"),
        "crimson": 0.5 * having("red"),
    }.items():
        assert np.array_equal(bonus_of(text, obeys), expected), text
    wishes = obeys.after(Wishes(), "a red dress by odette", None)
    assert np.array_equal(obeys.obeying(wishes), having("red") > 0)  # what is counted are labels
    (_, has, adds) = next(one for one in obeys.score_of(wishes, 0).wishes if one[0].text == "odette")
    assert has == adds == float("Odette" in TITLES[IDS[0]])
    fitted = Wording(LEXICON, Weights(wanted=0.125, denied=0.25, memory=0.5), OWN, TEXTS, learned=WORDS)
    assert np.array_equal(bonus_of("odette", fitted), 0.5 * titled("Odette"))
    later = fitted.after(fitted.after(Wishes(), "odette", None), "is red", None)
    assert np.array_equal(fitted.bonus(later), 0.25 * titled("Odette") + 0.125 * having("red"))
    heard = Wording(LEXICON, Weights(0, 2, 2, interpreted=0.5), OWN, TEXTS, learned=[*WORDS, "odette"])
    assert not bonus_of("odette", heard).any()  # vectors follow it


def test_a_label_that_is_chosen_counts_like_one_that_is_said():
    found = wording(lexical=0.5, wanted=0.25, denied=1.0, memory=0.5)
    chosen = found.wished(Wishes(), "red")
    assert (chosen.held[0].text, chosen.held[0].place) == ("red", (0, 3))
    assert chosen.asserted == ("red",) and np.array_equal(found.bonus(chosen), bonus_of("red", found))
    assert (found.bonus(chosen) > 0.25)[having("red") > 0].all()  # BM25 counts, too
    against = found.wished(Wishes(), "red", denied=True)
    assert against.asserted == ("",) and np.array_equal(found.bonus(against), -having("red"))


def test_only_labels_of_the_catalog_have_a_family_and_a_chosen_one_takes_the_place_of_another_color():
    found = wording(wanted=1.0, denied=1.0)
    families = [
        found.family_of(name) for name in ("red", "light blue", "casual", "mini", "crimson", "zorgle")
    ]
    assert families == ["colour", "colour", "style", "length", None, None]
    said = found.after(found.after(Wishes(), "is red", None), "is floral", None)
    assert np.array_equal(found.bonus(found.wished(said, "black")), having("black") + having("floral"))


def obeying_words(titles, learned=WORDS, name=""):
    """A wording whose wishes outweigh any similarity, of products with these titles."""
    lexicon = Lexicon.of(LABELS, titles, [*WORDS, "by", "dress"], "en")
    texts = [f"{title} {' '.join(labels)}" for title, labels in zip(titles, OWN, strict=True)]
    return Wording(lexicon, Weights(0, 2, 2, interpreted=0.5), OWN, texts, learned=learned, name=name)


def test_many_words_of_titles_weigh_no_more_than_one_together():
    titles = ["Zora harbor violin dress", "Zora dress", *["plain dress"] * 34]
    found = obeying_words(titles)
    bonus_N = bonus_of("a zora dress with a harbor and a violin, not floral", found)
    assert bonus_N[0] == pytest.approx(1 - 2 * having("floral")[0])
    assert bonus_N[1] == pytest.approx(1 / 3 - 2 * having("floral")[1]) and bonus_N[2] <= 0


def test_names_with_accents_and_misspelled_ones_are_looked_for():
    titles = ["Chloé dress", *["Remanika dress"] * 9, *["plain dress"] * 26]
    found = obeying_words(titles)
    for text, expected in {"by chloe": titles[0], "by chloé": titles[0], "by remanka": titles[1]}.items():
        assert np.array_equal(bonus_of(text, found) > 0, [title == expected for title in titles]), text


def test_a_name_is_taken_back_and_denied():
    found = obeying_words([f"{('Novara', 'Zelda')[number % 2]} dress" for number in range(36)])
    wishes = found.after(found.after(Wishes(), "by novara", None), "forget novara", None)
    assert not found.bonus(wishes).any()
    wishes = found.after(found.after(Wishes(), "by novara", None), "not novara", None)
    assert found.bonus(wishes).tolist() == [-2.0, 0.0] * 18


def test_a_scale_is_not_looked_for_in_texts():
    found = obeying_words(["short sleeves dress", *["plain dress"] * 35])
    assert set(bonus_of("short", found).tolist()) <= {0.0, 0.5}


def test_the_name_of_the_category_weighs_less_than_other_garments():
    labels = {f"p{n}": [["top" if n % 2 else "tunic"], [], [], [], [], []] for n in range(40)}
    own = [frozenset(lists[0]) for lists in labels.values()]
    found = Wording(
        Lexicon.of(labels, [], WORDS, "en"), Weights(0, 2, 2, interpreted=0.5), own, [""] * 40, name="top"
    )
    assert bonus_of("a top", found).tolist() == [0.0, 0.5] * 20
    assert bonus_of("a tunic", found).tolist() == [2.0, 0.0] * 20
    assert bonus_of("not a top", found).tolist() == [0.0, -0.5] * 20
    assert bonus_of("not a tunic", found).tolist() == [-2.0, 0.0] * 20


def test_another_color_in_a_title_is_looked_for_too():
    texts = ["crimson dress", *TEXTS[1:]]
    lexicon = Lexicon.of(LABELS, [*TITLES.values(), "crimson dress"], WORDS, "en")
    found = Wording(lexicon, Weights(0, 2, 2, interpreted=0.5), OWN, texts, learned=WORDS)
    named_N = np.float32([number == 0 for number in range(len(IDS))])
    assert np.array_equal(bonus_of("crimson", found), 0.5 * having("red") + named_N)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red", 2 * having("red")),
        ("is red and floral", 2 * having("red") + 2 * having("floral")),
        ("a striped dress with long sleeves", 2 * having("striped") + 2 * having("long sleeve")),
        ("red or black", 2 * having("red", "black", every=False)),
        ("blue", 2 * having("light blue")),
        ("not red", -5 * having("red")),
        ("is not floral, and red", -5 * having("floral") + 2 * having("red")),
        ("red instead of black", 2 * having("red") - 5 * having("black")),
        ("zorgle", np.zeros(36)),
        ("", np.zeros(36)),
    ],
)
def test_wishes_lift_the_products_that_meet_them_and_denials_lower_those_that_do_not(text, expected):
    assert bonus_of(text, wording(wanted=2, denied=5)).tolist() == expected.tolist()


def test_a_wish_for_any_of_several_labels_counts_once():
    any_of = Wishes((Wish(frozenset({"red", "floral"}), "red floral", (0, 1)),))
    assert wording(wanted=1).bonus(any_of).tolist() == having("red", "floral", every=False).tolist()


def test_a_denied_label_is_denied_with_its_kinds_and_a_wanted_one_is_wanted_as_it_is():
    kinds = having("casual", "smart casual", every=False)
    assert bonus_of("not casual", wording(denied=1)).tolist() == (-kinds).tolist()
    assert bonus_of("casual", wording(wanted=1)).tolist()[IDS.index("P0")] == 1
    assert bonus_of("not smart casual", wording(denied=1)).tolist() == (-having("smart casual")).tolist()


def test_the_kinds_of_a_label_are_the_others_that_end_with_its_words():
    labels = [
        "casual",
        "smart casual",
        "very smart casual",
        "v neck",
        "deep v neck",
        "bottleneck",
        "neck line",
    ]
    assert kinds_of(labels) == {
        "casual": {"smart casual", "very smart casual"},
        "smart casual": {"very smart casual"},
        "v neck": {"deep v neck"},
    }


def test_a_label_that_is_chosen_is_a_wish_as_if_it_were_said():
    found = wording()
    for label in ("red", "knee length", "floral"):
        assert found.wished(Wishes(), label).held == found.after(Wishes(), label, None).held
    red = found.wished(Wishes(), "red")
    assert [wish.text for wish in found.wished(red, "black").held] == ["black"]  # a dress has one color


def test_the_family_of_a_label_is_known_and_words_that_are_no_label_have_none():
    found = wording()
    assert found.family_of("red") == found.family_of("light blue") == LEXICON.find(("red",)).family != ""
    assert found.family_of("floral") not in (None, found.family_of("red"))
    assert found.family_of("zorgle") is None and found.family_of("crimson") is None  # a kind of red


@pytest.mark.parametrize(
    ("chance", "wanted", "denied"),
    [
        (1.0, 1, 1),
        (0.5, 1 - math.log(2) / 3, math.log(2) / 3),
        (math.exp(-1.5), 0.5, -math.log(1 - math.exp(-1.5)) / 3),
        (1 - math.exp(-1.5), 1 + math.log(1 - math.exp(-1.5)) / 3, 0.5),
        (0.01, 0, -math.log(0.99) / 3),
        (0.99, 1 + math.log(0.99) / 3, 1),
        (0.0, 0, 0),
    ],
)
def test_evidence_is_linear_in_the_logarithm_of_a_probability_and_from_0_to_1(chance, wanted, denied):
    """A probability of exp(-3) or less is none."""
    chance_N = np.full(2, chance, np.float32)
    assert evidence(chance_N, False) == pytest.approx([wanted] * 2, abs=1e-5)
    assert evidence(chance_N, True) == pytest.approx([denied] * 2, abs=1e-5)


def test_a_gallery_without_products_has_no_bonuses():
    empty = Wording(LEXICON, Weights(1, 1, 1), [], [])
    assert bonus_of("is red, not floral", empty).shape == (0,)


def test_a_step_is_taken_from_the_labels_of_the_product_talked_about():
    knee = next(item for item, own in enumerate(OWN) if "knee length" in own)
    longer = bonus_of("longer", wording(wanted=1, denied=3), knee)
    assert longer.tolist() == (having("maxi") - 3 * having("mini", "knee length", every=False)).tolist()
    shorter = bonus_of("shorter", wording(wanted=1), knee)
    assert shorter.tolist() == having("mini").tolist()


def test_wishes_of_earlier_turns_hold_until_they_are_contradicted():
    found = wording(wanted=1, denied=1)
    wishes = Wishes()
    for text in ("red", "not floral", "long sleeves"):
        wishes = found.after(wishes, text, None)
    expected = having("red") - having("floral") + having("long sleeve")
    assert found.bonus(wishes).tolist() == expected.tolist()
    changed = found.after(wishes, "is black", None)
    assert found.bonus(changed).tolist() == (expected - having("red") + having("black")).tolist()


@pytest.mark.parametrize("chance", [0.0, 0.05, 0.5, 0.7, 0.95, 1.0])
def test_a_product_without_labels_meets_a_wish_by_the_logarithm_of_its_probability(chance):
    found = wording(wanted=2, denied=4, labels=[None] * 36, seen=Seen(red=(chance, 0.5)))
    met, broken = (max(0, 1 + math.log(max(p, 1e-4)) / 3) for p in (chance, 1 - chance))
    half = 1 + math.log(0.5) / 3
    assert bonus_of("red", found) == pytest.approx(np.repeat([2 * met, 2 * half], 18), abs=1e-3)
    assert bonus_of("not red", found) == pytest.approx(
        np.repeat([4 * broken - 4, 4 * half - 4], 18), abs=1e-3
    )


def test_products_that_probably_have_all_of_it_are_first():
    chances = {"red": [0.95, 0.6, 0.2, 0.9], "striped": [0.1, 0.6, 0.95, 0.05]}

    class Each(Seen):
        def probability(self, label):
            return np.array(chances[label], np.float32) if label in chances else None

    found = wording(wanted=1, labels=[None] * 4, seen=Each())
    assert bonus_of("red and striped", found).argmax() == 1


def test_probabilities_count_only_for_products_without_labels():
    labels = [None if item % 2 else own for item, own in enumerate(OWN)]
    found = wording(wanted=1, labels=labels, seen=Seen(red=(1.0, 0.0)))
    expected = [float(item < 18) if item % 2 else having("red")[item] for item in range(36)]
    assert bonus_of("red", found).tolist() == expected
    assert not bonus_of("striped", found)[1::2].any()  # not known by sight


def test_labels_are_learned_for_products_without():
    labels = [None if item % 2 else own for item, own in enumerate(OWN)]
    found = {
        label: has_N.tolist() for label, has_N in wording(labels=labels, seen=Seen(red=(0.9, 0.1))).learned()
    }
    assert found == {"red": [item < 18 and item % 2 == 1 for item in range(36)]}
    assert not list(wording(seen=Seen(red=(0.9, 0.1))).learned()) and not list(
        wording(labels=labels).learned()
    )


def test_of_several_labels_the_most_probable_counts():
    found = wording(wanted=1, labels=[None] * 36, seen=Seen(red=(0.5, 0.0), black=(0.0, 1.0)))
    assert bonus_of("red or black", found) == pytest.approx(
        np.repeat([1 + math.log(0.5) / 3, 1.0], 18), abs=1e-3
    )


def test_the_labels_of_a_product_are_its_own_or_else_likely_ones():
    labels = [None, *OWN[1:]]
    found = wording(labels=labels, seen=Seen(red=(0.9, 0.0), maxi=(0.2, 0.0)))
    assert found.labels_of(0) == ["red"] and found.labels_of(1) == OWN[1]
    assert set(wording(labels=labels).labels_of(0)) == set()


def bm25(words, texts, k1=1.5, b=0.75):
    """Robertson's formula with Lucene's IDF, of stemmed words each of which counts once."""
    documents = [[LEXICON.stem(word) for word in tokenize(text)] for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = np.zeros(len(texts))
    for word in dict.fromkeys(LEXICON.stem(word) for word in words):
        having_it = sum(word in document for document in documents)
        idf = math.log(1 + (len(texts) - having_it + 0.5) / (having_it + 0.5))
        for number, document in enumerate(documents):
            often = document.count(word)
            scores[number] += idf * often / (often + k1 * (1 - b + b * len(document) / mean)) if often else 0
    return scores


def test_what_is_wanted_fades_with_later_turns_and_a_denial_does_not():
    found, wishes = wording(wanted=1, denied=1, memory=0.5), Wishes()
    for text in ("red", "not floral", "long sleeves"):
        wishes = found.after(wishes, text, None)
    faded = 0.25 * having("red") - having("floral") + having("long sleeve")
    assert found.bonus(wishes).tolist() == faded.tolist()
    again = found.after(wishes, "red", None)
    repeated = having("red") - having("floral") + 0.5 * having("long sleeve")
    assert found.bonus(again).tolist() == repeated.tolist()


def test_a_fresh_start_forgets_the_turns_before():
    found, wishes = wording(wanted=1, memory=0.5), Wishes()
    for text in ("red", "maxi", "start over, a black dress"):
        wishes = found.after(wishes, text, None)
    assert found.bonus(wishes).tolist() == having("black").tolist()


def test_asserted_words_fade_with_later_turns():
    found = wording(lexical=1.0, memory=0.5)
    bonus_N = found.bonus(Wishes(asserted=("odette", "striped", "maxi")))
    expected = 0.25 * bm25(["odette"], TEXTS) + 0.5 * bm25(["striped"], TEXTS) + bm25(["maxi"], TEXTS)
    assert bonus_N == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("asserted", "words"),
    [
        (("red",), ["red"]),
        (("odette striped", "maxi"), ["odette", "striped", "maxi"]),
        (("red", "red red"), ["red"]),
        (("zorgle red",), ["red"]),
    ],
)
def test_asserted_words_of_all_turns_add_their_bm25(asserted, words):
    found = wording(lexical=0.3)
    assert found.bonus(Wishes(asserted=asserted)) == pytest.approx(0.3 * bm25(words, TEXTS), abs=1e-5)


def test_forms_of_a_word_are_found_by_their_stem():
    found = wording(lexical=1.0)
    stripes, striped = (found.bonus(Wishes(asserted=(word,))) for word in ("stripes", "striped"))
    assert stripes.any() and np.array_equal(stripes, striped)


@pytest.mark.parametrize("texts", [[""] * 36, ["?!"] * 36])
def test_products_without_texts_have_no_bm25(texts):
    assert not wording(lexical=1.0, denied=1.0, texts=texts).bonus(Wishes(asserted=("red",))).any()
    assert not bonus_of("not odette", wording(denied=1.0, texts=texts)).any()


def test_denied_words_of_titles_lower_the_products_that_have_all_of_them():
    odette = np.float32(["odette" in title.lower() for title in TITLES.values()])
    assert bonus_of("not odette", wording(denied=2)).tolist() == (-2 * odette).tolist()
    both = Wishes((Wish(frozenset(), "Odette Marie", (0, 1), denied=True),))
    marie = np.float32(["marie" in title.lower() for title in TITLES.values()])
    assert wording(denied=2).bonus(both).tolist() == (-2 * marie).tolist()
    other = Wishes((Wish(frozenset(), "odette zorgle", (0, 1), denied=True),))
    assert not wording(denied=2).bonus(other).any()


def test_weights_scale_the_parts_and_zeros_leave_nothing():
    text = "a red dress with long sleeves, not floral"
    lexical, wishes = wording(1, 1, 1).parts(text, None)
    assert bonus_of(text, wording(0.5, 3, 3)) == pytest.approx(0.5 * lexical + 3 * wishes, abs=1e-5)
    assert not bonus_of(text, wording()).any()


def test_bonuses_are_float32_and_those_of_earlier_calls_stay():
    found = wording(wanted=1)
    first = bonus_of("red", found)
    kept = first.copy()
    first += 1  # a caller may do with it what it wants
    assert bonus_of("red", found).tolist() == kept.tolist() and kept.dtype == np.float32


CATALOG = SimpleNamespace(
    category="dresses",
    labels=LABELS,
    written_labels=LABELS,
    titles=TITLES,
    descriptions={},
    language="en",
    ids=lambda split: IDS[:24] if split == "train" else IDS[24:],
)


def test_the_wording_of_a_catalog_has_the_labels_and_titles_of_its_gallery():
    gallery = ["P30", "unlabelled", "P2"]
    catalog = SimpleNamespace(**vars(CATALOG) | {"labels": LABELS | {"unlabelled": [[]] * 6}})
    found = Wording.of(catalog, gallery, Vocabulary(WORDS), Weights(0, 1, 1), Seen(black=(1.0, 1.0)))
    assert [set(found.labels_of(item)) for item in (0, 2)] == [OWN[30], OWN[2]]
    assert list(found.labels_of(1)) == ["black"]  # six empty lists are no labels
    assert (
        not Wording.of(catalog, gallery, Vocabulary(WORDS), Weights(1, 0, 0))
        .bonus(Wishes(asserted=("zorgle",)))
        .any()
    )


def test_the_words_of_descriptions_count_in_lexical_search_beside_those_of_titles():
    described = SimpleNamespace(**vars(CATALOG) | {"descriptions": {IDS[2]: "a woman holding a zorgle"}})
    for catalog, expected in ((CATALOG, []), (described, [2])):
        found = Wording.of(catalog, IDS, Vocabulary(WORDS), Weights(1, 0, 0))
        assert found.bonus(Wishes(asserted=("zorgle",))).nonzero()[0].tolist() == expected
        assert found.bonus(Wishes(asserted=(TITLES[IDS[2]],)))[2] > 0


def test_without_words_neither_labels_nor_titles_of_the_gallery_count():
    def of(catalog):
        found = Wording.of(catalog, IDS[24:], Vocabulary(WORDS), Weights(1, 1, 1), words=False)
        texts = ("red", "not odette", "a linnea dress with long sleeves", "longer", "casual")
        return [(found.read(text), bonus_of(text, found, 3).tolist()) for text in texts]

    other = {name: [["zorgle"]] * 6 for name in IDS[24:]}
    replaced = SimpleNamespace(
        **vars(CATALOG) | {"labels": LABELS | other, "titles": dict.fromkeys(IDS, "a zorgle")}
    )
    assert of(CATALOG) == of(replaced)
    assert not any(any(bonus) for _, bonus in of(CATALOG))  # nothing is known by sight


def test_products_of_which_a_label_is_as_likely_as_not_have_it():
    found = wording(wanted=1, denied=1, labels=[None] * 36, seen=Seen(black=(0.5, 0.49)))
    for text, first_half in (("black", True), ("not black", False)):
        wishes = found.after(Wishes(), text, None)
        assert found.obeying(wishes).tolist() == [first_half] * 18 + [not first_half] * 18
        assert [found.obeys(wishes, item) for item in (0, 35)] == [first_half, not first_half]


@pytest.mark.parametrize(
    "text", ["a red dress with long sleeves, not floral", "not casual", "longer", "odette", ""]
)
@pytest.mark.parametrize("memory", [1.0, 0.5])
def test_the_parts_of_a_score_add_up_and_those_who_obey_are_the_same_one_by_one(text, memory):
    found = wording(0.3, 2, 5, memory=memory)
    knee = next(item for item, own in enumerate(OWN) if "knee length" in own)
    wishes = found.after(Wishes(), text, knee)
    wishes = wishes if memory == 1 else found.after(wishes, "is casual", None)
    bonus_N, obeys_N = found.bonus(wishes), found.obeying(wishes)
    for item in range(36):
        score = found.score_of(wishes, item)
        assert score.lexical + sum(part for *_, part in score.wishes) == pytest.approx(
            bonus_N[item], abs=1e-5
        )
        assert found.obeys(wishes, item) == obeys_N[item]
        if text == "longer" and memory == 1:
            assert [met for _, met, _ in score.wishes] == ["maxi" in OWN[item]]
    if text.startswith("a red") and memory == 1:
        assert obeys_N.tolist() == [{"red", "long sleeve"} <= own and "floral" not in own for own in OWN]


def test_what_is_interpreted_has_a_weight_of_its_own():
    found = Wording(LEXICON, Weights(wanted=2, denied=5, interpreted=0.5), OWN, TEXTS)
    knee = next(item for item, own in enumerate(OWN) if "knee length" in own)
    for said, expected in {
        "crimson": 0.5 * having("red"),
        "red": 2 * having("red"),
        "not crimson": -0.5 * having("red"),
        "is red and not crimson": 2 * having("red"),
        "longer": 0.5 * having("maxi") - 0.5 * having("mini", "knee length", every=False),
        "longer than knee length": 2 * having("maxi"),
    }.items():
        assert bonus_of(said, found, knee).tolist() == expected.tolist(), said


def test_alternatives_are_interpreted_if_all_of_them_are():
    found = wording()
    assert [wish.interpreted for wish in found.read("crimson or azure").wishes] == [True]
    assert [wish.interpreted for wish in found.read("red or azure").wishes] == [False]


def test_a_wish_for_people_finds_titles_with_another_word_for_them():
    titles = ["Anna women dress"] * 3 + ["Bella ladies dress"] * 3 + ["Cora girls dress"] * 3
    labels = {f"p{number}": [["dress"], [], [], [], [], []] for number in range(len(titles))}
    lexicon = Lexicon.of(labels, titles, ["dress"], "en")
    found = Wording(
        lexicon, Weights(0, 5, 5), [frozenset(["dress"])] * len(titles), titles, learned=["dress"]
    )
    wishes = found.after(Wishes(), "a dress for women", None)
    assert (found.bonus(wishes) > 0).tolist() == [True] * 6 + [False] * 3

"""Requests made from labels: their truth, their phrasings, and how results are judged."""

import json
import random
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from fashioniq.data.languages import LANGUAGES, language
from fashioniq.data.search_requests import RequestCase, RequestTruth, RequestTurn
from fashioniq.evaluation.requests import read_misspellings
from fashioniq.evaluation.requests.findable_products import RESULTS, FindableProducts
from fashioniq.evaluation.requests.judging import (
    BM25,
    CHANCE,
    RETURNED,
    judge_requests,
    rows_by_family,
    rows_by_searcher,
)
from fashioniq.evaluation.requests.kinds import KINDS, make_requests
from fashioniq.evaluation.requests.maker import Maker
from fashioniq.evaluation.requests.phrasings import NotPossible, RequestPhrasings, numbered, slots_of
from fashioniq.files import UserError
from fashioniq.sample.garments import random_garment
from fashioniq.sample.labels import labels_of

ENGLISH, GERMAN = language("en"), language("de")
CATEGORIES = ("dresses", "shirts", "tops")
FROM_LABELS = [name for name, kind in KINDS.items() if not kind.needs]
COLOURS = {"schwarz": 30, "weiß": 30, "rot": 30, "blau": 30, "gelb": 20}


class Offer(NamedTuple):
    price_minor: int | None
    currency: str | None
    sizes: tuple[str, ...]
    in_stock: bool | None


def drawn(category, count=400):
    chance = random.Random(category)
    return {f"{category}-{number}": labels_of(random_garment(category, chance)) for number in range(count)}


def shelf_of(labels, speech=ENGLISH, category="dresses", **options):
    return FindableProducts(labels, labels, speech, category, **options)


@pytest.fixture(scope="module")
def shelf():
    return shelf_of(drawn("dresses"), category="dresses")


@pytest.fixture(scope="module")
def requests(shelf):
    return make_requests(shelf, RequestPhrasings(ENGLISH), 25, 0, {"striped": ["stirped"], "red": ["rad"]})


class Oracle:
    def __init__(self, shelf, requests):
        self.right = {request.turns: shelf.obeying(request.truth) for request in requests}

    def search(self, turns):
        shown = {turn.about for turn in turns}
        return sorted(self.right[turns] - shown)


class Random:
    def __init__(self, shelf):
        self.ids, self.chance = list(shelf.ids), random.Random(0)

    def search(self, turns):
        return self.chance.sample(self.ids, RESULTS)


class Same:
    """Always finds the product talked about, then nothing."""

    def search(self, turns):
        return [turns[0].about] if turns[0].about else []


def test_a_catalog_with_labels_has_requests_of_every_kind_that_needs_no_more(requests):
    counts = Counter(request.kind for request in requests)
    assert set(counts) == {*FROM_LABELS, "misspelled by people"}
    assert all(counts[kind] == 25 for kind in FROM_LABELS)
    assert len(set(requests)) == len(requests)


def test_an_oracle_obeys_and_nothing_comes_back(shelf, requests):
    row, chance = rows_by_searcher(
        judge_requests(shelf, requests, {"oracle": Oracle(shelf, requests)}), len(shelf.ids)
    )
    assert all(row[request.kind] == 100 for request in requests)
    assert (row["mean"], row[RETURNED]) == (100, 0)
    assert chance["method"] == CHANCE and 5 < chance["mean"] < 40


def test_a_random_order_obeys_as_often_as_chance(shelf):
    requests = make_requests(shelf, RequestPhrasings(ENGLISH), 100, 0)
    row, chance = rows_by_searcher(judge_requests(shelf, requests, {"random": Random(shelf)}), len(shelf.ids))
    assert all(abs(row[kind] - chance[kind]) < 6 for kind in FROM_LABELS)
    assert abs(row["mean"] - chance["mean"]) < 1.5
    assert abs(row[RETURNED] - chance[RETURNED]) < 2


def test_missing_results_do_not_obey_and_a_product_that_comes_back_is_counted(shelf, requests):
    row, _ = rows_by_searcher(judge_requests(shelf, requests, {"same": Same()}), len(shelf.ids))
    assert row["one wish"] == 0 and row["denial"] == 0 and row[RETURNED] == 100


def test_a_single_right_result_is_an_eighth(shelf, requests):
    oracle = Oracle(shelf, requests)

    class First:
        def search(self, turns):
            return oracle.search(turns)[:1]

    row, _ = rows_by_searcher(judge_requests(shelf, requests, {"first": First()}), len(shelf.ids))
    assert {row[kind] for kind in FROM_LABELS} == {100 / RESULTS}


def test_shuffled_labels_destroy_what_an_oracle_finds(shelf, requests):
    labels = drawn("dresses")
    names = list(labels)
    random.Random(1).shuffle(names)
    other = shelf_of(dict(zip(names, labels.values(), strict=True)), category="dresses")
    row, _ = rows_by_searcher(
        judge_requests(other, requests, {"oracle": Oracle(shelf, requests)}), len(shelf.ids)
    )
    assert row["one wish"] < 35 and row["two wishes"] < 20 and row["instead of"] < 35


def test_the_same_seed_makes_the_same_requests_and_another_one_others(shelf, requests):
    by_people = {"red": ["rad"], "striped": ["stirped"]}
    again = make_requests(
        shelf_of(drawn("dresses"), category="dresses"), RequestPhrasings(ENGLISH), 25, 0, by_people
    )
    assert again == requests
    assert make_requests(shelf, RequestPhrasings(ENGLISH), 25, 1, by_people) != requests


def test_requests_of_a_kind_do_not_depend_on_how_many_are_made(shelf, requests):
    more = make_requests(shelf, RequestPhrasings(ENGLISH), 40, 0, {"striped": ["stirped"], "red": ["rad"]})
    for kind in FROM_LABELS:
        ours = [request for request in requests if request.kind == kind]
        assert [request for request in more if request.kind == kind][: len(ours)] == ours


@pytest.mark.parametrize("category", CATEGORIES)
def test_enough_products_obey_besides_the_one_talked_about(category):
    shelf = shelf_of(drawn(category), category=category)
    for request in make_requests(shelf, RequestPhrasings(ENGLISH), 25, 3):
        assert len(shelf.obeying(request.truth) - {*request.about}) >= RESULTS * len(request.turns)


def labels_wanted(request):
    return [words[0] for words in request.truth.wanted if words[0] != "dress"]


def test_the_product_talked_about_lacks_what_is_wanted_and_has_what_is_denied(shelf, requests):
    lacking = {"about a product", "wish and denial", "instead of", "comparison"}
    for request in requests:
        own = {label for name in request.about for label in shelf.labels_of[name]}
        if request.kind in lacking:
            assert request.about[0] not in shelf.obeying(request.truth)
        if request.kind in lacking - {"comparison"}:
            assert not own & {*labels_wanted(request)}
        if request.kind in {"denial", "two denials", "wish and denial", "instead of"}:
            assert {*request.truth.denied} <= own
        if request.kind in {
            "one wish",
            "memory",
            "a product without",
            "word order",
            "misspelled",
            "other words",
        }:
            assert not own
        if "by place" not in request.kind:
            assert all(turn.shown == ((turn.about,) if turn.about else ()) for turn in request.turns)


def named_by_place(request):
    (turn,) = request.turns
    (place,) = [
        place
        for place, word in enumerate(("first", "second", "third"))
        if word in re.findall(r"\w+", turn.text)
    ]
    assert turn.about is None and len({*turn.shown}) == 3
    return turn.shown[place]


def test_requests_by_place_are_about_the_product_that_has_it(shelf, requests):
    found = [request for request in requests if "by place" in request.kind]
    assert {request.kind for request in found} == {"wish by place", "comparison by place"}
    for request in found:
        about = named_by_place(request)
        assert about not in shelf.obeying(request.truth)
        if request.kind == "wish by place":
            assert all(_mentions(request.text, label) for label in labels_wanted(request))
            assert not {*labels_wanted(request)} & {*shelf.labels_of[about]}
    for kind in ("wish by place", "comparison by place"):
        places = {one.turns[0].shown.index(named_by_place(one)) for one in found if one.kind == kind}
        assert places == {0, 1, 2}


def test_wishes_of_all_turns_hold_and_a_changed_mind_only_for_its_last(shelf, requests):
    for request in requests:
        if request.kind == "memory":
            assert len(request.turns) == 2 and len(labels_wanted(request)) == 2
        if request.kind == "change of mind":
            second, last = labels_wanted(request)
            slots = [turn.text for turn in request.turns]
            assert len(slots) == 3 and not request.truth.denied
            assert _mentions(slots[1], second) and _mentions(slots[2], last)
            assert not _mentions(slots[0], second)


def _mentions(text, label):
    spoken = {"bohemian": "bohemian", "chevron": "chevron", "lettering": "lettering"}.get(label, label)
    words = {word.removesuffix("s") for word in re.findall(r"\w+", text)}
    return any(word.removesuffix("s") in words for word in re.findall(r"\w{3,}", spoken))


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_phrasing_says_its_labels_and_its_truth_is_theirs(category):
    """Each phrasing is filled in with labels that have its slots; the words said are those of the truth."""
    labels = drawn(category)
    titles = {
        name: f"{('Novara', 'Zelda', 'Breeze')[number % 3]} no. {number}"
        for number, name in enumerate(labels)
    }
    shelf, wording, seen = (
        shelf_of(labels, category=category, titles=titles),
        RequestPhrasings(ENGLISH),
        set(),
    )
    for kind, templates in wording.phrasings.items():
        for template in templates:
            wording._given["phrasings"] = {**wording.phrasings, kind: [template]}
            maker = Maker(kind, shelf, wording, 0, {})
            request = None
            for _ in range(600):
                with suppress(NotPossible):
                    request = KINDS[kind].draw(maker)
                    break
            if request is None:
                continue
            seen.add((kind, template))
            text = " ".join(turn.text for turn in request.turns)
            assert "{" not in text and not re.search(r"\ba [aeiou]|\ban [^aeiou]", text)
            assert len(request.turns) == template.count("|") + 1
            if kind != "other words":
                own = {words[0] for words in request.truth.wanted} - shelf.garments
                assert all(_mentions(text, label) for label in own | {*request.truth.denied}), text
                assert (
                    _mentions(text, request.truth.named)
                    if kind.startswith("name")
                    else not request.truth.named
                )
                if kind == "denial":
                    assert request.truth.denied and not own
                elif kind == "name":
                    assert not own
                elif "denial" not in kind and kind not in ("a product without", "instead of", "word order"):
                    assert own and not request.truth.denied
    every = {(kind, one) for kind, of in RequestPhrasings(ENGLISH).phrasings.items() for one in of}
    unseen = {(kind, one) for kind, one in every - seen if category == "dresses" or "thing" not in one}
    assert not unseen  # all shirts and tops are what a tee means


@pytest.mark.parametrize("code", LANGUAGES)
def test_common_kinds_have_six_phrasings_or_more(code):
    wording = RequestPhrasings(language(code))
    assert wording.phrasings.keys() == RequestPhrasings(ENGLISH).phrasings.keys()
    for of in (wording.phrasings, wording.offers, *wording.comparisons.values()):
        assert all(len(set(templates)) >= 6 for templates in of.values())
    assert wording.comparisons.keys() == wording.comparisons_by_place.keys() <= language(code).scales.keys()


def test_a_name_is_what_titles_begin_with_and_no_label():
    labels = {f"p{n}": [["dress"], ["red" if n % 2 else "blue"], [], [], [], []] for n in range(80)}
    begins = ["Novara Red", "Rare Red", "Red Novara", "Oh Red", "Dress"]  # of 16 products each
    titles = {name: f"{begins[number % 5]} {number}" for number, name in enumerate(labels)}
    shelf = shelf_of(
        labels | {"p80": [["dress"], ["red"], [], [], [], []]}, titles=titles | {"p80": "Single Red"}
    )
    assert [*shelf.titled] == ["novara"]  # the others are short, a label, a garment, or on one product
    found = make_requests(shelf, RequestPhrasings(ENGLISH), 20, 0)
    by_kind = {kind: [one for one in found if one.kind == kind] for kind in ("name", "name and wish")}
    assert all("novara" in one.text and one.truth.named == "novara" for of in by_kind.values() for one in of)
    named = {name for name, title in titles.items() if "Novara" in title}
    assert shelf.obeying(by_kind["name"][0].truth) == named and len(by_kind["name"]) == 8
    wished = by_kind["name and wish"][0].truth
    assert shelf.obeying(wished) == named & shelf.having[wished.wanted[-1][0]] and wished.wanted


def test_sixty_other_words_mean_labels_of_the_drawn_sample_and_are_none():
    words = RequestPhrasings(ENGLISH).other_words
    labels = {label for category in CATEGORIES for label in shelf_of(drawn(category)).group_of}
    assert len(words) == 60 and len({word.text for word in words}) == 60
    for word in words:
        assert word.text not in labels and labels & {*word.means}, word


def test_a_label_of_the_catalog_is_no_other_word():
    labels = {
        f"p{n}": [[], [], [], ["maxi"], [("crew neck", "round neck", "v-neck")[n % 3]], []] for n in range(60)
    }
    found = make_requests(shelf_of(labels), RequestPhrasings(ENGLISH), 20, 0)
    texts = [turn.text for request in found if request.kind == "other words" for turn in request.turns]
    assert texts and not any("crew neck" in text for text in texts)


@pytest.mark.parametrize("code", LANGUAGES)
def test_misspellings_differ_from_their_words_and_are_no_words_of_the_language(code):
    known = {
        *language(code).word_of,
        *(word for one in language(code).word_of.values() for word in one.split()),
    }
    misspellings = RequestPhrasings(language(code)).misspellings
    for word, wrong in misspellings.items():
        assert word not in wrong and len({*wrong}) == len(wrong)
        assert not {*wrong} & misspellings.keys() and not {*wrong} & known, word


def test_a_misspelled_request_has_one_wrong_word_of_its_label(shelf, requests):
    wrong = {one for many in RequestPhrasings(ENGLISH).misspellings.values() for one in many}
    for request in requests:
        number = sum(word in wrong for word in re.findall(r"\w+", request.text))
        assert number == {"misspelled": 1, "two misspelled": 2}.get(request.kind, 0), request


def test_comparisons_are_on_the_right_side_of_the_level(shelf, requests):
    scales, wording = ENGLISH.scales, RequestPhrasings(ENGLISH)
    for request in requests:
        text, phrasings = request.text, wording.comparisons
        if request.kind == "comparison by place":
            about, phrasings = named_by_place(request), wording.comparisons_by_place
            text = re.sub("first|second|third", "{ordinal}", text)
        elif request.kind == "comparison":
            (about,) = request.about
        else:
            continue
        family = next(one for one, ways in phrasings.items() if text in ways["more"] + ways["less"])
        more = text in phrasings[family]["more"]
        level = {label: number for number, words in enumerate(scales[family].levels) for label in words}

        def levels_of(name):
            return {level[label] for label in shelf.labels_of[name] if label in level}  # noqa: B023

        (before,) = levels_of(about)
        for name in shelf.obeying(request.truth):
            after = levels_of(name)
            if family == "colour":
                assert before not in after
            else:
                assert after and all(one > before if more else one < before for one in after)


def test_a_kind_of_a_label_obeys_it_and_violates_its_denial():
    labels = {"a": [[], ["navy blue"], [], [], [], []], "b": [[], ["blue", "white"], [], [], [], []]}
    shelf = shelf_of(labels | {"c": [[], ["red"], [], ["short"], ["short sleeve"], []], "d": [[]] * 6})
    assert shelf.obeying(RequestTruth(wanted=(("blue",),))) == {"a", "b"}
    assert shelf.obeying(RequestTruth(wanted=(("navy blue",),))) == {"a"}
    assert shelf.obeying(RequestTruth(denied=("blue",))) == {"c"}
    assert shelf.obeying(RequestTruth(denied=("white",))) == {"a", "c"}
    assert shelf.obeying(RequestTruth(wanted=(("red", "white"),))) == {"b", "c"}
    assert shelf.obeying(RequestTruth(wanted=(("velvet",),))) == set()


def test_a_garment_that_is_named_is_wanted_unless_it_is_the_name_of_the_category():
    labels = {
        f"{kind}{number}": [[kind], ["red"] if number % 2 else ["blue"], [], [], [], []]
        for kind in ("top", "tunic")
        for number in range(40)
    }
    shelf = shelf_of(labels, category="tops")
    for request in make_requests(shelf, RequestPhrasings(ENGLISH), 40, 0):
        text = request.text
        if request.kind in ("one wish", "denial"):
            assert (("tunic",) in request.truth.wanted) == bool(re.search(r"\btunics?\b", text)), text
            assert ("top",) not in request.truth.wanted


def test_a_german_catalog_has_german_requests():
    chance = random.Random(0)
    labels = {
        str(number): [
            ["kleid"],
            [chance.choice(list(COLOURS)), chance.choice(["gestreift", "geblümt", "einfarbig"])],
            ["baumwolle"],
            [chance.choice(["mini", "knielang", "maxi"])],
            [chance.choice(["ärmellos", "langärmelig"]), chance.choice(["taschen", "gürtel"])],
            ["elegant"],
        ]
        for number in range(400)
    }
    shelf = shelf_of(labels, GERMAN, category="kleider")
    requests = make_requests(shelf, RequestPhrasings(GERMAN), 40, 0)
    assert {request.kind for request in requests} == {*FROM_LABELS}
    texts = {turn.text for request in requests for turn in request.turns}
    assert "ein rotes kleid" in texts and any(text.startswith("ohne ") for text in texts)
    assert not any(re.search(r"\b(the|not|with|is)\b", text) for text in texts)
    row, _ = rows_by_searcher(
        judge_requests(shelf, requests, {"oracle": Oracle(shelf, requests)}), len(shelf.ids)
    )
    assert row["mean"] == 100


def test_prices_sizes_and_stock_are_asked_for_where_the_catalog_has_them():
    labels, chance = drawn("dresses", 200), random.Random(0)
    offers = {
        name: Offer(
            chance.randrange(1000, 9000), "EUR", tuple(chance.sample("SML", 2)), chance.random() < 0.5
        )
        for name in list(labels)[:150]
    }
    shelf = shelf_of(labels, offers=offers, category="dresses")
    requests = [
        one for one in make_requests(shelf, RequestPhrasings(ENGLISH), 20, 0) if KINDS[one.kind].needs
    ]
    assert {one.kind for one in requests} == {"price", "cheaper", "size", "stock"}
    for request in requests:
        right = shelf.obeying(request.truth)
        assert len(right) >= RESULTS and right <= offers.keys()
        if request.kind == "price":
            asked = 100 * int(re.search(r"\d+", request.text)[0])
            assert {name for name in offers if offers[name].price_minor <= asked} >= right
            assert all(offer.price_minor != asked for offer in offers.values())
        if request.kind == "cheaper":
            (about,) = request.about
            assert right == {one for one in offers if offers[one].price_minor < offers[about].price_minor}
        if request.kind == "size":
            assert right == {name for name in offers if request.truth.size in offers[name].sizes}
            assert request.truth.size in request.text
        if request.kind == "stock":
            assert right == {name for name in offers if offers[name].in_stock}


def test_bm25_finds_words_and_ignores_denials():
    texts = {str(number): "Red Dress v-neck" if number % 2 else "Blue Dress" for number in range(40)}
    search = BM25(texts, "en").search
    assert all(int(name) % 2 for name in search([RequestTurn("has a v-neck")]))
    assert all(int(name) % 2 for name in search([RequestTurn("not"), RequestTurn("red")]))
    assert len(search([RequestTurn("xyzzy")])) == RESULTS


def test_rows_by_family_have_the_share_of_their_requests(shelf, requests):
    found = judge_requests(shelf, requests, {"oracle": Oracle(shelf, requests), "same": Same()})
    families = rows_by_family(found, shelf)
    for kind in ("one wish", "denial"):
        rows = [row for row in families if row["kind"] == kind]
        assert sum(row["number"] for row in rows) == sum(request.kind == kind for request in requests)
        assert all(row["oracle"] == 100 and row["same"] == 0 for row in rows) and len(rows) > 4


def test_misspellings_of_people_are_single_words_that_resemble_their_corrections(tmp_path):
    path = Path(tmp_path / "corrections.json")
    path.write_text(
        json.dumps({"stirped": "Striped", "farker": "black", "vneck": "v neck", "rde": "red", "red": "red"})
    )
    assert read_misspellings(path) == {"striped": ["stirped"]}
    path.write_text('{"rde": 3}')
    with pytest.raises(UserError, match="expected corrections as strings"):
        read_misspellings(path)


def test_misspellings_of_people_in_the_released_captions(shared):
    found = read_misspellings(shared / "fashioniq_descriptions" / "correction_dict_dress.json")
    requests = make_requests(
        shelf_of(drawn("dresses"), category="dresses"), RequestPhrasings(ENGLISH), 30, 0, found
    )
    texts = [one.turns[0].text for one in requests if one.kind == "misspelled by people"]
    wrong = {one for many in found.values() for one in many}
    assert len(texts) == 30 and all({*re.findall(r"\w+", text)} & wrong for text in texts)


def test_slots_of_several_labels_are_numbered():
    assert slots_of("a {attr} {noun} | {with2}") == {"attr", "noun", "with2"}
    assert numbered({"bare": "red"}, 1) == {"bare": "red"} and numbered({"bare": "red"}, 2) == {
        "bare2": "red"
    }


def test_a_language_without_requests_is_refused():
    class Danish:
        code = "da"

    with pytest.raises(UserError, match="expected a catalog in one of de, en"):
        RequestPhrasings(Danish())


def test_the_products_that_turns_are_about():
    turns = (RequestTurn("red", "a", ("a",)), RequestTurn("not red"))
    assert RequestCase("denial", turns, RequestTruth(denied=("red",))).about == ["a"]

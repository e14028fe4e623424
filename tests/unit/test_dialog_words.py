"""A live dialog whose words count beside the vectors: wishes hold, corrections reach the retriever, undo and replay."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.offers import Offer
from fashioniq.data.search_requests import RequestTurn
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary
from fashioniq.evaluation.requests.judging import TrainedSearcher
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.wishes import OfferLimits
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.offers import Offers
from fashioniq.loop.rollout import System, rollout
from fashioniq.loop.wording import Wording
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.terminal.conversation import Conversation
from fashioniq.terminal.view import NONE_LEFT
from fashioniq.users.recorded import RecordedReplies

COLORS, SLEEVES = ("red", "black", "light blue"), ("sleeveless", "long sleeve")
LABELS = {
    f"p{number}": [["dress"], [COLORS[number % 3]], [], [], [SLEEVES[number % 2]], []] for number in range(24)
}
IDS = list(LABELS)
TITLES = {name: "Odette dress" if number < 5 else "Linnea dress" for number, name in enumerate(IDS)}
VOCABULARY = Vocabulary(["is", "red", "black", "with", "sleeves", "longer", "striped"])
OWN = [frozenset(label for some in LABELS[name] for label in some) for name in IDS]


def system():
    """A system that shows products, at random places, with words that outweigh them."""
    torch.manual_seed(0)
    config = RetrieverConfig(width=16, heads=2, hidden=32, layers=1)
    retriever = DialogRetriever(config, vocabulary=len(VOCABULARY), features=6, attributes=0)
    retriever.eval().requires_grad_(False)
    torch.nn.init.normal_(retriever.query.weight)
    items = Items.without_attributes(IDS, torch.randn(24, 6))
    gallery = Gallery(items, retriever.embed_images(items.features_ND))
    lexicon = Lexicon.of(LABELS, TITLES.values(), VOCABULARY.words, "en")
    texts = [f"{TITLES[name]} {' '.join(OWN[number])}" for number, name in enumerate(IDS)]
    wording = Wording(lexicon, Weights(0.1, 5, 5), OWN, texts)
    return System(retriever, BestItem(), gallery.with_scorer(wording), VOCABULARY, wording=wording)


def shown(live, count=4):
    return [product.id for product in live.nearest(count)]


def with_labels(*labels, without=()):
    return {
        name
        for name, own in zip(IDS, OWN, strict=True)
        if own.issuperset(labels) and not own.intersection(without)
    }


def test_wishes_hold_through_the_dialog_until_they_are_contradicted():
    live = Dialog.start(system()).say("is red")
    assert set(shown(live, 8)) == with_labels("red")
    live = live.say("with long sleeves")
    assert set(shown(live, 3)) <= with_labels("red", "long sleeve")
    live = live.say("is black")
    assert set(shown(live, 3)) <= with_labels("black", "long sleeve")
    live = live.say("not sleeveless, and not black")
    assert set(shown(live, 3)) <= with_labels("long sleeve", without=["black"])


def test_a_denial_about_a_product_leaves_it_and_its_like_behind():
    live = Dialog.start(system()).about("p3").say("anything but red")
    assert set(shown(live, 16)) == with_labels(without=["red"])
    assert "p3" not in shown(live, 24)


def test_a_product_talked_about_comes_back_if_it_is_asked_for():
    start = Dialog.start(system())
    assert "p3" not in shown(start.about("p3").say("is red"), 24)
    assert "p3" in shown(start.about("p3").say("like this but with sleeves"), 24)
    again = start.about("p3").say("like this but black").about("p4").say("is red")
    assert not {"p3", "p4"} & set(shown(again, 24))


@pytest.mark.parametrize("said", ["zorgle", "is with in than", "?!", "", "   "])
def test_a_request_of_which_nothing_is_understood_changes_nothing(said):
    start = Dialog.start(system())
    for live in (start, start.say("red"), start.say("red").about("p7")):
        assert live.say(said) is live


@pytest.mark.parametrize(
    ("said", "as_first"), [("start over", ""), ("start over, with sleeves", "with sleeves")]
)
def test_a_fresh_start_forgets_what_the_retriever_heard_and_can_be_undone(said, as_first):
    first = Dialog.start(system())
    live = first.say("is red").about("p3").say("longer").less_like("p4")
    again = live.say(said)
    assert torch.equal(again.query.vector_BD, first.say(as_first).query.vector_BD)
    assert shown(again, 24) == shown(first.say(as_first), 24) and again.undo() is live
    assert shown(again.about("p3").say("is red"), 24) == shown(
        first.say(as_first).about("p3").say("is red"), 24
    )


@pytest.mark.parametrize("said", ["start over", "start over, with sleeves"])
def test_a_fresh_start_leaves_the_product_that_a_dialog_began_with(said):
    first = Dialog.start(system())
    live = first.at("p3")
    again = live.say(said)
    assert torch.equal(again.query.vector_BD, first.say(said).query.vector_BD)
    assert shown(again, 24) == shown(first.say(said), 24) and again.undo() is live


def test_a_fresh_start_may_begin_with_the_product_talked_about():
    first = Dialog.start(system())
    live = first.say("is red").about("p3").say("start over, like this but black")
    assert shown(live, 24) == shown(first.about("p3").say("like this but black"), 24)


def test_a_first_request_starts_from_the_mean_and_words_decide():
    own = system()
    live = Dialog.start(own).say("is red")
    plain = Dialog.start(replace(own, wording=None, gallery=own.gallery.with_scorer(None))).say("is red")
    assert torch.equal(live.query.vector_BD, plain.query.vector_BD) and plain.query.wishes is None
    ordered = [name for name in shown(plain, 24) if name in with_labels("red")]
    assert shown(live, 8) == ordered  # among those that obey, the vectors decide


def test_a_correction_reaches_the_retriever_and_only_whole_words_are_replaced():
    own = system()
    assert own.corrected("is strpied") == "is striped"
    assert own.corrected("is crimson") == "is red"
    assert own.corrected("red dres") == "red dress"  # "dres" is a part of the word that it stands for
    said, meant = (Dialog.start(own).say(text) for text in ("is blakc", "is black"))
    assert torch.equal(said.query.vector_BD, meant.query.vector_BD)
    assert said.said == ["is blakc"] and shown(said, 8) == shown(meant, 8)
    assert own.read("is blakc").changed == (("blakc", "black"),)


def test_undo_and_replay_give_the_wishes_of_before():
    first = Dialog.start(system()).say("is red")
    second = first.about("p3").say("with long sleeves")
    assert second.undo().undo() is first or second.undo().query is first.query
    assert shown(second.undo(), 24) == shown(first, 24)
    steps = [DialogStep(("is red",)), DialogStep(("zorgle",)), DialogStep(("with long sleeves",), "p3")]
    replayed = Dialog.start(first.system).replay(steps)
    assert replayed.query.wishes == second.query.wishes and shown(replayed, 24) == shown(second, 24)
    assert torch.equal(replayed.query.vector_BD, second.query.vector_BD)
    assert replayed.said == ["is red", "with long sleeves"]


def test_more_like_a_product_shows_what_is_near_to_it_while_wishes_hold():
    start = Dialog.start(system())
    far_N = (start.system.gallery.vectors_ND - start.system.gallery.vectors_ND[1]).norm(dim=1)
    nearest = [IDS[place] for place in far_N.argsort()]
    assert shown(start.more_like("p1"), 24) == nearest
    live = start.say("is red").more_like("p1")
    red = with_labels("red")
    assert [name for name in shown(live, 24) if name in red] == shown(live, len(red))
    assert live.wishes == start.say("is red").wishes
    said = live.say("with long sleeves")
    assert set(shown(said, 3)) <= with_labels("red", "long sleeve") and "p1" not in shown(said, 24)


def test_the_product_offered_is_the_first_one_shown():
    live = Dialog.start(system())
    for text in ("is red", "with long sleeves", "is black", "not sleeveless"):
        live = live.say(text)
        assert live.offered == shown(live, 1)[0] == live.products(3)[0].id


def test_a_rollout_ranks_as_the_dialogs_with_persons_one_by_one():
    own = system()
    texts = [["is red", "with long sleeves"], ["not black", "striped"], ["zorgle", "is red"]]
    user = RecordedReplies([Message(texts=[said[turn] for said in texts]) for turn in range(2)])
    first_B, target_B = torch.tensor([0, 1, 2]), torch.tensor([9, 10, 11])
    dialogs = rollout(own, user, target_B, Message(item_B=first_B), 2)
    for row, said in enumerate(texts):
        live = Dialog.start(own).about(IDS[row]).say(said[0])
        if row < 2:  # a rollout goes on where a live dialog stands still
            live = live.about(IDS[int(dialogs.state.turns[1].offer.item_B[row])]).say(said[1])
            assert live.query.wishes == [dialogs.state.queries[1].wishes[row]]
            assert int(own.gallery.rank(live.query, target_B[row : row + 1])) == int(dialogs.ranks[row, 1])


def test_words_of_a_user_that_speaks_in_ids_count_as_its_texts():
    own, target_B, first = system(), torch.tensor([9, 10]), Message(item_B=torch.tensor([0, 1]))
    texts = ["is red with sleeves", "is black"]
    words_BTL = VOCABULARY.encode(texts, 5).unsqueeze(1)
    by_ids = rollout(own, RecordedReplies.of_words(words_BTL), target_B, first, 1)
    by_texts = rollout(own, RecordedReplies([Message(texts=texts)]), target_B, first, 1)
    assert by_ids.state.queries[0].wishes == by_texts.state.queries[0].wishes
    assert torch.equal(by_ids.ranks, by_texts.ranks)


def test_words_that_a_retriever_has_not_learned_count_in_recorded_replies_as_typed():
    own, target_B, first = system(), torch.tensor([3]), Message(item_B=torch.tensor([9]))
    own.wording.weights = Weights(5, 5, 5)
    text = "is an Odette with sleeves"
    words_BTL = VOCABULARY.encode([text], 5).unsqueeze(1)
    by_ids = rollout(own, RecordedReplies.of_words(words_BTL), target_B, first, 1)
    typed = rollout(own, RecordedReplies.of_words(words_BTL, [[text]]), target_B, first, 1)
    live = Dialog.start(own).about(IDS[9]).say(text)
    assert "odette" in typed.state.queries[0].wishes[0].asserted[0]
    assert typed.state.queries[0].wishes == live.query.wishes != by_ids.state.queries[0].wishes
    assert typed.ranks < by_ids.ranks


def test_without_wording_only_words_that_the_retriever_has_learned_are_understood():
    own = replace(system(), wording=None)
    request = own.read("crimson and red")
    assert request.known == ("red",) and request.unknown == ("crimson", "and")
    assert own.corrected("is blakc") == "is blakc"


def test_each_product_is_scored_once_for_a_list_of_any_length():
    """The cost of a product is its squared distance minus twice its bonus; the distance shown has the sign of the cost."""
    live = Dialog.start(system()).say("is red")
    products = live.nearest(24)
    bonus_N = live.system.wording.bonus(live.query.wishes[0])
    for product in products:
        item = IDS.index(product.id)
        far = (live.system.gallery.vectors_ND[item] - live.query.vector_BD[0]).double().norm().item()
        cost = far**2 - 2 * float(bonus_N[item])
        assert product.distance == pytest.approx(abs(cost) ** 0.5 * (1 if cost >= 0 else -1), abs=1e-4)
    assert [product.distance for product in products] == sorted(product.distance for product in products)


def test_the_product_offered_has_the_distance_that_it_has_in_the_list():
    live = Dialog.start(system()).say("is red")
    for listed in live.nearest(len(IDS)):
        (product,) = live.about(listed.id).products(1)
        assert product.id == listed.id and product.distance == pytest.approx(listed.distance, abs=1e-4)


def priced(offers):
    """The system with offers by id."""
    found = system()
    return replace(found, offers=Offers(IDS, lambda: offers, found.wording.size_name))


def test_limits_that_are_said_hold_until_they_are_taken_back():
    offers = {
        name: Offer(price_minor=1000 * (number + 1), currency="EUR", sizes=("S", "Medium")[number % 2 :], in_stock=number != 2)
        for number, name in enumerate(IDS)
    }  # fmt: skip
    live = Dialog.start(priced(offers)).say("is red under 100 euros")
    assert set(shown(live, 24)) == set(IDS[:10]) and set(shown(live)) == with_labels("red") & set(IDS[:10])
    assert live.offered in with_labels("red") & set(IDS[:10])
    small = live.say("in size S")
    assert set(shown(small, 24)) == set(
        IDS[:10:2]
    )  # also the one talked about, as "do you have it in S?" is about it
    assert "p2" not in shown(small.say("in stock"), 24) and set(shown(small.undo(), 24)) == set(IDS[:10])
    assert len(shown(small.say("any price").say("any size"), 24)) > 20
    cheaper = live.about("p5").say("cheaper")
    assert set(shown(cheaper, 24)) == set(IDS[:5])
    assert shown(cheaper.say("under 1 euro"), 24) == [] and cheaper.say("under 1 euro").offered in IDS
    assert Dialog.start(priced(offers)).say("is red").say("under 1 euro").offered in IDS


def test_other_currencies_and_unknown_offers_are_not_within_a_limit():
    offers = {
        "p0": Offer(price_minor=20, currency="JPY"),
        "p1": Offer(price_minor=4000, currency="EUR"),
        "p2": Offer(price_minor=7000, currency="EUR"),
        "p3": Offer(in_stock=True),
    }
    live = Dialog.start(priced(offers))
    assert shown(live.say("under 50"), 24) == ["p1"]  # euros, as most products
    assert shown(live.say("under 30 yen"), 24) == ["p0"] and shown(live.say("in stock"), 24) == ["p3"]
    assert live.say("under 50").unlimited == ()
    dollars = live.say("under 50 dollars")
    assert len(shown(dollars, 24)) == 24 and dollars.unlimited == ("currency",)
    in_m = live.say("in size M")
    assert len(shown(in_m, 24)) == 24 and in_m.unlimited == ("size",)
    assert live.about("p3").say("cheaper").unlimited == ("price",)  # the price of p3 is not known


def test_prices_are_in_hundredths_whatever_the_decimals_of_their_currency():
    offers = {
        "p0": Offer(price_minor=4999, currency="EUR"),
        "p1": Offer(price_minor=5000, currency="JPY"),
        "p2": Offer(price_minor=12345, currency="KWD"),
    }
    found = priced(offers).offers
    compared = [found.compared(OfferLimits(cheaper=1), item) for item in range(4)]
    assert [(limits.currency, price) for limits, price in compared] == [
        ("EUR", 4999),
        ("JPY", 500000),
        ("KWD", 1234),
        (None, None),
    ]
    assert found.allowed(OfferLimits(least_minor=500_000, currency="JPY")).nonzero().tolist() == [[1]]
    assert found.allowed(OfferLimits(most_minor=4998, currency="EUR")).nonzero().tolist() == []
    assert found.allowed(OfferLimits()) is None


def test_the_bounds_of_a_price_are_within_its_limits():
    prices = {
        f"p{n}": Offer(price_minor=price, currency="EUR") for n, price in enumerate((0, 1, 99, 100, 101))
    }
    found = priced(prices).offers

    def allowed(least, most):
        mask_N = found.allowed(OfferLimits(least_minor=least, most_minor=most, currency="EUR"))
        return mask_N.nonzero()[:, 0].tolist()

    assert allowed(1, 100) == [1, 2, 3] and allowed(100, None) == [3, 4] and allowed(None, 99) == [0, 1, 2]
    assert allowed(0, 0) == [0] and allowed(101, 101) == [4] and allowed(102, None) == []


def test_without_a_product_cheap_is_the_lowest_range_of_prices_and_expensive_the_highest():
    offers = {name: Offer(price_minor=1000 * (n + 1), currency="EUR") for n, name in enumerate(IDS)}
    live = Dialog.start(priced(offers))
    cheap, dear = live.say("cheap"), live.say("the most expensive")
    assert set(shown(cheap, 24)) == set(IDS[:4]) and set(shown(dear, 24)) == set(IDS[19:])
    assert cheap.wishes.limits == OfferLimits(most_minor=4999, currency="EUR") and cheap.unlimited == ()
    assert live.say("cheap, under 20 euros").wishes.limits == OfferLimits(most_minor=2000, currency="EUR")
    alike = priced({name: Offer(price_minor=500, currency="EUR") for name in IDS})
    assert Dialog.start(alike).say("cheap").unlimited == ("price",)


def test_nothing_is_limited_in_a_catalog_without_offers():
    live = Dialog.start(priced({})).say("red under 50 euros in size M in stock")
    assert set(shown(live)) <= with_labels("red") and live.unlimited == ("price", "size", "stock")
    assert live.about("p3").say("cheaper").unlimited == ("price", "size", "stock")


def test_like_this_alone_asks_for_products_like_the_one_talked_about():
    start = Dialog.start(system())
    assert start.say("like this") is start  # nothing was talked about
    about = start.say("is red").about("p7")
    assert shown(about.say("something like this"), 8) == shown(about.more_like("p7"), 8)
    assert about.say("not like this") is about


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        (OfferLimits(in_stock=True), ("stock",)),
        (OfferLimits(sizes=("m",)), ("size",)),
        (OfferLimits(least_minor=100), ("price",)),
        (OfferLimits(most_minor=100, in_stock=True), ("price", "stock")),
        (OfferLimits(cheaper=1), ("price",)),
        (OfferLimits(), ()),
    ],
)
def test_limits_of_what_is_known_of_no_product_are_told_and_left_out(limits, missing):
    assert Offers(IDS, dict, str).known(limits) == (OfferLimits(), missing)


def test_a_product_is_named_by_its_place_among_those_that_are_shown():
    shown_there = ["p1", "p4"]
    assert system().named("longer than the second one", shown_there) == "p4"
    assert system().named("like the first", shown_there) == "p1"
    assert system().named("longer than the third one", shown_there) is None
    assert system().named("is longer", shown_there) is system().named("like the first", []) is None


def test_a_request_by_place_is_searched_as_one_about_the_product_shown_there():
    turns = [RequestTurn("is red"), RequestTurn("is longer than the second one", shown=("p1", "p4", "p7"))]
    named = Dialog.start(system()).say("is red").about("p4").say("is longer than the second one")
    search = TrainedSearcher(system())
    assert search.search(turns) == shown(named, 8)
    other = [turns[0], RequestTurn(turns[1].text, shown=("p1", "p7", "p4"))]
    assert search.search(other) != search.search(turns)
    alone = [turns[0], RequestTurn(turns[1].text, shown=("p1",))]  # none is shown at this place
    assert search.search(alone) == shown(Dialog.start(system()).say("is red").say(turns[1].text), 8)
    assert search.search([RequestTurn("like the first, is red", "p5", ("p6",))]) == shown(
        Dialog.start(system()).about("p5").say("like the first, is red"), 8
    )


def test_another_color_is_not_that_of_the_product_nor_the_one_that_was_wanted():
    wanted = Dialog.start(system()).say("is red")
    for live in (wanted.say("another color"), wanted.about("p0").say("I don't like the color")):
        assert [(wish.labels, wish.denied) for wish in live.wishes.held] == [({"red"}, True)]
        assert set(shown(live, 16)) == with_labels("black") | with_labels("light blue")
    black = wanted.about("p1").say("in another color")
    assert [(wish.labels, wish.denied) for wish in black.wishes.held] == [({"black"}, True)]
    both = wanted.say("another color").about("p1").say("another color, please")
    assert set(shown(both, 8)) == with_labels("light blue")
    said = wanted.about("p1").say("in a different color, red")
    assert [(wish.labels, wish.denied) for wish in said.wishes.held] == [({"black"}, True), ({"red"}, False)]
    same = wanted.about("p0").say("in a different color, red")
    assert [(wish.labels, wish.denied) for wish in same.wishes.held] == [({"red"}, False)]
    before = Dialog.start(system()).about(None).say("is red").about(None)
    assert [(wish.labels, wish.denied) for wish in before.say("other colors").wishes.held] == [
        ({"red"}, True)
    ]


def test_other_sleeves_are_sleeves_but_not_those_of_the_product():
    live = Dialog.start(system())
    long = live.about("p1").say("different sleeves")
    assert [(wish.labels, wish.denied) for wish in long.wishes.held] == [({"long sleeve"}, True)]
    assert set(shown(long, 12)) == with_labels("sleeveless")
    assert set(shown(live.about("p0").say("different sleeves"), 12)) == with_labels("long sleeve")
    assert set(shown(long.about("p0").say("the sleeves are wrong"), 8)) < with_labels("long sleeve")


def test_something_else_is_all_but_what_is_shown_until_the_next_request():
    live = Dialog.start(system()).say("is red")
    first = shown(live, 8)
    assert live.offered == first[0]
    assert shown(live.say("something else"), 7) == first[1:]
    passed = live.pass_over([*first[:4], "gone"])
    assert shown(passed, 4) == first[4:] and shown(passed.pass_over(first[4:6]), 2) == first[6:]
    assert passed.offered == first[4] and passed.undo() is live
    for back in (passed.about("p0").say("is red"), passed.say("in stock"), passed.more_like("p0")):
        assert not back.passed
    everything = passed.pass_over(IDS)
    assert everything.nearest(8) == [] and shown(everything.say("is black"), 8)


def test_a_chat_passes_over_all_that_it_shows(capsys):
    live = Dialog.start(system()).say("is red")
    talk = Conversation(live, SimpleNamespace(show=lambda live: live.products(4)))
    first = shown(live, 8)
    assert not talk._ended_by("show me others") and [one.id for one in talk.products] == first[4:]
    for _ in range(10):
        talk._ended_by("none of these")
    assert NONE_LEFT in capsys.readouterr().out and talk.products

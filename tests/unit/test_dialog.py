"""A system that takes plain words, and a live dialog with one person."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from fashioniq.askers.attribute_questions import CandidateAware, Known
from fashioniq.askers.best_item import BestItem
from fashioniq.askers.limited import Limited
from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import UNKNOWN, Vocabulary
from fashioniq.features.cards import ItemCards
from fashioniq.files import UserError
from fashioniq.loop.dialog import AWAY, ChosenLabel, Dialog, DialogStep
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Turn
from fashioniq.loop.rollout import System
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.models.text import TextRetriever

N = 20
IDS = [f"p{number}" for number in range(N)]
VOCABULARY = Vocabulary([*"abcdefghij", "navy", "longer"])


def showing_system(exclude_shown=False):
    """A retriever that reads words and shows products; its products are at random places."""
    torch.manual_seed(0)
    config = RetrieverConfig(width=16, heads=2, hidden=32, layers=1)
    retriever = (
        DialogRetriever(config, vocabulary=len(VOCABULARY), features=6, attributes=4)
        .eval()
        .requires_grad_(False)
    )
    torch.nn.init.normal_(retriever.query.weight)
    items = Items(IDS, torch.randn(N, 6), torch.randint(1, 5, (N, 8)))
    cards = ItemCards({"p3": Path("p3.jpg")}, {"p3": "A dress"}, {"p3": ["navy"]})
    return System(
        retriever,
        BestItem(exclude_shown),
        Gallery(items, retriever.embed_images(items.features_ND)),
        VOCABULARY,
        cards,
    )


class Letters:
    """Encodes a text as how often the letters a to z occur."""

    def texts(self, texts):
        counts = [[1e-3 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        return torch.nn.functional.normalize(torch.tensor(counts), dim=1)


def asking_system(questions=2):
    vectors_ND = torch.nn.functional.normalize(
        torch.rand(N, 26, generator=torch.Generator().manual_seed(0)), dim=1
    )
    topics = [Known(f"{word}?", [word, "no"] * (N // 2)) for word in ("red", "long")]
    asker = Limited(CandidateAware(topics, 10), questions)
    return System(
        TextRetriever(Letters()), asker, Gallery(Items.without_attributes(IDS, vectors_ND), vectors_ND)
    )


def state_of(live):
    """All that a person can see of a dialog."""
    return live.offered, live.question, live.said, live.products(), live.chosen(None)


def test_plain_words_give_the_query_of_their_ids():
    system = showing_system()
    talk = system.start(1)
    offer = system.offer(talk)
    of_text = system.observe(talk, offer, Message(texts=["navy, LONGER b"]))
    of_ids = system.observe(talk, offer, Message(words_BL=VOCABULARY.encode(["navy longer b"], 8)))
    torch.testing.assert_close(of_text.queries[-1].vector_BD, of_ids.queries[-1].vector_BD)


def test_a_text_is_read_beyond_eight_words_and_up_to_a_bound():
    system, words = showing_system(), " ".join("abcdefghij")
    talk = system.start(1)

    def query(text):
        return system.observe(talk, system.offer(talk), Message(texts=[text])).queries[-1].vector_BD

    assert not torch.equal(query(words), query("a b c d e f g h"))
    assert torch.equal(query(f"{'a ' * 64}"), query(f"{'a ' * 64} navy longer"))


def test_unknown_words_do_not_count_towards_the_bound():
    system = showing_system()
    talk = system.start(1)

    def query(text):
        return system.observe(talk, system.offer(talk), Message(texts=[text])).queries[-1].vector_BD

    assert torch.equal(query(f"{'zorgle ' * 64} navy longer"), query("navy longer"))


def test_unknown_words_are_reported_once_each_and_change_nothing():
    system = showing_system()
    talk = system.start(2)
    talk = system.observe(
        talk, system.offer(talk), Message(texts=["navy zorgle longer Florp zorgle", "navy longer"])
    )
    request = system.read("navy zorgle longer Florp zorgle")
    assert (request.known, request.unknown) == (("navy", "longer"), ("zorgle", "florp"))
    assert not (talk.turns[0].words_BL == UNKNOWN).any()
    torch.testing.assert_close(*talk.queries[0].vector_BD)  # rows of a product can differ in the last bit
    assert system.read("zorgle navy").understood
    assert not system.read("zorgle").understood and not system.read("?!").understood


@pytest.mark.parametrize("said", ["zorgle", "?!", ""])
def test_a_reply_of_which_nothing_is_understood_changes_nothing(said):
    for live in (Dialog.start(showing_system()), Dialog.start(showing_system()).say("navy").about("p3")):
        assert live.say(said) is live


def test_a_system_with_an_open_vocabulary_has_no_unknown_words():
    system = asking_system()
    assert system.read("zorgle").unknown == () and system.read("zorgle").known == ("zorgle",)
    assert system.read("zorgle").understood and not system.read("?!").understood


def test_the_top_products_of_each_dialog_are_the_nearest_with_their_cards():
    system = showing_system()
    talk = system.start(3)
    talk = system.observe(talk, system.offer(talk), Message(texts=["navy", "longer", "a"]))
    top = system.top(talk, N)
    for row, products in enumerate(top):
        far_N = (system.gallery.vectors_ND - talk.queries[-1].vector_BD[row]).norm(dim=1)
        assert [product.id for product in products] == [IDS[place] for place in far_N.argsort()]
        assert [product.distance for product in products] == pytest.approx(
            far_N.sort().values.tolist(), abs=1e-5
        )
    card = next(product for product in top[0] if product.id == "p3")
    assert (card.title, card.attributes, card.picture) == ("A dress", ["navy"], Path("p3.jpg"))
    other = next(product for product in top[0] if product.id == "p4")
    assert (other.title, other.attributes, other.picture) == ("", [], None)
    assert len(system.top(talk, 2 * N)[0]) == N


def test_before_the_first_turn_typical_products_are_the_top_ones_of_each_dialog():
    system = showing_system()
    expected = Dialog.start(system).products(3)
    assert system.top(system.start(2), 3) == [expected, expected] and len(expected) == 3


def test_before_the_first_turn_typical_products_are_shown_and_none_is_offered():
    live = Dialog.start(showing_system())
    far_N = (live.system.gallery.vectors_ND - live.system.gallery.vectors_ND.mean(0)).norm(dim=1)
    assert [product.id for product in live.products(3)] == [IDS[place] for place in far_N.argsort()[:3]]
    assert live.offered is None and live.said == []


def test_before_the_first_turn_all_dialogs_of_a_batch_are_shown_typical_products():
    system = showing_system()
    far_N = (system.gallery.vectors_ND - system.gallery.vectors_ND.mean(0)).norm(dim=1)
    typical = [IDS[place] for place in far_N.argsort()[:10]]
    assert [[product.id for product in products] for products in system.top(system.start(3))] == [typical] * 3


def test_a_first_request_is_about_the_mean_of_the_gallery():
    system = showing_system()
    live = Dialog.start(system).say("navy and longer")
    words_BL = VOCABULARY.encode(["navy longer"], 2)
    no_features = ItemInputs(torch.zeros(1, 6), torch.zeros(1, 8, dtype=torch.long), system.gallery.mean_1D)
    turn = Turn(Message(), Message(words_BL=words_BL), no_features)
    by_hand_BD, _ = system.retriever.step(system.retriever.start(1), turn)
    assert torch.equal(live.query.vector_BD, by_hand_BD)
    assert torch.equal(live.state.turns[0].image_BD, torch.zeros(1, 6))
    assert live.exclude_1K is None and msgspec.to_builtins(live.chosen(None))["turns"][0]["offer"] == {}


def test_saying_something_shows_what_the_retriever_finds():
    live = Dialog.start(showing_system()).say("navy and longer")
    assert live.said == ["navy and longer"]
    assert live.products() == live.system.top(live.state)[0]
    assert live.offered == live.products()[0].id


def test_a_dialog_is_never_changed_and_undo_gives_an_earlier_one():
    first = Dialog.start(showing_system())
    before = state_of(first)
    second = first.say("navy")
    then = state_of(second)
    third = second.more_like("p3").say("longer")
    assert state_of(first) == before and state_of(second) == then
    assert third.undo().undo() is second and second.undo() is first and first.undo() is first
    assert state_of(second.undo().say("navy")) == then


def test_more_like_a_product_makes_it_the_offer_and_shows_what_is_near_to_it():
    start = Dialog.start(showing_system()).say("navy")
    live = start.more_like("p7")
    far_N = (live.system.gallery.vectors_ND - live.system.gallery.vectors_ND[7]).norm(dim=1)
    assert live.offered == "p7" and live.said == ["navy"]
    assert [product.id for product in live.products(4)] == [IDS[place] for place in far_N.argsort()[:4]]
    after = live.say("longer")
    turn = after.state.turns[-1]
    assert torch.equal(turn.image_BD, live.system.gallery.items.features_ND[7:8])
    assert msgspec.to_builtins(after.chosen(None))["turns"][1] == {
        "offer": {"item": "p7"},
        "reply": {"text": "longer"},
        "rank": None,
    }


def test_a_product_that_is_talked_about_but_is_far_takes_the_last_place_of_those_shown():
    live = Dialog.start(showing_system()).say("navy")
    near = [product.id for product in live.nearest(N)]
    far = live.about(near[-1])
    shown = far.products(4)
    assert [product.id for product in shown] == [*near[:3], near[-1]]
    assert shown[3].distance == pytest.approx(live.nearest(N)[-1].distance, abs=1e-5)
    assert live.about(near[3]).products(4) == live.nearest(4), "it is there already"


@pytest.mark.parametrize("ask", [lambda live: live.more_like("p3"), lambda live: live.about("p3")])
def test_a_product_that_was_named_is_offered_for_one_reply_only(ask):
    said = ask(Dialog.start(showing_system()).say("navy")).say("longer")
    assert said.named is None and not said.like and said.offered == said.nearest(1)[0].id != "p3"
    again = said.say("navy")
    assert torch.equal(
        again.state.turns[-1].image_BD, said.system.gallery.items.inputs(said.offer.item_B).features_BD
    )


def test_a_product_is_found_however_the_accents_of_its_id_are_written():
    system = showing_system()
    items = Items(["cafe\u0301", *IDS[1:]], system.gallery.items.features_ND, torch.zeros(N, 8))
    system = replace(system, gallery=Gallery(items, system.gallery.vectors_ND))
    assert Dialog.start(system).more_like("caf\u00e9").offered == "cafe\u0301"


def test_more_like_an_unknown_product_or_in_a_dialog_of_questions_is_refused():
    with pytest.raises(UserError, match="no product 'p99' in the gallery of 20"):
        Dialog.start(showing_system()).more_like("p99")
    with pytest.raises(UserError, match="cannot start from a product"):
        Dialog.start(asking_system()).more_like("p3")


@pytest.mark.parametrize("exclude_shown", [False, True])
def test_products_that_were_talked_about_do_not_come_back(exclude_shown):
    """The offer is the first of the products shown, also where the asker would repeat one."""
    live, talked_about = Dialog.start(showing_system(exclude_shown)), []
    for _ in range(6):
        live = live.say("navy")
        every = [product.id for product in live.system.top(live.state, N)[0]]
        left = [name for name in every if name not in talked_about]
        assert [product.id for product in live.products(N)] == left and live.offered == left[0]
        assert [product.id for product in live.nearest(2)] == left[:2]
        talked_about.append(live.offered)
    named = live.about("p7").say("longer")
    assert "p7" not in [product.id for product in named.products(N)]
    assert named.undo().undo().products(N) == live.undo().products(N)
    assert live.say("longer", about="p7").products(N) == named.products(N) != live.say("longer").products(N)


def test_a_product_that_is_asked_for_may_come_back():
    live = Dialog.start(showing_system()).say("navy")
    talked_about = live.offered
    said = live.say("longer")
    assert talked_about not in [product.id for product in said.nearest(N)]
    again = said.more_like(talked_about)
    assert again.nearest(N)[0].id == talked_about
    assert talked_about not in [product.id for product in again.say("navy").nearest(N)]


def test_when_all_products_were_talked_about_none_is_left_and_the_dialog_goes_on():
    live = Dialog.start(showing_system())
    for name in IDS:
        live = live.about(name).say("navy")
    assert live.nearest(N) == [] and live.offered in IDS
    assert [product.id for product in live.products(3)] == [live.offered]
    assert live.say("longer").said[-1] == "longer" and live.chosen(None).top == []


def test_a_system_asks_takes_answers_and_goes_on_without_questions():
    live = Dialog.start(asking_system())
    assert live.question == "" and live.offered is None
    live = live.say("a dress")
    asked = [live.question]
    live = live.say("is it? yes")
    asked.append(live.question)
    live = live.say("no")
    assert sorted(asked) == ["long?", "red?"] and live.question == ""
    live = live.say("something blue")
    assert live.said == [
        "a dress",
        "is it? yes",
        "no",
        "something blue",
    ]
    answered = live.state.rounds[0][1:3]
    assert [(said.question, said.answer) for said in answered] == [(asked[0], "is it? yes"), (asked[1], "no")]
    assert live.state.rounds == [["a dress", f"{asked[0]} is it? yes", f"{asked[1]} no", "something blue"]]


def test_a_dialog_is_logged_with_what_was_offered_and_said():
    live = Dialog.start(asking_system(1)).say("a\x1b[31m dress")
    question = live.question
    live = live.say("yes")
    record = msgspec.to_builtins(live.chosen("p5"))
    assert record["target"] == "p5" and record["turns"] == [
        {"offer": {}, "reply": {"text": "a [31m dress"}, "rank": None},
        {"offer": {"text": question}, "reply": {"text": "yes"}, "rank": None},
    ]
    assert record["top"] == [product.id for product in live.products(10)]
    assert json.loads(json.dumps(record)) == record


def test_a_reply_can_be_about_any_product_and_keeps_the_products():
    live = Dialog.start(showing_system())
    about = live.about("p7")
    assert about.offered == "p7" and about.query is live.query
    said = about.say("navy")
    other = live.about("p8").say("navy")
    assert not torch.equal(said.query.vector_BD, other.query.vector_BD)
    with pytest.raises(UserError, match="no product 'none'"):
        live.about("none")


def test_a_recorded_question_is_asked_again():
    live = Dialog.start(asking_system())
    described = live.say("a red dress")
    other, asked = described.about(question="is it odd?").say("no"), described.say("no")
    assert other.state.questions == [["is it odd?"]] and asked.state.questions == [[described.question]]
    steps = [DialogStep(("a red dress",)), DialogStep(("no",), question=described.question)]
    assert torch.equal(live.replay(steps).query.vector_BD, asked.query.vector_BD)


def test_a_recorded_dialog_about_products_is_replayed():
    live = Dialog.start(showing_system())
    said = (
        live.about("p7")
        .say("navy")
        .about("p7")
        .say("longer")
        .about("p2")
        .more_like("p2")
        .about("p2")
        .say("navy")
    )
    steps = [DialogStep(("navy", "longer"), "p7"), DialogStep(like="p2"), DialogStep(("navy",), "p2")]
    assert state_of(live.replay(steps)) == state_of(said)


def test_products_are_less_like_one_that_is_not_shown_again():
    start = Dialog.start(showing_system()).say("navy")
    disliked = start.nearest(1)[0].id
    live = start.less_like(disliked)
    vectors_ND, at = live.system.gallery.vectors_ND, IDS.index(disliked)
    away_1D = vectors_ND[at] - vectors_ND.mean(0)
    assert ((live.query.vector_BD - start.query.vector_BD) @ away_1D).item() < 0
    torch.testing.assert_close(live.query.vector_BD, start.query.vector_BD - AWAY * away_1D)
    for later in (live, live.say("longer"), live.more_like("p3"), live.say("longer").less_like("p2")):
        assert disliked not in [product.id for product in later.nearest(N)]
    said, other = live.say("longer"), start.about(live.offered).say("longer")
    torch.testing.assert_close(said.query.vector_BD, other.query.vector_BD - AWAY * away_1D)
    assert live.undo() is start
    with pytest.raises(UserError, match="say what should be different"):
        Dialog.start(asking_system()).less_like("p3")


def test_a_text_that_is_read_in_parts_is_one_step():
    live = Dialog.start(showing_system())
    step = DialogStep(("navy and a", "longer"), "p7", text="navy and a, longer")
    said = live.about("p7").say("navy and a").about("p7").say("longer")
    assert torch.equal(live.after(step).query.vector_BD, said.query.vector_BD)
    assert live.after(step).undo() is not said.undo() and live.after(step).undo().offered == "p7"


def test_a_label_that_is_chosen_is_wanted():
    assert ChosenLabel("red") == ChosenLabel("red", denied=False) != ChosenLabel("red", denied=True)


@pytest.mark.parametrize(
    ("count", "error"), [(0, ValueError), (-1, ValueError), ("5", TypeError), (2.0, TypeError)]
)
def test_a_number_of_products_is_an_integer_of_at_least_1(count, error):
    live = Dialog.start(showing_system())
    with pytest.raises(error, match=r"^expected (a number of products|at least 1 product), found "):
        live.products(count)
    assert len(live.products(torch.tensor(3))) == 3


@pytest.mark.parametrize("text", [None, 5, ["red"]])
def test_a_reply_is_a_text(text):
    with pytest.raises(TypeError, match="expected the text of a reply, found "):
        Dialog.start(showing_system()).say(text)

"""A search that obeys, by REST: wishes, denials, limits, facets and what holds, on a system that reads words."""

import pytest

from fashioniq.data.offers import Offer
from tests.unit.service.conftest import IDS, LABELS, OFFERS, Talking

PATH = "/v1/categories/skirts/search"


@pytest.fixture
def service(service_of):
    return service_of(("skirts-0",))


@pytest.fixture
def talking(client):
    return Talking(client, category="skirts")


def ids(answer):
    return [one["product_id"] for one in answer["results"]]


def having(*labels):
    """Ids of the products with all of these labels."""
    return {name for name, lists in LABELS.items() if set(labels) <= {*lists[1], *lists[4]}}


def held(answer):
    return [(one["text"], one["denied"]) for one in answer["holding"] if one["kind"] == "wish"]


def codes(answer):
    return [notice["code"] for notice in answer["notices"]]


def test_a_request_without_a_product_finds_what_it_says_in_the_whole_gallery(talking, client):
    answer = talking.turn(says="a red one with long sleeves", k=2).json()
    assert set(ids(answer)) == having("red", "long sleeve") and not answer["notices"]
    assert held(answer) == [("red", False), ("long sleeves", False)]
    assert all({"red", "long sleeve"} <= {why["word"] for why in one["why"]} for one in answer["results"])
    stateless = client.post(PATH, json={"turns": [{"says": "a red one with long sleeves"}], "k": 2}).json()
    assert stateless["results"] == answer["results"] and stateless["holding"] == answer["holding"]
    begun = Talking(client, category="skirts", start={"text": "a red one with long sleeves"}, k=2).started[
        "last"
    ]
    assert begun["results"] == answer["results"] and begun["heard"] == answer["heard"]


def test_what_was_understood_is_said_with_its_place(talking):
    heard = talking.turn(says="crimson, not striped, flurry and longer sleeves").json()["heard"]
    wishes = {one["text"]: one for one in heard["wishes"]}
    assert wishes["crimson"] == {
        "text": "crimson", "labels": ["red"], "family": "colour", "denied": False, "step": 0, "start": 0, "end": 7,
    }  # fmt: skip
    assert wishes["striped"]["denied"] and wishes["striped"]["labels"] == ["striped"]
    assert [one["step"] for one in heard["wishes"] if one["family"] == "sleeves"] == [1]
    assert {"said": "crimson", "meant": "red"} in heard["changed"] and heard["cut_after"] is None


def test_wishes_hold_until_they_are_contradicted_taken_back_or_undone(talking, service_of, client_of):
    talking.turn(says="red")
    both = talking.turn(says="not floral", k=4).json()
    assert set(ids(both)) <= having("red", "striped") and held(both) == [("red", False), ("floral", True)]
    blue = talking.turn(says="rather green", k=3).json()
    assert set(ids(blue)) <= having("green", "striped") and held(blue) == [("floral", True), ("green", False)]
    back = talking.request("DELETE", "/turns/3").json()
    assert held(back["last"]) == held(both) and ids(back["last"]) == ids(both)
    elsewhere = Talking.__new__(Talking)
    elsewhere.client, elsewhere.id, elsewhere.token = client_of(service_of(())), talking.id, talking.token
    assert ids(elsewhere.turn(says="rather green", k=3).json()) == ids(blue)
    every = elsewhere.turn(says="any color").json()
    assert held(every) == [("floral", True)]


def test_what_was_talked_about_does_not_come_back_unless_it_is_asked_for(talking, client, service):
    first = ids(talking.turn(says="red", k=30).json())
    one = ids(talking.turn(says="with long sleeves", about=first[1], k=30).json())
    two = ids(talking.turn(says="not striped", about=one[0], k=30).json())
    assert first[1] not in one and not {first[1], one[0]} & set(two) and len(two) == len(IDS) - 2
    service.states._dialogs.clear()
    assert not {first[1], one[0]} & set(ids(talking.turn(filters={}, k=30).json()))
    same = [{"says": "red"}, {"says": "with long sleeves", "about": first[1]}]
    assert ids(client.post(PATH, json={"turns": same, "k": 30}).json()) == one
    again = ids(talking.turn(says="like this but green", about=two[0], k=30).json())
    assert two[0] in again
    assert ids(talking.turn(like=again[0], k=30).json())[0] == again[0], "wishes hold, too"
    cheaper = ids(talking.turn(says="cheaper", about=two[1], k=30).json())
    assert cheaper and two[1] not in cheaper


def test_nothing_understood_changes_nothing(talking):
    before = talking.turn(says="red").json()
    for says in ("xyzzy qwrtp", "in than is", "ΩΩΩ"):
        answer = talking.turn(says=says)
        assert (answer.status_code, answer.json()["code"]) == (422, "nothing-understood"), says
    near = talking.turn(says="gren florel").json()["heard"]
    assert {one["meant"] for one in near["changed"]} == {"green", "floral"}
    assert talking.turn(says="zzgreenzz").json()["near"] == ["green"]
    assert "orange" not in talking.turn(says="zorgle blimp").json()["near"]
    assert len(talking.request("GET").json()["turns"]) == 3 and before["turn"] == 1


def prices(answer):
    return {one["price"]["minor"] for one in answer["results"]}


def test_prices_sizes_and_stock_that_are_said_are_filters(talking, client):
    cheap = talking.turn(says="red, under 100 euros", k=30).json()
    assert (
        cheap["filters"]["price"] == {"gte": None, "lte": 10_000, "currency": "EUR"}
        and cheap["eligible"] == 10
    )
    assert [one["id"] for one in cheap["holding"]][1:] == ["price"]
    assert cheap["holding"][1]["text"] == "up to 100.00 EUR" and max(prices(cheap)) == 10_000
    small = talking.turn(says="in size M and in stock", k=30).json()
    assert small["filters"] == cheap["filters"] | {"sizes": {"any": ["M"]}, "in_stock": True}
    assert small["eligible"] == 5 and all("M" in one["sizes"] for one in small["results"])
    about = small["results"][0]
    dear = talking.turn(says="more expensive", about=about["product_id"], k=30).json()
    assert dear["filters"]["price"]["gte"] == about["price"]["minor"] + 1
    said = talking.turn(says="any price", k=30).json()
    assert said["filters"]["price"] is None and said["filters"]["sizes"] == {"any": ["M"]}
    assert held(said) == [("red", False)]
    assert talking.request("DELETE", "/turns/4").json()["filters"] == dear["filters"]
    assert talking.request("DELETE", "/turns/2").json()["filters"] == cheap["filters"]
    given = talking.turn(
        filters={"price": {"lte": 5000, "currency": "EUR"}}, says="under 70 euros", k=30
    ).json()
    assert given["filters"]["price"]["lte"] == 5000
    later = talking.turn(says="at most 70 euros", k=30).json()
    assert later["filters"]["price"]["lte"] == 7000
    assert talking.turn(filters={}, k=30).json()["eligible"] == 30


def test_cheaper_is_cheaper_than_the_product_talked_about(talking, client, service):
    answer = talking.turn(says="red", k=30).json()
    about = answer["results"][3]
    cheaper = talking.turn(says="cheaper", about=about["product_id"], k=30).json()
    assert prices(cheaper) == {
        offer.price_minor for offer in OFFERS.values() if offer.price_minor < about["price"]["minor"]
    }
    client.patch(
        f"/v1/categories/skirts/products/{about['product_id']}",
        json={"price": {"minor": 1, "currency": "EUR"}},
    )
    service.states._dialogs.clear()
    assert talking.turn(filters=None, wish={"label": "red"}, k=30).json()["filters"] == cheaper["filters"], (
        "the limit is that of the price when it was said"
    )
    turns = [{"says": "cheaper", "about": "p5"}]
    found = client.post(PATH, json={"turns": turns, "k": 30}).json()
    assert found["filters"]["price"]["lte"] == 5999
    over = client.post(
        PATH, json={"turns": turns, "filters": {"price": {"gte": 9000, "currency": "EUR"}}}
    ).json()
    assert over["filters"]["price"] == {"gte": 9000, "lte": None, "currency": "EUR"}


def test_without_a_product_cheap_is_the_lowest_range_of_prices_and_expensive_the_highest(client, service):
    cheap = client.post(PATH, json={"turns": [{"says": "a cheap red one"}], "k": 30}).json()
    dear = client.post(PATH, json={"turns": [{"says": "the most expensive"}], "k": 30}).json()
    low, high = (one["filters"]["price"] for one in (cheap, dear))
    assert low["gte"] is None and high["lte"] is None and low["lte"] < high["gte"]
    assert max(prices(cheap)) <= low["lte"] and min(prices(dear)) >= high["gte"]
    assert codes(cheap) == codes(dear) == []
    service.models.active("skirts").__post_init__(
        {name: Offer(price_minor=500, currency="EUR") for name in IDS}, LABELS
    )
    assert codes(client.post(PATH, json={"turns": [{"says": "cheaper"}]}).json()) == ["no-price"]


@pytest.mark.parametrize("says", ["red, under $50", "at least 20 pounds, red", "red, between $20 and $50"])
def test_a_price_in_a_currency_that_no_product_has_is_no_filter(client, service, says):
    turns = [{"says": "under 90 euros"}, {"says": says}]
    answer = client.post(PATH, json={"turns": turns}).json()
    assert codes(answer) == ["other-currency"]
    assert answer["filters"]["price"] == {"gte": None, "lte": 9000, "currency": "EUR"}
    service.models.active("skirts").__post_init__(None, LABELS)
    assert codes(client.post(PATH, json={"turns": turns[1:]}).json()) == ["no-prices"]


@pytest.mark.parametrize(
    "says, meant",
    [
        ("red in size 7-8 Years", ["7-8 Years"]),
        ("size 7 or 8", ["7-8 Years"]),
        ("size 9", ["8-9 Years"]),
        ("size 8", ["7-8 Years", "8-9 Years", "UK 8 / EU 36"]),
        ("in size 36", ["UK 8 / EU 36"]),
        ("size 2", ["2"]),
        ("size 12", ["12"]),  # not in W12
        ("in M", ["Medium"]),
    ],
)
def test_numbers_that_are_no_size_mean_the_sizes_that_name_most_of_them(client, service, says, meant):
    sizes = ["7-8 Years", "8-9 Years", "UK 8 / EU 36", "2", "2XL", "W12 L30", "Medium"]
    offers = {name: Offer(sizes=(sizes[at % len(sizes)],)) for at, name in enumerate(IDS)}
    service.models.active("skirts").__post_init__(offers, LABELS)
    answer = client.post(PATH, json={"turns": [{"says": says}]}).json()
    assert answer["filters"]["sizes"] == {"any": meant}


def test_a_number_that_many_sizes_name_means_as_many_as_a_filter_has(client, service):
    offers = {name: Offer(sizes=tuple(f"{at}/{other}" for other in range(9))) for at, name in enumerate(IDS)}
    service.models.active("skirts").__post_init__(
        offers | {"p3": Offer(sizes=tuple(f"7/{n}" for n in range(60)))}, LABELS
    )
    answer = client.post(PATH, json={"turns": [{"says": "size 7"}]}).json()
    assert len(answer["filters"]["sizes"]["any"]) == 50


def test_limits_of_what_no_product_has_are_no_filters(client, service):
    service.models.active("skirts").__post_init__(None, LABELS)
    answer = client.post(PATH, json={"turns": [{"says": "red, under 50 euros, in size M, in stock"}]}).json()
    assert codes(answer) == ["no-prices", "no-sizes", "no-stock"] and answer["eligible"] == len(IDS)
    assert answer["filters"] == {"price": None, "sizes": None, "in_stock": None}


def test_a_label_is_a_wish_without_words(talking, service, client):
    red = talking.turn(wish={"label": "red"}, k=30).json()
    assert set(ids(red)[:10]) == having("red") and held(red) == [("red", False)]
    assert red["heard"]["known"] == [] and ids(talking.turn(says="red", k=30).json())[:10] != []
    none = talking.turn(wish={"label": "floral", "denied": True}, k=5).json()
    assert set(ids(none)) == having("red", "striped")
    turns = talking.request("GET").json()["turns"]
    assert [turn["kind"] for turn in turns] == ["start", "wish", "says", "wish"]
    assert turns[3]["wish"] == {"label": "floral", "denied": True} and turns[2]["wish"] is None
    service.states._dialogs.clear()
    assert ids(talking.turn(filters={}, k=5).json()) == ids(none)
    unknown = talking.turn(wish={"label": "purple"})
    assert unknown.status_code == 404 and unknown.json()["code"] == "unknown-label"
    chosen = [{"wish": {"label": "red"}}, {"wish": {"label": "floral", "denied": True}}]
    assert set(ids(client.post(PATH, json={"turns": chosen, "k": 5}).json())) == having("red", "striped")


def test_what_holds_is_taken_back_by_its_id(talking, service):
    answer = talking.turn(says="red, not floral, under 100 euros").json()
    red, floral, price = (one["id"] for one in answer["holding"])
    left = talking.turn(drop=floral, k=30).json()
    assert held(left) == [("red", False)] and set(ids(left)) == {IDS[at] for at in range(10)}
    assert left["filters"]["price"]["lte"] == 10_000
    every = talking.turn(drop=price, k=30).json()
    assert set(ids(every)[:10]) == having("red") and every["filters"]["price"] is None
    service.states._dialogs.clear()
    none = talking.turn(drop=red).json()
    assert (
        none["holding"] == []
        and [one["kind"] for one in talking.request("GET").json()["turns"]][2:] == ["drop"] * 3
    )
    gone = talking.turn(drop=red)
    assert gone.status_code == 422 and gone.json()["code"] == "not-held"
    assert held(talking.request("DELETE", "/turns/2").json()["last"]) == [("red", False), ("floral", True)]


def test_less_like_a_product_moves_away_from_it_for_the_rest_of_the_dialog(talking, service):
    before = ids(talking.turn(wish={"label": "green"}, k=30).json())
    shown = before[0]
    after = ids(talking.turn(less_like=shown, k=30).json())
    gallery = service.models.active("skirts").system.gallery
    at = [gallery.items.positions[name] for name in before if name != shown]
    far = {IDS[one]: (gallery.vectors_ND[one] - gallery.vectors_ND[IDS.index(shown)]).norm() for one in at}
    near = min((name for name in far if name in having("green")), key=far.get)
    assert shown not in after and after.index(near) >= before.index(near) - 1
    assert set(after[:9]) == having("green") - {shown}
    service.states._dialogs.clear()
    assert ids(talking.turn(filters={}, k=30).json()) == after
    assert shown not in ids(talking.turn(says="with long sleeves", k=30).json())
    liked = ids(talking.turn(like=after[2], k=30).json())
    assert shown not in liked
    assert ids(talking.request("DELETE", "/turns/2").json()["last"]) == before


def test_facets_are_counted_among_the_products_that_obey(talking, client):
    answer = talking.turn(says="red, not floral, under 250 euros", facets=True, k=4).json()["facets"]
    families = {
        one["family"]: {some["label"]: some["count"] for some in one["labels"]} for one in answer["families"]
    }
    obeying = [name for name in having("red", "striped") if OFFERS[name].price_minor <= 25_000]
    assert answer["products"] == len(obeying) == 4
    counted = {
        label: sum(label in LABELS[name][4] for name in obeying) for label in ("short sleeve", "long sleeve")
    }
    assert families["sleeves"] | counted == families["sleeves"]
    assert (
        answer["sizes"] == [{"size": "S", "count": 4}, {"size": "M", "count": 4}] and answer["in_stock"] == 4
    )
    assert sum(one["count"] for one in answer["prices"]) == 4
    assert talking.turn(says="red").json()["facets"] is None
    nothing = client.post(PATH, json={"turns": [{"says": "red and green"}], "facets": True}).json()
    begun = Talking(client, category="skirts", facets=True).started["last"]["facets"]
    assert nothing["facets"]["products"] == 0 and "not-all" in codes(nothing)
    assert begun["products"] == 30 and nothing["facets"]["families"] == begun["families"]


@pytest.mark.parametrize(
    "turn, code",
    [
        ({"says": "red and green"}, "not-all"),
        ({"says": "red"}, "nothing-near"),
        ({"says": "red, under 1 euro"}, "nothing-fits"),
        ({"says": "red, cheaper"}, "no-price"),
        ({"wish": {"label": "red"}}, None),
        ({"filters": {"in_stock": True}}, None),
    ],
)
def test_a_repeated_turn_gets_the_answer_that_was_given(talking, service, turn, code):
    served = service.models.active("skirts")
    if code == "no-price":
        served.__post_init__({name: Offer(price_minor=500, currency="EUR") for name in IDS}, LABELS)
    served.metrics["val_distance_95"] = 0.0 if code == "nothing-near" else 1e9
    first = talking.turn(key="k", **turn, facets=True).json()
    assert first["facets"] and (code is None or code in codes(first))
    served.metrics.clear()  # notices are those of the answer
    assert talking.turn(key="k", **turn, facets=True).json() == first
    assert talking.request("GET").json()["last"] == first | {"facets": None}
    talking.turn(says="not floral")
    assert talking.turn(key="k", **turn, facets=True).json() == first


def test_a_session_that_begins_with_words_has_the_notices_of_its_answer(client):
    answer = Talking(client, category="skirts", start={"text": "red and green"}).started["last"]
    assert codes(answer) == ["not-all"]


def test_an_equal_turn_at_the_same_time_gets_facets(talking, service, monkeypatch):
    first = talking.turn(key="k", says="red", facets=True).json()
    talking.request("DELETE", "/turns/1")
    monkeypatch.setattr(
        service.store, "repeated", lambda *_: None
    )  # as if both were searched before one was stored
    assert talking.turn(key="k", says="red", facets=True).json() == first


def test_explanations_add_up_to_the_order(talking, service):
    answer = talking.turn(says="red, not floral", explain=True, k=30).json()

    def total(one):
        parts = one["parts"]
        return parts["vector"] + parts["lexical"] + sum(wish["adds"] for wish in parts["wishes"])

    totals = [total(one) for one in answer["results"]]
    assert totals == pytest.approx(sorted(totals, reverse=True), abs=0.03)
    for one in answer["results"]:
        met = {wish["text"]: (wish["has"], wish["adds"]) for wish in one["parts"]["wishes"]}
        labels = having("red"), having("floral")
        assert met["red"] == ((1.0, 50.0) if one["product_id"] in labels[0] else (0.0, 0.0))
        assert met["floral"] == ((1.0, -50.0) if one["product_id"] in labels[1] else (0.0, 0.0))
    assert set(answer["results"][0]["effects"]) == {"red", "floral"}
    assert answer["results"][0]["effects"]["red"] > 0
    first = Talking(talking.client, category="skirts").turn(filters={}, explain=True).json()["results"][0]
    assert first["parts"]["wishes"] == [] and first["parts"]["lexical"] == 0


def test_without_results_there_is_nothing_to_explain(talking, client):
    said = {"says": "red, under 1 euro"}
    answer = talking.turn(**said, explain=True)
    assert answer.status_code == 201 and answer.json()["results"] == []
    found = client.post(PATH, json={"turns": [said], "explain": True})
    assert found.status_code == 200 and found.json()["results"] == []


def test_a_turn_whose_explanation_fails_is_not_stored(talking, service, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(service.searches, "explain", lambda *_: 1 / 0)
        assert talking.turn(key="k", says="red", explain=True).status_code == 500
    assert len(talking.request("GET").json()["turns"]) == 1
    assert talking.turn(key="k", says="red", explain=True).json()["results"][0]["effects"]


def test_first_products_of_a_filter_differ_from_each_other(client):
    some = client.post(PATH, json={"filters": {"in_stock": True}, "k": 4}).json()
    assert len(set(ids(some))) == 4 and some["eligible"] == 29
    all_of_them = client.post(PATH, json={"filters": {"in_stock": True}, "k": 50}).json()
    assert len(set(ids(all_of_them))) == 29 and ids(all_of_them)[:4] == ids(some)
    typical = Talking(client, category="skirts").started["last"]
    assert len(set(ids(typical))) == 8


def test_long_requests_are_read_as_a_whole_for_their_wishes(talking):
    text = "I would love to have something for a wedding that is navy and has long sleeves, but not striped"
    answer = talking.turn(says=text, k=1).json()
    assert set(ids(answer)) <= having("navy", "long sleeve", "floral")
    assert (
        held(answer) == [("navy", False), ("long sleeves", False), ("striped", True)] and answer["turn"] == 1
    )
    assert talking.turn(says="x" * 201).status_code == 422


def test_without_labels_wishes_are_refused_and_words_are_read_as_before(client, service_of, client_of):
    plain = client_of(service_of(("dresses-0", "tops-0")))
    for category, field, code in (
        ("dresses", {"wish": {"label": "red"}}, "unknown-label"),
        ("tops", {"less_like": "p1"}, "questions-only"),
    ):
        answer = plain.post(f"/v1/categories/{category}/search", json={"turns": [field]})
        assert answer.json()["code"] == code
    two = {"turns": [{"says": "red", "wish": {"label": "red"}}]}
    assert plain.post("/v1/categories/dresses/search", json=two).status_code == 422


def test_like_this_alone_shows_products_like_the_one_talked_about(talking):
    shown = talking.turn(says="is red").json()["results"][1]["product_id"]
    said = talking.turn(says="more like this one", about=shown).json()
    session = talking.request("GET").json()["turns"][-1]
    assert (session["kind"], session["about"], session["says"]) == ("like", shown, "more like this one")
    talking.request("DELETE", "/turns/2")
    assert ids(talking.turn(like=shown).json()) == ids(said)


@pytest.mark.parametrize("about", [{}, {"about": ""}])
def test_words_about_a_product_by_its_place_are_about_that_of_the_last_answer(about, talking):
    shown = ids(talking.turn(says="is red").json())
    said = talking.turn(says="is navy rather than the third one", **about).json()
    assert talking.request("GET").json()["turns"][-1]["about"] == shown[2] and shown[2] not in ids(said)
    talking.turn(says="is red and not like the eighteenth one", **about)
    own = talking.request("GET").json()["turns"][-1]["about"]
    assert own == (None if about else ids(said)[0])  # no place


def test_the_product_that_is_given_counts_more_than_a_place(talking):
    shown = ids(talking.turn(says="is red").json())
    talking.turn(says="is navy like the third one", about=shown[1])
    assert talking.request("GET").json()["turns"][-1]["about"] == shown[1]


def test_like_a_place_alone_shows_products_like_that_one(talking):
    shown = ids(talking.turn(says="is red").json())
    said = talking.turn(says="like the second one").json()
    session = talking.request("GET").json()["turns"][-1]
    assert (session["kind"], session["about"]) == ("like", shown[1]) and ids(said)[0] == shown[1]


def test_others_are_shown_in_place_of_those_of_the_last_answer(talking, client):
    first = talking.turn(says="is red", k=4).json()
    others = talking.turn(says="Show me others, please!", k=4).json()
    assert (
        set(ids(first)).isdisjoint(ids(others))
        and held(others) == held(first)
        and not others["heard"]["unknown"]
    )
    turn = talking.request("GET").json()["turns"][-1]
    assert (turn["kind"], turn["says"], turn["shown"]) == ("says", "Show me others, please!", ids(others))
    states = client.app.state.service.states
    states._dialogs.clear()  # as after a restart
    more = talking.turn(says="none of these", k=4).json()
    assert set(ids(more)).isdisjoint([*ids(first), *ids(others)])
    narrower = talking.turn(says="not striped", k=20).json()
    states._dialogs.clear()
    assert {*ids(first), *ids(others)} & set(ids(narrower))  # another request
    talking.request("DELETE", "/turns/2")
    assert ids(talking.turn(says="more", k=4).json()) == ids(others)


def test_what_is_left_of_a_denial_is_not_held_beside_the_same_one(talking):
    both = talking.turn(says="I don't like the pattern").json()
    assert [one["labels"] for one in both["holding"]] == [["floral", "striped"]]
    floral = next(name for name in ids(both) if "floral" in LABELS[name][1])
    one = talking.turn(says="another pattern", about=floral).json()
    assert [(wish["labels"], wish["denied"]) for wish in one["holding"]] == [
        (["floral"], True),
        (["striped"], False),
    ]


def test_when_all_were_shown_there_are_no_others_as_often_as_it_is_asked(talking):
    few = talking.turn(says="red, under 65 euros").json()
    assert len(ids(few)) == 6
    for says in ("show me others", "none of these"):
        others = talking.turn(says=says).json()
        assert ids(others) == [] and held(others) == held(few)
        (notice,) = [one for one in others["notices"] if one["code"] == "nothing-fits"]
        assert notice["text"] == "No other product meets the filters; without price 30."
    assert len(ids(talking.turn(says="any price", k=30).json())) > 20
    assert talking.turn(says="more", k=30).status_code == 201
    everything = talking.turn(says="more", k=30).json()
    assert [one["text"] for one in everything["notices"]][-1:] == ["There are no other products."]


def test_others_at_the_beginning_are_not_about_a_product(talking):
    first, others = ids(talking.started["last"]), ids(talking.turn(says="something else").json())
    assert set(first).isdisjoint(others)
    assert talking.turn(says="is red").status_code == 201
    assert talking.request("GET").json()["turns"][-1]["about"] is None
    stateless = talking.client.post(PATH, json={"turns": [{"says": "something else"}]})
    assert stateless.json()["code"] == "nothing-understood"

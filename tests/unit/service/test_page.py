"""The shopper's page over HTTP, as a browser without scripts and as a hostile website would use it."""

import re
from html import unescape
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from fashioniq.data.languages import language
from fashioniq.service.access import LIMITS
from fashioniq.service.facets import Facets
from fashioniq.service.schemas import MAX_TEXT
from fashioniq.service.store import ProductRow, Unavailable
from fashioniq.service.turns import unsaid
from tests.unit.service.conftest import served

ORIGIN = {"Origin": "http://testserver"}
MARKUP = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


class Shopper:
    """A shopper with cookies and without scripts; `response` is the page shown."""

    def __init__(self, client, category="dresses"):
        self.client, self.path = client, f"/shop/{category}"
        self.open()

    def open(self, query=""):
        self.response = self.client.get(self.path + query)
        return self

    def send(self, action, headers=None, **fields):
        """Send a form with the hidden values of the page; a list is several values."""
        hidden = {name: self.hidden(name) for name in ("key", "after_turn") if name not in fields}
        body = urlencode(
            {name: value for name, value in (hidden | fields).items() if value is not None}, doseq=True
        )
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self.response = self.client.post(
            f"{self.path}/{action}", content=body, headers=kind | ORIGIN | (headers or {})
        )
        return self

    def hidden(self, name):
        found = re.search(f'name="{name}" value="([^"]*)"', self.response.text)
        return found[1] if found else None

    @property
    def shown(self):
        return re.findall(r'name="product" value="([^"]*)"[^>]*>This is it', self.response.text)

    @property
    def said(self):
        return [unescape(text) for text in re.findall("<q data-said>(.*?)</q>", self.response.text)]

    @property
    def text(self):
        visible = re.sub("<template.*?</template>", "", self.response.text, flags=re.DOTALL)
        return " ".join(unescape(re.sub("<[^>]*>", " ", visible)).split())

    @property
    def status(self):
        return self.response.status_code

    def stored(self):
        """What is stored of the session of the cookie."""
        id, _, token = self.client.cookies["fashioniq-dresses"].partition(".")
        answer = self.client.get(f"/v1/sessions/{id}/export", headers={"Authorization": f"Bearer {token}"})
        return answer.json() if answer.status_code == 200 else None


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/service.db"  # the tests of the API use PostgreSQL, too


@pytest.fixture
def shopper(client):
    return Shopper(client)


def test_the_root_leads_to_the_only_category(client):
    assert client.get("/").url.path == "/shop/dresses"
    assert client.get("/shop/dress").status_code == 200
    assert client.get("/shop/boots").status_code == 404


def test_several_categories_are_listed(service_of, client_of):
    page = client_of(service_of(["dresses-0", "tops-0"])).get("/shop")
    assert re.findall('href="(/shop/[a-z]+)"', page.text) == ["/shop/dresses", "/shop/tops"]


def test_looking_at_the_page_stores_nothing(shopper, service):
    assert len(shopper.shown) == 8 and not shopper.client.cookies
    assert shopper.response.headers["Cache-Control"] == "no-store"


def test_a_conversation_without_scripts(shopper):
    first = shopper.shown
    shopper.send("say", says="is navy", about=first[2])
    assert shopper.status == 200 and shopper.response.history[0].status_code == 303
    assert shopper.said == ["is navy"] and shopper.shown != first
    assert (
        shopper.stored()["turns"][1]["about"] == first[2] and shopper.stored()["session"]["origin"] == "page"
    )
    shopper.send("like", product=shopper.shown[1])
    liked = shopper.shown
    assert "You asked for more like" in shopper.text
    shopper.send("say", chip="more formal", says="a draft")
    assert shopper.said == ["is navy", "more formal"]
    assert shopper.send("undo", to=2).shown == liked and shopper.said == ["is navy"]
    assert shopper.send("undo", to=2).shown == liked  # sent twice
    assert shopper.send("undo", to=0).shown == first and shopper.said == []


def test_more_products_are_shown_below_the_others_and_taken_back(shopper, service):
    first = shopper.shown
    assert len(shopper.send("more").shown) == 24 and "You asked to see more" in shopper.text
    assert shopper.shown[:8] == first
    shopper.send("say", says="is navy")
    found = shopper.shown
    assert len(found) == 8 and len(shopper.send("more").shown) == 24 and shopper.shown[:8] == found
    turns = shopper.stored()["turns"]
    assert [len(turn["shown"]) for turn in turns] == [8, 24, 8, 24]
    everything = len(service.models.active("dresses").system.gallery)
    assert len(shopper.send("more").shown) == min(40, everything)
    for _ in range(2):
        if "Show more" in shopper.text:
            shopper.send("more")
    assert "Show more" not in shopper.text and len(shopper.shown) == min(50, everything)
    assert shopper.send("undo", to=2).shown == found


@pytest.mark.parametrize(
    "kept", [{"says": "is navy"}, {"word_ids": [3]}, {"heard": {"wish": {"label": "red"}}}, {"about": "p1"}]
)
def test_a_turn_says_something_also_if_its_words_are_no_longer_stored(kept):
    silent = {"about": None, "says": None, "word_ids": [], "heard": {"clauses": []}}
    assert unsaid([SimpleNamespace(**silent)])
    assert not unsaid([SimpleNamespace(**silent), SimpleNamespace(**silent | kept)])


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_others(shopper):
    shopper.send("say", says="is navy")
    cookie = shopper.response.history[0].headers["set-cookie"]
    assert cookie.startswith("fashioniq-dresses=ses_")
    assert {"HttpOnly", "SameSite=lax", "Path=/shop"} <= set(cookie.split("; "))
    key = shopper.hidden("key")
    assert key not in str(shopper.send("say", says="is red").stored()), "the token is made of such a key"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://testserver.evil.example"])
def test_forms_of_other_websites_are_refused(shopper, origin):
    shopper.send("say", {"Origin": origin}, says="is navy")
    assert shopper.status == 403 and "another website" in shopper.text and not shopper.client.cookies


def test_a_repeated_form_counts_once(shopper):
    key = shopper.hidden("key")
    for _ in range(2):
        shopper.send("say", key=key, after_turn=0, says="is navy")
        assert shopper.said == ["is navy"]
    del shopper.client.cookies["fashioniq-dresses"]  # the answer with the cookie was lost
    shopper.send("say", key=key, after_turn=0, says="is navy")
    assert shopper.said == ["is navy"] and len(shopper.stored()["turns"]) == 2


@pytest.mark.parametrize("same_key", [True, False])
def test_a_form_of_an_older_page_shows_the_present_conversation(shopper, same_key):
    key = shopper.hidden("key") if same_key else "another key of it"
    shopper.send("say", key=shopper.hidden("key"), says="is navy")
    shopper.send("say", key=key, after_turn=0, says="is red")
    assert shopper.status in (409, 422) and "has gone on" in shopper.text and shopper.said == ["is navy"]
    assert 'id="says" name="says" value="is red"' in shopper.response.text
    assert shopper.send("say", says="is red").said == ["is navy", "is red"]


def test_unknown_words_are_reported_with_near_ones(shopper):
    shopper.send("say", says="longr nawy")
    assert shopper.status == 422 and "None of these words is known" in shopper.text
    assert set(re.findall('name="chip" value="([^"]*)" lang', shopper.response.text)) >= {"longer", "navy"}
    assert 'id="says" name="says" value="longr nawy"' in shopper.response.text
    shopper.send("say", says="is nawy")
    assert "Not understood: nawy" in shopper.text and 'value="navy" lang="en">navy' in shopper.response.text


def test_notices_of_an_answer_are_on_its_page(shopper, service):
    service.models.active("dresses").metrics["val_distance_95"] = 0.0
    assert "Nothing here fits well" not in shopper.text
    shopper.send("say", says="is navy")
    assert "Nothing here fits well" in shopper.text and "Nothing here fits well" in shopper.open().text


def test_a_page_does_not_say_twice_that_nothing_fits(service_of, client_of):
    service = service_of(["skirts-0"])
    service.models.active("skirts").metrics["val_distance_95"] = 0.0
    shopper = Shopper(client_of(service), "skirts")
    shopper.send("say", says="red and green")
    assert "No product matches; these come closest" in shopper.text
    assert "Nothing here fits well" not in shopper.text


def test_this_is_it_stores_an_event_once(shopper):
    shopper.send("say", says="is navy")
    key, product = shopper.hidden("key"), shopper.shown[2]
    for _ in range(2):
        shopper.send("choose", key=key, product=product)
    assert "You chose this dress" in shopper.text and str(shopper.response.url).endswith(f"?chosen={product}")
    (event,) = shopper.stored()["events"]
    query_id = shopper.stored()["turns"][1]["query_id"]
    assert (event["action"], event["product_id"], event["position"]) == ("this_is_it", product, 3)
    assert event["query_id"] == query_id
    assert shopper.open("?chosen=nothing").shown, "only what was shown can have been chosen"
    shopper.send("restart")
    assert shopper.said == [] and not shopper.client.cookies


def test_a_product_that_was_not_shown_cannot_be_chosen(shopper):
    hidden = next(f"p{n}" for n in range(30) if f"p{n}" not in shopper.shown)
    for action in ("choose", "like"):
        shopper.open().send(action, product=hidden)
        assert shopper.status == 422 and "was not shown" in shopper.text and len(shopper.shown) == 8


def test_a_link_leads_to_a_product_that_the_conversation_has_not_shown(shopper):
    shown = shopper.shown
    shopper.send("say", says="is navy")
    linked = next(name for name in map("p{}".format, range(30)) if name not in {*shown, *shopper.shown})
    shopper.open(f"?about={linked}").send("say", about=linked, says="is red")
    assert shopper.status == 200 and shopper.said == ["is navy", "is red"]
    assert shopper.stored()["turns"][-1]["about"] == linked
    shopper.send("say", about="unknown", says="is red")
    assert shopper.status == 422 and "was not shown" in shopper.text


def test_consent_is_asked_and_changed(shopper):
    def pressed():
        return re.findall('aria-pressed="true">(.*?)<', shopper.response.text)

    assert pressed() == ["No"]
    shopper.send("consent", consent="none")
    assert not shopper.client.cookies, "nothing has to be stored for a no"
    shopper.send("consent", consent="training")
    assert pressed() == ["Yes"] and shopper.stored()["session"]["consent"] == "training"
    shopper.send("consent", consent="none")
    assert pressed() == ["No"] and shopper.stored()["session"]["consent"] == "none"


def test_global_privacy_control_is_a_no(shopper):
    shopper.send("consent", consent="training")
    shopper.client.headers["Sec-GPC"] = "1"
    assert "Use my words" not in shopper.open().text
    assert shopper.stored()["session"]["consent"] == "none"
    shopper.send("consent", consent="training")
    assert shopper.stored()["session"]["consent"] == "none"


def test_a_conversation_is_deleted(shopper, service):
    shopper.send("say", says="is navy")
    id = shopper.stored()["session"]["id"]
    shopper.send("delete")
    assert (
        "The conversation was deleted" in shopper.text and shopper.said == [] and not shopper.client.cookies
    )
    assert service.store.session(id) is None and service.store.turns(id) == []


def test_a_conversation_that_has_ended_can_be_started_again(shopper, service):
    shopper.send("say", says="is navy")
    service.store.erase_session(shopper.stored()["session"]["id"])
    product = shopper.shown[4]
    shopper.send("say", says="is red", about=product)
    assert shopper.status == 410 and "has ended" in shopper.text
    assert f'name="product" value="{product}">Start from the last product' in shopper.response.text
    shopper.send("restart", product=product)
    assert "You began with" in shopper.text and product in shopper.shown
    service.store.erase_session(shopper.stored()["session"]["id"])
    assert "Your earlier conversation has ended" in shopper.open().text and len(shopper.shown) == 8


@pytest.mark.parametrize("action", ["say", "like", "more", "undo", "choose"])
def test_a_form_of_a_conversation_that_was_deleted_in_another_tab_begins_no_other(shopper, service, action):
    shopper.send("say", says="is navy")
    id, other = shopper.stored()["session"]["id"], Shopper(shopper.client)
    other.send("delete")
    (form,) = re.findall(
        f'<form[^>]*action="/shop/dresses/{action}".*?</form>', shopper.response.text, re.DOTALL
    )
    assert ' name="after_turn" value="1"' in form
    shopper.send(action, says="is red", product=shopper.shown[5], to=0)
    assert shopper.status == 410 and "The conversation has ended" in shopper.text
    assert not shopper.client.cookies and service.store.session(id) is None
    shopper.send("restart")
    assert shopper.status == 200 and len(shopper.shown) == 8


@pytest.mark.parametrize("how", ["visits", "says"])
def test_a_shopper_whose_model_was_removed_can_start_again(shopper, service, tmp_path, how):
    shopper.send("say", says="is navy")
    service.models.activate(service.models.register(tmp_path / "models/dresses-1").version)
    del service.models._versions["dresses@2026-01-01-0"]
    service.models._load = lambda run: served(tmp_path / "dresses-2")  # trained anew in its folder
    shopper.open() if how == "visits" else shopper.send("say", says="is red")
    assert shopper.status == 409 and "cannot go on" in shopper.text
    assert 'action="/shop/dresses/restart"' in shopper.response.text
    shopper.send("restart")
    shopper.open()
    assert shopper.status == 200 and len(shopper.shown) == 8


def test_a_cookie_of_someone_else_opens_nothing(shopper):
    shopper.send("say", says="is navy")
    id = shopper.client.cookies["fashioniq-dresses"].partition(".")[0]
    shopper.client.cookies.clear()
    shopper.client.cookies.set("fashioniq-dresses", f"{id}.guessed", path="/shop")
    assert shopper.open().said == []


@pytest.fixture
def priced(service, shopper):
    """A shopper whose products have prices: p0 costs 10 EUR, p1 11 EUR, and so on."""

    def price(count=30, **fields):
        rows = [
            ProductRow(category="dresses", id=f"p{n}", price_minor=1000 + 100 * n, currency="EUR", sizes=["M", "L"][: n % 3],
                    in_stock=n % 2 == 0, updated_at=service.store.now(), **fields)
            for n in range(count)
        ]  # fmt: skip
        service.store.add_products("dresses", rows)
        service.models.refresh_all()
        return shopper.open()

    return price


def test_filters_are_offered_only_with_facts(shopper, priced):
    assert "Price in" not in shopper.text and "In stock only" not in shopper.text
    assert {"Filters", "Price in EUR", "In stock only"} <= set(re.split(r"(Price in EUR|In stock only|Filters)", priced().text))  # fmt: skip


def test_a_word_that_is_not_understood_is_named_once(client_of, service_of):
    shopper = Shopper(client_of(service_of(("skirts-0",))), "skirts").send(
        "say", says="red, zorgle and zorgle"
    )
    assert "Not understood: zorgle" in shopper.text and "zorgle, zorgle" not in shopper.response.text


def test_a_long_request_is_refused_with_its_limit_and_not_cut(shopper):
    shopper.client.headers["Accept-Language"] = "de"
    field = re.search('<input id="says"[^>]*>', shopper.open().response.text)[0]
    assert "maxlength" not in field
    assert f'pattern=".{{0,{MAX_TEXT}}}" title="Höchstens {MAX_TEXT} Zeichen"' in field


def test_filters_hold_until_they_are_removed(priced):
    shopper = priced()
    shopper.send("filters", price_from="20", price_to="20,00", currency="EUR")
    assert shopper.shown == ["p10"] and "€20.00" in shopper.text and "You changed the filters" in shopper.text
    assert (
        'name="price_from" inputmode="decimal" size="6" maxlength="20" value="20.00"' in shopper.response.text
    )
    assert shopper.send("say", says="is navy").shown == ["p10"]
    shopper.send("filters", price_to="15", currency="EUR", sizes=["M"], in_stock="true")
    assert sorted(shopper.shown) == ["p2", "p4"]
    assert len(shopper.send("filters", without="all").shown) == 8


def test_nothing_fits_says_what_to_remove(priced):
    shopper = priced().send("filters", price_from="20", price_to="20.5", currency="EUR", sizes=["L"])
    assert shopper.shown == [] and "No dress fits these filters" in shopper.text
    assert {"Remove price: 10", "Remove sizes: 1"} <= set(re.findall(">(Remove .*?)</button>", shopper.response.text))  # fmt: skip
    assert len(shopper.send("filters", without="price").shown) == 8
    assert all(int(name[1:]) % 3 == 2 for name in shopper.shown)


def test_when_all_were_shown_the_page_does_not_say_that_none_fits(service_of, client_of):
    shopper = Shopper(client_of(service_of(["skirts-0"])), "skirts")
    assert len(shopper.send("say", says="red, under 65 euros").shown) == 6
    assert shopper.send("say", says="show me others").shown == [] and "Those were all." in shopper.text
    assert "fits these filters" not in shopper.text and "Remove price: 30" in shopper.text


def test_a_price_that_is_no_price_is_refused(priced):
    shopper = priced()
    for text in ("cheap", "-5", "1e99", "NaN", "9" * 19, "1e999990", "9e999999", "inf"):
        shopper.send("filters", price_from=text, currency="EUR", sizes=["M"], in_stock="true")
        assert shopper.status == 422 and "This price cannot be used" in shopper.text
        assert shopper.response.text.count(' aria-invalid="true"') == 2
        kept = (f'name="price_from" inputmode="decimal" size="6" maxlength="20" value="{text}"',)
        kept += ('name="sizes" value="M" checked', 'name="in_stock" value="true" checked')
        assert [one for one in kept if one not in shopper.response.text] == [], "there is nothing to correct"


@pytest.mark.parametrize("typed", ["€1,299", "1.299,00 €", "1,299.00", "1299"])
def test_a_price_is_typed_as_the_page_shows_it(service, shopper, typed):
    row = ProductRow(category="dresses", id=shopper.shown[0], price_minor=129900, currency="EUR", updated_at=service.store.now())  # fmt: skip
    service.store.add_products("dresses", [row])
    service.models.refresh_all()
    fields = {"price_from": "2000", "price_to": typed, "currency": "EUR"}  # the wrong way round
    assert shopper.send("filters", **fields).shown == [row.id] and "€1,299.00 – €2,000.00" in shopper.text


@pytest.mark.parametrize(
    "currency, shown, typed",
    [("JPY", "¥1,000", "1000"), ("KWD", "KWD 1.000", "1,000"), ("USD", "$10.00", "10.00")],
)
def test_prices_have_the_decimals_of_their_currency(service, shopper, currency, shown, typed):
    row = ProductRow(category="dresses", id=shopper.shown[0], price_minor=1000, currency=currency, updated_at=service.store.now())  # fmt: skip
    service.store.add_products("dresses", [row])
    service.models.refresh_all()
    assert shown in shopper.open().text
    assert shopper.send("filters", price_from=typed, price_to=typed, currency=currency).shown == [row.id]


def test_a_range_of_prices_is_a_click(priced):
    shopper = priced()
    ranges = re.findall('name="range" value="([^"]*)">([^<]*) <small>([0-9]+)<', shopper.response.text)
    assert len(ranges) > 2 and sum(int(count) for *_, count in ranges) == 30
    value, _, count = ranges[1]
    shopper.send("filters", range=value)
    assert f"{count} dresses" in shopper.text and len(shopper.shown) == int(count)
    assert (
        'name="drop" value="price"' in shopper.response.text and 'name="range"' not in shopper.response.text
    )
    assert len(shopper.send("drop", drop="price").shown) == 8
    assert shopper.send("drop", drop="price").status == 422 and "no longer holds" in shopper.text
    for wrong in ("EUR:9:1:2", "EUR::", "eur:1:2", f"EUR:{'9' * 13}:"):
        assert shopper.send("filters", range=wrong).status == 422


def test_products_out_of_stock_come_last_and_are_marked(priced):
    shopper = priced()
    out = [int(name[1:]) % 2 for name in shopper.shown]
    assert out == sorted(out) and 0 < sum(out) < 8
    assert shopper.text.count("Out of stock") == sum(out)


def test_a_picture_leads_to_the_product_or_starts_to_talk_about_it(shopper, priced):
    def pictures():
        return [unescape(one) for one in re.findall('class="pick" href="([^"]*)"', shopper.response.text)]

    assert pictures() == [f"/shop/dresses?about={name}" for name in shopper.shown]
    priced(url="https://shop.example/p?a=1&b=2")
    assert pictures() == ["https://shop.example/p?a=1&b=2"] * 8


def test_a_product_is_talked_about_and_left_again(shopper):
    name = shopper.shown[3]
    shopper.open(f"?about={name}")
    assert shopper.hidden("about") == name and "You are talking about this" in shopper.text
    assert f"What should be different from {'Navy' if int(name[1:]) % 2 else 'Red'} dress" in shopper.text
    assert shopper.open().hidden("about") is None
    assert shopper.open("?about=nothing").hidden("about") is None


def test_a_conversation_begins_with_words_or_with_any_product(shopper):
    shopper.send("say", says="is navy")
    assert [turn["kind"] for turn in shopper.stored()["turns"]] == ["start", "says"]
    assert shopper.send("undo", to=0).said == []
    shopper.send("restart")
    hidden = next(f"p{n}" for n in range(30) if f"p{n}" not in shopper.shown)
    shopper.open(f"?about={hidden}").send("say", says="is navy", about=hidden)
    assert [turn["about"] for turn in shopper.stored()["turns"]] == [hidden, hidden]


def test_the_end_goes_on(shopper, priced):
    priced(url="https://shop.example/p")
    shopper.send("say", says="is navy")
    product = shopper.shown[1]
    shopper.send("choose", product=product)
    assert 'href="https://shop.example/p"' in shopper.response.text and "Go to the product" in shopper.text
    shopper.send("like", product=product, after_turn=1)
    assert "You asked for more like" in shopper.text
    shopper.send("choose", product=product).send("restart")
    assert shopper.said == [] and "Conversation" in shopper.text


def test_what_most_products_have_is_not_on_their_cards(client, service):
    served = service.models.active("dresses")
    served.system.cards.attributes.update({f"p{n}": ["dress", "navy"][: 1 + n % 2] for n in range(30)})
    shopper = Shopper(client).send("say", says="a navy dress")
    assert set(re.findall('class="why"[^>]*><span>(.*?)</span></p>', shopper.response.text)) == {"navy"}


def test_suggestions_divide_the_products(client, service):
    served = service.models.active("dresses")
    words = [["navy blue", "long sleeve"], ["red", "long sleeve"], ["red", "floral"]]
    labels = {f"p{n}": [words[n % 3]] for n in range(30)}
    served.facets = Facets(served.system.gallery.items.ids, labels, language("en"))
    shopper = Shopper(client)
    found = re.findall(
        'form="say" name="chip"[^>]*><span lang="en">([^<]*)</span> <small>([0-9]+)<', shopper.response.text
    )
    assert found[:4] == [("red", "20"), ("floral", "10"), ("long sleeve", "20"), ("navy blue", "10")]
    shopper.send("say", chip="navy")
    assert shopper.said == ["navy"]
    assert shopper.send("say", wish="navy blue").status == 404 and "does not have this label" in shopper.text


def test_a_german_catalog_has_a_german_page(client, service):
    served = service.models.active("dresses")
    served.speech = "de"
    shopper = page = Shopper(client)
    assert '<html lang="de">' in page.response.text and "Kleider finden" in page.text
    assert "8 von 30 Kleidern" in page.text and page.response.headers["Content-Language"] == "de"
    assert "Keines dieser Wörter" in shopper.send("say", says="?").text
    shopper.client.headers["Accept-Language"] = "en-GB,de;q=0.5"
    assert "8 of 30 dresses" in shopper.open().text
    assert '<bdi lang="de">' in shopper.response.text, "the titles are still German"


def test_foreign_texts_are_shown_as_texts(service, shopper):
    titles = [MARKUP, "safe \u202egnp.exe", "x" * 10_000]
    rows = [ProductRow(category="dresses", id=name, title=title, sizes=[MARKUP], updated_at=service.store.now())
            for name, title in zip(shopper.shown, titles, strict=False)]  # fmt: skip
    service.store.add_products("dresses", rows)
    service.models.refresh_all()
    shopper.open().send("say", says=f"navy {MARKUP}", about=rows[0].id)
    shopper.send("like", product=rows[0].id)
    page = shopper.response.text
    assert "<script>alert" not in page and "<img src=x" not in page and "&lt;script&gt;" in page
    assert "\u202e" not in page and len(page) < 60_000


def test_a_long_conversation_is_a_small_page(priced):
    shopper = priced(title="A dress with a long title and \N{LATIN SMALL LETTER E WITH ACUTE}" * 20)
    for _ in range(20):
        shopper.send("say", says="is navy " + "with longer sleeves " * 9)
    assert len(shopper.said) == 20 and len(shopper.response.content) < 60_000
    shopper.send("say", says="is red")
    assert shopper.status == 422 and "at most 20 turns" in shopper.text


def test_questions_are_asked_and_answered(service_of, client_of):
    shopper = Shopper(client_of(service_of(["tops-0"])), "tops")
    assert "Talk about this" not in shopper.text and "More like this" not in shopper.text
    shopper.send("say", says="a dress")
    question = re.search("Question (Is it [a-z]+[?])", shopper.text)[1]
    shopper.send("say", says="red")
    assert shopper.said == ["a dress", "red"] and f"Question {question} You said red" in shopper.text
    shopper.send("like", product=shopper.shown[0])
    assert shopper.status == 422 and "cannot start from a product" in shopper.text


def test_without_the_database_the_form_can_be_sent_again(shopper, service, monkeypatch):
    shopper.send("say", says="is navy")

    def fail(*_):
        raise Unavailable("no")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "add_turn", fail)
        shopper.send("say", says=f"navy {MARKUP}", about=shopper.shown[1])
    assert shopper.status == 503 and shopper.response.headers["Retry-After"] == "5"
    assert "Try again in 5 seconds" in shopper.text
    form = re.search(r'<form method="post" action="/shop/dresses/say" class="ways" data-retry>.*?</form>', shopper.response.text, re.DOTALL)[0]  # fmt: skip
    fields = {name: unescape(value) for name, value in re.findall('name="(.*?)" value="(.*?)"', form)}
    assert shopper.send("say", **fields).said == ["is navy", f"navy {MARKUP}"]


def test_an_unexpected_error_is_a_page_with_headers(shopper, service, monkeypatch):
    def fail(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(service, "add_turn", fail)
    shopper.send("say", says="is navy")
    assert shopper.status == 500 and "secret" not in shopper.response.text and "Try again" in shopper.text
    assert "default-src 'none'" in shopper.response.headers["Content-Security-Policy"]


def test_a_picture_needs_an_encoder_and_a_valid_form(shopper):
    def send(**fields):
        files = {"picture": ("a.png", b"no picture", "image/png")}
        return shopper.client.post(
            "/shop/dresses/picture", data=fields, files=files, headers=ORIGIN
        ).status_code

    assert send(key=shopper.hidden("key")) == 409
    assert send(key="short") == send(key="with \0 in it " * 2) == send() == 422


def test_a_picture_that_is_too_large_is_answered_with_a_page(shopper):
    files = {"picture": ("a.jpg", bytes(11_000_000), "image/jpeg")}
    data = {"key": shopper.hidden("key")}
    shopper.response = shopper.client.post("/shop/dresses/picture", data=data, files=files, headers=ORIGIN)
    assert shopper.status == 413 and "Choose one of at most 10 MB" in shopper.text
    assert 'href="/shop"' in shopper.response.text
    assert "default-src 'none'" in shopper.response.headers["Content-Security-Policy"]


def test_browsers_send_the_origin_of_forms(shopper):
    for response in (shopper.response, shopper.send("say", says="?").response):
        assert response.headers["Referrer-Policy"] == "same-origin", (
            "with no-referrer, the origin would be null"
        )
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]


def test_scripts_receive_the_changed_part(shopper):
    shopper.send("say", {"X-Fragment": "1"}, says="is navy")
    assert shopper.response.text.lstrip().startswith("<main") and "<html" not in shopper.response.text
    shopper.send("say", {"X-Fragment": "1"}, says="?")
    assert shopper.status == 422 and shopper.response.text.lstrip().startswith("<main")
    shopper.send("say", {"X-Fragment": "1"}, key="short")
    assert shopper.status == 422 and shopper.response.text.lstrip().startswith("<section")


def test_too_many_forms_are_slowed_down(remote, monkeypatch):
    monkeypatch.setitem(LIMITS, "turns", "2 per hour")
    shopper = Shopper(remote)
    for _ in range(2):
        assert shopper.send("say", says="is navy").status == 200
    shopper.send("undo", to=0)
    assert shopper.status == 429 and int(shopper.response.headers["Retry-After"]) >= 1
    assert "Try again" in shopper.text


def test_the_files_of_the_page_change_their_address(client):
    for name in ("page.css", "page.js", "icon.svg"):
        address = re.search(f'"(/shop/static/{name}[?]v=[0-9a-f]+)"', client.get("/shop/dresses").text)[1]
        assert "immutable" in client.get(address).headers["Cache-Control"]
    assert client.get("/shop/static/../page.py").status_code == 404
    assert client.get("/shop/static/..%2fpage.py").status_code == 404

"""The shopper's page in a real browser, on a service of its own that finds products by the words of their titles."""

import os
import shutil
import signal
import socket
import sqlite3
from contextlib import closing
from itertools import cycle
from pathlib import Path

import httpx
import pytest
import torch
import torch.nn.functional as F

from fashioniq.askers.best_item import BestItem
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import Wording
from fashioniq.models.text import TextRetriever
from fashioniq.service.store import ProductRow, Store
from tests.waiting import LIMIT

api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
expect = api.expect
BROWSER = shutil.which("chromium")
PATIENCE = 120_000  # ms, on a busy machine
expect.set_options(timeout=PATIENCE)
SAID = "[data-said]:not(.pending *)"


class WordCounts:
    """Encodes a text as the words of a vocabulary that are in it."""

    def __init__(self, words):
        self.words = words

    def texts(self, texts):
        found = [[1e-3 + (word in tokenize(text)) for word in self.words] for text in texts]
        return F.normalize(torch.tensor(found), dim=1)


def system(folder, category):
    """The products of a catalog, found by the words of their titles."""
    catalog = Catalog(folder, category)
    ids = catalog.ids("train")
    titles = {name: catalog.titles[name] for name in ids}
    words = sorted({word for title in titles.values() for word in tokenize(title)})
    encoder = WordCounts(words)
    vectors_ND = encoder.texts(list(titles.values()))
    vocabulary = Vocabulary(["is", *words])
    wording = Wording.of(catalog, ids, vocabulary, Weights(0.1, 2.0, 2.0))
    return System(
        TextRetriever(encoder),
        BestItem(),
        Gallery(Items.without_attributes(ids, vectors_ND), vectors_ND).with_scorer(wording),
        vocabulary,
        ItemCards(catalog.images, titles),
        wording=wording,
    )


def serve(folder, url, listening, categories):
    """Serve a catalog until the process is killed."""
    import uvicorn

    from fashioniq.service.access import Access
    from fashioniq.service.api import create_app
    from fashioniq.service.inference import Inference
    from fashioniq.service.models import Models
    from fashioniq.service.served_model import Served
    from fashioniq.service.service import Service

    def load(run):
        about = {"asks": False, "max_words": 8, "max_turns": None, "requests": ["is red"], "metrics": {}}
        labels = Catalog(folder, run.name).labels
        return Served(f"{run}@1", run.name, run, "1", system(folder, run.name), labels=labels, **about)

    store, inference = Store.open(url), Inference()
    models = Models(store, inference, load, None)
    models.open(list(map(Path, categories)))
    app = create_app(Service(store, models, inference), Access(store, local=True))
    uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listening])


class Shop:
    """A service in a process of its own. Requests wait until it is ready."""

    def __init__(self, forked, folder, url):
        self._forked, self.folder, self._url, self._port = forked, folder, url, 0
        catalog = Catalog(folder, "dresses")
        self.ids, self.titles = catalog.ids("train"), catalog.titles

    def open(self, products=(), categories=("dresses",)):
        """Start the service, or start it again at the same port; return the address of the page.

        `products` are rows of dresses without category and time.
        """
        store = Store.open(self._url)
        rows = [ProductRow(category="dresses", updated_at=store.now(), **fields) for fields in products]
        store.add_products("dresses", rows)
        store.close()
        with socket.create_server(("127.0.0.1", self._port)) as listening:
            self._port = listening.getsockname()[1]
            self.process = self._forked(serve, self.folder, self._url, listening, categories)
        return f"http://127.0.0.1:{self._port}/shop/dresses"

    def stored(self, page):
        """What is stored of the session of a page."""
        id, _, token = page.context.cookies()[0]["value"].partition(".")
        address = f"http://127.0.0.1:{self._port}/v1/sessions/{id}/export"
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.get(address, headers=headers, trust_env=False, timeout=LIMIT).json()


@pytest.fixture(scope="module")
def chromium():
    if BROWSER is None:
        pytest.skip("needs chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shop(forked, sample, tmp_path):
    return Shop(forked, sample, f"sqlite:///{tmp_path}/service.db")


@pytest.fixture
def visit(chromium):
    """Open a page; at the end, it must have logged no error and have asked no other host.

    Answers that are problems are logged by the browser itself and are left out.
    """
    contexts, complaints = [], []

    def visit(address, width=1280, height=900, **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        if options.get("java_script_enabled", True):
            context.clock.install(time=0)
            context.clock.pause_at(1000)  # the page's own time-outs pass only when a test says so
        contexts.append(context)

        def watch(page):
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.on("request", lambda request: request.url.startswith(host) or complaints.append(request.url))

        host = address.partition("/shop")[0]
        context.on("page", watch)
        page = context.new_page()
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert [text for text in complaints if not text.startswith("Failed to load resource")] == []


def violations(page):
    """What axe objects to, in light and dark, on a phone and on a desk."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install '.[dev]'")
    found = []
    page.clock.resume()  # axe waits for timers
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found += [
                (width, scheme, one["id"], [node["html"] for node in one["nodes"]])
                for one in axe.Axe().run(page).response["violations"]
            ]
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    return found


def shown(page):
    return page.eval_on_selector_all("[form=choose]", "all => all.map(one => one.value)")


def choose(page, number, name):
    """Open the menu of a product, counted from 0, and press what it offers."""
    card = page.locator(".card").nth(number)
    card.locator(".menu summary").click()
    card.get_by_text(name, exact=True).click()


def filters(page):
    """Open the filters, which page.js opens where there is room for them."""
    if page.locator(".filters[open]").count() == 0:
        page.get_by_text("Filters", exact=True).click()


def say(page, text):
    """Type into the field, which has the focus, and send it."""
    before = page.locator(SAID).count()
    expect(page.locator("#says")).to_be_focused()
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_count(before + 1)


def say_without_answer(shop, page, text):
    """Send words to a service that is stopped before."""
    os.kill(shop.process.pid, signal.SIGSTOP)
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page.locator(".pending")).to_have_text(f"You said {text}")


def test_a_shopper_reaches_a_product_with_the_keyboard_on_a_phone(shop, visit):
    page = visit(shop.open(), width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    titles = shop.titles
    first = shown(page)
    target = next(name for name in reversed(shop.ids) if name not in first)
    words = [word for word in tokenize(titles[target]) if word not in tokenize(titles[first[0]])]
    for number, word in enumerate(words[:5]):
        page.keyboard.press("Escape")
        page.keyboard.press(str(number + 2))  # talk about another product than the first
        expect(page.locator("#status")).to_contain_text("You are talking about")
        say(page, f"is {word}")
        if target in shown(page):
            break
    assert [turn["about"] for turn in shop.stored(page)["turns"]][1] == first[1]
    place = shown(page).index(target)
    page.keyboard.press("Escape")  # from the field to the first product
    for _ in range(place % 2):
        page.keyboard.press("ArrowRight")
    for _ in range(place // 2):
        page.keyboard.press("ArrowDown")  # two products in a row
    expect(page.locator(".pick").nth(place)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".menu[open]")).to_have_count(1)
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.locator(".menu[open]")).to_have_count(0)
    page.keyboard.press("Enter")
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("You chose this dress")
    expect(page.locator("#found")).to_be_focused()
    (event,) = shop.stored(page)["events"]
    assert (event["action"], event["product_id"], event["position"]) == ("this_is_it", target, place + 1)
    assert page.url.endswith(f"?chosen={target}") and violations(page) == []


def test_a_number_chooses_a_product_only_while_one_has_the_focus(shop, visit):
    """WCAG 2.1.4: who dictates must not choose a product by a word that is heard as a number."""
    page = visit(shop.open())
    for place in (".consent button", "#log", "#found"):
        page.locator(place).first.focus()
        page.keyboard.press("2")
    page.locator(".pick").nth(4).focus()
    page.keyboard.press("3")
    expect(page.locator("#status")).to_contain_text("You are talking about")
    assert shown(page)[2] in page.url


def test_without_scripts_everything_works(shop, visit):
    facts = [
        {"id": name, "price_minor": 1000 * n, "currency": "EUR", "sizes": ["M"]}
        for n, name in enumerate(shop.ids)
    ]
    page = visit(shop.open(facts), java_script_enabled=False)
    about = shown(page)[1]
    choose(page, 1, "Talk about this")
    expect(page.locator("label", has_text="What should be different from")).to_be_visible()
    page.locator("#says").fill("is red")
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_text("is red")
    assert shop.stored(page)["turns"][1]["about"] == about
    choose(page, 3, "More like this")
    expect(page.locator(".turn")).to_have_count(3)
    choose(page, 0, "Less like this")
    expect(page.locator(".turn")).to_have_count(4)
    page.locator(".suggested button").first.click()
    expect(page.locator(".turn")).to_have_count(5)
    page.locator(".held .chip").last.click()
    expect(page.locator(".turn").last).to_contain_text("You took a wish back")
    page.get_by_role("button", name="Go back here").first.click()
    expect(page.locator(".turn")).to_have_count(1)
    filters(page)
    page.get_by_label("From", exact=True).fill("5")
    page.get_by_label("To", exact=True).fill("9.99")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".empty")).to_contain_text("No dress fits these filters")
    page.get_by_role("button", name="Remove price: ").click()
    expect(page.locator(".card")).to_have_count(8)
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    assert shop.stored(page)["session"]["consent"] == "training"
    page.get_by_role("button", name="Delete this conversation").click()
    expect(page.locator("#message")).to_have_text("The conversation was deleted.")
    assert page.context.cookies() == []


def test_turns_are_taken_back_and_texts_recalled(shop, visit):
    page = visit(shop.open())
    first = shown(page)
    say(page, "is red")
    then = shown(page)
    say(page, "is longer")
    say(page, "is blue")
    page.keyboard.type("draft")
    page.keyboard.press("Control+z")  # of the text, not of the conversation
    page.keyboard.press("Escape")
    expect(page.locator("#says")).to_have_value("")
    for left in (2, 1):
        page.keyboard.press("Control+z")
        expect(page.locator(SAID)).to_have_count(left)
        expect(page.locator("#says")).to_be_focused()
    assert shown(page) == then
    page.keyboard.press("ArrowUp")
    expect(page.locator("#says")).to_have_value("is red")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("mine")
    for key in ("ArrowDown", "ArrowUp", "ArrowDown"):  # what was typed is not lost
        page.keyboard.press(key)
    expect(page.locator("#says")).to_have_value("mine")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#says")).to_have_value("is red")
    page.keyboard.type("dish")
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_count(2)
    assert page.locator(SAID).all_text_contents() == ["is red", "is reddish"]
    page.get_by_role("button", name="Go back here").first.click()
    expect(page.locator(SAID)).to_have_count(0)
    assert shown(page) == first


def test_two_tabs_do_not_mix_their_turns(shop, visit):
    page = visit(shop.open())
    say(page, "is red")
    other = page.context.new_page()
    other.goto(page.url)
    say(other, "is longer")
    page.keyboard.type("is blue")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("has gone on in another window")
    expect(page.locator("#status")).to_contain_text("has gone on in another window")
    assert page.locator(SAID).all_text_contents() == ["is red", "is longer"]
    expect(page.locator("#says")).to_have_value("is blue")
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_count(3)
    expect(page.locator("#message")).to_be_hidden()


def test_a_link_on_another_website_goes_on_with_the_conversation(shop, visit):
    page = visit(shop.open())
    first = shown(page)
    say(page, "is red")
    address = page.url
    linked = next(name for name in shop.ids if name not in {*first, *shown(page)})
    page.goto("about:blank")
    page.set_content(f'<a href="{address}?about={linked}">Talk about it</a>')
    page.get_by_role("link").click()
    expect(page.locator(SAID)).to_have_text(["is red"])
    say(page, "is longer")
    expect(page.locator(SAID)).to_have_text(["is red", "is longer"])


def test_what_a_turn_shows_does_not_lie_behind_the_field(shop, visit):
    page = visit(shop.open(), width=390, height=700)

    def covered(selector):
        line = "one => one.getBoundingClientRect()"
        box, field = (page.locator(one).evaluate(line) for one in (selector, ".composer"))
        return box["top"] < field["bottom"] or box["bottom"] > 700

    page.locator(".card").last.scroll_into_view_if_needed()
    say(page, "is red")
    assert not covered("#found")
    other = page.context.new_page()
    other.goto(page.url)
    say(other, "is longer")
    page.locator(".card").last.scroll_into_view_if_needed()
    page.keyboard.type("is blue")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("has gone on in another window")
    assert not covered("#message")


def test_a_turn_is_sent_again_after_a_restart(shop, visit):
    page = visit(shop.open())
    say(page, "is red")
    say_without_answer(shop, page, "is longer")
    page.clock.run_for(150)
    expect(page.locator("#shop")).to_have_class("slow")
    page.clock.run_for(1850)
    expect(page.locator("#status")).to_have_text("Still searching")
    os.kill(shop.process.pid, signal.SIGKILL)
    expect(page.locator("#message")).to_contain_text("The service does not answer")
    expect(page.locator(".pending")).to_have_count(0)
    again = page.get_by_role("button", name="Try again")
    expect(again).to_be_focused()
    shop.open()
    os.kill(shop.process.pid, signal.SIGSTOP)
    page.keyboard.press("Enter")
    expect(page.locator(".pending")).to_have_count(1)
    page.clock.run_for(10_000)
    expect(page.locator(".pending")).to_have_count(0)
    expect(again).to_be_focused()
    os.kill(shop.process.pid, signal.SIGCONT)
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_count(2)
    expect(page.locator("#says")).to_be_focused()
    expect(page.locator("#message")).to_be_hidden()  # the service knows the request
    assert [turn["says"] for turn in shop.stored(page)["turns"]] == [None, "is red", "is longer"]
    page.context.set_offline(True)
    page.keyboard.type("is blue")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("You are offline")
    choose(page, 0, "Talk about this")
    expect(page.locator("#message")).to_contain_text("You are offline")
    expect(page.locator("#says")).to_have_value("is blue")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".about")).to_contain_text("What should be different")
    expect(page.locator("#says")).to_have_value("is blue")


def test_nothing_that_is_done_during_a_slow_answer_is_lost(shop, visit):
    page = visit(shop.open())
    say(page, "is red")
    say_without_answer(shop, page, "is longer")
    page.keyboard.press("Control+a")
    page.keyboard.type("is blue")
    page.keyboard.press("Enter")  # too early
    os.kill(shop.process.pid, signal.SIGCONT)
    expect(page.locator(SAID)).to_have_count(2)
    expect(page.locator("#says")).to_have_value("is blue")
    page.locator("#says").fill("")
    about = shown(page)[1]
    os.kill(shop.process.pid, signal.SIGSTOP)
    choose(page, 1, "Talk about this")
    page.clock.run_for(150)
    expect(page.locator("#shop")).to_have_class("slow")
    page.locator("#says").fill("is blue")
    page.keyboard.press("Enter")  # not yet about the product
    os.kill(shop.process.pid, signal.SIGCONT)
    expect(page.locator("#status")).to_contain_text("You are talking about")
    expect(page.locator("#says")).to_have_value("is blue")
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_count(3)
    assert shop.stored(page)["turns"][-1]["about"] == about


def test_words_typed_before_a_suggestion_is_pressed_stay_in_the_field(shop, visit):
    page = visit(shop.open())
    os.kill(shop.process.pid, signal.SIGSTOP)
    page.keyboard.type("is longer")
    page.locator(".suggested button").first.click()
    page.clock.run_for(150)
    expect(page.locator("#shop")).to_have_class("slow")
    expect(page.locator(".pending")).to_have_count(0)  # only the suggestion was sent
    os.kill(shop.process.pid, signal.SIGCONT)
    expect(page.locator(".turn").last).to_contain_text("You chose")
    expect(page.locator("#says")).to_have_value("is longer")


def test_an_answer_about_training_leaves_the_shopper_where_it_was_given(shop, visit):
    page = visit(shop.open(), width=360, height=640)
    yes = page.get_by_role("button", name="Yes")
    yes.click()
    expect(yes).to_have_attribute("aria-pressed", "true")
    expect(yes).to_be_focused()
    expect(yes).to_be_in_viewport()


def test_a_refusal_is_counted_down_and_then_sent_again(shop, visit, tmp_path, monkeypatch):
    monkeypatch.setattr("fashioniq.service.store.engine.WAIT", 0.05)
    page = visit(shop.open())
    say(page, "is red")
    again = page.get_by_role("button", name="Try again")
    with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        page.keyboard.type("is longer")
        page.keyboard.press("Enter")
        expect(page.locator("#message")).to_contain_text("cannot be stored at the moment")
        expect(again).to_have_text("Try again in 5 s")
        expect(again).to_be_focused()
    for left in ("in 4 s", "in 3 s", "in 2 s", "in 1 s"):
        page.keyboard.press("Enter")  # too early
        page.clock.run_for(1000)
        expect(again).to_have_text(f"Try again {left}")
    assert [turn["says"] for turn in shop.stored(page)["turns"]] == [None, "is red"]
    page.clock.run_for(1000)
    expect(again).to_have_text("Try again")
    page.keyboard.press("Enter")
    expect(page.locator(SAID)).to_have_text(["is red", "is longer"])
    assert [turn["says"] for turn in shop.stored(page)["turns"]] == [None, "is red", "is longer"]


def test_prices_are_found_in_the_currency_that_was_chosen(shop, visit):
    facts = [
        {"id": name, "price_minor": 1999, "currency": currency}
        for name, currency in zip(shop.ids, cycle(("EUR", "JPY", "KWD")), strict=False)
    ]
    page = visit(shop.open(facts))
    filters(page)
    for currency, price, shown in (
        ("JPY", "1999", "¥1,999"),
        ("KWD", "1,999", "KWD\u00a01.999"),
        ("EUR", "19.99", "€19.99"),
    ):
        page.get_by_label("Currency").select_option(currency)
        page.get_by_label("From", exact=True).fill(price)
        page.get_by_label("To", exact=True).fill(price)
        page.get_by_role("button", name="Show", exact=True).click()
        of_currency = sum(one["currency"] == currency for one in facts)
        expect(page.locator(".card .facts b")).to_have_text([shown] * min(8, of_currency))
        expect(page.get_by_label("Currency")).to_have_value(currency)
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.locator(".card").nth(1)).to_be_in_viewport()  # the filters do not lie above the products
    filters(page)
    assert page.get_by_label("Currency").bounding_box()["width"] > 100, "the currency can be read"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_message_without_products_is_read_from_top_to_bottom(shop, visit, width):
    page = visit(shop.open().replace("dresses", "nothing"), width=width)
    expect(page.locator("h1")).to_have_text("Find clothes")
    ((_, title),), ((top, end),), ((link, _),) = (
        positions(page, one) for one in ("h1", "#message", ".button")
    )
    assert title <= top and end <= link


def test_each_category_has_a_conversation_of_its_own(shop, visit):
    address = shop.open(categories=("dresses", "shirts")).removesuffix("/dresses")
    page = visit(address)
    page.get_by_role("link", name="Dresses").click()
    dresses = shown(page)
    say(page, "is red")
    page.goto(address)
    page.get_by_role("link", name="Shirts").click()
    expect(page.locator("h1")).to_contain_text("shirt")
    expect(page.locator(SAID)).to_have_count(0)
    assert not {*shown(page)} & {*dresses}
    say(page, "is blue")
    page.goto(f"{address}/dresses")
    expect(page.locator(SAID)).to_have_text(["is red"])
    assert len(page.context.cookies()) == 2


def test_foreign_titles_do_nothing_and_everyone_can_use_the_page(shop, visit):
    titles = [
        "<img src=x onerror=alert(1)>",
        "</h3><script>alert(2)</script>",
        "a \u202eb\u2066c",
        "x" * 10_000,
    ]
    facts = [
        {"id": name, "title": titles[n % 4], "price_minor": 100 * n, "currency": "EUR", "sizes": ["M", "<b>L</b>"][: n % 3],
         "in_stock": n % 5 > 0}
        for n, name in enumerate(shop.ids)
    ]  # fmt: skip
    page = visit(shop.open(facts), width=390)
    say(page, "is redd <b>longer</b>")
    filters(page)
    assert page.locator("h3 *:not(bdi), script:not([src]), [onerror]").count() == 0
    assert page.locator(".notice", has_text="Not understood").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390, (
        "a long title does not widen the page"
    )
    small = page.eval_on_selector_all(
        "button, .button, summary, select, .filters label, input:not([type=hidden], [type=radio], [type=checkbox])",
        "all => all.map(one => one.getBoundingClientRect()).filter(({width, height}) => width && (width < 44 || height < 44)).length",
    )
    assert small == 0, "each target has at least 44 px"
    assert len(page.content().encode()) < 60_000
    assert violations(page) == []
    page.locator("#says").fill("xyzzy")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("None of these words is known")
    expect(page.locator("#says")).to_have_value("xyzzy")
    page.get_by_label("To", exact=True).fill("0.00")
    page.locator("[name=sizes][value=M]").check()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".empty")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 256})  # 1280 × 1024 at 400 %
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def held(page):
    """What the page shows as holding."""
    texts = [" ".join(text.split()) for text in page.locator(".held .chip").all_inner_texts()]
    return [text.removeprefix("Remove ").removesuffix(" ✕") for text in texts]


def positions(page, selector):
    """Top and bottom of elements in the window, in pixels."""
    script = "all => all.map(one => one.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"
    return page.eval_on_selector_all(selector, script)


@pytest.mark.parametrize(("width", "height", "columns"), [(1280, 900, 4), (390, 844, 2)])
def test_a_conversation_with_a_denial_a_misspelling_an_unknown_word_a_price_and_an_undo(
    shop, visit, width, height, columns
):
    labels = Catalog(shop.folder, "dresses").labels
    facts = [
        {"id": name, "price_minor": 2500 * (1 + n % 4), "currency": "EUR", "sizes": ["M", "S", "L"], "in_stock": n % 5 > 0}
        for n, name in enumerate(shop.ids)
    ]  # fmt: skip

    def obeying(*wanted, denied=()):
        words = [[label for some in labels[name] for label in some] for name in shown(page)]
        return sum(
            all(one in some for one in wanted) and not any(one in some for one in denied) for some in words
        )

    def visible():
        """The field covers no product, and two rows of products are in the window: their pictures, and titles."""
        ((_, end),) = positions(page, ".composer")
        assert all(top >= end for top, _ in positions(page, ".card"))
        pictures = positions(page, ".card img")
        assert pictures[columns - 1][1] < height
        assert pictures[columns][0] < height - 150

    page = visit(shop.open(facts), width=width, height=height)
    visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert (
        page.locator(".filters").bounding_box()["y"] < page.locator(".card").first.bounding_box()["y"]
        or width > 390
    )
    say(page, "a red dress")
    visible()
    assert held(page) == ["red"] and obeying("red") > 0
    reds = sum(any("red" in some for some in labels[name]) for name in shop.ids)
    assert obeying("red") == min(8, reds)
    say(page, "not striped")
    assert held(page) == ["red", "not striped"] and obeying(denied=["striped"]) == 8
    say(page, "wiht long slevees")
    assert held(page) == ["red", "not striped", "long sleeve"]
    expect(page.locator(".understood")).to_contain_text("wiht → with")
    say(page, "xyzzy, under 80 euros")
    expect(page.locator(".understood")).to_contain_text("Not understood: xyzzy")
    assert held(page) == ["red", "not striped", "long sleeve", "up to €80.00"]
    prices = page.locator(".card .facts b").all_inner_texts()
    assert len(prices) == 8 and set(prices) <= {"€25.00", "€50.00", "€75.00"}
    assert page.locator(".card .sizes").first.inner_text().endswith("S M L")
    out = [card.locator(".out").count() for card in page.locator(".card").all()]
    assert out == sorted(out)
    assert violations(page) == []
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".held .chip")).to_have_count(3)
    page.locator(".held .chip", has_text="not striped").click()
    expect(page.locator(".held .chip")).to_have_count(2)
    assert held(page) == ["red", "long sleeve"]
    before = page.locator("#found").inner_text()
    say_refused = page.locator("#says")
    say_refused.fill("xyzzy plugh")
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("None of these words is known")
    assert held(page) == ["red", "long sleeve"] and page.locator("#found").inner_text() == before


@pytest.mark.parametrize("scripts", [True, False])
def test_more_products_are_shown_below_those_that_were(shop, visit, scripts):
    page = visit(shop.open([]), java_script_enabled=scripts, width=390, height=844)
    say(page, "a red dress") if scripts else None
    first = shown(page)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".card")).to_have_count(24)
    assert shown(page)[:8] == first
    if scripts:
        focused = page.evaluate("document.activeElement.closest('.card').querySelector('h3').id")
        assert focused == "title-9" and page.locator(".card").nth(8).bounding_box()["y"] < 844
        assert violations(page) == []
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".card")).to_have_count(36)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_a_german_browser_gets_a_german_page(shop, visit):
    facts = [{"id": name, "price_minor": 13390, "currency": "EUR"} for name in shop.ids]
    page = visit(shop.open(facts), locale="de-DE")
    expect(page.locator("h1")).to_have_text("Kleider finden")
    expect(page.locator("#found")).to_contain_text("Kleidern")
    expect(page.locator(".card .facts b").first).to_have_text("133,90\u00a0€")
    say(page, "is red")
    expect(page.locator("#status")).to_contain_text("8 Kleider. Zuerst: ")
    expect(page.get_by_role("button", name="Rückgängig")).to_be_visible()
    assert violations(page) == []

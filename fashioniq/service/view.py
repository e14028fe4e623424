"""What the shoppers' page shows: the state of a conversation, and texts and templates in a shopper's language."""

import hashlib
import secrets
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from fashioniq.categories import singular
from fashioniq.service import filter_chips
from fashioniq.service.problems import Problem
from fashioniq.service.replies import result
from fashioniq.service.reply_schemas import ResultReply, TurnReply
from fashioniq.service.schemas import MAX_K, MAX_TEXT, MAX_TURNS, MAX_VALUES, SHOWN
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import SessionRow
from fashioniq.service.translations import N_, SOURCE, interface, texts_of

PREFIX = "/shop"
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
LONGEST = 120  # characters of a title
DIRECTIONS = dict.fromkeys(
    map(ord, "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
)


TEXTS = {  # by code of a problem
    "forbidden": N_("The request came from another website and was not accepted."),
    "invalid": N_("This value cannot be used. Correct it and try again."),
    "price": N_("This price cannot be used. Write a number, such as 59.90."),
    "key-reused": N_("The conversation has gone on since. This is where it is now."),
    "new": N_("Your earlier conversation has ended. This is a new one."),
    "no-picture-encoder": N_("Pictures cannot be searched here."),
    "not-held": N_("This no longer holds."),
    "unknown-label": N_("This search does not have this label."),
    "not-shown": N_("This product was not shown in this conversation. Choose one of those below."),
    "nothing-understood": N_(
        "None of these words is known here. Try other words, such as a color, a pattern or a length."
    ),
    "model-retired": N_("This conversation cannot go on, since the search has changed. Start again."),
    "questions-only": N_("This search needs words and cannot start from a product."),
    "session-expired": N_("The conversation has ended."),
    "too-large": N_("This picture is too large. Choose one of at most 10 MB."),
    "unreadable-picture": N_("This picture cannot be read. Choose a JPEG, PNG or WebP of at most 10 MB."),
    "too-many-requests": N_("That was faster than this service allows."),
    "too-many-turns": N_(
        "A conversation has at most %(turns)s turns. Go back to an earlier one, or start again."
    ),
    "turn-conflict": N_("The conversation has gone on in another window. This is where it is now."),
    "internal": N_("Something went wrong. Try again."),
    "busy": N_("The service is busy at the moment."),
    "engine": N_("Products cannot be searched at the moment."),
    "database": N_("Conversations cannot be stored at the moment."),
}
MISSING = N_("There is nothing at this address.")  # of a problem with status 404
FAULTY = N_("The request could not be read.")  # of any other problem
NOTICES = {  # by code of a notice
    "more-turns-than-trained": N_(
        "This conversation is longer than those the search has learned from; more turns may not help."
    ),
    "text-cut": N_("The end of your request was too long and was not read."),
    "no-price": N_("The price to compare with is not known. Say what it should cost."),
    "no-prices": N_("The prices of these products are not known."),
    "other-currency": N_("No price here is in this currency. Say it in another one."),
    "no-sizes": N_("The sizes of these products are not known."),
    "no-stock": N_("It is not known which of these products are in stock."),
    "nothing-near": N_("Nothing here fits well; these are the nearest products."),
    "no-picture": N_("No picture could be drawn from these words, so they were searched for as a text."),
}
SCRIPT = {  # texts of page.js
    "still": N_("Still searching"),
    "said": N_("You said"),
    "again": N_("Try again"),
    "wait": N_("Try again in {n} s"),
    "silent": N_("The service does not answer. Your words are not lost."),
    "offline": N_("You are offline. Your words are not lost."),
}


@dataclass
class ProblemView:
    """A problem as a shopper sees it, with ways out: known words, the same request again, or a new conversation."""

    code: str
    status: int = 200
    near: list[str] = field(default_factory=list)
    retry: list[tuple[str, str]] | None = None
    action: str = ""
    wait: int = 0  # seconds
    product: str | None = None

    @property
    def text(self) -> str:
        """What to say, in the language of the source."""
        return TEXTS.get(self.code, MISSING if self.status == 404 else FAULTY)


def state(request: Request, service: Service, served: Served, session: SessionRow | None) -> dict[str, Any]:
    """Values of the template for the present state of a conversation."""
    turns: list[TurnReply] = []
    if session is None:
        last = service.searches.first(served.category)
    else:
        stored = service.read(session, facets=True)
        served = service.models.version(session.model)
        last, turns = stored.last, stored.turns
    query = request.query_params
    wanted = served.own(query.get("about", ""))
    picked = wanted if not served.asks and wanted in served else None
    about = picked or _subject(turns)
    said = served.own(query.get("chosen", ""))
    chosen = said if any(said in turn.shown for turn in turns) else ""
    mentioned = {about, *(one for turn in turns for one in (turn.about, *turn.shown[:1]))}
    named = {one: _product(served, one) for one in mentioned if one and one in served}
    divided = filter_chips.families(last.facets)
    wishes = filter_chips.chips_of(last.holding)
    return {
        "served": served,
        "path": f"{PREFIX}/{served.category}",
        "last": last,
        "results": sorted(last.results, key=lambda one: one.in_stock is False),
        "common": {singular(served.category), served.category, *filter_chips.common_labels(served)},
        "after": turns[-1].turn if turns else 0,
        "turns": turns,
        "previous": turns[-2].turn if len(turns) > 1 else None,  # to which the last turn can be taken back
        # a model that generates pictures searches with the last words alone, so that they are changed
        "again": next((turn.says for turn in reversed(turns) if turn.says), "") if served.draws else "",
        "named": named,
        "about": about,
        "picked": picked,
        "filters": last.filters,
        "families": divided,
        "suggested": filter_chips.suggestions(divided, last.holding),
        "labels": "chip" if served.system.wording is None else "wish",  # field of the form for a label
        "sized": {one.size: one.count for one in last.facets.sizes} if last.facets else {},
        "changed": filter_chips.replaced(last.heard.changed),
        "wishes": wishes,
        "matching": last.facets.products if wishes and last.facets else None,
        "without": served.shelf.without_each(last.filters) if not last.results else {},
        "chosen": _product(served, chosen) if chosen else None,
        "deleted": "deleted" in query and session is None,
        "consent": session.consent if session else "none",
    }


def _subject(turns: list[TurnReply]) -> str | None:
    """Product that the shopper chose to talk about last, if nothing was said of it since."""
    for turn in reversed(turns):
        if turn.kind in ("like", "start"):
            return turn.about
        if turn.says or turn.wish or turn.about:
            return None
    return None


def _product(served: Served, name: str) -> ResultReply:
    return result(served, served.system.cards.product(name, 0.0), 1, [])


def render(
    request: Request,
    template: str,
    values: dict[str, Any],
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """A page, or its part that changes for page.js."""
    category, own = request.path_params.get("category", ""), _language(request)
    ui = interface(request.headers.get("accept-language", ""), own)
    values = values | {
        "fragment": "x-fragment" in request.headers,
        "category": category,
        "key": secrets.token_urlsafe(24),
        "ui": ui,
        "own": own,
        "script": {name: ui.texts.gettext(text) for name, text in SCRIPT.items()},
    }
    text = _environment(ui.locale.language).get_template(template).render(values)
    # with no-referrer, browsers would send forms without their origin
    sent_with = {
        "Referrer-Policy": "same-origin",
        "Vary": "X-Fragment, Accept-Language",
        "Content-Language": ui.tag,
    }
    return HTMLResponse(text, status, (headers or {}) | sent_with)


def _language(request: Request) -> str:
    """Language of the catalog that a page is about; of the first one, if it is about none."""
    models = request.app.state.service.models
    try:
        return models.active(request.path_params.get("category") or next(iter(models.categories), "")).speech
    except Problem:
        return SOURCE


@cache
def _environment(language: str) -> Environment:
    made = Environment(
        loader=PackageLoader("fashioniq.service"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_translations(texts_of(language), newstyle=True)  # type: ignore[attr-defined]
    made.policies["ext.i18n.trimmed"] = True
    made.filters.update(plain=_plain)
    made.globals.update(
        PREFIX=PREFIX,
        MAX_K=MAX_K,
        SHOWN=SHOWN,
        MAX_TEXT=MAX_TEXT,
        MAX_VALUES=MAX_VALUES,
        MAX_TURNS=MAX_TURNS,
        FAMILIES=filter_chips.FAMILIES,
        # of a static file, which changes with its content
        address=lambda name: f"{PREFIX}/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:8]}",
        NOTICES=NOTICES,
        link=lambda path, about: f"{path}?about={quote(about, safe='')}",
    )
    return made


def _plain(text: str) -> str:
    """A title without marks that change the direction of other texts, shortened."""
    text = text.translate(DIRECTIONS)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@cache
def static_file(name: str) -> bytes:
    """A file of the page."""
    return files("fashioniq.service").joinpath("static", name).read_bytes()

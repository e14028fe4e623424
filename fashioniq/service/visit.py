"""A request of a shopper: its session, and what is done and answered in it."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from msgspec.structs import replace
from pydantic import ValidationError

from fashioniq.service.forms import Sent, cookie_name
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.schemas import Consent, SessionBody, StartBody, TurnBody
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import SessionRow
from fashioniq.service.view import PREFIX, ProblemView, render, state

LIFE = 24 * 3600  # seconds of a cookie
SESSION = re.compile("ses_[0-9a-f]{32}")  # PostgreSQL fails with other texts, such as one with a NUL


@dataclass
class Visit:
    """A request of a shopper. `cookie` is the new value of the cookie, empty to remove it, None to leave it.

    `stale` tells that the session of the cookie has ended.
    """

    request: Request
    service: Service
    served: Served
    session: SessionRow | None = None
    stale: bool = False
    cookie: str | None = None

    @property
    def private(self) -> bool:
        """Whether the browser asks not to use what is said (Global Privacy Control)."""
        return self.request.headers.get("sec-gpc") == "1"

    def started(self, sent: Sent, start: StartBody | None = None, consent: Consent = "none") -> SessionRow:
        """The session, which begins with the first form that is sent, then with this consent."""
        if self.stale or (self.session is None and sent.after_turn):  # such as one deleted in another tab
            raise Problem("session-expired")
        if self.session is None:
            self.request.app.state.access.limit(self.request, "sessions")
            first = start or StartBody()
            wanted = SessionBody(category=self.served.category, start=first, consent=consent)
            answer = self.service.start(wanted, "page", key="page", secret=sent.key)
            self.session = self.service.open(answer.session_id, answer.session_token)
            self.cookie = f"{answer.session_id}.{answer.session_token}"
        return self.session

    def turn(self, sent: Sent, **fields: Any) -> None:
        """Add a turn."""
        session = self.started(sent)
        try:
            turn = TurnBody(after_turn=sent.after_turn, **fields)
        except ValidationError:
            raise wrong("/says", "invalid") from None
        self.service.add_turn(session, turn, sent.stored_key, linked=True)
        self.request.app.state.measures.turns.labels(session.category).inc()

    def page(
        self, message: ProblemView | None = None, status: int = 200, sent: Sent | None = None
    ) -> Response:
        """The page with the present state of the conversation, and what was typed into a form that was refused."""
        values = state(self.request, self.service, self.served, self.session)
        typed = sent if sent and (sent.price_from or sent.price_to) else None
        values |= {
            "private": self.private,
            "message": message,
            "draft": sent.says if sent else "",
            "typed": typed,
        }
        return self._with_cookie(render(self.request, "shop.html", values, status))

    def redirect(self, query: str) -> Response:
        """Answer to a form."""
        return self._with_cookie(RedirectResponse(f"{PREFIX}/{self.served.category}{query}", 303))

    def _with_cookie(self, response: Response) -> Response:
        if self.cookie is not None:
            response.set_cookie(
                cookie_name(self.served.category),
                self.cookie,
                max_age=LIFE if self.cookie else 0,
                path=PREFIX,
                secure=self.request.url.scheme == "https",
                httponly=True,
                samesite="lax",  # a link of the shop goes on with the conversation; forms of others are refused
            )
        return response


def _here(request: Request, category: str) -> Visit:
    service: Service = request.app.state.service
    visit = Visit(request, service, service.models.active(category))
    id, _, token = request.cookies.get(cookie_name(visit.served.category), "").partition(".")
    if SESSION.fullmatch(id):
        try:
            visit.session = service.open(id, token)
        except Problem as problem:
            if problem.code != "unknown-session":
                raise
        if visit.session is None or visit.session.category != visit.served.category:
            visit.session, visit.stale = None, True
    if visit.session and visit.private and visit.session.consent != "none":
        service.store.set_consent(id, "none")
        visit.session = replace(visit.session, consent="none")
    return visit


Here = Annotated[Visit, Depends(_here)]

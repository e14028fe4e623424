"""The shopper's page: rendered on the server, so that it works without scripts.

A form is answered with a redirect to the page. page.js sends the same forms with the header X-Fragment, and receives
the part of the page that changes, rendered from the same templates.
"""

from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Form, Request, Response, UploadFile
from fastapi.responses import RedirectResponse

from fashioniq.service.problems import PROBLEM_OF, Problem
from fashioniq.service.routes import new_router
from fashioniq.service.schemas import MAX_K, FiltersBody, LabelWishBody, Number, StartBody
from fashioniq.service.store import KeyReused, TurnConflict
from fashioniq.service.uploads import MAX_BYTES
from fashioniq.service.view import PREFIX, STATIC, ProblemView, render, static_file
from fashioniq.service.visit import Here, Key, Sent, Visit, same_origin

FORM = 64 * 1024  # bytes of a form besides its picture
MORE = 16  # products that are shown below those that were
WITH_PRODUCTS = {  # problems that are shown above the products
    "invalid",
    "key-reused",
    "not-shown",
    "not-held",
    "nothing-understood",
    "questions-only",
    "too-many-turns",
    "turn-conflict",
    "unknown-label",
    "unreadable-picture",
}
FORM_ERRORS = Problem, TurnConflict, KeyReused


router = new_router(include_in_schema=False)


@router.get("/")
def root() -> Response:
    return RedirectResponse(PREFIX, 303)


@router.get(PREFIX)
def categories(request: Request) -> Response:
    names = request.app.state.service.models.categories
    if len(names) == 1:
        return RedirectResponse(f"{PREFIX}/{names[0]}", 303)
    return render(request, "categories.html", {"categories": names})


@router.get(PREFIX + "/static/{name}")
def static(name: str) -> Response:
    if name not in STATIC:
        raise Problem("not-found")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_file(name), media_type=STATIC[name], headers=headers)


@router.get(PREFIX + "/{category}")
def shop(visit: Here) -> Response:
    if not visit.stale:
        return visit.page()
    visit.cookie = ""
    return visit.page(ProblemView("new"))


@router.post(
    PREFIX + "/{category}/picture",
    dependencies=[Depends(same_origin)],
    max_body_size=MAX_BYTES + FORM,
)
def picture(request: Request, visit: Here, picture: UploadFile, key: Annotated[Key, Form()]) -> Response:
    """Begin again with the products like an uploaded picture."""
    try:
        request.app.state.access.limit(request, "uploads")
        seen = visit.service.upload(visit.served.category, picture.file.read())
        visit.session, visit.stale = None, False
        visit.started(Sent(key=key), StartBody(picture_id=seen.picture_id))
    except FORM_ERRORS as error:
        return _refused(visit, error)
    return visit.redirect("")


@router.get(PREFIX + "/{category}/turns/{n}/picture")
def generated(request: Request, visit: Here, n: Number) -> Response:
    """The picture generated from the words of a turn."""
    request.app.state.access.limit(request, "turns")
    if visit.session is None:
        raise Problem("unknown-session")
    return Response(visit.service.picture(visit.session, n), media_type="image/webp")


def _refused(visit: Visit, error: Exception, sent: Sent | None = None) -> Response:
    """The page with what is wrong with a form. Raises the error if it cannot be shown above the products."""
    problem = PROBLEM_OF[type(error)](error)
    if problem.code not in WITH_PRODUCTS:
        raise error
    return visit.page(message_of(problem, sent), problem.status, sent)


def message_of(problem: Problem, sent: Sent | None) -> ProblemView:
    """A problem after a form as a shopper sees it."""
    return ProblemView(
        "price" if any(one["pointer"] == "/price" for one in problem.errors) else problem.code,
        problem.status,
        near=problem.more.get("near", []),
        wait=problem.retry_after or 0,
        product=sent.about or sent.product if sent else None,
    )


def problem_page(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """An error as a page, or as the message alone for page.js."""
    sent: Sent | None = getattr(request.state, "sent", None)
    message = message_of(problem, sent)
    if sent is not None and problem.status in (429, 500, 503):
        message.action = request.url.path
        message.retry = [
            (name, str(one))
            for name, value in sent.model_dump(exclude_unset=True, exclude_none=True).items()
            for one in (value if isinstance(value, list) else [value])
        ]
    return render(request, "problem.html", {"message": message}, problem.status, headers)


Action = Callable[[Visit, Sent], str | None]


def _answering(action: Action) -> Callable[..., Response]:
    """Route of a form: a redirect, or the page with what is wrong."""

    def answer(request: Request, visit: Here, sent: Annotated[Sent, Form()]) -> Response:
        request.state.sent = sent = visit.served.spelled(sent)
        request.app.state.access.limit(request, "turns")
        try:
            query = action(visit, sent)
        except FORM_ERRORS as error:
            return _refused(visit, error, sent)
        return visit.redirect(query or "")

    return answer


def _say(visit: Visit, sent: Sent) -> None:
    if visit.session is None and sent.about and sent.about not in visit.served.typical:
        visit.started(sent, StartBody(product_id=sent.about))
    if sent.wish:
        visit.turn(sent, wish=LabelWishBody(label=sent.wish))
    else:  # about no product, unless one was chosen
        visit.turn(sent, says=(sent.chip or sent.says).strip(), about=sent.about or "")


def _filter(visit: Visit, sent: Sent) -> None:
    if sent.without == "all":
        filters = FiltersBody()
    elif sent.without:
        filters = visit.service.read(visit.started(sent)).filters.model_copy(update={sent.without: None})
    else:
        filters = sent.filters
    visit.turn(sent, filters=filters)


def _more(visit: Visit, sent: Sent) -> None:
    present = visit.service.read(visit.started(sent))
    visit.turn(sent, filters=present.filters, k=min(len(present.last.results) + MORE, MAX_K))


def _undo(visit: Visit, sent: Sent) -> None:
    visit.service.undo(visit.started(sent), sent.to + 1)


def _choose(visit: Visit, sent: Sent) -> str:
    visit.service.choose(visit.started(sent), sent.product or "", sent.stored_key)
    return f"?chosen={quote(sent.product or '', safe='')}"


def _consent(visit: Visit, sent: Sent) -> None:
    consent = "none" if visit.private else sent.consent
    if visit.session is not None or consent != "none":
        visit.service.store.set_consent(visit.started(sent, consent=consent).id, consent)


def _delete(visit: Visit, sent: Sent) -> str:
    if visit.session is not None:
        visit.service.store.erase_session(visit.session.id)
    visit.cookie = ""
    return "?deleted"


def _restart(visit: Visit, sent: Sent) -> None:
    visit.session, visit.stale, visit.cookie = None, False, ""
    if sent.product:
        visit.started(sent, StartBody(product_id=sent.product))


ACTIONS: dict[str, Action] = {
    "say": _say,
    "like": lambda visit, sent: visit.turn(sent, like=sent.product),
    "less-like": lambda visit, sent: visit.turn(sent, less_like=sent.product),
    "drop": lambda visit, sent: visit.turn(sent, drop=sent.drop),
    "filters": _filter,
    "more": _more,
    "undo": _undo,
    "choose": _choose,
    "consent": _consent,
    "delete": _delete,
    "restart": _restart,
}

for name, action in ACTIONS.items():
    router.post(f"{PREFIX}/{{category}}/{name}", dependencies=[Depends(same_origin)])(_answering(action))

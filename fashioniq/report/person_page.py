"""A page on which people answer, ask, describe and judge in dialogs that a command makes."""

import os
import secrets
import threading
from concurrent.futures import Future
from functools import cache
from http import HTTPStatus
from pathlib import Path

from PIL.Image import Image

from fashioniq.data.images import UnreadableImage, load_image, shown_jpeg
from fashioniq.data.person_questions import Answered, PersonForm
from fashioniq.files import UserError
from fashioniq.local_page import Fields, LocalHandler, LocalServer, Refused
from fashioniq.report.templates import environment


class PersonPage(LocalServer):
    """Server of the page. One question is open at a time; it is for the user or for the questioner."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port, _PersonHandler)
        self._lock, self._number = threading.Lock(), 0
        self._open: tuple[PersonForm, Future[Answered]] | None = None
        self._told = set[str]()
        threading.Thread(target=self.serve_forever, name="page", daemon=True).start()

    def ask(self, asked: PersonForm) -> Answered:
        """Ask on the page, and wait for the answer."""
        if asked.who not in self._told:
            self._told.add(asked.who)
            print(
                f"{asked.who}: open {self.address}?who={asked.who} in a browser on this machine", flush=True
            )
        answer: Future[Answered] = Future()
        with self._lock:
            self._number, self._open = self._number + 1, (asked, answer)
        try:
            return answer.result()
        except BaseException:  # interrupted: an answer that comes later is for nobody
            self._told.clear()
            raise
        finally:
            with self._lock:
                self._open = None

    def open_for(self, who: str) -> tuple[int, PersonForm | None]:
        """Number of the last question, and the question itself if it is open and for this person."""
        with self._lock:
            return self._number, self._open[0] if self._open and self._open[0].who == who else None

    def accept(self, number: int, who: str, answered: Answered) -> "Future[Answered] | None":
        """What waits for the answer to the question with this number; None if it was answered, such as in another tab.

        Raises UserError if something is missing in the answer.
        """
        with self._lock:
            if self._open is None or (number, who) != (self._number, self._open[0].who):
                return None
            asked, answer = self._open
            if not (answered.text.strip(" ?") or asked.optional or asked.draft):
                raise UserError("Write something first.")
            if asked.judged and answered.judged is None:
                raise UserError("Say yes or no, too.")
            self._open = None
        return answer


def person_page() -> PersonPage:
    """The page of this process, which is served until it ends."""
    return _page_of(os.getpid())


@cache
def _page_of(process: int) -> PersonPage:
    return PersonPage()  # a forked process has the page of its parent, but not the thread that serves it


class _PersonHandler(LocalHandler):
    server: PersonPage

    def get(self, rest: str, query: Fields) -> None:
        who = "questioner" if query.get("who") == "questioner" else "user"
        if rest:
            self.send_picture(self._picture(rest))
        else:
            self._show(who)

    def post(self, fields: Fields) -> None:
        who, number, said = fields.get("who", ""), fields.get("number", ""), fields.get("text", "")
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise Refused(HTTPStatus.BAD_REQUEST)
        answered = Answered(said, {"yes": True, "no": False}.get(fields.get("judged", "")))
        try:
            answer = self.server.accept(int(number), who, answered)
        except UserError as error:
            self._show(who, str(error), said, HTTPStatus.UNPROCESSABLE_ENTITY)
            return
        try:  # first the page: after the last answer, the command ends
            self._show(who, "" if answer else f"This was answered before; {said!r} was not kept.")
        finally:
            if answer:
                answer.set_result(answered)

    def _show(self, who: str, message: str = "", typed: str = "", status: HTTPStatus = HTTPStatus.OK) -> None:
        (number, asked), nonce = self.server.open_for(who), secrets.token_urlsafe(16)
        shown = [] if asked is None else enumerate(asked.pictures)
        page = (
            environment()
            .get_template("person.html")
            .render(
                title="Dialogs",
                who=who,
                number=number,
                asked=asked,
                shown=[
                    (title, None if isinstance(one, str) else f"{number}-{place}", one)
                    for place, (title, one) in shown
                ],
                message=message,
                draft=typed or (asked.draft if asked else ""),
                nonce=nonce,
            )
        )
        self.send_page(page, nonce, status)

    def _picture(self, rest: str) -> bytes | None:
        """Picture of the open question, by "NUMBER-PLACE"; None if there is none that can be read."""
        for who in ("user", "questioner"):
            number, asked = self.server.open_for(who)
            for place, (_, one) in enumerate(asked.pictures if asked else ()):
                if rest == f"{number}-{place}" and not isinstance(one, str):
                    try:
                        return shown_jpeg(one if isinstance(one, Image) else load_image(Path(one)))
                    except UnreadableImage:
                        return None
        return None

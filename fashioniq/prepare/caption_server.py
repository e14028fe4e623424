"""Web server of the caption page, for browsers on this machine."""

import secrets
from collections.abc import Callable
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from fashioniq.data.catalog import Catalog
from fashioniq.data.images import UnreadableImage, load_image, shown_jpeg
from fashioniq.files import UserError
from fashioniq.local_page import Fields, LocalHandler, LocalServer, Refused
from fashioniq.prepare.caption_files import CaptionError, checked_name
from fashioniq.prepare.captioning import Desk
from fashioniq.prepare.pairs_to_caption import Comparison

Render = Callable[..., str]  # page from the values of `_CaptionHandler._page`


class Shown(NamedTuple):
    """One product on the page: title, and address of its picture, None without one."""

    title: str
    picture: str | None


class CaptionServer(LocalServer):
    """Server of the caption page of a catalog.

    `render` returns the page. Raises UserError if the port is in use.
    """

    def __init__(self, catalog: Catalog, desk: Desk, render: Render, port: int) -> None:
        self.catalog, self.desk, self.render = catalog, desk, render
        self.picture = lru_cache(256)(partial(_jpeg, catalog.images))
        super().__init__(port, _CaptionHandler)

    def stop(self) -> None:
        """Stop accepting requests, and wait until no caption is being saved."""
        self.server_close()
        with self.desk.files.locked():
            pass


class _CaptionHandler(LocalHandler):
    server: CaptionServer

    def get(self, rest: str, query: Fields) -> None:
        if rest.startswith("picture/"):
            self.send_picture(self.server.picture(unquote(rest.removeprefix("picture/"))))
        elif rest:
            raise Refused(HTTPStatus.NOT_FOUND)
        else:
            self._show(query.get("person", ""))

    def post(self, fields: Fields) -> None:
        """Apply an action of the page; after an error, show the page again with the text."""
        person, action = fields.get("person", ""), fields.get("action", "")
        pair = Comparison(*(fields.get(name, "") for name in Comparison._fields))
        desk = self.server.desk
        try:
            if action == "save":
                desk.save(person, pair, fields.get("caption", ""))
            elif action == "skip":
                desk.skip(person, pair)
            elif action == "undo":
                desk.undo(checked_name(person))
            else:
                raise Refused(HTTPStatus.BAD_REQUEST)
        except UserError as error:
            mistake = isinstance(error, CaptionError)
            status = HTTPStatus.UNPROCESSABLE_ENTITY if mistake else HTTPStatus.INTERNAL_SERVER_ERROR
            self._show(person, status, str(error), fields.get("caption", ""))
            return
        self.show_again(f"person={quote(person, safe='')}")

    def _show(
        self, person: str, status: HTTPStatus = HTTPStatus.OK, message: str = "", typed: str = ""
    ) -> None:
        nonce = secrets.token_urlsafe(16)
        try:
            page = self._page(person, message, typed, nonce)
        except UserError as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            page = self.server.render(person="", message=str(error), nonce=nonce)
        self.send_page(page, nonce, status)

    def _page(self, person: str, message: str, typed: str, nonce: str) -> str:
        """Page for a person: the next pair, or the question for a name."""
        try:
            person = checked_name(person)
        except CaptionError as error:
            return self.server.render(
                person="", message=message or (str(error) if person else ""), nonce=nonce
            )
        desk = self.server.desk
        lease = desk.next(person)
        return self.server.render(
            person=person,
            message=message,
            nonce=nonce,
            pair=lease.pair if lease else None,
            shown=[self._product(name) for name in lease.pair[1:]] if lease else [],
            draft=typed or (lease.draft if lease else ""),
            progress=desk.progress(person),
        )

    def _product(self, name: str) -> Shown:
        catalog = self.server.catalog
        picture = f"picture/{quote(name, safe='')}" if self.server.picture(name) else None
        return Shown(catalog.titles.get(name, name), picture)


def _jpeg(images: dict[str, Path], name: str) -> bytes | None:
    """Picture of a product as a JPEG; None if there is none that can be read."""
    try:
        return shown_jpeg(load_image(images[name]))
    except (KeyError, UnreadableImage):
        return None

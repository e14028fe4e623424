"""Web server of the caption page, for browsers on this machine.

Its address has a random token, and requests that name another host or come from another page are refused, so
that websites in the same browser can neither read the page nor write captions.
"""

import io
import secrets
from collections.abc import Callable
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from PIL import Image, ImageOps

from fashioniq.data.catalog import Catalog
from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.files import UserError
from fashioniq.prepare.caption_files import CaptionError, checked_name
from fashioniq.prepare.captioning import Desk
from fashioniq.prepare.pairs_to_caption import Comparison

HOST = "127.0.0.1"
LONGEST_BODY = 16_384  # bytes; the longest caption has 300 characters
_NAMES = (HOST, "localhost")  # of this machine in a Host header
_SIDE = 640  # pixels: longest side of a picture on the page
_SECONDS = 10.0  # a connection without data is closed after this time

Render = Callable[..., str]  # page from the values of `_Handler._page`


class Shown(NamedTuple):
    """One product on the page: title, and address of its picture, None without one."""

    title: str
    picture: str | None


class CaptionServer(ThreadingHTTPServer):
    """Server of the caption page of a catalog on the loopback interface.

    `render` returns the page. Raises UserError if the port is in use.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, catalog: Catalog, desk: Desk, render: Render, port: int) -> None:
        self.catalog, self.desk, self.render = catalog, desk, render
        self.token = secrets.token_urlsafe(16)
        self.picture = lru_cache(256)(partial(_jpeg, catalog.images))
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UserError(
                f"cannot use port {port} ({error.strerror}); give another --port, or 0 for a free one"
            ) from error

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def stop(self) -> None:
        """Stop accepting requests, and wait until no caption is being saved."""
        self.server_close()
        with self.desk.files.locked():
            pass

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a browser closed."""


class _Refused(Exception):
    """A request that is refused with a status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: CaptionServer
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def log_message(self, *_: Any) -> None:
        """Print nothing: addresses contain the token."""

    def version_string(self) -> str:
        return "fashioniq"

    def _respond(self, answer: Callable[[str, dict[str, str]], None]) -> None:
        """Check the origin of a request and its token, then answer it."""
        try:
            self._check_origin()
            path, _, query = self.path.partition("?")
            token, _, rest = path.removeprefix("/").partition("/")
            if not secrets.compare_digest(token.encode(), self.server.token.encode()):
                raise _Refused(HTTPStatus.NOT_FOUND)
            answer(rest, _fields(query))
        except _Refused as refused:
            self._send(refused.status, f"{refused}\n".encode(), "text/plain; charset=utf-8")

    def _check_origin(self) -> None:
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST) from error
        if name not in _NAMES or self.headers.get("Origin", f"http://{host}") != f"http://{host}":
            raise _Refused(HTTPStatus.FORBIDDEN)

    def _get(self, rest: str, query: dict[str, str]) -> None:
        if rest.startswith("picture/"):
            picture = self.server.picture(unquote(rest.removeprefix("picture/")))
            if picture is None:
                raise _Refused(HTTPStatus.NOT_FOUND)
            self._send(HTTPStatus.OK, picture, "image/jpeg", cache="private, max-age=3600")
        elif rest:
            raise _Refused(HTTPStatus.NOT_FOUND)
        else:
            self._show(query.get("person", ""))

    def _post(self, rest: str, _: dict[str, str]) -> None:
        """Apply an action of the page; after an error, show the page again with the text."""
        length = self.headers.get("Content-Length", "")
        if rest or self.headers.get_content_type() != "application/x-www-form-urlencoded":
            raise _Refused(HTTPStatus.BAD_REQUEST)
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > 9 or int(length) > LONGEST_BODY:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        fields = _fields(self.rfile.read(int(length)).decode("utf-8", "replace"))
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
                raise _Refused(HTTPStatus.BAD_REQUEST)
        except UserError as error:
            mistake = isinstance(error, CaptionError)
            status = HTTPStatus.UNPROCESSABLE_ENTITY if mistake else HTTPStatus.INTERNAL_SERVER_ERROR
            self._show(person, status, str(error), fields.get("caption", ""))
            return
        self.send_response(HTTPStatus.SEE_OTHER)  # so that reloading the page repeats nothing
        self.send_header("Location", f"./?person={quote(person, safe='')}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _show(
        self, person: str, status: HTTPStatus = HTTPStatus.OK, message: str = "", typed: str = ""
    ) -> None:
        nonce = secrets.token_urlsafe(16)
        try:
            page = self._page(person, message, typed, nonce)
        except UserError as error:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            page = self.server.render(person="", message=str(error), nonce=nonce)
        self._send(status, page.encode("utf-8", "replace"), "text/html; charset=utf-8", nonce)

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

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str, nonce: str = "", cache: str = "no-store"
    ) -> None:
        allowed = (
            f"; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src 'self' data:" if nonce else ""
        )
        policy = f"default-src 'none'{allowed}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", cache),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _fields(text: str) -> dict[str, str]:
    """Values of a form or query, the last one of each name."""
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=20)
    except ValueError as error:  # too many
        raise _Refused(HTTPStatus.BAD_REQUEST) from error
    return {name: values[-1] for name, values in fields.items()}


def _jpeg(images: dict[str, Path], name: str) -> bytes | None:
    """Picture of a product as a JPEG without metadata; None if there is none that can be read."""
    try:
        image = load_image(images[name])
    except (KeyError, UnreadableImage):
        return None
    if max(image.size) > _SIDE:
        image = ImageOps.contain(image, (_SIDE, _SIDE), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.save(written, "JPEG", quality=85)
    return written.getvalue()

"""Web server of a page for people at this machine.

Its address has a random token, and requests that name another host or come from another page are refused, so
that websites in the same browser can neither read the page nor send its forms.
"""

import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fashioniq.files import UserError

HOST = "127.0.0.1"
LONGEST_BODY = 16_384  # bytes; the longest text has 600 characters
_NAMES = (HOST, "localhost")  # of this machine in a Host header
_SECONDS = 10.0  # a connection without data is closed after this time

Fields = dict[str, str]  # of a query or form


class Refused(Exception):
    """A request that is refused with a status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class LocalServer(ThreadingHTTPServer):
    """Server on the loopback interface. Raises UserError if the port is in use."""

    def __init__(self, port: int, handler: "type[LocalHandler]") -> None:
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            raise UserError(
                f"cannot use port {port} ({error.strerror}); give another --port, or 0 for a free one"
            ) from error

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a browser closed."""


class LocalHandler(BaseHTTPRequestHandler):
    """Checks requests, and sends pages and pictures; `get` and `post` answer what was checked."""

    timeout = _SECONDS

    def get(self, rest: str, query: Fields) -> None:
        """Answer a request for the address with `rest` after the token."""
        raise NotImplementedError

    def post(self, fields: Fields) -> None:
        """Answer a form."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self._respond(self.get)

    def do_POST(self) -> None:
        self._respond(lambda rest, _: self.post(self._form(rest)))

    def log_message(self, *_: Any) -> None:
        """Print nothing: addresses contain the token."""

    def version_string(self) -> str:
        return "fashioniq"

    def _respond(self, answer: Callable[[str, Fields], None]) -> None:
        """Check the origin of a request and its token, then answer it."""
        try:
            self._check_origin()
            path, _, query = self.path.partition("?")
            token, _, rest = path.removeprefix("/").partition("/")
            if not secrets.compare_digest(token.encode(), self.server.token.encode()):  # type: ignore[attr-defined]
                raise Refused(HTTPStatus.NOT_FOUND)
            answer(rest, _fields(query))
        except Refused as refused:
            self.send(refused.status, f"{refused}\n".encode(), "text/plain; charset=utf-8")

    def _check_origin(self) -> None:
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST) from error
        if name not in _NAMES or self.headers.get("Origin", f"http://{host}") != f"http://{host}":
            raise Refused(HTTPStatus.FORBIDDEN)

    def _form(self, rest: str) -> Fields:
        length = self.headers.get("Content-Length", "")
        if rest or self.headers.get_content_type() != "application/x-www-form-urlencoded":
            raise Refused(HTTPStatus.BAD_REQUEST)
        if not (length.isascii() and length.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > 9 or int(length) > LONGEST_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return _fields(self.rfile.read(int(length)).decode("utf-8", "replace"))

    def send_page(self, page: str, nonce: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Send a page whose style and script have the nonce."""
        self.send(status, page.encode("utf-8", "replace"), "text/html; charset=utf-8", nonce)

    def send_picture(self, picture: bytes | None) -> None:
        """Send a JPEG. Raises Refused without one."""
        if picture is None:
            raise Refused(HTTPStatus.NOT_FOUND)
        self.send(HTTPStatus.OK, picture, "image/jpeg", cache="private, max-age=3600")

    def show_again(self, query: str) -> None:
        """Send the browser to the page, so that reloading it repeats nothing."""
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"./?{query}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(
        self, status: HTTPStatus, body: bytes, kind: str, nonce: str = "", cache: str = "no-store"
    ) -> None:
        """Send a response that other pages cannot use."""
        own = f"'nonce-{nonce}'"
        page = f"; style-src {own}; script-src {own}; img-src 'self' data:; connect-src 'self'"
        allowed = page if nonce else ""
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


def _fields(text: str) -> Fields:
    """Values of a form or query, the last one of each name."""
    try:
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=20)
    except ValueError as error:  # too many
        raise Refused(HTTPStatus.BAD_REQUEST) from error
    return {name: values[-1] for name, values in fields.items()}

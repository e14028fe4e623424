"""`fashioniq demo`."""

import os
import socket
import sys
import webbrowser
from contextlib import suppress

from fashioniq.cli.commands import serve
from fashioniq.config import Demo, Serve
from fashioniq.sample.shop import PRODUCTS, make_shop

NEXT = """Say “red and longer”, then “without a belt”. To go on, in another terminal:
  fashioniq search --run {run} --text "red and longer"
  fashioniq chat --run {run}
  fashioniq import-catalog --help    a search in your own catalog begins here"""


def run(settings: Demo) -> None:
    """Serve the demo's shop until Ctrl-C, and open it in a browser if there is one."""
    print(f"Drawing {PRODUCTS} dresses in {settings.folder} …", flush=True)
    run = make_shop(settings.folder)

    def opened(address: str) -> None:
        print(NEXT.format(run=run), flush=True)
        # without a screen, the only browsers are those of terminals, which would wait for their user
        if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            with suppress(webbrowser.Error):
                webbrowser.open(address)

    serve.run(Serve(run=[str(run)], database=f"sqlite:///{settings.folder}/service.db", port=_port()), opened)


def _port() -> int:
    """The default port of the service, or 0, which picks a free one, if it is taken."""
    with suppress(OSError), socket.create_server((Serve.host, Serve.port)):
        return Serve.port
    return 0

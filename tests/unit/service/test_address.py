"""The address that `serve` prints, and whose page `demo` opens."""

import socket

import httpx
import pytest

from fashioniq.cli.commands.serve import _listen, _page_at


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_the_address_of_the_page_is_that_of_the_socket(host):
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6")
    with _listen(host, 0) as listening:
        found = httpx.URL(_page_at(listening))
        assert (found.host, found.port) == listening.getsockname()[:2] and found.path == "/shop"

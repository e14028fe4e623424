"""Addresses, queries and headers that no client of ours sends."""

import re

import pytest

from fashioniq.service.api import ROUTES

HUGE = "9" * 34  # no database has such integers
ODD = (HUGE, f"-{HUGE}", "1.5", "%00", "%FF", "a" * 300, "%2F")
HOSTS = ("", "[::1", "[bad]", "a:b:c", ":", "http://x", "\xe9", "[::1]:99999")
FORM = {"key": "k" * 20, "says": "is navy"}


def test_odd_values_in_addresses_are_no_failures(client, talking):
    routes = [route for route in ROUTES if "{" in route.path]
    assert len(routes) > 25
    own = {"session_id": talking.id, "category": "dresses", "product_id": "p1", "n": "1"}
    headers = {"Authorization": f"Bearer {talking.token}", "Origin": "http://testserver"}
    for route in routes:
        parts = re.split(r"{(\w+)}", route.path)
        for place in range(1, len(parts), 2):
            for odd in ODD:
                filled = [own.get(part, "x") if at % 2 else part for at, part in enumerate(parts)]
                filled[place] = odd
                for method in route.methods - {"HEAD"}:
                    answer = client.request(method, "".join(filled), headers=headers, follow_redirects=False)
                    assert answer.status_code < 500, (method, filled)


@pytest.mark.parametrize("name", ["k", "w", "category", "about", "chosen"])
def test_odd_values_in_queries_are_no_failures(client, name):
    product = "/v1/categories/dresses/products/p1"
    for path in (f"{product}/similar", f"{product}/image", "/v1/models", "/shop/dresses"):
        for odd in ODD:
            assert client.get(f"{path}?{name}={odd}").status_code < 500, (path, odd)


@pytest.mark.parametrize("id", ["\\000a", "ses_\\000", "x", "ses_" + "a" * 33, "ses_" + "A" * 32, "\\377"])
def test_a_cookie_without_the_id_of_a_session_is_none(client, id):
    headers = {"Cookie": f'fashioniq-dresses="{id}.b"', "Origin": "http://testserver"}
    page = client.get("/shop/dresses", headers=headers)
    assert page.status_code == 200 and "has ended" not in page.text
    said = client.post("/shop/dresses/say", headers=headers, data=FORM, follow_redirects=False)
    assert said.status_code == 303 and said.headers["set-cookie"].startswith("fashioniq-dresses=ses_")


def test_only_forms_of_the_same_host_are_accepted(client):
    def sent(host, origin, path="/shop/dresses/say"):
        given = {"Host": host, "Origin": origin}
        headers = {name: value.encode("latin-1") for name, value in given.items() if value is not None}
        return client.post(path, headers=headers, data=FORM, follow_redirects=False).status_code

    assert (
        sent("shop.example", "http://shop.example") == sent("shop.example:8", "https://shop.example:8") == 303
    )
    for host in HOSTS:
        for origin in (None, "", "null", "http://", "http://[::1", "http://[bad]/", "http://testserver"):
            if not host or origin != f"http://{host}":
                assert sent(host, origin) == 403, (host, origin)
        assert client.get("/shop/dresses", headers={"Host": host.encode("latin-1")}).status_code == 200
    assert (
        sent("testserver", "http://[::1")
        == sent("testserver", "testserver")
        == sent("testserver", None)
        == 403
    )


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/shop/dresses", "/v1/categories/dresses"])
def test_monitors_may_ask_for_the_headers_alone(client, path):
    answer = client.head(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == client.get(path).headers["content-type"]

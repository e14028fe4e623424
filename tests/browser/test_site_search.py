"""The search of the documentation site, in a browser: what people who run a shop ask leads to the answer."""

import functools
import json
import os
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import fashioniq
from tests.waiting import LIMIT

pytest.importorskip("mkdocstrings", reason="no mkdocs: pip install '.[docs]'")
ROOT = Path(fashioniq.__file__).parents[1]
QUESTIONS = {
    "add prices": "add-prices-sizes-and-stock",
    "filter by price": "filter-by-price-size-or-stock",
    "exclude a product": "exclude-hide-remove-a-product",
    "exclude a color": "exclude-a-color-a-pattern-or-a-detail",
    "serve two categories": "serve-two-categories",
    "update the catalog every night": "update-the-catalog-every-night-cron-new-and-removed-products",
    "add German": "add-german",
    "use CLIP": "use-clip-or-siglip",
    "train on my catalog": "train-a-model-on-my-own-catalog",
    "roll back to an earlier model": "roll-back-rollback-to-an-earlier-previous-model",
    "rollback": "roll-back-rollback-to-an-earlier-previous-model",
    "GDPR": "delete-a-persons-data-gdpr",
    "delete a person's data": "delete-a-persons-data",
    "know whether the search is good": "know-whether-the-search-is-good",
}
FOUND = "[...document.querySelectorAll('a.md-search-result__link')].map(link => link.href)"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """Address of the site."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        tmp_path / "site",
    ]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=LIMIT
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_search_of_the_site_answers_what_people_who_run_a_shop_ask(site, browser):
    for number, (question, answer) in enumerate(QUESTIONS.items()):
        browser.open(f"{site}/index.html?{number}")  # a page without the results of the question before
        browser.wait_for(f"location.search == '?{number}' && document.querySelector('input[name=query]')")
        browser.evaluate("document.querySelector('input[name=query]').focus()")
        browser.type(question)
        browser.wait_for(f"{FOUND}.some(link => link.includes({json.dumps('#' + answer)}))")
        links = [link.removeprefix(site + "/").partition("?")[0] for link in browser.evaluate(FOUND)]
        assert links[0] == "reference/how_do_i.html", (question, links)

"""A real browser, where there is one, to look at pages as a person with a desktop or a phone would."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape

import pytest

from fashioniq.report.plots import turn_plot
from tests.waiting import LIMIT

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync --enable-logging=stderr "
    "--virtual-time-budget=20000 --window-size=1600,900 --dump-dom"
)
FRAMES = """<!doctype html><body>
<iframe src="PAGE" style="width:1280px;height:800px"></iframe><iframe src="PAGE" style="width:390px;height:800px"></iframe>
<script>addEventListener("message", told => {
  const line = document.createElement("pre");
  line.textContent = told.data;
  document.body.append(line);
});</script>
"""
# Pictures are backgrounds: their size comes from loading the same address. Articles count as shown where they
# have a box.
LOOK = """<script>addEventListener("load", async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const size = (tile) => new Promise(done => {
    const picture = new Image();
    picture.onload = () => done(tile.getBoundingClientRect().width ? picture.naturalWidth : 0);
    picture.onerror = () => done(0);
    picture.src = getComputedStyle(tile).backgroundImage.slice(5, -2);
  });
  const pictures = await Promise.all(all("[role=img].tile").map(size));
  const filtered = {};
  for (const button of all("fieldset input")) {
    const first = all(`fieldset input[name=${button.name}]`)[0];
    button.click();
    const count = Number(button.parentElement.querySelector("b").textContent);
    if (button.value) filtered[button.value] = [count, all("article").filter(one => one.getBoundingClientRect().height).length];
    first.click();
  }
  parent.postMessage(JSON.stringify({
    width: innerWidth,
    pictures,
    filtered,
    too_wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    unnamed: all("[role=img], [role=region], svg").filter(one => !one.getAttribute("aria-label")).length,
    mouse_only: all("[onclick], details:not(:has(summary)), input:not([type=radio])").length
      + all(".scroll").filter(one => one.tabIndex !== 0).length,
  }), "*");
});</script>"""


@dataclass(frozen=True)
class Seen:
    """What a browser of one width found: widths of the pictures shown, and per filter how many articles it
    promises and leaves.
    """

    width: int
    pictures: list[int]
    filtered: dict[str, list[int]]
    too_wide: int
    unnamed: int
    mouse_only: int
    complaints: list[str]


@pytest.fixture
def browse(tmp_path_factory):
    """Open a page as a desktop and as a phone show it.

    Its console must be looked at without the script that measures: both are done.
    """
    if BROWSER is None:
        pytest.skip("needs chromium")

    def open_in_browser(path):
        command = [
            BROWSER,
            *OPTIONS.split(),
            f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
            path.as_uri(),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)

    def browse(path):
        complaints = [line for line in open_in_browser(path).stderr.splitlines() if "CONSOLE" in line]
        text = re.sub(
            r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf-8")
        )
        folder = tmp_path_factory.mktemp("frames")
        (folder / "page.html").write_text(text.replace("</body>", LOOK + "</body>"), encoding="utf-8")
        (folder / "frames.html").write_text(FRAMES.replace("PAGE", "page.html"), encoding="utf-8")
        told = re.findall(r"<pre>(.*?)</pre>", open_in_browser(folder / "frames.html").stdout)
        assert len(told) == 2
        return [Seen(**json.loads(unescape(line)), complaints=complaints) for line in told]

    return browse


@pytest.fixture(autouse=True, scope="module")
def drawn_once():
    """Draw the plot of pages with the same figures once."""
    drawn = {}

    def turn_plot_once(turns):
        if (figures := repr(turns)) not in drawn:
            drawn[figures] = turn_plot(turns)
        return drawn[figures]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fashioniq.report.page.turn_plot", turn_plot_once)
        yield

"""A real browser that is operated by keys and clicks, over the pipe of Chromium's DevTools protocol."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

import pytest

from tests.waiting import LIMIT, ended

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
    "--disable-component-update --no-proxy-server --remote-debugging-pipe about:blank"
)
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "z": (90, "z")}
CONTROL = 2  # modifier
TRIES = 10_000  # of a condition, each with a request to the browser: minutes, and longer on a busy machine
# Chromium reads requests from file descriptor 3 and writes answers to 4.
AS_3_AND_4 = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """A browser with one tab. `complaints` are the messages of its console, such as violated policies."""

    def __init__(self, profile):
        reader, self._to = os.pipe()
        self._from, writer = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reader, writer)]
        command = [BROWSER, f"--user-data-dir={profile}", *OPTIONS.split()]
        self.process = subprocess.Popen(
            [sys.executable, "-c", AS_3_AND_4, *map(str, ends), *command], pass_fds=ends,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (reader, writer, *ends):
            os.close(end)
        self._buffer, self._number, self._session, self.complaints = b"", 0, None, []
        tabs = self.call("Target.getTargets")["targetInfos"]
        tab = next(tab["targetId"] for tab in tabs if tab["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Call a method of the protocol and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        request = {"id": self._number, "method": method, "params": params, **session}
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(json.dumps(answer["params"]))
        if "navigated" in answer.get("error", {}).get("message", ""):
            return {"result": {}}  # the page was left while it was asked
        assert "error" not in answer, answer
        return answer["result"]

    def _receive(self):
        while b"\0" not in self._buffer:
            assert select.select([self._from], [], [], LIMIT)[0], (
                f"no answer of the browser in {LIMIT} seconds"
            )
            read = os.read(self._from, 65536)
            assert read, "the browser ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, address):
        """Start to load a page."""
        self.call("Page.navigate", url=address)

    def evaluate(self, expression):
        """Value of a JavaScript expression in the page; None while another page is loading."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression is true in a page that is loaded."""
        for _ in range(TRIES):
            if self.evaluate(f"document.readyState == 'complete' && Boolean({expression})"):
                return
            assert self.process.poll() is None, "the browser ended"
            time.sleep(0.02)
        raise AssertionError(f"{expression} did not become true")

    def type(self, text):
        """Type into the field that has the focus, which a new page gives it some time after it was loaded."""
        self.wait_for("document.activeElement.matches('input, textarea')")
        self.call("Input.insertText", text=text)

    def press(self, key, control=False, held=False):
        """Press a key, with the control key if wanted; with `held`, as if it had been down before."""
        code, text = KEYS[key]
        common = {
            "key": key,
            "windowsVirtualKeyCode": code,
            "modifiers": CONTROL if control else 0,
            "autoRepeat": held,
        }
        down = {"type": "keyDown", "text": text} if text and not control else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **down, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector, count=1):
        """Click into the middle of an element; with count 2, the second click of a double click."""
        box = self.evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": box[0], "y": box[1], "button": "left", "clickCount": count}
            self.call("Input.dispatchMouseEvent", type=kind, **place)


@pytest.fixture
def browser(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("needs chromium")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.process.terminate()
    ended(browser.process)

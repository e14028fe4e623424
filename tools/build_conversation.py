"""Take the three pictures of the README's conversation, docs/conversation-{1,2,3}.jpg, in a browser.

fashioniq demo
python tools/build_conversation.py ADDRESS
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

DOCS = Path(__file__).resolve().parents[1] / "docs"


def build(address: str) -> None:
    """Say “red and longer”, then “without a belt”, and choose the first product."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 440, "height": 780}, color_scheme="light", bypass_csp=True)
        page.goto(f"{address}/dresses")
        for number, text in enumerate(("red and longer", "without a belt"), 1):
            page.locator("#says").fill(text)
            page.keyboard.press("Enter")
            expect(page.locator("[data-said]:not(.pending *)")).to_have_count(number)
            _take(page, number)
        card = page.locator(".card").first
        card.locator(".menu summary").click()
        card.get_by_text("This is it", exact=True).click()
        expect(page.locator(".chosen")).to_be_visible()
        _take(page, 3)
        browser.close()


def _take(page: Page, number: int) -> None:
    page.wait_for_function("[...document.images].slice(0, 4).every(one => one.complete)")
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=DOCS / f"conversation-{number}.jpg", type="jpeg", quality=80)


if __name__ == "__main__":
    build(sys.argv[1])

"""Report pages on paper."""

from fashioniq.report.templates import write_page

WIDEST = (
    "Math.max(...[...document.querySelectorAll('table')].map(table => table.getBoundingClientRect().right))"
)


def test_no_column_of_a_table_is_cut_off(browser, tmp_path):
    """On a screen such a table scrolls; printed, its last columns were missing."""
    cells = ["0.13 (0.11–0.15)"] * 6
    table = {
        "title": "a",
        "legend": "b",
        "header": ["", *["AUC of words"] * 6],
        "cells": [["people", *cells]],
    }
    told = {"title": "c", "legend": "d", "header": ["", "told by", "people told by"]}
    tables = [table, told | {"cells": [["grammar", *["wishes that the product shown meets, " * 5] * 2]]}]
    write_page(
        tmp_path / "a.html", "speech.html", title="e", tables=tables, metrics={"pairs": 1, "run": None}
    )
    browser.open((tmp_path / "a.html").as_uri())
    browser.wait_for("document.querySelector('table')")
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=718, height=1000, deviceScaleFactor=1, mobile=False
    )
    browser.call("Emulation.setEmulatedMedia", media="print")  # A4 with the margins of Chromium
    assert browser.evaluate(WIDEST) <= 718
    browser.call("Emulation.setEmulatedMedia", media="screen")
    assert browser.evaluate(WIDEST) > 718

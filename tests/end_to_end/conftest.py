"""What the tests of whole commands have in common."""

import pytest
from markupsafe import Markup

from fashioniq.report.plots import Plot


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Leave plots of pages and curves.png empty, as drawing takes half of the time of a tiny run.

    What fixtures of a session or module make is drawn, and `tests/unit/report` tests the drawings. A test that
    needs one undoes `monkeypatch`.
    """
    monkeypatch.setattr(
        "fashioniq.report.plots._svg", lambda name, description, *_: Plot("0 0 1 1", description, Markup())
    )
    monkeypatch.setattr("fashioniq.report.curves._save", lambda figure, path: path.write_bytes(b""))

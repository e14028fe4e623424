"""The page of `fashioniq compare-live`."""

from datetime import UTC, datetime

import pytest

from fashioniq.report.new_models import write_live_comparison_page
from fashioniq.report.plots import interval_plot
from fashioniq.service.live_comparison import LiveComparison, Standing
from fashioniq.service.store import ExperimentRow


@pytest.mark.parametrize(
    ("method", "measure"),
    [("team-draft", "credit"), ("split", "share of conversations that lead to a product")],
)
def test_the_difference_and_its_interval_are_in_words(method, measure, tmp_path):
    experiment = ExperimentRow(
        id="a", category="dresses", running="b", challenger="c", method=method, error=0.05, most=900,
        started_at=datetime.now(UTC),
    )  # fmt: skip
    standings = [
        Standing(count=0, difference=0.0, half=float("inf")),
        Standing(count=9, difference=0.25, half=0.5),
    ]
    known, unknown = (
        LiveComparison(
            experiment=experiment, standings=standings[:count], excluded=0, later=0, needed=None, verdict=None
        )
        for count in (2, 1)
    )
    write_live_comparison_page(tmp_path / "a.html", [known, unknown])
    page = (tmp_path / "a.html").read_text()
    assert page.count("difference in") == 1
    assert (
        f'<th scope="row">difference in {measure}</th>\n<td>+0.250, 95 % interval -0.250 to +0.750</td>'
        in page
    )


def test_a_single_interval_is_drawn():
    one, line = (interval_plot([(100 + n, 0.25, 0.5) for n in range(count)], "a") for count in (1, 2))
    assert "LineCollection" in one.shapes and "LineCollection" not in line.shapes

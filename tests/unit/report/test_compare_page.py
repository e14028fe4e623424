import re
from pathlib import Path

import msgspec
import pytest
import torch
from PIL import Image

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import TurnMetrics
from fashioniq.data.facts import TurnFacts
from fashioniq.metrics.measures import turn_table
from fashioniq.report.compare_page import write_compare_page
from fashioniq.report.templates import ItemCards

IDS = [f"B{number}" for number in range(12)]
FIRST = [(40, 0), (40, 20), (9, 9), (99, 50), (3, 0)]
SECOND = [(40, 90), (40, 10), (9, 9), (99, 5), (3, 1)]


def _dialogs(ranks: list[tuple[int, ...]], words: str) -> list[LoggedDialog]:
    dialogs = [
        {
            "target": f"B{number}",
            "turns": [
                {"shown": IDS[5 + place], "words": words, "rank": rank} for place, rank in enumerate(row)
            ],
        }
        for number, row in enumerate(ranks)
    ]
    return msgspec.convert(dialogs, list[LoggedDialog])


def _metrics(ranks: list[tuple[int, ...]]) -> TurnMetrics:
    return TurnMetrics(
        protocol=TurnMetrics.PROTOCOL,
        facts=TurnFacts(category="dresses", split="test"),
        gallery=100,
        dialogs=len(ranks),
        turns=turn_table(torch.tensor(ranks), 100),
    )


def _write(
    tmp_path: Path, images: dict[str, Path], turn: int = 2, notes: tuple[str, ...] = (), **options: int
) -> str:
    path = tmp_path / "compare.html"
    write_compare_page(
        path, ("rnn <old>", "transformer"), (_metrics(FIRST), _metrics(SECOND)), (_dialogs(FIRST, "is navy"), _dialogs(SECOND, "is <b>red</b>")),
        turn, "B is better & sure.", notes, ItemCards(images, {"B0": "a dress & belt"}, {"B1": ["navy"]}), **options,
    )  # fmt: skip
    return path.read_text(encoding="utf-8")


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.png" for name in IDS}
    for number, path in enumerate(paths.values()):
        Image.new("RGB", (200, 300), (number * 15, 80, 160)).save(path)
    return paths


def test_both_runs_stand_beside_each_other(tmp_path: Path) -> None:
    text = _write(tmp_path, {})
    assert "A ranked the target higher in 2 dialogs, B in 2, both equally in 1." in text
    assert (
        "rnn &lt;old&gt;" in text
        and "B is better &amp; sure." in text
        and "is &lt;b&gt;red&lt;/b&gt;" in text
        and "a dress &amp; belt" in text
    )
    assert '<h4 id="d0">a dress &amp; belt</h4>' in text
    first = text[text.index('<h4 id="d0">') :].split("</article>")[0]
    assert re.findall(r"<b>(\d+\w\w)</b> of 100", first) == ["41st", "41st", "1st", "91st"]
    assert "up 40" in first and "down 50" in first


def test_the_widest_differences_of_both_sides_come_first(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, dialogs_shown=5)
    assert re.findall(r'<h3>([^<]+) <small>|<h4 id="d(\d)">', text) == [
        ("A furthest ahead", ""), ("", "0"), ("B furthest ahead", ""), ("", "3"), ("Random", ""), ("", "1"), ("", "2"), ("", "4")]  # fmt: skip


def test_only_the_turns_that_are_compared_are_shown(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, turn=1)
    assert "both equally in 5" in text and "turn 2" not in text and "A furthest ahead" not in text


def test_notes_stand_at_the_head(tmp_path: Path) -> None:
    text = _write(tmp_path, {}, notes=("other users <2>",))
    assert "other users &lt;2&gt;" in text and "<b>No pictures.</b>" in text


def test_nothing_is_fetched_and_each_picture_is_embedded_once(
    tmp_path: Path, images: dict[str, Path]
) -> None:
    text = _write(tmp_path, images)
    assert "<script" not in text and "http://" not in text and "https://" not in text
    assert text.count("data:image/jpeg") == 7


def test_the_page_is_the_same_each_time(tmp_path: Path, images: dict[str, Path]) -> None:
    assert _write(tmp_path, images) == _write(tmp_path, images)
    assert _write(tmp_path, images, dialogs_shown=3) != _write(tmp_path, images, dialogs_shown=3, seed=1)


def test_a_browser_shows_every_picture_without_complaint(
    tmp_path: Path, images: dict[str, Path], browse
) -> None:
    _write(tmp_path, images)
    for seen in browse(tmp_path / "compare.html"):
        assert seen.complaints == [] and seen.too_wide == 0
        assert len(seen.pictures) == 5 * (1 + 4) and min(seen.pictures) >= 80
        assert seen.unnamed == 0 and seen.mouse_only == 0
        assert seen.filtered == {
            "wa": [2, 2],
            "wb": [2, 2],
            "same": [1, 1],
            "both": [2, 2],
            "onlya": [1, 1],
            "onlyb": [1, 1],
            "neither": [1, 1],
        }

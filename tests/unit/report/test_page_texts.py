"""The pages as they are read: their text, without tags, is that of the files in `texts/`."""

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
import torch

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import RoundMetrics, TurnMetrics, metrics_of
from fashioniq.metrics.chat import round_table
from fashioniq.metrics.measures import average, success, turn_table
from fashioniq.report.chat import write_chat_page
from fashioniq.report.compare_page import write_compare_page
from fashioniq.report.page import write_dialog_page
from fashioniq.report.templates import ItemCards

TEXTS = Path(__file__).parent / "texts"
IDS = [f"B{number}" for number in range(14)]
CARDS = ItemCards(
    {}, {name: f"dress {name} & belt" for name in IDS}, {name: ["navy", "striped"] for name in IDS[::2]}
)
FIRST, SECOND = (
    [(40, 0, 3), (40, 20, 20), (9, 9, 9), (99, 50, 7)],
    [(40, 90, 9), (40, 10, 2), (9, 9, 9), (99, 5, 6)],
)


class _Text(HTMLParser):
    """The text of a page, a line for each block; labels that are spoken instead of shown stand in brackets."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.hidden = "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        label = dict(attrs).get("aria-label")
        self.text += ("" if tag in ("b", "small", "span") else "\n") + (f"[{label}]\n" if label else "")
        self.hidden += tag in ("style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self.text += "" if tag in ("b", "small", "span") else "\n"
        self.hidden -= tag in ("style", "svg")

    def handle_data(self, data: str) -> None:
        self.text += "" if self.hidden else re.sub(r"\s+", " ", data)


def _lines(page: Path) -> list[str]:
    text = _Text(page.read_text(encoding="utf-8")).text
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


def _dialogs(ranks: list[tuple[int, ...]]) -> list[LoggedDialog]:
    dialogs = [
        {
            "target": IDS[number],
            "turns": [
                {"shown": IDS[place], "words": "is <b>navy</b>", "rank": rank}
                for place, rank in enumerate(row, start=2)
            ],
            "top": IDS[:3],
        }
        for number, row in enumerate(ranks)
    ]
    return msgspec.convert(dialogs, list[LoggedDialog])


def _metrics(ranks: list[tuple[int, ...]]) -> TurnMetrics:
    rank_BT = torch.tensor(ranks)
    table = turn_table(rank_BT, 1200)
    facts = {
        "protocol": "Fashion IQ dialogs",
        "dialogs": 4,
        "category": "dresses",
        "split": "test",
        "gallery": 1200,
        "coverage": 0.98,
    }
    origin = {
        "pictures": "drawn",
        "captions": "a grammar's",
        "user": "runs/user",
        "exclude_shown": True,
        "index": None,
    }
    measured = {"turns": table, "average": average(table), "success": success(rank_BT)}
    return metrics_of({**facts, **origin, **measured}, TurnMetrics)


def _evaluated(
    name: str, ranks: list[tuple[int, ...]], **facts: object
) -> tuple[RoundMetrics, list[LoggedDialog]]:
    rounds = round_table(torch.tensor(ranks), 1200)
    questions = {"exact_repeats": 0.25, "unique_tokens": 9.5, "without_mark": 0}
    metrics = {"protocol": "ChatIR", "name": name, "gallery": 1200, "coverage": 1.0, "dialogs": 4, "query": "rounds joined", "rounds": rounds,
               "questions": questions, "BRI": rounds[-1]["BRI"]}  # fmt: skip
    return metrics_of(metrics | facts, RoundMetrics), _dialogs(ranks)


def _write_dialogs(path: Path) -> None:
    write_dialog_page(path, _metrics(FIRST), _dialogs(FIRST), CARDS)


def _write_compare(path: Path) -> None:
    write_compare_page(
        path, ("rnn", "transformer"), (_metrics(FIRST), _metrics(SECOND)), (_dialogs(FIRST), _dialogs(SECOND)), 3, "B is better.",
        ["a <note>"], CARDS,
    )  # fmt: skip


def _write_chat(path: Path) -> None:
    write_chat_page(path, [_evaluated("VisDial", FIRST)], CARDS)


def _write_chats(path: Path) -> None:
    cut = {"cut": [0, 0, 2], "limit": 77, "query": "each round alone", "questions": None}
    write_chat_page(
        path, [_evaluated("people", FIRST, coverage=0.5), _evaluated("PlugIR", SECOND, **cut)], CARDS
    )


@pytest.mark.parametrize("write", [_write_dialogs, _write_compare, _write_chat, _write_chats])
def test_a_page_reads_as_before(tmp_path: Path, write) -> None:
    write(tmp_path / "page.html")
    expected = TEXTS / f"{write.__name__.removeprefix('_write_')}.txt"
    assert _lines(tmp_path / "page.html") == expected.read_text(encoding="utf-8").splitlines()

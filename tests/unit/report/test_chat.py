import re
from html.parser import HTMLParser

import msgspec
import pytest
import torch

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import RoundMetrics, metrics_of
from fashioniq.metrics.chat import round_table
from fashioniq.report.chat import write_chat_page
from fashioniq.report.templates import ItemCards

RANKS = [[30, 5, 0], [8, 80, 70], [60, 50, 40]]


class Balanced(HTMLParser):
    """Fails where a tag is not closed in its turn; collects ids."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def evaluated(name, **facts):
    words = ["a <b>dress</b>", "is it long? yes", "is it red? no"]
    turns = [
        [{"shown": "7.jpg", "words": text, "rank": rank} for text, rank in zip(words, ranks, strict=True)]
        for ranks in RANKS
    ]
    dialogs = [
        {"target": f"{number}.jpg", "turns": said, "top": ["7.jpg", f"{number}.jpg"]}
        for number, said in enumerate(turns)
    ]
    asked = {"exact_repeats": 0.25, "unique_tokens": 9.5, "without_mark": 0}
    metrics = {"protocol": "ChatIR", "name": name, "gallery": 100, "coverage": 1.0, "dialogs": 3, "query": "rounds joined by ', '",
               "rounds": round_table(torch.tensor(RANKS), 100), "questions": asked}  # fmt: skip
    metrics["BRI"] = metrics["rounds"][-1]["BRI"]
    return metrics_of(metrics | facts, RoundMetrics), msgspec.convert(dialogs, list[LoggedDialog])


@pytest.fixture
def written(tmp_path):
    def written(*files):
        write_chat_page(tmp_path / "page.html", files, ItemCards({}, {}, {}))
        text = (tmp_path / "page.html").read_text()
        ids = Balanced(text).ids
        assert len(ids) == len(set(ids)) and "<b>dress" not in text
        return text

    return written


def test_one_file_is_told_from_caption_to_last_round(written):
    text = written(evaluated("VisDial"))
    assert "66.67<small> %</small></dd><dd class=start>33.33 with the caption alone</dd>" in text  # Hits@10
    assert '<th scope="row">0</th><td>33.33</td>' in text and "0.25 exact repeats" in text
    assert "round 0: top result" in text and "round 2: top result" in text and "1st of 100" in text


def test_a_file_of_fewer_rounds_names_its_last_round(written):
    metrics, dialogs = evaluated("short")
    short = msgspec.structs.replace(metrics, rounds=metrics.rounds[:2])
    dialogs = [msgspec.structs.replace(dialog, turns=dialog.turns[:2]) for dialog in dialogs]
    text = written(evaluated("long"), (short, dialogs))
    assert "A long: Hits@10<" in text and "B short: Hits@10 after round 1<" in text


def test_several_files_stand_in_one_table_one_plot_and_one_filter(written):
    text = written(evaluated("people"), evaluated("Chat<b>GPT"))
    assert (
        '<th scope="row">A people</th><td>33.33</td><td>66.67</td><td>66.67</td>' in text
        and '<th scope="row">B Chat&lt;b&gt;GPT</th>' in text
    )
    assert (
        "Chat<b>" not in text
        and text.count("<svg") == 1
        and re.findall(r"<legend>([^<]+)</legend>", text) == ["Target", "File"]
    )


def test_what_bends_the_figures_is_noted(written):
    text = written(
        evaluated("PlugIR", cut=[0, 0, 2], limit=77, query="each round alone", questions=None, coverage=0.5)
    )
    assert (
        "2 of 3 dialogs are truncated" in text
        and "a separate query" in text
        and "50.00 % of the search space" in text
    )

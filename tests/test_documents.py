"""What the documents tell a reader to type is what the commands take."""

import re
import shlex
from pathlib import Path

import pytest

from fashioniq import config
from fashioniq.cli import COMMANDS, parse

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE = re.compile(r" {4,}(?:fashioniq|python (?P<folder>eval/|data_prep/|)(?P<script>train_\w+|(?<=/)\w+)\.py) (?P<rest>.+)")


def commands(page):
    """Every whole command in a page's indented blocks: its name and its arguments; "…" stands for some that are told elsewhere."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    for line in filter(None, map(LINE.fullmatch, text.splitlines())):
        words = shlex.split(line["rest"], comments=True)
        if line["script"]:
            words.insert(0, ("eval-" if line["folder"] == "eval/" else "") + line["script"].replace("_", "-"))
        if not any("…" in word for word in words):
            yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_taken(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # where the files of configs/ are named from
    for command, *arguments in commands(page):
        config.check(parse(command, arguments))


def test_the_pages_have_commands():
    told = {words[0] for page in PAGES for words in commands(page)}
    assert set(COMMANDS) - told <= {"fetch-spice"}  # which is told in a sentence

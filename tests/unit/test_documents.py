"""What the documents tell a reader to type is what the commands take."""

import re
import shlex
from pathlib import Path

import pytest

import fashioniq
from fashioniq import config
from fashioniq.cli import COMMANDS, parse

ROOT = Path(fashioniq.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE = re.compile(r" {4,}(?:fashioniq|python (?P<script>[\w/]+\.py)) (?P<rest>.+)")


def commands(page, scripts):
    """Every whole command in a page's indented blocks: its name and its arguments; "…" stands for some that
    are told elsewhere.
    """
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8")).replace("$s", "0")  # the seed of a loop
    for line in filter(None, map(LINE.fullmatch, text.splitlines())):
        words = shlex.split(line["rest"], comments=True)
        if line["script"]:
            words.insert(0, scripts.get(line["script"], "…"))  # those of benchmarks/ are no commands
        if not any("…" in word for word in words):
            yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_taken(page, script_commands, monkeypatch):
    monkeypatch.chdir(ROOT)  # where the files of configs/ are named from
    for command, *arguments in commands(page, script_commands):
        config.check(parse(command, arguments))


def test_the_pages_have_commands(script_commands):
    told = {words[0] for page in PAGES for words in commands(page, script_commands)}
    assert set(COMMANDS) <= told

"""The blocks of README.md, as a new reader runs them from top to bottom, in a new folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import fashioniq
from tests.waiting import LIMIT, ended

TEXT = (Path(fashioniq.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    re.sub("^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.M)
]
SAID = {"chat": "red and longer\nwithout a belt\nquit\n"}  # at the prompt


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", "")  # no browser
    return tmp_path


def test_every_block_of_the_readme_does_what_it_says(folder, forked_command, wait_until, capsys):
    assert len(BLOCKS) == 2 and "```" not in TEXT
    first, *others = BLOCKS[0].strip().split("\n")
    out = folder / "out.txt"
    with open(os.devnull) as none, out.open("w") as written:
        demo = forked_command(shlex.split(first)[1:], (none.fileno(), written.fileno(), written.fileno()))
    wait_until(lambda: "Ctrl-C" in out.read_text(), demo.is_alive)
    address = re.search(r"http://\S+/shop", out.read_text())[0]
    assert httpx.get(address, follow_redirects=True, timeout=LIMIT).status_code == 200
    demo.kill()
    ended(demo)
    for line in others:
        words = shlex.split(line)
        command = [sys.executable, "-m", "fashioniq.cli", *words[1:]]
        ran = subprocess.run(
            command, input=SAID.get(words[1], ""), capture_output=True, text=True, timeout=LIMIT
        )
        assert ran.returncode == 0 and "Maxi Dress" in ran.stdout, ran.stderr
    lines = BLOCKS[1].strip().split("\n")
    assert len([line for line in lines if line]) <= 6
    exec("\n".join(lines), {})
    assert capsys.readouterr().out.count("D0000") >= 5


def test_the_readme_is_short_and_its_links_lead_somewhere():
    assert TEXT.count("\n") <= 120 and "`make test`" in TEXT
    root = Path(fashioniq.__file__).parents[1]
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    assert links and all((root / link).is_file() for link in links)


def test_the_headline_has_the_figures_of_the_results():
    results = (Path(fashioniq.__file__).parents[1] / "docs/results/people.md").read_text(encoding="utf-8")
    title = "## Released dresses with descriptions, products with a title or labels, all real sessions, people's words"
    table = results.partition(title)[2].partition("\n## ")[0]
    found = dict(
        re.findall(r"^\| (default|ridge|last shown|untrained|BM25) +\|[^|]+\|[^|]+\| +([\d.]+)", table, re.M)
    )
    headline = re.search(r"^In (\d+) recorded sessions.+?\n\n", TEXT, re.M | re.S)
    assert re.findall(r"([\d.]+) %", headline[0]) == [
        found[name] for name in ("default", "ridge", "untrained", "last shown", "BM25")
    ]
    assert f"\n{headline[1]} dialogs;" in table

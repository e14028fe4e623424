"""What the documents tell a reader to type is what the commands take."""

import re
import shlex
from pathlib import Path

import pytest

import fashioniq
from fashioniq import config
from fashioniq.cli import COMMANDS, parse

ROOT = Path(fashioniq.__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]
PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))
CODE = re.compile(r"`([^`]+)`")
FLAG = re.compile(r"--[\w.-]+[\w]")
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


def test_dialogs_named_after_a_split_are_about_its_products(script_commands):
    made = [
        parse(command, arguments)
        for page in (*PAGES, ROOT / "docs/results/generation.md")
        for command, *arguments in commands(page, script_commands)
        if command == "make-dialogues" and "SPLIT" not in arguments
    ]
    named = [one for one in made if one.out.stem in ("train", "val", "test")]
    assert {one.split for one in named} >= {"train", "val"}
    for one in named:
        assert one.split == one.out.stem


def test_the_pages_have_commands(script_commands):
    told = {words[0] for page in PAGES for words in commands(page, script_commands)}
    assert set(COMMANDS) <= told


SYSTEMS = ("fashion-iq", "chatir", "plugir-asks", "genir", "dar", "fashion-iq-dar")


def anchors(page):
    """Those that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def help_of(capsys, command, *arguments):
    with pytest.raises(SystemExit):
        parse(command, [*arguments, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.name)
def test_a_page_about_a_paper_names_commands_options_and_files_that_exist(
    page, script_commands, monkeypatch, capsys
):
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    helps = [help_of(capsys, command) for command in COMMANDS]
    helps += [help_of(capsys, "eval-dialogs", "--system", name) for name in SYSTEMS]
    helps += [help_of(capsys, "eval-dialogs", "--system", "genir", "--generator", "diffusers:x")]
    known = set(FLAG.findall("".join(helps)))
    for code in CODE.findall(text):
        if code.startswith("fashioniq "):
            command, *arguments = shlex.split(code)[1:]
            config.check(parse(command, arguments))
        for flag in FLAG.findall(code):
            assert flag in known, flag
        for path in re.findall(r"configs/[\w/.]+\.yaml", code):
            assert (ROOT / path).is_file(), path
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        assert (page.parent / file).exists(), link
        assert not anchor or anchor in anchors(page.parent / file), link
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == "| the paper | command or configuration | run here | what differs, and why |"
    assert all(line.count("|") == rows[0].count("|") for line in rows) and len(rows) > 10


def test_there_is_a_page_for_each_paper():
    assert {page.stem for page in PAPERS} == {"fashion_iq", "chatir", "dar", "genir", "chatsearch", "plugir"}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")) + PAGES[:1], ids=str)
def test_the_links_of_a_page_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_pages_are_short_but_for_the_reference():
    pages = [*(ROOT / "docs").glob("*.md"), *PAPERS, *(ROOT / "docs/tutorials").glob("*.md")]
    lines = {
        page: page.read_text(encoding="utf-8").count("\n") for page in pages if page.name != "results.md"
    }
    assert len(lines) > 20 and max(lines.values()) <= 250
    assert sum(lines.values()) <= 2400

"""An HTML file that stands alone: opened from disk it needs no network and no script."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

from fashioniq.files import write_text
from fashioniq.report.style import STYLE

MOST_LETTERS = 240  # of one title or utterance
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # the browser, too, is told that nothing is fetched


def write_document(path: Path, title: str, body: str, style: str = "") -> None:
    """Write a page; `title` is plain text, `body` and `style` are HTML and CSS. Raises UserError where it cannot be written."""
    write_text(
        path,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{safe(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">\n'
        f"<style>{STYLE}{style}</style></head>\n<body>{body}</body></html>\n",
    )


def page_head(title: str, rest: str, notes: Iterable[str]) -> str:
    """The head of a page: its title, plain text, what follows it, and what has to be minded, both HTML."""
    listed = "".join(f"<li>{note}</li>" for note in notes)
    minded = f'<ul class="notes" aria-label="Mind when you read this">{listed}</ul>' if listed else ""
    return f"<header><h1>{safe(title)}</h1>{rest}{minded}</header>"


def safe(text: Any) -> str:
    """Plain text as HTML."""
    return escape(str(text))


def clipped(text: str) -> str:
    """The beginning of a text that is longer than anything that is read on a page."""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], told: str, last: Sequence[str] | None = None) -> str:
    """A table of plain texts, each row with a heading; `told` names it. A wide one scrolls by itself, by touch and by keyboard."""
    foot = f"<tfoot>{_row(last)}</tfoot>" if last else ""
    head = "".join(f'<th scope="col">{safe(cell)}</th>' for cell in header)
    body = "".join(_row(row) for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{safe(told)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>"
    )


def _row(cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{safe(cells[0])}</th>' + "".join(f"<td>{safe(cell)}</td>" for cell in cells[1:]) + "</tr>"


def filters(facets: Mapping[str, Mapping[str, str]], kinds: Sequence[set[str]]) -> tuple[str, str]:
    """Radio buttons that hide articles, and the CSS rules that do it without a script.

    `facets` gives to each question its answers, as {class of article: label}; `kinds` are the classes of every article on the page. Articles stand in
    `.group`s, and these with the buttons in one `.articles`. A question that all articles answer alike is not asked.
    """
    asked = {question: choices for question, choices in facets.items() if len({kind for kinds_ in kinds for kind in kinds_ & {*choices}}) > 1}
    html = "".join(_choices(f"f{number}", question, choices, kinds) for number, (question, choices) in enumerate(asked.items()))
    rules = []
    for picked in product(*(["", *choices] for choices in asked.values())):
        wanted = [kind for kind in picked if kind]
        if wanted:
            state = ".articles" + "".join(f":has([value={kind}]:checked)" for kind in wanted)
            classes = "".join(f".{kind}" for kind in wanted)
            rules.append(f"{state} :is(.dialog:not({classes}), .group:not(:has({classes}))) {{ display: none; }}")
            if not any({*wanted} <= kinds_ for kinds_ in kinds):
                rules.append(f"{state} .nothing {{ display: block; }}")
    return (f'<div class="filters">{html}</div>{_NOTHING}' if asked else ""), "\n".join(rules)


_NOTHING = '<p class="nothing">No dialog on this page is of this kind.</p>'


def _choices(name: str, question: str, choices: Mapping[str, str], kinds: Sequence[set[str]]) -> str:
    buttons = _button(name, "", "all", len(kinds), " checked")
    for kind, label in choices.items():
        count = sum(kind in kinds_ for kinds_ in kinds)
        buttons += _button(name, kind, label, count, "" if count else " disabled")
    return f'<fieldset class="filter"><legend>{safe(question)}</legend>{buttons}</fieldset>'


def _button(name: str, value: str, label: str, count: int, state: str) -> str:
    return f'<label><input type="radio" name="{name}" value="{value}"{state}><span>{safe(label)} <b>{count}</b></span></label>'

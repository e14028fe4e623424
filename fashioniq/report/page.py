"""The page of a dialog evaluation: one HTML file with what was measured and dialogs to look at, without network or script."""

import base64
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.files import write_text
from fashioniq.report.plots import rank_histogram, turn_plot
from fashioniq.report.style import STYLE

FOUND = 10  # a dialog has found its target when it ends among this many
MOST_DIALOGS = 120  # these and the picture budget keep a page under 10 MB, whatever is asked for
PICTURE_BYTES = 7_000_000
THUMBNAIL = 128
MOST_LETTERS = 240  # of one title or utterance
_COLUMNS = {"turn": "turn", "mean_rank": "mean rank"}
_CHOICES = (("all", "all"), ("found", f"in the top {FOUND}"), ("missed", "not found"))


def write_dialog_page(
    path: Path,
    metrics: dict,
    dialogs: list[dict],
    images: dict[str, Path],
    titles: dict[str, str],
    attributes: dict[str, list[str]],
    dialogs_shown: int = 24,
    seed: int = 0,
) -> None:
    """Write the page of `metrics.json` and of the dialogs behind it: ranks come in counted from 0 and are shown from 1.

    A quarter of the dialogs shown are the best, a quarter the worst, the others random by `seed`; at most 120 in all.
    Products without a readable picture are shown as a card with their title.
    Raises UserError where the page cannot be written.
    """
    products = _Products(images, titles, attributes)
    ranks = [dialog["turns"][-1]["rank"] for dialog in dialogs if dialog["turns"]]
    name = f"{metrics.get('protocol', 'Dialogs')}: {metrics.get('category', 'all categories')}, {metrics.get('split', 'all splits')}"
    # Before the headline, whose notes tell how many pictures were missing.
    shown = _dialogs(dialogs, metrics["gallery"], products, min(dialogs_shown, MOST_DIALOGS), seed)
    body = _headline(name, metrics, len(dialogs), products) + _figures(metrics, ranks) + shown + _facts(metrics, len(dialogs))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # the browser, too, is told that nothing is fetched
    write_text(
        path,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_safe(name)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">\n'
        f"<style>{STYLE}{products.style()}</style></head>\n<body>{body}</body></html>\n",
    )


class _Products:
    """Products as HTML. A picture is embedded once, in a class of its own, however often the product is shown."""

    def __init__(self, images: Mapping[str, Path], titles: Mapping[str, str], attributes: Mapping[str, list[str]]) -> None:
        self._images, self._titles, self._attributes = images, titles, attributes
        self._classes: dict[str, str | None] = {}
        self._rules: list[str] = []
        self._bytes = 0
        self.without_picture = 0
        self.over_budget = 0

    def title(self, name: str) -> str:
        return _clipped(self._titles.get(name) or name)

    def show(self, name: str, words: int = 4) -> str:
        """The picture or the card, and under it the first attribute words."""
        picture = self._picture(name)
        if picture:
            tile = f'<div class="tile {picture}" role="img" aria-label="{_safe(self.title(name))}"></div>'
        else:
            tile = f'<div class="tile card"><span>{_safe(self.title(name))}</span></div>'
        listed = self._attributes.get(name, [])[:words]
        return tile + (f'<p class="words">{_safe(" · ".join(listed))}</p>' if listed else "")

    def style(self) -> str:
        return "\n".join(self._rules)

    def has_pictures(self) -> bool:
        return bool(self._rules)

    def _picture(self, name: str) -> str | None:
        if name not in self._classes:
            self._classes[name] = self._embed(name)
        return self._classes[name]

    def _embed(self, name: str) -> str | None:
        try:
            data = _thumbnail(load_image(self._images[name]))
        except (KeyError, UnreadableImage):
            self.without_picture += 1
            return None
        if self._bytes + len(data) > PICTURE_BYTES:
            self.over_budget += 1
            return None
        self._bytes += len(data)
        picture = f"p{len(self._rules)}"
        self._rules.append(f".{picture}{{background-image:url(data:image/jpeg;base64,{data})}}")
        return picture


def _thumbnail(image: Image.Image) -> str:
    small = ImageOps.contain(image, (THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS) if max(image.size) > THUMBNAIL else image
    written = io.BytesIO()
    small.save(written, "JPEG", quality=82, optimize=True)
    return base64.b64encode(written.getvalue()).decode("ascii")


def _headline(name: str, metrics: dict, number: int, products: _Products) -> str:
    turns = metrics.get("turns") or []
    tiles = ""
    for key in ("R@10", "R@50", "P", "mean_rank"):
        if turns and key in turns[-1]:
            sign = "" if key == "mean_rank" else "<small> %</small>"
            before = f"<dd class=start>{_cell(key, turns[0][key])} after turn {turns[0]['turn']}</dd>" if len(turns) > 1 else ""
            tiles += f"<div><dt>{_COLUMNS.get(key, key)}</dt><dd>{_cell(key, turns[-1][key])}{sign}</dd>{before}</div>"
    end = f" after turn {turns[-1]['turn']}" if turns else ""
    notes = "".join(f"<li>{note}</li>" for note in _notes(metrics, products))
    return (
        f"<header><h1>{_safe(name)}</h1>"
        f'<p class="lead">{number:,} dialogs, each with a target among {metrics["gallery"]:,} products. What was reached{end}:</p>'
        f'<dl class="tiles">{tiles}</dl><ul class="notes" aria-label="Mind when you read this">{notes}</ul></header>'
    )


def _notes(metrics: dict, products: _Products) -> Iterable[str]:
    """What keeps these numbers from being numbers of people and photographs; HTML."""
    pictures, captions = metrics.get("pictures"), metrics.get("captions")
    if pictures is None or captions is None:
        yield "The run does not say where its pictures and captions come from: <b>do not take them for photographs and people</b>."
    if pictures is not None and str(pictures).lower() not in ("photographs", "none"):
        yield f"<b>Pictures: {_safe(pictures)}.</b> They are not photographs."
    if captions is not None and str(captions).lower() != "human":
        yield f"<b>Captions: {_safe(captions)}.</b> They are made, not human."
    if "user" in metrics:
        said = "People said these words of the pairs beforehand" if metrics["user"].startswith("recorded") else "It said the words in these dialogs"
        yield f"<b>User: {_safe(metrics['user'])}.</b> {said}; no person talked to this retriever."
    if not products.has_pictures():
        yield "<b>No pictures.</b> Products are shown by their titles and attributes."
    elif products.without_picture:
        yield f"{products.without_picture:,} of the products shown have no readable picture: they are cards with the title."
    if products.over_budget:
        yield f"{products.over_budget:,} pictures were left out to keep this page small: they are cards with the title."


def _figures(metrics: dict, ranks: Sequence[int]) -> str:
    turns = metrics.get("turns") or []
    if not turns:
        return ""
    keys = [key for key, value in turns[0].items() if isinstance(value, int | float)]
    head = "".join(f'<th scope="col">{_safe(_COLUMNS.get(key, key))}</th>' for key in keys)
    rows = ""
    for turn in turns:
        first, *others = [_cell(key, turn.get(key)) for key in keys]
        rows += f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{value}</td>" for value in others) + "</tr>"
    histogram = f"<figure><figcaption>Where dialogs ended</figcaption>{rank_histogram(ranks, metrics['gallery'])}</figure>" if ranks else ""
    return (
        '<section aria-labelledby="turns"><h2 id="turns">Turn by turn</h2><div class="measured">'
        f'<table class="turn-table"><thead><tr>{head}</tr></thead>'
        f'<tbody>{rows}</tbody></table><p class="hint">P: how much of the gallery ranks behind the target, in percent; 50 is chance. R@K: the '
        f"percentage of dialogs whose target is among the first K at that turn. This page counts ranks from 1, the run's files from 0.</p></div>"
        f'<div class="plots"><figure><figcaption>Percent after each turn</figcaption>{turn_plot(turns)}</figure>{histogram}</div></section>'
    )


def _dialogs(dialogs: Sequence[dict], gallery: int, products: _Products, shown: int, seed: int) -> str:
    groups = ""
    told = [place for place, dialog in enumerate(dialogs) if dialog["turns"]]
    chosen = _choose(dialogs, told, shown, seed)
    for title, hint, places in chosen:
        if places:
            articles = "".join(_dialog(place, dialogs[place], gallery, products) for place in places)
            groups += f'<div class="group"><h3>{title} <small>{hint}</small></h3>{articles}</div>'
    if not groups:
        return '<section aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2><p>There is no dialog to show.</p></section>'
    outcomes = [_outcome(dialogs[place]) for _, _, places in chosen for place in places]
    choices = ""
    for value, label in _CHOICES:
        count = len(outcomes) if value == "all" else outcomes.count(value)
        state = " checked" if value == "all" else " disabled" if not count else ""
        choices += f'<label><input type="radio" name="outcome" value="{value}"{state}><span>{label} <b>{count}</b></span></label>'
    return (
        '<section class="dialogs" aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2>'
        '<p class="hint">Each turn: the product shown, what the user said about it, and where the target ranked then. '
        "The target has a green outline.</p>"
        f'<fieldset class="filter"><legend>Show</legend>{choices}</fieldset>{groups}</section>'
    )


def _choose(dialogs: Sequence[dict], told: list[int], shown: int, seed: int) -> list[tuple[str, str, list[int]]]:
    """Title, hint and places of the best, the worst and the random dialogs, none of them twice."""
    shown = max(0, min(shown, len(told)))
    few = shown // 4
    ordered = sorted(told, key=lambda place: (dialogs[place]["turns"][-1]["rank"], -dialogs[place]["turns"][0]["rank"]))
    best, worst = ordered[:few], ordered[len(ordered) - few :][::-1]
    rest = [place for place in told if place not in {*best, *worst}]
    others = sorted(random.Random(seed).sample(rest, shown - 2 * few))
    return [
        ("The best", "ended highest; those that came furthest first", best),
        ("The worst", "ended lowest", worst),
        ("At random", f"drawn with seed {seed} from all others", others),
    ]


def _outcome(dialog: dict) -> str:
    return "found" if dialog["turns"][-1]["rank"] < FOUND else "missed"


def _dialog(place: int, dialog: dict, gallery: int, products: _Products) -> str:
    target, turns, top = dialog["target"], dialog["turns"], dialog.get("top", [])
    items, before = "", None
    for number, turn in enumerate(turns, 1):
        items += _turn(number, turn, before, gallery, products)
        before = turn["rank"]
    strip = "".join(
        f'<li{" class=hit" if name == target else ""}><p class="tag">{number}{" · target" if name == target else ""}</p>{products.show(name, 2)}</li>'
        for number, name in enumerate(top, 1)
    )
    end = f"{_ordinal(turns[-1]['rank'] + 1)} of {gallery:,}"
    return (
        f'<article class="dialog {_outcome(dialog)}" aria-labelledby="d{place}"><header><h4 id="d{place}">Dialog {place + 1}</h4>'
        f'<p class="name">{_safe(products.title(target))}</p><p class="outcome">{end}</p></header>'
        f'<div class="story"><div class="target"><p class="tag">target</p>{products.show(target)}</div><ol class="turns">{items}</ol></div>'
        + (f'<h5>Best {len(top)} after the last turn</h5><ol class="strip">{strip}</ol>' if top else "")
        + "</article>"
    )


def _turn(number: int, turn: dict, before: int | None, gallery: int, products: _Products) -> str:
    rank = turn["rank"]
    if before is None or before == rank:
        move = "" if before is None else '<span class="move">as before</span>'
    else:
        move = f'<span class="move {"up" if rank < before else "down"}">{"up" if rank < before else "down"} {abs(before - rank):,}</span>'
    return (
        f'<li><p class="tag">turn {number}: shown</p><div class="seen">{products.show(turn["shown"])}</div><div class="said">'
        f'<blockquote>{_safe(_clipped(turn["words"]))}</blockquote><p class="rank"><b>{_ordinal(rank + 1)}</b> of {gallery:,} {move}</p></div></li>'
    )


def _facts(metrics: dict, number: int) -> str:
    facts = {key: value for key, value in metrics.items() if value is None or isinstance(value, str | int | float)}
    rows = "".join(
        f'<tr><th scope="row">{_safe(key.replace("_", " "))}</th><td>{_fact(key, value)}</td></tr>'
        for key, value in {**facts, "dialogs": f"{number:,}"}.items()
    )
    table = f'<table class="facts"><tbody>{rows}</tbody></table>'
    return f'<section aria-labelledby="facts"><h2 id="facts">Facts of the run</h2>{table}</section>'


def _fact(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "not recorded", True: "yes", False: "no"}[value]
    if key == "coverage" and isinstance(value, int | float):
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if key == "gallery" else _safe(value)


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if key == "turn" else f"{value + 1:,.1f}" if key == "mean_rank" else f"{value:,.1f}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def _safe(text: Any) -> str:
    return escape(str(text))

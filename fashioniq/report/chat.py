"""The page of chat-based retrieval: one HTML file with the measures of one or several files of dialogues, and dialogs to look at."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fashioniq.metrics.chat import HITS, MEASURES
from fashioniq.report.dialogs import OUTCOMES, dialog_article, outcome
from fashioniq.report.document import filters, page_head, safe, table, write_document
from fashioniq.report.page import MOST_DIALOGS, choose, facts
from fashioniq.report.plots import rank_histograms, rounds_plot
from fashioniq.report.products import Looks, Products
from fashioniq.report.tables import rounded

Evaluated = Sequence[tuple[dict[str, Any], list[dict[str, Any]]]]  # metrics.json and the lines of dialogs.jsonl of each file of dialogues


def write_chat_page(path: Path, evaluated: Evaluated, looks: Looks, dialogs_shown: int = 24, seed: int = 0) -> None:
    """Write the page of one or several files of dialogues; of each the best, the worst and random dialogs, at most 120 in all.

    Raises UserError where the page cannot be written.
    """
    products = Products(looks)
    letters = [_letter(number) for number in range(len(evaluated))]
    title = "Chat-based image retrieval: " + ", ".join(metrics["name"] for metrics, _ in evaluated)
    shown, rules = _dialogs(evaluated, letters, products, min(dialogs_shown, MOST_DIALOGS), seed)  # before the notes tell of missing pictures
    body = _headline(title, evaluated, letters, products) + _figures(evaluated, letters) + shown
    body += facts(evaluated[0][0], sum(len(dialogs) for _, dialogs in evaluated))
    write_document(path, title, body, products.style() + rules)


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def _headline(title: str, evaluated: Evaluated, letters: Sequence[str], products: Products) -> str:
    first, last = evaluated[0][0], evaluated[0][0]["rounds"][-1]
    tiles = ""
    if len(evaluated) == 1:
        for key in (HITS, "R@10", "ATR", "BRI"):
            before = first["rounds"][0][key]
            start = f"<dd class=start>{rounded(key, before)} of the caption</dd>" if before is not None and len(first["rounds"]) > 1 else ""
            tiles += f"<div><dt>{key}</dt><dd>{rounded(key, last[key])}<small>{'' if key in ('ATR', 'BRI') else ' %'}</small></dd>{start}</div>"
    for letter, (metrics, _) in zip(letters, evaluated if len(evaluated) > 1 else [], strict=False):
        start, end = (rounded(HITS, metrics["rounds"][place][HITS]) for place in (0, -1))
        name = f"{letter} {safe(metrics['name'])}"
        tiles += f"<div><dt>{name}</dt><dd>{end}<small> % {HITS}</small></dd><dd class=start>{start} of the caption</dd></div>"
    lead = (
        f"{first['dialogs']:,} dialogs{' a file' if len(evaluated) > 1 else ''}, each with a target among {first['gallery']:,} images. "
        f"What was reached after round {last['round']}:"
    )
    return page_head(title, f'<p class="lead">{lead}</p><dl class="tiles">{tiles}</dl>', [*_notes(evaluated), *products.notes()])


def _notes(evaluated: Evaluated) -> Iterator[str]:
    """What has to be known of the queries; HTML."""
    for metrics, _ in evaluated:
        name, cut = safe(metrics["name"]), metrics.get("cut", [0])
        if any(cut):
            yield f"{name}: <b>{cut[-1]:,} of {metrics['dialogs']:,} dialogs are cut</b> at the {metrics['limit']} tokens that the encoder reads."
        if metrics["query"].startswith("each"):
            yield f"{name}: <b>each round is a query of its own</b>, as PlugIR writes them."
    if (coverage := evaluated[0][0]["coverage"]) < 1:
        yield f"<b>{100 * coverage:.2f} % of the search space</b> have a picture that could be read; the others are not searched."


def _figures(evaluated: Evaluated, letters: Sequence[str]) -> str:
    named = {letter: metrics for letter, (metrics, _) in zip(letters, evaluated, strict=True)}
    several = len(named) > 1
    parts = []
    if several:
        longest = max((metrics["rounds"] for metrics in named.values()), key=len)
        header = ["dialogues", *(str(row["round"]) for row in longest), "BRI"]
        rows = []
        for letter, metrics in named.items():
            hits = [rounded(HITS, row[HITS]) for row in metrics["rounds"]]
            rows.append([f"{letter} {metrics['name']}", *hits, *["–"] * (len(longest) - len(hits)), rounded("BRI", metrics["BRI"], 2)])
        parts.append(f"<h3>{HITS} after each round</h3>" + table(header, rows, f"{HITS} of every file after every round"))
        lines = {letter: [row[HITS] for row in metrics["rounds"]] for letter, metrics in named.items()}
        ends = {letter: [dialog["turns"][-1]["rank"] for dialog in dialogs] for letter, (_, dialogs) in zip(letters, evaluated, strict=True)}
    else:
        (metrics, dialogs), name = evaluated[0], ""
        lines = {key: [row[key] for row in metrics["rounds"]] for key in (HITS, "R@10", "R@1")}
        picked = sorted({0, len(metrics["rounds"]) // 2, len(metrics["rounds"]) - 1})
        ends = {f"round {number}": [dialog["turns"][number]["rank"] for dialog in dialogs] for number in picked}
    parts += [
        f'<div class="plots"><figure><figcaption>{HITS if several else "Percent"} after each round</figcaption>{rounds_plot(lines)}</figure>'
        f"<figure><figcaption>Dialogs by the target's place{' after the last round' if several else ''}</figcaption>"
        f"{rank_histograms(ends, evaluated[0][0]['gallery'])}</figure></div>"
    ]
    for letter, metrics in named.items():
        name = f"{letter} {safe(metrics['name'])}" if several else "All measures"
        rows = [[str(row["round"]), *(rounded(key, row[key], 2) for key in MEASURES)] for row in metrics["rounds"]]
        parts.append(f"<h3>{name}</h3>{table(['round', *MEASURES], rows, 'Measures of every round')}{_asked(metrics)}")
    return (
        '<section aria-labelledby="rounds"><h2 id="rounds">Round by round</h2>'
        + "".join(parts)
        + f'<p class="hint">{HITS} is cumulative: the target was among the first 10 at that round or before. R@N: it is among the first N at that '
        "round. P: how much of the search space ranks behind it, in percent. ATR: its average place, counted from 1. BRI: the best log rank integral "
        "until that round, lower is better. Round 0 is the caption.</p></section>"
    )


def _asked(metrics: dict[str, Any]) -> str:
    told = metrics["questions"]
    if not told:
        return ""
    return (
        f'<p class="hint">Questions of a dialog, on average: {told["exact_repeats"]:.2f} exact repeats of an earlier one, '
        f"{told['unique_tokens']:.1f} different words.</p>"
    )


def _dialogs(evaluated: Evaluated, letters: Sequence[str], products: Products, shown: int, seed: int) -> tuple[str, str]:
    """The section of the dialogs and the rules of its filters."""
    groups: dict[tuple[str, str], str] = {}
    kinds: list[set[str]] = []
    before = 0
    for number, (metrics, dialogs) in enumerate(evaluated):
        for title, hint, places in choose(dialogs, list(range(len(dialogs))), shown // len(evaluated), seed):
            for place in places:
                kinds.append({outcome(dialogs[place]), f"c{number}"})
                article = dialog_article(before + place, dialogs[place], metrics["gallery"], products, kinds[-1], "round", 0, "best")
                groups[title, hint] = groups.get((title, hint), "") + article
        before += len(dialogs)
    files = {f"c{number}": f"{letter} {metrics['name']}" for number, (letter, (metrics, _)) in enumerate(zip(letters, evaluated, strict=True))}
    buttons, rules = filters({"Target": OUTCOMES, "Dialogues": files}, kinds)
    listed = "".join(f'<div class="group"><h3>{title} <small>{hint}</small></h3>{articles}</div>' for (title, hint), articles in groups.items())
    return (
        '<section class="articles" aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2>'
        '<p class="hint">Each round: the image that ranked first after it, what was asked and answered, and which place the target then had. '
        f"The target has a green outline; it is found when it has the first place at any round.</p>{buttons}{listed}</section>"
    ), rules

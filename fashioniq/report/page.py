"""The page of a dialog evaluation: one HTML file with what was measured and dialogs to look at."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fashioniq.report.dialogs import OUTCOMES, dialog_article, outcome
from fashioniq.report.document import filters, page_head, safe, table, write_document
from fashioniq.report.plots import rank_histograms, turn_plot
from fashioniq.report.products import Looks, Products
from fashioniq.report.tables import RANKS_COUNT, label, rounded

MOST_DIALOGS = 120  # these and the budget of pictures keep a page under 10 MB, whatever is asked for


def write_dialog_page(path: Path, metrics: dict, dialogs: list[dict], looks: Looks, dialogs_shown: int = 24, seed: int = 0) -> None:
    """Write the page of `metrics.json` and of the dialogs behind it.

    A quarter of the dialogs shown are the best, a quarter the worst, the others random by `seed`; at most 120 in all.
    Products without a readable picture are shown as a card with their title.
    Raises UserError where the page cannot be written.
    """
    products = Products(looks)
    told = [dialog for dialog in dialogs if dialog["turns"]]
    name = f"{metrics.get('protocol', 'Dialogs')}: {metrics.get('category', 'all categories')}, {metrics.get('split', 'all splits')}"
    # Before the headline, whose notes tell how many pictures were missing.
    shown, rules = _dialogs(dialogs, metrics["gallery"], products, min(dialogs_shown, MOST_DIALOGS), seed)
    body = _headline(name, metrics, len(dialogs), products) + _figures(metrics, told) + shown + facts(metrics, len(dialogs))
    write_document(path, name, body, products.style() + rules)


def _headline(name: str, metrics: dict, number: int, products: Products) -> str:
    turns = metrics.get("turns") or []
    tiles = ""
    for key in ("R@10", "R@50", "P", "mean_rank"):
        if turns and key in turns[-1]:
            sign = "<small> from 0</small>" if key == "mean_rank" else "<small> %</small>"
            before = f"<dd class=start>{rounded(key, turns[0][key])} after turn {turns[0]['turn']}</dd>" if len(turns) > 1 else ""
            tiles += f"<div><dt>{label(key)}</dt><dd>{rounded(key, turns[-1][key])}{sign}</dd>{before}</div>"
    if (found := metrics.get("success")) and len(turns) > 1:
        soon = f"<dd class=start>at turn {found['mean_turns']:.1f} on average</dd>" if found["mean_turns"] is not None else ""
        tiles += f"<div><dt>found at any turn</dt><dd>{found['percent']:.1f}<small> %</small></dd>{soon}</div>"
    end = f" after turn {turns[-1]['turn']}" if turns else ""
    lead = f"{number:,} dialogs, each with a target among {metrics['gallery']:,} products. What was reached{end}:"
    return page_head(name, f'<p class="lead">{lead}</p><dl class="tiles">{tiles}</dl>', [*_notes(metrics), *products.notes()])


def _notes(metrics: dict) -> Iterable[str]:
    """What keeps these numbers from being numbers of people and photographs; HTML."""
    pictures, captions = metrics.get("pictures"), metrics.get("captions")
    if pictures is None or captions is None:
        yield "The run does not say where its pictures and captions come from: <b>do not take them for photographs and people</b>."
    if pictures is not None and str(pictures).lower() not in ("photographs", "none"):
        yield f"<b>Pictures: {safe(pictures)}.</b> They are not photographs."
    if captions is not None and str(captions).lower() != "human":
        yield f"<b>Captions: {safe(captions)}.</b> They are made, not human."
    if metrics.get("exclude_shown"):
        yield "No product is shown twice in a dialog; ranks count all."
    if "user" in metrics:
        said = "People said these words of the pairs beforehand" if metrics["user"].startswith("recorded") else "It said the words in these dialogs"
        yield f"<b>User: {safe(metrics['user'])}.</b> {said}; no person talked to this retriever."


def _figures(metrics: dict, told: Sequence[dict]) -> str:
    turns = metrics.get("turns") or []
    if not turns:
        return ""
    keys = [key for key, value in turns[0].items() if isinstance(value, int | float)]
    rows = [[rounded(key, turn.get(key)) for key in keys] for turn in turns]
    mean = metrics.get("average")
    last = ["mean", *(rounded(key, mean.get(key)) for key in keys[1:])] if mean and len(turns) > 1 else None
    ranks = [[turn["rank"] for turn in dialog["turns"]] for dialog in told]
    columns = {f"turn {turn['turn']}": [row[number] for row in ranks if number < len(row)] for number, turn in enumerate(turns)}
    histograms = rank_histograms(columns, metrics["gallery"])
    places = f"<figure><figcaption>Dialogs by the target's place</figcaption>{histograms}</figure>" if told else ""
    return (
        f'<section aria-labelledby="turns"><h2 id="turns">Turn by turn</h2>'
        f"{table([label(key) for key in keys], rows, 'Measures of every turn', last)}"
        '<p class="hint">P: how much of the gallery ranks behind the target, in percent; 50 is chance. R@N: the percentage of dialogs whose target '
        f"is among the first N at that turn; Hits@N: at that turn or before. MRR: the mean of one by the place. {RANKS_COUNT}</p>"
        f'<div class="plots"><figure><figcaption>Percent after each turn</figcaption>{turn_plot(turns)}</figure>{places}</div></section>'
    )


def _dialogs(dialogs: Sequence[dict], gallery: int, products: Products, shown: int, seed: int) -> tuple[str, str]:
    """The section of the dialogs and the rules of its filters."""
    chosen = choose(dialogs, [place for place, dialog in enumerate(dialogs) if dialog["turns"]], shown, seed)
    places = [place for *_, places in chosen for place in places]
    if not places:
        return '<section aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2><p>There is no dialog to show.</p></section>', ""
    names = sorted({dialogs[place].get("category", "") for place in places})
    kinds = {place: {outcome(dialogs[place]), f"c{names.index(dialogs[place].get('category', ''))}"} for place in places}
    categories = {f"c{number}": name or "none" for number, name in enumerate(names)}
    buttons, rules = filters({"Target": OUTCOMES, "Category": categories}, list(kinds.values()))
    groups = ""
    for title, hint, members in chosen:
        if members:
            articles = "".join(dialog_article(place, dialogs[place], gallery, products, kinds[place]) for place in members)
            groups += f'<div class="group"><h3>{title} <small>{hint}</small></h3>{articles}</div>'
    return (
        '<section class="articles" aria-labelledby="dialogs"><h2 id="dialogs">Dialogs</h2>'
        '<p class="hint">Each turn: the product shown, what the user said about it, and which place the target then had. '
        f"The target has a green outline; it is found when it has the first place at any turn.</p>{buttons}{groups}</section>"
    ), rules


def choose(dialogs: Sequence[dict], told: list[int], shown: int, seed: int) -> list[tuple[str, str, list[int]]]:
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


def facts(metrics: dict, number: int) -> str:
    """The section of all single facts in `metrics.json`."""
    told = {key: value for key, value in metrics.items() if value is None or isinstance(value, str | int | float)}
    rows = "".join(
        f'<tr><th scope="row">{safe(key.replace("_", " "))}</th><td>{_fact(key, value)}</td></tr>'
        for key, value in {**told, "dialogs": f"{number:,}"}.items()
    )
    return f'<section aria-labelledby="facts"><h2 id="facts">Facts of the run</h2><table class="facts"><tbody>{rows}</tbody></table></section>'


def _fact(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "not recorded", True: "yes", False: "no"}[value]
    if key.startswith("coverage") and isinstance(value, int | float):
        return f"{100 * value:.1f} %"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if key == "gallery" else safe(value)

"""Pages of studies as GitHub Markdown, and a plot as SVG.

Both depend only on the run files, so that `tools/build_results.py --check` can compare them.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape

from studies import (
    Row,
    Seeds,
    Study,
    Table,
    distinct,
    evaluations,
    measure_of,
    trainings,
)
from tabulate import tabulate

from fashioniq.files import UserError
from fashioniq.provenance import Machine
from fashioniq.report.tables import rounded

MARK = "<!-- Made by tools/build_results.py from results/; edits here are lost. -->"
FIGURE = re.compile(
    r"\[\[(.+?)\]\]"
)  # [[study | table | row | column]]; the study is optional on its own page
CELLS = (
    "Cells are mean ± sample standard deviation over the seeds, and the worst seed in parentheses; a "
    "single seed has its value alone. "
    "Minutes are CPU time of the training; peak memory is that of training or evaluation."
)
TEST = (
    "Differences are between means over the seeds; p is Welch's t-test over the seeds, two-sided, "
    "corrected by Holm within a table. "
    "With three seeds, such a test finds large differences only."
)
LINE = 110  # maximum characters per line
COSTS = {"minutes", "GB", "seeds"}
BAR, GAP, LEFT, SCALE = 18, 5, 360, 3.5  # pixels: bar height, gap, label width, width of one percent
COLUMNS, TITLE = 2, 95  # tables side by side in the plot, and characters of a line of their titles
COLOURS = ("#2a62c4", "#c2410c", "#0f7b6c", "#8a5cc2")


def study_page(study: Study) -> str:
    """Page of one study."""
    parts = [
        MARK,
        f"# {study.title}",
        _wrapped(study.question),
        _filled(study.prose, {study.name: study}, study.name),
    ]
    parts += [part for table in study.tables for part in _table_parts(table)]
    parts += [
        "## To run it again",
        "\n".join("    " + line for line in study.commands.splitlines()),
        "## Origin",
        *_origin(study),
    ]
    return "\n\n".join(parts) + "\n"


def overview_page(template: str, studies: Sequence[Study]) -> str:
    """Page of all studies: the template with each [[study | table | row | column]] replaced by its value."""
    return f"{MARK}\n\n{_filled(template.strip(), {study.name: study for study in studies}, None)}\n"


def overview_plot(studies: Sequence[Study], measure: str = "R@10") -> str:
    """Bar plot as SVG, two tables side by side: a measure in percent after the last turn, with the range over seeds.

    Tables with a reference are plotted, if they are about one turn or about sessions of several lengths.
    """
    lines: list[str] = []
    top, lowest, column = 0.0, 0.0, 0
    for study in studies:
        for table in study.tables:
            pooled = any(name.endswith("last turn") for name in table.columns)
            turns = table.facts.get("turns") or []
            if table.reference is None or not (pooled or len(turns) == 1):
                continue
            if column == COLUMNS:
                top, column = lowest, 0
            place, title = top + 2 * BAR, textwrap.wrap(f"{study.title}: {table.title}", TITLE)
            lines.append(f'<g transform="translate({column * (LEFT + 100 * SCALE + 60):.0f} 0)">')
            lines += [
                f'<text x="0" y="{place + line * BAR:.0f}" font-weight="bold">{escape(text)}</text>'
                for line, text in enumerate(title)
            ]
            place += BAR * (len(title) - 1)
            for row, colour in zip(table.rows, COLOURS * len(table.rows), strict=False):
                place += GAP
                lines += _bar(row, f"{measure} {'last turn' if pooled else 'turn 1'}", place, colour)
                place += BAR
            lines.append("</g>")
            lowest, column = max(lowest, place), column + 1
    height, width = lowest + BAR, COLUMNS * (LEFT + 100 * SCALE + 60)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="13" fill="#767676">'
    return "\n".join([head, *lines, "</svg>"]) + "\n"


def _bar(row: Row, column: str, top: float, colour: str) -> list[str]:
    seeds = row.seeds(column)
    middle, end = top + BAR / 2, LEFT + SCALE * seeds.mean
    low, high = (LEFT + SCALE * value for value in (min(seeds.values), max(seeds.values)))
    return [
        f'<text x="{LEFT - 8}" y="{middle + 5:.1f}" text-anchor="end">{escape(row.label)}</text>',
        f'<rect x="{LEFT}" y="{top:.1f}" width="{SCALE * seeds.mean:.1f}" height="{BAR}" fill="{colour}"/>',
        f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="#888" stroke-width="2"/>',
        f'<text x="{max(end, high) + 8:.1f}" y="{middle + 5:.1f}">{rounded(measure_of(column), seeds.mean)}</text>',
    ]


def _table_parts(table: Table) -> list[str]:
    judged = table.columns[-1]
    against = table.against_reference(judged)
    header = [
        "",
        *table.columns,
        *([f"difference in {judged} (p)"] if against else []),
        "seeds",
        "training, CPU minutes",
        "peak GB",
    ]
    rows = []
    for row in table.rows:
        cells = [row.label, *(_cell(row.seeds(column), column) for column in table.columns)]
        if against:
            cells.append(_difference(judged, *against[row.label]) if row.label in against else "reference")
        minutes, peak = row.minutes, row.peak_gb
        rows.append(
            [
                *cells,
                str(len(row.runs)),
                "–" if minutes is None else _cell(minutes, "minutes", worst=False),
                rounded("GB", peak),
            ]
        )
    drawn = tabulate(
        rows,
        header,
        tablefmt="github",
        disable_numparse=True,
        colalign=("left", *["right"] * (len(header) - 1)),
    )
    return [f"## {table.title}", drawn, _conditions(table)]


def _conditions(table: Table) -> str:
    facts = table.facts
    conditions = [
        f"{facts['dialogs']:,} dialogs" if "dialogs" in facts else None,
        f"{facts['pairs']:,} pairs" if "speech" in facts else None,
        f"{len(facts['retrievers'])} retrievers with {facts['people']}" if "retrievers" in facts else None,
        f"split {facts['split']}" if facts.get("split") else None,
        f"gallery {facts['gallery']}" if "gallery" in facts else None,
        *(f"{what} {_of_subtasks(facts[what])}" for what in ("samples", "galleries") if what in facts),
    ]
    conditions += (
        [f"{100 * facts['coverage']:.1f} % of the split have features"] if "coverage" in facts else []
    )
    conditions += [
        f"{name} {facts[name]}"
        for name in ("features", "pictures", "captions", "user", "decoding")
        if isinstance(facts.get(name), str) and not (name == "decoding" and "speech" in facts)
    ]
    return _wrapped("; ".join(filter(None, conditions)) + ".")


def _of_subtasks(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _origin(study: Study) -> list[str]:
    made = [one for source in (evaluations, trainings) for run in study.runs for one in source(run)]
    machines = distinct([_machine(one.machine) for one in made if one.machine])
    commits = distinct(
        [one.commit[:10] + ("-dirty" if one.commit.endswith("-dirty") else "") for one in made if one.commit]
    )
    dates = sorted(distinct([one.date[:10] for one in made if one.date]))
    days = " to ".join(distinct([*dates[:1], *dates[-1:]]))
    told = [
        CELLS,
        TEST if any(table.reference for table in study.tables) else "",
        f"Run files: results/{study.name}/. Commits: {', '.join(commits) or 'unknown'}. Dates: "
        f"{days or 'unknown'}.",
        f"Machines: {'; '.join(machines) or 'unknown'}.",
    ]
    return [_wrapped(text) for text in told if text]


def _reflowed(block: str) -> str:
    """A paragraph or a list in lines of one length, which figures have broken; tables, code and headings as
    they are.
    """
    if block.startswith(("|", "#", "!", "    ")):
        return block
    return "\n".join(
        _wrapped(" ".join(part.split()), "  " if part.startswith("- ") else "")
        for part in re.split(r"\n(?=- )", block)
    )


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _machine(machine: Machine) -> str:
    threads = f"torch {machine.torch} on {machine.threads} threads"
    return f"{machine.cpu}, {machine.cores} cores, {threads}, {machine.gpu or 'no GPU'}, {machine.platform}"


def _filled(text: str, studies: Mapping[str, Study], own: str | None) -> str:
    """Text with each [[…]] replaced by a value of the run files.

    Raises UserError if there is no such value.
    """

    def figure(match: re.Match[str]) -> str:
        names = [part.strip() for part in match[1].split("|")]
        names = [own, *names] if own and len(names) == 3 else names
        if len(names) != 4 or names[0] not in studies:
            raise UserError(
                f"expected [[study | table | row | column]] with a study of {', '.join(studies)}, found "
                f"{match[0]}; correct the text"
            )
        table = studies[names[0]].table(names[1])
        row = table.row(names[2])
        if names[3] in COSTS:
            cost = {"seeds": str(len(row.runs)), "GB": rounded("GB", row.peak_gb)}
            return cost.get(names[3]) or rounded("minutes", row.minutes.mean if row.minutes else None)
        if names[3].startswith("p "):
            return _p(table.against_reference(names[3][2:])[row.label][1])
        return _cell(row.seeds(names[3]), names[3], worst=False)

    return "\n\n".join(map(_reflowed, FIGURE.sub(figure, text).split("\n\n")))


def _cell(seeds: Seeds, column: str, worst: bool = True) -> str:
    measure = measure_of(column)
    deviation = "" if seeds.deviation is None else f" ± {rounded(measure, seeds.deviation)}"
    return (
        rounded(measure, seeds.mean)
        + deviation
        + (f" ({rounded(measure, seeds.worst)})" if worst and seeds.deviation is not None else "")
    )


def _difference(column: str, difference: float, p: float | None) -> str:
    sign = "+" if difference >= 0 else ""
    return f"{sign}{rounded(measure_of(column), difference)} ({_p(p)})"


def _p(p: float | None) -> str:
    return "no test" if p is None else "p < 0.001" if p < 0.001 else f"p {p:.3f}"

"""Studies: a question and tables of runs, read from results/STUDY/study.yaml and the run files beside it."""

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from scipy import stats

from fashioniq.data.conversation_records import SUBTASKS
from fashioniq.data.evaluations import KINDS, Metrics, SessionMetrics, read_metrics
from fashioniq.files import UserError, why
from fashioniq.metrics.significance import holm
from fashioniq.provenance import Provenance
from fashioniq.yaml_files import read_yaml

COLUMN = re.compile(r"(?P<measure>\S+)(?: (?P<unit>turn|round) (?P<number>\d+)| (?P<last>last turn))?")
SAME = (
    "protocol",
    "category",
    "split",
    "gallery",
    "galleries",
    "samples",
    "dialogs",
    "fingerprint",
    "people",
    "retrievers",
)  # in a table
OF_DIALOGS = {"words", "asked", "pictures", "seconds"}  # costs, summed over the rounds of a dialog
OF_LIKENESS = {"length", "divergence", "AUC"}  # of people's captions, with whatever follows
LOWER_IS_BETTER = {"mean_rank", "median_rank", "BRI", "ATR", "returned", "in the other order"}
LOWER_IS_BETTER |= {*OF_DIALOGS, *OF_LIKENESS}
STUDY_KEYS = {"title", "question", "commands", "tables", "prose"}
REPAIR = "copy the metrics.json of an evaluation again"
TABLE_KEYS = {"name", "title", "reference", "columns", "rows"}


class UserAgreement(Metrics, kw_only=True):
    """Output of benchmarks/user_correlation.py: how well users order `retrievers` as people do; a row for each user."""

    PROTOCOL: ClassVar[str] = "order of retrievers"
    category: str
    people: str
    retrievers: list[str]
    rows: list[dict[str, Any]]


class LiveTrials(Metrics, kw_only=True):
    """Output of benchmarks/live_comparison.py: `experiments` with `shoppers` whose preferences are known.

    A row for each way to compare two models, estimator and gate.
    """

    PROTOCOL: ClassVar[str] = "comparison of models by simulated shoppers"
    category: str
    seed: int
    shoppers: int
    experiments: int
    products: int
    behavior: dict[str, Any]
    rows: list[dict[str, Any]]


KINDS[UserAgreement.PROTOCOL] = UserAgreement
KINDS[LiveTrials.PROTOCOL] = LiveTrials


@dataclass(frozen=True)
class Seeds:
    """Values of one measure of a row, one per seed."""

    values: tuple[float, ...]
    lower_is_better: bool = False

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the seeds; None for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def worst(self) -> float:
        """Value of the worst seed."""
        return (max if self.lower_is_better else min)(self.values)


@dataclass(frozen=True)
class Row:
    """Row of a table: its label, and one metrics.json per seed.

    `part` is a method or a check of a metrics.json with several rows, such as those of conversations, or a speaker of
    captions; "METHOD, N rounds" are the conversations with N rounds.
    """

    label: str
    runs: tuple[Metrics, ...]
    part: str | None = None

    def seeds(self, column: str) -> Seeds:
        """Values of a column such as "R@10 turn 5" or "BRI". Raises UserError if a run file lacks it."""
        values = (_value(run, column, self.part) for run in self.runs)
        return Seeds(tuple(values), not LOWER_IS_BETTER.isdisjoint({column, measure_of(column)}))

    @property
    def minutes(self) -> Seeds | None:
        """CPU minutes of training, one value per seed; None if a run file does not record them, and for the
        baselines in a run file.
        """
        method = (self.part or "").partition(", ")[0]
        if method and any(
            method in (row.get("method") for row in run.plain()["rows"][1:]) for run in self.runs
        ):
            return None
        spent = [
            made.seconds["cpu"] / 60 for run in self.runs for made in trainings(run) if "cpu" in made.seconds
        ]
        return Seeds(tuple(spent), lower_is_better=True) if len(spent) == len(self.runs) else None

    @property
    def peak_gb(self) -> float | None:
        """Highest peak memory of training and evaluation in GB, of the process or its GPU."""
        made = [one for run in self.runs for one in (*evaluations(run), *trainings(run))]
        return max((size for one in made for size in one.peak_gb.values() if size is not None), default=None)


@dataclass(frozen=True)
class Table:
    """Rows of comparable runs, and the label of the reference row."""

    name: str
    title: str
    reference: str | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """Metadata of all rows: the content of the first run file."""
        return self.rows[0].runs[0].plain()

    def row(self, label: str) -> Row:
        """Row with this label. Raises UserError if there is none."""
        for row in self.rows:
            if row.label == label:
                return row
        raise UserError(
            f"expected a row of table {self.name}, found {label!r}; its rows are "
            f"{', '.join(one.label for one in self.rows)}"
        )

    def against_reference(self, column: str) -> dict[str, tuple[float, float | None]]:
        """For each label, the difference of its mean to the reference row, and the p-value; None for a single
        seed.

        Welch's t-test over the seeds, two-sided, corrected by Holm over the rows of the table.
        """
        if self.reference is None:
            return {}
        base = self.row(self.reference).seeds(column)
        others = {row.label: row.seeds(column) for row in self.rows if row.label != self.reference}
        tested = [label for label, seeds in others.items() if base.deviation and seeds.deviation]
        raw = [
            float(stats.ttest_ind(others[label].values, base.values, equal_var=False).pvalue)
            for label in tested
        ]
        corrected = dict(zip(tested, holm(raw), strict=True))
        return {label: (seeds.mean - base.mean, corrected.get(label)) for label, seeds in others.items()}


@dataclass(frozen=True)
class Study:
    """A question, the tables that answer it, the commands of their runs, and the conclusions."""

    name: str
    title: str
    question: str
    commands: str
    tables: tuple[Table, ...]
    prose: str

    def table(self, name: str) -> Table:
        """Table with this name. Raises UserError if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        raise UserError(
            f"expected a table of study {self.name}, found {name!r}; its tables are "
            f"{', '.join(one.name for one in self.tables)}"
        )

    @property
    def runs(self) -> Iterator[Metrics]:
        """Each run file."""
        return (run for table in self.tables for row in table.rows for run in row.runs)


def read_studies(folder: Path) -> list[Study]:
    """All studies of a folder, sorted by name. Raises UserError if there is none or one is damaged."""
    paths = sorted(folder.glob("*/study.yaml"))
    if not paths:
        raise UserError(f"expected studies such as {folder / 'NAME' / 'study.yaml'}, found none; write one")
    return [read_study(path) for path in paths]


def read_study(path: Path) -> Study:
    """Read a study and its run files. Raises UserError if a file is missing or rows cannot be compared."""
    try:
        content = read_yaml(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"expected a study in {path}, found no readable YAML ({why(error)}); correct the file"
        ) from error
    _check_keys(content, STUDY_KEYS, path)
    tables = tuple(_table(table, path) for table in content.pop("tables"))
    return Study(
        name=path.parent.name, tables=tables, **{key: str(value).strip() for key, value in content.items()}
    )


def _table(content: Any, path: Path) -> Table:
    _check_keys(content, TABLE_KEYS, path)
    files = {label: [name.partition("#") for name in names] for label, names in content["rows"].items()}
    rows = tuple(
        Row(
            label,
            tuple(_read(path.parent, name) for name, *_ in parts),
            parts[0][2] or None if parts else None,
        )
        for label, parts in files.items()
    )
    runs = {
        name: run.plain()
        for row, names in zip(rows, ([name for name, *_ in parts] for parts in files.values()), strict=True)
        for name, run in zip(names, row.runs, strict=True)
    }
    if not runs or not all(row.runs for row in rows):
        raise UserError(
            f"expected one or more run files in each row of table {content['name']}, found an empty one in "
            f"{path}; name its files"
        )
    (first, facts), *others = runs.items()
    for name, run in others:
        if different := [key for key in SAME if run.get(key) != facts.get(key)]:
            found = f"{run.get(different[0])}, but {facts.get(different[0])} in {first}"
            raise UserError(
                f"expected one {different[0]} in table {content['name']}, found {found} in "
                f"{path.parent / name}; use another table"
            )
    return Table(content["name"], content["title"], content["reference"], tuple(content["columns"]), rows)


def _read(folder: Path, name: str) -> Metrics:
    """A run file; of a name with an asterisk, recorded sessions of several lengths as one, after their last turns."""
    paths = sorted(folder.glob(name)) if "*" in name else []
    if not paths:
        return read_metrics(folder / name, "the run file", Metrics, REPAIR)
    parts = [read_metrics(path, "the run file", SessionMetrics, REPAIR) for path in paths]
    dialogs = sum(part.dialogs for part in parts)
    last = {
        measure: fsum(part.dialogs * part.turns[-1][measure] for part in parts) / dialogs
        for measure in parts[0].turns[-1]
        if measure not in ("turn", "median_rank")  # a median of parts is none of the whole
    }
    turn = max(len(part.turns) for part in parts)
    return replace(parts[0], dialogs=dialogs, turns=[{"turn": turn, **last}])


def _check_keys(content: Any, keys: set[str], path: Path) -> None:
    found = set(content) if isinstance(content, dict) else set()
    if found != keys:
        wrong = ", ".join(sorted(found ^ keys))
        raise UserError(
            f"expected the keys {', '.join(sorted(keys))}, found {wrong} missing or unknown in {path}; "
            "correct the file"
        )


def _value(run: Metrics, column: str, part: str | None) -> float:
    """Measure of a turn or round, of a part, or of all dialogs: the mean over categories (single-turn) or BRI."""
    content, parts = run.plain(), COLUMN.fullmatch(column)
    if part and part.endswith(" rounds"):
        wanted = tuple(part.removesuffix(" rounds").split(", ")) + tuple(column.split(" ")[:1])
        found = [
            row.get(column.partition(" ")[2])
            for row in content.get("rounds", ())
            if (row["method"], str(row["rounds"]), row["subtask"]) == wanted
        ]
    elif part:
        rows = (
            [*content.get("rows", ()), *content.get("checks", ())]
            if "speech" not in content
            else content["speech"]
        )
        names = ("method", "check", "who")
        found = [row.get(column) for row in rows if part in (row.get(name) for name in names)]
    elif parts and parts["last"]:
        found = [row.get(parts["measure"]) for row in content.get("turns", ())[-1:]]
    elif parts and parts["unit"]:
        rows = [*content.get(f"{parts['unit']}s", ()), *content.get("costs", ())]
        found = [
            row[parts["measure"]]
            for row in rows
            if row.get(parts["unit"]) == int(parts["number"]) and parts["measure"] in row
        ]
    elif column in OF_DIALOGS:
        found = [fsum(row[column] for row in content.get("costs", ()))]
    else:
        found = [content["mean"].get(column) if "mean" in content else content.get(column)]
    if len(found) != 1 or not isinstance(found[0], int | float):
        raise UserError(
            f"expected a number for the column {column!r}, found none in a run file of the study; correct "
            "the column"
        )
    return float(found[0])


def measure_of(column: str) -> str:
    """Measure of a column such as "R@10 turn 5" or, of a sub-task, "m MRR"."""
    first, *others = column.split()
    return others[0] if first in SUBTASKS and others else first


def evaluations(run: Metrics) -> list[Provenance]:
    """Provenance of an evaluation, if it is recorded."""
    return [run.provenance] if run.provenance else []


def trainings(run: Metrics) -> list[Provenance]:
    """Provenance of the evaluated model, if it is recorded."""
    return [made.retriever for made in evaluations(run) if made.retriever]


def distinct(values: Sequence[Any]) -> list[Any]:
    """Values without None and repetitions, in their order."""
    return list(dict.fromkeys(value for value in values if value is not None))

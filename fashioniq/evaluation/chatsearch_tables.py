"""Tables of an evaluation of ChatSearch: measures by method and round, and differences."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fashioniq.data.conversation_records import SUBTASKS, ConversationSample, Subtask
from fashioniq.data.evaluations import ChatSearchMetrics
from fashioniq.data.items import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.measures import hits, measure
from fashioniq.metrics.significance import per_target, tested
from fashioniq.report.tables import print_table, rounded
from fashioniq.systems.chatsearch import VectorSearch

RECALLS = (1, 5, 10)
MEASURES = (*(f"R@{n}" for n in RECALLS), "R@8", "MRR")
COLUMNS = [f"{subtask} R@{n}" for subtask in SUBTASKS for n in RECALLS]
Ranks = dict[Subtask, Tensor]  # 0-based ranks of the targets of a sub-task, Q


@dataclass(frozen=True)
class Queries:
    """Conversations of a sub-task, ids of its gallery, and the positions of the targets there and of its items."""

    samples: list[ConversationSample]
    ids: list[str]
    target_Q: Tensor
    item_N: Tensor

    def gallery(self, search: VectorSearch) -> Gallery:
        """The gallery with the vectors of a search."""
        vectors_ND = search.vectors_ND[self.item_N]
        return Gallery(Items.without_attributes(self.ids, vectors_ND), vectors_ND)


def _measures(rank_Q: Tensor, gallery: int) -> dict[str, float]:
    return {name: measure(name).by_turn(rank_Q.unsqueeze(1), gallery)[0] for name in MEASURES}


def row_of(ranks: Ranks, tasks: dict[Subtask, Queries]) -> dict[str, float | None]:
    """Measures of all sub-tasks, None where there are no ranks, and the mean of R@1, 5 and 10 that there are."""
    row: dict[str, float | None] = dict.fromkeys(COLUMNS)
    for subtask, rank_Q in ranks.items():
        own = _measures(rank_Q, len(tasks[subtask].ids))
        row |= {f"{subtask} {name}": value for name, value in own.items()}
    known = [value for value in (row[name] for name in COLUMNS) if value is not None]
    return row | {"mean": sum(known) / len(known) if known else None}


def by_rounds(ranks: dict[str, Ranks], tasks: dict[Subtask, Queries]) -> list[dict[str, Any]]:
    """R@N of the conversations of the same kind with the same number of the user's turns."""
    rows = []
    for subtask, task in tasks.items():
        groups: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, sample in enumerate(task.samples):
            groups[sample.kind, sample.rounds].append(number)
        for (kind, rounds), numbers in sorted(groups.items()):
            about = {"subtask": subtask, "kind": kind, "rounds": rounds, "samples": len(numbers)}
            for name, one in ranks.items():
                if subtask in one:
                    own = _measures(one[subtask][numbers], len(task.ids))
                    rows.append({"method": name, **about, **own})
    return rows


def differences_of(ranks: dict[str, Ranks], tasks: dict[Subtask, Queries], seed: int) -> list[dict[str, Any]]:
    """Differences of R@10 of the first method to the others by sub-task, with intervals and corrected p."""
    (first, own), *others = ranks.items()
    rows: list[dict[str, Any]] = []
    differences = []
    for name, theirs in others:
        for subtask in [one for one in theirs if one in own]:
            targets = [sample.target for sample in tasks[subtask].samples]
            values = (hits(one[subtask], 10).numpy().astype(np.float64) for one in (own, theirs))
            difference_N = per_target(np.subtract(*values), targets)
            if len(difference_N) >= 2:
                rows.append({"methods": [first, name], "subtask": subtask, "measure": "R@10"})
                differences.append(difference_N)
    return [row | test for row, test in zip(rows, tested(differences, seed), strict=True)]


def cells_of(row: dict[str, Any], first: str = "method") -> list[str]:
    return [row[first], *("–" if row[name] is None else f"{row[name]:.2f}" for name in (*COLUMNS, "mean"))]


def print_tables(metrics: ChatSearchMetrics) -> None:
    header = [name.replace(" ", "\n") for name in (*COLUMNS, "mean")]
    sizes = ", ".join(
        f"{subtask} {metrics.samples[subtask]:,} conversations in {size:,} items"
        for subtask, size in metrics.galleries.items()
    )
    print(f"test: {sizes}; {100 * metrics.coverage:.1f} % of the conversations have features")
    print_table(["method", *header], [cells_of(row) for row in metrics.rows])
    if metrics.checks:
        print_table(
            [f"checks of {metrics.rows[0]['method']}", *header],
            [cells_of(row, "check") for row in metrics.checks],
        )
    first = metrics.rows[0]["method"]
    own = [row for row in metrics.rounds if row["method"] == first]
    print_table(
        [f"{first} by", "kind", "rounds", "conversations", *MEASURES],
        [
            [row["subtask"], row["kind"], str(row["rounds"]), f"{row['samples']:,}"]
            + [rounded(name, row[name]) for name in MEASURES]
            for row in own
        ],
        left=2,
    )
    if metrics.differences:
        print_table(
            ["difference of R@10", "sub-task", "points", "95 % interval", "p corrected"],
            [
                [
                    " − ".join(row["methods"]),
                    row["subtask"],
                    f"{row['difference']:+.2f}",
                    f"{row['interval'][0]:+.2f} to {row['interval'][1]:+.2f}",
                    f"{row['p_corrected']:.4f}",
                ]
                for row in metrics.differences
            ],
            left=2,
        )
    if metrics.shows_picture:
        shares = ", ".join(f"{subtask} {share:.1f} %" for subtask, share in metrics.shows_picture.items())
        print(f"shows a picture by itself: {shares}")

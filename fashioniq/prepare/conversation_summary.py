"""conversations.json: how the conversations of a folder were made, how many there are, and what each filter dropped."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from fashioniq.data.conversation_records import ConversationItem, ConversationSample
from fashioniq.files import UserError, read_json, write_json
from fashioniq.options import flag
from fashioniq.prepare.conversation_files import Samples
from fashioniq.provenance import Provenance, provenance

NAME, PLAN = "conversations.json", "plan.json"
_FREE = {  # options that do not change a conversation
    "out", "train", "test", "cache", "timeout", "device", "sessions"
}  # fmt: skip
_NOT_DROPPED = {"attempts", "conversations made"}
Table = tuple[list[str], list[list[str]]]  # header, rows


class Attempt(msgspec.Struct):
    """Samples of one conversation."""

    number: int
    samples: list[ConversationSample]


class ConversationBatch(msgspec.Struct):
    """Conversations of a batch of attempts, and how many were dropped by each filter."""

    made: list[Attempt]
    dropped: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    tokens: dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class Report:
    """Counts of all splits and lines, and the filters that need more than one batch.

    `failed` are the ids of samples that failed the review of people.
    """

    def __init__(self, failed: frozenset[str] = frozenset()) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.tokens: Counter[str] = Counter()
        self._failed, self._seen = failed, set[bytes]()

    def add(self, split: str, line: str, attempts: int, part: ConversationBatch) -> None:
        """Count a batch."""
        counts = self.counts[f"{split} {line}"]
        counts["attempts"] += attempts
        counts.update(part.dropped)
        self.tokens.update(part.tokens)

    def accept(self, split: str, line: str, attempt: Attempt) -> bool:
        """Whether a conversation is new and did not fail the review; it is counted."""
        reason = "conversations made"
        texts = {sample.digest for sample in attempt.samples}
        if not self._failed.isdisjoint(sample.id for sample in attempt.samples):
            reason = "failed the review"
        elif not self._seen.isdisjoint(texts):
            reason = "duplicates of an earlier text, of both splits"
        self._seen |= texts
        self.counts[f"{split} {line}"][reason] += 1
        return reason == "conversations made"

    def reasons(self, split: str, line: str) -> str:
        """The most frequent reasons for which conversations were dropped."""
        counts = self.counts[f"{split} {line}"]
        dropped = Counter({name: count for name, count in counts.items() if name not in _NOT_DROPPED})
        return ", ".join(f"{name}: {count:,}" for name, count in dropped.most_common(3))


class Count(msgspec.Struct):
    """Samples of a file, their different targets, and their mean number of words."""

    samples: int
    targets: int
    words: float


class Summary(msgspec.Struct):
    """Content of conversations.json. `filters` counts attempts, and what was dropped, by split and kind."""

    writer: str
    plan: dict[str, str]
    samples: dict[str, Count]
    copies: int
    filters: dict[str, dict[str, int]]
    tokens: dict[str, int]
    provenance: Provenance

    def tables(self) -> list[Table]:
        """Tables of the samples and of the filters."""
        rows = [
            [name, f"{count.samples:,}", f"{count.targets:,}", f"{count.words:.1f}"]
            for name, count in self.samples.items()
        ]
        reasons = dict.fromkeys(reason for counts in self.filters.values() for reason in counts)
        dropped = [
            [reason, *(f"{counts.get(reason, 0):,}" for counts in self.filters.values())]
            for reason in reasons
        ]
        dropped.append(["products with the picture of another one", f"{self.copies:,}"])
        dropped[-1] += [""] * (len(self.filters) - 1)
        tables: list[Table] = [
            (["file", "samples", "targets", "mean words"], rows),
            (["filter", *self.filters], dropped),
        ]
        if self.tokens:
            tables.append((["tokens", ""], [[name, f"{count:,}"] for name, count in self.tokens.items()]))
        return tables


def fingerprint(items: Iterable[ConversationItem], vectors: Iterable[np.ndarray]) -> str:
    """Hash of the items and their vectors: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(msgspec.json.encode((item.id, item.caption, item.split, item.category)))
    for vectors_ND in vectors:
        digest.update(np.ascontiguousarray(vectors_ND).tobytes())
    return digest.hexdigest()[:16]


def plan_of(options: Mapping[str, Any], made_of: str) -> dict[str, str]:
    """Options that change the conversations, and the fingerprint of what they are made of."""
    return {name: str(value) for name, value in options.items() if name not in _FREE} | {"data": made_of}


def check_plan(plan: dict[str, str], out: Path, parts: Path) -> None:
    """Raise UserError if the conversations in `out`, or the batches in `parts`, were made by another plan.

    `parts` is removed at the end, so that a folder with anything else is refused, too.
    """
    if parts.is_dir() and not (parts / PLAN).exists() and any(parts.iterdir()):
        raise UserError(
            f"expected batches of conversations in {parts}, found other files; give another --out"
        )
    for path, advice in (
        (out / NAME, "give the same, or another folder with --out"),
        (parts / PLAN, "give the same, or remove the folder to start again"),
    ):
        if path.exists():
            content = read_json(path, "the plan of the conversations", dict)
            begun = content.get("plan") if path.name == NAME else content
            begun = begun if isinstance(begun, dict) else {}
            if differing := [name for name in plan if begun.get(name) != plan[name]]:
                what = "products or vectors" if differing[0] == "data" else flag(differing[0])
                raise UserError(
                    f"the conversations in {path.parent} were begun with different {what}; {advice}"
                )


def write_summary(
    out: Path, plan: dict[str, str], samples: Samples, report: Report, *, writer: str, copies: int
) -> Summary:
    """Write conversations.json; its provenance has the time and the memory of the last run."""
    summary = Summary(
        writer=writer,
        plan=plan,
        samples={
            f"{subtask}.{split}": Count(
                samples=len(made),
                targets=len({sample.target for sample in made}),
                words=round(sum(sample.words for sample in made) / max(len(made), 1), 1),
            )
            for (subtask, split), made in samples.items()
        },
        copies=copies,
        filters={name: dict(counts) for name, counts in report.counts.items()},
        tokens=dict(report.tokens),
        provenance=provenance({"items": plan["data"]}),
    )
    write_json(out / NAME, msgspec.to_builtins(summary))
    return summary

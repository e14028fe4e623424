"""ChatSearch's pipeline on any catalog: dialogs of text, reference images, reference texts, and merging.

Two kinds of conversations are made, each from a product of the split in random order:

    merged  a dialog of text whose target is the product (t); a neighbor of its picture and a request that leads
            there (i); both joined (m)
    mdc_t   two rounds with the caption of another product between them, replaced by the nearest product (m); its
            last round (i)

A conversation that fails a filter is dropped and counted, and the next product is tried. Everything depends on the
seed and on the number of the attempt alone, so an interrupted run continues with the same result. Source: arXiv
2410.18715, section 3; what the paper does not print is ours, see docs/chatsearch.md.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from fashioniq.data.conversation_records import (
    ConversationSample,
    ConversationSplit,
    ConversationTurn,
    Kind,
    SampleOrigin,
    Subtask,
    Text,
    TurnPicture,
)
from fashioniq.data.words import tokenize
from fashioniq.data.writers import DescribedProduct, FeedbackPair, Writer
from fashioniq.files import UserError, read_json, typed, write_json
from fashioniq.prepare.conversation_pool import Pool
from fashioniq.prepare.conversation_summary import Attempt, ConversationBatch, Report

Line = Literal["merged", "mdc_t"]
LINES: tuple[Line, ...] = ("merged", "mdc_t")
SHARED_WORDS = 5  # words in a row that a dialog may not share with the caption of its target
WORDS = {"text": (40, 110), "mdc_i": (5, 25), "mdc_t": (12, 60)}  # bounds of the words that are written
GATE = 0.25  # share of the products that may be nearer to a text dialog than its target
SAME_ANSWER = 0.01  # share of the catalog: a reference text may not find its target among these
_NAMES = re.compile(
    r"\b(?:image|picture|photo|product) [ab]\b|\.(?:jpe?g|png|webp)\b|\[image\]", re.IGNORECASE
)
_ATTEMPTS = 20  # per conversation


@dataclass(frozen=True)
class Pipeline:
    """Pools of each split, the writer, and the seed; `batch_size` attempts are made at a time."""

    pools: dict[ConversationSplit, list[Pool]]
    writer: Writer
    seed: int
    batch_size: int

    def conversations(
        self, split: ConversationSplit, line: Line, wanted: int, parts: Path, report: "Report"
    ) -> Iterator[list[ConversationSample]]:
        """Yield the samples of `wanted` conversations; finished batches are read from the folder `parts`.

        Raises UserError if too few attempts pass the filters.
        """
        every = [(pool, product) for pool in self.pools[split] for product in pool.products]
        random.Random(f"{self.seed} {split} {line}").shuffle(every)
        count, start = 0, 0
        while count < wanted:
            if start > _ATTEMPTS * (wanted + self.batch_size):
                raise UserError(
                    f"expected {wanted:,} {line} conversations of {split}, found {count:,} in {start:,} attempts: "
                    f"{report.reasons(split, line)}; give a smaller --{split} or a larger catalog"
                )
            chosen = {number: every[number % len(every)] for number in range(start, start + self.batch_size)}
            part = self._part(_Batch(self, split, line, chosen), parts / f"{split}-{line}-{start:09}.json")
            report.add(split, line, self.batch_size, part)
            for attempt in part.made:
                if count < wanted and report.accept(split, line, attempt):
                    count += 1
                    yield attempt.samples
            start += self.batch_size

    def _part(self, batch: "_Batch", path: Path) -> ConversationBatch:
        if not path.exists():
            before = Counter(self.writer.tokens)
            made = self._merged(batch) if batch.line == "merged" else self._two_rounds(batch)
            spent = Counter(self.writer.tokens) - before
            part = ConversationBatch(made, dict(batch.dropped), dict(spent))
            write_json(path, msgspec.to_builtins(part), indent=None)
        return typed(
            read_json(path, "a batch of conversations", dict), ConversationBatch, path, "remove the file"
        )

    def _merged(self, batch: "_Batch") -> list[Attempt]:
        written = self.writer.dialogs(
            [product for _, product in batch.chosen.values()], batch.seeds(batch.chosen, "dialog")
        )
        waiting = {}
        for (number, (pool, target)), dialog in zip(batch.chosen.items(), written, strict=True):
            if dialog is None:
                batch.dropped["dialogs that could not be written"] += 1
            elif not batch.fault("text", " ".join(dialog.texts), target) and batch.answers(
                pool, " ".join(dialog.texts[::2]), target
            ):
                found = pool.neighbors(target.id, batch.dropped)
                random.Random(batch.seed(number, "neighbor")).shuffle(found)
                waiting[number] = (target, dialog, found)
        made = []
        while waiting:
            for number in [number for number, (*_, found) in waiting.items() if not found]:
                batch.dropped["dialogs without a usable neighbor"] += 1
                del waiting[number]
            tried = {number: found.pop() for number, (*_, found) in waiting.items()}
            pairs = [
                FeedbackPair(waiting[number][0], tried[number][0], waiting[number][1].said)
                for number in tried
            ]
            requests = self.writer.requests(pairs, batch.seeds(tried, "request"))
            for (number, (_, cos, rank)), pair, request in zip(tried.items(), pairs, requests, strict=True):
                if request is None:
                    batch.dropped["neighbors: no request, or it contradicts the dialog"] += 1
                elif not batch.fault("mdc_i", request, pair.wanted):
                    source = batch.source(pair.shown, pair.wanted.caption, cos, rank)
                    texts = waiting.pop(number)[1].texts
                    made.append(_merged_attempt(batch, number, pair, (texts, request), source))
        return sorted(made, key=lambda attempt: attempt.number)

    def _two_rounds(self, batch: "_Batch") -> list[Attempt]:
        pairs = [
            FeedbackPair(random.Random(batch.seed(number, "partner")).choice(pool.products), target)
            for number, (pool, target) in batch.chosen.items()
        ]
        written = self.writer.two_rounds(pairs, batch.seeds(batch.chosen, "two rounds"))
        passed = {}
        for (number, (pool, target)), rounds in zip(batch.chosen.items(), written, strict=True):
            if rounds is None:
                batch.dropped["rounds that could not be written"] += 1
                continue
            found, cos, above = pool.nearest(rounds.caption, target.id)
            if above < SAME_ANSWER:
                batch.dropped["reference texts that find the target"] += 1
            else:
                passed[number] = (FeedbackPair(found, target, rounds.said), rounds, cos)
        missing = {number: pair for number, (pair, rounds, _) in passed.items() if not rounds.second}
        requests = self.writer.requests(list(missing.values()), batch.seeds(missing, "request"))
        second_of = dict(zip(missing, requests, strict=True))
        made = []
        for number, (pair, rounds, cos) in passed.items():
            second = second_of.get(number, rounds.second)
            if second is None:
                batch.dropped["reference pictures without a difference"] += 1
            elif not batch.fault("mdc_t", f"{rounds.first} {second}", pair.wanted):
                source = batch.source(pair.wanted, rounds.caption, cos, 1)
                made.append(_two_rounds_attempt(batch, number, pair, (rounds.first, second), source))
        return made


@dataclass
class _Batch:
    """Attempts: the pool and the product of each number, and how many were dropped by each filter."""

    pipeline: Pipeline
    split: ConversationSplit
    line: Line
    chosen: dict[int, tuple[Pool, DescribedProduct]]
    dropped: Counter[str] = field(default_factory=Counter)

    def seed(self, number: int, what: str) -> str:
        return f"{self.pipeline.seed} {self.split} {self.line} {number} {what}"

    def seeds(self, numbers: Iterable[int], what: str) -> list[str]:
        return [self.seed(number, what) for number in numbers]

    def source(
        self, first: DescribedProduct, second: str, cos: float | None, rank: int | None
    ) -> SampleOrigin:
        return SampleOrigin(
            self.pipeline.writer.name,
            T1=first.caption,
            T2=second,
            cos=cos,
            rank=rank,
            seed=self.pipeline.seed,
        )

    def fault(self, kind: Kind, text: str, target: DescribedProduct) -> bool:
        """Whether a filter drops a text, which is counted."""
        least, most = WORDS[kind]
        count, words = len(text.split()), tokenize(text)
        reasons = {
            "names of files or pictures": _NAMES.search(text) or (len(target.id) > 3 and target.id in text),
            f"fewer than {least} words": count < least,
            f"more than {most} words": count > most,
            f"{SHARED_WORDS} words in a row of the caption": _shares(words, tokenize(target.caption)),
        }
        broken = [reason for reason, holds in reasons.items() if holds]
        for reason in broken[:1]:
            self.dropped[f"{kind}: {reason}"] += 1
        return bool(broken)

    def answers(self, pool: Pool, text: str, target: DescribedProduct) -> bool:
        """Whether the target is near enough to a text; it is counted if not."""
        near = pool.nearest(text, target.id)[2] <= GATE
        self.dropped["text: too far from the target"] += not near
        return near

    def sample(
        self,
        subtask: Subtask,
        kind: Kind,
        number: int,
        *,
        turns: Sequence[ConversationTurn],
        target: DescribedProduct,
        source: SampleOrigin,
    ) -> ConversationSample:
        return ConversationSample(
            id=f"{subtask}-{kind}-{self.split}-{number:06}",
            subtask=subtask,
            kind=kind,
            turns=tuple(turns),
            target=target.id,
            source=source,
            split=self.split,
        )


def _merged_attempt(
    batch: _Batch, number: int, pair: FeedbackPair, texts: tuple[Sequence[str], str], source: SampleOrigin
) -> Attempt:
    (dialog_texts, request), start = texts, pair.shown
    turns = [
        ConversationTurn("assistant" if place % 2 else "user", (Text(text),))
        for place, text in enumerate(dialog_texts)
    ]
    asked = [
        ConversationTurn("assistant", (TurnPicture(start.id),)),
        ConversationTurn("user", (Text(request),)),
    ]
    alone = msgspec.structs.replace(source, T2="", cos=None, rank=None)
    dialog = batch.sample("t", "text", number, turns=turns, target=start, source=alone)
    merged = batch.sample("m", "merged", number, turns=turns + asked, target=pair.wanted, source=source)
    single = batch.sample("i", "mdc_i", number, turns=merged.last_round, target=pair.wanted, source=source)
    return Attempt(number, [dialog, single, _joined(merged, dialog, single)])


def _two_rounds_attempt(
    batch: _Batch, number: int, pair: FeedbackPair, texts: tuple[str, str], source: SampleOrigin
) -> Attempt:
    first, second = (ConversationTurn("user", (Text(text),)) for text in texts)
    turns = [first, ConversationTurn("assistant", (TurnPicture(pair.shown.id),)), second]
    whole = batch.sample("m", "mdc_t", number, turns=turns, target=pair.wanted, source=source)
    last = batch.sample("i", "mdc_t", number, turns=whole.last_round, target=pair.wanted, source=source)
    return Attempt(number, [_joined(last, whole), whole])


def _joined(sample: ConversationSample, *parts: ConversationSample) -> ConversationSample:
    source = msgspec.structs.replace(sample.source, joined=tuple(part.id for part in parts))
    return msgspec.structs.replace(sample, source=source)


def _shares(words: Sequence[str], caption: Sequence[str]) -> bool:
    """Whether two texts share SHARED_WORDS words in a row."""
    own, theirs = (
        {tuple(text[place : place + SHARED_WORDS]) for place in range(len(text) - SHARED_WORDS + 1)}
        for text in (words, caption)
    )
    return not own.isdisjoint(theirs)

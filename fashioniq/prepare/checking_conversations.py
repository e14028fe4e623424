"""Check of a folder of conversations, or of eval-dialogs --record: every mistake in one line.

The folder is not changed.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from fashioniq.data.conversation_records import (
    CONVERSATION_SPLITS,
    SUBTASKS,
    ConversationItem,
    ConversationSample,
    ConversationSplit,
    Subtask,
)
from fashioniq.data.conversations import (
    T,
    fault_of_gallery,
    fault_of_sample,
    gallery_file,
    lines_of,
    samples_file,
)
from fashioniq.data.dialog_log import FEEDBACK, HIT, Feedback
from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.files import UserError, checksum, read_json
from fashioniq.prepare.conversation_files import REVIEW, ReviewLine


def check_of(folder: Path) -> Callable[[Path], list[str]] | None:
    """Check of a folder of conversations or visual feedback; None for a catalog, which has another one."""
    if (folder / "image_splits").exists():
        return None
    checks = {"items.jsonl": check_conversations, FEEDBACK: check_feedback}
    return next((check for file, check in checks.items() if (folder / file).exists()), None)


def check_conversations(folder: Path) -> list[str]:
    """Mistakes in the files of a folder, such as an item of test in a conversation of train.

    Each begins with the name of the file. Raises UserError if items.jsonl cannot be read.
    """
    checked = _Checked(folder)
    for subtask in SUBTASKS:
        for split in CONVERSATION_SPLITS:
            checked.check(subtask, split)
    checked.review()
    return checked.mistakes


class _Checked:
    """The mistakes found so far, and what was read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mistakes = folder, list[str]()
        self.items: dict[str, ConversationItem] = {}
        self.places: dict[str, str] = {}  # file and line of each sample
        for number, item in self._lines(folder / "items.jsonl", ConversationItem, "an item"):
            if item.id in self.items:
                self._found("items.jsonl", number, f"expected every id once, found {item.id!r} again")
            else:
                self.items[item.id] = item
                if item.image and not (folder / item.image).is_file():
                    self._found("items.jsonl", number, f"there is no picture {item.image} of {item.id!r}")

    def check(self, subtask: Subtask, split: ConversationSplit) -> None:
        """Check the samples and the gallery of a sub-task and split."""
        path, targets = samples_file(self.folder, subtask, split), dict[str, str]()
        gallery = gallery_file(self.folder, subtask, split)
        try:
            for number, sample in self._lines(path, ConversationSample, "a sample"):
                if sample.id in self.places:
                    self._found(path.name, number, f"{sample.id!r} is also in {self.places[sample.id]}")
                self.places[sample.id] = f"{path.name}, line {number}"
                if fault := fault_of_sample(sample, self.items, subtask, split):
                    self._found(path.name, number, fault)
                targets.setdefault(sample.target, sample.id)
            if targets and (split == "test" or gallery.exists()):  # only test is ranked
                ids = read_json(gallery, "the gallery", list)
                fault = fault_of_gallery(ids, self.items, split)
                faults = (
                    [fault]
                    if fault
                    else [
                        f"expected the target {target!r} of {targets[target]!r}, found none"
                        for target in sorted(targets.keys() - set(ids))
                    ]
                )
                self.mistakes += [f"{gallery.name}: {fault}" for fault in faults]
        except UserError as error:
            self.mistakes.append(str(error))

    def review(self) -> None:
        """Check that the verdicts, if there are any, are about samples of the folder."""
        if (self.folder / REVIEW).exists():
            for number, verdict in self._lines(self.folder / REVIEW, ReviewLine, "a verdict"):
                if verdict.sample not in self.places and not verdict.failed:
                    self._found(REVIEW, number, f"there is no sample {verdict.sample!r}")

    def _lines(self, path: Path, kind: type[T], what: str) -> Iterator[tuple[int, T]]:
        """Lines that can be read, with their numbers; the others are mistakes."""
        for number, line in lines_of(path, kind, what):
            if isinstance(line, str):
                self._found(path.name, number, line)
            else:
                yield number, line

    def _found(self, file: str, number: int, mistake: str) -> None:
        self.mistakes.append(f"{file}, line {number}: {mistake}")


def check_feedback(folder: Path) -> list[str]:
    """Mistakes in feedback.jsonl, such as a picture of another description. Raises UserError if it cannot be read."""
    mistakes, rows = [], []
    for number, row in lines_of(folder / FEEDBACK, Feedback, "a round", "visual-feedback"):
        if isinstance(row, Feedback):
            rows.append(row)
        faults = [row] if isinstance(row, str) else _faults(folder, row)
        mistakes += [f"{FEEDBACK}, line {number}: {fault}" for fault in faults]
    lengths = {}
    for target, some in groupby(rows, key=lambda row: row.target):
        rounds = [row.round for row in some]
        if rounds != list(range(len(rounds))) or target in lengths:
            mistakes.append(
                f"{FEEDBACK}: expected the rounds of {target!r} from 0, each once, found {rounds}"
            )
        lengths[target] = len(rounds)
    most = max(lengths.values(), default=0)
    short = [target for target, length in lengths.items() if length < most]
    mistakes += [
        f"{FEEDBACK}: expected {most} rounds of {target!r}, found {lengths[target]}" for target in short
    ]
    return mistakes if rows else [*mistakes, f"{FEEDBACK}: expected rounds, found none"]


def _faults(folder: Path, row: Feedback) -> list[str]:
    faults = []
    if row.rank < 0 or row.hit != (row.rank < HIT):
        faults.append(f"expected a hit for the ranks 0 to {HIT - 1}, found rank {row.rank}, hit {row.hit}")
    if row.correct != (row.rank == 0):
        faults.append(f"expected correct for rank 0 alone, found rank {row.rank}, correct {row.correct}")
    if (row.rank == 0) != (row.retrieved == row.target):
        faults.append(f"expected the target at rank 0 alone, found {row.retrieved!r} and rank {row.rank}")
    if row.picture is not None:
        picture = folder / row.picture
        try:
            load_image(picture, min_side=1)
            about = read_json(picture.with_suffix(".json"), "the picture's description", dict)
            if about.get("prompt") != row.query or about.get("checksum") != checksum(picture):
                faults.append(f"{row.picture} was generated from another description, or changed")
        except (UnreadableImage, UserError) as error:
            faults.append(f"{row.picture} cannot be used: {error}")
    return faults

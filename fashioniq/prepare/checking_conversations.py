"""Check of a folder of conversations: every mistake in one line. The folder is not changed."""

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
    fault_of_gallery,
    fault_of_sample,
    gallery_file,
    lines_of,
    samples_file,
)
from fashioniq.files import UserError, read_json
from fashioniq.prepare.conversation_files import REVIEW, ReviewLine


def is_conversations(folder: Path) -> bool:
    """Whether a folder has conversations rather than a catalog."""
    return (folder / "items.jsonl").exists() and not (folder / "image_splits").exists()


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
        for number, item in lines_of(folder / "items.jsonl", ConversationItem, "an item"):
            if isinstance(item, str):
                self._found("items.jsonl", number, item)
            elif item.id in self.items:
                self._found("items.jsonl", number, f"expected every id once, found {item.id!r} again")
            else:
                self.items[item.id] = item
                if item.image and not (folder / item.image).is_file():
                    self._found("items.jsonl", number, f"there is no picture {item.image} of {item.id!r}")

    def check(self, subtask: Subtask, split: ConversationSplit) -> None:
        """Check the samples and the gallery of a sub-task and split."""
        path, targets = samples_file(self.folder, subtask, split), dict[str, str]()
        try:
            for number, sample in lines_of(path, ConversationSample, "a sample"):
                if isinstance(sample, str):
                    self._found(path.name, number, sample)
                    continue
                if sample.id in self.places:
                    self._found(path.name, number, f"{sample.id!r} is also in {self.places[sample.id]}")
                self.places[sample.id] = f"{path.name}, line {number}"
                if fault := fault_of_sample(sample, self.items, subtask, split):
                    self._found(path.name, number, fault)
                targets.setdefault(sample.target, sample.id)
        except UserError as error:
            self.mistakes.append(str(error))
            return
        if targets:
            self._gallery(subtask, split, targets)

    def _gallery(self, subtask: Subtask, split: ConversationSplit, targets: dict[str, str]) -> None:
        path = gallery_file(self.folder, subtask, split)
        if split == "train" and not path.exists():
            return  # only test is ranked
        try:
            ids = read_json(path, "the gallery", list)
        except UserError as error:
            self.mistakes.append(str(error))
            return
        if fault := fault_of_gallery(ids, self.items, split):
            self.mistakes.append(f"{path.name}: {fault}")
            return
        for target in sorted(targets.keys() - set(ids)):
            self.mistakes.append(
                f"{path.name}: expected the target {target!r} of {targets[target]!r}, found none"
            )

    def review(self) -> None:
        """Check that the verdicts, if there are any, are about samples of the folder."""
        if (self.folder / REVIEW).exists():
            for number, verdict in lines_of(self.folder / REVIEW, ReviewLine, "a verdict"):
                if isinstance(verdict, str):
                    self._found(REVIEW, number, verdict)
                elif verdict.sample not in self.places and not verdict.failed:
                    self._found(REVIEW, number, f"there is no sample {verdict.sample!r}")

    def _found(self, file: str, number: int, mistake: str) -> None:
        self.mistakes.append(f"{file}, line {number}: {mistake}")

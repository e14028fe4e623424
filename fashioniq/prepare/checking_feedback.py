"""Check of a folder of eval-dialogs --record: every mistake in one line. The folder is not changed."""

from itertools import groupby
from pathlib import Path

from fashioniq.data.conversations import lines_of
from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.data.visual_feedback import FILE, HIT, Feedback
from fashioniq.files import UserError, checksum, read_json


def is_feedback(folder: Path) -> bool:
    """Whether a folder has visual feedback rather than a catalog."""
    return (folder / FILE).exists() and not (folder / "image_splits").exists()


def check_feedback(folder: Path) -> list[str]:
    """Mistakes in feedback.jsonl, such as a picture of another description. Raises UserError if it cannot be read."""
    mistakes, rows = [], []
    for number, row in lines_of(folder / FILE, Feedback, "a round", "visual-feedback"):
        if isinstance(row, Feedback):
            rows.append(row)
        faults = [row] if isinstance(row, str) else _faults(folder, row)
        mistakes += [f"{FILE}, line {number}: {fault}" for fault in faults]
    lengths = {}
    for target, some in groupby(rows, key=lambda row: row.target):
        rounds = [row.round for row in some]
        if rounds != list(range(len(rounds))) or target in lengths:
            mistakes.append(f"{FILE}: expected the rounds of {target!r} from 0, each once, found {rounds}")
        lengths[target] = len(rounds)
    most = max(lengths.values(), default=0)
    short = [target for target, length in lengths.items() if length < most]
    mistakes += [f"{FILE}: expected {most} rounds of {target!r}, found {lengths[target]}" for target in short]
    return mistakes if rows else [*mistakes, f"{FILE}: expected rounds, found none"]


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

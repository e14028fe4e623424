"""Data of GenIR's dialogs: feedback.jsonl has a line for each round, with the path of its picture."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.files import write_jsonl

FILE = "feedback.jsonl"
HIT = 10  # a target among so many products is found


class Feedback(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A round of a dialog: the description of the user, the picture generated from it (its path from the folder of
    the file, None if it failed), the best product, whether it is the target (GenIR's label y), the 0-based rank of the
    target, and whether it is a hit.
    """

    target: str
    round: int
    query: str
    picture: str | None
    retrieved: str
    correct: bool
    rank: int
    hit: bool


def write_feedback(folder: Path, dialogs: Sequence[LoggedDialog]) -> None:
    """Write the rounds of an evaluation's dialogs, all of whose pictures are files."""
    write_jsonl(folder / FILE, (row for dialog in dialogs for row in _rows(folder, dialog)))


def _rows(folder: Path, dialog: LoggedDialog) -> Iterator[Feedback]:
    offered = [turn.offer.picture if turn.offer else None for turn in dialog.turns[1:]]
    for number, (turn, picture) in enumerate(
        zip(dialog.turns, [*offered, dialog.picture or None], strict=True)
    ):
        assert dialog.target is not None and turn.rank is not None
        assert isinstance(turn.words, str) and isinstance(turn.shown, str)
        yield Feedback(
            target=dialog.target,
            round=number,
            query=turn.words,
            picture=os.path.relpath(picture, folder) if picture else None,
            retrieved=turn.shown,
            correct=turn.rank == 0,
            rank=turn.rank,
            hit=turn.rank < HIT,
        )

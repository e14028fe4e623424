"""Dialogs of an evaluation or of a chat, one per line of dialogs.jsonl, and those of GenIR as data, one round per line
of feedback.jsonl, with the path of its picture.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq.data.facts import Text
from fashioniq.files import refuse_special, write_jsonl


class LoggedMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Parts of a message that were used: a product's id, a text, and a picture."""

    item: str | None = None
    text: str | None = None
    picture: str | None = None


class LoggedTurn(msgspec.Struct, kw_only=True):
    """Offer and reply of a turn, and the target's 0-based rank after it, None where unknown.

    Evaluations also have `shown`, the product offered or the best one after the turn, and `words`, the turn
    as one text.
    """

    shown: Text = UNSET
    words: Text = UNSET
    rank: int | None = None
    offer: LoggedMessage | UnsetType = UNSET
    reply: LoggedMessage | UnsetType = UNSET


class LoggedDialog(msgspec.Struct, kw_only=True):
    """Line of dialogs.jsonl: target, None where unknown, turns, and the best products after the last one, with the
    picture generated from it.
    """

    target: str | None
    turns: list[LoggedTurn]
    top: list[str] = []
    picture: str | UnsetType | None = UNSET
    category: Text = UNSET

    @property
    def ranks(self) -> list[int]:
        """Rank of the target after each turn where it is known."""
        return [turn.rank for turn in self.turns if turn.rank is not None]


def read_dialogs(path: Path) -> list[LoggedDialog]:
    """Read dialogs.jsonl.

    Raises OSError, or msgspec.MsgspecError or RecursionError for a damaged line, or UserError for a pipe.
    """
    refuse_special(path)
    with open(path, "rb") as file:
        return [msgspec.json.decode(line, type=LoggedDialog) for line in file]


FEEDBACK = "feedback.jsonl"
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
    write_jsonl(folder / FEEDBACK, (row for dialog in dialogs for row in _rows(folder, dialog)))


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

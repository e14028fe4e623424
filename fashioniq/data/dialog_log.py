"""dialogs.jsonl: the dialogs of an evaluation or of a chat, one per line."""

from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq.data.facts import Text
from fashioniq.files import refuse_special


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

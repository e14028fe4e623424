"""Output folders of commands: they are empty, or have earlier results of the same kind."""

from collections.abc import Callable
from pathlib import Path

from fashioniq.files import UserError, one_line, writing

_LOGS = (".log", ".out", ".err")  # a shell makes the log of a command before the command starts


def visible(folder: Path) -> list[Path]:
    """What lies in a folder, by name, without hidden files, such as those of git; nothing if there is no folder."""
    with writing(folder):
        return sorted(path for path in folder.glob("*") if not path.name.startswith("."))


def refuse_others(folder: Path, earlier: str, option: str, is_ours: Callable[[Path], bool]) -> None:
    """Raise UserError if something in a folder, other than a log, is not of a command that writes to it; `is_ours` says
    what is.

    `earlier` says what the folder may have, and `option` is the one that names it.
    """
    others = (path for path in visible(folder) if not (path.suffix in _LOGS and path.is_file()))
    if other := next((path for path in others if not is_ours(path)), None):
        raise UserError(
            f"expected an empty folder or {earlier} in {folder}, found {one_line(other.name)} of something else; "
            f"give another {option}"
        )

"""Output folder of an evaluation: it is empty, or has earlier results, which are replaced."""

import re
from contextlib import suppress
from pathlib import Path

from fashioniq.files import UserError, check_writable, read_json
from fashioniq.folders import refuse_others, visible

_MARKS = {  # JSON files of results, and a key that they have
    "metrics.json": "provenance",
    "requests.json": "provenance",
    "session_scores.json": "provenance",
    "comparison.json": "notes",
    "sessions.json": "rows",
    "users.json": "users",
}
_WRITTEN = re.compile(
    r"(table|turns|comparison)\.(csv|tex|txt)|report\.html|(run|qrels|topics)(\..+)?\.(trec|tsv)|ranks\..+\.jsonl"
    r"|(dialogs|captions|requests|feedback)\.jsonl"
)
_PICTURES = "pictures"  # cache of generated pictures


def check_results(out: Path) -> None:
    """Raise UserError if results cannot be written to a folder, or if it has files of something else.

    Earlier results have one of the files of _MARKS, and may have others beside them. A killed command may have left
    files without one, but beside them there is nothing that it does not write.
    """
    check_writable(out)
    if not _has_results(out):
        refuse_others(out, "earlier results", "--out", _is_left)


def _has_results(folder: Path) -> bool:
    for name, key in _MARKS.items():
        with suppress(UserError):
            if (folder / name).is_file() and key in read_json(folder / name, "the earlier results", dict):
                return True
    return False


def _is_left(path: Path) -> bool:
    """Whether a file or folder is one that an evaluation may have left: several tasks have a folder each."""
    if path.is_dir() and not path.is_symlink():
        return path.name == _PICTURES or _has_results(path) or all(map(_is_left, visible(path)))
    return path.is_file() and _WRITTEN.fullmatch(path.name) is not None

"""Output folder of an evaluation: it is new, or has earlier results, which are replaced."""

import re
from contextlib import suppress
from pathlib import Path

from fashioniq.files import UserError, check_writable, read_json, writing

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


def check_results(out: Path) -> None:
    """Raise UserError if results cannot be written to a folder, or would replace files of something else.

    Earlier results have one of the files of _MARKS. A killed command may have left others, but beside them there is
    nothing that it does not write.
    """
    check_writable(out)
    with writing(out):
        names = {path.name for path in out.glob("*") if path.is_file() and not path.name.startswith(".")}
    marks = sorted(names & _MARKS.keys())
    for name in marks:
        with suppress(UserError):
            if _MARKS[name] in read_json(out / name, "the earlier results", dict):
                return
    replaced = sorted(filter(_WRITTEN.fullmatch, names))
    if marks or (replaced and len(replaced) < len(names)):
        raise UserError(
            f"expected a new folder or earlier results in {out}, found {(marks or replaced)[0]} of something else; "
            "give another --out"
        )

"""Compare two commits bit for bit: run the golden workload on both and compare all files that it writes.

    python tests/golden/compare_commits.py BASE [HEAD] [--pages]

Both run with this interpreter, one thread and the settings beside this script. Losses, weights, rankings,
dialogs and tables must have the same bytes; metrics.json, store.json and catalog.json the same values, with
any keys added; values of the provenance do not count. Changed wording (pages, LaTeX tables, sentences in
these JSON files) is reported and fails only with --pages. Differences of model.json are reported and never
fail.

Exit code: 0 identical, 1 different, 2 if the workload fails.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import Any

import workload

import results

ROOT = Path(__file__).resolve().parents[2]
STRUCTURED = {"metrics.json", "model.json", "store.json", "catalog.json"}  # may have further keys
NOT_COMPARED = {workload.LOG, "config.yaml", "last.ckpt"}  # they hold printed text, option names, class names
SHOWN = 8  # differences of a file
ABSENT = "(absent)"


def main(arguments: list[str] | None = None) -> int:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("base", metavar="BASE", help="commit or directory of a checkout")
    parser.add_argument("head", metavar="HEAD", nargs="?", default=str(ROOT), help="(default: this checkout)")
    parser.add_argument("--pages", action="store_true", help="also fail on changed wording")
    settings = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        base, head = Path(name, "base"), Path(name, "head")
        try:
            for version, folder in ((settings.base, base), (settings.head, head)):
                folder.mkdir()
                workload.run_workload(_checkout(version, Path(name, f"{folder.name}-checkout")), folder)
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        same = compare_folders(base, head, settings.pages)
    print(f"{settings.base} and {settings.head}: {'identical' if same else 'DIFFERENT'}")
    return 0 if same else 1


def compare_folders(base: Path, head: Path, pages: bool) -> bool:
    """Print one line a file and its differences; return whether none of them is a failure.

    Identical files of `catalog/` are counted on one line.
    """
    paths = [(folder, path) for folder in (base, head) for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder) for folder, path in paths if path.name not in NOT_COMPARED}
    verdicts, same_in_catalog = [], 0
    for name in sorted(names):
        verdict, differences = _compare_files(base, head, name)
        verdicts.append(verdict)
        if verdict == "same" and name.parts[0] == "catalog":
            same_in_catalog += 1
            continue
        print(f"{verdict:9}  {name}")
        for line in differences[:SHOWN]:
            print(f"{'':11}{line}")
        if len(differences) > SHOWN:
            print(f"{'':11}and {len(differences) - SHOWN} more")
    print(f"same       {same_in_catalog} files of catalog/")
    return "DIFFERENT" not in verdicts and not (pages and "wording" in verdicts)


def _checkout(version: str, folder: Path) -> Path:
    """A directory as it is, or the files of a commit, unpacked into `folder`."""
    if Path(version).is_dir():
        return Path(version)
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", version], capture_output=True, check=False, timeout=600
    )
    if archive.returncode:
        raise RuntimeError(f"{version} is not a directory; git archive: {archive.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def _compare_files(base: Path, head: Path, name: Path) -> tuple[str, list[str]]:
    """A verdict (same, added, wording, model or DIFFERENT) and the differences; own paths do not count."""
    if not (base / name).exists():
        return "added", []
    if not (head / name).exists():
        return "DIFFERENT", ["missing in HEAD"]
    contents = [(folder / name).read_bytes().replace(str(folder).encode(), b"") for folder in (base, head)]
    if contents[0] == contents[1]:
        return "same", []
    if name.suffix in (".npy", ".safetensors", ".jpg"):
        return "DIFFERENT", [f"{len(contents[0])} and {len(contents[1])} bytes"]
    texts = [content.decode() for content in contents]
    if name.name in STRUCTURED:
        return _compare_json(name.name, *map(json.loads, texts))
    if name.suffix == ".jsonl":
        return _compare_lines(*(text.splitlines() for text in texts))
    if name.suffix == ".html":
        texts = [results.page_text(text) for text in texts]
        return ("same", []) if texts[0] == texts[1] else ("wording", [_first_difference(*texts)])
    return "wording" if name.suffix == ".tex" else "DIFFERENT", [_first_difference(*texts)]


def _compare_lines(base: list[str], head: list[str]) -> tuple[str, list[str]]:
    """JSON lines may have more keys, in the same order otherwise."""
    if len(base) != len(head):
        return "DIFFERENT", [f"{len(base)} and {len(head)} lines"]
    verdicts = [
        _compare_json("", json.loads(old), json.loads(new)) for old, new in zip(base, head, strict=True)
    ]
    differing = [lines for verdict, lines in verdicts if verdict != "same"]
    return ("DIFFERENT", differing[0]) if differing else ("same", verdicts[0][1] if verdicts else [])


def _compare_json(name: str, base: Any, head: Any) -> tuple[str, list[str]]:
    old, new = results.flattened(base), results.flattened(head)
    changed = [key for key in old if new.get(key, ABSENT) != old[key] and not _differs_by_run(key, new)]
    lines = [f"{key}: {old[key]!r} -> {new.get(key, ABSENT)!r}" for key in changed]
    lines += [f"{key}: added" for key in new if key not in old and not key.startswith("provenance.")]
    if name == "model.json":
        return "model", lines
    if all(_is_sentence(old[key]) and _is_sentence(new.get(key)) for key in changed):
        return "wording" if changed else "same", lines
    return "DIFFERENT", lines


def _differs_by_run(key: str, new: dict[str, Any]) -> bool:
    """Whether a key belongs to the provenance, such as the seconds and the date; it must not be missing."""
    return key.startswith("provenance.") and key in new


def _is_sentence(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def _first_difference(base: str, head: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(base, head, strict=False))
    start = max(0, sum(1 for _ in same) - 30)
    return f"{base[start : start + 90]!r} -> {head[start : start + 90]!r}"


if __name__ == "__main__":
    raise SystemExit(main())

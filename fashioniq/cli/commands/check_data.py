"""`fashioniq check-data`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from fashioniq.config import CheckData
from fashioniq.data.catalog import SPLITS
from fashioniq.data.catalog_files import categories_in
from fashioniq.features.store import FeatureStore, features_folder
from fashioniq.files import UserError, plain, why, write_json
from fashioniq.prepare.checking import check_folder
from fashioniq.prepare.checking_conversations import check_of
from fashioniq.prepare.findings import Findings
from fashioniq.report.tables import print_table

EXAMPLES, LENGTH = 3, 110  # examples shown per finding, and characters per example
MISTAKES = 50  # lines printed about a folder of conversations


class Checked(NamedTuple):
    """Findings by category and kind, as in the file of --report; `failed` if there are any."""

    failed: bool
    findings: dict[str, Any]


def run(settings: CheckData) -> Checked:
    """Check the folder, print the findings and return them.

    Raises UserError if the folder is unusable.
    """
    check, pictures = check_of(settings.data), settings.images or settings.data / "images"
    for folder in (settings.data,) if check else (settings.data, pictures):
        if settings.report and _inside(settings.report, folder):
            raise UserError(
                f"--report {settings.report} is inside {folder}, which is not modified: give a path elsewhere"
            )
    if check:
        return _print_mistakes(settings, check)
    categories = check_folder(settings.data, settings.category, settings.images, settings.workers, _watch)
    known = categories_in(settings.data)  # the others are findings of the folder itself
    for name, found in categories.items():
        if name in known:
            _check_store(features_folder(settings.data, name, None), found)
        _print_findings(name, found)
    findings = {name: asdict(found) for name, found in categories.items()}
    if settings.report:
        write_json(settings.report, {"data": str(settings.data), "images": str(pictures)} | findings)
        print(f"all examples are in {settings.report}")
    if unusable := [found.unusable for found in categories.values() if found.unusable]:
        raise UserError(f"{settings.data} is unusable: {'; '.join(unusable)}")
    counts = {name: len(found.findings) for name, found in categories.items() if found.findings}
    total = sum(counts.values())
    print(
        f"{total} {'finding' if total == 1 else 'findings'} in {', '.join(counts)}"
        if counts
        else f"{settings.data} is clean"
    )
    return Checked(bool(counts), findings)


def _print_mistakes(settings: CheckData, check: Callable[[Path], Sequence[str]]) -> Checked:
    """Print a line for each mistake that `check` finds in a folder, at most MISTAKES; --report has all."""
    mistakes = check(settings.data)
    for mistake in mistakes[:MISTAKES]:
        print(plain(f"  finding: {mistake}"))
    if len(mistakes) > MISTAKES:
        print(f"  {len(mistakes) - MISTAKES:,} more findings; --report FILE.json writes all of them")
    found = {"data": str(settings.data), "findings": mistakes}
    if settings.report:
        write_json(settings.report, found)
        print(f"all findings are in {settings.report}")
    count = f"{len(mistakes):,} {'finding' if len(mistakes) == 1 else 'findings'} in {settings.data}"
    print(count if mistakes else f"{settings.data} is clean")
    return Checked(bool(mistakes), found)


def _check_store(root: Path, found: Findings) -> None:
    """Find damage in the feature store of a category, if there is one; reads all its files."""
    if not (root / "store.json").exists():
        return
    try:
        store = FeatureStore(root)
        store.verify()
    except UserError as error:
        found.found("feature stores that are damaged", str(error))
        return
    if store.has_random_weights:
        found.found("feature stores of an encoder with random weights", str(root))
    if same := store.duplicates():
        found.found("feature stores with equal vectors", f"{root}: {same} products have that of another one")


def _inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError) as error:  # a loop of links
        raise UserError(f"cannot write {path}: {why(error)}") from error


def _watch(things: Iterable[Any], total: int, category: str) -> Iterable[Any]:
    console = Console(stderr=True)
    return track(
        things,
        f"pictures of {category}",
        total,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _print_findings(name: str, found: Findings) -> None:
    """Print the counts of a category, then a line for each kind of finding and note."""
    if found.counts:
        rows = [
            [
                what,
                *("–" if count is None else str(count) for count in counts),
                *[""] * (len(SPLITS) - len(counts)),
                "as released" if found.released.get(what) == counts else "",
            ]
            for what, counts in found.counts.items()
        ]
        print_table([name, *SPLITS, ""], rows)
    elif found.findings or found.notes:
        print(name)
    for kind, examples in found.findings.items():
        shown = [
            example if len(example) <= LENGTH else example[: LENGTH - 1] + "…"
            for example in examples[:EXAMPLES]
        ]
        more = "; …" if len(examples) > EXAMPLES else ""
        print(plain(f"  finding: {kind}: {len(examples)} ({'; '.join(shown)}{more})"))
    for kind, examples in found.notes.items():
        print(plain(f"  note: {kind}: {len(examples)}"))

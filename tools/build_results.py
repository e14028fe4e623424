"""Render docs/results.md and docs/results/ from the run files in results/; with --check compare them only, and exit
with code 1 if a page is out of date.

    python tools/build_results.py [--check]
"""

import argparse
import sys
from pathlib import Path

from pages import MARK, overview_page, overview_plot, study_page
from studies import read_studies

from fashioniq.files import UserError, write_text

ROOT = Path(__file__).resolve().parents[1]
OVERVIEW = "overview.md"


def build(results: Path, docs: Path, check: bool = False) -> int:
    """Write or check the pages; return the exit code. Raises UserError for a damaged study."""
    pages = _pages(results, docs)
    obsolete = {
        path for path in (docs / "results").glob("*.md") if path not in pages and _is_generated(path)
    }  # pages of removed studies
    if check:
        differing = [
            path
            for path, text in pages.items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        for path in sorted([*differing, *obsolete]):
            print(f"{path} is out of date; run `python tools/build_results.py`")
        return 1 if differing or obsolete else 0
    for path, text in pages.items():
        write_text(path, text)
    for path in obsolete:
        path.unlink()
    print(f"{len(pages)} pages in {docs}")
    return 0


def _is_generated(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(MARK)


def _pages(results: Path, docs: Path) -> dict[Path, str]:
    """Text of each page, by path."""
    studies = read_studies(results)
    template = results / OVERVIEW
    if not template.is_file():
        raise UserError(f"expected the template of the overview in {template}, found no such file; write it")
    folder = docs / "results"
    return {
        docs / "results.md": overview_page(template.read_text(encoding="utf-8"), studies),
        folder / "overview.svg": overview_plot(studies),
        **{folder / f"{study.name}.md": study_page(study) for study in studies},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    try:
        raise SystemExit(build(ROOT / "results", ROOT / "docs", parser.parse_args().check))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error

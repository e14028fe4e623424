"""`fashioniq results`."""

from pathlib import Path

from fashioniq.config import Results
from fashioniq.evaluation.pages import MARK, overview_page, overview_plot, study_page
from fashioniq.evaluation.studies import read_studies
from fashioniq.files import UserError, write_text

OVERVIEW = "overview.md"


def run(settings: Results) -> int:
    """Render the pages from the run files.

    With --check compare them only, and return 1 if one is out of date.
    """
    if settings.action != ["build"]:
        raise UserError(
            f"expected `fashioniq results build`, found {' '.join(settings.action) or 'no action'}; give "
            "build"
        )
    pages = _pages(settings.results, settings.docs)
    # pages of removed studies
    obsolete = {path for path in (settings.docs / "results").glob("*.md") if path not in pages and _is_generated(path)}
    if settings.check:
        differing = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        for path in sorted([*differing, *obsolete]):
            print(f"{path} is out of date; run `fashioniq results build`")
        return 1 if differing or obsolete else 0
    for path, text in pages.items():
        write_text(path, text)
    for path in obsolete:
        path.unlink()
    print(f"{len(pages)} pages in {settings.docs}")
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

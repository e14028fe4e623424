"""`fashioniq results`."""

from pathlib import Path

from fashioniq.config import Results
from fashioniq.evaluation.pages import MARK, overview_page, overview_plot, study_page
from fashioniq.evaluation.studies import read_studies
from fashioniq.files import UserError, write_text

OVERVIEW = "overview.md"


def run(settings: Results) -> int:
    """Render the pages of results from the run files; with --check only compare them, and return 1 where one differs."""
    if settings.action != ["build"]:
        raise UserError(f"expected `fashioniq results build`, found {' '.join(settings.action) or 'no action'}; give build")
    pages = _pages(settings.results, settings.docs)
    stale = {path for path in (settings.docs / "results").glob("*.md") if path not in pages and _is_ours(path)}  # of a study that went
    if settings.check:
        differing = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        for path in sorted([*differing, *stale]):
            print(f"{path} is not what {settings.results} gives: run `fashioniq results build`")
        return 1 if differing or stale else 0
    for path, text in pages.items():
        write_text(path, text)
    for path in stale:
        path.unlink()
    print(f"{len(pages)} pages in {settings.docs}")
    return 0


def _is_ours(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(MARK)


def _pages(results: Path, docs: Path) -> dict[Path, str]:
    """The text of every page."""
    studies = read_studies(results)
    template = results / OVERVIEW
    if not template.is_file():
        raise UserError(f"expected the text of the overview in {template}, found no such file; write it")
    folder = docs / "results"
    return {
        docs / "results.md": overview_page(template.read_text(encoding="utf-8"), studies),
        folder / "overview.svg": overview_plot(studies),
        **{folder / f"{study.name}.md": study_page(study) for study in studies},
    }

"""Run the tutorials of docs/tutorials/, and write what their commands print below them.

    python tools/build_tutorials.py [NAME …]
    python tools/build_tutorials.py --notebooks FOLDER   # write them as notebooks, without running them

A tutorial is Markdown as jupytext reads it: blocks of `bash` and `python` are cells, and a block of `text` after one is
what it printed. Numbers differ between machines, so tests compare the rest. Data come from ../shared/data or
FASHIONIQ_SHARED.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "tutorials"
CATALOG = "myntra"  # real data that a tutorial needs
LIMIT = 900  # seconds of a cell
PRINTED = re.compile(r"\n```text\n(.*?)```\n", re.DOTALL)
CELL = re.compile(r"```(?:bash|python)\n.*?```\n", re.DOTALL)
HEADER = """\
---
jupyter:
  kernelspec:
    name: python3
    display_name: Python 3
    language: python
---

"""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = re.compile(r"[+-]?\d+(?:[.,:]\d+)*")


def notebook(text: str) -> nbformat.NotebookNode:
    """The notebook of a tutorial, without what was printed."""
    return jupytext.reads(HEADER + PRINTED.sub("", text), fmt="md")


def printed(text: str, folder: Path) -> list[str]:
    """What each cell of a tutorial prints, run in a folder. Raises an error if a cell fails."""
    if (shared() / CATALOG).is_dir():
        (folder / CATALOG).symlink_to(shared() / CATALOG)
    os.environ |= {"JUPYTER_RUNTIME_DIR": f"{folder}/.runtime", "IPYTHONDIR": f"{folder}/.ipython"}
    made = notebook(text)
    client = NotebookClient(made, timeout=LIMIT, resources={"metadata": {"path": str(folder)}})
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    client.execute(env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "110"})
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    return [_shown("".join(one.get("text", "") for one in cell.outputs), folder) for cell in cells]


def shared() -> Path:
    """Folder of real data, which may be absent."""
    return Path(os.environ.get("FASHIONIQ_SHARED", ROOT.parent / "shared" / "data")).absolute()


def _shown(output: str, folder: Path) -> str:
    """Output as a reader of a file sees it: without progress, colors and the name of the folder."""
    lines = [CONTROL.sub("", line).rsplit("\r", 1)[-1].rstrip() for line in output.splitlines()]
    return "\n".join(line for line in lines if line and "━" not in line).replace(f"{folder}/", "")


def written(text: str, outputs: list[str]) -> str:
    """The tutorial with these outputs below its cells."""
    left = iter(outputs)

    def with_output(cell: re.Match[str]) -> str:
        output = next(left)
        return cell[0] + (f"\n```text\n{output}\n```\n" if output and "%%writefile" not in cell[0] else "")

    return CELL.sub(with_output, PRINTED.sub("", text))


def without_numbers(text: str) -> str:
    """A tutorial without the figures in its outputs, and the space around them, which differ between machines."""
    return PRINTED.sub(lambda block: re.sub(r"[ ─]+", " ", NUMBER.sub("N", block[0])), text)


def write_notebooks(folder: Path) -> None:
    """Write all tutorials as notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES.glob("*.md"):
        jupytext.write(notebook(page.read_text(encoding="utf-8")), folder / f"{page.stem}.ipynb")


def main() -> None:
    """Run all tutorials, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="tutorials, without .md (default: all)")
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER", help="write notebooks, and run nothing")
    settings = parser.parse_args()
    if settings.notebooks:
        write_notebooks(settings.notebooks)
        return
    for page in sorted(PAGES.glob("*.md")):
        if settings.names and page.stem not in settings.names:
            continue
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(written(text, printed(text, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()

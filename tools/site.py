"""Hooks of the documentation site (mkdocs.yml): pages made of the README and of the options, links to files that are
not on the site, and the notebooks of the tutorials.
"""

import re
import sys
from pathlib import Path
from typing import Any

from fashioniq.cli import parser_of
from fashioniq.config import JOBS

ROOT = Path(__file__).resolve().parents[1]
BOOSTS = {  # who searches for a task is looking neither for figures nor for names of functions
    "reference/how_do_i": 5,
    "tutorials": 2,
    "reference/api": 0.1,
    "reference/commands": 0.2,
    "results": 0.1,
    "notebook": 0.05,
}
sys.path.insert(0, str(ROOT / "tools"))

from build_tutorials import write_notebooks  # noqa: E402


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """Text of a page for the site."""
    name = page.file.src_uri
    boost = next((factor for start, factor in BOOSTS.items() if name.startswith(start)), 1)
    page.meta["search"] = {"boost": boost}
    if name == "index.md":
        markdown = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    if name == "reference/commands.md":
        markdown += "".join(map(_job, JOBS))
    if name.startswith("tutorials/"):
        markdown += f'\n<a href="{Path(name).stem}.ipynb">This page as a notebook</a>\n'
    up = "../" * name.count("/")
    outside = rf"\[([^\]]+)\]\((?:{re.escape(up)}\.\./)?(?:README|CONTRIBUTING|CHANGELOG)\.md[^)]*\)"
    return re.sub(outside, r"\1", markdown.replace("[citation](CITATION.cff)", "citation"))


def on_post_build(config: Any) -> None:
    """Write the notebooks beside their pages."""
    write_notebooks(Path(config.site_dir) / "tutorials")


def _job(job: str) -> str:
    commands = (f"\n### {name}\n\n```text\n{parser_of(name).format_help()}```\n" for name in JOBS[job])
    return f"\n## {job}\n" + "".join(commands)

"""The tutorials, run as notebooks: every command works and prints what the page shows."""

import sys
from pathlib import Path

import pytest

import fashioniq

sys.path.insert(0, str(Path(fashioniq.__file__).parents[1] / "tools"))
build_tutorials = pytest.importorskip("build_tutorials", reason="no jupytext: pip install '.[docs]'")
nbformat = pytest.importorskip("nbformat")

TUTORIALS = sorted(path.stem for path in build_tutorials.PAGES.glob("*.md"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_it_shows(name, tmp_path):
    text = (build_tutorials.PAGES / f"{name}.md").read_text(encoding="utf-8")
    if "import-catalog" in text and not (build_tutorials.shared() / build_tutorials.CATALOG).is_dir():
        pytest.skip(f"no real data at {build_tutorials.shared()}; FASHIONIQ_SHARED names another folder")
    made = build_tutorials.written(text, build_tutorials.printed(text, tmp_path))
    assert build_tutorials.without_numbers(made) == build_tutorials.without_numbers(text)


def test_the_notebooks_have_all_cells_of_the_tutorials_and_no_output(tmp_path):
    build_tutorials.write_notebooks(tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.ipynb")) == TUTORIALS
    for name in TUTORIALS:
        made = nbformat.read(tmp_path / f"{name}.ipynb", 4)
        cells = [cell for cell in made.cells if cell.cell_type == "code"]
        text = (build_tutorials.PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert len(cells) == len(build_tutorials.CELL.findall(text)) and not any(
            cell.outputs for cell in cells
        )

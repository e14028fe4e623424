"""The functions of the package: each command with its options as arguments, and what a reader can try in docstrings."""

import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fashioniq
from fashioniq import config
from fashioniq.config import COMMANDS
from fashioniq.config.parser import settings_of
from fashioniq.files import UserError
from fashioniq.models.configs import RetrieverConfig
from tests.waiting import LIMIT

ROOT = Path(fashioniq.__file__).parents[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_a_function_with_its_options(command):
    function = getattr(fashioniq, command.replace("-", "_"))
    assert function.__name__ in dir(fashioniq)
    assert inspect.signature(function).parameters == inspect.signature(COMMANDS[command]).parameters
    assert function.__doc__.startswith(inspect.getdoc(COMMANDS[command]))


def test_the_types_of_the_functions_find_mistakes(tmp_path):
    (tmp_path / "use.py").write_text(
        "import fashioniq\n"
        "fashioniq.train_retriever(category='dresses', data='shop', model={'width': 64}).folder\n"
        "fashioniq.train_retriever(category='dresses', epochs='3')\n"
        "fashioniq.train_captioner()\n"
        "fashioniq.serach()\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=skip", "--no-error-summary"]
    files = [str(tmp_path / "use.py"), str(ROOT / "fashioniq" / "__init__.pyi")]
    done = subprocess.run(
        [*mypy, "--cache-dir", str(tmp_path), *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    found = [line.split(":")[1] for line in done.stdout.splitlines() if ": error: " in line]
    assert found == ["3", "4", "5"], done.stdout


def test_paths_may_be_texts_and_sections_mappings_or_dataclasses():
    settings = settings_of(
        config.TrainRetriever, {"category": "tops", "data": "shop", "model": {"width": 64}}
    )
    assert settings == config.TrainRetriever(
        category="tops", data=Path("shop"), model=RetrieverConfig(width=64)
    )
    assert settings == settings_of(
        config.TrainRetriever, {"category": "tops", "data": Path("shop"), "model": RetrieverConfig(width=64)}
    )


def test_a_mistake_is_refused_before_anything_is_read():
    with pytest.raises(TypeError, match="unknown option epoks; did you mean epochs"):
        fashioniq.train_retriever(category="dresses", epoks=3)
    with pytest.raises(TypeError, match="category"):
        fashioniq.train_retriever()
    with pytest.raises(UserError, match=r"epochs: expected a whole number, found 1\.5"):
        fashioniq.train_retriever(category="dresses", epochs=1.5)
    with pytest.raises(UserError, match=r"--turns is 0: it must be at least 1"):
        fashioniq.eval_dialogs(category="dresses", run="run", turns=0)
    with pytest.raises(UserError, match="there is no system nowhere"):
        fashioniq.eval_dialogs(system="nowhere")
    with pytest.raises(AttributeError, match="train_nothing"):
        fashioniq.train_nothing  # noqa: B018


def test_a_script_that_decodes_pictures_in_processes_runs_once(tmp_path):
    (tmp_path / "use.py").write_text(
        "import fashioniq\n"
        "print('begun')\n"
        "fashioniq.draw_sample(data='shop', products=60)\n"
        "options = {'encoder': 'test_resnet', 'weights': 'none', 'device': 'cpu'}\n"
        "fashioniq.extract_features(data='shop', category='dresses', workers=1, **options)\n"
    )
    run = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("begun") == 1 and "60 of 60 products" in run.stdout


def test_a_command_returns_what_it_made_with_its_command_line(vector_runs, tmp_path):
    shop = {"data": str(vector_runs.catalog), "category": "dresses", "features": vector_runs.store}
    trained = fashioniq.train_retriever(**shop, epochs=0, run=tmp_path / "run")
    assert trained.folder == tmp_path / "run" and trained.about.model == "linear"
    line = trained.about.provenance.command
    assert line.startswith(f"fashioniq train-retriever --data {vector_runs.catalog} --category dresses")
    (metrics,) = fashioniq.eval_dialogs(
        **shop, run=trained.folder, user=["differences"], out=tmp_path / "out"
    )
    assert metrics.facts.category == "dresses" and (tmp_path / "out" / "report.html").is_file()
    assert fashioniq.search(run=trained.folder, text="is red", count=3)[0].id.startswith("D")


WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "fashioniq").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_docstrings_run(name, vector_runs, tmp_path, monkeypatch):
    (tmp_path / "demo" / "runs").mkdir(parents=True)
    (tmp_path / "demo" / "runs" / "retriever").symlink_to(vector_runs.retriever)
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed

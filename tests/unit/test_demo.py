"""The steps of `make demo`."""

import importlib.util
import re
from pathlib import Path

import pytest

from fashioniq import config
from fashioniq.cli import parse

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(monkeypatch, tmp_path):
    """run_demo.py, whose folder demo/ would be made in tmp_path."""
    spec = importlib.util.spec_from_file_location("run_demo", ROOT / "run_demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    return module


def test_every_step_is_a_command_whose_settings_are_valid(demo, monkeypatch):
    monkeypatch.chdir(ROOT)
    for _, _, command in demo.STEPS:
        name, *arguments = command.split()
        config.check(parse(name, arguments))


def test_every_step_is_announced_with_its_number_and_time_before_it_runs(demo, monkeypatch, capsys):
    announced = []
    monkeypatch.setattr(demo, "main", lambda arguments: announced.append(capsys.readouterr().out) or 0)
    assert demo.run() == 0
    for number, (out, (what, time, command)) in enumerate(zip(announced, demo.STEPS, strict=True), 1):
        assert re.search(
            rf"\[{number}/7\] {re.escape(what)} \(about {time}\): fashioniq {re.escape(command)}\n$", out
        )


def test_the_demo_starts_from_nothing_and_stops_at_the_first_step_that_fails(demo, monkeypatch, tmp_path):
    (tmp_path / "demo/runs").mkdir(parents=True)
    run = []
    monkeypatch.setattr(
        demo, "main", lambda arguments: run.append(arguments[0]) or (2 if len(run) == 3 else 0)
    )
    assert demo.run() == 2 and len(run) == 3
    assert not (tmp_path / "demo").exists()

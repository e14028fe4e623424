"""The documentation site: it is built without a warning, and has every command and the public names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fashioniq
from fashioniq.cli import COMMANDS
from tests.waiting import LIMIT

pytest.importorskip("mkdocstrings", reason="no mkdocs: pip install '.[docs]'")
ROOT = Path(fashioniq.__file__).parents[1]


def test_the_site_is_built_without_a_warning(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    commands = (tmp_path / "site/reference/commands.html").read_text()
    assert all(f"usage: fashioniq {name} " in commands for name in COMMANDS)
    api = (tmp_path / "site/reference/api.html").read_text()
    for name in ("systems.load", "loop.rollout.System", "loop.dialog.Dialog.say", "loop.messages.Message"):
        assert f'id="fashioniq.{name}"' in api
    start = (tmp_path / "site/index.html").read_text()
    assert "fashioniq demo" in start and "conversation-1.jpg" in start

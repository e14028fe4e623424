"""A result says where it comes from, with git or without."""

import json
import subprocess
from datetime import datetime

import msgspec
import pytest

from fashioniq import provenance as module
from fashioniq.provenance import Provenance, git_commit, provenance, restart_clock, running
from tests.waiting import LIMIT

KEYS = ["command", "version", "commit", "data", "machine", "seconds", "peak_gb", "date"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git repository with one commit that stands for this one."""
    for words in (
        ["init", "-q"],
        ["add", "code.py"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        (tmp_path / "code.py").write_text("1\n")
        try:
            subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True, timeout=LIMIT)
        except FileNotFoundError:
            pytest.skip("git is not installed")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    git_commit.cache_clear()
    yield tmp_path
    git_commit.cache_clear()


def test_provenance_is_small_json_with_these_keys():
    with running(["fashioniq", "train-captioner", "--run", "my runs/a"]):
        made = msgspec.to_builtins(provenance({"dresses": "0123456789abcdef"}))
    assert list(json.loads(json.dumps(made))) == KEYS and len(json.dumps(made)) < 1000
    assert made["command"] == "fashioniq train-captioner --run 'my runs/a'" and made["data"] == {
        "dresses": "0123456789abcdef"
    }
    assert set(made["machine"]) == {"cpu", "cores", "threads", "gpu", "platform", "python", "torch"}
    assert datetime.fromisoformat(made["date"]).utcoffset().total_seconds() == 0
    assert made["seconds"]["wall"] >= 0 and made["seconds"]["cpu"] >= 0


def test_seconds_of_interrupted_processes_are_added():
    with running(["fashioniq"]):
        made = provenance({}, earlier={"wall": 1000.0, "cpu": 500.0})
    assert 1000 <= made.seconds["wall"] < 2000 and 500 <= made.seconds["cpu"] < 1500


def test_the_clock_starts_with_the_command_and_again_for_another_result(monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with running(["fashioniq"]):
        now = 130.0
        assert provenance({}).seconds["wall"] == 30.0
        restart_clock()
        now = 140.0
        assert provenance({}).seconds["wall"] == 10.0


def test_the_provenance_of_an_evaluated_retriever_is_kept():
    assert provenance({}, retriever=Provenance(version="0.1.0")).retriever == Provenance(version="0.1.0")
    assert "retriever" not in msgspec.to_builtins(provenance({}, retriever=None))


def test_the_commit_is_that_of_the_checkout(checkout):
    head = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=LIMIT
    ).stdout.strip()
    assert git_commit() == head and len(head) == 40


def test_an_edited_file_makes_the_commit_dirty(checkout):
    (checkout / "code.py").write_text("2\n")
    assert git_commit().endswith("-dirty")


def test_git_hooks_do_not_change_the_commit(checkout, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert git_commit() is not None


def test_there_is_no_commit_outside_a_checkout(checkout, monkeypatch):
    monkeypatch.setattr(module, "ROOT", checkout / "site-packages")
    assert git_commit() is None


@pytest.mark.parametrize(
    "failure", [FileNotFoundError, PermissionError, subprocess.TimeoutExpired(["git"], 1)]
)
def test_a_git_that_does_not_run_fails_nothing(failure, checkout, monkeypatch):
    def run(*_, **__):
        raise failure

    monkeypatch.setattr(module.subprocess, "run", run)
    assert git_commit() is None

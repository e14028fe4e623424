"""The check at the end of the tests finds what they leave behind."""

import os
import signal
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from tests import leftovers


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE", 0.1)
    monkeypatch.delenv("CI", raising=False)


def test_a_process_is_found_also_if_its_parent_has_ended():
    start = (
        "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=-3).pid)"
    )
    done = subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE, timeout=60)
    number = int(done.stdout)
    try:
        assert leftovers.processes()[number].startswith("sleep 600")
        assert any(line.startswith(f"process {number}: sleep") for line in leftovers.left(leftovers.places()))
    finally:
        os.kill(number, signal.SIGKILL)


def test_shared_memory_is_found_unless_a_process_uses_it():
    before = leftovers.places()
    path = Path("/dev/shm", f"fashioniq-test-{os.getpid()}")
    path.write_bytes(b"left")
    try:
        assert f"file {path}" in leftovers.left(before)
    finally:
        path.unlink()
    used = shared_memory.SharedMemory(create=True, size=100)
    try:
        assert f"file /dev/shm/{used.name}" not in leftovers.left(before)
    finally:
        used.close()
        used.unlink()


def test_files_count_where_the_machine_is_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(leftovers, "places", lambda: set(tmp_path.iterdir()))
    (tmp_path / "left").touch()
    monkeypatch.setenv("CI", "true")
    assert f"file {tmp_path / 'left'}" in leftovers.left(set())
    monkeypatch.delenv("CI")
    assert f"file {tmp_path / 'left'}" not in leftovers.left(set())

"""Extraction by Ray workers makes the store that one process makes, also if a worker or the command is killed."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.images import load_square
from fashioniq.features import pictures as sources, writer as filling
from tests.waiting import ended

pytest.importorskip("ray.data", reason="no Ray: pip install '.[scale]'")
from fashioniq.features import ray_workers

CLUSTER = """
import sys
from ray.cluster_utils import Cluster

node = dict(num_cpus=2, object_store_memory=80_000_000, include_dashboard=False, temp_dir=sys.argv[1])
print(Cluster(initialize_head=True, head_node_args=node).address, flush=True)
sys.stdin.read()
"""
ATTEMPTS, START = 4, 60.0  # Ray gives up after 30 seconds, which are too few on a busy machine


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(filling, "PART", 16)


@pytest.fixture
def cluster(monkeypatch, tmp_path_factory):
    """A Ray cluster of two workers for the commands of this test; it ends with its standard input."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # otherwise, Ray writes one to the home folder
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "1000")  # a busy machine is no dead one
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # the paths of sockets must be short
    (folder / "ray").mkdir()  # the address of the cluster is written to this folder of RAY_TMPDIR
    try:
        for _ in range(ATTEMPTS):
            with started(CLUSTER, folder) as (address, reason):
                if address:
                    monkeypatch.setenv("RAY_ADDRESS", address)
                    yield
                    return
        raise AssertionError(f"no Ray cluster after {ATTEMPTS} attempts: {reason}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(code, folder):
    """Run a cluster; yield its address, or "" and the reason if there is none. All its processes are killed."""
    log = folder / "errors"
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "RAY_TMPDIR": str(folder)},
        )
    try:
        answered, until = [], time.monotonic() + START
        while not answered and process.poll() is None and time.monotonic() < until:
            answered = select.select([process.stdout], [], [], 0.1)[0]
        address = process.stdout.readline().strip() if answered else ""
        yield address, log.read_text()[-2000:] or f"no address after {START:.0f} s"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=START)


def is_running(number):
    """Whether a process still runs: one that is gone before or while its state is read does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_cluster_that_fails_is_stopped_and_its_reason_is_reported(tmp_path, wait_until):
    code = "import subprocess, sys; left = subprocess.Popen(['sleep', '600']); sys.exit(f'no memory for {left.pid}')"
    with started(code, tmp_path) as (address, reason):
        assert address == "" and reason.startswith("no memory for ")
        left = reason.split()[-1]
        assert is_running(left)
    wait_until(lambda: not is_running(left), lambda: True)


@pytest.fixture
def catalog(sample, tmp_path):
    """A copy of the sample with a damaged picture, and without another one."""
    folder = shutil.copytree(
        sample, tmp_path / "catalog", ignore=lambda folder, names: {"features"} & set(names)
    )
    damaged, missing, *_ = sorted((folder / "images/dress").iterdir())
    damaged.write_bytes(b"<html>404</html>")
    missing.unlink()
    return folder


@pytest.fixture
def command(catalog, project):
    def command(store, **options):
        common = {"data": catalog, "category": "dresses", "features": catalog / store, "batch_size": 5}
        return project.arguments("extract-features", **{**common, **project.pictures, **options})

    return command


def content(store):
    return {path.name: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_killed_command_and_a_killed_worker_change_no_byte(catalog, command, cluster, forked, monkeypatch):
    assert main(command("local")) == 0
    victim = sorted((catalog / "images/dress").iterdir())[-1].stem

    def run(die_before):
        replace = os.replace

        def replace_or_die(old, new):
            if os.path.basename(new) == die_before:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(old, new)

        os.replace = replace_or_die
        sys.exit(main(command("ray", engine="ray")))

    def load_or_die(path, size):
        if path.stem == victim and not (catalog / "killed").exists():
            (catalog / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)  # the worker, because --workers is 0
        return load_square(path, size)

    stopped = forked(run, "000001.npz")
    assert ended(stopped) == -signal.SIGKILL
    assert [path.name for path in (catalog / "ray/parts").glob("0*.npz")] == ["000000.npz"]
    monkeypatch.setattr(sources, "load_square", load_or_die)
    resumed = forked(run, "")
    assert ended(resumed) == 0 and (catalog / "killed").exists()
    assert content(catalog / "ray") == content(catalog / "local")


class InProcess(list):
    """Stands for a dataset of Ray: what its workers would do is done in this process."""

    def map(self, worker, fn_constructor_args, **options):
        call = worker(*fn_constructor_args)
        return InProcess(map(call, self))

    def __getattr__(self, name):
        return SimpleNamespace(execution_options=SimpleNamespace())

    def iter_rows(self):
        return iter(self)


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(ray_workers, "_cluster", lambda: nullcontext({"CPU": 2.0}))
    monkeypatch.setattr(ray_workers.ray.data, "from_items", lambda parts, **options: InProcess(parts))


@pytest.fixture
def refused(command, capsys):
    """Run an extraction that fails at a mistake of the user; return the one line of its error."""

    def refused(**options):
        capsys.readouterr()
        assert main(command("refused", **options)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refused


def test_pictures_of_an_archive_make_the_same_store(catalog, command, in_process):
    with ZipFile(catalog / "pictures.zip", "w") as archive:
        archive.writestr("read me.txt", "pictures")
        for path in (catalog / "images/dress").iterdir():
            archive.write(path, f"photos/{path.name}")
    assert (
        main(command("local")) == main(command("ray", engine="ray", pictures=catalog / "pictures.zip")) == 0
    )
    assert content(catalog / "ray") == content(catalog / "local")


def test_pictures_at_addresses_make_the_same_store_as_downloaded_ones(
    catalog, command, project, in_process, http_server
):
    images = {f"/{path.name}": path.read_bytes() for path in (catalog / "images/dress").iterdir()}

    def answer(handler):
        found = images.get(handler.path)
        handler.send_response(200 if found else 404)
        handler.send_header("Content-Length", str(len(found or b"")))
        handler.end_headers()
        handler.wfile.write(found or b"")

    server, listed = http_server(answer), catalog / "asin2url.dress.txt"
    ids = Catalog(catalog, "dresses").all_ids()
    others = sorted(ids)[:-1]
    listed.write_text("".join(f"{name}\t{server.address}/{name}.jpg\n" for name in others))
    shutil.rmtree(catalog / "images/dress")
    assert main(command("ray", engine="ray", pictures=listed)) == 0
    project.run("download-images", data=catalog, category="dresses")
    assert main(command("local")) == 0
    assert content(catalog / "ray") == content(catalog / "local")
    failures = json.loads((catalog / "ray/store.json").read_text())["failures"]
    assert sorted(failures.values()) == [
        "no picture (broken: HTML instead of a picture)",
        "no picture (dead: 404)",
        "no picture (no address)",
    ]


def test_mistakes_are_reported_in_one_line(catalog, refused, in_process, monkeypatch):
    (catalog / "broken.zip").write_bytes(b"PK")
    assert "broken.zip is damaged" in refused(engine="ray", pictures=catalog / "broken.zip")
    assert "--pictures needs --engine ray" in refused(pictures=catalog / "broken.zip")
    assert "cannot be combined with --encoder metadata" in refused(engine="ray", encoder="metadata")
    monkeypatch.setattr(ray_workers, "_cluster", lambda: nullcontext({}))
    assert "the Ray cluster has no CPU" in refused(engine="ray")


def test_a_cluster_that_does_not_answer_is_reported_in_one_line(refused, monkeypatch):
    for address, reason in (("127.0.0.1:1", "refused"), ("127.0.0.1:one", "invalid literal")):
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert refused(engine="ray").startswith("error: no connection to Ray (") and reason in refused(
            engine="ray"
        )


def test_a_picture_that_disappears_stops_the_run(catalog, refused, in_process, monkeypatch):
    def load_or_lose(path, size):
        if path.stem.endswith("9"):
            path.unlink()
        return load_square(path, size)

    monkeypatch.setattr(sources, "load_square", load_or_lose)
    assert "disappeared during the run" in refused(engine="ray")

"""What is released: the wheel, made of the source distribution, in an environment without this folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

import fashioniq
from fashioniq.cli import parse
from tests.waiting import LIMIT, ended, joined

pytest.importorskip("build", reason="no build: pip install '.[dev]'")
ROOT = Path(fashioniq.__file__).parents[1]
SOURCES = ("fashioniq", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in")


def ran(*command, **options):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True, timeout=LIMIT, **options
    )


@pytest.fixture(scope="module")
def wheel(once):
    """The wheel of a copy of this folder."""

    def make(folder):
        source = folder / "source"
        source.mkdir()
        for name in SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, source / name)
        for cache in source.rglob("__pycache__"):
            shutil.rmtree(cache)
        ran(sys.executable, "-m", "build", "--no-isolation", source, "--outdir", folder / "dist")
        return next((folder / "dist").glob("*.whl"))

    return once("wheel", make)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Run `fashioniq` of the wheel, in an environment with the libraries of this one, but not this folder."""
    root = tmp_path_factory.mktemp("installed")
    ran(sys.executable, "-m", "venv", "--without-pip", root / "venv")
    python = root / "venv" / "bin" / "python"
    libraries = {sysconfig.get_path("purelib"), str(Path(httpx.__file__).parents[1])}
    site = next((root / "venv").glob("lib/python*/site-packages"))
    (site / "libraries.pth").write_text("\n".join(sorted(libraries)))  # their .pth files are not read
    pip = "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--disable-pip-version-check"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # pip asks rustc for its version, whose launcher would otherwise make ~/.rustup
    ran(sys.executable, *pip, wheel, env={**environment, "RUSTUP_HOME": str(root / "rustup")})

    def run(*arguments):
        return ran(python.parent / "fashioniq", *arguments, cwd=root, env=environment).stdout

    run.folder, run.python, run.environment = root, python, environment
    return run


def test_the_wheel_is_small_and_has_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("fashioniq/")}
    package = ROOT / "fashioniq"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {path.relative_to(ROOT).as_posix() for path in files}
    assert wheel.stat().st_size < 5e6


def test_the_wheel_searches_serves_and_trains(installed, wait_until):
    assert installed("--version").strip() == fashioniq.__version__
    where = ran(installed.python, "-c", "import fashioniq; print(fashioniq.__file__)", cwd=installed.folder)
    assert Path(where.stdout.strip()).is_relative_to(installed.folder)
    out = installed.folder / "out.txt"
    with out.open("w") as written:
        demo = subprocess.Popen(
            [installed.python.parent / "fashioniq", "demo"],
            cwd=installed.folder, env={**installed.environment, "DISPLAY": ""}, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        wait_until(lambda: "Ctrl-C" in out.read_text(), lambda: demo.poll() is None)
        address = re.search(r"http://\S+/shop", out.read_text())[0]
        page = httpx.get(f"{address}/dresses", timeout=LIMIT)
        assert page.status_code == 200 and page.text.count("<img") >= 8
    finally:
        demo.terminate()
        ended(demo)
    found = installed("search", "--run", "fashioniq-demo/run", "--text", "red and longer")
    assert "Maxi Dress" in found
    installed("train-retriever", "--data", "fashioniq-demo/catalog", "--category", "dresses", "--run", "linear",
              "--model.kind", "linear", "--epochs", "0")  # fmt: skip
    assert "D0000" in installed("search", "--run", "linear", "--text", "is red")


def test_the_image_of_the_service_copies_what_is_there_and_starts_a_command():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    for copied in re.findall(r"^COPY (.+) \S+$", text, re.M):
        assert all((ROOT / name).exists() for name in copied.split())
    command, name, *arguments = json.loads(re.search(r"^ENTRYPOINT (.+)$", text, re.M)[1])
    assert command == "fashioniq" and parse(name, [*arguments, "--run", "runs/retriever"]).host == "0.0.0.0"
    assert "/readyz" in re.search(r"^HEALTHCHECK .+$", text, re.M)[0]
    extras = re.search(r"/src\[(.+)\]", text)[1].split(",")
    assert all(re.search(rf"^{one} =", (ROOT / "setup.cfg").read_text(), re.M) for one in extras)


def test_docker_is_sent_what_the_image_copies_and_no_data_or_database():
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    _, everything, *lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert everything == "*" and sent == " ".join(copied).split()


def test_the_health_check_asks_the_service_and_no_proxy(monkeypatch):
    """The configuration of Docker may give all containers a proxy."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    _, _, check = json.loads(re.search(r"^HEALTHCHECK .+CMD (.+)$", text, re.M)[1])
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        exec(check.replace(":8000", f":{server.server_port}"))
        joined(thread)


class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()


def test_the_version_is_the_same_everywhere():
    assert f"version: {fashioniq.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {fashioniq.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()

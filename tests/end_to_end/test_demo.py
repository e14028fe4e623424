"""`fashioniq demo`: the run that the package carries agrees with the code that draws its catalog, and is served."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path

import httpx
import numpy as np
import pytest

import fashioniq
from fashioniq.cli import main
from fashioniq.cli.commands import demo
from fashioniq.config import Serve
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.features.store import open_store
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.checks import verify_run
from fashioniq.sample.shop import CATEGORY, PACKED, PRODUCTS, make_shop
from tests.waiting import LIMIT, ended


@pytest.fixture(scope="module")
def shop(once):
    """Folder of a shop."""
    return once("demo-shop", make_shop).parent


def test_the_package_carries_a_whole_run_of_two_megabytes(shop):
    assert sum(path.stat().st_size for path in PACKED.rglob("*") if path.is_file()) < 2e6
    verify_run(shop / "run", read_run(shop / "run", RetrieverRun))
    open_store(shop / "catalog", CATEGORY, None).verify()


def test_its_features_are_those_of_the_drawn_pictures(shop):
    catalog, store = Catalog(shop / "catalog", CATEGORY), open_store(shop / "catalog", CATEGORY, None)
    assert (
        set(store.ids) == {name for split in SPLITS for name in catalog.ids(split)}
        and len(store.ids) == PRODUCTS
    )
    predicted = np.load(store.root / "attributes.npy")
    words = ["", *store.attribute_words]
    true = [len({words[one] for one in row} & {label for family in catalog.labels[name] for label in family})
            for name, row in zip(store.ids, predicted, strict=True)]  # fmt: skip
    chance = [len({words[one] for one in row} & {label for family in catalog.labels[name] for label in family})
              for name, row in zip(store.ids, predicted[::-1], strict=True)]  # fmt: skip
    assert np.mean(true) > 4 > 1.3 * np.mean(chance)


def test_it_finds_what_the_demo_says(shop):
    system = fashioniq.load(shop / "run", split="all")
    labels = Catalog(shop / "catalog", CATEGORY).labels
    dialog = system.dialog().say("red and longer").say("without a belt")
    found = [{label for family in labels[one.id] for label in family} for one in dialog.products(8)]
    assert all("red" in one and "belt" not in one for one in found)
    assert sum("maxi" in one for one in found) >= 6
    blind = fashioniq.load(shop / "run", split="all", words=False)  # by the pictures alone
    red = ["red" in chain(*labels[one.id]) for one in blind.dialog().say("is red").products(8)]
    assert sum(red) >= 5


@pytest.fixture
def started(forked_command, wait_until, tmp_path):
    """Start the demo as a process; returns it and what it prints."""
    processes = []

    def start(folder, **environment):
        out = tmp_path / "out.txt"
        with open(os.devnull) as none, out.open("w") as written:
            streams = none.fileno(), written.fileno(), written.fileno()
            processes.append(forked_command(["demo", "--folder", folder], streams, **environment))
        wait_until(lambda: "your own catalog" in out.read_text(), processes[-1].is_alive)
        return processes[-1], out.read_text()

    yield start
    for process in processes:
        if process.is_alive():
            process.kill()
            ended(process)


def test_it_shows_the_page_in_a_browser_and_ends_with_ctrl_c(started, tmp_path, wait_until):
    (tmp_path / "browser").write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    (tmp_path / "browser").chmod(0o755)
    before = {path: path.stat().st_mtime_ns for path in PACKED.rglob("*")}
    process, printed = started(tmp_path / "shop", DISPLAY=":0", BROWSER=str(tmp_path / "browser"))
    address = re.search(r"http://\S+/shop", printed)[0]
    page = httpx.get(address, follow_redirects=True, timeout=60)
    assert page.status_code == 200 and "dresses" in page.text
    wait_until((tmp_path / "opened").exists, process.is_alive)
    wait_until(lambda: (tmp_path / "opened").read_text().strip() == address, process.is_alive)
    os.kill(process.pid, signal.SIGINT)
    ended(process)
    assert process.exitcode == 0
    assert before == {path: path.stat().st_mtime_ns for path in PACKED.rglob("*")}  # it may be read-only
    process, _ = started(tmp_path / "shop")  # again, in the same folder
    assert process.is_alive()


def test_it_takes_another_port_if_that_of_the_service_is_taken(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(Serve, "port", other.getsockname()[1])
        assert demo._port() == 0
    assert demo._port() == Serve.port


def test_a_read_only_package_can_be_copied_again_and_again(tmp_path, monkeypatch):
    shutil.copytree(PACKED, tmp_path / "packed")
    for path in (tmp_path / "packed").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setattr("fashioniq.sample.shop.PACKED", tmp_path / "packed")
    for _ in range(2):
        run = make_shop(tmp_path / "shop")
    assert os.stat(run / "weights.safetensors").st_mode & 0o200 and os.stat(run).st_mode & 0o200


def test_a_folder_with_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "shop" / "catalog").mkdir(parents=True)
    (tmp_path / "shop" / "catalog" / "mine.txt").write_text("mine")
    assert main(["demo", "--folder", str(tmp_path / "shop")]) == 2
    assert "contains something other than a drawn sample" in capsys.readouterr().err
    assert [path.name for path in Path(tmp_path / "shop" / "catalog").iterdir()] == ["mine.txt"]


def test_search_and_the_service_start_without_libraries_that_they_do_not_need(shop):
    """They would take longer to import than all the rest: 2 s of search, 4 s of the service."""
    code = """
import sys
from fashioniq.cli import main
main(["search", "--run", sys.argv[1], "--text", "red", "--json"])
import fashioniq.prepare.pairing, fashioniq.sample.shop, fashioniq.service.api, fashioniq.service.uploads
fashioniq.prepare.pairing.reference_pairs(["a red dress", "a blue dress"])
slow = {"sklearn", "pandas", "scipy.stats", "timm", "torchvision", "pytorch_lightning", "transformers", "gensim"}
sys.exit(", ".join(slow & sys.modules.keys()) or 0)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, shop / "run"], capture_output=True, text=True, timeout=LIMIT
    )
    assert ran.returncode == 0, ran.stderr

"""An import as its user runs it: over HTTP, and killed at any moment."""

import csv
import io
import json
import os
import signal
import threading
import typing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.prepare import atomic_folder
from tests.waiting import LIMIT, ended

COLOURS = ("red", "navy blue", "white", "green")
PRODUCTS = 40


def picture(number):
    content = io.BytesIO()
    Image.new("RGB", (40, 40), (number * 6 % 256, 0, 0)).save(content, "JPEG")
    return content.getvalue()


class Shop(BaseHTTPRequestHandler):
    """Serves /<number>.jpg, /broken.jpg; nothing else. Keeps what was asked for; answers the first `answered`
    requests, the others
    when `go_on` is set."""

    asked: typing.ClassVar[list[str]] = []
    answered, go_on = 1000, threading.Event()

    def do_GET(self):
        type(self).asked.append(self.path)
        if len(self.asked) > self.answered:
            self.go_on.wait(LIMIT)
        name = self.path.strip("/").removesuffix(".jpg")
        content = picture(int(name)) if name.isdigit() else b"\xff\xd8 broken" if name == "broken" else None
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """The address of a running Shop, whose counts begin at nothing."""
    Shop.asked, Shop.answered = [], 1000
    Shop.go_on.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.handle_error = lambda *_: None  # the process that asks may be killed
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Shop.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def table(tmp_path):
    """Write a table of 40 shirts with a column of links, and further rows; return its path."""

    def table(link, more=()):
        path = tmp_path / "shop.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sku", "name", "link"])
            writer.writerows(
                [f"s{number}", f"{COLOURS[number % 4]} shirt", link(number)] for number in range(PRODUCTS)
            )
            writer.writerows(more)
        return path

    return table


def command(project, table, out, **other):
    options = {"table": table, "category": "shirts", "id": "sku", "title": "name", "data": out, "workers": 0}
    return project.arguments("import-catalog", **{**options, **other})


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


@pytest.fixture
def kill_when(wait_until, forked):
    """Run a command in a process of its own, and kill it at the moment."""

    def kill_when(arguments, moment):
        process = forked(main, arguments)
        wait_until(moment, process.is_alive)
        process.kill()
        ended(process)

    return kill_when


def test_pictures_of_a_column_of_addresses(project, table, server, tmp_path, capsys):
    more = [["dead", "x", f"{server}/none.jpg"], ["ftp", "x", "ftp://127.0.0.1/1.jpg"], ["file", "x", "file:///etc/passwd"], ["empty", "x", ""],
            ["second", "red shirt", f"{server}/broken.jpg|{server}/7.jpg"], ["broken", "x", f"{server}/broken.jpg"]]  # fmt: skip
    out = tmp_path / "catalog"
    assert main(command(project, table(lambda number: f"{server}/{number}.jpg", more), out, url="link")) == 0
    catalog, printed = Catalog(out, "shirts"), capsys.readouterr().out
    assert (
        len(catalog.images) == PRODUCTS + 1
        and catalog.images["second"].read_bytes() == picture(7) == catalog.images["s7"].read_bytes()
    )
    dropped = {
        entry["id"]: entry["reason"] for entry in json.loads((out / "dropped.json").read_text())["shirts"]
    }
    assert dropped.keys() == {"dead", "ftp", "file", "empty", "broken"}
    assert dropped["dead"].startswith("not downloaded, dead: 404") and dropped["broken"].startswith(
        "not downloaded, broken"
    )
    assert (
        dropped["file"] == "address that is not http or https: file:///etc/passwd"
        and dropped["empty"] == "no address"
    )
    assert (
        "2 × address that is not http or https" in printed
        and f"kept in {tmp_path / 'catalog.downloads' / 'shirt'}" in printed
    )


def test_an_import_killed_while_downloading_goes_on(project, table, server, tmp_path, kill_when):
    path, out = table(lambda number: f"{server}/{number}.jpg"), tmp_path / "catalog"
    downloads = tmp_path / "catalog.downloads" / "shirt"
    Shop.answered = 8
    kill_when(command(project, path, out, url="link"), lambda: len(list(downloads.glob("*.jpg"))) >= 5)
    there = len(list(downloads.glob("*.jpg")))
    assert not out.exists() and there < PRODUCTS
    Shop.answered, Shop.asked = 1000, []
    assert main(command(project, path, out, url="link")) == 0
    assert len(Shop.asked) == PRODUCTS - there
    assert main(command(project, path, tmp_path / "whole", url="link")) == 0
    assert contents(out) == contents(tmp_path / "whole")
    assert not list(tmp_path.glob(".*"))


def test_an_import_killed_while_unpacking_leaves_nothing_to_the_next(project, table, tmp_path):
    (tmp_path / "img").mkdir()
    for number in range(PRODUCTS):
        (tmp_path / "img" / f"s{number}.jpg").write_bytes(picture(number))
    work, out, path = tmp_path / ".catalog.importing", tmp_path / "catalog", table(str)
    (work / "pictures").mkdir(parents=True)
    (work / "pictures" / "s999.jpg").write_bytes(b"half a pict")
    assert main(command(project, path, out, images=tmp_path / "img")) == 0
    assert not list(tmp_path.glob(".*")) and len(Catalog(out, "shirts").images) == PRODUCTS


@pytest.fixture
def shirts(project, table, tmp_path):
    """Command that imports 40 shirts into the folder `catalog`, after it was run."""
    (tmp_path / "img").mkdir()
    for number in range(PRODUCTS):
        (tmp_path / "img" / f"s{number}.jpg").write_bytes(picture(number))
    arguments = command(project, table(str), tmp_path / "catalog", images=tmp_path / "img")
    assert main(arguments) == 0
    return arguments


@pytest.fixture
def killed_at(monkeypatch, forked):
    """Run a command, and kill it before a move from or to a folder; `moment` such moves were done."""

    def killed_at(arguments, out, moment):
        moves = []

        def counted(move):
            def run(self, target):
                if self.is_relative_to(out) or Path(target).is_relative_to(out):
                    if len(moves) == moment:
                        os.kill(os.getpid(), signal.SIGKILL)
                    moves.append(target)
                return move(self, target)

            return run

        with monkeypatch.context() as patch:
            patch.setattr(atomic_folder.Path, "rename", counted(Path.rename))
            patch.setattr(atomic_folder.Path, "replace", counted(Path.replace))
            killed = forked(main, arguments)
        assert ended(killed) == -signal.SIGKILL

    return killed_at


@pytest.mark.parametrize("moment", [0, 7, 14])  # none, some, and all but the last of its moves are done
def test_a_category_whose_move_was_killed_is_taken_back_by_the_next_import(
    shirts, killed_at, tmp_path, moment
):
    out, dresses = tmp_path / "catalog", ["dresses" if one == "shirts" else one for one in shirts]
    before = contents(out)
    killed_at(dresses, out, moment)
    with atomic_folder.staged(out):
        assert contents(out) == before
    assert (
        main(dresses) == 0
        and len(Catalog(out, "dresses").images) == len(Catalog(out, "shirts").images) == PRODUCTS
    )
    assert not list(tmp_path.glob(".*"))


# no move, some of what is replaced, all of it, all but the last
@pytest.mark.parametrize("moment", [0, 9, 13, 27])
def test_a_category_whose_second_import_was_killed_is_as_before(shirts, killed_at, tmp_path, moment):
    out = tmp_path / "catalog"
    before = contents(out)
    (tmp_path / "img" / "s3.jpg").unlink()
    killed_at(shirts, out, moment)
    with atomic_folder.staged(out):
        assert contents(out) == before
    assert main(shirts) == 0 and len(Catalog(out, "shirts").images) == PRODUCTS - 1
    assert not list(tmp_path.glob(".*"))


def test_two_imports_into_one_folder_at_a_time_are_refused(project, table, tmp_path, capsys):
    (tmp_path / "img").mkdir()
    with atomic_folder.staged(tmp_path / "catalog"):
        assert main(command(project, table(str), tmp_path / "catalog", images=tmp_path / "img")) == 2
    assert "another process is writing to" in capsys.readouterr().err


def test_what_cannot_be_captioned_is_told(project, tmp_path, capsys):
    (tmp_path / "img").mkdir()
    for number in range(PRODUCTS):
        (tmp_path / "img" / f"{number}.jpg").write_bytes(picture(number))
    assert (
        main(
            project.arguments(
                "import-catalog",
                images=tmp_path / "img",
                data=tmp_path / "catalog",
                category="shirts",
                workers=1,
            )
        )
        == 0
    )
    assert (
        "for features and search only: there are no captions, because no attributes differ; to train with "
        "dialogs, let people write captions with `fashioniq caption-pairs --data" in capsys.readouterr().out
    )


def test_folders_and_pairs_without_a_difference_are_printed(project, tmp_path, capsys):
    for number in range(120):
        folder = tmp_path / "img" / ("dress", "shirt", "t-shirt")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(picture(number))
    given = {"images": tmp_path / "img", "workers": 0}
    clothes = {"data": tmp_path / "clothes", "category": "clothes", "folders": ["dress", "t-shirt"]}
    assert main(project.arguments("import-catalog", **given, **clothes)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  80 of 120 photos: folders dress (40), t-shirt (40); not taken: shirt (40)" in lines
    assert any(
        line.endswith(" of 80 pairs have no difference to describe, and no captions") for line in lines
    )
    assert (
        f"`fashioniq caption-pairs --data {tmp_path / 'clothes'} --category clothes`, or import a table with "
        "columns for --attributes" in lines[-1]
    )
    shirts = {"data": tmp_path / "shirts", "category": "shirts"}
    assert main(project.arguments("import-catalog", **given, **shirts)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  40 of 120 photos: folder shirt; not taken: dress (40), t-shirt (40)" in lines

"""`fashioniq download-images` against a server of a few pictures: stopped at any moment, it ends as one that
was not.
"""

import io
import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from fashioniq.cli import main
from tests.waiting import LIMIT, ended, joined

SPLITS = {"train": range(0, 24), "val": range(24, 32), "test": range(32, 40)}
DEAD, BROKEN, SMALL, UNKNOWN, SAME = 5, 12, 25, 33, (7, 34)


def picture(number):
    side = 20 if number == SMALL else 48
    pixels = np.random.default_rng(SAME[0] if number in SAME else number).integers(
        0, 255, (side, side, 3), dtype=np.uint8
    )
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG" if number % 3 == 0 else "JPEG")
    return file.getvalue()[: 500 if number == BROKEN else None]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        number = int(self.path.strip("/.jpg"))
        with self.server.counting:
            self.server.asked.append(number)
            whole = len(self.server.asked) <= self.server.whole
        content = picture(number)
        self.send_response(404 if number == DEAD else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if whole:
            self.wfile.write(content)
        else:  # half of it, and no more for now
            self.wfile.write(content[: len(content) // 2])
            self.server.go_on.wait(LIMIT)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """Gives the first `whole` pictures asked for, then halves of pictures."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.handle_error = True, lambda *_: None  # the downloader may be killed
    server.asked, server.whole, server.go_on, server.counting = [], 1000, threading.Event(), threading.Lock()
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    joined(thread)
    server.server_close()


@pytest.fixture
def folder_of(server, tmp_path):
    """Make a Fashion IQ folder without pictures, whose addresses are the server's."""

    def folder_of(name):
        folder = tmp_path / name
        for part in ("image_splits", "image_url"):
            (folder / part).mkdir(parents=True)
        for split, numbers in SPLITS.items():
            (folder / "image_splits" / f"split.dress.{split}.json").write_text(
                json.dumps([f"B{number}" for number in numbers])
            )
        lines = [
            f"B{number} \t http://127.0.0.1:{server.server_port}/{number}.jpg\n"
            for number in range(40)
            if number != UNKNOWN
        ]
        (folder / "image_url" / "asin2url.dress.txt").write_text("".join(lines))
        return folder

    return folder_of


@pytest.fixture
def begin(server, wait_until, forked_command, tmp_path):
    """Start the command in a process of its own, and wait until the server holds some of its downloads back."""

    def begin(folder, whole):
        server.asked.clear()
        server.go_on.clear()
        server.whole = whole
        command = ["download-images", "--data", folder, "--category", "dresses"]
        with open(os.devnull, "r+") as nothing, open(tmp_path / "errors", "w") as errors:
            process = forked_command(command, [nothing.fileno(), nothing.fileno(), errors.fileno()])
        part = folder / "images" / "dress" / ".downloading"
        wait_until(lambda: len(server.asked) >= whole + 4 and list(part.iterdir()), process.is_alive)
        return process

    return begin


def go_on(server):
    server.go_on.set()
    server.asked.clear()
    server.whole = 1000


def run(folder, **options):
    words = [word for name, value in options.items() for word in ("--" + name, str(value))]
    return main(["download-images", "--data", str(folder), "--category", "dresses", *words])


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_pictures_and_coverage_are_as_the_server_has_them(server, folder_of, capsys):
    folder = folder_of("whole")
    (folder / "coverage.json").write_text(
        json.dumps({"shirt": {"splits": {}, "missing": {}}, "dress": "old"})
    )
    assert run(folder) == 0
    coverage = json.loads((folder / "coverage.json").read_text())
    nothing = {"dead": 0, "broken": 0, "too small": 0, "failed": 0, "no address": 0, "duplicates": 0}
    assert coverage["shirt"] == {"splits": {}, "missing": {}}
    assert coverage["dress"]["splits"] == {
        "train": {"asked": 24, **nothing, "got": 22, "dead": 1, "broken": 1},
        "val": {"asked": 8, **nothing, "got": 7, "too small": 1},
        "test": {"asked": 8, **nothing, "got": 7, "no address": 1, "duplicates": 1},
    }
    missing = coverage["dress"]["missing"]
    assert missing.pop("B12").startswith("broken: ")
    assert missing == {"B5": "dead: 404", "B25": "too small: 20×20 pixels", "B33": "no address"}
    pictures = files_of(folder / "images" / "dress")
    assert pictures == {
        f"B{n}.{'png' if n % 3 == 0 else 'jpg'}": picture(n)
        for n in range(40)
        if n not in (DEAD, BROKEN, SMALL, UNKNOWN)
    }
    told = capsys.readouterr().out
    assert "36 of 40 pictures of dresses are available" in told and str(folder / "coverage.json") in told


@pytest.mark.parametrize("whole", [0, 20])
def test_a_killed_run_that_is_started_again_ends_as_one_that_was_not(server, folder_of, begin, whole):
    uninterrupted, killed = folder_of("uninterrupted"), folder_of("killed")
    server.go_on.set()
    assert run(uninterrupted) == 0
    process = begin(killed, whole)
    process.kill()
    ended(process)
    left = files_of(killed / "images")
    assert any(".downloading" in name for name in left)
    go_on(server)
    assert run(killed) == 0
    assert files_of(killed) == files_of(uninterrupted)
    left.pop(".dress.lock")  # the lock file beside the folder, which a killed process cannot remove
    there = {int(name.split("/B")[1].split(".")[0]) for name in left if ".downloading" not in name}
    assert sorted(server.asked) == sorted(set(range(40)) - there - {UNKNOWN})


def test_ctrl_c_ends_cleanly(server, folder_of, begin, wait_until, tmp_path):
    folder = folder_of("stopped")
    process = begin(folder, 10)
    wait_until(lambda: len(list((folder / "images" / "dress").glob("B*"))) >= 8, process.is_alive)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes get it
    assert ended(process) == 130 and (tmp_path / "errors").read_text().strip() == "interrupted"
    assert (
        not (folder / "images" / "dress" / ".downloading").exists()
        and not (folder / "coverage.json").exists()
    )
    assert all(
        content == picture(int(name[1:].split(".")[0]))
        for name, content in files_of(folder / "images" / "dress").items()
    )


def test_pictures_of_an_older_layout_are_not_asked_for(server, folder_of):
    folder = folder_of("older")
    (folder / "images").mkdir()
    (folder / "images" / "B3.png").write_bytes(picture(3))
    (folder / "images" / "B4.jpg").write_bytes(picture(4)[:200])
    assert run(folder) == 0
    assert 3 not in server.asked and 4 in server.asked
    assert (folder / "images" / "dress" / "B4.jpg").read_bytes() == picture(4)


def test_a_list_may_lie_beside_or_be_named(server, folder_of, tmp_path):
    folder = folder_of("beside")
    beside = (folder / "image_url" / "asin2url.dress.txt").rename(folder / "asin2url.dress.txt")
    assert run(folder) == 0
    beside.rename(tmp_path / "list.txt")
    server.asked.clear()
    assert run(folder, urls=tmp_path / "list.txt") == 0
    assert sorted(server.asked) == [DEAD, BROKEN, SMALL]


def test_mistakes_are_told_in_one_line(server, folder_of, capsys, tmp_path):
    folder = folder_of("mistaken")
    (tmp_path / "other.txt").write_text("C1 \t http://127.0.0.1/1.jpg\n")
    (folder / "image_url" / "asin2url.dress.txt").unlink()
    for options, what in [
        ({}, "there is no list of addresses"),
        ({"urls": tmp_path / "other.txt"}, "no address of any product of dresses"),
    ]:
        assert run(folder, **options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert what in line
    (folder / "coverage.json").write_text("{")
    assert run(folder) == 2 and "coverage of earlier downloads" in capsys.readouterr().err
    assert not server.asked and not (folder / "images").exists()

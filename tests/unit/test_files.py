import errno
import hashlib
import os
import select
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from fashioniq.files import (
    UserError,
    atomic_write,
    check_writable,
    checksum,
    read_json,
    read_text,
    remove_leftovers,
    temporary_folder,
    together,
    write_json,
    write_jsonl,
    write_text,
)
from fashioniq.locks import append_line, exclusive, locked
from fashioniq.provenance import running
from tests.waiting import LIMIT, ended, joined


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_appears_with_its_content(tmp_path):
    path = tmp_path / "new" / "folder" / "facts.json"
    write_json(path, {"word": "Größe", "list": [1, 2]})
    assert read_json(path, "facts", dict) == {"word": "Größe", "list": [1, 2]}
    assert os.listdir(path.parent) == ["facts.json"]


def test_until_the_end_the_old_file_is_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("half of the n")
        assert path.read_text() == "old"
        temporary.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as temporary:
        temporary.write_text("half of the n")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_the_file_is_synced_before_it_takes_its_name_and_the_folder_after(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: done.append(stat.S_ISDIR(os.fstat(handle).st_mode)) or sync(handle)
    )
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("renamed") or replace(*paths))
    write_text(tmp_path / "a.txt", "new")
    assert done == [False, "renamed", True]


def test_only_what_a_killed_run_left_is_removed(tmp_path):
    class Killed(BaseException):
        pass

    (tmp_path / "a.npy").write_text("old")
    for name in (".hidden", ".git-keep", "b-12345678.npy"):
        (tmp_path / name).write_text("")
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(Killed),
        atomic_write(tmp_path / "a.npy") as temporary,
    ):
        patch.setattr(os, "unlink", lambda path: None)  # who is killed cannot tidy up
        temporary.write_text("half")
        raise Killed
    assert len(os.listdir(tmp_path)) == 5
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".git-keep", ".hidden", "a.npy", "b-12345678.npy"]
    remove_leftovers(tmp_path / "nowhere")


def test_a_folder_is_held_by_one_at_a_time_and_let_go_of_at_any_end(tmp_path):
    folder = tmp_path / "new" / "store"
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), locked(folder):
            with pytest.raises(UserError, match=r"another process is writing to .*store"), locked(folder):
                pass
            raise error
    with locked(folder):
        assert not os.listdir(folder)


def test_a_lock_that_is_waited_for_is_got_when_it_is_free(tmp_path):
    got, folder = [], tmp_path / "store"

    def take():
        with locked(folder, wait=LIMIT):
            got.append("second")

    with locked(folder):
        second = threading.Thread(target=take)
        second.start()
        got.append("first")
    joined(second)
    assert got == ["first", "second"] and os.listdir(tmp_path) == ["store"]


def test_a_lock_that_does_not_become_free_is_given_up(tmp_path):
    folder = tmp_path / "store"
    with locked(folder), pytest.raises(UserError, match="another process"), locked(folder, wait=0.05):
        pass


def test_a_refusal_names_the_command_that_writes_without_its_password(tmp_path):
    with (
        running(["fashioniq", "learn", "--database", "postgresql://shop:secret@host/shop"]),
        exclusive(tmp_path / "out"),
        pytest.raises(UserError) as refusal,
        exclusive(tmp_path / "out"),
    ):
        pass
    command = "fashioniq learn --database postgresql://host/shop"
    assert f"(process {os.getpid()}, {command})" in str(refusal.value)


def test_a_path_that_was_only_locked_leaves_no_folders(tmp_path):
    with exclusive(tmp_path / "runs" / "a" / "run"):
        assert not (tmp_path / "runs" / "a" / "run").exists()
    assert not os.listdir(tmp_path)
    with exclusive(tmp_path / "runs" / "run"):
        (tmp_path / "runs" / "run").mkdir()
    assert os.listdir(tmp_path / "runs") == ["run"]
    with pytest.raises(OSError, match="from inside"), exclusive(tmp_path / "other" / "run"):
        raise OSError("from inside")


def test_a_process_that_is_killed_lets_go_of_its_folder(tmp_path):
    code = "import sys\nfrom pathlib import Path\nfrom fashioniq.locks import locked\n"
    code += "with locked(Path(sys.argv[1])):\n    print('locked', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert select.select([process.stdout], [], [], LIMIT)[0], "the process has no lock"
        with pytest.raises(UserError, match="another process"), locked(tmp_path):
            pass
        process.kill()
        ended(process)
    with locked(tmp_path):
        pass


def test_a_full_disk_is_told_and_leaves_no_half_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"no space left.*a.txt"):
        write_text(tmp_path / "a.txt", "new")
    assert not os.listdir(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_text(tmp_path / "file" / "a.txt", "new")


def test_a_folder_in_place_of_one_of_several_files_leaves_the_others_as_they_were(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("before")
    with pytest.raises(UserError, match=r"cannot write .*a: Is a directory"), ExitStack() as files:
        for path in [files.enter_context(atomic_write(tmp_path / name)) for name in "ab"]:
            path.write_text("after")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert (tmp_path / "b").read_text() == "before"


def test_a_temporary_folder_is_removed_and_one_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        (folder / "a").touch()
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    missing = temporary_folder()
    with (
        pytest.raises(UserError, match="cannot write a temporary folder: No such file or directory"),
        missing,
    ):
        pass


def test_files_can_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "a.txt", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot find captions: there is no file .*a.json"),
        (b"", "not valid JSON"),
        (b'["half", "of', "not valid JSON"),
        (b"[NaN]", r"not valid JSON \(NaN is not a finite number\)"),
        (b"[-Infinity]", r"not valid JSON \(-Infinity is not a finite number\)"),
        (b"[1.5, 1e999]", r"not valid JSON \(1e999 is not a finite number\)"),
        (b'["\xff\xfe"]', "not valid JSON"),
        (b'{"an": "object"}', "expected a list, found a dict"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, content, message):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_json(path, "captions", list)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_before_json_is_skipped(tmp_path):
    (tmp_path / "a.json").write_text('["Größe"]', encoding="utf-8-sig")
    assert read_json(tmp_path / "a.json", "captions", list) == ["Größe"]


def test_a_folder_in_place_of_a_file_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot read captions"):
        read_json(tmp_path, "captions")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"there is no list .*a.txt: give a list$"),
        (b"\xff\xfe", r"the list .*a.txt is not UTF-8 text .*save it in UTF-8"),
        ("folder", r"cannot read the list .*a.txt: Is a directory"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_in_one_line(tmp_path, content, message):
    path = tmp_path / "a.txt"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_text(path, "list", "give a list")


def test_a_text_is_read_without_its_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffgrün\n".encode())
    assert read_text(tmp_path / "a.txt", "list", "give a list") == "grün\n"


def test_records_are_written_one_a_line(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", iter([{"word": "Größe", "rank": 1}, {}]))
    assert (tmp_path / "a.jsonl").read_bytes() == '{"word": "Größe", "rank": 1}\n{}\n'.encode()


def test_a_checksum_is_the_start_of_sha_256(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    assert checksum(tmp_path / "a") == hashlib.sha256(b"content").hexdigest()[:16]


def test_lines_of_several_threads_are_appended_whole(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    threads = [threading.Thread(target=append_line, args=(path, f"{number} " * 3000)) for number in range(8)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert sorted(path.read_text().splitlines()) == [f"{number} " * 3000 for number in range(8)]


def test_a_line_that_a_crash_cut_short_is_ended_first(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"b"')
    append_line(path, '{"c": "ü"}')
    append_line(path, "{}")
    assert path.read_text().splitlines() == ['{"a": 1}', '{"b"', '{"c": "ü"}', "{}"]


def test_a_line_that_the_disk_has_no_room_for_leaves_the_others_as_they_are(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    append_line(path, "first")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UserError, match="no space left"):
        append_line(path, "second")
    assert path.read_text() == "first\n"


def test_leftovers_of_one_file_are_removed_and_no_others(tmp_path):
    others = [".dialogs-train-abcdefgh.json", ".other-abcdefgh.json", "dialogs.json", ".dialogs-abc.json"]
    for name in (*others, ".dialogs-abcdefgh.json"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, of="dialogs.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_a_link_to_nothing_cannot_be_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(UserError, match="is not a folder"):
        check_writable(tmp_path / "link")
    check_writable(tmp_path / "new" / "folder")


def test_files_written_together_replace_earlier_ones_only_when_all_are_written(tmp_path):
    for name in ("metrics.json", "table.csv"):
        (tmp_path / name).write_text("old")
    with pytest.raises(ZeroDivisionError), together(tmp_path, "metrics.json", "table.csv"):
        write_text(tmp_path / "part/dialogs.jsonl", "new")
        with together(tmp_path / "part", "*"):
            write_text(tmp_path / "part/run.trec", "new")
        raise ZeroDivisionError
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["metrics.json", "part", "table.csv"]
    assert (tmp_path / "metrics.json").read_text() == "old"
    with together(tmp_path, "metrics.json", "table.csv"):
        with together(tmp_path / "part", "*"):
            write_text(tmp_path / "part/run.trec", "new")
        assert not (tmp_path / "part/run.trec").exists()  # it waits for the outer block
        write_text(tmp_path / "metrics.json", "new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["metrics.json", "part", "run.trec"]
    assert (tmp_path / "metrics.json").read_text() == "new"
    assert (tmp_path / "metrics.json").stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize("folder", [".", "part", "../part"])
def test_a_relative_folder_keeps_the_new_files_that_match_what_they_replace(folder, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for content in ("old", "new"):
        with together(Path(folder), "*.trec"):
            write_text(Path(folder) / "run.trec", content)
        assert (Path(folder) / "run.trec").read_text() == content


def test_what_a_killed_command_left_is_removed_from_each_folder_of_files_written_together(tmp_path):
    left = [
        tmp_path / name
        for name in (".table-0a1b2c3d.csv", "part/.run-0a1b2c3d.trec", "other/.run-0a1b2c3d.trec")
    ]
    for path in left:
        write_text(path, "half")
    with together(tmp_path):
        write_text(tmp_path / "table.csv", "new")
        write_text(tmp_path / "part/run.trec", "new")
        with together(tmp_path):  # keeps what waits for its name
            write_text(tmp_path / "metrics.json", "new")
    assert [path.exists() for path in left] == [False, False, True]
    assert {"table.csv", "metrics.json"} <= {path.name for path in tmp_path.iterdir()}

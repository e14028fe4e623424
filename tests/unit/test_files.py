import errno
import hashlib
import os
import stat
import subprocess
import sys

import pytest

from fashioniq.files import UserError, checksum, held, read_json, remove_leftovers, whole, write_json, write_text


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
    with whole(path) as temporary:
        temporary.write_text("half of the n")
        assert path.read_text() == "old"
        temporary.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), whole(path) as temporary:
        temporary.write_text("half of the n")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_the_file_is_synced_before_it_takes_its_name_and_the_folder_after(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(stat.S_ISDIR(os.fstat(handle).st_mode)) or sync(handle))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("renamed") or replace(*paths))
    write_text(tmp_path / "a.txt", "new")
    assert done == [False, "renamed", True]


def test_only_what_a_killed_run_left_is_removed(tmp_path):
    class Killed(BaseException):
        pass

    (tmp_path / "a.npy").write_text("old")
    for name in (".hidden", ".git-keep", "b-12345678.npy"):
        (tmp_path / name).write_text("")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed), whole(tmp_path / "a.npy") as temporary:
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
        with pytest.raises(error), held(folder):
            with pytest.raises(UserError, match=r"another process is filling .*store"), held(folder):
                pass
            raise error
    with held(folder):
        assert not os.listdir(folder)


def test_a_process_that_is_killed_lets_go_of_its_folder(tmp_path):
    code = "import sys\nfrom pathlib import Path\nfrom fashioniq.files import held\n"
    code += "with held(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(UserError, match="another process"), held(tmp_path):
            pass
        process.kill()
    with held(tmp_path):
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
        (None, "captions is missing: there is no file .*a.json"),
        (b"", "not whole JSON"),
        (b'["half", "of', "not whole JSON"),
        (b'["\xff\xfe"]', "not whole JSON"),
        (b'{"an": "object"}', "should hold a list, it holds a dict"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, content, message):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_json(path, "captions", list)
    assert "\n" not in str(caught.value)


def test_a_folder_in_place_of_a_file_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot read captions"):
        read_json(tmp_path, "captions")


def test_a_checksum_is_the_start_of_sha_256(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    assert checksum(tmp_path / "a") == hashlib.sha256(b"content").hexdigest()[:16]

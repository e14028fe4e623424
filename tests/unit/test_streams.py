"""Standard streams that are closed or full, locales without UTF-8, and too little memory end a command with a line."""

import ast
import io
import os
import re
import resource
import struct
import sys
from pathlib import Path

import pytest

from fashioniq import cli, compat
from fashioniq.cli import main, streams
from fashioniq.files import UserError
from fashioniq.terminal import conversation
from tests.waiting import ended

ROOT = Path(__file__).parents[2]


@pytest.fixture
def at_shell(forked, tmp_path):
    """Call a function as a command of a shell, with these streams; return the exit code and what was printed.

    A stream is a path, or None for a closed one. Standard error is read from a file, if it is not given.
    """

    def run(function, given):
        for number, path in enumerate(given):
            if path is None:
                os.close(number)
            else:
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        sys.stdin, sys.stdout, sys.stderr = (
            path and os.fdopen(number, mode, encoding="utf-8", closefd=False)
            for number, (path, mode) in enumerate(zip(given, "rww", strict=True))
        )
        sys.exit(function())

    def at_shell(function, stdin=os.devnull, stdout=tmp_path / "out", stderr=tmp_path / "err"):
        code = ended(forked(run, function, (stdin, stdout, stderr)))
        return code, *(
            (tmp_path / name).read_text() if (tmp_path / name).exists() else "" for name in ("out", "err")
        )

    return at_shell


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["search", "--help"]], ids=" ".join)
def test_an_output_without_space_is_told_in_a_line(at_shell, arguments):
    code, _, error = at_shell(lambda: main(arguments), stdout="/dev/full")
    assert code == 2 and re.fullmatch(r"error: cannot write standard output \(No space left .*\n", error)


def test_a_closed_output_is_refused_before_anything_is_done(at_shell, monkeypatch):
    monkeypatch.setattr(cli, "_run", lambda arguments: pytest.fail("the command has run"))
    code, _, error = at_shell(lambda: main(["--version"]), stdout=None)
    assert code == 2 and error == "error: standard output is closed; redirect it, such as to /dev/null\n"


@pytest.mark.parametrize("stderr", [None, "/dev/full"])
def test_errors_that_nobody_can_read_change_no_exit_code(at_shell, stderr, tmp_path):
    refused = ["check-data", "--data", str(tmp_path / "nowhere")]
    assert at_shell(lambda: main(refused), stderr=stderr)[0] == 2
    assert at_shell(lambda: main(["--version"]), stderr=stderr)[0] == 0


def test_a_notice_that_cannot_be_printed_ends_no_command(at_shell, monkeypatch):
    monkeypatch.setattr(cli, "_run", lambda arguments: print("unknown words: x", file=sys.stderr) or 0)
    assert at_shell(lambda: main([]), stderr="/dev/full")[0] == 0


def test_a_closed_input_is_empty(at_shell, monkeypatch):
    talk = conversation.Conversation.__new__(conversation.Conversation)
    talk._prompt, talk.view, talk.live, talk.products = lambda: "> ", type("V", (), {"end": print}), None, []
    monkeypatch.setattr(cli, "_run", lambda arguments: talk.run())
    code, printed, error = at_shell(lambda: main([]), stdin=None)
    assert (code, error) == (0, "") and printed.startswith("> ")


def test_bytes_that_are_no_text_are_read(at_shell, monkeypatch, tmp_path):
    (tmp_path / "in").write_bytes(b"red \xff\n")
    monkeypatch.setattr(cli, "_run", lambda arguments: print(ascii(input())))
    assert at_shell(lambda: main([]), stdin=tmp_path / "in")[:2] == (0, "'red \\ufffd'\n")


def in_ascii(monkeypatch):
    """A locale without UTF-8, such as LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0."""
    opened = os.fdopen
    monkeypatch.setattr(
        os, "fdopen", lambda *args, **options: opened(*args, **options | {"encoding": "ascii"})
    )
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")


def test_characters_that_the_locale_lacks_are_escaped_and_read_as_utf_8(at_shell, monkeypatch, tmp_path):
    in_ascii(monkeypatch)
    (tmp_path / "in").write_text("größer\n", encoding="utf-8")
    monkeypatch.setattr(cli, "_run", lambda arguments: print(f"→ {len(input())}") or 0)
    assert at_shell(lambda: main([]), stdin=tmp_path / "in") == (0, "\\u2192 6\n", "")


@pytest.mark.parametrize("how", ["argument", "name"])
def test_names_that_the_locale_lacks_are_refused_with_the_cure(how, at_shell, monkeypatch):
    in_ascii(monkeypatch)
    monkeypatch.setattr(cli, "_run", lambda arguments: "gr\xf6\xdfer.png".encode("ascii"))
    code, printed, error = at_shell(lambda: main(["gr\udcc3\udcb6" if how == "argument" else "large"]))
    assert code == 2 and printed == ""
    assert re.fullmatch("error: .* the encoding of the locale, ascii, .* set LC_ALL=C.UTF-8\n", error)


def chained():
    try:
        raise ImportError("libblas.so: failed to map segment from shared object")
    except ImportError as error:
        raise ImportError("please read this\nadvice") from error


def failing(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (failing(MemoryError()), "MemoryError"),
        (
            failing(ImportError("libtorch.so: failed to map segment from shared object")),
            "libtorch.so: failed",
        ),
        (failing(OSError(12, "Cannot allocate memory")), r"[Errno 12] Cannot allocate"),
        (
            failing(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")),
            "DefaultCPUAllocator",
        ),
        (failing(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")), "CUDA out of memory"),
        (chained, "libblas.so: failed"),
    ],
)
def test_too_little_memory_is_told_in_a_line(fail, reason, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", lambda arguments: fail())
    assert main([]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: not enough memory ({reason}") and error.count("\n") == 1


def test_a_name_that_no_file_can_have_is_told_in_a_line(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_run", lambda arguments: os.stat("x" * 5000))
    assert main([]) == 2
    error = capsys.readouterr().err
    assert (
        error.startswith("error: xxx")
        and "is too long for a path; shorten it\n" in error
        and len(error) < 150
    )


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError(2, "No such file", "weights"), UnicodeEncodeError("ascii", "é", 0, 1, "x")])  # fmt: skip
def test_other_errors_keep_their_traceback(error, monkeypatch):
    monkeypatch.setattr(cli, "_run", lambda arguments: failing(error)())
    with pytest.raises(type(error)):
        main([])


def test_torch_is_not_imported_where_it_has_no_room(monkeypatch):
    finder = compat._BeforeLibraries()
    for limit, fits in ((resource.RLIM_INFINITY, True), (2 * 10**9, True), (600 * 2**20, False)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limit=limit: (limit, limit))
        assert finder.find_spec("json") is None
        if fits:
            assert finder.find_spec("torch") is None
        else:
            with pytest.raises(MemoryError, match=r"the limit is 0\.6 GB"):
                finder.find_spec("torch")
    monkeypatch.setattr(sys, "meta_path", [])
    compat.check_before_libraries()
    compat.check_before_libraries()
    assert [type(one) for one in sys.meta_path] == [compat._BeforeLibraries]


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({}, None),
        ({"RANK": "3", "LOCAL_RANK": "x"}, None),  # the first one counts
        ({"SLURM_PROCID": "x"}, "SLURM_PROCID, found 'x'"),
        ({"RANK": "", "LOCAL_RANK": "0"}, "RANK, found ''"),
    ],
)
def test_lightning_is_not_imported_where_the_rank_is_no_number(variables, refused, monkeypatch):
    for name in compat._RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    finder = compat._BeforeLibraries()
    assert finder.find_spec("torch") is None
    if refused is None:
        assert finder.find_spec("lightning_fabric") is None
    else:
        with pytest.raises(UserError, match=f"expected a number in the variable {refused}"):
            finder.find_spec("lightning_fabric")


@pytest.mark.parametrize("text", ["error return without exception set", "could not create a primitive"])
def test_what_libraries_say_under_a_limit_means_too_little_memory(text, monkeypatch):
    for limit, told in ((resource.RLIM_INFINITY, False), (3 * 10**9, True)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limit=limit: (limit, limit))
        found = streams.end_of(SystemError(text))
        assert found == (2, found[1]) and "not enough memory" in found[1] if told else found is None


@pytest.mark.parametrize(
    ("zone", "refused"),
    [
        ("Nowhere/Nothing", None),
        ("", None),
        ("zone", None),
        (":zone", None),
        (":/dev/zero", "the variable TZ names /dev/zero, which is not a time zone file"),
        ("folder", r"folder, which is not a time zone file \(.*Is a directory"),
        ("half", r"half, which is not a time zone file .* unset it"),
    ],
)
def test_a_file_that_the_time_zone_names_is_a_time_zone_file(zone, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    utc = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"  # RFC 8536
    Path("zone").write_bytes(utc)
    Path("half").write_bytes(utc[:46])
    Path("folder").mkdir()
    monkeypatch.setenv("TZ", zone)
    finder = compat._BeforeLibraries()
    if refused is None:
        assert finder.find_spec("babel.localtime") is None
    else:
        with pytest.raises(UserError, match=refused):
            finder.find_spec("babel.localtime")


def test_streams_of_others_stay_as_they_are(monkeypatch):
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stdout", mine)
    streams.prepare()
    assert sys.stdout is mine
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UserError, match="standard output is closed"):
        streams.prepare()


def without_encoding(text):
    """Calls in a Python file that read or write text in the encoding of the locale."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {one.arg for one in node.keywords}
        modes = [
            one.value
            for one in (*node.args, *(word.value for word in node.keywords))
            if isinstance(one, ast.Constant)
        ]
        is_binary = any(isinstance(mode, str) and "b" in mode and len(mode) < 5 for mode in modes)
        is_method = isinstance(node.func, ast.Attribute)
        opens = name == "fdopen" or (name == "open" and not is_method)
        reads = name in ("read_text", "write_text") and is_method
        talks = "text" in given or "universal_newlines" in given
        if ((opens and not is_binary) or reads or (talks and name in ("run", "Popen", "check_output"))) and (
            "encoding" not in given
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("open(path)", 1),
        ("open(path, 'w')", 1),
        ("path.read_text()", 1),
        ("subprocess.run(['git'], text=True)", 1),
        ("open(path, 'rb')", 0),
        ("open(path, encoding='utf-8')", 0),
        ("path.write_text(text, encoding='utf-8')", 0),
        ("read_text(path, 'table', 'make it')", 0),
    ],
)
def test_a_text_file_without_encoding_is_found(text, count):
    assert len(list(without_encoding(text))) == count


def test_text_files_are_utf_8_whatever_the_locale():
    files = [
        *(ROOT / "fashioniq").rglob("*.py"),
        *ROOT.glob("*.py"),
        *ROOT.glob("data_prep/*.py"),
        *ROOT.glob("eval/*.py"),
    ]
    found = [
        f"{path.name}: {call}"
        for path in files
        for call in without_encoding(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 300 and not found

"""METEOR for real where Java is; what programs do wrong by a `java` of our own on the PATH."""

import gzip
import os
import shutil
from itertools import islice

import pytest

from fashioniq.metrics import java
from fashioniq.metrics.java import STANFORD_JARS, NotComputed, meteor, run_java, spice, stanford_jars

SYSTEM = (["a dress", "is red"], [["the dress", "a gown"], ["is blue"]])


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a shell script in the place of Java, with the PATH behind it as it was."""

    def put(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "java").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "java").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    return put


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """A folder that has files of the jars' names."""
    monkeypatch.setattr(java, "stanford_folders", lambda: [tmp_path / "nowhere", tmp_path])
    for name in STANFORD_JARS:
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java on the PATH")
def test_meteor_of_several_systems_at_once(monkeypatch, tmp_path):
    """With a small part of the paraphrases, as reading all of them takes 15 seconds.

    `test_captions.py` has scores with all of them.
    """
    monkeypatch.setenv("LC_ALL", "C")
    with gzip.open(java.PARAPHRASES, "rt", encoding="utf-8") as table:
        part = "".join(islice(table, 3_000))  # three lines each: probability, phrase, paraphrase
    some = tmp_path / "paraphrases.gz"
    some.write_bytes(gzip.compress(f"{part}0.5\nzorgle\nevening robe\n".encode()))
    monkeypatch.setattr(java, "PARAPHRASES", some)
    same, mixed = ["a long red dress", "café chic"], ["a long red dress", "is blue"]
    references = [["a red gown", "a long red dress"], ["café chic"]]
    others = (["a dress", "evening robe"], [["a gown"], ["zorgle"]])  # equal but for the added paraphrase
    unrelated = (["a dress", "evening robe"], [["a gown"], ["blue"]])
    first, second, third, fourth = meteor([(same, references), (mixed, references), others, unrelated])
    assert first > 0.99 and 0.3 < second < 0.9 and third > fourth


def test_without_java_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "")
    for scorer in (meteor, spice):
        with pytest.raises(NotComputed, match="no Java on the PATH"):
            scorer([SYSTEM])


def test_without_the_jars_spice_says_how_to_get_them(program, monkeypatch, tmp_path):
    program("exit 0")
    monkeypatch.setattr(java, "stanford_folders", lambda: [tmp_path])
    (tmp_path / STANFORD_JARS[0]).touch()
    with pytest.raises(NotComputed, match=f"stanford-corenlp-full-2015-12-09.zip are not in {tmp_path}"):
        spice([SYSTEM])


def test_spice_runs_its_program_once_a_system_with_the_jars_it_needs(program, jars):
    program(f'echo "$JDK_JAVA_OPTIONS $@" >> {jars}/asked; for last in "$@"; do :; done; cat "$last" >> {jars}/given\n'
            'echo "  f-score:\t0.223 (SPICE metric)"')  # fmt: skip
    assert spice([SYSTEM, SYSTEM]) == [0.223, 0.223]
    asked = (jars / "asked").read_text()
    assert asked.count("SpiceScorer") == 2 and all(str(jars / name) in asked for name in STANFORD_JARS)
    assert (
        "--add-opens java.base/java.lang=ALL-UNNAMED" in asked
        and "--add-opens java.sql/java.sql=ALL-UNNAMED" in asked
    )
    assert (
        '{"image_id": 0, "test": "a dress", "refs": ["the dress", "a gown"]}' in (jars / "given").read_text()
    )


def test_a_spice_without_a_score_is_not_computed(program, jars):
    program("echo done")
    with pytest.raises(NotComputed, match="no score"):
        spice([SYSTEM])


@pytest.mark.parametrize("script", ["cat > /dev/null; echo 1.0 2.0", "exit 0", "cat"])
def test_wrong_answers_of_meteor_are_not_believed(script, program):
    program(script)
    with pytest.raises(NotComputed, match="METEOR"):
        meteor([SYSTEM])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            'Exception in thread "main" java.lang.OutOfMemoryError: heap\n  at Meteor.main',
            "java.lang.OutOfMemoryError: heap",
        ),
        ("Error: could not score\njava.io.IOException: no model", "java.io.IOException: no model"),
        ("Error: no such\njarfile", "Error: no such jarfile"),
    ],
)
def test_a_program_that_dies_is_told_with_its_reason(said, reason, program):
    program(f"cat >&2 <<'END'\nNOTE: Picked up JDK_JAVA_OPTIONS\n{said}\nEND\nexit 1")
    with pytest.raises(NotComputed) as error:
        meteor([SYSTEM])
    assert str(error.value) == f"Java failed ({reason})"


def test_a_program_that_is_killed_is_told(program):
    program("kill -9 $$")
    with pytest.raises(NotComputed, match=r"exit code -9"):
        run_java([], "text" * 100_000, 10)


def test_a_program_that_hangs_is_ended(program):
    program("exec sleep 60")
    with pytest.raises(NotComputed, match=r"longer than 0\.2 seconds"):
        run_java([], "", 0.2)


def test_a_program_that_cannot_be_started_is_told(program, tmp_path):
    program("")
    (tmp_path / "bin" / "java").write_text("#!/no/such/interpreter\n")
    with pytest.raises(NotComputed, match="does not start"):
        run_java([], "", 1)


@pytest.mark.parametrize("cache", ["caches", ""])
def test_the_jars_are_looked_for_beside_the_program_and_in_the_cache_of_the_user(
    cache, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", cache and str(tmp_path / cache))
    of_program, of_user = java.stanford_folders()
    assert of_program == java.PACKAGE / "spice" / "lib"
    assert of_user == tmp_path / (cache or ".cache") / "fashioniq" / "spice"


def test_the_jars_may_lie_in_any_of_the_folders(jars):
    assert stanford_jars() == [jars / name for name in STANFORD_JARS]

"""Running of the Java programs that score captions, with time limits."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pycocoevalcap

PACKAGE = Path(next(iter(pycocoevalcap.__path__)))
# packages that SPICE's serializer accesses by reflection, which Java 9 and newer deny by default
_OPENED = ("lang", "math", "util", "util.concurrent", "net", "text", "io")
# for programs of seconds: optimizing and collecting in other threads would take a quarter of their processor time
BRIEF = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class NotComputed(Exception):
    """A metric could not be computed; the message is the reason, in one line."""


def java_program() -> str:
    """Return the path of Java. Raises NotComputed if it is not on the PATH."""
    program = shutil.which("java")
    if program is None:
        raise NotComputed("there is no Java on the PATH")
    return program


def run_java(arguments: Sequence[str], text: str, seconds: float) -> str:
    """Run a Java program with `text` as its input, and return its output.

    Text is UTF-8 and numbers have a decimal point in any locale. Raises NotComputed if the program fails
    or takes longer than `seconds`.
    """
    # without -UsePerfData, Java makes a folder in /tmp
    options = ["-XX:-UsePerfData", "-Dfile.encoding=UTF-8", "-Duser.language=en"]
    command = [java_program(), *options, *arguments]
    try:
        done = subprocess.run(
            command,
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=seconds,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotComputed(f"Java took longer than {seconds:g} seconds") from error
    except OSError as error:
        raise NotComputed(f"Java does not start ({error.strerror})") from error
    if done.returncode != 0:
        raise NotComputed(
            f"Java failed ({_reason(done.stderr + done.stdout) or f'exit code {done.returncode}'})"
        )
    return done.stdout.decode(errors="replace")


def _environment() -> dict[str, str]:
    opened = [f"--add-opens java.base/java.{name}=ALL-UNNAMED" for name in _OPENED] + [
        "--add-opens java.sql/java.sql=ALL-UNNAMED"
    ]
    # ignored by Java 8, which does not need it
    options = " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *opened]).strip()
    return {**os.environ, "JDK_JAVA_OPTIONS": options, "LC_ALL": "C.UTF-8"}


def _reason(output: bytes) -> str:
    """Return the line that names an exception, or else the whole output, shortened."""
    lines = [
        line.strip()
        for line in output.decode(errors="replace").splitlines()
        if not line.startswith("NOTE: Picked up")
    ]
    named = next((line for line in lines if re.search(r"\w\.\w*(?:Exception|Error)\b", line)), None)
    return (named or " ".join(" ".join(lines).split())).removeprefix('Exception in thread "main" ')[:200]

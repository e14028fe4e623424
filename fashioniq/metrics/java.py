"""The programs in Java that score captions: where they lie, and how they are run and ended whatever happens."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pycocoevalcap

PACKAGE = Path(next(iter(pycocoevalcap.__path__)))
_OPENED = ("lang", "math", "util", "util.concurrent", "net", "text", "io")  # SPICE's serialiser looks into these, Java 9 and newer close them


class NotComputed(Exception):
    """Why something could not be computed, in one line."""


def java_program() -> str:
    """The path of Java. Raises NotComputed where it is not on the PATH."""
    program = shutil.which("java")
    if program is None:
        raise NotComputed("there is no Java on the PATH")
    return program


def run_java(arguments: Sequence[str], text: str, seconds: float) -> str:
    """What a Java program says when it is given `text`. Raises NotComputed where it fails or takes longer than `seconds`.

    Whatever the user's locale, text is UTF-8 and numbers have a decimal point.
    """
    command = [java_program(), "-Dfile.encoding=UTF-8", "-Duser.language=en", *arguments]
    try:
        done = subprocess.run(command, input=text.encode(errors="replace"), capture_output=True, timeout=seconds, env=_environment(), check=False)
    except subprocess.TimeoutExpired as error:
        raise NotComputed(f"Java took longer than {seconds:g} seconds") from error
    except OSError as error:
        raise NotComputed(f"Java does not start ({error.strerror})") from error
    if done.returncode != 0:
        raise NotComputed(f"Java failed ({_reason(done.stderr + done.stdout) or f'exit code {done.returncode}'})")
    return done.stdout.decode(errors="replace")


def _environment() -> dict[str, str]:
    opened = [f"--add-opens java.base/java.{name}=ALL-UNNAMED" for name in _OPENED] + ["--add-opens java.sql/java.sql=ALL-UNNAMED"]
    options = " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *opened]).strip()  # Java 8 does not read it, and needs nothing opened
    return {**os.environ, "JDK_JAVA_OPTIONS": options, "LC_ALL": "C.UTF-8"}


def _reason(said: bytes) -> str:
    """The line that names an exception, else all that was said, shortened."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if not line.startswith("NOTE: Picked up")]
    named = next((line for line in lines if re.search(r"\w\.\w*(?:Exception|Error)\b", line)), None)
    return (named or " ".join(" ".join(lines).split())).removeprefix('Exception in thread "main" ')[:200]

"""Java programs with time limits: METEOR and SPICE in pycocoevalcap, and others.

The Python classes of pycocoevalcap are not used: METEOR's hangs if Java dies, and SPICE's writes into the installed
package and needs an output file that the program can only write on Java 14 and older. The score that SPICE prints is
enough.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pycocoevalcap

from fashioniq.files import temporary_folder

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


# tokenised hypotheses, and the tokenised references of each
System = tuple[Sequence[str], Sequence[Sequence[str]]]

STANFORD_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
PARAPHRASES = PACKAGE / "meteor" / "data" / "paraphrase-en.gz"
_METEOR_SECONDS, _SPICE_SECONDS = 1800, 7200  # 100 times the time for Fashion IQ's val split


def meteor(systems: Sequence[System]) -> list[float]:
    """METEOR 1.5 of each system, 0 to 1 (Denkowski and Lavie 2014). Raises NotComputed if the program fails.

    The program runs twice: first it counts the matches of each caption, then it aggregates the counts of
    each system. The second run needs no paraphrases, so it gets an empty table; loading the real one takes
    more than 10 seconds.
    """
    asked = [
        " ||| ".join(["SCORE", *(_field(reference) for reference in several), _field(hypothesis)])
        for hypotheses, references in systems
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    counts = iter(_meteor_answers(asked, len(asked), PARAPHRASES))
    evals = [" ||| ".join(["EVAL", *(next(counts) for _ in hypotheses)]) for hypotheses, _ in systems]
    with temporary_folder() as folder:
        no_paraphrases = folder / "paraphrases.gz"
        no_paraphrases.write_bytes(gzip.compress(b""))
        answers = _meteor_answers(evals, len(asked) + len(systems), no_paraphrases)
    scores, line = [], -1
    for hypotheses, _ in systems:  # EVAL returns one line per caption, then the corpus score
        line += len(hypotheses) + 1
        scores.append(float(answers[line]))
    return scores


def _meteor_answers(lines: Sequence[str], expected: int, paraphrases: Path) -> list[str]:
    arguments = [
        *BRIEF,
        "-Xmx2G",
        "-jar",
        str(PACKAGE / "meteor" / "meteor-1.5.jar"),
        "-",
        "-",
        "-stdio",
        "-l",
        "en",
        "-norm",
        "-a",
        str(paraphrases),
    ]
    answers = run_java(arguments, "".join(line + "\n" for line in lines), _METEOR_SECONDS).splitlines()
    if len(answers) != expected or not all(re.fullmatch(r"[-\d.E ]+", answer) for answer in answers):
        raise NotComputed(f"METEOR's program gave {len(answers)} answers for {expected}")
    return answers


def _field(text: str) -> str:
    return text.replace("|||", " ").strip()


def spice(systems: Sequence[System]) -> list[float]:
    """SPICE of each system, 0 to 1, with three decimals (Anderson et al. 2016).

    Raises NotComputed if Java or jars are missing, or the program fails.
    """
    java_program()
    classes = [PACKAGE / "spice" / "spice-1.0.jar", PACKAGE / "spice" / "lib" / "*", *stanford_jars()]
    return [_spice(system, os.pathsep.join(map(str, classes))) for system in systems]


def _spice(system: System, classes: str) -> float:
    rows = [
        {"image_id": number, "test": hypothesis, "refs": list(several)}
        for number, (hypothesis, several) in enumerate(zip(*system, strict=True))
    ]
    with temporary_folder() as folder:
        captions = folder / "captions.json"
        captions.write_text(json.dumps(rows), encoding="utf-8")
        arguments = [
            "-Xmx8G",
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            classes,
            "edu.anu.spice.SpiceScorer",
            str(captions),
        ]
        output = run_java(arguments, "", _SPICE_SECONDS)
    found = re.search(r"f-score:\s*([\d.]+) \(SPICE metric\)", output)
    if found is None:
        raise NotComputed("SPICE's program printed no score")
    return float(found[1])


def stanford_jars() -> list[Path]:
    """Return the paths of the two Stanford jars for SPICE.

    Raises NotComputed if no `stanford_folders` has both.
    """
    for folder in stanford_folders():
        if all((folder / name).is_file() for name in STANFORD_JARS):
            return [folder / name for name in STANFORD_JARS]
    archive = "https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"
    raise NotComputed(f"{' and '.join(STANFORD_JARS)} of {archive} are not in {stanford_folders()[-1]}")


def stanford_folders() -> list[Path]:
    """Folders for the jars: pycocoevalcap's, where its own downloader saves them, and the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [PACKAGE / "spice" / "lib", cache / "fashioniq" / "spice"]

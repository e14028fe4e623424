"""METEOR and SPICE, whose programs pycocoevalcap brings along.

Its classes are not used, only the programs. METEOR's class waits for ever where Java dies. SPICE's writes into the installed package, and
asks for a file that the program can write only with the JavaScript of Java 14 and older; the score that it prints needs none.
"""

import gzip
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fashioniq.metrics.java import PACKAGE, NotComputed, java_program, run_java

System = tuple[Sequence[str], Sequence[Sequence[str]]]  # tokenised hypotheses, and the tokenised references of each

STANFORD_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_METEOR_SECONDS, _SPICE_SECONDS = 1800, 7200  # a hundred times what Fashion IQ's val split takes


def meteor(systems: Sequence[System]) -> list[float]:
    """METEOR 1.5 of each system's captions, 0 to 1 (Denkowski and Lavie 2014). Raises NotComputed where Java does not do it.

    The program is run twice: it counts the matches of each caption, then it sums up the counts of each system. The second run
    matches nothing and gets an empty paraphrase table: loading the real one takes more than ten seconds.
    """
    asked = [
        " ||| ".join(["SCORE", *(_field(reference) for reference in several), _field(hypothesis)])
        for hypotheses, references in systems
        for hypothesis, several in zip(hypotheses, references, strict=True)
    ]
    counts = iter(_meteor_answers(asked, len(asked)))
    evals = [" ||| ".join(["EVAL", *(next(counts) for _ in hypotheses)]) for hypotheses, _ in systems]
    with tempfile.TemporaryDirectory() as folder:
        no_paraphrases = Path(folder) / "paraphrases.gz"
        no_paraphrases.write_bytes(gzip.compress(b""))
        answers = _meteor_answers(evals, len(asked) + len(systems), "-a", str(no_paraphrases))
    scores, place = [], -1
    for hypotheses, _ in systems:  # the answer to EVAL is the score of each caption, then that of all
        place += len(hypotheses) + 1
        scores.append(float(answers[place]))
    return scores


def _meteor_answers(lines: Sequence[str], expected: int, *options: str) -> list[str]:
    arguments = ["-Xmx2G", "-jar", str(PACKAGE / "meteor" / "meteor-1.5.jar"), "-", "-", "-stdio", "-l", "en", "-norm", *options]
    answers = run_java(arguments, "".join(line + "\n" for line in lines), _METEOR_SECONDS).splitlines()
    if len(answers) != expected or not all(re.fullmatch(r"[-\d.E ]+", answer) for answer in answers):
        raise NotComputed(f"METEOR's program gave {len(answers)} answers for {expected}")
    return answers


def _field(text: str) -> str:
    return text.replace("|||", " ").strip()


def spice(systems: Sequence[System]) -> list[float]:
    """SPICE of each system's captions, 0 to 1, to three decimals (Anderson et al. 2016). Raises NotComputed where Java or its jars do not do it."""
    java_program()
    classes = [PACKAGE / "spice" / "spice-1.0.jar", PACKAGE / "spice" / "lib" / "*", *stanford_jars()]
    return [_spice(system, os.pathsep.join(map(str, classes))) for system in systems]


def _spice(system: System, classes: str) -> float:
    rows = [{"image_id": number, "test": hypothesis, "refs": list(several)} for number, (hypothesis, several) in enumerate(zip(*system, strict=True))]
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "captions.json"
        captions.write_text(json.dumps(rows), encoding="utf-8")
        arguments = ["-Xmx8G", f"-Djava.io.tmpdir={folder}", "-cp", classes, "edu.anu.spice.SpiceScorer", str(captions)]
        said = run_java(arguments, "", _SPICE_SECONDS)
    found = re.search(r"f-score:\s*([\d.]+) \(SPICE metric\)", said)
    if found is None:
        raise NotComputed("SPICE's program printed no score")
    return float(found[1])


def stanford_jars() -> list[Path]:
    """The two jars that SPICE needs besides. Raises NotComputed where they are not in one of the folders of `stanford_folders`."""
    for folder in stanford_folders():
        if all((folder / name).is_file() for name in STANFORD_JARS):
            return [folder / name for name in STANFORD_JARS]
    raise NotComputed("Stanford's jars are not there: `fashioniq fetch-spice` gets them")


def stanford_folders() -> list[Path]:
    """Where the jars may lie: in pycocoevalcap, where its own downloader puts them, or in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [PACKAGE / "spice" / "lib", cache / "fashioniq" / "spice"]

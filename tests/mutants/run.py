"""Mutation testing: are small bugs in the package noticed by its tests?

    python tests/mutants/run.py --sample 400 --seed 0

Each mutant is one change of one line (`population.py`). The tests that reach the line are run on it: those of
tests/unit, and on what these do not catch, those of tests/end_to_end and tests/golden. They run in a copy of the
checkout: first in a fork of a process that has collected the unit tests (`warm.py`), then, with what that leaves, in one
that has imported torch only (`forks.py`). What is measured and found is kept in the folder `mutants`: a run that was
interrupted goes on, and survivors are tried again when tests have changed.
"""

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # a forked process hangs where its parent had OpenMP threads
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the package is loaded
sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest
from covering import Reached, covering
from forks import Chosen, Measured, forked, import_libraries
from population import ROOMS, Mutant, changed_lines, mutated_files, room_of, sample
from warm import Warm

ROOT = Path(__file__).resolve().parents[2]
STAGES = {"unit tests": ("unit",), "other tests": ("end_to_end", "golden")}  # outcome: folders of its tests
OUTCOMES = (*STAGES, "time limit", "survived")
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
LEAST = 60.0  # seconds of processor time that a mutant may take; more if its tests take more


class Trials:
    """Copy of the checkout in `folder`, in which tests are measured and mutants tried."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        shutil.rmtree(self.tree, ignore_errors=True)
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)
        os.chdir(self.tree)

    def files(self, kinds: Sequence[str]) -> list[str]:
        """Test files in these folders of tests/."""
        paths = [path for kind in kinds for path in sorted((self.tree / "tests" / kind).rglob("test_*.py"))]
        return [path.relative_to(self.tree).as_posix() for path in paths]

    def measure(self, kinds: Sequence[str]) -> Reached:
        """The lines that the tests of each file reach; files that have not changed since are not measured again."""
        (self.folder / "reached").mkdir(exist_ok=True)
        fixtures = [path.read_bytes() for path in sorted((self.tree / "tests").rglob("conftest.py"))]
        found, files = {}, self.files(kinds)
        for number, name in enumerate(files, start=1):
            kept = self.folder / "reached" / f"{name.replace('/', '-')}.json"
            own = _digest((self.tree / name).read_bytes(), *fixtures)
            known = json.loads(kept.read_text()) if kept.exists() else None
            if known is None or known["digest"] != self._digest_of(known, own):
                known, why = forked(functools.partial(self._measured, name), self.folder / "measured", 3600)
                if known is None:
                    raise SystemExit(f"{name}: {why}; see {self.folder / 'measured.log'}")
                known["digest"] = self._digest_of(known, own)
                kept.write_text(json.dumps(known))
                spent = sum(known["seconds"].values())
                print(
                    f"{number}/{len(files)} {name}: {len(known['seconds'])} tests, {spent:.0f} s", flush=True
                )
                for failed in known["failed"]:
                    print(f"    fails without a mutant, and is left out: {failed}", flush=True)
            found[name] = known
        return found

    def _digest_of(self, known: dict[str, Any], own: str) -> str:
        """Digest of a test file and of the sources that its tests reach."""
        sources = (self.tree / path for path in sorted(known["lines"]))
        return _digest(own.encode(), *(path.read_bytes() if path.exists() else b"" for path in sources))

    def _measured(self, name: str) -> dict[str, Any]:
        sources = [str(self.tree / path) for path in mutated_files(self.tree)]
        measured = Measured(sources, self.folder / "forked")
        code = pytest.main([name, *OPTIONS, f"--basetemp={self.folder / 'tmp'}"], [measured])
        if code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            raise RuntimeError(f"pytest ended with {code!r}")
        return measured.result(self.tree)

    def judge(self, mutant: Mutant, source: str, tests: dict[str, float]) -> dict[str, Any]:
        """Whether the tests, given with their seconds, end with "failed", "time limit" or "passed", and at which."""
        path = self.tree / mutant.path
        before, made = path.read_text(encoding="utf-8"), path.stat()
        limit = max(LEAST, 20 + 5 * sum(tests.values()))
        failed, why = "", ""
        try:
            path.write_text(source, encoding="utf-8")
            os.utime(path, (made.st_atime, made.st_mtime + 100))  # not the time that is in cached bytecode
            if tests:
                failed, why = forked(functools.partial(self._failed, tests), self.folder / "tried", limit)
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, (made.st_atime, made.st_mtime))
        ended = {"limit": "time limit", "died": "failed"}.get(why) or ("failed" if failed else "passed")
        return {"ended": ended, "by": failed or why, "tests": len(tests)}

    def _failed(self, tests: dict[str, float]) -> str:
        """The first of these tests that fails."""
        sys.dont_write_bytecode = True
        plugin = Chosen(tests)
        files = sorted({name.partition("::")[0] for name in tests})
        code = pytest.main([*files, *OPTIONS, "-x", f"--basetemp={self.folder / 'tmp'}"], [plugin])
        # what tests leave behind fails a whole run only, as other programs of the machine may have left it
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        return plugin.failed or ("" if code in ended else f"pytest ended with {code!r}")


def _digest(*contents: bytes) -> str:
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def tried_warm(trials: Trials, chosen: Sequence[tuple[Mutant, str]], log: Path, stage: str) -> None:
    """Record mutants that tests of a stage notice in a process that has collected all of them (see `Warm`)."""
    reached = trials.measure(STAGES[stage])
    known = {one["mutant"] for one in records_of(log)}
    left = [one for one in chosen if _name(*one) not in known]

    def noticed(mutant: Mutant, source: str, by: str) -> None:
        ended = "time limit" if by == "limit" else "failed"
        _record(trials, log, stage, (mutant, source), {"ended": ended, "by": by, "against": ""})

    def run() -> int:
        mutants = [(*one, covering(one[0], trials.tree, reached)) for one in left]
        return int(
            pytest.main(
                [*reached, *OPTIONS, f"--basetemp={trials.folder / 'tmp'}"],
                plugins=[Warm(trials.tree, mutants, noticed)],
            )
        )

    forked(run, trials.folder / "warm", 24 * 3600)


def judged(
    trials: Trials, chosen: Sequence[tuple[Mutant, str]], log: Path, stage: str
) -> list[tuple[Mutant, str]]:
    """Run the tests of a stage on mutants, and return those that survive; records are appended to `log`.

    What an earlier run found is not tried again, but survivors are if tests have changed.
    """
    reached = trials.measure(STAGES[stage])
    known = {(one["mutant"], one["stage"]): one for one in records_of(log)}
    left = []
    for mutant, source in chosen:
        tests = covering(mutant, trials.tree, reached)
        files = sorted({test.partition("::")[0] for test in tests})
        against = _digest(
            *(reached[file]["digest"].encode() for file in files), *map(str.encode, sorted(tests))
        )
        record = known.get((_name(mutant, source), stage))
        if record is None or (record["ended"] == "passed" and record["against"] != against):
            found = trials.judge(mutant, source, tests) | {"against": against}
            record = _record(trials, log, stage, (mutant, source), found)
        if record["ended"] == "passed":
            left.append((mutant, source))
    return left


def _name(mutant: Mutant, source: str) -> str:
    return f"{mutant.path} {_digest(source.encode())}"


def _record(
    trials: Trials, log: Path, stage: str, tried: tuple[Mutant, str], found: dict[str, Any]
) -> dict[str, Any]:
    """Append what was found of a mutant to the log."""
    mutant, source = tried
    before = (trials.tree / mutant.path).read_text(encoding="utf-8")
    change = list(changed_lines(before, source))
    record = {"mutant": _name(*tried), "stage": stage, **mutant._asdict(), "change": change, **found}
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    print(f"{mutant.path}:{mutant.line} {record['ended']} ({stage})", flush=True)
    return record


def records_of(log: Path) -> list[dict[str, Any]]:
    """The records of a log; the last ones of a mutant count."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def report(chosen: Sequence[tuple[Mutant, str]], log: Path) -> str:
    """A table of the outcomes by room, and the mutants that survived."""
    last = {(one["mutant"], one["stage"]): one for one in records_of(log)}
    outcomes, survivors = defaultdict(Counter), []
    for mutant, source in chosen:
        name = _name(mutant, source)
        found = {stage: last[name, stage] for stage in STAGES if (name, stage) in last}
        outcome = "survived"
        for stage, record in found.items():
            if outcome == "survived" and record["ended"] != "passed":
                outcome = stage if record["ended"] == "failed" else "time limit"
        for room in (room_of(mutant.path), "sum"):
            outcomes[room][outcome] += 1
        if outcome == "survived":
            tests = ", ".join(f"{record.get('tests', 0)} {stage}" for stage, record in found.items())
            survivors += ["", f"{mutant.path}:{mutant.line} {mutant.operator} ({tests})"]
            survivors += [f"    {line}" for line in next(iter(found.values()))["change"]]
    lines = [f"| room | mutants | {' | '.join(OUTCOMES)} | caught |"]
    lines.append("| --- |" + " ---: |" * (len(OUTCOMES) + 2))
    for room in (*ROOMS, "sum"):
        if total := outcomes[room].total():
            cells = " | ".join(str(outcomes[room][outcome]) for outcome in OUTCOMES)
            caught = 100 * (1 - outcomes[room]["survived"] / total)
            lines.append(f"| {room} | {total} | {cells} | {caught:.1f} % |")
    return "\n".join(lines + survivors)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=400, help="mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "mutants", help="folder of the copy and the results"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    trials, log = Trials(folder), folder / f"seed-{arguments.seed}.jsonl"
    import_libraries(trials.tree, [name for kinds in STAGES.values() for name in trials.files(kinds)])
    chosen = sample(trials.tree, arguments.sample, arguments.seed)
    left = chosen
    tried_warm(trials, chosen, log, next(iter(STAGES)))
    for stage in STAGES:
        left = judged(trials, left, log, stage)
    print(report(chosen, log))


if __name__ == "__main__":
    main()

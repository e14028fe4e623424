"""The complete hostile suite: about 10,000 seeded cases in two worker processes, and a table of the outcomes.

    python tests/hostile/run.py --seed 1
    python tests/hostile/run.py --seed 1 --only="run folder:17" --keep

Case N of a class depends on seed, class and N alone, so that it can be run again by itself. The exit code is
1 if there was a traceback, a hang, or anything half-written or silently wrong.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # a forked process hangs where its parent had OpenMP threads
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the package is loaded
sys.path.insert(0, str(Path(__file__).resolve().parent))

from classes import CLASSES
from judge import BAD, LIMIT, OUTCOMES, ROUNDS, Printed, Trial, Verdict, cleared, judge
from kills import run_kills
from world import Room, World, make_world

from fashioniq import http

CASES_OF_A_WORKER = 1_000  # its memory grows
MEMORY = 3 << 30  # bytes that a worker may take beyond those of the imported packages
Job = tuple[str, int]


def prepare_process(base: Path) -> None:
    """Limit the memory, hide Java, which takes 15 s to start, and leave out the pauses between attempts; malicious
    content would find `touch`.
    """
    http.PAUSE = 0.0
    (base / "bin").mkdir()
    (base / "bin" / "touch").symlink_to(shutil.which("touch") or "/bin/touch")
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc").is_dir() else 1 << 21
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.environ |= {"PATH": str(base / "bin"), "NO_PROXY": "127.0.0.1"}


def run_case(
    world: World, base: Path, printed: Printed, seed: int, job: Job, keep: bool = False
) -> dict[str, Any]:
    """Make and judge one case; return its record."""
    name, number = job
    folder = base / f"{name.replace(' ', '-').strip('-')}-{number}"
    room = Room(world, folder / "room")
    rng = Random(f"{seed}/{name}/{number}")
    began = time.process_time()
    case = CLASSES[name].make(room, rng)
    if keep:
        print(" ".join(case.arguments), flush=True)
    verdict = case.play() if isinstance(case, Trial) else judge(case, room, printed)
    record = {"class": name, "case": number, "seed": seed, "what": case.what, "arguments": case.arguments}
    if not keep:
        cleared(folder)
    return {**record, **verdict._asdict(), "seconds": time.process_time() - began}


def work(world: World, base: Path, seed: int, pipe: Connection) -> None:
    """Judge the cases that come through the pipe, until it is closed."""
    base.mkdir(parents=True)
    multiprocessing.current_process()._config["daemon"] = (
        False  # so that commands may have processes of their own
    )
    prepare_process(base)
    printed = Printed(base)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            record = run_case(world, base, printed, seed, job)
        except Exception as error:  # a mistake of the generator, not of the package
            record = {"class": job[0], "case": job[1], "seed": seed, "what": "generator", "seconds": 0.0}
            record |= {"outcome": "traceback", "problem": f"the generator failed: {error!r}"}
        pipe.send(record)


class Worker:
    """A process that judges one case after another."""

    def __init__(self, world: World, base: Path, seed: int) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(world, base, seed, other), daemon=True)
        self.process.start()
        other.close()
        self.job: Job | None = None
        self.since, self.given = 0.0, 0

    def give(self, job: Job) -> None:
        """Start a case."""
        self.job, self.since, self.given = job, time.monotonic(), self.given + 1
        self.pipe.send(job)

    def end(self) -> None:
        """Stop the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join(LIMIT)


def run_all(
    world: World, base: Path, seed: int, jobs: Sequence[Job], workers: int
) -> Iterator[dict[str, Any]]:
    """Records of all cases. A worker that dies or hangs is replaced."""
    left = iter(jobs)
    made = 0
    running: list[Worker] = []

    def start() -> Worker:
        nonlocal made
        made += 1
        return Worker(world, base / f"worker-{made}", seed)

    for _ in range(workers):
        if (job := next(left, None)) is not None:
            running.append(start())
            running[-1].give(job)
    while running:
        ready = wait([worker.pipe for worker in running], timeout=1)
        for place, worker in enumerate(list(running)):
            lost = worker.pipe not in ready and time.monotonic() - worker.since > (ROUNDS + 2) * LIMIT
            if worker.pipe not in ready and not lost:
                continue
            job = worker.job
            assert job is not None
            record = {"class": job[0], "case": job[1], "seed": seed, "what": "", "seconds": float(LIMIT)}
            try:
                yield {**record, "outcome": "hang", "problem": "killed"} if lost else worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join(LIMIT)
                yield {
                    **record,
                    "outcome": "traceback",
                    "problem": f"process died: {worker.process.exitcode}",
                }
                lost = True
            if lost or worker.given == CASES_OF_A_WORKER:
                worker.end()
                running[place] = worker = start()
            if (following := next(left, None)) is not None:
                worker.give(following)
            else:
                worker.end()
                running[place] = worker
                worker.job = None
        running = [worker for worker in running if worker.job is not None]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Markdown table: outcomes by class, and their sum."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        counts[record["class"]][record["outcome"]] += 1
    rows = [["class", "tried", *OUTCOMES]]
    tried = [(name, counts[name]) for name in [*CLASSES, "SIGKILL"] if name in counts]
    for name, found in [*tried, ("**sum**", sum(counts.values(), Counter()))]:
        rows.append([name, f"{found.total():,}", *(f"{found[outcome]:,}" for outcome in OUTCOMES)])
    rows.insert(1, ["---", *["---:"] * (len(rows[0]) - 1)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def jobs_of(cases: int, only: Sequence[str]) -> list[Job]:
    """Cases of all classes in a mixed order; of a class in its share of `cases`."""
    if only:
        named = [one.rpartition(":") if one.rpartition(":")[2].isdigit() else (one, "", "") for one in only]
        return [
            (name, number)
            for name, _, one in named
            for number in ([int(one)] if one else range(CLASSES[name].cases))
        ]
    whole = sum(one.cases for one in CLASSES.values())
    jobs = [
        (name, number)
        for name, one in CLASSES.items()
        for number in range(max(1, round(one.cases * cases / whole)))
    ]
    Random(0).shuffle(jobs)
    return jobs


def parsed() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of all cases")
    parser.add_argument("--cases", type=int, default=10_200, help="number of cases besides --kills")
    parser.add_argument(
        "--kills", type=int, default=40, help="cases of commands that are killed and run again"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CLASS[:N]",
        help="a class or a single case; may be repeated",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the rooms of --only, one process, full output"
    )
    parser.add_argument("--log", type=Path, help="file for the record of each case, as JSON lines")
    return parser.parse_args()


def main() -> int:
    """Run the suite and print the table."""
    settings = parsed()
    shared = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="fashioniq-hostile-", dir=shared if shared.is_dir() else None))
    began = time.monotonic()
    records = []
    try:
        world = make_world(base / "world")
        if settings.kills and not settings.only:
            for record in run_kills(world, base / "kills", settings.seed, settings.kills, settings.workers):
                records.append(record)
                report(record, 0, 0, 0.0, settings.keep)
        jobs = jobs_of(settings.cases, settings.only)
        print(f"{len(jobs):,} cases of {len(CLASSES)} classes, seed {settings.seed}", flush=True)
        if settings.keep:
            prepare_process(base)
            printed = Printed(base)
            found: Iterator[dict[str, Any]] = (
                run_case(world, base, printed, settings.seed, job, keep=True) for job in jobs
            )
        else:
            found = run_all(world, base, settings.seed, jobs, settings.workers)
        before = len(records)
        with open(settings.log or os.devnull, "w", encoding="utf-8") as log:
            for record in found:
                records.append(record)
                log.write(json.dumps(record) + "\n")
                log.flush()
                report(record, len(records) - before, len(jobs), time.monotonic() - began, settings.keep)
    finally:
        if not settings.keep:
            shutil.rmtree(base, ignore_errors=True)
    spent = os.times()
    print(table(records))
    print(
        f"seed {settings.seed}: {len(records):,} cases in {(time.monotonic() - began) / 60:.1f} minutes with "
        f"{settings.workers} processes, {(sum(spent[:4])) / 60:.1f} minutes of processor time"
    )
    return int(any(record["outcome"] in BAD for record in records))


def report(record: dict[str, Any], done: int, jobs: int, seconds: float, whole: bool) -> None:
    """Print a case that failed, and every thousandth one."""
    if record["outcome"] in BAD or whole:
        text = record["problem"] if whole else record["problem"][-400:].replace("\n", " | ")
        print(
            f"{record['class']}:{record['case']} {record['outcome']}: {record['what'][:200]}: {text}",
            flush=True,
        )
    if done and done % 1000 == 0:
        print(f"{done:,} of {jobs:,} cases after {seconds / 60:.1f} minutes", flush=True)


def sampled() -> list[Job]:
    """Cases of the fixed sample of `make test`."""
    return [(name, number) for name, one in CLASSES.items() for number in range(one.sampled)]


__all__ = ["Verdict", "run_case", "sampled"]

if __name__ == "__main__":
    raise SystemExit(main())

"""Benchmark of speed and memory against the reference implementation, and against the limits of the machine.

    python benchmarks/speed.py                                    # every stage, on one thread and on all
    python benchmarks/speed.py --stage ranks greedy --threads 1 --repeats 5
    python benchmarks/speed.py --table                            # tables of docs/performance.md
    python benchmarks/speed.py --plot growth.svg

Each stage runs in its own process. First both implementations are checked for equal results, then they are
timed alternately, each time after a large matrix product and a copy that measure the machine. Rows in
benchmarks/latest.json are replaced by stage, device and threads.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import counts
import stages
import torch
from stages import GROWTH, STAGES, Setting, Stage

from fashioniq.files import write_text

LATEST = Path(__file__).parent / "latest.json"
GPU_BATCHES = (2, 32, 128, 512, 2048)
SAME_ROW = ("stage", "grows", "n", "device", "threads", "batch", "precision", "small")
GIGA = 1e9
LONGEST = 6 * 3600.0  # seconds of a stage
Row = dict[str, Any]


def measure(stage: Stage, setting: Setting, repeats: int) -> Row:
    """Check and time a stage; return a row with seconds, ratio, memory and share of the machine's peak rates.

    Raises stages.Different.
    """
    facts, device = stage.check(), setting.device
    rates: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    plainly: list[tuple[float, float]] = []
    base = _peak(device, lambda: None)
    if device.type == "cuda":  # the first calls load kernels
        stage.ours()
        if stage.plain:
            stage.plain()
    for _ in range(repeats):
        rates.append(machine_rates(setting, stage.dtype))
        ours.append(_time_and_peak(stage.ours, setting))
        if stage.plain:
            plainly.append(_time_and_peak(stage.plain, setting))
    ours_s, (flops, copied) = _median(ours, 0), (_median(rates, side) for side in (0, 1))
    row: Row = {"size": stage.size, "ours_s": ours_s, "plain_s": None, "ratio": None, "spread": None}
    if plainly:
        ratios = [slow[0] / stage.plain_part / fast[0] for slow, fast in zip(plainly, ours, strict=True)]
        row |= {
            "plain_s": _median(plainly, 0) / stage.plain_part,
            "ratio": statistics.median(ratios),
            "spread": [min(ratios), max(ratios)],
        }
    row |= {
        "unit": stage.unit,
        "per_s": stage.count / ours_s,
        "base_gb": base,
        "ours_gb": max(peak for _, peak in ours),
    }
    row["plain_gb"] = max((peak for _, peak in plainly), default=None)
    needs = stage.needs()
    arithmetic_s, bytes_s = needs.flops / flops, needs.bytes / copied
    floor_s = max(arithmetic_s, bytes_s)
    row |= {
        "gflop": needs.flops / GIGA,
        "gbyte": needs.bytes / GIGA,
        "floor_s": floor_s,
        "share": floor_s / ours_s,
    }
    row |= {
        "matmul_share": arithmetic_s / ours_s,
        "bound": "arithmetic" if arithmetic_s >= bytes_s else "bytes",
    }
    dtype = str(stage.dtype).removeprefix("torch.")
    return (
        row
        | facts
        | {"dtype": dtype, "gflop_per_s": flops / GIGA, "gbyte_per_s": copied / GIGA, "repeats": repeats}
    )


def machine_rates(setting: Setting, dtype: torch.dtype) -> tuple[float, float]:
    """Measure operations per second of a large matrix product and bytes per second of a copy, each best of
    3."""
    on_gpu, small = setting.device.type == "cuda", setting.small
    side, numbers = (256, 2**20) if small else (8192, 2**28) if on_gpu else (2048, 2**26)
    a, b = (torch.randn(side, side, device=setting.device, dtype=dtype) for _ in range(2))
    x, y = (torch.ones(numbers, device=setting.device) for _ in range(2))
    product, copy = (
        min(_seconds(call, setting) for _ in range(3)) for call in (lambda: a @ b, lambda: y.copy_(x))
    )
    return 2 * side**3 / product, 2 * counts.FLOAT * numbers / copy


def _median(pairs: list[tuple[float, float]], side: int) -> float:
    return statistics.median(pair[side] for pair in pairs)


def _seconds(call: Callable[[], Any], setting: Setting) -> float:
    clock = time.process_time if setting.cpu_time else time.perf_counter
    _wait(setting.device)
    start = clock()
    call()
    _wait(setting.device)
    return clock() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _time_and_peak(call: Callable[[], Any], setting: Setting) -> tuple[float, float]:
    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        seconds = _seconds(call, setting)

    peak = _peak(setting.device, timed)
    return seconds, peak


def _peak(device: torch.device, call: Callable[[], Any]) -> float:
    """Peak memory, in GB, while `call` runs: of the GPU, or of the process.

    Without /proc, it is the peak since the process was started.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() / GIGA
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        call()
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource

        call()
        return (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            * (1 if sys.platform == "darwin" else 1024)
            / GIGA
        )
    return next(
        int(line.split()[1]) * 1024 / GIGA for line in status.splitlines() if line.startswith("VmHWM")
    )


def rows_of(name: str, setting: Setting, repeats: int) -> Iterator[Row]:
    """Measure a stage, or all stages of growth, and yield their rows."""
    made = stages.growth(setting) if name == GROWTH else [(None, None, STAGES[name](setting))]
    what = {
        "stage": name,
        "device": setting.device.type,
        "threads": torch.get_num_threads(),
        "batch": setting.batch,
        "precision": "bf16-mixed" if setting.bfloat16 else "32-true",
        "small": setting.small,
        "machine": torch.cuda.get_device_name() if setting.device.type == "cuda" else _processor(),
        "torch": torch.__version__,
    }
    for grows, n, stage in made:
        yield {**what, "grows": grows, "n": n, **measure(stage, setting, repeats)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def all_rows(name: str, setting: Setting, threads: int, repeats: int) -> list[Row]:
    """Measure the rows of a stage; runs in its own process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    return list(rows_of(name, setting, repeats))


def in_own_process(*arguments: Any) -> list[Row]:
    os.environ["OMP_NUM_THREADS"] = str(arguments[2])  # FAISS reads it when it is loaded
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            return process.submit(all_rows, *arguments).result(LONGEST)
        except TimeoutError:
            for one in active_children():  # the end of the block waits for them
                one.kill()
            raise


def put_rows(path: Path, rows: list[Row]) -> None:
    """Write rows to a file, replacing rows with the same keys SAME_ROW."""
    kept = {tuple(row[key] for key in SAME_ROW): row for row in [*read_rows(path), *rows]}
    write_text(path, json.dumps(list(kept.values()), indent=1) + "\n")


def read_rows(path: Path) -> list[Row]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def row_text(row: Row) -> str:
    ratio = (
        f", {row['ratio']:.1f} × the plain {row['plain_s']:.2f} s ({row['spread'][0]:.1f} to {row['spread'][1]:.1f})"
        if row["ratio"]
        else ""
    )
    return (
        f"{row['stage']:17} {row['size']}, {_where(row)}: {row['ours_s']:.3f} s{ratio}; {row['per_s']:.1f} {row['unit']}/s, "
        f"{row['share']:.0%} of the floor's speed ({row['bound']}), {row['matmul_share']:.0%} of the matrix product's rate, {row['ours_gb']:.2f} GB"
    )


def _where(row: Row) -> str:
    place = (
        f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
        if row["device"] == "cpu"
        else row["device"]
    )
    return place if row["precision"] == "32-true" else f"{place}, {row['precision']}"


def tables(rows: list[Row]) -> str:
    """Format rows as Markdown tables: ratios, needs and growth."""
    compared, growing = (
        [row for row in rows if (row["stage"] == GROWTH) is grows] for grows in (False, True)
    )
    machines = sorted({f"{row['machine']}, torch {row['torch']}" for row in rows})
    header = "| stage | size | where | ours, s | plain, s | ratio (least – most) | ours | peak GB, ours / plain / before |"
    lines = [*machines, "", header, "|" + "---|" * 8]
    for row in compared:
        plainly = ("–", "–", "–")
        if row["ratio"]:
            least, most = row["spread"]
            plainly = (
                f"{row['plain_s']:.2f}",
                f"**{row['ratio']:.1f}** ({least:.1f} – {most:.1f})",
                f"{row['plain_gb']:.2f}",
            )
        lines.append(
            f"| `{row['stage']}` | {row['size']} | {_where(row)} | {row['ours_s']:.2f} | {plainly[0]} | {plainly[1]} | "
            f"{row['per_s']:.1f} {row['unit']}/s | {row['ours_gb']:.2f} / {plainly[2]} / {row['base_gb']:.2f} |"
        )
    header = "| stage | where | GFLOP | GB | machine: GFLOP/s, GB/s | floor, s | bound by | share of floor's speed | of matrix product's rate |"
    lines += ["", header, "|" + "---|" * 9]
    for row in compared:
        lines.append(
            f"| `{row['stage']}` | {_where(row)} | {row['gflop']:,.0f} | {row['gbyte']:.2f} | {row['gflop_per_s']:,.0f} ({row['dtype']}), "
            f"{row['gbyte_per_s']:.1f} | {row['floor_s']:.2f} | {row['bound']} | {row['share']:.0%} | {row['matmul_share']:.0%} |"
        )
    lines += [
        "",
        "| grows | n | where | seconds | peak GB, before | share of the floor's speed |",
        "|---|---|---|---|---|---|",
    ]
    for row in growing:
        memory = f"{row['ours_gb']:.2f}, {row['base_gb']:.2f}"
        lines.append(
            f"| {row['grows']} | {row['n']:,} | {_where(row)} | {row['ours_s']:.3f} | {memory} | {row['share']:.0%} |"
        )
    return "\n".join(lines)


def plot(rows: list[Row], path: Path) -> None:
    """Plot growth as SVG: seconds (top) and memory beyond the data (bottom), one column per variable."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.fonttype"], matplotlib.rcParams["svg.hashsalt"] = "none", "fashioniq"
    growing = [row for row in rows if row["stage"] == GROWTH]
    columns = list(dict.fromkeys(row["grows"].split(",")[0] for row in growing))
    figure = Figure(figsize=(3 * len(columns), 5), layout="constrained")
    axes = figure.subplots(2, len(columns), squeeze=False)
    for column, name in enumerate(columns):
        for line in dict.fromkeys(
            (row["grows"], _where(row)) for row in growing if row["grows"].split(",")[0] == name
        ):
            points = [row for row in growing if (row["grows"], _where(row)) == line]
            for side, values in enumerate(
                (
                    [row["ours_s"] for row in points],
                    [max(1, 1000 * (row["ours_gb"] - row["base_gb"])) for row in points],
                )
            ):
                axes[side, column].loglog(
                    [row["n"] for row in points], values, marker="o", label=", ".join(line)
                )
        axes[0, column].set(title=name, ylabel="seconds")
        axes[1, column].set(xlabel=name, ylabel="MB beyond the data")
        axes[0, column].legend(fontsize=6)
    figure.savefig(path, format="svg", metadata={"Date": None})


def parse(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = lambda word: cores if word == "all" else int(word)  # noqa: E731
    parser.add_argument("--stage", nargs="+", choices=[*STAGES, GROWTH], default=[*STAGES, GROWTH])
    parser.add_argument(
        "--threads",
        nargs="+",
        type=count,
        default=sorted({1, cores}),
        help="thread counts, or all (default: 1 all)",
    )
    parser.add_argument(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="auto",
        help="device; auto is the CPU, and the GPU if available",
    )
    batch_help = "batch sizes in dialogs, captions or pictures (default: that of the stage; several on a GPU)"
    parser.add_argument("--batch", nargs="+", type=int, default=[], help=batch_help)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="bfloat16 autocast in our training steps; checks run without it",
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="CPU seconds of the process instead of elapsed ones, for a busy machine and one thread",
    )
    parser.add_argument("--small", action="store_true", help="small sizes that take seconds, for a test run")
    parser.add_argument("--out", type=Path, default=LATEST)
    parser.add_argument(
        "--table", action="store_true", help="print the rows of --out as Markdown, without measuring"
    )
    parser.add_argument(
        "--plot", type=Path, help="SVG file for a plot of the growth in --out, without measuring"
    )
    return parser.parse_args(given)


def settings_of(options: argparse.Namespace, name: str) -> Iterator[tuple[Setting, int]]:
    sizes = counts.SMALL if options.small else counts.PAPER
    devices = ["cpu", *["cuda"] * torch.cuda.is_available()] if options.device == "auto" else [options.device]
    for device in devices:
        on_gpu = device == "cuda"
        batches = (options.batch or (GPU_BATCHES if on_gpu else [None])) if name in stages.BATCHED else [None]
        for batch in batches:
            for threads in options.threads[-1:] if on_gpu else options.threads:
                yield (
                    Setting(
                        sizes,
                        torch.device(device),
                        batch,
                        options.bfloat16,
                        options.cpu_time,
                    ),
                    threads,
                )


def main(given: list[str] | None = None) -> None:
    options = parse(given)
    if options.table:
        print(tables(read_rows(options.out)))
        return
    if options.plot:
        plot(read_rows(options.out), options.plot)
        return
    for name in options.stage:
        for setting, threads in settings_of(options, name):
            try:
                rows = in_own_process(name, setting, threads, options.repeats)
            except torch.OutOfMemoryError:
                print(f"{name:17} batch {setting.batch}: out of GPU memory", flush=True)
                continue
            put_rows(options.out, rows)
            for row in rows:
                print(row_text(row), flush=True)


if __name__ == "__main__":
    main()

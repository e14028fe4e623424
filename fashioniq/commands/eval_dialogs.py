"""`fashioniq eval-dialogs`."""

from pathlib import Path
from typing import Any

from fashioniq.config import EvalDialogs
from fashioniq.evaluation.run import evaluate
from fashioniq.files import UserError
from fashioniq.report.tables import RANKS_COUNT, label, print_table, rounded, success_line

COLUMNS = ("turn", "P", "R@1", "R@5", "R@10", "R@50", "Hits@10", "MRR", "mean_rank", "median_rank")


def run(settings: EvalDialogs) -> None:
    """Simulate the dialogs, print the table, and write all results to the run's folder."""
    if settings.run is None:
        raise UserError("no retriever given: give --run RUN; `fashioniq cross` evaluates several")
    out = settings.out or settings.run / f"dialogs-{settings.split}{'-human' if settings.user == 'human' else ''}"
    _tell(evaluate(settings, settings.run, out), out)


def _tell(metrics: dict[str, Any], out: Path) -> None:
    print(
        f"{metrics['category']}, {metrics['split']} split: {metrics['dialogs']} dialogs, gallery {metrics['gallery']}, "
        f"{100 * metrics['coverage']:.1f} % of the split have features"
    )
    several = len(metrics["turns"]) > 1
    mean = ["mean", *(rounded(name, metrics["average"][name]) for name in COLUMNS[1:])] if several else None
    header = [label(name).replace(" ", "\n") for name in COLUMNS]
    print_table(header, [[rounded(name, turn[name]) for name in COLUMNS] for turn in metrics["turns"]], left=0, last=mean)
    print(RANKS_COUNT)
    if several:
        print(success_line(metrics["success"]))
    errors = f", {100 * metrics['errors']:g} % of the words err" if metrics["errors"] else ""
    print(
        f"by chance P 50, R@10 {min(100, 1000 / metrics['gallery']):.2f}, R@50 {min(100, 5000 / metrics['gallery']):.2f}; "
        f"features: {metrics['features']}; user: {metrics['user']}, {metrics['decoding']}{errors}"
    )
    if metrics["exclude_shown"]:
        print("no product is shown twice in a dialog; ranks count all")
    if index := metrics["index"]:
        how = "".join(f"{name} {index[name]}, " for name in ("nprobe", "efSearch") if name in index)
        print(f"what is shown is searched by the index {index['index']}: {how}recall@10 {index['recall@10']:.3f} on {index['queries']} queries")
    print(f"pictures: {metrics['pictures']}; captions: {metrics['captions']}")
    print(f"results in {out}, dialogs to look at in {out / 'report.html'}")

"""`fashioniq eval-dialogs`."""

from dataclasses import replace
from pathlib import Path

from fashioniq import plugins
from fashioniq.config import EvalDialogs, EvalGenIR, Evaluation
from fashioniq.data.dialog_log import FEEDBACK, write_feedback
from fashioniq.data.evaluations import UserTable
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.run import Evaluated, evaluate_tasks, measure_tasks, print_results, write_results
from fashioniq.evaluation.users import evaluate_users
from fashioniq.files import together
from fashioniq.systems import genir


def run(settings: Evaluation) -> Evaluated | UserTable:
    """Run the dialogs of a system, write all results and print the measures."""
    out = settings.folder()
    if isinstance(settings, EvalDialogs):
        return evaluate_users(settings, out)
    if isinstance(settings, EvalGenIR) and settings.record:
        return _record(settings, out)
    metrics = evaluate_tasks(
        plugins.find("systems", settings.system).build(settings), out, settings.batch_size
    )
    print_results(metrics, out)
    return metrics


def _record(settings: EvalGenIR, out: Path) -> Evaluated:
    """Run GenIR's dialogs, write their evaluation, and at last feedback.jsonl."""
    check_results(out)
    found = measure_tasks(genir.build(replace(settings, cache=out / "pictures")), settings.batch_size)
    with together(out, FEEDBACK):
        metrics = write_results(found, out)
        write_feedback(out, found[0].done.dialogs)
    print_results(metrics, out)
    print(f"{sum(len(dialog.turns) for dialog in found[0].done.dialogs):,} rounds in {out / FEEDBACK}")
    return metrics

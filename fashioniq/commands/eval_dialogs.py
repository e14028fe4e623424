"""`fashioniq eval-dialogs`."""

from dataclasses import replace
from pathlib import Path

from fashioniq.config import EvalDialogs, EvalGenIR, Evaluation
from fashioniq.data.visual_feedback import FILE, write_feedback
from fashioniq.evaluation.run import evaluate, measured, print_results, write_results
from fashioniq.evaluation.users import evaluate_users
from fashioniq.files import check_writable, discard
from fashioniq.systems import builder, genir


def run(settings: Evaluation) -> None:
    """Run the dialogs of a system, write all results and print the measures."""
    out = settings.folder()
    if isinstance(settings, EvalDialogs):
        evaluate_users(settings, out)
    elif isinstance(settings, EvalGenIR) and settings.record:
        _record(settings, out)
    else:
        tasks = builder(settings.system)(settings)
        print_results(evaluate(tasks, out, settings.batch_size), out)


def _record(settings: EvalGenIR, out: Path) -> None:
    """Run GenIR's dialogs, write their evaluation, and at last feedback.jsonl."""
    check_writable(out)
    found = measured(genir.build(replace(settings, cache=out / "pictures")), settings.batch_size)
    discard(out, FILE)
    metrics = write_results(found, out)
    write_feedback(out, found[0].done.dialogs)
    print_results(metrics, out)
    print(f"{sum(len(dialog.turns) for dialog in found[0].done.dialogs):,} rounds in {out / FILE}")

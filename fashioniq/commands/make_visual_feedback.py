"""`fashioniq make-visual-feedback`."""

from dataclasses import replace

from fashioniq.config import MakeVisualFeedback
from fashioniq.data.visual_feedback import FILE, write_feedback
from fashioniq.evaluation.run import measured, print_results, write_results
from fashioniq.files import check_writable, discard
from fashioniq.systems import genir


def run(settings: MakeVisualFeedback) -> None:
    """Run GenIR's dialogs, write their evaluation, and at last feedback.jsonl."""
    out = settings.folder()
    check_writable(out)
    settings = replace(settings, cache=settings.cache or out / "pictures")
    found = measured(genir.build(settings), settings.batch_size)
    discard(out, FILE)
    metrics = write_results(found, out)
    write_feedback(out, found[0].done.dialogs)
    print_results(metrics, out)
    print(f"{sum(len(dialog.turns) for dialog in found[0].done.dialogs):,} rounds in {out / FILE}")

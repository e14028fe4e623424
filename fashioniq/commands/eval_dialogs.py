"""`fashioniq eval-dialogs`."""

from fashioniq.config import Evaluation
from fashioniq.evaluation.run import evaluate, print_results
from fashioniq.systems import builder


def run(settings: Evaluation) -> None:
    """Run the dialogs of a system, write all results and print the measures."""
    out = settings.folder()
    tasks = builder(settings.system)(settings)
    print_results(evaluate(tasks, out, settings.batch_size), out)

"""`fashioniq eval-dialogs`."""

from fashioniq.config import EvalDialogs, Evaluation
from fashioniq.evaluation.run import evaluate, print_results
from fashioniq.evaluation.users import evaluate_users
from fashioniq.systems import builder


def run(settings: Evaluation) -> None:
    """Run the dialogs of a system, write all results and print the measures."""
    out = settings.folder()
    if isinstance(settings, EvalDialogs):
        evaluate_users(settings, out)
        return
    tasks = builder(settings.system)(settings)
    print_results(evaluate(tasks, out, settings.batch_size), out)

"""`fashioniq train-generator`."""

from typing import Any

from fashioniq.config import TrainGenerator
from fashioniq.report.tables import one_decimal, print_table
from fashioniq.report.training_plots import write_pairs
from fashioniq.runs import GeneratorRun
from fashioniq.training.folder import Trained
from fashioniq.training.generator import TrainedGenerator, train_generator


def run(settings: TrainGenerator) -> Trained[GeneratorRun]:
    """Train a picture generator, and write it with its evaluation and a contact sheet."""
    trained = train_generator(settings)
    path = trained.folder / "contact_sheet.png"
    title = f"{trained.about.category}: test products (left) and pictures generated for their words (right)"
    write_pairs(path, title, trained.samples)
    _print_figures(trained, trained.about)
    print(f"contact sheet in {path}")
    return Trained(trained.folder, trained.about)


def _print_figures(trained: TrainedGenerator, about: GeneratorRun) -> None:
    figures: Any = about.metrics
    print(
        f"generator of epoch {figures['epoch']:.0f} in {trained.folder}: validation loss {figures['val_loss']:.4f}, "
        f"{len(about.words)} words"
    )
    if not isinstance(about.evaluation, dict):
        print("no evaluation without --predictor")
        return
    kinds = ("real", "generated", "control")
    rows = [
        [name, "", *(one_decimal(about.evaluation[kind][key]) for kind in kinds)]
        for name, key in (("colors", "colors"), ("other words", "others"))
    ]
    for family, real in about.evaluation["real"]["families"].items():
        shares = [about.evaluation[kind]["families"][family]["found"] for kind in kinds]
        rows.append([family, str(real["words"]), *map(one_decimal, shares)])
    title = f"words found by {about.evaluation['predictor']}, {about.evaluation['products']} test products, percent"
    print_table(["words", "asked", "real", "generated", "control"], rows, title=title)

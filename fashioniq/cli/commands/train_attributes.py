"""`fashioniq train-attributes`."""

from contextlib import suppress

import numpy as np

from fashioniq.config import TrainAttributes
from fashioniq.data.images import UnreadableImage
from fashioniq.data.labelled import YES
from fashioniq.data.photos import load_photo
from fashioniq.metrics.attributes import TOP
from fashioniq.report.tables import print_table, ten_of
from fashioniq.report.training_plots import (
    OF_ATTRIBUTES,
    Cell,
    read_epochs,
    write_attribute_curves,
    write_contact_sheet,
)
from fashioniq.runs import PredictorRun, read_run
from fashioniq.training.attributes import TrainedStage, train_attributes
from fashioniq.training.folder import Trained

ON_SHEET = 24  # pictures on the contact sheet


def run(settings: TrainAttributes) -> Trained[PredictorRun]:
    """Train a stage of the attribute predictor, and write it with its measures, curves and a contact sheet."""
    trained = train_attributes(settings)
    _write_plots(trained)
    _print_measures(trained)
    return Trained(trained.folder, read_run(trained.folder, PredictorRun))


def _write_plots(trained: TrainedStage) -> None:
    folder, facts, figures, scores_NA, val = trained
    write_attribute_curves(folder / "curves.png", read_epochs(folder, OF_ATTRIBUTES), figures["chance"])
    words, cells = np.array(facts["attribute_words"]), []
    for row in np.unique(np.linspace(0, len(val) - 1, ON_SHEET).astype(int)):
        best_K = np.argsort(-scores_NA[row], kind="stable")[:TOP]
        with suppress(UnreadableImage):  # it became unreadable during training
            image, _ = load_photo(val.photos[row])
            cells.append(Cell(image, words[val.labels_NA[row] == YES].tolist(), words[best_K].tolist()))
    counted = f"{len(cells)} of {len(val)} pictures of val ({facts['pictures']})"
    title = f"Attributes of {facts['category']}, epoch {figures['epoch']}: {counted}"
    write_contact_sheet(folder / "contact_sheet.jpg", f"{title}; ✓ predicted correctly", cells)


def _print_measures(trained: TrainedStage) -> None:
    folder, figures, pictures = trained.folder, trained.figures, len(trained.val)
    print(
        f"attribute predictor of epoch {figures['epoch']} in {folder}: mean average precision "
        f"{figures['mAP']:.1f} (chance {figures['chance']:.1f}), "
        f"recall@{TOP} {figures[f'recall@{TOP}']:.1f}, {len(figures['words'])} words, {pictures} pictures "
        "of val"
    )
    types = [
        [row["type"], str(row["words"]), f"{row['mAP']:.1f}", f"{row['chance']:.1f}"]
        for row in figures["types"]
    ]
    print_table(["type", "words", "mAP", "chance"], types)
    for head, rows in zip(("best", "worst"), ten_of(figures["words"]), strict=True):
        cells = [
            [
                *(row["word"], row["type"], f"{row['AP']:.1f}", f"{row['chance']:.1f}"),
                *(str(row["train"]), str(row["val"])),
            ]
            for row in rows
        ]
        print_table([head, "type", "AP", "chance", "train", "val"], cells, left=2)
    print(
        f"all words in {folder / 'attributes.json'}; plots in {folder / 'curves.png'} and "
        f"{folder / 'contact_sheet.jpg'}"
    )

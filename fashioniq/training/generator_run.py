"""Training run of the picture generator."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytorch_lightning as pl
from PIL import Image

from fashioniq.categories import canonical
from fashioniq.config import TrainGenerator
from fashioniq.data.catalog import Catalog, categories_in
from fashioniq.data.images import UnreadableImage
from fashioniq.data.labelled import Labelled
from fashioniq.data.prompts import PromptWords, described_products
from fashioniq.features.selection import run_folder
from fashioniq.files import UserError
from fashioniq.generators.pictures import Generated, Request
from fashioniq.generators.trained import Trained
from fashioniq.models.denoiser import Denoiser, noise_schedule
from fashioniq.runs import GeneratorRun, read_run, write_run
from fashioniq.training.attributes import LabelledImages
from fashioniq.training.fitting import accelerator_of, begin_run, fit, loaders
from fashioniq.training.generator import GeneratorTraining
from fashioniq.training.generator_evaluation import Judge, evaluate

DENOISER, SCHEDULER = "denoiser", "scheduler"  # folders in the format of diffusers
ON_SHEET = 24  # products on the contact sheet
FITTED_ON = 1000  # training pictures that thresholds are fitted on


class Sample(NamedTuple):
    """A test product: its words, its picture and a generated one."""

    words: list[str]
    real: Image.Image
    generated: Generated


class TrainedGenerator(NamedTuple):
    """Folder of the run, its model.json, and samples for the contact sheet."""

    folder: Path
    about: GeneratorRun
    samples: list[Sample]


def train_generator(settings: TrainGenerator) -> TrainedGenerator:
    """Train a picture generator and evaluate it on test products.

    Raises UserError if pictures or words are missing.
    """
    judge = Judge(settings.predictor) if settings.predictor else None
    names = [settings.category] if settings.category else categories_in(settings.data)
    catalogs = [Catalog(settings.data, name) for name in names or ["dresses"]]  # raises UserError without any
    words, products = described_products(catalogs, settings.min_count)
    folder = settings.run or (
        run_folder(None, "generator", settings.category, False)
        if settings.category
        else Path("runs/generator")
    )
    begin_run(folder, settings)
    train, val = (_open(split, products[split], settings) for split in ("train", "val"))
    pl.seed_everything(settings.seed, verbose=False)
    config = settings.model
    sizes = {"patch": config.patch, "width": config.width, "heads": config.heads, "layers": config.layers}
    model = Denoiser(len(words), settings.image_size, **sizes)
    facts: dict[str, Any] = {
        "kind": GeneratorRun.KIND,
        "category": canonical(settings.category) if settings.category else "all",
        "sizes": config.sizes(vocabulary=len(words), image_size=settings.image_size),
        "words": words.words,
        "types": words.types,
        "language": words.code,
        "steps": settings.steps,
        "guidance": settings.guidance,
        "pictures": catalogs[0].pictures_origin,
        "data": {"fingerprints": {canonical(one.category): one.fingerprint() for one in catalogs}},
        "coverage": {"train": len(train) / products["train"].asked, "val": len(val) / products["val"].asked},
    }
    module = GeneratorTraining(model, learning_rate=settings.learning_rate, no_words=settings.no_words)
    batches = loaders(train, val, settings.batch_size, settings.seed)
    try:
        fit(module, module.average, batches, run=folder, settings=settings, facts=facts, monitor="val_fit")
    except UnreadableImage as error:
        raise UserError(
            f"a picture became unreadable during training, {error}; restore it and continue with --resume"
        ) from error
    module.average.save_pretrained(folder / DENOISER)
    noise_schedule().save_pretrained(folder / SCHEDULER)
    test = _open("test", products["test"], settings)
    return _evaluated(settings, folder, judge, train=train, test=test, words=words)


def _evaluated(
    settings: TrainGenerator,
    folder: Path,
    judge: Judge | None,
    train: LabelledImages,
    test: LabelledImages,
    words: PromptWords,
) -> TrainedGenerator:
    """Generate pictures of test products, judge them, and write the shares of the words found to model.json."""
    count = min(len(test), settings.samples if judge else ON_SHEET)
    rows = np.unique(np.linspace(0, len(test) - 1, count).astype(int))
    real = [test[row][0] for row in rows]
    lists = [words.of_row(test.labels_NA[row]) for row in rows]
    device = "cuda" if accelerator_of(settings.device) == "gpu" else "cpu"
    requests = [Request(", ".join(asked), settings.seed + row) for row, asked in enumerate(lists)]
    made = Trained(folder, device).generate(requests)
    about = read_run(folder, GeneratorRun)
    blank = Image.new("RGB", (settings.image_size, settings.image_size))
    if judge:
        known = np.unique(np.linspace(0, len(train) - 1, min(len(train), FITTED_ON)).astype(int))
        fitted_on = [train[row][0] for row in known], [words.of_row(train.labels_NA[row]) for row in known]
        figures = evaluate(judge, fitted_on, real, [one.picture or blank for one in made], lists)
        about = msgspec.structs.replace(about, evaluation={"predictor": str(settings.predictor)} | figures)
        write_run(folder, about)
    shown = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), ON_SHEET)).astype(int))
    return TrainedGenerator(
        folder,
        about,
        [Sample(lists[row], Image.fromarray(real[row].permute(1, 2, 0).numpy()), made[row]) for row in shown],
    )


def _open(split: str, data: Labelled, settings: TrainGenerator) -> LabelledImages:
    images = LabelledImages(data.photos, data.labels_NA, settings.image_size, settings.workers)
    print(f"{split}: {len(images)} of {data.asked} have words and a readable picture", flush=True)
    if not len(images):
        path, reason = next(iter(images.failures.items()))
        raise UserError(
            f"no {split} picture can be read, such as {path}: {reason}; check the folder of the pictures"
        )
    return images

"""Training of the picture generator: denoising of pictures, given their words.

An attribute predictor judges its pictures of test products.
"""

import copy
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytorch_lightning as pl
import torch
from PIL import Image
from torch import Tensor

from fashioniq.categories import canonical
from fashioniq.config import TrainGenerator
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.images import to_square
from fashioniq.data.prompts import GeneratedPair, PromptWords, described_products
from fashioniq.files import UserError
from fashioniq.generators.pictures import PictureRequest
from fashioniq.generators.trained import RunGenerator
from fashioniq.loop.exact import NotFiniteError
from fashioniq.metrics.found_words import families, fit_thresholds, found_shares
from fashioniq.models.denoiser import NOISE_STEPS, Denoiser, denoising_loss, noise_schedule
from fashioniq.models.device import pick_device
from fashioniq.models.encoder import encoder_mean_std, normalise
from fashioniq.runs import DENOISER, GeneratorRun, read_run, write_run
from fashioniq.runs.trained import load_predictor
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.labelled_images import LabelledImages
from fashioniq.training.processes import FusedTraining, stepwise

ON_SHEET = 24  # products on the contact sheet
JUDGED = 200  # test products whose pictures are judged
FITTED_ON = 1000  # training pictures that thresholds are fitted on


class TrainedGenerator(NamedTuple):
    """Folder of the run, its model.json, and samples for the contact sheet."""

    folder: Path
    about: GeneratorRun
    samples: list[GeneratedPair]


@alone
def train_generator(settings: TrainGenerator) -> TrainedGenerator:
    """Train a picture generator and evaluate it on test products.

    Raises UserError if pictures or words are missing.
    """
    judge = Judge(settings.predictor) if settings.predictor else None
    names = [settings.category] if settings.category else categories_in(settings.data)
    catalogs = [Catalog(settings.data, name) for name in names or ["dresses"]]  # raises UserError without any
    words, products = described_products(catalogs, settings.min_count)

    def opened(split: str) -> LabelledImages:
        return LabelledImages.of(split, products[split], settings.image_size, settings.workers, "words")

    folder = folder_of(settings)
    begin_run(folder, settings)
    train, val = (opened(split) for split in ("train", "val"))
    pl.seed_everything(settings.seed, verbose=False)
    sizes = settings.model.sizes(vocabulary=len(words), image_size=settings.image_size)
    model = Denoiser(**sizes)
    facts: dict[str, Any] = {
        "kind": GeneratorRun.KIND,
        "category": canonical(settings.category) if settings.category else "all",
        "sizes": sizes,
        "words": words.words,
        "types": words.types,
        "language": words.code,
        "pictures": catalogs[0].pictures_origin,
        "data": {"fingerprints": {canonical(one.category): one.fingerprint() for one in catalogs}},
        "coverage": {"train": len(train) / products["train"].asked, "val": len(val) / products["val"].asked},
    }
    module = GeneratorTraining(model, learning_rate=settings.learning_rate)
    batches = loaders(train, val, settings.batch_size, settings.seed)
    fit(module, module.average, batches, run=folder, settings=settings, facts=facts, monitor="val_fit")
    module.average.save_config((folder / DENOISER).parent)
    noise_schedule().save_pretrained(folder / "scheduler")
    samples = _generate(settings, folder, opened("test"), words)
    about = read_run(folder, GeneratorRun)
    if judge:
        known = [_product(train, row, words) for row in _spread(len(train), FITTED_ON)]
        figures = evaluate_generator(judge, known, samples)
        about = msgspec.structs.replace(about, evaluation={"predictor": str(settings.predictor)} | figures)
        write_run(folder, about)
    return TrainedGenerator(folder, about, [samples[row] for row in _spread(len(samples), ON_SHEET)])


def _generate(
    settings: TrainGenerator, folder: Path, test: LabelledImages, words: PromptWords
) -> list[GeneratedPair]:
    """Generate a picture for the words of each of some test products."""
    rows = _spread(len(test), JUDGED if settings.predictor else ON_SHEET)
    products = [_product(test, row, words) for row in rows]
    requests = [
        PictureRequest(", ".join(asked), settings.seed + row) for row, (_, asked) in enumerate(products)
    ]
    made = RunGenerator(folder, pick_device(settings.device).type).generate(requests)
    return [
        GeneratedPair(asked, real, one.picture) for (real, asked), one in zip(products, made, strict=True)
    ]


def _product(images: LabelledImages, row: int, words: PromptWords) -> tuple[Image.Image, list[str]]:
    """Picture and words of a product."""
    return Image.fromarray(images[row][0].permute(1, 2, 0).numpy()), words.of_row(images.labels_NA[row])


def _spread(count: int, most: int) -> list[int]:
    """Rows at equal distances, the first and the last of `count` among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist()


_BLANK = Image.new("RGB", (8, 8))  # stands for a picture that failed


class Judge:
    """Attribute predictor of a run of train-attributes."""

    def __init__(self, run: Path) -> None:
        self._model, about = load_predictor(run)
        if not isinstance(about.attribute_types, list):
            raise UserError(f"{run} lacks the types of its words; train the predictor again")
        self.words, self.types = about.attribute_words, [str(kind) for kind in about.attribute_types]
        self.size = about.image_size
        self._normalise = normalise(*encoder_mean_std(self._model.encoder))

    @torch.inference_mode()
    def score(self, pictures: Sequence[Image.Image], batch: int = 64) -> np.ndarray:
        """Logits of the pictures, N×A."""
        scores = []
        for start in range(0, len(pictures), batch):
            squares = [to_square(one, self.size) for one in pictures[start : start + batch]]
            scores.append(
                self._model(self._normalise(torch.from_numpy(np.stack(squares))))[1].float().numpy()
            )
        return np.concatenate(scores)

    def wanted(self, lists: Sequence[Sequence[str]]) -> np.ndarray:
        """Which of the predictor's words each list has: float32, N×A."""
        return PromptWords(self.words, self.types).encode(lists)


def evaluate_generator(
    judge: Judge, known: Sequence[tuple[Image.Image, Sequence[str]]], samples: Sequence[GeneratedPair]
) -> dict[str, Any]:
    """Shares of the words of `samples` that the judge finds: in real pictures, in generated ones, and in generated
    ones of another product's words, the control.

    `known` has pictures and words to fit the thresholds on.
    """
    family_A = families(judge.words, judge.types)
    thresholds_A = fit_thresholds(
        judge.score([picture for picture, _ in known]), judge.wanted([words for _, words in known])
    )
    wanted_NA = judge.wanted([one.words for one in samples])
    real_NA = judge.score([one.real for one in samples])
    generated_NA = judge.score([one.generated or _BLANK for one in samples])
    scores = {"real": real_NA, "generated": generated_NA, "control": np.roll(generated_NA, 1, axis=0)}
    shares = {
        name: found_shares(scores_NA, wanted_NA, family_A, thresholds_A) for name, scores_NA in scores.items()
    }
    return {"products": len(samples), **shares}


DECAY = 0.999  # of the averaged weights; less in the first steps
BETAS = 0.9, 0.99  # of AdamW
WARMUP = 0.05  # share of the steps
NO_WORDS = 0.1  # share of the pictures without their words, which guidance needs
NOISY = (
    0.4  # exponent of the times: less than 1 draws more of them with much noise, where the shape is decided
)


def ema_decay(step: int) -> float:
    """Decay of the averaged weights after a number of steps: the first weights are forgotten soon."""
    return min(DECAY, (1 + step) / (10 + step))


def draw_times(uniform_B: Tensor) -> Tensor:
    """Times of the diffusion from uniform random numbers below 1."""
    return (NOISE_STEPS * uniform_B**NOISY).long().clamp(max=NOISE_STEPS - 1)


class GeneratorTraining(FusedTraining):
    """Lightning module for batches of (uint8 pictures, int8 words).

    `average` has the moving average of the weights, which is what is validated and kept.
    """

    def __init__(self, model: Denoiser, *, learning_rate: float) -> None:
        super().__init__()
        self.model, self.average = model, copy.deepcopy(model).requires_grad_(False)
        self.learning_rate = learning_rate
        self.schedule = noise_schedule()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        pictures_BCHW, words_BV = _prepared(batch)
        batch_size, device = len(pictures_BCHW), pictures_BCHW.device
        mirrored_B = torch.rand(batch_size, device=device) < 0.5
        pictures_BCHW = torch.where(mirrored_B[:, None, None, None], pictures_BCHW.flip(3), pictures_BCHW)
        words_BV = words_BV * (torch.rand(batch_size, 1, device=device) >= NO_WORDS)
        time_B = draw_times(torch.rand(batch_size, device=device))
        noise_BCHW = torch.randn_like(pictures_BCHW)
        return denoising_loss(
            self.model, self.schedule, pictures_BCHW, words_BV, time_B=time_B, noise_BCHW=noise_BCHW
        )

    @torch.no_grad()
    def on_before_zero_grad(self, optimizer: Any) -> None:
        weight = 1 - ema_decay(self.global_step)
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), weight)

    def on_validation_epoch_start(self) -> None:
        self._draws = torch.Generator().manual_seed(0)  # every epoch is validated with the same noise

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        pictures_BCHW, words_BV = _prepared(batch)
        time_B = draw_times(torch.rand(len(words_BV), generator=self._draws)).to(words_BV.device)
        noise_BCHW = torch.randn(pictures_BCHW.shape, generator=self._draws).to(words_BV.device)
        loss = denoising_loss(
            self.average, self.schedule, pictures_BCHW, words_BV, time_B=time_B, noise_BCHW=noise_BCHW
        )
        if not bool(loss.isfinite()):
            raise NotFiniteError("the validation loss is not finite")
        self.log("val_loss", loss, batch_size=len(words_BV))
        self.log("val_fit", -loss, batch_size=len(words_BV))  # higher is better

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.learning_rate,
            betas=BETAS,
            weight_decay=0.01,
            fused=self.can_fuse,
        )
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, int(WARMUP * steps))

        def factor(step: int) -> float:
            return min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))

        return stepwise(optimizer, factor)


def _prepared(batch: list[Tensor]) -> tuple[Tensor, Tensor]:
    pictures_BCHW, words_BV = batch
    return pictures_BCHW.float() / 127.5 - 1, words_BV.float()

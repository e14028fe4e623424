"""Evaluation of a trained generator: an attribute predictor judges its pictures of the words of test products."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fashioniq.data.images import to_square
from fashioniq.data.prompts import PromptWords
from fashioniq.files import UserError
from fashioniq.metrics.found_words import families, fit_thresholds, found_shares
from fashioniq.models.encoder import encoder_mean_std, normalise
from fashioniq.trained import load_predictor


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
    def score(self, pictures: Sequence[Image.Image | Tensor], batch: int = 64) -> np.ndarray:
        """Logits of the pictures, N×A; tensors are uint8, 3×H×W."""
        scores = []
        for start in range(0, len(pictures), batch):
            squares = [to_square(_image(one), self.size) for one in pictures[start : start + batch]]
            scores.append(
                self._model(self._normalise(torch.from_numpy(np.stack(squares))))[1].float().numpy()
            )
        return np.concatenate(scores)

    def wanted(self, lists: Sequence[Sequence[str]]) -> np.ndarray:
        """Which of the predictor's words each list has: float32, N×A."""
        return PromptWords(self.words, self.types).encode(lists)


def _image(picture: Image.Image | Tensor) -> Image.Image:
    if isinstance(picture, Image.Image):
        return picture
    return Image.fromarray(np.ascontiguousarray(picture.permute(1, 2, 0).numpy()))


def evaluate(
    judge: Judge,
    train: tuple[Sequence[Tensor], Sequence[Sequence[str]]],
    real: Sequence[Tensor],
    generated: Sequence[Image.Image],
    lists: Sequence[Sequence[str]],
) -> dict[str, Any]:
    """Shares of the words in `lists` that the judge finds: in real pictures, in generated ones, and in generated
    ones of another product's words, the control.

    `train` has pictures and words to fit the thresholds on.
    """
    family_A = families(judge.words, judge.types)
    thresholds_A = fit_thresholds(judge.score(train[0]), judge.wanted(train[1]))
    wanted_NA, generated_NA = judge.wanted(lists), judge.score(generated)
    return {
        "products": len(lists),
        "real": found_shares(judge.score(real), wanted_NA, family_A, thresholds_A),
        "generated": found_shares(generated_NA, wanted_NA, family_A, thresholds_A),
        "control": found_shares(np.roll(generated_NA, 1, axis=0), wanted_NA, family_A, thresholds_A),
    }

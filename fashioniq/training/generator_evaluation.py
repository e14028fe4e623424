"""Evaluation of a trained generator: an attribute predictor judges its pictures of the words of test products."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fashioniq.data.images import to_square
from fashioniq.data.prompts import GeneratedPair, PromptWords
from fashioniq.files import UserError
from fashioniq.metrics.found_words import families, fit_thresholds, found_shares
from fashioniq.models.encoder import encoder_mean_std, normalise
from fashioniq.runs.trained import load_predictor

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


def evaluate(
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

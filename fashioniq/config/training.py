"""Settings of the training commands."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fashioniq.config.shared import (
    Decoding,
    InFolder,
    OfAnyCategory,
    OfConversations,
    OnDevice,
    Seeded,
    WithFeatures,
    option,
    refuse,
    section,
)
from fashioniq.models.configs import (
    SMALL,
    CaptionerConfig,
    ChatSearcherConfig,
    DenoiserConfig,
)

PEAK = 0.0025  # largest learning rate of a captioner for few pairs

SCORES_WITHOUT_ATTRS = "--predictor gives scores of attributes; give --attrs, too, or leave it out"


def run_folder(default: str, attrs: bool = False) -> Any:
    """Option for the output folder of a training."""
    with_attrs = f"; with --attrs {default}-attrs" if attrs else ""
    return option(None, f"output folder of the run (default: {default}{with_attrs})")


@dataclass(kw_only=True)
class Training(OnDevice, Seeded, InFolder):
    """Options of all trainings.

    The learning rate is not scaled with the batch size. With Adam, start from √k times the rate for a k times
    larger batch (Malladi et al. 2022); a captioner's --warmup counts steps.
    """

    run: Path | None = run_folder("runs/MODEL-CATEGORY")
    epochs: int = option(50, "maximum number of epochs; a cosine schedule ends with the last one", least=1)
    patience: int = option(
        10, "epochs without a better validation score before training stops", least=1, research=True
    )
    batch_size: int = option(64, "examples per step and device", least=1)
    devices: int = option(
        1, "GPUs per machine, or processes on a CPU; each takes --batch-size examples per step", least=1
    )
    num_nodes: int = option(1, "machines that train together", least=1)
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = option(
        "32-true",
        "32-true: float32; bf16-mixed (bfloat16) and 16-mixed (float16) are faster where the hardware has them, "
        "and need less memory",
    )
    resume: bool = option(False, "continue an interrupted run from its last complete epoch")


@dataclass(kw_only=True)
class OfWords:
    """Words of a vocabulary."""

    min_count: int = option(
        2,
        "minimum occurrences of a word in the training split; rarer words are unknown",
        least=1,
        research=True,
    )


@dataclass(kw_only=True)
class TrainAttributes(Decoding, OfAnyCategory, Training):
    """Train the attribute predictor: all layers, or with --init-from only the last layer for one category."""

    run: Path | None = run_folder("runs/attributes-CATEGORY; runs/attributes without --category")
    deepfashion: Path | None = option(
        None,
        "folder of DeepFashion's category and attribute benchmark with its list_*.txt files; replaces --data",
    )
    init_from: Path | None = option(
        None,
        "run of train-attributes on all categories or DeepFashion, or a .pth or .safetensors file of an encoder, "
        "such as the authors'; the encoder is kept frozen, and the last layer alone is trained",
        reads="attribute predictor or file",
    )
    encoder: str = option("efficientnet-b7", "image encoder: an EfficientNet size or any timm name")
    weights: str = option(
        "imagenet", "encoder weights: imagenet (downloaded), a .pth or .safetensors file, or none (random)"
    )
    image_size: int = option(224, "picture size in pixels per side", least=1)
    learning_rate: float = option(1e-3, "AdamW learning rate at the start; cosine decay to zero", least=0)
    min_count: int = option(
        20,
        "minimum number of training pictures of an attribute; rarer attributes are ignored",
        least=1,
        research=True,
    )
    epochs: int = 20

    def validate(self) -> None:
        refuse(
            (
                self.deepfashion and (self.category or self.init_from),
                "--deepfashion cannot be combined with --category or --init-from; leave them out, "
                "and give its run to --init-from for a category",
            ),
            (self.init_from and not self.category, "--init-from needs --category; give it too"),
        )


@dataclass(kw_only=True)
class WithScores:
    """Scores of attributes as an input."""

    predictor: Path | None = option(
        None,
        "with --attrs, read the scores of all attributes of this run of train-attributes, which computed the features "
        "(released captioner; appendix B), instead of the eight highest attributes",
        reads="attribute predictor",
        research=True,
    )


@dataclass(kw_only=True)
class TrainCaptioner(WithScores, OfWords, Training, WithFeatures):
    """Train the relative captioner, which simulates the user, on captions of product pairs."""

    run: Path | None = run_folder("runs/captioner-CATEGORY", attrs=True)
    attrs: bool = option(False, "use the attributes of both products as input, besides the images")
    model: CaptionerConfig = section(CaptionerConfig, "sizes of the captioner")
    noam_factor: float = option(
        0.0,
        "factor of the learning rate: factor · width^-½ · min(step^-½, step · warmup^-3/2) "
        f"(default: 2.0; a maximum of {PEAK} for fewer than {SMALL:,} training pairs)",
        least=0,
        research=True,
    )
    warmup: int = option(
        0,
        "steps until the learning rate reaches its maximum "
        f"(default: 4000; those of five epochs for fewer than {SMALL:,} training pairs)",
        least=0,
        research=True,
    )
    beam: int = option(5, "beam width in validation; 1 is greedy", least=1, research=True)
    select: Literal["P", "BLEU-4", "BLEU-3"] = option(
        "P",
        "measure of val that selects the epoch and stops the training: P of a linear retriever fitted to recorded "
        "captions (epochs with a BLEU-1 below 20 come last), BLEU-4 (paper), or BLEU-3 of every fifth "
        "epoch (released code)",
        research=True,
    )
    batch_size: int = option(
        0,
        "captions per step and device (default: 64, or so few that an epoch has 20 steps, but at least 4)",
        least=0,
    )

    def validate(self) -> None:
        refuse(
            (self.predictor and not self.attrs, SCORES_WITHOUT_ATTRS),
            (
                self.predictor and self.model.kind == "rnn",
                "--predictor needs --model.kind transformer; leave it out, or give another kind",
            ),
        )

    def for_pairs(self, pairs: int, captions: int) -> "TrainCaptioner":
        """The same with the sizes, the learning rate and the warmup that were not given, for these training data."""
        model = self.model.for_pairs(pairs)
        model.validate()
        is_small = pairs < SMALL
        processes = self.devices * self.num_nodes
        batch_size = self.batch_size or min(64, max(4, captions // (20 * processes)))
        warmup = self.warmup or (max(1, 5 * captions // (batch_size * processes)) if is_small else 4000)
        factor = self.noam_factor or (PEAK * math.sqrt(model.width * warmup) if is_small else 2.0)
        return replace(self, model=model, batch_size=batch_size, warmup=warmup, noam_factor=factor)


@dataclass(kw_only=True)
class TrainGenerator(Decoding, OfAnyCategory, Training):
    """Train a small picture generator: a diffusion model that draws products from words of their labels and titles."""

    run: Path | None = run_folder("runs/generator-CATEGORY; runs/generator without --category")
    image_size: int = option(
        64, "picture size in pixels per side; other pictures are padded and resized", least=8
    )
    model: DenoiserConfig = section(DenoiserConfig, "sizes of the denoiser")
    min_count: int = option(
        10, "minimum number of training products with a word; rarer words are ignored", least=1, research=True
    )
    learning_rate: float = option(
        2e-3,
        "AdamW learning rate; linear warmup over a twentieth of the steps, then cosine decay to zero",
        least=0,
        research=True,
    )
    batch_size: int = 16
    epochs: int = 100
    patience: int = 30
    predictor: Path | None = option(
        None,
        "run of train-attributes that judges generated pictures of test products (default: no evaluation)",
        reads="attribute predictor",
    )

    def validate(self) -> None:
        refuse(
            (
                self.image_size % self.model.patch,
                f"--model.patch is {self.model.patch}, which does not divide --image-size {self.image_size}; "
                "use a divisor of the picture size",
            )
        )


@dataclass(kw_only=True)
class TrainChatsearcher(OfConversations, OfWords, Training):
    """Train a ChatSearcher: a causal language model that finds pictures in conversations of words and pictures."""

    run: Path | None = run_folder("runs/chatsearcher-STAGE")
    stage: Literal["captions", "conversations"] = option(
        "conversations",
        "captions: a caption and its picture in any order, all of it is predicted (stage 1); conversations: what "
        "the assistant says and shows is predicted (stage 2)",
    )
    init_from: Path | None = option(
        None,
        "run of another stage that training starts from, whose sizes and language model replace those given; or a "
        "BLIP-2 (a folder of transformers, or a checkpoint of LAVIS), whose Q-Former becomes the perceiver",
        reads="chatsearcher or file",
    )
    language_model: str | None = option(
        None,
        "causal language model by folder or Hugging Face name, such as a LLaMA or Qwen (default: a small decoder of "
        "whole words, trained from scratch)",
    )
    tune: Literal["all", "lora", "frozen"] = option(
        "all",
        "weights of the language model that are trained: all (paper), low-rank additions (needs the package peft), "
        "or none (as in FROMAGe); what is not trained is in bfloat16 on a GPU",
        research=True,
    )
    model: ChatSearcherConfig = section(ChatSearcherConfig, "sizes of the ChatSearcher")
    negatives: Literal["queue", "batch", "full"] = option(
        "queue",
        "negatives of a picture: a queue of the latest pictures (paper), the batch, or all items of train",
        research=True,
    )
    queue: int = option(1000, "length of the queue in pictures", least=1, below=10**7, research=True)
    subtasks: list[str] = option(
        [], "sub-tasks whose conversations are trained on (default: t i m)", research=True
    )
    held_out: float = option(
        0.1,
        "share of the items of train whose conversations choose the best epoch",
        least=0.01,
        below=0.9,
        research=True,
    )
    learning_rate: float | None = option(
        None,
        "AdamW learning rate; linear warmup over 3 % of the steps, then cosine decay to zero (default: 1e-3 for "
        "captions and 5e-4 for conversations; with --language-model 2e-5 and 2e-6 as in the paper)",
        least=0,
        research=True,
    )
    epochs: int = 20

    def validate(self) -> None:
        refuse(
            (
                set(self.subtasks) - {"t", "i", "m"},
                f"expected some of t, i and m in --subtasks, found {' '.join(self.subtasks)}; correct it",
            ),
            (
                self.devices * self.num_nodes > 1,
                "a ChatSearcher is trained on one device; leave out --devices and --num-nodes",
            ),
        )

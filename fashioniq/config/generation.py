"""Settings of the systems that search with descriptions and generated pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq import plugins
from fashioniq.config.dialogue import PEOPLE
from fashioniq.config.evaluation import EvalChatIR, EvalDialogs, Evaluation, OfTargets
from fashioniq.config.shared import (
    CATEGORY,
    InFolder,
    OnDevice,
    Prompted,
    Questioning,
    Seeded,
    WithFeatures,
    option,
    refuse,
    required,
)
from fashioniq.files import UserError

PARTS = ("rewrite", "context", "filter")
NAMED_WEIGHTS = ("paper", "code", "text", "pictures")


@dataclass(kw_only=True)
class DescribedProducts(OfTargets, OnDevice, Seeded, Evaluation, WithFeatures):
    """Options of the systems that search the products of a catalog by descriptions."""

    encoder: str = required(
        "encoder of texts and pictures: a run of train-dialog-encoder, or any of extract-features"
    )
    targets: int | None = option(
        None,
        "number of targets, drawn with the seed; all products stay in the gallery (default: all)",
        least=1,
        research=True,
    )
    rounds: int = option(10, "rounds after the first description", least=0, below=1000)
    details: int = option(
        2,
        "attributes that a user of labels describes first, and corrects in each round (GenIR)",
        least=1,
        research=True,
    )
    batch_size: int = 64


@dataclass(kw_only=True)
class Rewritten(Prompted):
    """How dialogs are rewritten."""

    rewrite: str = option(
        "auto",
        "what a dialog is rewritten as, for the prompts of pictures (DAR) or as the query (PlugIR): last, its last "
        "round; join, all rounds; attributes, those of the rounds as one description in the words of the catalog's "
        "labels; endpoint:NAME or local:NAME, a text by a language model at OPENAI_BASE_URL or of a folder or the hub, "
        "which is that of DAR's query, too; auto, last if the rounds of DAR's file are whole queries, else join "
        "(default: DAR auto, PlugIR attributes)",
    )


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """Options of a pipeline of diffusers."""

    steps: int | None = option(
        None, "steps of a picture, such as 5 with FLUX (default: by the kind of pipeline)", least=1
    )
    guidance: float | None = option(None, "guidance scale (default: by the kind of pipeline)", least=0)
    dtype: Literal["float32", "float16", "bfloat16"] | None = option(
        None, "number format on the device (default: bfloat16, on a CPU float32)"
    )


@dataclass(kw_only=True)
class Generation:
    """Options of the systems that generate pictures."""

    generator: str | None = option(
        None,
        "generator: a run of train-generator, a diffusers pipeline by folder or Hugging Face name, diffusers:NAME for "
        "one with --generator-options.steps, guidance and dtype, "
        "endpoint:NAME for a model at OPENAI_BASE_URL, folder:PATH for the pictures of an earlier run (DAR), "
        "photographs:SPLIT for those of other products of the catalog, or drawn:SHARE for drawn garments with this "
        "share of correct attributes (drawn sample); or one of your own",
        part="generators",
    )
    predictor: Path | None = option(
        None,
        "run of train-attributes that computed the features; it embeds the generated pictures (not needed with "
        "a pretrained encoder), and reads what is shown to GenIR's --user labels",
        reads="run",
    )
    pictures: int = option(1, "pictures per round", least=1)
    fusion_weights: str = option(
        "paper",
        "weight of the text: 0.7 in the first two rounds, then 0.5 (paper); 0.8 and 0.5 (code, as DAR released it); 1 "
        "(text); 0 (pictures); or one number per round, such as 0.9,0.7,0.5, the last for all further rounds",
        research=True,
    )
    fusion: Literal["sum", "mean"] = option(
        "sum",
        "vector of several pictures: their sum (as in DAR; equal to the sum of scores), or their mean",
        research=True,
    )
    cache: Path = option(
        Path("runs/picture-cache"), "cache folder of the generated pictures; none is generated twice"
    )

    def validate(self) -> None:
        """Raise UserError for unknown weights."""
        refuse(
            (
                self.fusion_weights not in NAMED_WEIGHTS and not numbers(self.fusion_weights),
                f"expected {', '.join(NAMED_WEIGHTS)}, or numbers from 0 to 1 separated by commas, found "
                f"{self.fusion_weights}; correct --fusion-weights",
            )
        )


def numbers(weights: str) -> list[float]:
    """Weights of the text, one per round, from numbers separated by commas; empty for anything else."""
    try:
        found = [float(number) for number in weights.split(",")]
    except ValueError:
        return []
    return found if all(0 <= number <= 1 for number in found) else []


@dataclass(kw_only=True)
class EvalGenIR(Prompted, Generation, DescribedProducts):
    """Search with the generated picture of a description that the user corrects (GenIR), or with the
    description alone.
    """

    system: Literal["genir"] = "genir"
    feedback: Literal["visual", "verbal", "prediction"] = option(
        "visual",
        "what the user corrects the description by: the generated picture (GenIR), the description itself, or "
        "the best product; verbal and prediction search with the text",
    )
    user: str = option(
        "labels",
        "user: labels of the products; endpoint:NAME or local:NAME, a vision-language model at OPENAI_BASE_URL or of "
        "a folder or the hub, which sees their pictures; person, who types (give --targets), or page, who "
        "does in the browser and judges the pictures, too; or one of your own",
        part="users",
    )
    sampling: Literal["greedy", "paper"] = option(
        "greedy",
        "answers of a vision-language model: greedy, at most 200 tokens, or as in GenIR's paper: temperature 0.7, "
        "top-p 0.9, repetition penalty 1.1, at most 500 tokens",
        research=True,
    )
    fusion_weights: str = "pictures"
    fusion: Literal["sum", "mean"] = "mean"
    record: bool = option(
        False,
        "also write every round as data, OUT/feedback.jsonl, with all pictures in OUT/pictures; run an interrupted "
        "command again: it generates only the pictures that are missing",
    )

    def validate(self) -> None:
        """Raise UserError for an unknown user or unknown weights."""
        super().validate()
        known = self.user in ("labels", *PEOPLE) or self.user.startswith(("endpoint:", "local:"))
        refuse(
            (
                self.record and self.feedback != "visual",
                "--record writes generated pictures; leave it out, or give --feedback visual",
            ),
            (
                not known and not plugins.is_from_outside("users", self.user),
                f"expected labels, person, page, endpoint:NAME, local:NAME or a user of your own, found "
                f"{self.user}; correct --user",
            ),
        )


@dataclass(kw_only=True)
class EvalDAR(Rewritten, Seeded, Generation, EvalChatIR, InFolder):
    """Search with the text of recorded question dialogs and pictures generated from it (DAR)."""

    system: str = "dar"
    category: str | None = option(None, CATEGORY + "; needed by --rewrite attributes and drawn:SHARE")


@dataclass(kw_only=True)
class EvalFashionIQDAR(Generation, EvalDialogs):
    """Evaluate a retriever of Fashion IQ whose query is fused with generated pictures: of the product shown,
    changed as the user asks.
    """

    system: str = "fashion-iq-dar"
    fusion: Literal["sum", "mean"] = "mean"


@dataclass(kw_only=True)
class EvalPlugIR(Questioning, Rewritten, DescribedProducts):
    """Ask about the current candidates, and search with the dialog rewritten as one description (PlugIR)."""

    system: str = "plugir-asks"
    without: list[str] = option(
        [],
        "parts of PlugIR that are left out: rewrite (search with a description instead of the dialog), context "
        "(questions for clusters of the candidates), filter (no question that the dialog answers)",
        research=True,
    )
    rewrite: str = "attributes"

    def validate(self) -> None:
        """Raise UserError for an unknown part."""
        if unknown := [part for part in self.without if part not in PARTS]:
            raise UserError(f"expected {', '.join(PARTS)}, found {unknown[0]}; correct --without")

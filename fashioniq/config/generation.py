"""Settings of the systems that search with descriptions and generated pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.dialogue import EvalChatIR
from fashioniq.config.evaluation import Evaluation, Split
from fashioniq.config.fields import CATEGORY, DATA, DEVICE, FEATURES, option, required
from fashioniq.files import UserError

PARTS = ("rewrite", "context", "filter")
DETAILS = "attributes that the user describes, and corrects in each round"


@dataclass(kw_only=True)
class DescribedProducts(Evaluation):
    """Options of the systems that search the products of a catalog by descriptions."""

    data: Path = option(Path("data/fashioniq"), DATA, reads="catalog")
    category: str = required(CATEGORY)
    features: Path | None = option(None, FEATURES, reads="store")
    split: Split = option("test", "split whose products are the targets and the gallery")
    encoder: str = required(
        "encoder of texts and pictures: a run of train-dialog-encoder, or CLIP or BLIP by folder or Hugging Face "
        "name"
    )
    rounds: int = option(10, "rounds after the first description", least=0, below=1000)
    batch_size: int = option(64, "dialogs per batch", least=1)
    seed: int = option(0, "random seed of the descriptions and the pictures", least=0, below=2**32)
    device: str = option("auto", DEVICE)


@dataclass(kw_only=True)
class Generation:
    """Options of the systems that generate pictures."""

    generator: str | None = option(
        None,
        "generator: a run of train-generator, a diffusers pipeline by folder or Hugging Face name, "
        "endpoint:NAME for a model at OPENAI_BASE_URL, folder:PATH for the pictures of an earlier run (DAR), or "
        "drawn:SHARE for drawn garments with this share of correct attributes (drawn sample)",
    )
    predictor: Path | None = option(
        None,
        "run of train-attributes that computed the features; it embeds the generated pictures (not needed with "
        "CLIP or BLIP)",
        reads="run",
    )
    pictures: int = option(1, "pictures per round", least=1)
    cache: Path = option(
        Path("runs/picture-cache"), "cache folder of the generated pictures; none is generated twice"
    )


@dataclass(kw_only=True)
class EvalGenIR(Generation, DescribedProducts):
    """Search with the generated picture of a description that the user corrects (GenIR), or with the
    description alone.
    """

    system: Literal["genir"] = option("genir", "system: genir")
    feedback: Literal["visual", "verbal", "prediction"] = option(
        "visual",
        "what the user corrects the description by: the generated picture (GenIR), the description itself, or "
        "the best product; verbal and prediction search with the text",
    )
    user: str = option(
        "labels",
        "user: labels of the products, or endpoint:NAME for a vision-language model at OPENAI_BASE_URL that sees "
        "their pictures",
    )
    answers: Path = option(
        Path("runs/endpoint-cache"),
        "cache folder of the endpoint's answers; cached requests are not sent again",
    )
    details: int = option(2, DETAILS + " (labels)", least=1)
    text_weight: float = option(
        0.0, "weight of the text in the query; the generated pictures have the rest", least=0, below=1
    )

    def validate(self) -> None:
        """Raise UserError for an unknown user."""
        if self.user != "labels" and not self.user.startswith("endpoint:"):
            raise UserError(f"expected labels or endpoint:NAME, found {self.user}; correct --user")


@dataclass(kw_only=True)
class EvalDAR(Generation, EvalChatIR):
    """Search with the text of recorded question dialogs and pictures generated from it (DAR)."""

    system: Literal["dar"] = option("dar", "system: dar")  # type: ignore[assignment]
    data: Path = option(Path("data/fashioniq"), DATA, reads="catalog")
    category: str | None = option(None, CATEGORY + "; needed by --rewrite attributes and drawn:SHARE")
    rewrite: Literal["join", "attributes", "last"] = option(
        "last",
        "prompt: the last round alone, for dialogs whose rounds are rewritten captions; all rounds; or the "
        "attributes of the rounds as one description, in the words of a catalog's labels",
    )
    fusion_weights: Literal["paper", "code", "text", "pictures", "agreement"] = option(
        "paper",
        "weight of the text: 0.7 in the first two rounds, then 0.5 (paper); 0.8 and 0.5 (released code); 1; 0; "
        "or that of the paper, with pictures weighted by their similarity to the text (agreement)",
    )
    fusion: Literal["sum", "mean", "normalized"] = option(
        "sum",
        "vector of several pictures: their sum (as in DAR; equal to the sum of scores), their mean, or their "
        "mean at unit length",
    )
    seed: int = option(0, "random seed of the pictures", least=0, below=2**32)


@dataclass(kw_only=True)
class EvalPlugIR(DescribedProducts):
    """Ask about the current candidates, and search with the dialog rewritten as one description (PlugIR)."""

    system: Literal["plugir-asks"] = option("plugir-asks", "system: plugir-asks")
    without: list[str] = option(
        [],
        "parts of PlugIR that are left out: rewrite (search with a description of the answers instead of the "
        "dialog), context (questions for clusters of the candidates), filter (no question that the dialog "
        "answers)",
    )
    details: int = option(2, "attributes that the user describes before the first question", least=1)
    candidates: int = option(100, "nearest products that count as candidates", least=1)
    clusters: int = option(10, "clusters of the candidates", least=1)

    def validate(self) -> None:
        """Raise UserError for an unknown part."""
        if unknown := [part for part in self.without if part not in PARTS]:
            raise UserError(f"expected {', '.join(PARTS)}, found {unknown[0]}; correct --without")


@dataclass(kw_only=True)
class MakeDescriptions:
    """Describe the products of a split by their labels, with more details in each round, to train text
    encoders.
    """

    data: Path = option(Path("data/fashioniq"), DATA, reads="catalog")
    category: str = required(CATEGORY)
    split: Split = option("train", "split whose products are described")
    rounds: int = option(5, "descriptions after the first one", least=0, below=1000)
    details: int = option(2, "attributes of the first description, and added by each further one", least=1)
    seed: int = option(0, "random seed of the attributes of the first description", least=0, below=2**32)
    out: Path = required("output file, such as descriptions.json")

"""What the settings of several commands have: options, each declared once in a group that a command inherits from, help
texts, and the functions that declare fields.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.models.configs import DRAWN, DRAWN_IN_TRAINING
from fashioniq.options import check, flag, option, refuse, required, section

__all__ = [
    "CATALOGS",
    "CATEGORY",
    "DATA",
    "FEATURES",
    "OUT",
    "Batched",
    "Decoding",
    "Finds",
    "InCatalog",
    "InFolder",
    "OfAnyCategory",
    "OfCategory",
    "OfConversations",
    "OfProducts",
    "OfRun",
    "OnDevice",
    "Prompted",
    "Questioning",
    "Scored",
    "Searched",
    "Seeded",
    "Speaking",
    "Verified",
    "WithFeatures",
    "WithFeaturesOfRun",
    "WithoutTraining",
    "check",
    "flag",
    "option",
    "refuse",
    "required",
    "section",
]

Searched = Literal["train", "val", "test", "all"]  # split of a gallery, or the whole catalog
CATALOGS = Path("data/fashioniq")  # of Fashion IQ, by default
DATA = "folder in Fashion IQ's layout"
CATEGORY = "category: dresses, shirts, tops, or a category of your own"
FEATURES = "feature store (default: DATA/features/CATEGORY)"
OUT = "output folder; earlier results in it are replaced"


@dataclass(kw_only=True)
class OnDevice:
    """Device of the models."""

    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", "device: cpu, cuda, or auto for a GPU if one is available"
    )


@dataclass(kw_only=True)
class Seeded:
    """Seed of all random numbers."""

    seed: int = option(0, "random seed", least=0, below=2**32)


@dataclass(kw_only=True)
class Batched:
    """Size of a batch."""

    batch_size: int = option(128, "dialogs, queries or pictures per batch", least=1)


@dataclass(kw_only=True)
class Scored:
    """Score of the products."""

    score: Literal["words", "vectors"] = option(
        "words",
        "what ranks products: words, those of titles, descriptions and labels beside the vectors; or vectors alone, as "
        "in the papers",
        research=True,
    )


@dataclass(kw_only=True)
class Decoding:
    """Processes that decode pictures."""

    workers: int = option(
        2, "processes that decode pictures; 0 decodes in the main process", least=0, below=257
    )


@dataclass(kw_only=True)
class Verified:
    """Comparison with checksums."""

    verify: bool = option(
        False, "first compare the weights and features with their checksums, which reads all of them"
    )


@dataclass(kw_only=True)
class OfCategory:
    """Category of products."""

    category: str = required(CATEGORY)


@dataclass(kw_only=True)
class OfAnyCategory:
    """Category of products, or all."""

    category: str | None = option(None, CATEGORY + " (default: all categories of the folder)")


@dataclass(kw_only=True)
class InFolder:
    """Folder of catalogs."""

    data: Path = option(CATALOGS, DATA, reads="catalog")


@dataclass(kw_only=True)
class InCatalog(OfCategory, InFolder):
    """A category of a folder."""


@dataclass(kw_only=True)
class WithFeatures(InCatalog):
    """A category and its feature store."""

    features: Path | None = option(None, FEATURES)


@dataclass(kw_only=True)
class OfRun:
    """Data of a run, or others."""

    data: Path | None = option(None, DATA + " (default: that of the run)", reads="catalog")
    category: str | None = option(None, CATEGORY + " (default: that of the run)")


@dataclass(kw_only=True)
class WithFeaturesOfRun(OfRun):
    """Data and feature store of a run, or others."""

    features: Path | None = option(None, "feature store (default: that of the run)")


@dataclass(kw_only=True)
class WithoutTraining:
    """Encoder in place of a run."""

    encoder: str | None = option(
        None,
        "encoder of texts, or of texts and pictures, that searches the catalog in --data without training; the values "
        "are those of extract-features",
    )


@dataclass(kw_only=True)
class OfProducts:
    """Products that are searched."""

    split: Searched = option("all", "products that are searched: those of a split, or all of the catalog")


@dataclass(kw_only=True)
class Finds(OnDevice, OfProducts):
    """Products that are searched, and the engine of the search."""

    index: str | None = option(
        None,
        "FAISS index that finds the products, such as IVF4096,Flat or HNSW32, for about a million products; it is "
        "built once and stored in the run; recall@10 below 0.95 is an error (default: exact search)",
    )
    gallery: str | None = option(
        None,
        "Milvus that finds the products: milvus://HOST:PORT, or milvus:///PATH.db for a folder of milvus-lite; the "
        "vectors of the run are written to it once (default: search in this process)",
    )

    def validate(self) -> None:
        refuse((self.index and self.gallery, "--index and --gallery exclude each other; give one of them"))


@dataclass(kw_only=True)
class Prompted:
    """Prompts of the user's own, and of the language models."""

    prompt: Path | None = option(
        None,
        "YAML file of prompts, `name: text`, in place of the package's; docs/questions.md lists their names",
        reads="file",
        research=True,
    )


@dataclass(kw_only=True)
class Questioning:
    """Model and candidates of questions."""

    language_model: str | None = option(
        None,
        "language model that asks the questions of few-shot, unanswered and PlugIR (without one, PlugIR asks about "
        "labels): a folder, a Hugging Face name, or endpoint:NAME for a model at OPENAI_BASE_URL",
    )
    candidates: int = option(
        100,
        "nearest products among which the question is to tell the target (PlugIR: 500)",
        least=1,
        research=True,
    )


@dataclass(kw_only=True)
class OfConversations:
    """A folder of conversations, and the feature stores of its items."""

    data: Path = option(Path("data/conversations"), "folder of make-conversations")
    features: list[str] = option(
        [], "feature stores of the items; those of an encoder of queries may be among them"
    )


@dataclass(kw_only=True)
class Speaking:
    """Options of simulated dialogs."""

    turns: int = option(5, "turns per dialog, fewer than 1,000", least=1, below=1000)
    samples: int | None = option(
        None,
        "captions that a captioner draws at each turn, of which it says the one by which a linear retriever fitted to "
        f"the recorded captions ranks the target best; 1 is greedy (paper) (default: {DRAWN}, in training "
        f"{DRAWN_IN_TRAINING}, or 1 with --beam)",
        least=1,
        research=True,
    )
    beam: int = option(1, "beam width of a captioner; more than 1 replaces --samples", least=1, research=True)
    word_noise: float = option(
        0.0,
        "share of the simulated user's words that are corrupted: dropped, swapped with a neighbor or negated, "
        "in equal parts",
        least=0,
        below=1,
        research=True,
    )

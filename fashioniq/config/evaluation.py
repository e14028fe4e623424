"""Settings of the evaluation commands."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq import plugins
from fashioniq.config.shared import (
    OUT,
    Batched,
    OnDevice,
    Scored,
    Seeded,
    Speaking,
    Verified,
    WithFeaturesOfRun,
    option,
    required,
)
from fashioniq.files import UserError

Split = Literal["train", "val", "test"]
RECORDED = ("human", "sessions")  # values of --user whose words are recorded


def is_named(user: str) -> bool:
    """Whether a value of --user is not a run of train-captioner."""
    return user in RECORDED or plugins.is_part("users", user)


LAST_SHOWN, BM25 = "last-shown", "bm25"
BASELINES = (LAST_SHOWN, BM25)  # values of --run that are no run


@dataclass(kw_only=True)
class Evaluation(Batched):
    """Options of the dialog evaluation of all systems."""

    system: str = option(
        "fashion-iq",
        "system: fashion-iq, chatir, plugir-asks, genir, dar, fashion-iq-dar, or one of your own, such as my_system or "
        "my_package.my_module:MySystem; --help lists the options of the one given",
        part="systems",
    )
    out: Path | None = option(None, OUT + " (required)")

    def folder(self) -> Path:
        """Output folder. Raises UserError without --out."""
        if self.out is None:
            raise UserError(f"--system {self.system} has no default output folder; give --out")
        return self.out


@dataclass(kw_only=True)
class OfTargets:
    """Split of the products."""

    split: Split = option("test", "split whose products are the targets and the gallery")


@dataclass(kw_only=True)
class EvalDialogs(OfTargets, Evaluation, Scored, Verified, OnDevice, Seeded, WithFeaturesOfRun, Speaking):
    """Evaluate a retriever in dialogs, one per product of a split as the target; write measures, ranks and a
    page.
    """

    run: Path | None = option(
        None,
        "run of train-retriever or train-composer, such as runs/retriever-dresses-attrs; last-shown for the baseline "
        "whose query is the product shown last; or, with people's words, bm25 for plain BM25 over titles, descriptions "
        "and labels, or a search without training, such as DATA/zero-shot/dress-ENCODER (required)",
        reads="retriever or zero-shot search",
    )
    user: list[str] = option(
        [],
        "users, of which several give a table: a run of train-captioner; differences for differences of "
        "attribute labels; grammar for the drawn sample's own grammar; endpoint:NAME or local:NAME for a language "
        "model that reads descriptions and labels, at OPENAI_BASE_URL or from a folder or the hub; human for recorded "
        "captions as dialogs of one turn; sessions for recorded sessions of several turns, with --sessions; or one of "
        "your own (default: the first captioner used in training, and all others for which there is data, except "
        "language models)",
        part="users",
    )
    index: str | None = option(
        None,
        "FAISS index that finds the products to show, such as IVF4096,Flat or HNSW32, for catalogs of about "
        "a million products; recall@10 below 0.95 is an error, ranks stay exact (default: exact search)",
        research=True,
    )
    exclude_shown: bool | None = option(
        None,
        "never show a product twice in a dialog; ranks still count all products (default: on if the run was trained "
        "with it)",
        research=True,
    )
    linear: Path | None = option(
        None,
        "run of train-retriever --epochs 0, shown as a baseline beside results on people's words",
        reads="retriever",
    )
    sessions: Path | None = option(None, "folder of Multiturn FashionIQ, for --user sessions")
    captions: Literal["each", "joined"] = option(
        "each",
        "captions with --user human: each caption of a pair as a dialog of its own, or both joined by 'and'",
        research=True,
    )
    out: Path | None = option(None, OUT + " (default: RUN/dialogs-SPLIT)")

    def folder(self) -> Path:
        """Output folder, by default in the run. Raises UserError without --run."""
        if self.run is None:
            raise UserError("no retriever given; give --run RUN")
        user = self.only_user
        named = f"-{plugins.file_name(user)}" if user and is_named(user) else ""
        return self.out or self.run / f"dialogs-{self.split}{named}"

    @property
    def only_user(self) -> str | None:
        """The user, if exactly one is given."""
        return self.user[0] if len(self.user) == 1 else None


@dataclass(kw_only=True)
class EvalChatIR(OnDevice, Evaluation):
    """Rank the images of a search space after every round of recorded question dialogs (ChatIR's protocol)."""

    system: str = "chatir"
    dialogues: list[str] = option(
        [],
        "dialog files in the format of ChatIR, VisDial v1.0 or PlugIR; several share one table and one plot",
    )
    search_space: Path = required("search space: JSON list of the names of all images that are searched")
    images: Path | None = option(
        None,
        "folder that the image names are relative to; names without a suffix may be .jpg, .jpeg, .png or "
        ".webp",
    )
    encoder: str | None = option(
        None,
        "encoder: any of extract-features, such as Salesforce/blip-itm-base-coco, or a run of train-dialog-encoder",
    )
    weights: Path | None = option(
        None,
        "BLIP weights: ChatIR's checkpoint, a fine-tuned state_dict (.pth, .ckpt) or .safetensors "
        "(default: those of --encoder)",
        research=True,
    )
    features: Path | None = option(
        None,
        "feature store of the images, made by extract-features with this encoder (required with --encoder)",
    )
    query_vectors: list[str] = option(
        [],
        "query vectors instead of --encoder: a .npy file, dialogs × rounds × D, for each of --dialogues",
        research=True,
    )
    gallery_vectors: Path | None = option(
        None,
        "image vectors for --query-vectors: a .npy file, images × D, in the order of the search space",
        research=True,
    )
    separator: str | None = option(
        None,
        "separator between rounds (default: that of the run, or a comma; [SEP], as in ChatIR's paper, also parts "
        "questions from answers)",
        research=True,
    )
    query: Literal["auto", "rounds", "last"] = option(
        "auto",
        "query text: all rounds so far, or the last round alone (PlugIR); auto is last if fewer than half "
        "of the rounds contain a question mark",
        research=True,
    )


@dataclass(kw_only=True)
class EvalCaptions(Verified, OnDevice, Seeded, Batched, WithFeaturesOfRun):
    """Score a captioner, people and two baselines against human captions: BLEU, ROUGE-L, CIDEr, METEOR, SPICE; and tell
    how like people's the captions of simulated users are.
    """

    run: Path | None = option(
        None,
        "run of train-captioner (default: none; people and baselines are scored on all captioned pairs)",
        reads="captioner",
    )
    split: Split = option("val", "split whose pairs are captioned; released test pairs have no targets")
    captions: Path | None = option(
        None,
        "file of captions by another speaker, in the form of DATA/captions; its pairs alone are scored, with the first "
        "caption of each",
        reads="file",
    )
    user: list[str] = option(
        [],
        "further users, such as endpoint:NAME or local:NAME for a language model that reads descriptions and labels; "
        "those that speak by labels or a grammar are compared anyway",
        part="users",
    )
    samples: int | None = option(
        None,
        "captions that the captioner draws for each pair, of which it says the most informative one, as in "
        "dialogs; 1 is greedy (default: decode with --beam instead)",
        least=1,
        research=True,
    )
    beam: int | None = option(None, "beam width (default: 5, without --samples)", least=1, research=True)
    out: Path | None = option(
        None, OUT + " (default: RUN/captions-SPLIT, or runs/people-CATEGORY/captions-SPLIT)"
    )


@dataclass(kw_only=True)
class Compare(Seeded):
    """Compare dialog evaluations turn by turn (Fashion IQ, table 6) or round by round, and test the differences for
    significance.
    """

    runs: list[str] = option(
        [],
        "output folders of eval-dialogs; each is compared with the first; A,B,C are seeds of one model",
        positional="RUN",
    )
    measure: str | None = option(
        None,
        "measure: P, MRR (mean reciprocal rank), R@N at the turn, or Hits@N at any turn up to it (default: R@10; of "
        "question dialogs Hits@10)",
    )
    turn: int | None = option(
        None,
        "turn to compare, from 1, or round of question dialogs, from 0 (default: the last one of all evaluations)",
        least=0,
    )
    out: Path | None = option(
        None,
        "output folder for comparison.json, .csv and .tex, turns.txt, .csv and .tex, and pages of paired dialogs",
    )

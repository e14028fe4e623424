"""Settings of the commands for dialogs of questions and answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq import plugins
from fashioniq.config.shared import (
    CATEGORY,
    Batched,
    Decoding,
    Finds,
    InCatalog,
    InFolder,
    OfProducts,
    OfRun,
    OnDevice,
    Prompted,
    Questioning,
    Seeded,
    Verified,
    WithFeaturesOfRun,
    WithoutTraining,
    option,
    refuse,
    required,
)


@dataclass(kw_only=True)
class EndpointOptions:
    """Options of requests to a model at OPENAI_BASE_URL."""

    cache: Path = option(
        Path("runs/endpoint-cache"),
        "cache folder of the endpoint's answers; cached requests are not sent again",
    )
    timeout: float = option(60.0, "time limit of an endpoint request in seconds", least=0.1, research=True)


@dataclass(kw_only=True)
class Asking(Questioning, Prompted, OnDevice, Seeded, EndpointOptions):
    """Options of the commands that ask questions."""

    split: Literal["train", "val", "test"] = option("test", "split whose products the dialogs are about")
    questioner: str = option(
        "candidate-aware",
        "source of the questions: recorded, those of recorded dialogs; few-shot, a language model's question after "
        "each answer; unanswered, all its questions at once; in-order or shuffled, about attributes; candidate-aware, "
        "those that split the candidates best; page, a person in the browser; or an asker of your own",
        part="askers",
    )
    encoder: str | None = option(
        None, "encoder that finds the candidates: a run of train-dialog-encoder, or any of extract-features"
    )
    features: Path | None = option(
        None,
        "feature store of the encoder (default: DATA/features/CATEGORY if it has its vectors, else "
        "DATA/features/CATEGORY-NAME, where missing products are added)",
    )
    predictor: Path | None = option(
        None, "run of train-attributes that predicts the attributes of the candidates (default: their labels)"
    )
    rounds: int = option(10, "questions per dialog", least=1)

    def questioners(self) -> list[str]:
        """Names of the askers that the command has."""
        return plugins.names("askers")

    def validate(self) -> None:
        known = self.questioners()
        refuse(
            (
                self.questioner not in known and not plugins.is_from_outside("askers", self.questioner),
                f"--questioner: expected {', '.join(known)} or an asker of your own, found {self.questioner}",
            )
        )


PEOPLE = ("person", "page")  # who type at the terminal, or on a page of this machine
ANSWERERS = ("labels", "vqa", "recorded", *PEOPLE, "descriptions")


@dataclass(kw_only=True)
class MakeDialogues(Batched, InFolder, Asking):
    """Generate dialogs of questions and answers in ChatIR's format; the same command resumes an interrupted
    run.
    """

    category: str | None = option(
        None, CATEGORY + " (optional with --captions-from, unless questions or answers need the catalog)"
    )
    captions_from: Path | None = option(
        None,
        "dialog file whose images and captions start the dialogs, and that has the recorded questions and answers "
        "(default: DATA/dialogues/CATEGORY.SPLIT.json, or titles)",
    )
    answerer: str = option(
        "labels",
        "source of the answers: labels, attribute labels; vqa, a visual question answering model; recorded, recorded "
        "answers; person, who types in the terminal, or page, in the browser; "
        "descriptions: no questions, but in each round a description with more of the labels, to train text encoders; "
        "or a user of your own",
        part="users",
    )
    details: int = option(
        2, "labels of the first of the descriptions, and added by each further one", least=1
    )
    vqa_model: str | None = option(
        None,
        "visual question answering model: BLIP-2 or BLIP by folder or Hugging Face name, or endpoint:NAME "
        "for a model at OPENAI_BASE_URL",
    )
    images: Path | None = option(
        None, "folder that the image names are relative to (default: the pictures of the catalog)"
    )
    out: Path = required("output file, such as dialogs.json")
    batch_size: int = 32

    def validate(self) -> None:
        super().validate()
        refuse(
            (
                self.answerer not in ANSWERERS and not plugins.is_from_outside("users", self.answerer),
                f"expected {', '.join(ANSWERERS)} or a user of your own, found {self.answerer}; correct --answerer",
            )
        )


@dataclass(kw_only=True)
class MakeConversations(OnDevice, Seeded, InFolder, EndpointOptions):
    """Make conversations of words and pictures that lead to a product, in ChatSearch's form; the same command
    resumes an interrupted run.
    """

    category: list[str] = option([], "categories (default: all of the folder)")
    out: Path = required("output folder")
    train: int = option(
        2000, "samples of text dialogs of train; there are twice as many of i and of m", least=1, below=10**6
    )
    test: int = option(
        1000, "samples of text dialogs of test (the products of val and test)", least=1, below=10**6
    )
    language_model: str | None = option(
        None,
        "language model that writes the texts: a folder, a Hugging Face name, or endpoint:NAME for a model at "
        "OPENAI_BASE_URL (default: templates filled from the labels)",
    )
    encoder: str | None = option(
        None,
        "encoder of pictures and texts: a run of train-dialog-encoder, or any of extract-features "
        "(default: the vectors of the feature stores for pictures, and shared words for texts)",
    )
    features: Path | None = option(
        None, "feature store of a single category (default: DATA/features/CATEGORY, or that of --encoder)"
    )
    sessions: Path | None = option(
        None,
        "folder of Multiturn FashionIQ, whose sessions are written as conversations in people's words; LLaVA's .json "
        "(pictures in --data) or InstructPix2Pix's seeds.json, whose conversations are added to --out to train a "
        "ChatSearcher; no others are made",
    )
    batch_size: int = option(
        32, "conversations per batch, after which a run can be resumed", least=1, below=10_001
    )

    @property
    def adds_others(self) -> bool:
        """Whether --sessions names LLaVA's or InstructPix2Pix's files."""
        return self.sessions is not None and self.sessions.suffix == ".json"

    def validate(self) -> None:
        """Raise UserError for options that cannot be combined."""
        several = len(self.category) != 1
        refuse(
            (
                self.features and several,
                "--features is the store of one category; give it with --category",
            ),
            (
                self.sessions and not self.adds_others and several,
                "--sessions needs one category; give it with --category",
            ),
        )


@dataclass(kw_only=True)
class DescribePictures(OnDevice, Batched, Decoding, InCatalog, EndpointOptions):
    """Describe every picture in words, by a vision-language model; the same command resumes, and adds new pictures."""

    model: str = required(
        "model: BLIP, BLIP-2, GIT or a chat model that sees pictures, by folder or Hugging Face name, or endpoint:NAME "
        "for a model at OPENAI_BASE_URL"
    )
    attributes: list[str] = option(
        [], "attributes whose values are written instead of a sentence, such as color pattern"
    )
    count: int | None = option(
        None, "pictures to describe at most, spread over the catalog, to look at the samples first", least=1
    )
    batch_size: int = 32


@dataclass(kw_only=True)
class Chat(WithoutTraining, OfProducts, OfRun, Asking):  # type: ignore[misc]  # another split
    """Search in a dialog in the terminal: type requests, see the products found; Ctrl-D ends the
    chat.
    """

    run: Path | None = option(
        None,
        "run of train-retriever, train-composer, train-dialog-encoder or train-chatsearcher (alternative: --encoder); "
        "only a dialog encoder, or an encoder with --questioner, asks questions, a ChatSearcher answers in words",
    )
    questioner: str = option(
        "none",
        "source of questions, as in make-dialogues (default: none; of a dialog encoder candidate-aware)",
        part="askers",
    )
    generator: str | None = option(
        None,
        "generator: the dialog encoder of --run searches with the picture that it makes of your words (GenIR), which "
        "the run of --predictor embeds; the values are those of eval-dialogs --system genir",
    )
    show: int = option(5, "products shown after each turn", least=1)
    log: Path | None = option(
        None, "log file; the dialog is appended as a line of JSON (default: RUN/chats/dialogs.jsonl)"
    )

    def questioners(self) -> list[str]:
        """All but the questions of recorded dialogs and of people."""
        return ["none", *(name for name in super().questioners() if name not in ("recorded", "page"))]


@dataclass(kw_only=True)
class Search(WithoutTraining, Verified, WithFeaturesOfRun, Finds):
    """Print the products found for a request, by a trained system or by an encoder without training."""

    run: Path | None = option(
        None, "run of train-retriever, train-composer or train-dialog-encoder", reads="run"
    )
    text: str = required("request, such as “is navy with longer sleeves”")
    like: str | None = option(
        None,
        "id of the product that the request refers to (default: none, the request is about the whole catalog)",
    )
    count: int = option(10, "number of products to print", least=1, alias="-n")
    json: bool = option(False, "print JSON instead of a table")

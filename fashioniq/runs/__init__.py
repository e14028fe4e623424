"""Description of a trained model: model.json in the folder of a run, beside its weights (runs/weights.py).

The classes below define model.json for reading and writing: their fields are its keys, in this order, but for those
that training ends with, which come last. Keys of later versions are ignored; a key with the default UNSET may be
absent. `checksum` is that of the weights.
"""

from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq import __version__
from fashioniq.features.store import StoreIdentity
from fashioniq.files import UserError, one_line, read_json, refuse_special, typed, write_json
from fashioniq.plugins import module_hint
from fashioniq.provenance import Provenance

Figures = dict[str, float]  # of the best epoch, by name
WEIGHTS = "weights.safetensors"
WORDING, LABELS = "wording.json", "labels.safetensors"  # see data/wording.py
ON_HUB = "model.safetensors"  # weights of a run in the layout of the Hugging Face hub
DENOISER = (
    "denoiser/diffusion_pytorch_model.safetensors"  # weights of a generator, in the layout of diffusers
)


class CatalogOrigin(msgspec.Struct, kw_only=True):
    """Catalog that a model was trained on; `coverage` is the share of each split that was usable."""

    folder: str = ""
    fingerprint: str = ""
    pictures: str = ""
    captions: str = ""
    coverage: dict[str, float] = {}


class DialoguesOrigin(msgspec.Struct, kw_only=True):
    """Files that a dialog encoder was trained on, with their checksums and coverage, by split."""

    dialogues: dict[str, str] = {}
    checksums: dict[str, str] = {}
    coverage: dict[str, float] = {}


class _Trained(msgspec.Struct, kw_only=True):
    """Keys of every model.json, of which those that training ends with come last."""

    KIND: ClassVar[str]
    version: str = __version__
    metrics: Figures | UnsetType = UNSET
    checksum: str | UnsetType = UNSET
    provenance: Provenance | UnsetType = UNSET


class _OfCategory(_Trained, kw_only=True):
    kind: str
    category: str


class _WithWords(_OfCategory, kw_only=True):
    attrs: bool
    model: str
    sizes: dict[str, Any]
    words: list[str]
    features: StoreIdentity
    data: CatalogOrigin


class CaptionerRun(_WithWords, kw_only=True):
    """model.json of a captioner.

    `captions_true` is the share of the statements in the captions of train that are true by the labels, unset if
    labels can decide none.
    """

    KIND: ClassVar[str] = "captioner"
    captions_true: float | UnsetType = UNSET


class RetrieverRun(_WithWords, kw_only=True):
    """model.json of a retriever.

    `users` are the users of its training: runs of captioners, "differences", "recorded" or "sessions". `user` is
    the first captioner, None without one. `dialogs` says whether the users are simulated, recorded or both;
    the first runs have no `users`.
    """

    KIND: ClassVar[str] = "retriever"
    user: str | None
    loss: str = ""
    negatives: str = ""
    users: list[str] = []
    dialogs: str = ""
    errors: float = 0.0
    exclude_shown: bool = False


class DialogEncoderRun(_Trained, kw_only=True):
    """model.json of a text encoder of dialogs.

    `encoder` is "transformer", or the CLIP or BLIP whose text half was trained.
    """

    KIND: ClassVar[str] = "dialog encoder"
    model: str
    sizes: dict[str, Any]
    words: list[str]
    kind: str
    encoder: str = ""
    features: StoreIdentity
    joined: str
    loss: str = ""
    mask: str = ""
    data: DialoguesOrigin


class PredictorRun(_OfCategory, kw_only=True):
    """model.json of an attribute predictor. `category` is "all" for the first stage, of all garments."""

    KIND: ClassVar[str] = "attribute predictor"
    encoder: str
    image_size: int
    attribute_words: list[str]
    attribute_types: list[Any] | UnsetType = UNSET
    pictures: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    coverage: dict[str, float] | UnsetType = UNSET


class GeneratorRun(_OfCategory, kw_only=True):
    """model.json of a picture generator.

    `evaluation` has the shares of the words that an attribute predictor finds in its pictures, and is unset without
    one.
    """

    KIND: ClassVar[str] = "generator"
    sizes: dict[str, Any]
    words: list[str]
    types: list[str]
    language: str = "en"
    pictures: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    coverage: dict[str, float] | UnsetType = UNSET
    evaluation: dict[str, Any] | UnsetType = UNSET


class ChatSearcherRun(_Trained, kw_only=True):
    """model.json of a ChatSearcher.

    `language_model` is a folder or a name of the hub, "" for a decoder of our own; of what was not trained,
    `tuned` "lora" or "frozen", the weights are there. `features` are the frozen features.
    """

    KIND: ClassVar[str] = "chatsearcher"
    kind: str
    stage: str
    language_model: str
    tuned: str
    sizes: dict[str, Any]
    words: list[str]
    features: dict[str, Any]
    negatives: str
    data: DialoguesOrigin


class ZeroShotRun(_OfCategory, kw_only=True):
    """model.json of a search without training; `shown` is the weight of the product talked about."""

    KIND: ClassVar[str] = "zero-shot search"
    encoder: str
    features: StoreIdentity
    data: CatalogOrigin
    shown: float = 0.5


Run = (
    CaptionerRun
    | RetrieverRun
    | DialogEncoderRun
    | PredictorRun
    | GeneratorRun
    | ChatSearcherRun
    | ZeroShotRun
)
KINDS: dict[str, type[Any]] = {
    kind.KIND: kind
    for kind in (
        CaptionerRun,
        RetrieverRun,
        DialogEncoderRun,
        PredictorRun,
        GeneratorRun,
        ChatSearcherRun,
        ZeroShotRun,
    )
}
TRAINED_BY = {
    "captioner": "train-captioner",
    "retriever": "train-retriever",
    "dialog encoder": "train-dialog-encoder",
    "attribute predictor": "train-attributes",
    "generator": "train-generator",
    "chatsearcher": "train-chatsearcher",
    "zero-shot search": "search --encoder",
}
R = TypeVar("R", bound=Run)


def write_run(run: Path, about: Run) -> None:
    """Write `model.json`."""
    content = msgspec.to_builtins(about)
    last = {name: content.pop(name) for name in ("metrics", "checksum", "provenance") if name in content}
    write_json(run / "model.json", content | last)


def a_or_an(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def kind_of(run: Path) -> str:
    """Kind of the model of a run, such as "retriever". Raises UserError if there is no readable model.json."""
    if not (run / "model.json").exists():
        found = "model.json" if run.is_dir() else "such folder"
        raise UserError(
            f"expected a trained run in {run}, found no {found}; give the folder of a run, or train one with "
            "`fashioniq train-retriever`"
        )
    return str(read_json(run / "model.json", "the model of the run", dict).get("kind"))


def is_zero_shot(run: Path) -> bool:
    """Whether a folder has the run of a search without training."""
    return (run / "model.json").exists() and kind_of(run) == ZeroShotRun.KIND


def read_run(run: Path, kind: type[R]) -> R:
    """Read model.json of a run. Raises UserError if it is missing, incomplete or of another kind."""
    run, name = Path(run), kind.KIND
    refuse_special(run)
    if not run.is_dir():
        raise UserError(
            f"expected {a_or_an(name)} in {run}, found no such folder; train it first with `fashioniq "
            f"{TRAINED_BY[name]}`, or correct the path{module_hint(str(run))}"
        )
    if not (run / "model.json").exists():
        raise UserError(
            f"expected {a_or_an(name)} in {run}, found no model.json; give the folder of a run of "
            f"{TRAINED_BY[name]}, or train one with `fashioniq {TRAINED_BY[name]}`"
        )
    content = read_json(run / "model.json", f"the {name} of the run", dict)
    if content.get("kind") != name:
        found = a_or_an(str(content.get("kind")))
        raise UserError(f"expected {a_or_an(name)}, found {found} in {run}; give a run of {TRAINED_BY[name]}")
    about = typed(content, kind, run / "model.json", f"train the {name} again")
    if isinstance(about, _WithWords | DialogEncoderRun | GeneratorRun | ChatSearcherRun):
        _check_words(run, about, name)
    return about


def weights_file(run: Path) -> Path:
    """File of the weights of a run."""
    paths = [Path(run) / name for name in (WEIGHTS, DENOISER, ON_HUB)]
    return next((path for path in paths if path.exists()), paths[0])


def _check_words(
    run: Path, about: _WithWords | DialogEncoderRun | GeneratorRun | ChatSearcherRun, name: str
) -> None:
    """Raise UserError if the words are not as many as the model has ids, or one occurs twice, or the most words of a
    text are no number.
    """
    most = about.sizes.get("max_words", 1)
    if type(most) is not int or most < 1:
        found = one_line(repr(most), 40)
        raise UserError(f"{run / 'model.json'} is damaged, it has max_words {found}; train the {name} again")
    expected, words = about.sizes.get("vocabulary", len(about.words)), about.words
    if len(words) != expected or len(set(words)) < len(words):
        found = f"{len(words)} words instead of {expected}" if len(words) != expected else "a word twice"
        raise UserError(f"{run / 'model.json'} is damaged, it has {found}; train the {name} again")

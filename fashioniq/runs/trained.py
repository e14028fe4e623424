"""Loading of trained models from their run folders, and choice of the device."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from msgspec import UNSET

from fashioniq import encoders, plugins
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, explaining, why
from fashioniq.hub import use_cache_if_offline
from fashioniq.language.statements import StatementCheck
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.causal_language_model import CausalLanguageModel, SmallDecoder, load_language_model
from fashioniq.models.chat_tokens import ChatTokens, Pieces, Words
from fashioniq.models.chatsearcher import ChatSearcher
from fashioniq.models.configs import (
    DRAWN,
    ChatSearcherConfig,
    DialogEncoderConfig,
)
from fashioniq.models.dialog_encoder import DialogEncoder, Pretrained, TextHalf, TextTower
from fashioniq.models.linear import LinearRetriever
from fashioniq.models.retriever import BaseRetriever
from fashioniq.runs import (
    CaptionerRun,
    ChatSearcherRun,
    DialogEncoderRun,
    PredictorRun,
    RetrieverRun,
    read_run,
)
from fashioniq.runs.checks import check_features, check_fits
from fashioniq.runs.weights import load_weights
from fashioniq.users.captioner import Simulator
from fashioniq.users.pragmatic import Listener

R = TypeVar("R", CaptionerRun, RetrieverRun)
LISTENER, JUDGE = "listener", "judge"  # folders in the run of a captioner
RELIABLE = 0.8  # share of the statements in captions that must hold by the labels, or the labels are ignored


def create(parts: str, name: str, sizes: Mapping[str, Any]) -> Any:
    """Create a model of `parts`, retrievers or captioners, from its name and the `sizes` of model.json.

    Raises many exceptions if they are damaged.
    """
    _check_sizes(sizes)
    config_class: Any = plugins.options_of(parts, name)
    config, of_data = config_class.of_sizes(name, sizes)
    return plugins.find(parts, name)(config, **of_data)


def _check_sizes(sizes: Mapping[str, Any]) -> None:
    if small := [name for name in ("width", "heads", "hidden", "layers") if sizes.get(name, 1) < 1]:
        raise ValueError(f"{small[0]} is {sizes[small[0]]}")


def _sizes_of(run: Path, kind: str) -> AbstractContextManager[None]:
    """Convert what is raised inside for damaged sizes of a model.json to UserError."""
    return explaining(
        f"{run / 'model.json'} is damaged, its sizes make no model",
        f"; train the {kind} again",
        (ArithmeticError, AssertionError, KeyError, RuntimeError, TypeError, ValueError),
    )


def load_simulator(
    run: Path,
    category: str,
    store: FeatureStore,
    truth: StatementCheck | None,
    *,
    beams: int = 1,
    samples: int | None = None,
    usual: int = DRAWN,
) -> tuple[Simulator, CaptionerRun]:
    """A captioner as user, and its description.

    By default it is pragmatic, with the `usual` number of samples, unless `beams` are given. It keeps to the
    `truth` by the labels of the products if those agree with the captions it was trained on. Raises UserError if files
    are missing or do not match, or if both are given.
    """
    if beams > 1 and (samples or 1) > 1:
        raise UserError(f"--beam {beams} and --samples {samples} exclude each other; give one of them")
    captioner, words, about = _load(run, CaptionerRun, "captioners", category, store)
    if samples is None:
        samples = usual if beams == 1 else 1
    if samples == 1:
        return Simulator(captioner, words, beams), about
    listener = load_listener(run / LISTENER, category, store)
    kept = truth if about.captions_true is not UNSET and about.captions_true >= RELIABLE else None
    return Simulator(captioner, words, samples=samples, listener=listener, truth=kept), about


def load_listener(run: Path, category: str, store: FeatureStore) -> Listener:
    """A listener in the run of a captioner: the one in LISTENER, which it speaks to, or the one in JUDGE."""
    if not run.is_dir():
        raise UserError(
            f"expected the {run.name} of a captioner in {run}, found none; train the captioner again"
        )
    model, words, _ = load_retriever(run, category, store)
    assert isinstance(model, LinearRetriever), "train-captioner writes no other models there"
    return Listener(model, words)


def load_retriever(
    run: Path, category: str = "", store: FeatureStore | None = None
) -> tuple[BaseRetriever, Vocabulary, RetrieverRun]:
    """A trained retriever, its vocabulary and its description.

    With a store, it is checked against the category and the features.
    """
    return _load(run, RetrieverRun, "retrievers", category, store)


def _load(
    run: Path,
    kind: type[R],
    parts: str,
    category: str,
    store: FeatureStore | None,
) -> tuple[Any, Vocabulary, R]:
    about = read_run(run, kind)
    if store is not None:
        check_fits(run, about, category, store)
    plugins.recorded(parts, about.model, run)
    with _sizes_of(run, kind.KIND):
        model = create(parts, about.model, about.sizes)
    load_weights(run, model)
    return model.eval(), Vocabulary(about.words[len(SPECIAL) :]), about


def load_predictor(run: Path) -> tuple[AttributePredictor, PredictorRun]:
    """A trained attribute predictor and its description."""
    from fashioniq.models.encoder import create_encoder, encoder_size  # here, as it imports timm

    about = read_run(run, PredictorRun)
    try:
        encoder = create_encoder(about.encoder)
    except ValueError as error:
        raise UserError(
            f"expected a network of timm in {run / 'model.json'}, found {about.encoder!r}; train again"
        ) from error
    model = AttributePredictor(encoder, encoder_size(encoder), len(about.attribute_words))
    load_weights(run, model)
    return model.eval(), about


def load_dialog_encoder(run: Path, store: FeatureStore) -> tuple[TextTower, str]:
    """A trained dialog encoder and what stood between the rounds of its dialogs.

    Raises UserError where it was trained on other features.
    """
    about = read_run(run, DialogEncoderRun)
    check_features(run, about, store)
    if about.model == "transformer":
        vocabulary = Vocabulary(about.words[len(SPECIAL) :])
        with _sizes_of(run, DialogEncoderRun.KIND):
            _check_sizes(about.sizes)
            config, of_data = DialogEncoderConfig.of_sizes("transformer", about.sizes)
            model: TextTower = DialogEncoder(config, vocabulary=vocabulary, **of_data)
    else:
        model = TextHalf(trainable(about.encoder))
    load_weights(run, model)
    return model.eval(), about.joined


def load_chatsearcher(
    run: Path, *, half: bool = False, tune: str | None = None
) -> tuple[ChatSearcher, ChatTokens, ChatSearcherRun]:
    """A trained ChatSearcher, its tokens and its description.

    With `tune`, its language model is trained on in this way; `half` loads what is not trained in bfloat16.
    """
    about = read_run(run, ChatSearcherRun)
    with _sizes_of(run, ChatSearcherRun.KIND):
        _check_sizes(about.sizes)
        model, tokens = new_chatsearcher(
            about.sizes, about.words, about.language_model, half=half, tune=about.tuned
        )
    load_weights(run, model)
    if tune not in (None, about.tuned):
        if about.language_model or tune == "lora":
            raise UserError(f"{run} was trained with --tune {about.tuned}, not {tune}; give the same")
        model.language_model.requires_grad_(tune == "all")
    return model.eval(), tokens, about


def new_chatsearcher(
    sizes: Mapping[str, Any], words: list[str], language_model: str, *, half: bool, tune: str
) -> tuple[ChatSearcher, ChatTokens]:
    """A ChatSearcher with random weights, but those of its pretrained language model, and its tokens."""
    config, of_data = ChatSearcherConfig.of_sizes("chatsearcher", sizes)
    if language_model:
        language, tokenizer = _language_model(language_model, half and tune != "all")
    else:
        if tune == "lora":
            raise UserError("--tune lora needs a pretrained language model; give --language-model")
        tokenizer = Words(Vocabulary(words[len(SPECIAL) :]))
        language = SmallDecoder(config, len(words))
    if tune != "all":
        language.requires_grad_(False)
    if tune == "lora":
        with explaining("--tune lora needs the package peft", "; pip install peft", ImportError):
            language.add_lora()  # type: ignore[operator]
    model = ChatSearcher(config, language_model=language, **of_data)
    return model, ChatTokens(tokenizer, language.ids, config.image_tokens, config.max_tokens)


def _language_model(name: str, half: bool) -> tuple[CausalLanguageModel, Words | Pieces]:
    if not Path(name).is_dir():
        use_cache_if_offline()
    try:
        model, tokenizer = load_language_model(name, torch.bfloat16 if half else torch.float32)
        return model, Pieces(tokenizer)
    except ImportError as error:
        raise UserError(
            f"language models need the package transformers ({error}); pip install 'fashioniq[chat]'"
        ) from error
    except Exception as error:  # the hub client, safetensors and transformers raise different ones
        raise UserError(
            f"cannot load the language model {name} ({why(error, 200)}); give a folder or a name of the hub"
        ) from error


def trainable(name: str) -> Pretrained:
    """A pretrained encoder whose text half can be trained. Raises UserError for other encoders."""
    encoder = encoders.load(name)
    if not hasattr(encoder, "text_half"):
        raise UserError(f"the texts of {name} cannot be trained; give a model of transformers, such as CLIP")
    return cast(Pretrained, encoder)

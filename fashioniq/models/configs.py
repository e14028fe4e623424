"""Model sizes: options of the training commands, and `sizes` in model.json.

This file does not import torch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

from fashioniq.files import UserError
from fashioniq.options import option

# captions that a captioner draws at each turn: in an evaluation, and in training; more take longer
DRAWN, DRAWN_IN_TRAINING = 32, 8
FITTED = ("linear", "residual")  # kinds of retrievers that start from ridge regression
TOKENS = 128  # width of the tokens of a residual retriever
WORD_WIDTH = 512  # size of word embeddings that recurrent models learn

_ON_DISK = {"max_tokens": "limit"}  # options whose key in model.json differs
_IN_CODE = {name: key for key, name in _ON_DISK.items()}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes set by options.

    Sizes that follow from the data (vocabulary, features, …) are arguments of the model.
    """

    # kind → keys of `sizes` in model.json, in their order; all for a kind that is not there
    KEYS: ClassVar[dict[str, tuple[str, ...]]] = {}

    kind: ClassVar[str]

    def sizes(self, **of_data: int) -> dict[str, Any]:
        """Return `sizes` for model.json: options and sizes of the data for this kind of model."""
        known = {_ON_DISK.get(name, name): value for name, value in asdict(self).items()} | of_data
        return {key: known[key] for key in self.KEYS.get(self.kind, [one for one in known if one != "kind"])}

    @classmethod
    def of_sizes(cls, kind: str, sizes: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Split `sizes` of model.json into the config and the sizes that follow from the data."""
        names = {one.name for one in fields(cls)}
        known = {_IN_CODE.get(key, key): value for key, value in sizes.items()}
        own = {name: value for name, value in known.items() if name in names}
        own |= {"kind": kind} if "kind" in names else {}
        return cls(**own), {name: value for name, value in known.items() if name not in names}


def check_heads(width: int, heads: int) -> None:
    """Raise UserError if the model width is not divisible by the number of attention heads."""
    if width % heads:
        raise UserError(
            f"--model.heads is {heads}, which does not divide --model.width {width}; use a divisor of the width"
        )


SMALL = 3000  # training pairs below which a small captioner is as good as the paper's, in a tenth of the time
_PAPER = {"width": 512, "heads": 8, "hidden": 2048, "layers": 6}
_OF_SMALL = {"width": 128, "heads": 4, "hidden": 512, "layers": 2}


def _by_pairs(name: str) -> str:
    return f"(default: {_PAPER[name]}, or {_OF_SMALL[name]} for fewer than {SMALL:,} training pairs)"


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(ModelConfig):
    """Sizes of a relative captioner; a size of 0 follows the number of training pairs."""

    KEYS = {
        "transformer": ("vocabulary", "features", "attributes", "width", "heads", "hidden", "layers", "dropout",
                        "max_words"),
        "rnn": ("vocabulary", "features", "attributes", "width", "dropout", "max_words"),
    }  # fmt: skip

    kind: Literal["transformer", "rnn"] = option(  # type: ignore[misc]
        "transformer",
        "architecture: transformer (paper) or rnn (show, attend and tell; ignores heads, hidden and layers)",
    )
    width: int = option(0, "model width: size of all token vectors " + _by_pairs("width"), least=0)
    heads: int = option(0, "attention heads; they must divide the width " + _by_pairs("heads"), least=0)
    hidden: int = option(0, "hidden units of the feed-forward layers " + _by_pairs("hidden"), least=0)
    layers: int = option(
        0, "layers of the encoder, and of the decoder " + _by_pairs("layers"), least=0, below=1001
    )
    dropout: float = option(0.1, "dropout rate in training", least=0, below=1)
    max_words: int = option(8, "maximum length of a caption in words; longer captions are cut", least=1)

    def for_pairs(self, pairs: int) -> "CaptionerConfig":
        """The same with the sizes that were not given, for a number of training pairs."""
        usual = _OF_SMALL if pairs < SMALL else _PAPER
        given = {name: getattr(self, name) or size for name, size in usual.items()}
        return replace(self, **given)  # type: ignore[arg-type]

    def validate(self) -> None:
        if self.kind == "transformer":  # what divides the small width divides the other one, too
            check_heads(self.width or _OF_SMALL["width"], self.heads or _OF_SMALL["heads"])


@dataclass(frozen=True, kw_only=True)
class RetrieverConfig(ModelConfig):
    """Sizes of a dialog retriever."""

    KEYS = {
        "transformer": ("vocabulary", "features", "attributes", "width", "heads", "hidden", "layers", "max_words",
                        "max_turns", "word_vector_size", "attention", "embedding"),
        "rnn": ("vocabulary", "features", "attributes", "width", "max_words", "word_vector_size", "embedding"),
        "linear": ("vocabulary", "features", "attributes", "width", "bigrams", "max_words"),
        "residual": ("vocabulary", "features", "attributes", "width", "heads", "hidden", "layers", "max_words",
                     "max_turns", "word_vector_size", "attention", "bigrams"),
    }  # fmt: skip

    kind: str = option(  # type: ignore[misc]
        "linear",
        "architecture: linear (starts from ridge regression on captions; uses only the width, at most that "
        "of the features), residual (linear, and a transformer that adds nothing at first), transformer (paper), rnn "
        "(Guo et al. 2018; ignores heads, hidden, layers and attention), or one of your own, with its own sizes",
        part="retrievers",
    )
    width: int = option(256, "model width: size of all token vectors, and of the search space", least=1)
    heads: int = option(8, "attention heads; they must divide the width", least=1)
    hidden: int = option(1024, "hidden units of the feed-forward layers", least=1)
    layers: int = option(6, "transformer layers", least=1, below=1001)
    attention: Literal["turn-causal", "both-ways"] = option(
        "turn-causal",
        "attention between turns: turn-causal sees the turn itself and earlier ones and encodes each turn "
        "once; "
        "both-ways (paper) encodes all turns again after each turn",
    )
    embedding: Literal["unit", "standardized"] = option(
        "unit",
        "image embedding: at unit length, or standardized with a learned scale (released code), at about the root of "
        "the width, as the margin of --loss triplet-unsquared needs (transformer and rnn)",
    )

    def validate(self) -> None:
        if self.kind not in self.KEYS:
            raise UserError(
                f"expected {', '.join(self.KEYS)} or a retriever of your own, found {self.kind}; correct --model.kind"
            )
        if self.kind in ("transformer", "residual"):
            check_heads(TOKENS if self.kind == "residual" else self.width, self.heads)
        if self.kind in FITTED and self.embedding != "unit":
            raise UserError(
                "--model.embedding standardized needs --model.kind transformer or rnn, whose vectors need not have "
                f"unit length as those of {self.kind} do; give one of them"
            )


# inputs of each composition (Fashion IQ, appendix B)
COMPOSITIONS = {
    "A": ("image", "attributes", "caption"),
    "B": ("image", "caption"),
    "C": ("image", "caption"),
    "D": ("caption",),
    "E": ("image",),
    "F": ("attributes",),
}


@dataclass(frozen=True, kw_only=True)
class ComposerConfig(ModelConfig):
    """Sizes of a single-turn composer."""

    KEYS = {
        "composer": ("vocabulary", "features", "attributes", "composition", "width", "max_words", "word_vector_size"),
    }  # fmt: skip
    kind = "composer"

    composition: Literal["A", "B", "C", "D", "E", "F"] = option(
        "A",
        "composition by the paper's letters: A image, attributes and gated caption; B image and gated "
        "caption; "
        "C image and caption; D caption; E image; F attributes",
    )
    width: int = option(256, "model width, and size of the search space", least=1)


@dataclass(frozen=True, kw_only=True)
class DialogEncoderConfig(ModelConfig):
    """Sizes of a dialog encoder that is trained from scratch. CLIP and BLIP ignore them."""

    KEYS = {"transformer": ("features", "width", "heads", "hidden", "layers", "dropout", "limit")}
    kind = "transformer"

    width: int = option(256, "model width: size of all token vectors, and of the search space", least=1)
    heads: int = option(8, "attention heads; they must divide the width", least=1)
    hidden: int = option(1024, "hidden units of the feed-forward layers", least=1)
    layers: int = option(2, "transformer layers", least=1, below=1001)
    dropout: float = option(0.1, "dropout rate in training", least=0, below=1)
    max_tokens: int = option(128, "maximum length of a dialog in words; longer dialogs are cut", least=1)

    def validate(self) -> None:
        check_heads(self.width, self.heads)


@dataclass(frozen=True, kw_only=True)
class ChatSearcherConfig(ModelConfig):
    """Sizes of a ChatSearcher. A pretrained language model ignores those of the decoder."""

    KEYS = {"chatsearcher": ("features", "image_tokens", "space", "width", "heads", "hidden", "layers", "dropout",
                             "limit")}  # fmt: skip
    kind = "chatsearcher"

    image_tokens: int = option(
        4, "tokens that the perceiver makes of a picture, beside that of its vector", least=1, below=1001
    )
    space: int = option(128, "size of the search space", least=1)
    width: int = option(192, "width of the decoder: size of all token vectors", least=1)
    heads: int = option(6, "attention heads of the decoder; they must divide the width", least=1)
    hidden: int = option(768, "hidden units of the feed-forward layers of the decoder", least=1)
    layers: int = option(4, "layers of the decoder", least=1, below=1001)
    dropout: float = option(0.1, "dropout rate of the decoder in training", least=0, below=1)
    max_tokens: int = option(
        256, "maximum length of a conversation in tokens; the oldest turns are left out", least=64
    )

    def validate(self) -> None:
        check_heads(self.width, self.heads)
        if 8 * (self.image_tokens + 3) > self.max_tokens:
            raise UserError(
                f"--model.max-tokens is {self.max_tokens}: a picture takes {self.image_tokens + 3} tokens, and "
                f"there must be room for eight; give {8 * (self.image_tokens + 3)} or more"
            )


@dataclass(frozen=True, kw_only=True)
class DenoiserConfig(ModelConfig):
    """Sizes of the denoiser of a picture generator."""

    KEYS = {"dit": ("vocabulary", "image_size", "patch", "width", "heads", "layers")}
    kind = "dit"

    patch: int = option(8, "pixels per side of a patch; they must divide the picture size", least=1)
    width: int = option(192, "model width: size of all token vectors", least=2)
    heads: int = option(4, "attention heads; they must divide the width", least=1)
    layers: int = option(6, "transformer layers", least=1, below=1001)

    def validate(self) -> None:
        check_heads(self.width, self.heads)
        if self.width % 2:
            raise UserError(f"--model.width is {self.width}: it must be even")

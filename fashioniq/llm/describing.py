"""Descriptions of pictures by a vision-language model: a sentence, or values of attributes. The prompts are ours."""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from PIL import Image

from fashioniq.data.images import jpeg_of
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.llm.endpoint import Endpoint
from fashioniq.llm.local import ImageCaptioner, VisionLanguageModel, VisualQuestionAnswerer, has_chat_template

LONGEST = 400  # characters of a description
SENTENCE, VALUE = 60, 12  # tokens of a sentence, and of the value of an attribute with its name
_SENTENCE = (
    "Describe the garment in this picture in one sentence of at most 25 words: kind, colors, pattern, length, "
    "sleeves, neckline, details. Leave out the person and the background. Write only the sentence."
)
_VALUES = (
    "Name these attributes of the garment in this picture: {}. Write one line for each, such as “{}: …”, with a value "
    "of one to three words, or “unknown” if the picture does not show it. Write nothing else."
)
_QUESTION = "what is the {} of the garment?"
_NO_VALUE = {"", "unknown", "none", "n/a", "not visible", "not shown"}
_REFUSAL = re.compile(
    r"\W*((i am|i['’]m) (very )?(sorry|unable|not able)|sorry\b|i (cannot|can not|can['’]t|won['’]t)|as an ai\b)",
    re.I,
)


class Description(NamedTuple):
    """What a model says about a picture; the text is empty unless the outcome is "described"."""

    text: str
    outcome: Literal["described", "empty", "refused"]


class PictureDescriber(NamedTuple):
    """Model that describes pictures, and what counts its tokens."""

    describe: Callable[[Sequence[Image.Image]], list[Description]]
    tokens: dict[str, int]


def local_describer(name: str, attributes: Sequence[str], device: torch.device) -> PictureDescriber:
    """A model of `transformers`: a chat model by a prompt, others by a caption, or a question per attribute.

    Raises UserError if it cannot be loaded.
    """
    if has_chat_template(name):
        chat = VisionLanguageModel(name, device)
        prompt, tokens = _prompt(attributes)

        def by_chat(pictures: Sequence[Image.Image]) -> list[Description]:
            said = chat.complete([prompt] * len(pictures), tokens, [[jpeg_of(one)] for one in pictures])
            return [read_description(text, attributes) for text in said]

        return PictureDescriber(by_chat, chat.tokens)
    if not attributes:
        captioner = ImageCaptioner(name, device)
        return PictureDescriber(
            lambda pictures: [read_description(text) for text in captioner.describe(pictures, SENTENCE)],
            captioner.tokens,
        )
    answerer = VisualQuestionAnswerer(name, device)

    def by_questions(pictures: Sequence[Image.Image]) -> list[Description]:
        answers = [
            answerer.answer(pictures, [_QUESTION.format(one)] * len(pictures), VALUE) for one in attributes
        ]
        return [_joined(values) for values in zip(*answers, strict=True)]

    return PictureDescriber(by_questions, {"prompt": 0, "answer": 0})


def endpoint_describer(endpoint: Endpoint, attributes: Sequence[str]) -> PictureDescriber:
    """A model on a server."""
    prompt, tokens = _prompt(attributes)

    def describe(pictures: Sequence[Image.Image]) -> list[Description]:
        shown = [[jpeg_of(one)] for one in pictures]
        return [
            Description("", "refused") if answer.refused else read_description(answer.text, attributes)
            for answer in endpoint.answers([prompt] * len(pictures), tokens, shown)
        ]

    return PictureDescriber(describe, endpoint.tokens)


def read_description(answer: str, attributes: Sequence[str] = ()) -> Description:
    """What an answer says: its first line with words, or the values in its lines such as "color: red"."""
    if _REFUSAL.match(answer):
        return Description("", "refused")
    if not attributes:
        text = clean(answer, LONGEST)
        return Description(text, "described" if text else "empty")
    found = dict(line.lstrip(" -*•").partition(":")[::2] for line in reversed(answer.splitlines()))
    value_of = {name.strip(" *").casefold(): value for name, value in found.items()}
    return _joined([value_of.get(name.casefold(), "") for name in attributes])


def check_attributes(attributes: Sequence[str]) -> None:
    """Raise UserError unless all are names of attributes, such as color."""
    if bad := [name for name in attributes if not name.strip() or ":" in name or not name.isprintable()]:
        raise UserError(
            f"--attributes: expected names such as color or sleeve length, found {bad[0]!r}; correct it"
        )


def _prompt(attributes: Sequence[str]) -> tuple[str, int]:
    """Prompt, and the most tokens of its answer."""
    if not attributes:
        return _SENTENCE, SENTENCE
    return _VALUES.format(", ".join(attributes), attributes[0]), VALUE * len(attributes)


def _joined(values: Sequence[str]) -> Description:
    plain = [clean(value.strip(" *.")) for value in values]
    text = clean(", ".join(value for value in plain if value.casefold() not in _NO_VALUE), LONGEST)
    return Description(text, "described" if text else "empty")

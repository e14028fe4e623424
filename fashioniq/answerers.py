"""Who answers questions on the image that is sought: someone recorded, a model that sees the picture, attribute labels, a person."""

import io
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from fashioniq.data.attributes import GARMENT, GROUP_OF, find_attributes
from fashioniq.data.dialogues import Dialogue, split_round
from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.data.topics import Topic, question_about
from fashioniq.files import UserError
from fashioniq.llm.endpoint import Endpoint

UNKNOWN = "unknown"  # said where there is no answer, so that a round is never a bare question
LONGEST = 120  # characters of an answer
MOST_READ = 100_000  # characters of what a model says
PICTURE_SIDE = 512  # pixels, of what goes to an endpoint

_TAG = re.compile(r"<[^<>]*>")
_WHICH = re.compile(r"\b(what|which|how|who|where|why)\b")
_ASKED_FOR = (  # what a free question is about, by its words: the first that fits
    (re.compile(r"\bcolou?rs?\b"), "black"),
    (re.compile(r"\b(pattern|print|texture)"), "striped"),
    (re.compile(r"\bsleeve"), "long sleeve"),
    (re.compile(r"\b(neck|collar)"), "v-neck"),
    (re.compile(r"\b(made|material|fabric)\b"), "cotton"),
    (re.compile(r"\b(length|long)\b"), "midi"),
    (re.compile(r"\b(fit|shape|cut|silhouette)\b"), "loose"),
    (re.compile(r"\b(style|occasion|wear)\b"), "casual"),
)


class Answerer(Protocol):
    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        """A few words to each question on its image."""
        ...


def clean(text: str, longest: int = LONGEST) -> str:
    """The first line with words of what a model or a person said: no markup, no control characters, cut at a blank if it is too long.

    Whatever it says is text and goes nowhere but into the dialog.
    """
    for line in _TAG.sub(" ", text[:MOST_READ]).splitlines():
        plain = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in line)
        if said := " ".join(plain.split()):
            return said if len(said) <= longest else said[: longest + 1].rpartition(" ")[0] or said[:longest]
    return ""


def clean_answer(text: str) -> str:
    """As `clean`, without question marks, since the last one of a round ends its question; UNKNOWN for nothing."""
    return clean(text.replace("?", " ")) or UNKNOWN


class Recorded:
    """Repeats what was answered in recorded dialogues, to a question asked again its next answer. Raises UserError for one not asked there."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._answers: dict[tuple[str, str], list[str]] = {}
        for dialogue in dialogues:
            for question, answer in map(split_round, dialogue.rounds[1:]):
                self._answers.setdefault((dialogue.image, question), []).append(answer)

    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        if missing := [key for key in zip(images, questions, strict=True) if key not in self._answers]:
            raise UserError(f"nobody recorded an answer to {missing[0][1]!r} on {missing[0][0]}: recorded answers go with recorded questions")
        return [left.pop(0) if len(left) > 1 else left[0] for left in map(self._answers.__getitem__, zip(images, questions, strict=True))]


class Labels:
    """Answers from true attributes: the topics' own questions, and free ones as far as their words tell what is asked."""

    def __init__(self, labels: Mapping[str, list[list[str]]], topics: Sequence[Topic]) -> None:
        self._labels, self._topics = labels, {topic.question: topic for topic in topics}

    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        return [self._answer(self._labels.get(image), question) for image, question in zip(images, questions, strict=True)]

    def _answer(self, lists: list[list[str]] | None, question: str) -> str:
        if lists is None:
            return UNKNOWN
        if topic := self._topics.get(question):
            return topic.answer(lists)
        asked = question.lower()
        named = [word for words in find_attributes(asked)[GARMENT + 1 :] for word in words]
        if named and not _WHICH.search(asked):
            return self._yes_or_no(lists, named, choice=" or " in asked)
        for pattern, example in _ASKED_FOR:
            if pattern.search(asked):
                return self._topics[about].answer(lists) if (about := _about(example)) in self._topics else UNKNOWN
        return UNKNOWN

    def _yes_or_no(self, lists: list[list[str]], named: list[str], choice: bool) -> str:
        """Of words that the catalog's labels do not tell of, nothing is known."""
        carried = [word for word in named if any(word in words for words in lists)]
        if not carried and not all(_about(word) in self._topics for word in named):
            return UNKNOWN
        if choice and len(named) > 1:
            return " and ".join(carried) or "neither"
        return "yes" if len(carried) == len(named) else "no"


def _about(word: str) -> str:
    return question_about(word, GROUP_OF[word].kind)


class PicturesByName:
    """The pictures of images by name. Raises UserError for one that is missing or cannot be read."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, image: str) -> Image.Image:
        if image not in self._paths:
            raise UserError(f"there is no picture of {image}: give the folder of the pictures with --images, or leave its dialogue out")
        try:
            return load_image(self._paths[image])
        except UnreadableImage as error:
            raise UserError(f"the picture {self._paths[image]} cannot be read ({error}): replace it, or leave its dialogue out") from error


class Visual:
    """A model of `transformers` that sees the picture."""

    def __init__(self, model: Any, pictures: PicturesByName) -> None:
        self._model, self._pictures = model, pictures

    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        return [clean_answer(text) for text in self._model.answer([self._pictures[image] for image in images], questions)]


class Remote:
    """A model of an endpoint that sees the picture."""

    PROMPT = "Answer the question on this picture in one to five words, without a full sentence. Question: {}"

    def __init__(self, endpoint: Endpoint, pictures: PicturesByName) -> None:
        self._endpoint, self._pictures = endpoint, pictures

    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        jpegs = [_jpeg(self._pictures[image]) for image in images]
        texts = self._endpoint.complete([self.PROMPT.format(question) for question in questions], 30, jpegs)
        return [clean_answer(text) for text in texts]


def _jpeg(image: Image.Image) -> bytes:
    image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return file.getvalue()


class Person:
    """Someone at the terminal; `show` says before each question which image it is about. The end of input raises EOFError."""

    def __init__(self, show: Callable[[str], str]) -> None:
        self._show = show

    def answer(self, images: list[str], questions: list[str]) -> list[str]:
        answers = []
        for image, question in zip(images, questions, strict=True):
            if shown := self._show(image):
                print(shown)
            answers.append(clean_answer(input(f"{question} ")))
        return answers

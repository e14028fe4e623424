"""Files of dialogs about images.

A dialog is a caption and questions with answers (ChatIR, VisDial v1.0), or one query per round (PlugIR).

    ChatIR   [{"img": name, "dialog": [caption, "question? answer", …]}, …]
    PlugIR   the same format; each text is a complete query that replaces the one before
    VisDial  {"data": {"questions": […], "answers": […], "dialogs":
                 [{"image_id", "caption", "dialog": [{"question", "answer"}, …]}, …]}}
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fashioniq.data.sanitize import UNKNOWN
from fashioniq.files import UserError, read_json, why, write_text

JOINED = ", "  # separator between rounds, as in ChatIR's released code
_OF_BERT = "[SEP]"  # the paper's, which stands between a question and its answer, too
# what stands before the number of an image in the names of VisDial's and COCO's pictures
_OFFICIAL = re.compile(r"(COCO_(train|val)2014|VisualDialog_(val|test)2018)_(?=\d{12}\.jpg$)")


class Round(str):
    """Text of a round, of which queries are made, with the question and the answer in it.

    A caption or a complete query is an answer without a question. Only a file has nothing but the text: there, the
    last question mark ends the question.
    """

    question: str
    answer: str

    def __new__(cls, text: str, question: str = "", answer: str | None = None) -> "Round":
        made = super().__new__(cls, text)
        made.question, made.answer = question, str(text) if answer is None else answer
        return made

    @classmethod
    def of(cls, question: str, answer: str) -> "Round":
        """Join a question, if there is one, and its answer; a missing question mark is added."""
        if not question:
            return cls(answer)
        question = question.strip()
        question += "" if question.endswith("?") else "?"
        return cls(f"{question} {answer.strip()}", question, answer)

    @classmethod
    def read(cls, text: str) -> "Round":
        """Find the question and the answer in a text of a file."""
        question, mark, answer = text.rpartition("?")
        return cls(text, question.strip() + mark, answer.strip())


@dataclass(frozen=True)
class Dialogue:
    """A target image and its dialog: rounds[0] is the caption, rounds[r] the r-th question with its answer.

    If `alone` is true, each round is a complete query.
    """

    image: str
    rounds: tuple[Round, ...]
    alone: bool = False


def dialog_text(dialogue: Dialogue, round: int, joined: str = JOINED) -> str:
    """Query text after a round; rounds are counted from 0."""
    rounds = dialogue.rounds[: round + 1]
    return last_round(rounds) if dialogue.alone else join_rounds(rounds, joined)


def join_rounds(rounds: Sequence[str], separator: str = JOINED) -> str:
    """Query text of a dialog whose rounds are questions with answers."""
    return separator.join(separated(rounds, separator))


def separated(rounds: Sequence[str], separator: str) -> list[str]:
    """The texts between which a separator stands: the rounds; with BERT's [SEP], the questions and the answers.

    A later round that does not have its question, such as one of a file with odd white space, is read again.
    """
    if _OF_BERT not in separator:
        return list(rounds)
    parts: list[str] = []
    for number, text in enumerate(rounds):
        said = text if isinstance(text, Round) else Round(text)
        said = Round.read(said) if number and not said.question else said
        parts += [said.question, said.answer.strip()]
    return [part for part in parts if part]


def last_round(rounds: Sequence[str]) -> str:
    """Query text of a dialog whose rounds are complete queries."""
    return rounds[-1]


def each(write: Callable[[Sequence[Round]], str]) -> Callable[[Sequence[Sequence[Round]]], list[str]]:
    """Function from the dialogs of a batch to their texts, from one for the rounds of a single dialog."""
    return lambda dialogs: [write(rounds) for rounds in dialogs]


def written_round(said: Round) -> Round:
    """Round of a file: without the answer's question marks, because the last one in a round ends the question."""
    answer = " ".join(said.answer.replace("?", " ").split())
    return Round.of(said.question, answer or UNKNOWN if said.question else answer)


def read_dialogues(path: Path, alone: bool | None = None, *, repeated: bool = False) -> list[Dialogue]:
    """Read the dialogs of a ChatIR, VisDial v1.0 or PlugIR file; the format is detected from the content.

    If `alone` is None, rounds are complete queries if fewer than half of them contain a question mark.
    VisDial identifies images by numbers; they become names such as 000000185565.jpg, see `in_search_space`.
    Raises UserError if the file is damaged or has another format, if dialogs differ in length, or if an image
    occurs twice, unless `repeated`.
    """
    path = Path(path)
    content = read_json(path, "the dialog file")
    dialogues = _of_visdial(content, path) if isinstance(content, dict) else _of_chatir(content, path)
    if not dialogues:
        raise UserError(f"{path} contains no dialog")
    _check(dialogues, path)
    if not repeated:
        _refuse_duplicates([dialogue.image for dialogue in dialogues], f"{path} has dialogs for")
    read = [
        [said if said.question else Round.read(said) for said in dialogue.rounds[1:]]
        for dialogue in dialogues
    ]
    if alone is None:
        alone = 2 * sum(bool(one.question) for rounds in read for one in rounds) < sum(map(len, read))
    if alone:
        return [replace(dialogue, alone=True) for dialogue in dialogues]
    return [
        replace(dialogue, rounds=(dialogue.rounds[0], *rounds))
        for dialogue, rounds in zip(dialogues, read, strict=True)
    ]


def write_dialogues(path: Path, dialogues: Sequence[Dialogue]) -> None:
    """Write a ChatIR file atomically."""
    lines = (
        json.dumps({"img": dialogue.image, "dialog": list(dialogue.rounds)}, ensure_ascii=False)
        for dialogue in dialogues
    )
    write_text(Path(path), "[\n" + ",\n".join(lines) + "\n]\n")


def read_search_space(path: Path) -> list[str]:
    """Names of all images in the search space, in order.

    Raises UserError if the file is not a list of names or contains a name twice.
    """
    names = read_json(Path(path), "the search space", list)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UserError(
            f"{path}: expected a search space, a JSON list of image names such as "
            '["unlabeled2017/000000000008.jpg", …]'
        )
    _refuse_duplicates(names, f"the search space {path} contains")
    return names


def in_search_space(
    dialogues: Sequence[Dialogue], space: Sequence[str], path: Path, *, repeated: bool = False
) -> list[Dialogue]:
    """The dialogs with their images named as in the search space, see `names_in`.

    Raises UserError if an image is not in the search space, or occurs twice, unless `repeated`.
    """
    names = names_in(dialogues, space)
    if missing := [dialogue.image for dialogue, name in zip(dialogues, names, strict=True) if name is None]:
        raise UserError(
            f"the search space lacks the images of {len(missing)} of the {len(dialogues)} dialogs in {path}, "
            f"for example {missing[0]}: every target must be in it"
        )
    found = [
        replace(dialogue, image=name)
        for dialogue, name in zip(dialogues, names, strict=True)
        if name is not None
    ]
    if not repeated:
        _refuse_duplicates([dialogue.image for dialogue in found], f"{path} has dialogs for")
    return found


def names_in(dialogues: Sequence[Dialogue], space: Sequence[str]) -> list[str | None]:
    """Name of each dialog's image in the search space, or None if it is not there.

    A name is matched exactly. If one of the two names lacks folders, it is matched by file name, provided
    that the search space contains this file name once. What VisDial and COCO before 2017 write before the number of
    an image, such as "VisualDialog_val2018_", does not count.
    """
    present, by_file = set(space), Counter(map(_file_name, space))
    whole = {_file_name(name): name for name in space if by_file[_file_name(name)] == 1}
    images = [dialogue.image for dialogue in dialogues]
    found = (image if image in present else whole.get(_file_name(image)) for image in images)
    return [
        name if name and _is_suffix(image, name) else None for image, name in zip(images, found, strict=True)
    ]


def _is_suffix(*names: str) -> bool:
    """Whether one of two names ends with the other, folder by folder."""
    first, second = ("/" + _OFFICIAL.sub("", name.replace("\\", "/")) for name in names)
    return first.endswith(second) or second.endswith(first)


def _of_chatir(content: Any, path: Path) -> list[Dialogue]:
    wanted = 'expected [{"img": name, "dialog": [caption, "question? answer", …]}, …] or a VisDial v1.0 file'
    if not isinstance(content, list):
        raise UserError(f"{path}: {wanted}, found a {type(content).__name__}")
    dialogues = []
    for number, entry in enumerate(content):
        image, rounds = (entry.get("img"), entry.get("dialog")) if isinstance(entry, dict) else (None, None)
        if (
            not isinstance(image, str)
            or not isinstance(rounds, list)
            or not rounds
            or not all(isinstance(text, str) for text in rounds)
        ):
            raise UserError(f"{path}, entry {number}: {wanted}, found {json.dumps(entry)[:80]}")
        dialogues.append(Dialogue(image, tuple(map(Round, rounds))))
    return dialogues


def _of_visdial(content: dict[str, Any], path: Path) -> list[Dialogue]:
    try:
        questions, answers = content["data"]["questions"], content["data"]["answers"]
        entries = content["data"]["dialogs"]
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path}: expected a list of dialogs or a VisDial v1.0 file, found no {error}"
        ) from error
    if not all(isinstance(part, list) for part in (questions, answers, entries)):
        raise UserError(
            f"{path} is not a VisDial v1.0 file: expected lists of questions, answers and dialogs"
        )
    dialogues = []
    for number, entry in enumerate(entries):
        try:
            turns = [(turn["question"], turn["answer"]) for turn in entry["dialog"]]
            if not isinstance(entry["caption"], str) or any(number < 0 for turn in turns for number in turn):
                raise ValueError("expected a caption as text and question and answer numbers from 0")
            rounds = [Round.of(questions[question], answers[answer]) for question, answer in turns]
            dialogues.append(Dialogue(f"{entry['image_id']:012d}.jpg", (Round(entry["caption"]), *rounds)))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            hint = "; dialogs of the test split lack their last answer" if error.args == ("answer",) else ""
            raise UserError(
                f"{path}, dialog {number}: not in VisDial v1.0 format ({type(error).__name__}: {why(error)}){hint}"
            ) from error
    return dialogues


def _check(dialogues: Sequence[Dialogue], path: Path) -> None:
    length = len(dialogues[0].rounds)
    for number, dialogue in enumerate(dialogues):
        if len(dialogue.rounds) != length:
            raise UserError(
                f"{path}: expected {length} texts in every dialog, as in the first, "
                f"found {len(dialogue.rounds)} in dialog {number} ({dialogue.image}); cut all to one length, or "
                "remove it"
            )


def _refuse_duplicates(names: Sequence[str], subject: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(
            f"{subject} {len(twice)} image{'s' * (len(twice) > 1)} more than once, for example {twice[0]}: "
            "each image may occur once"
        )


def _file_name(name: str) -> str:
    return _OFFICIAL.sub("", name.replace("\\", "/").rpartition("/")[2])

"""Dialogues about images: a caption, then questions with answers (ChatIR, VisDial v1.0), or the query written anew each round (PlugIR).

    ChatIR   [{"img": name, "dialog": [caption, "question? answer", …]}, …]     PlugIR   the same, each text a caption that says it all
    VisDial  {"data": {"questions": […], "answers": […], "dialogs": [{"image_id", "caption", "dialog": [{"question", "answer"}, …]}, …]}}
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, read_json, write_text

JOINED = ", "  # between the rounds of a query, as in ChatIR's released code; the paper has [SEP]


@dataclass(frozen=True)
class Dialogue:
    """The image that is sought, and what is said: rounds[0] is the caption, rounds[r] the r-th question with its answer.

    Of an `alone` dialogue each round is the whole query anew.
    """

    image: str
    rounds: tuple[str, ...]
    alone: bool = False


def dialog_text(dialogue: Dialogue, round: int, joined: str = JOINED) -> str:
    """The query's text after a round, counted from 0."""
    return dialogue.rounds[round] if dialogue.alone else joined.join(dialogue.rounds[: round + 1])


def join_round(question: str, answer: str) -> str:
    """A question and its answer as one round; a question mark that is missing is added."""
    question = question.strip()
    return f"{question}{'' if question.endswith('?') else '?'} {answer.strip()}"


def split_round(text: str) -> tuple[str, str]:
    """The question of a round, up to the last question mark, and the answer; without a mark the question is empty."""
    question, mark, answer = text.rpartition("?")
    return question.strip() + mark, answer.strip()


def recorded_rounds(dialogue: Dialogue) -> list[tuple[str, str]]:
    """Question and answer of every round, the caption first; a round that the two would not give back verbatim is an answer alone."""
    rounds = []
    for number, text in enumerate(dialogue.rounds):
        question, answer = split_round(text)
        whole = number and not dialogue.alone and question and join_round(question, answer) == text
        rounds.append((question, answer) if whole else ("", text))
    return rounds


def read_dialogues(path: Path, alone: bool | None = None) -> list[Dialogue]:
    """The dialogues of a ChatIR, VisDial v1.0 or PlugIR file, told apart by what they hold, all of one length.

    Where `alone` does not say it, rounds are queries of their own if fewer than half of a ChatIR file's hold a question mark.
    VisDial names its images by numbers: they become 000000185565.jpg, see `in_search_space`.
    Raises UserError for a file that is damaged or of another format, unequal lengths, and an image that comes twice.
    """
    path = Path(path)
    content = read_json(path, "the dialogues")
    dialogues = _of_visdial(content, path) if isinstance(content, dict) else _of_chatir(content, path)
    if not dialogues:
        raise UserError(f"{path} holds no dialogue")
    _check(dialogues, path)
    if alone is None:
        said = [text for dialogue in dialogues for text in dialogue.rounds[1:]]
        alone = 2 * sum("?" in text for text in said) < len(said)
    return [replace(dialogue, alone=alone) for dialogue in dialogues]


def write_dialogues(path: Path, dialogues: Sequence[Dialogue]) -> None:
    """Write a ChatIR file, whole or not at all."""
    lines = (json.dumps({"img": dialogue.image, "dialog": list(dialogue.rounds)}, ensure_ascii=False) for dialogue in dialogues)
    write_text(Path(path), "[\n" + ",\n".join(lines) + "\n]\n")


def read_search_space(path: Path) -> list[str]:
    """The names of all images that are searched, in order. Raises UserError for a file that is no list of names, or names one twice."""
    names = read_json(Path(path), "the search space", list)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UserError(f"the search space {path} should list the names of images, as [\"unlabeled2017/000000000008.jpg\", …]")
    _refuse_twice(names, f"the search space {path} lists")
    return names


def in_search_space(dialogues: Sequence[Dialogue], space: Sequence[str], path: Path) -> list[Dialogue]:
    """The dialogues with their images named as in the search space (see `names_in`). Raises UserError where an image is not in it."""
    names = names_in(dialogues, space)
    if missing := [one.image for one, name in zip(dialogues, names, strict=True) if name is None]:
        raise UserError(
            f"the search space lacks the images of {len(missing)} of the {len(dialogues)} dialogues of {path}, as {missing[0]}: "
            "every target must be in it"
        )
    found = [replace(one, image=name) for one, name in zip(dialogues, names, strict=True) if name is not None]
    _refuse_twice([one.image for one in found], f"{path} has several dialogues of")
    return found


def names_in(dialogues: Sequence[Dialogue], space: Sequence[str]) -> list[str | None]:
    """How the search space names the image of each dialogue: the same, or as the only one with its file name where one lacks folders; or None."""
    there, by_file = set(space), Counter(map(_file_name, space))
    whole = {_file_name(name): name for name in space if by_file[_file_name(name)] == 1}
    found = (one.image if one.image in there else whole.get(_file_name(one.image)) for one in dialogues)
    return [name if name and _one_ends_in_the_other(one.image, name) else None for one, name in zip(dialogues, found, strict=True)]


def _one_ends_in_the_other(*names: str) -> bool:
    one, other = ("/" + name.replace("\\", "/") for name in names)
    return one.endswith(other) or other.endswith(one)


def _of_chatir(content: Any, path: Path) -> list[Dialogue]:
    wanted = 'expected [{"img": name, "dialog": [caption, "question? answer", …]}, …] or a VisDial v1.0 file'
    if not isinstance(content, list):
        raise UserError(f"{path} holds a {type(content).__name__}: {wanted}")
    dialogues = []
    for number, entry in enumerate(content):
        image, rounds = (entry.get("img"), entry.get("dialog")) if isinstance(entry, dict) else (None, None)
        if not isinstance(image, str) or not isinstance(rounds, list) or not rounds or not all(isinstance(text, str) for text in rounds):
            raise UserError(f"{path}, entry {number}: {wanted}, found {json.dumps(entry)[:80]}")
        dialogues.append(Dialogue(image, tuple(rounds)))
    return dialogues


def _of_visdial(content: dict[str, Any], path: Path) -> list[Dialogue]:
    try:
        questions, answers = content["data"]["questions"], content["data"]["answers"]
        entries = content["data"]["dialogs"]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is neither a list of dialogues nor a VisDial v1.0 file: it lacks {error}") from error
    if not all(isinstance(part, list) for part in (questions, answers, entries)):
        raise UserError(f"{path} is no VisDial v1.0 file: its questions, answers and dialogs should be lists")
    dialogues = []
    for number, entry in enumerate(entries):
        try:
            turns = [(turn["question"], turn["answer"]) for turn in entry["dialog"]]
            if not isinstance(entry["caption"], str) or any(place < 0 for turn in turns for place in turn):
                raise ValueError("a caption is no text, or a number of a question or an answer is negative")
            rounds = [join_round(questions[question], answers[answer]) for question, answer in turns]
            dialogues.append(Dialogue(f"{entry['image_id']:012d}.jpg", (entry["caption"], *rounds)))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            hint = "; dialogues of the test split lack their last answer" if error.args == ("answer",) else ""
            raise UserError(f"{path}, dialogue {number}: not as VisDial v1.0 has it ({type(error).__name__}: {error}){hint}") from error
    return dialogues


def _check(dialogues: Sequence[Dialogue], path: Path) -> None:
    length = len(dialogues[0].rounds)
    for number, dialogue in enumerate(dialogues):
        if len(dialogue.rounds) != length:
            raise UserError(
                f"{path}: dialogue {number}, of {dialogue.image}, has {len(dialogue.rounds)} texts, the first has {length}: all need as many"
            )
    _refuse_twice([dialogue.image for dialogue in dialogues], f"{path} has several dialogues of")


def _refuse_twice(names: Sequence[str], told: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{told} {len(twice)} image{'s' * (len(twice) > 1)} more than once, as {twice[0]}: each may come once")


def _file_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]

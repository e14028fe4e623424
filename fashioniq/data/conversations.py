"""Conversations of words and pictures that lead to a picture: files in the form of ChatSearch (arXiv 2410.18715).

    items.jsonl                 {"id", "image", "caption", "source", "split"} per line
    gallery.{t,i,m}.{train,test}.json
                                [id, …], the candidates of a sub-task, in the order of the columns of scores
    {t,i,m}.{train,test}.jsonl  one sample per line:
        {"id", "subtask", "kind", "turns": [{"role", "content": [{"type": "text", "text"} or
         {"type": "image", "id"}, …]}, …], "target", "source", "split"}
    mixture.train.jsonl         {"turns": […]}, a conversation whose last turn is the assistant's, in words or pictures
    documents.train.jsonl       {"content": […]}, words and pictures in turn, of a web page

The paper prints no format; this one is ours. Sub-tasks: `t` dialogs of text, `i` a picture and one request, `m`
dialogs of several rounds with pictures. The last turn is the user's, and the answer is `target`, which is in no
turn. The last two files are further examples for the two stages of a ChatSearcher, and may be absent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fashioniq.data.conversation_records import (
    KINDS,
    PLACEHOLDER,
    Content,
    ConversationContent,
    ConversationItem,
    ConversationSample,
    ConversationSplit,
    ConversationTurn,
    Subtask,
    TurnPicture,
)
from fashioniq.files import UserError, read_json, text_lines, why, write_json, write_jsonl

T = TypeVar("T", bound=msgspec.Struct)
TALKS, DOCUMENTS = "mixture.train.jsonl", "documents.train.jsonl"


class OpenConversation(ConversationContent, msgspec.Struct, frozen=True):
    """A conversation whose target is not known."""

    turns: tuple[ConversationTurn, ...]


@dataclass(frozen=True)
class Conversations:
    """A folder of conversations. Files are read and checked on first access."""

    folder: Path

    @cached_property
    def items(self) -> dict[str, ConversationItem]:
        """All items by id. Raises UserError for a missing or malformed file, and for an id that occurs twice."""
        path = self.folder / "items.jsonl"
        found: dict[str, ConversationItem] = {}
        for number, item in read_lines(path, ConversationItem, "an item"):
            if item.id in found:
                raise UserError(
                    f"{path}, line {number}: expected every id once, found {item.id!r} again; "
                    "remove one of the lines"
                )
            found[item.id] = item
        return found

    def samples(self, subtask: Subtask, split: ConversationSplit) -> list[ConversationSample]:
        """Samples of a sub-task and split.

        Raises UserError for a missing file, and for the first sample with a mistake; `fashioniq check-data` prints
        all mistakes.
        """
        path = samples_file(self.folder, subtask, split)
        found: dict[str, ConversationSample] = {}
        for number, sample in read_lines(path, ConversationSample, "a sample"):
            fault = fault_of_sample(sample, self.items, subtask, split)
            if fault or sample.id in found:
                fault = fault or f"expected every id once, found {sample.id!r} again"
                raise UserError(f"{path}, line {number}: {fault}; correct or remove the line")
            found[sample.id] = sample
        return list(found.values())

    def gallery(self, subtask: Subtask) -> list[str]:
        """Ids of the candidates in test of a sub-task. Raises UserError for ids that are unknown or occur twice."""
        path = gallery_file(self.folder, subtask, "test")
        ids = read_json(path, "the gallery", list)
        if fault := fault_of_gallery(ids, self.items, "test"):
            raise UserError(f"{path}: {fault}; correct the list")
        return ids

    def picture(self, name: str) -> Path | None:
        """Picture file of an item, None if it has none."""
        image = self.items[name].image
        return self.folder / image if image else None


def samples_file(folder: Path, subtask: Subtask, split: ConversationSplit) -> Path:
    """File of the samples of a sub-task and split."""
    return folder / f"{subtask}.{split}.jsonl"


def gallery_file(folder: Path, subtask: Subtask, split: ConversationSplit) -> Path:
    """File of the candidates of a sub-task and split."""
    return folder / f"gallery.{subtask}.{split}.json"


def read_lines(path: Path, kind: type[T], what: str) -> Iterator[tuple[int, T]]:
    """Yield the lines of a JSON lines file with their numbers from 1; empty lines are skipped.

    Raises UserError for a missing file and for a line that is not of this kind.
    """
    for number, line in lines_of(path, kind, what):
        if isinstance(line, str):
            raise UserError(f"{path}, line {number}: {line}; correct or remove the line")
        yield number, line


def lines_of(
    path: Path, kind: type[T], what: str, of: str = "conversations"
) -> Iterator[tuple[int, T | str]]:
    """Lines as `read_lines` yields them; a line that is not of this kind is the mistake in it."""
    decoder = msgspec.json.Decoder(kind)
    or_empty = ", or an empty one if there are no samples" if kind is ConversationSample else ""
    lines = text_lines(path, f"file of {of}", f"write it with `fashioniq make-{of}`{or_empty}")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, decoder.decode(line)
            except (ValueError, RecursionError) as error:
                yield number, f"expected {what}, found {line.strip()[:60]!r} ({why(error)})"


def write_items(folder: Path, items: Iterable[ConversationItem]) -> None:
    """Write items.jsonl atomically."""
    write_jsonl(folder / "items.jsonl", items)


def write_samples(
    folder: Path, subtask: Subtask, split: ConversationSplit, samples: Iterable[ConversationSample]
) -> None:
    """Write the samples of a sub-task and split atomically."""
    write_jsonl(samples_file(folder, subtask, split), samples)


def write_gallery(folder: Path, subtask: Subtask, split: ConversationSplit, ids: Sequence[str]) -> None:
    """Write the candidates of a sub-task and split atomically."""
    write_json(gallery_file(folder, subtask, split), list(ids), indent=None)


def fault_of_sample(
    sample: ConversationSample,
    items: Mapping[str, ConversationItem],
    subtask: Subtask,
    split: ConversationSplit,
) -> str:
    """Mistake in a sample of the file of `subtask` and `split`, "" if there is none."""
    pictures = sample.pictures
    if not sample.id:
        return "expected a sample with an id, found an empty one"
    if sample.subtask != subtask or sample.split != split:
        return f"expected a sample of {subtask} and {split}, found {sample.subtask} and {sample.split}"
    if sample.kind not in KINDS[subtask]:
        return f"expected a kind of {' or '.join(KINDS[subtask])}, found {sample.kind}"
    if not sample.turns or sample.turns[-1].role != "user":
        return "expected the last turn to be the user's"
    if any(first.role == second.role for first, second in zip(sample.turns, sample.turns[1:], strict=False)):
        return "expected turns of user and assistant in alternation"
    if not all(turn.content for turn in sample.turns) or not sample.turns[-1].text.strip():
        return "expected words or a picture in every turn, and words in the last one"
    if any(PLACEHOLDER in turn.text for turn in sample.turns):
        return f"expected pictures as parts of their own, found {PLACEHOLDER} in a text"
    if (subtask == "i" and len(sample.turns) != 1) or (subtask == "m" and len(sample.turns) < 3):
        return f"expected {'1 turn' if subtask == 'i' else '3 turns or more'}, found {len(sample.turns)}"
    if bool(pictures) == (subtask == "t"):
        return "expected a picture" if not pictures else f"expected no picture, found {pictures[0]!r}"
    if sample.target in pictures:
        return f"expected the target {sample.target!r} in no turn"
    for name in (*pictures, sample.target):
        if name not in items:
            return f"expected items of items.jsonl, found {name!r}"
        if items[name].split != split:
            return f"expected {split} items, found {name!r} of {items[name].split}: the splits leak"
    return ""


def fault_of_gallery(
    ids: Sequence[Any], items: Mapping[str, ConversationItem], split: ConversationSplit
) -> str:
    """Mistake in a gallery, "" if there is none."""
    if not ids or not all(isinstance(name, str) for name in ids):
        return "expected a list of ids"
    if len(set(ids)) < len(ids):
        twice = next(name for position, name in enumerate(ids) if name in ids[:position])
        return f"expected every id once, found {twice!r} again"
    if unknown := [name for name in ids if name not in items]:
        return f"expected items of items.jsonl, found {unknown[0]!r}"
    if others := [name for name in ids if items[name].split != split]:
        return f"expected {split} items, found {others[0]!r} of {items[others[0]].split}"
    return ""


class Talk(msgspec.Struct, frozen=True):
    """A conversation that the assistant ends."""

    turns: tuple[ConversationTurn, ...]

    @property
    def content(self) -> Content:
        """Words and pictures of all turns."""
        return tuple(part for turn in self.turns for part in turn.content)


class Document(msgspec.Struct, frozen=True):
    """Words and pictures of a page, in order."""

    content: Content


E = TypeVar("E", Talk, Document)


def read_talks(data: Conversations) -> list[Talk]:
    """Conversations of the mixture. Raises UserError for the first line with a mistake."""
    return _read(data, data.folder / TALKS, Talk, "a conversation that the assistant ends", fault_of_talk)


def fault_of_talk(talk: Talk) -> str:
    """Mistake in the turns of a conversation, "" if there is none."""
    roles = [turn.role for turn in talk.turns]
    if len(roles) < 2 or roles[-1] != "assistant" or any(map(str.__eq__, roles, roles[1:])):
        return "expected turns of user and assistant in alternation, the last one the assistant's"
    return "" if all(turn.content for turn in talk.turns) else "expected words or a picture in every turn"


def read_documents(data: Conversations) -> list[Document]:
    """Interleaved documents. Raises UserError for the first line with a mistake."""
    return _read(
        data,
        data.folder / DOCUMENTS,
        Document,
        "a document",
        lambda one: "" if one.content else "it is empty",
    )


def pictures_of(content: Content) -> list[str]:
    """Ids of the pictures in a content."""
    return [part.id for part in content if isinstance(part, TurnPicture)]


def _read(data: Conversations, path: Path, kind: type[E], what: str, fault_of: Callable[[E], str]) -> list[E]:
    found: list[E] = []
    for number, one in read_lines(path, kind, what) if path.exists() else ():
        shown = pictures_of(one.content)
        fault = fault_of(one)
        if unknown := [name for name in shown if name not in data.items]:
            fault = f"expected items of items.jsonl, found {unknown[0]!r}"
        elif others := [name for name in shown if data.items[name].split != "train"]:
            fault = f"expected items of train, found {others[0]!r}: the splits leak"
        if fault:
            raise UserError(f"{path}, line {number}: {fault}; correct or remove the line")
        found.append(one)
    return found


def words_of(examples: Sequence[Talk | Document]) -> list[str]:
    """The words of all examples, for a vocabulary."""
    return [part.text for one in examples for part in one.content if not isinstance(part, TurnPicture)]

"""Further examples for the two stages of a ChatSearcher, beside the samples in a folder of conversations:

    mixture.train.jsonl      {"turns": […]}, a conversation whose last turn is the assistant's, in words or pictures
    documents.train.jsonl    {"content": […]}, words and pictures in turn, of a web page

Both files may be absent. Turns and content are those of `conversation_records`; pictures are items of train.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from fashioniq.data.conversation_records import Content, ConversationTurn, TurnPicture
from fashioniq.data.conversations import Conversations, read_lines
from fashioniq.files import UserError

TALKS, DOCUMENTS = "mixture.train.jsonl", "documents.train.jsonl"


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


T = TypeVar("T", Talk, Document)


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


def _read(data: Conversations, path: Path, kind: type[T], what: str, fault_of: Callable[[T], str]) -> list[T]:
    found: list[T] = []
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

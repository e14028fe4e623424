"""Conversations of words and pictures that lead to a picture: files in the form of ChatSearch (arXiv 2410.18715).

    items.jsonl                 {"id", "image", "caption", "source", "split"} per line
    gallery.{t,i,m}.{train,test}.json
                                [id, …], the candidates of a sub-task, in the order of the columns of scores
    {t,i,m}.{train,test}.jsonl  one sample per line:
        {"id", "subtask", "kind", "turns": [{"role", "content": [{"type": "text", "text"} or
         {"type": "image", "id"}, …]}, …], "target", "source", "split"}

The paper prints no format; this one is ours. Sub-tasks: `t` dialogs of text, `i` a picture and one request, `m`
dialogs of several rounds with pictures. The last turn is the user's, and the answer is `target`, which is in no
turn.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from fashioniq.files import UserError, read_json, text_lines, why, write_json, write_jsonl

Subtask = Literal["t", "i", "m"]
Kind = Literal["text", "mdc_i", "mdc_t", "merged", "session"]
ConversationSplit = Literal["train", "test"]
SUBTASKS: tuple[Subtask, ...] = ("t", "i", "m")
CONVERSATION_SPLITS: tuple[ConversationSplit, ...] = ("train", "test")
KINDS: dict[Subtask, tuple[Kind, ...]] = {
    "t": ("text",),
    "i": ("mdc_i", "mdc_t", "session"),
    "m": ("merged", "mdc_t", "session"),
}
PLACEHOLDER = "[image]"  # of a picture in a text, as in the paper's template
T = TypeVar("T", bound=msgspec.Struct)


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Words of a turn."""

    text: str


class TurnPicture(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """Picture of a turn, by the id of its item."""

    id: str


Content = tuple[Text | TurnPicture, ...]


class ConversationTurn(msgspec.Struct, frozen=True):
    """What one side said and showed, in order."""

    role: Literal["user", "assistant"]
    content: Content

    @property
    def text(self) -> str:
        """The words, without the pictures."""
        return " ".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def pictures(self) -> tuple[str, ...]:
        """Ids of the pictures."""
        return tuple(part.id for part in self.content if isinstance(part, TurnPicture))

    @property
    def marked(self) -> str:
        """The words, with PLACEHOLDER in place of each picture."""
        return " ".join(part.text if isinstance(part, Text) else PLACEHOLDER for part in self.content)


class SampleOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a sample was made.

    `writer` made its words: "templates", the name of a language model, or "people". `T1` is the caption of the item
    that the sample starts from, `T2` that of its partner. `cos` and `rank` are those of the partner in the search that
    found it, rank 1 is the nearest. `joined` are the ids of the samples that were joined or cut to make this one.
    """

    writer: str
    T1: str = ""
    T2: str = ""
    cos: float | None = None
    rank: int | None = None
    seed: int | None = None
    joined: tuple[str, ...] = ()


class ConversationContent:
    """What the turns of a conversation say and show."""

    __slots__ = ()
    turns: tuple[ConversationTurn, ...]

    @property
    def pictures(self) -> tuple[str, ...]:
        """Ids of the pictures in the turns, in order."""
        return tuple(name for turn in self.turns for name in turn.pictures)

    @property
    def transcript(self) -> str:
        """All turns as one text, with the ids of the pictures in brackets."""
        parts = (part for turn in self.turns for part in turn.content)
        return " ".join(part.text if isinstance(part, Text) else f"[{part.id}]" for part in parts)

    @property
    def last_round(self) -> tuple[ConversationTurn, ...]:
        """The conversation without its history: what was shown last, and the last request, as one turn."""
        *before, last = self.turns
        shown = (part for turn in before[-1:] for part in turn.content if isinstance(part, TurnPicture))
        return (ConversationTurn("user", (*shown, *last.content)),)

    @property
    def last_exchange(self) -> tuple[tuple[ConversationTurn, ...], Content, Content]:
        """The turns before the last two, what the assistant said and showed last, and the last request."""
        *before, last = self.turns
        return tuple(before[:-1]), before[-1].content if before else (), last.content

    @property
    def digest(self) -> bytes:
        """Hash of the words and pictures of all turns."""
        said = [turn.marked for turn in self.turns]
        return hashlib.sha256(msgspec.json.encode((said, self.pictures))).digest()

    @property
    def texts(self) -> tuple[str, ...]:
        """The words of each turn that has some."""
        return tuple(turn.text for turn in self.turns if turn.text)

    @property
    def text(self) -> str:
        """The words of all turns."""
        return " ".join(self.texts)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """What the user says about a picture: the last one in the same turn or in the one before, and the words."""
        steps = []
        for number, turn in enumerate(self.turns):
            shown = [name for one in self.turns[max(0, number - 1) : number + 1] for name in one.pictures]
            if turn.role == "user" and shown:
                steps.append((shown[-1], turn.text))
        return tuple(steps)

    @property
    def rounds(self) -> int:
        """Number of turns of the user."""
        return sum(turn.role == "user" for turn in self.turns)

    @property
    def words(self) -> int:
        """Number of words of all turns."""
        return sum(len(turn.text.split()) for turn in self.turns)


class OpenConversation(ConversationContent, msgspec.Struct, frozen=True):
    """A conversation whose target is not known."""

    turns: tuple[ConversationTurn, ...]


class ConversationSample(ConversationContent, msgspec.Struct, frozen=True):
    """A conversation and the item that is its answer."""

    id: str
    subtask: Subtask
    kind: Kind
    turns: tuple[ConversationTurn, ...]
    target: str
    source: SampleOrigin
    split: ConversationSplit

    def with_history_of(self, other: "ConversationSample") -> "ConversationSample":
        """The last two turns of this conversation after those before the last two of another one."""
        return msgspec.structs.replace(self, turns=(*other.turns[:-2], *self.turns[-2:]))


class ConversationItem(msgspec.Struct, frozen=True):
    """An item that can be shown or searched.

    `image` is a path relative to the folder, empty if there is no picture. `source` is where the item is from, such
    as "catalog"; `category` is that of the catalog, whose feature store has the vector of the item.
    """

    id: str
    image: str
    caption: str
    source: str
    split: ConversationSplit
    category: str = ""


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

    def gallery(self, subtask: Subtask, split: ConversationSplit = "test") -> list[str]:
        """Ids of the candidates of a sub-task. Raises UserError for unknown ids, and for ids that occur twice."""
        path = gallery_file(self.folder, subtask, split)
        ids = read_json(path, "the gallery", list)
        if fault := fault_of_gallery(ids, self.items, split):
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
    lines = text_lines(path, f"file of {of}", f"write it with `fashioniq make-{of}`")
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

"""Conversations as structs: their turns, samples and items."""

import hashlib
from typing import Literal

import msgspec

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

"""Conversations as sequences of tokens: words, and blocks [IMG] <CLS> q1 … qN [/IMG] of pictures (ChatSearch).

    <start> USER: words and blocks ASSISTANT: words and blocks <end> USER: … ASSISTANT:

[IMG] and [/IMG] are the two ids after those of the language model, so its own weights stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fashioniq.data.conversation_records import Content, ConversationTurn, Text, TurnPicture
from fashioniq.data.words import END, PAD, START, Vocabulary

VISION = -1  # id of the positions of <CLS> and q1 … qN, whose vectors come from the picture
ROLES = {"user": "USER:", "assistant": "ASSISTANT:"}


class Words:
    """Whole words of a vocabulary, for a decoder that is trained from scratch."""

    start, end = [START], END

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self.vocabulary.decode(torch.tensor([ids], dtype=torch.long))[0] if ids else ""


class Pieces:
    """Tokenizer of `transformers`; `start` is empty for models without such a token."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        if tokenizer.eos_token_id is None:
            raise ValueError("its tokenizer has no end-of-sequence token")
        self.end = tokenizer.eos_token_id

    def encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=True).strip()


class Tokenized(NamedTuple):
    """A sequence: ids, which of them are predicted in training, and the pictures in it as positions of items.

    Where VISION is predicted, at <CLS>, it is the picture that is.
    """

    ids: list[int]
    learned: list[bool]
    images: list[int]


class TokenBatch(NamedTuple):
    """Sequences, padded on the right: ids B×L, predicted ones B×L, positions that are there B×L; pictures R."""

    ids_BL: Tensor
    learned_BL: Tensor
    there_BL: Tensor
    image_R: Tensor

    def to(self, device: torch.device) -> "TokenBatch":
        """Copy to another device; the pictures stay, as their vectors are looked up before."""
        return TokenBatch(
            self.ids_BL.to(device), self.learned_BL.to(device), self.there_BL.to(device), self.image_R
        )


class ChatTokens:
    """Writes conversations and captions as sequences of at most `limit` tokens.

    `ids` is the number of ids of the language model, `image_tokens` that of the perceiver's tokens N.
    """

    def __init__(self, tokens: Words | Pieces, ids: int, image_tokens: int, limit: int) -> None:
        self.tokens, self.limit = tokens, limit
        self.image, self.image_end = ids, ids + 1
        self._block = [self.image, *[VISION] * (1 + image_tokens), self.image_end]
        # the perceiver's tokens are inputs only
        self._learned = [True, True, *[False] * image_tokens, True]
        self._end = Tokenized([tokens.end], [True], [])

    def conversation(
        self, turns: Sequence[ConversationTurn], positions: Mapping[str, int], answer: str | None = None
    ) -> Tokenized:
        """A conversation after which the assistant speaks, or shows the item `answer`.

        What the assistant says and shows is predicted. The oldest turns are left out until the others fit.
        """
        tail = [_given(self.tokens.encode(ROLES["assistant"]))]
        # room for the answer, also where it is not there, so that training and search leave out the same turns
        room = self.limit - len(self.tokens.start) - len(tail[0].ids) - len(self._block) - 1
        if answer is not None:
            tail += [self._said([TurnPicture(answer)], positions, True), self._end]
        return _joined(_given(self.tokens.start), *self._latest(turns, positions, room), *tail)

    def talk(self, turns: Sequence[ConversationTurn], positions: Mapping[str, int]) -> Tokenized:
        """A conversation that the assistant ends. What it says and shows is predicted; the oldest turns are left out
        until the others fit.
        """
        room = self.limit - len(self.tokens.start)
        return _joined(_given(self.tokens.start), *self._latest(turns, positions, room))

    def document(self, content: Content, positions: Mapping[str, int]) -> list[Tokenized]:
        """Words and pictures of a page, all of which are predicted, in sequences that are as long as they may be."""
        sequences: list[Tokenized] = []
        for part in content:
            said = self._said([part], positions, True)
            if not sequences or len(sequences[-1].ids) + len(said.ids) + 1 > self.limit:
                sequences.append(_given(self.tokens.start))
            sequences[-1] = _joined(sequences[-1], said)
        return [_joined(one, self._end) for one in sequences]

    def caption(self, text: str, item: int, image_first: bool) -> Tokenized:
        """A caption with its picture before or after it; all of both is predicted."""
        words = self.tokens.encode(text)[: self.limit // 2]
        said, shown = Tokenized(words, [True] * len(words), []), Tokenized(self._block, self._learned, [item])
        return _joined(
            _given(self.tokens.start), *((shown, said) if image_first else (said, shown)), self._end
        )

    def _latest(
        self, turns: Sequence[ConversationTurn], positions: Mapping[str, int], room: int
    ) -> list[Tokenized]:
        """The last turns that fit."""
        kept: list[Tokenized] = []
        for turn in reversed(turns):
            part = self._turn(turn, positions)
            if len(part.ids) > room:
                break
            room -= len(part.ids)
            kept.insert(0, part)
        return kept

    def query(self, asked: Tokenized) -> Tokenized:
        """The same with [IMG] at its end, where the language model predicts a picture."""
        return Tokenized([*asked.ids, self.image], [*asked.learned, False], asked.images)

    def collate(self, sequences: Sequence[Tokenized]) -> TokenBatch:
        """Batch of sequences."""
        ids = [torch.tensor(one.ids, dtype=torch.long) for one in sequences]
        learned = [torch.tensor(one.learned, dtype=torch.bool) for one in sequences]
        there = [torch.ones_like(one) for one in learned]
        images = [item for one in sequences for item in one.images]
        return TokenBatch(
            pad_sequence(ids, batch_first=True, padding_value=PAD),
            pad_sequence(learned, batch_first=True),
            pad_sequence(there, batch_first=True),
            torch.tensor(images, dtype=torch.long),
        )

    def _turn(self, turn: ConversationTurn, positions: Mapping[str, int]) -> Tokenized:
        spoken = turn.role == "assistant"
        said = self._said(turn.content, positions, spoken)
        return _joined(_given(self.tokens.encode(ROLES[turn.role])), said, *([self._end] if spoken else []))

    def _said(
        self, content: Sequence[Text | TurnPicture], positions: Mapping[str, int], learned: bool
    ) -> Tokenized:
        ids: list[int] = []
        marks: list[bool] = []
        for part in content:
            if isinstance(part, TurnPicture):
                ids, marks = ids + self._block, marks + self._learned
            else:
                words = self.tokens.encode(part.text)[: self.limit // 4]
                ids, marks = ids + words, marks + [True] * len(words)
        images = [positions[part.id] for part in content if isinstance(part, TurnPicture)]
        return Tokenized(ids, [learned and mark for mark in marks], images)


def _given(ids: Sequence[int]) -> Tokenized:
    """Ids that are not predicted."""
    return Tokenized(list(ids), [False] * len(ids), [])


def _joined(*parts: Tokenized) -> Tokenized:
    return Tokenized(
        [number for part in parts for number in part.ids],
        [mark for part in parts for mark in part.learned],
        [item for part in parts for item in part.images],
    )

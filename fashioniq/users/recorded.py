"""Repeat what was recorded: captions of pairs, texts of dialogues, answers to questions."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.dialogues import Dialogue, split_round
from fashioniq.files import UserError
from fashioniq.loop.messages import Message, User


class Recorded:
    """Replies with the n-th of a list of messages, made for one batch, at turn n."""

    def __init__(self, replies: Sequence[Message]) -> None:
        self.replies = replies

    @classmethod
    def of_words(cls, words_BTL: Tensor) -> "Recorded":
        """The word ids of every turn."""
        return cls([Message(words_BL=words_BL) for words_BL in words_BTL.unbind(1)])

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The recorded reply, whatever was offered."""
        return self.replies[turn]


class WithCaption:
    """Replies to the empty first offer with the target's caption, and to all others as another user does."""

    def __init__(self, user: User, captions: Sequence[str]) -> None:
        self.user, self.captions = user, captions

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The caption, then an answer."""
        return self.user.reply(target_B, offer, turn) if turn else Message(texts=[self.captions[target] for target in target_B.tolist()])


class RecordedAnswers:
    """Repeats the recorded answers to questions about each image; to a question asked again, its next answer.

    Raises UserError for a question that was not recorded.
    """

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self.images = [dialogue.image for dialogue in dialogues]
        self._answers: dict[tuple[str, str], list[str]] = {}
        for dialogue in dialogues:
            for question, answer in map(split_round, dialogue.rounds[1:]):
                self._answers.setdefault((dialogue.image, question), []).append(answer)

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The answers to the questions offered."""
        keys = [(self.images[target], question) for target, question in zip(target_B.tolist(), offer.texts or (), strict=True)]
        if missing := [key for key in keys if key not in self._answers]:
            raise UserError(f"no recorded answer to {missing[0][1]!r} about {missing[0][0]}; recorded answers need recorded questions")
        return Message(texts=[left.pop(0) if len(left) > 1 else left[0] for left in map(self._answers.__getitem__, keys)])

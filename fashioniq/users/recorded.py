"""Users that repeat recorded replies: captions of pairs, texts of dialogs, answers to questions."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.dialogues import Dialogue
from fashioniq.files import UserError
from fashioniq.loop.messages import Message, User


class RecordedReplies:
    """User for one batch that replies at turn n with the n-th of a list of messages."""

    def __init__(self, replies: Sequence[Message]) -> None:
        self.replies = replies

    @classmethod
    def of_words(
        cls, words_BTL: Tensor, texts_BT: Sequence[Sequence[str]] | None = None
    ) -> "RecordedReplies":
        """Create a user from the word ids of every turn, and from the texts as they were typed, if they are known.

        Words that a retriever has not learned are in the texts alone, and wishes are read from these.
        """
        columns = [None] * words_BTL.shape[1] if texts_BT is None else list(zip(*texts_BT, strict=True))
        return cls([Message(*turn) for turn in zip(words_BTL.unbind(1), columns, strict=True)])

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the recorded reply of the turn, regardless of the offer."""
        return self.replies[turn]


class WithCaption:
    """Wrapper of a user that replies to the empty first offer with the target's caption."""

    def __init__(self, user: User, captions: Sequence[str]) -> None:
        self.user, self.captions = user, captions

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the caption at the first turn, then the reply of the wrapped user."""
        return (
            self.user.reply(target_B, offer, turn)
            if turn
            else Message(texts=[self.captions[target] for target in target_B.tolist()])
        )


class RecordedAnswers:
    """User that repeats the recorded answers about each image.

    A question that is asked again gets its next recorded answer, if there is one.
    """

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self.images = [dialogue.image for dialogue in dialogues]
        self._answers: dict[tuple[str, str], list[str]] = {}
        for dialogue in dialogues:
            for said in dialogue.rounds[1:]:
                self._answers.setdefault((dialogue.image, said.question), []).append(said.answer)

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Answer the questions offered. Raises UserError for a question that was not recorded."""
        keys = [
            (self.images[target], question)
            for target, question in zip(target_B.tolist(), offer.questions or (), strict=True)
        ]
        if missing := [key for key in keys if key not in self._answers]:
            raise UserError(
                f"no recorded answer to {missing[0][1]!r} about {missing[0][0]}; recorded answers "
                "need recorded questions"
            )
        return Message(
            texts=[left.pop(0) if len(left) > 1 else left[0] for left in map(self._answers.__getitem__, keys)]
        )

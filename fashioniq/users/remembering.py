"""Wrapper of a user that does not think twice, for validation, where most offers repeat from epoch to epoch."""

import torch
from torch import Tensor

from fashioniq.loop.messages import Message, User


class RememberingUser:
    """Wrapper of a user whose reply in word ids depends on nothing but target, product offered and turn.

    Its last reply about each target at each turn, words L, is kept in `said` beside the product offered, and is given
    again if that product is offered again. Sharing `said` among users makes them remember for each other.
    """

    def __init__(self, user: User, said: dict[tuple[int, int], tuple[int, Tensor]]) -> None:
        self.user, self.said = user, said

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the replies that are remembered, and those of the wrapped user about other offers."""
        assert offer.item_B is not None, "a reply is remembered by the product offered"
        pairs = list(zip(target_B.tolist(), offer.item_B.tolist(), strict=True))
        last = [self.said.get((turn, target), (None, target_B)) for target, _ in pairs]
        words = [words_L for _, words_L in last]
        new = [row for row, (_, item) in enumerate(pairs) if last[row][0] != item]
        if new:
            row_R = torch.tensor(new, device=target_B.device)
            words_RL = self.user.reply(target_B[row_R], Message(item_B=offer.item_B[row_R]), turn).words_BL
            assert words_RL is not None, "only word ids are remembered"
            for row, words_L in zip(new, words_RL, strict=True):
                target, item = pairs[row]
                words[row], self.said[turn, target] = words_L, (item, words_L)
        return Message(words_BL=torch.stack(words))

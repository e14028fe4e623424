"""A live dialog with one person, turn by turn: the same System that `rollout` drives, without a target."""

from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor

from fashioniq.data.cards import Product
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.loop.messages import Message, S, Talk
from fashioniq.loop.rollout import System

LOGGED = 10  # products of a finished dialog that are logged
LONGEST = 600  # characters of a reply


@dataclass(frozen=True)
class Live(Generic[S]):
    """One dialog with one person. Every step returns a new value: a session keeps the latest, undo an earlier one.

    `offer` is what the next words refer to, `query_1D` what the products shown are nearest to.
    """

    system: System[S]
    talk: Talk[S]
    offer: Message
    query_1D: Tensor
    before: "Live[S] | None" = None

    @classmethod
    def begin(cls, system: System[S]) -> "Live[S]":
        """A dialog with the first offer of the system."""
        talk = system.begin(1)
        return cls(system, talk, system.offer(talk), system.gallery.mean_1D)

    @property
    def question(self) -> str:
        """The question that the system asks; empty where it asks none."""
        return self.offer.texts[0] if self.offer.texts else ""

    @property
    def offered(self) -> str | None:
        """The id of the product that the next words refer to, if they refer to one."""
        return None if self.offer.item_B is None else self.system.gallery.items.ids[int(self.offer.item_B)]

    @property
    def said(self) -> list[str]:
        """The replies so far."""
        return [text for turn in self.talk.turns for text in turn.reply.texts or ()]

    def products(self, count: int = 10) -> list[Product]:
        """The products found so far, nearest first; the product offered takes the last place if it is not found."""
        found = self.system.nearest(self.query_1D, count)[0]
        if self.offer.item_B is not None and self.offered not in [product.id for product in found]:
            vector_1D = self.system.gallery.vectors_ND[self.offer.item_B].float()
            distance = (vector_1D - self.query_1D).norm().item()
            found[-1] = self.system.cards.product(self.offered or "", distance)
        return found

    def say(self, text: str) -> "Live[S]":
        """The dialog after a reply in the person's own words, without markup and control characters."""
        said = clean(
            text.replace("?", " ") if self.question else text, LONGEST
        )  # "?" ends the question of a round
        talk = self.system.hear(self.talk, self.offer, Message(texts=[said]))
        return Live(self.system, talk, self.system.offer(talk), talk.queries[-1], before=self)

    def more_like(self, item: str) -> "Live[S]":
        """The dialog whose next words refer to the product `item`; the products nearest to it are shown.

        Raises UserError for an id that is not in the gallery, and for a system that offers no products.
        """
        gallery = self.system.gallery
        if self.offer.item_B is None:
            raise UserError(
                "this system asks questions and cannot start from a product: describe the product in words"
            )
        if (place := gallery.items.positions.get(item)) is None:
            raise UserError(f"there is no product {item!r} among the {len(gallery)} that are searched")
        item_1 = torch.tensor([place], device=gallery.vectors_ND.device)
        return Live(
            self.system, self.talk, Message(item_B=item_1), gallery.vectors_ND[item_1].float(), before=self
        )

    def undo(self) -> "Live[S]":
        """The dialog before the last step; the dialog itself at its beginning."""
        return self.before or self

    def chosen(self, item: str | None) -> dict[str, Any]:
        """The dialog as a line of dialogs.jsonl, with the id of the product that was chosen, None for none."""
        ids, top = self.system.gallery.items.ids, self.system.nearest(self.query_1D, LOGGED)[0]
        turns = [
            {"offer": turn.offer.plain(ids, 1)[0], "reply": turn.reply.plain(ids, 1)[0], "rank": None}
            for turn in self.talk.turns
        ]
        return {"target": item, "turns": turns, "top": [product.id for product in top]}

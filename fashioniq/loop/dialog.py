"""Live dialog with one person, turn by turn, on the same System as `rollout`, but without a target."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Generic, NamedTuple, SupportsIndex

import torch
from torch import Tensor

from fashioniq.data.cards import Product
from fashioniq.data.dialog_log import LoggedDialog, LoggedTurn
from fashioniq.data.items import ItemInputs
from fashioniq.data.sanitize import clean
from fashioniq.files import UserError
from fashioniq.language.wishes import EVERYTHING, OfferLimits, Wishes
from fashioniq.loop.messages import DialogState, Message, S
from fashioniq.loop.query import Query
from fashioniq.loop.rollout import System

LOGGED = 10  # products of a finished dialog that are logged
LONGEST = 600  # maximum characters of a reply
AWAY = 0.3  # how far the query moves away from a product that the person does not like, of its place from the mean


class ChosenLabel(NamedTuple):
    """A label that the person wants, or does not want, without having said so."""

    label: str
    denied: bool = False


class DialogStep(NamedTuple):
    """Step of a dialog as it was recorded: replies to one offer, or what the person chose instead of words.

    The offer is a question, or a product or picture, or a question and a product. `says` are replies, or the parts of
    the reply `text` that the retriever reads one by one; the wishes of a text are read from the whole of it.
    """

    says: tuple[str, ...] = ()
    about: str | ItemInputs | None = None
    question: str = ""
    like: str | None = None
    text: str = ""
    less_like: str | None = None
    wish: ChosenLabel | None = None
    dropped: str | None = None  # key of a wish that no longer holds
    passed: tuple[str, ...] = ()  # products shown, of which the person wants to see others


def wishes_after(system: System, wishes: Wishes, step: DialogStep) -> Wishes:
    """What holds after a step; the same if the system does not read wishes."""
    wording = system.wording
    if wording is None:
        return wishes
    if step.wish is not None:
        return wording.wished(wishes, *step.wish)
    if step.dropped is not None:
        return wording.without(wishes, step.dropped)
    item = system.gallery.items.positions.get(step.about) if isinstance(step.about, str) else None
    for text in (step.text,) if step.text else step.says:
        wishes = wording.after(wishes, clean(text, LONGEST), item, system.offers)
    return wishes


@dataclass(frozen=True)
class Dialog(Generic[S]):
    """Immutable state of a dialog with one person; every step returns a new one.

    Products are shown in the order of `query`, without those that were talked about, unless the last request asks for
    products `like` them, and without those that the person wants `less` of. Those `passed` over come back with the next
    request. `named` is an offer in place of the asker's: a product that the person named, or what was offered when the
    dialog was recorded.
    """

    system: System[S]
    state: DialogState[S]
    query: Query
    named: Message | None = None
    before: "Dialog[S] | None" = None
    like: bool = False
    less: tuple[Tensor, ...] = ()
    passed: tuple[Tensor, ...] = ()

    @classmethod
    def start(cls, system: System[S]) -> "Dialog[S]":
        """Start a dialog with the first offer of the system."""
        wishes = None if system.wording is None else [Wishes()]
        return cls(system, system.start(1), Query(system.gallery.mean_1D, wishes))

    @property
    def wishes(self) -> Wishes:
        """What was said or chosen and still holds."""
        return self.query.wishes[0] if self.query.wishes else Wishes()

    @cached_property
    def offer(self) -> Message:
        """Offer that the next reply refers to; of products, the first of those that are shown."""
        if self.named is not None:
            return self.named
        if self.system.shows_items and self.state.queries:
            cost_11, item_11 = self.system.gallery.top(self.query, 1, self.exclude_1K, self.allowed_N)
            if cost_11.isfinite().any():  # some product is within the limits and was not talked about
                return Message(item_B=item_11[:, 0])
        return self.system.offer(self.state)

    @property
    def question(self) -> str:
        """Current question of the system, or an empty string."""
        return self.offer.questions[0] if self.offer.questions else ""

    @property
    def offered(self) -> str | None:
        """Id of the product that the next reply refers to, or None."""
        return None if self.offer.item_B is None else self.system.gallery.items.ids[int(self.offer.item_B)]

    @property
    def said(self) -> list[str]:
        """All replies so far."""
        return [text for turn in self.state.turns for text in turn.reply.texts or ()]

    def nearest(self, count: int) -> list[Product]:
        """Return the best products in order, of those within the limits of price, size and stock that were said."""
        return self.system.nearest(self.query, count, self.allowed_N, self.exclude_1K)[0]

    @property
    def allowed_N(self) -> Tensor | None:
        """Mask of the products within the limits that were said, N; None if there are none."""
        return None if self.system.offers is None else self.system.offers.allowed(self.wishes.limits)

    @property
    def unlimited(self) -> tuple[str, ...]:
        """What was limited, but is not known of any product: "price", "currency", "size", "stock"."""
        limits = self.wishes.limits
        if self.system.offers is None or limits == OfferLimits():
            return ()
        return self.system.offers.known(limits)[1]

    @property
    def exclude_1K(self) -> Tensor | None:
        """Positions of the products that are not shown, 1×K; None if all are."""
        talked_about = () if self.like or not self.system.shows_items else self.state.shown
        left_out = (*talked_about, *self.less, *self.passed)
        return torch.stack(left_out, 1) if left_out else None

    def products(self, count: int = 10) -> list[Product]:
        """Return the nearest products in order; the product offered replaces the last one if missing.

        Raises TypeError for a count that is no integer, and ValueError for one below 1.
        """
        if not isinstance(count, SupportsIndex):
            raise TypeError(f"expected a number of products, found {count!r}")
        if (count := operator.index(count)) < 1:
            raise ValueError(f"expected at least 1 product, found {count}")
        found, offered_B = self.nearest(count), self.offer.item_B
        if offered_B is not None and self.offered not in [product.id for product in found]:
            gallery = self.system.gallery
            offered_N = torch.zeros(len(gallery), dtype=torch.bool, device=gallery.vectors_ND.device)
            offered_N[offered_B] = True
            found[-1:] = self.system.nearest(self.query, 1, offered_N)[0]
        return found

    def say(
        self, text: str, parts: Sequence[str] | None = None, *, about: str | ItemInputs | None = None
    ) -> "Dialog[S]":
        """Return the dialog after a reply, from which markup and control characters are removed.

        It is `about` a product or picture, by default what the system offers. A reply of which nothing is understood
        changes nothing, "like this" alone asks for products like the one talked about, and "something else" for all but
        that one; "start over" begins a new dialog, which can be undone. The retriever reads `parts` of it, if they are
        given, one by one, and only those that have more than limits such as a price.

        Raises TypeError for a reply that is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a reply, found {text!r}")
        if about is not None:
            return self.about(about).say(text, parts)
        reply = clean(text, LONGEST)
        request, state, offer = self.system.read(reply), self.state, self.offer
        if EVERYTHING in request.taken_back and (self.before or self.like):
            begun = replace(Dialog.start(self.system), named=offer if request.like_shown else None)
            return replace(begun.say(reply, parts), before=self)
        if request.others and self.system.shows_items and self.offered:
            return self.pass_over([self.offered])
        if not request.understood:
            alike = request.like_shown and self.system.shows_items and self.offered
            return self.more_like(alike) if alike else self
        about = None if offer.item_B is None else self.system.gallery.items.ids[int(offer.item_B)]
        wishes = self.query.wishes and [wishes_after(self.system, self.wishes, DialogStep((reply,), about))]
        for part in [reply] if parts is None else parts:
            if self.system.read(part).known:
                state = self.system.observe(state, offer, Message(texts=[part]), wishes)
        later = replace(self, before=self, like=request.like_shown, passed=())
        if state is self.state:
            return replace(later, query=Query(self.query.vector_BD, wishes))
        query = Query(self._away(state.queries[-1].vector_BD), wishes)
        return replace(later, state=state, query=query, named=None)

    def about(self, item: str | ItemInputs | None = None, question: str = "") -> "Dialog[S]":
        """Return the dialog whose next reply refers to this product, picture or question, with the same products.

        Raises UserError for an id that is not in the gallery.
        """
        questions = [question] if question else None
        if isinstance(item, ItemInputs):
            return replace(self, named=Message(questions=questions, inputs=item))
        item_1 = None if item is None else self._position(item)
        return replace(self, named=Message(questions=questions, item_B=item_1))

    def after(self, step: DialogStep) -> "Dialog[S]":
        """Return the dialog after a recorded step. Raises UserError for a product that is not in the gallery."""
        dialog = self
        if step.like is not None:
            return dialog.about(step.like).more_like(step.like)
        if step.less_like is not None:
            return dialog.less_like(step.less_like)
        if step.passed:
            return dialog.pass_over(step.passed)
        if step.wish is not None or step.dropped is not None:
            wishes = wishes_after(self.system, self.wishes, step)
            return replace(self, query=Query(self.query.vector_BD, [wishes]), before=self, passed=())
        if step.text:
            return dialog.about(step.about, step.question).say(step.text, step.says)
        for text in step.says:
            dialog = dialog.about(step.about, step.question).say(text)
        return dialog

    def replay(self, steps: Sequence[DialogStep]) -> "Dialog[S]":
        """Return the dialog after these steps."""
        return reduce(Dialog.after, steps, self)

    def more_like(self, item: str) -> "Dialog[S]":
        """Return the dialog whose next reply refers to the product `item`, with the products nearest to it.

        Raises UserError for an id that is not in the gallery, and for a system that does not offer products.
        """
        if not self.system.shows_items and self.offer.item_B is None:
            raise UserError(
                "this system is searched with words and cannot start from a product; describe the product"
            )
        return replace(self.at(item), named=Message(item_B=self._position(item)), before=self)

    def at(self, item: str | ItemInputs) -> "Dialog[S]":
        """Return the dialog with the products nearest to a product or picture.

        Raises UserError for an id that is not in the gallery.
        """
        if isinstance(item, ItemInputs):
            vector_1D = self.system.retriever.embed_images(item.features_BD)  # type: ignore[attr-defined]
        else:
            vector_1D = self.system.gallery.vectors_ND[self._position(item)].float()
        return replace(self, query=Query(self._away(vector_1D), self.query.wishes), like=True, passed=())

    def less_like(self, item: str) -> "Dialog[S]":
        """Return the dialog whose products are less like the product `item`, which is not shown again.

        Raises UserError for an id that is not in the gallery, and for a system that does not offer products.
        """
        if not self.system.shows_items:
            raise UserError("this system is searched with words; say what should be different")
        moved = replace(self, less=(self._position(item),))
        query = Query(moved._away(self.query.vector_BD), self.query.wishes)
        return replace(self, query=query, named=None, before=self, less=(*self.less, *moved.less))

    def pass_over(self, items: Sequence[str]) -> "Dialog[S]":
        """Return the dialog without these products until the next request; those that are gone are left out."""
        known = self.system.gallery.items.positions
        passed = [self._position(item) for item in items if item in known]
        return replace(self, passed=(*self.passed, *passed), named=None, before=self)

    def _away(self, vector_1D: Tensor) -> Tensor:
        """A query moved away from the products that the person wants less of, as by Rocchio (1971)."""
        gallery = self.system.gallery
        for item_1 in self.less:
            vector_1D = vector_1D - AWAY * (gallery.vectors_ND[item_1].float() - gallery.mean_1D)
        return vector_1D

    def _position(self, item: str) -> Tensor:
        gallery, items = self.system.gallery, self.system.gallery.items
        if (position := items.positions.get(items.spellings.own(item))) is None:
            raise UserError(f"no product {item!r} in the gallery of {len(gallery)} products")
        return torch.tensor([position], device=gallery.vectors_ND.device)

    def undo(self) -> "Dialog[S]":
        """Return the dialog before the last step, or the dialog itself if there is none."""
        return self.before or self

    def chosen(self, item: str | None) -> LoggedDialog:
        """Return the dialog as a line of dialogs.jsonl, with the id of the product chosen, or None."""
        ids, top = self.system.gallery.items.ids, self.nearest(LOGGED)
        turns = [
            LoggedTurn(offer=turn.offer.logged(ids, 1)[0], reply=turn.reply.logged(ids, 1)[0])
            for turn in self.state.turns
        ]
        return LoggedDialog(target=item, turns=turns, top=[product.id for product in top])

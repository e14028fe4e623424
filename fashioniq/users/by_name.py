"""Simulated users by their names in options, and those for which a catalog has data."""

from contextlib import suppress
from typing import Any

from torch import Tensor

from fashioniq.data.catalog import Catalog
from fashioniq.data.parts import named_part
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import pairs_with_targets
from fashioniq.files import UserError
from fashioniq.loop.messages import Message, User
from fashioniq.sample import garments_of


class WordedUser:
    """Wrapper of the user `name` whose replies are texts, that adds the ids of their first `max_words` words."""

    def __init__(self, user: User, vocabulary: Vocabulary, max_words: int, name: str = "given") -> None:
        self.name, self.user, self.vocabulary, self.max_words = name, user, vocabulary, max_words

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the reply of the wrapped user with word ids. Raises UserError without a text for each dialog."""
        said = self.user.reply(target_B, offer, turn)
        if not isinstance(said, Message):
            raise UserError(
                f"the user {self.name} returned {type(said).__name__}, expected a Message of reply"
            )
        texts = said.texts
        if texts is not None and (isinstance(texts, str) or len(texts) != len(target_B)):
            found = "a str" if isinstance(texts, str) else f"{len(texts)}"
            raise UserError(
                f"the user {self.name} returned {found} as texts, expected {len(target_B)}, one per dialog"
            )
        if said.words_BL is not None or said.texts is None:
            return said
        return said._replace(words_BL=self.vocabulary.encode(said.texts, self.max_words).to(target_B.device))


def named_user(
    name: str, *, vocabulary: Vocabulary, max_words: int, **inputs: Any
) -> tuple[User, dict[str, Any]]:
    """The user with a name, who replies in words of a vocabulary, and its facts.

    Raises UserError if it cannot be made.
    """
    user = named_part("users", name, vocabulary=vocabulary, max_words=max_words, **inputs)
    facts = {"user": name, "captions": name, "decoding": "none"} | dict(getattr(user, "about", {}))
    return WordedUser(user, vocabulary, max_words, name), facts


def users_of_catalog(catalog: Catalog, split: str) -> list[str]:
    """Those of "differences", "grammar" and "human" for which the catalog has data."""
    users = ["differences"] if any(any(catalog.labels.get(name, ())) for name in catalog.ids(split)) else []
    needed = {
        "grammar": lambda: garments_of(catalog),
        "human": lambda: pairs_with_targets(catalog, split),
    }
    for name, read in needed.items():
        with suppress(UserError):
            read()
            users.append(name)
    return users

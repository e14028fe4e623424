"""`fashioniq forget`."""

from typing import NamedTuple

from fashioniq.config import Forget


class Erasure(NamedTuple):
    """Result of an erasure; `failed` if some of the training data could not be reached."""

    failed: bool


def run(settings: Forget) -> Erasure:
    """Erase conversations, also in the training data made from them."""
    from fashioniq.service.learning.forget import forget

    return Erasure(failed=not forget(settings))

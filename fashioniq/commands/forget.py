"""`fashioniq forget`."""

from fashioniq.config import Forget


def run(settings: Forget) -> None:
    """Erase conversations, also in the training data made from them."""
    from fashioniq.learning.forget import forget

    forget(settings)

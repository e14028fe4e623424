"""`fashioniq forget`."""

from fashioniq.config import Forget


def run(settings: Forget) -> int:
    """Erase conversations, also in the training data made from them; 1 if some of these could not be reached."""
    from fashioniq.learning.forget import forget

    return 0 if forget(settings) else 1

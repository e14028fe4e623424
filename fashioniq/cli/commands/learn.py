"""`fashioniq learn`."""

from fashioniq.config import Learn
from fashioniq.service.learning.verdict import Gate


def run(settings: Learn) -> Gate:
    """Learn from the conversations of a service; the result has `failed` if the new model does not pass the gate."""
    from fashioniq.service.learning.run import learn

    return learn(settings)

"""`fashioniq learn`."""

from fashioniq.config import Learn


def run(settings: Learn) -> int:
    """Learn from the conversations of a service; 1 if the new model does not pass the gate."""
    from fashioniq.learning.run import learn

    return 0 if learn(settings) else 1

"""`fashioniq learn`."""

from fashioniq.config import Learn
from fashioniq.files import exclusive


def run(settings: Learn) -> int:
    """Learn from the conversations of a service; 1 if the new model does not pass the gate."""
    from fashioniq.learning.run import learn

    with exclusive(settings.out):
        return 0 if learn(settings) else 1

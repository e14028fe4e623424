"""`fashioniq learn`."""

from fashioniq.service.learning.run import learn as run

__all__ = ["run"]

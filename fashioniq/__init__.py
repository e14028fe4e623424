"""Dialog-based fashion image retrieval: train, simulate and judge retrievers that listen to "longer and in navy"."""

from fashioniq import compat as _compat  # first: makes torchvision importable beside any torch

__version__ = "0.1.0"
__all__ = ["__version__"]

_compat.prepare_torchvision()

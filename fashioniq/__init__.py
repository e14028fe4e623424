"""Dialog-based fashion image retrieval: train, simulate and judge retrievers that listen to "longer and in
navy".
"""

import importlib
from typing import TYPE_CHECKING, Any

from fashioniq import compat as _compat  # first: makes torchvision importable beside any torch

if TYPE_CHECKING:
    from fashioniq.loop.messages import Message
    from fashioniq.loop.rollout import System
    from fashioniq.systems import load

__version__ = "0.2.0"
__all__ = ["Message", "System", "__version__", "load"]

_MODULES = {
    "Message": "fashioniq.loop.messages",
    "System": "fashioniq.loop.rollout",
    "load": "fashioniq.systems",
}

_compat.prepare_torchvision()


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first used: `fashioniq --help` does without."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)

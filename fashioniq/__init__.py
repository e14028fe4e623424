"""Dialog-based fashion image retrieval: train, simulate and judge retrievers that listen to "longer and in
navy".

Each command is a function whose arguments are its options: `fashioniq train-retriever --category dresses` is
`fashioniq.train_retriever(category="dresses")`.
"""

import importlib
from importlib.util import find_spec
from typing import Any

from fashioniq import compat as _compat  # first: makes torchvision importable beside any torch

__version__ = "0.2.0"
__all__ = ["Dialog", "Message", "System", "__version__", "load"]

_MODULES = {
    "Dialog": "fashioniq.loop.dialog",
    "Message": "fashioniq.loop.messages",
    "System": "fashioniq.loop.rollout",
    "load": "fashioniq.systems",
}

_compat.prepare_torchvision()


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first used: `fashioniq --help` does without."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    if find_spec(f"{__name__}.{name}") is None and name in _functions():  # modules are imported after this
        from fashioniq.cli.commands import function_of

        return function_of(name.replace("_", "-"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_functions()])


def _functions() -> list[str]:
    from fashioniq.config import COMMANDS

    return [name.replace("-", "_") for name in COMMANDS]

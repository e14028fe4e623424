"""Commands, one per file: `run(settings)` calls the package once, prints the result, and returns it."""

import importlib
import inspect
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fashioniq import compat, config
from fashioniq.config.parser import flattened, settings_of
from fashioniq.options import flag
from fashioniq.provenance import running


def check(settings: Any) -> None:
    """Check the settings of a command, and look for what they name, before torch is imported.

    Raises UserError for a mistake.
    """
    _quiet()
    compat.keep_caches_together()
    compat.check_before_libraries()
    config.check(settings)
    from fashioniq.cli.inputs import check_inputs  # here, as it imports numpy

    check_inputs(settings)


def module_of(command: str) -> Any:
    """Import the module of a command."""
    return importlib.import_module(f"fashioniq.cli.commands.{command.replace('-', '_')}")


def function_of(command: str) -> Callable[..., Any]:
    """The command as a function, whose arguments are its options; it prints and returns the result."""

    kind = config.COMMANDS[command]

    def call(**options: Any) -> Any:
        settings: Any = settings_of(kind, options)
        check(settings)
        with running(["fashioniq", command, *_words(options)]):
            return module_of(command).run(settings)

    call.__name__ = call.__qualname__ = command.replace("-", "_")
    call.__doc__ = f"{inspect.getdoc(kind)}\n\nThe arguments are the options of `fashioniq {command}`."
    call.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return call


def _words(options: Mapping[str, Any]) -> list[str]:
    """The command line with these options."""
    several = {
        flag(name): value if isinstance(value, list | tuple) else [value]
        for name, value in flattened(options).items()
    }
    return [word for name, values in several.items() for word in (name, *map(str, values))]


def _quiet() -> None:
    """Silence advertisements and hints of Lightning."""
    rank_zero, meeting = "pytorch_lightning.utilities.rank_zero", "lightning_fabric.utilities.distributed"
    for logger in map(logging.getLogger, ("pytorch_lightning", rank_zero, "lightning_fabric", meeting)):
        if logger.level != logging.ERROR:  # setting it clears what all loggers have cached
            logger.setLevel(logging.ERROR)
    for module in ("pytorch_lightning", "lightning_fabric"):
        warnings.filterwarnings("ignore", module=module)

"""Commands, one per file: `run(settings)` calls the package once, prints the result, and returns it.

Those that are one function of another room have no file, but a line in `ELSEWHERE`.
"""

import inspect
import logging
import pkgutil
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fashioniq import compat, config
from fashioniq.config.parser import flattened, settings_of
from fashioniq.options import flag
from fashioniq.provenance import running

ELSEWHERE = {
    "compare": "fashioniq.evaluation.comparison:compare",
    "compare-live": "fashioniq.service.live_comparison:compare_live",
    "eval-captions": "fashioniq.evaluation.captions:evaluate_captions",
    "eval-chatsearch": "fashioniq.evaluation.chatsearch:evaluate_chatsearch",
    "eval-requests": "fashioniq.evaluation.requests:evaluate_requests",
    "forget": "fashioniq.service.learning.forget:forget",
    "learn": "fashioniq.service.learning.run:learn",
    "make-dialogues": "fashioniq.evaluation.dialogue_files:make_dialogues",
}


def place_of(command: str) -> str:
    """Module and name of the function that runs a command."""
    return ELSEWHERE.get(command, f"{__name__}.{command.replace('-', '_')}:run")


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


def function_of(command: str) -> Callable[..., Any]:
    """The command as a function, whose arguments are its options; it prints and returns the result."""

    kind = config.COMMANDS[command]

    def call(**options: Any) -> Any:
        settings: Any = settings_of(kind, options)
        check(settings)
        with running(["fashioniq", command, *_words(options)]):
            return pkgutil.resolve_name(place_of(command))(settings)

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

"""Command line `fashioniq COMMAND …`. The scripts outside the package run the same commands."""

import atexit
import gc
import importlib
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jsonargparse import ArgumentParser

from fashioniq import __version__, compat, config, streams
from fashioniq.config import parser
from fashioniq.files import UserError, one_line, why
from fashioniq.provenance import running

FIRST_PART = r"[:;]|\.(?: |$)"  # a summary in the overview ends here
COMMANDS: dict[str, type] = {
    "draw-sample": config.DrawSample,
    "import-catalog": config.ImportCatalog,
    "download-images": config.DownloadImages,
    "check-data": config.CheckData,
    "extract-attributes": config.ExtractAttributes,
    "pair-references": config.PairReferences,
    "caption-pairs": config.CaptionPairs,
    "train-attributes": config.TrainAttributes,
    "extract-features": config.ExtractFeatures,
    "train-captioner": config.TrainCaptioner,
    "train-retriever": config.TrainRetriever,
    "train-composer": config.TrainComposer,
    "train-dialog-encoder": config.TrainDialogEncoder,
    "train-generator": config.TrainGenerator,
    "train-chatsearcher": config.TrainChatsearcher,
    "eval-dialogs": config.EvalDialogs,
    "cross": config.Cross,
    "eval-captions": config.EvalCaptions,
    "eval-single-turn": config.EvalSingleTurn,
    "score": config.Score,
    "eval-chatsearch": config.EvalChatsearch,
    "eval-requests": config.EvalRequests,
    "make-dialogues": config.MakeDialogues,
    "make-conversations": config.MakeConversations,
    "chat": config.Chat,
    "search": config.Search,
    "export": config.Export,
    "serve": config.Serve,
    "learn": config.Learn,
    "forget": config.Forget,
    "api-key": config.ApiKey,
    "compare": config.Compare,
}


atexit.register(gc.freeze)  # see _loading


def parser_of(command: str) -> ArgumentParser:
    """Parser of a command: a flag for each field of its settings, and --config for a YAML file of fields."""
    return parser.parser_of(command, COMMANDS[command])


def parse(command: str, arguments: Sequence[str]) -> Any:
    """Settings of a command. Exits with code 2 on an unknown or malformed argument."""
    kind = _options_of_system(arguments) if command == "eval-dialogs" else COMMANDS[command]
    return parser.parse(command, kind, arguments)


def _options_of_system(arguments: Sequence[str]) -> type:
    """Options of eval-dialogs: those of the system in --system."""
    name = parser.last_of("system", arguments) or "fashion-iq"
    if name in config.SYSTEMS:
        return config.SYSTEMS[name]
    try:
        return importlib.import_module(name).Options
    except (ImportError, AttributeError, TypeError) as error:  # TypeError: the name begins with a dot
        missing = isinstance(error, TypeError) or (isinstance(error, ImportError) and error.name == name)
        reason = "" if missing else f" ({why(error)})"
        print(
            f"error: there is no --system {one_line(name)}{reason}; available: {', '.join(config.SYSTEMS)}, or the "
            "name of a Python module of your own with Options and build(): `PYTHONPATH=FOLDER fashioniq eval-dialogs "
            "--system my_system` uses FOLDER/my_system.py",
            file=sys.stderr,
        )
        raise SystemExit(2) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for findings of check-data, or 2 after a user's mistake."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        streams.prepare()
        streams.check_arguments(arguments)
        streams.check_working_directory()
        try:
            return _run(arguments)
        finally:  # also of --help, which exits
            sys.stdout.flush()
    except UserError as error:
        code, message = 2, str(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if (end := streams.end_of(error)) is None:
            raise
        code, message = end
    if message:
        print(f"error: {one_line(message)}", file=sys.stderr)
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(__version__)
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        hint = parser.did_you_mean(command, COMMANDS) or f"; available: {', '.join(COMMANDS)};"
        print(f"error: unknown command {command!r}{hint} `fashioniq --help` describes them", file=sys.stderr)
        return 2
    with _loading():
        settings = parse(command, rest)
        _quiet()
        compat.keep_caches_together()
        compat.prepare_torchmetrics()
        compat.check_before_torch()
        config.check(settings)
        from fashioniq.inputs import check_inputs  # here, as it imports numpy

        check_inputs(settings)
    with running(["fashioniq", *arguments]):
        with _loading():
            module = importlib.import_module(_module_of(command, settings))
        return module.run(settings) or 0


@contextmanager
def _loading() -> Iterator[None]:
    """Import libraries without garbage collection, and exempt their objects from it. It would look through them again
    and again, and once more when the process ends: a third of the processor time of `fashioniq search`.
    """
    collecting, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
    if len(sys.modules) > before:
        gc.freeze()


def _module_of(command: str, settings: Any) -> str:
    """Module of the command with these settings, by default of the given command (options of an own system)."""
    name = next((name for name, kind in COMMANDS.items() if kind is type(settings)), command)
    return f"fashioniq.commands.{name.replace('-', '_')}"


def _overview() -> str:
    summaries = {name: " ".join((kind.__doc__ or "").split()) for name, kind in COMMANDS.items()}
    lines = [f"  {name:20} {re.split(FIRST_PART, text)[0]}" for name, text in summaries.items()]
    return "\n".join(["usage: fashioniq COMMAND [options]; see fashioniq COMMAND --help", "", *lines])


def _quiet() -> None:
    """Silence advertisements and hints of Lightning."""
    rank_zero, meeting = "pytorch_lightning.utilities.rank_zero", "lightning_fabric.utilities.distributed"
    for logger in map(logging.getLogger, ("pytorch_lightning", rank_zero, "lightning_fabric", meeting)):
        if logger.level != logging.ERROR:  # setting it clears what all loggers have cached
            logger.setLevel(logging.ERROR)
    for module in ("pytorch_lightning", "lightning_fabric"):
        warnings.filterwarnings("ignore", module=module)


if __name__ == "__main__":
    raise SystemExit(main())

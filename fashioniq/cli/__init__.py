"""Command line `fashioniq COMMAND …`. The scripts outside the package run the same commands."""

import atexit
import gc
import pkgutil
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fashioniq import __version__
from fashioniq.cli import commands, streams
from fashioniq.config import COMMANDS, JOBS, parser
from fashioniq.files import UserError, one_line
from fashioniq.provenance import running

FIRST_PART = r"[:;]|\.(?: |$)"  # a summary in the overview ends here

atexit.register(gc.freeze)  # see _loading


def parser_of(command: str) -> ArgumentParser:
    """Parser of a command: a flag for each field of its settings, and --config for a YAML file of fields."""
    return parser.parser_of(command, COMMANDS[command])


def parse(command: str, arguments: Sequence[str]) -> Any:
    """Settings of a command. Raises UserError for an unknown or malformed argument, and SystemExit after --help."""
    return parser.parse(command, COMMANDS[command], arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 if the result has `failed`, or 2 after a user's mistake."""
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
        raise UserError(f"unknown command {command!r}{hint} `fashioniq --help` describes them")
    with _loading():
        settings = parse(command, rest)
        commands.check(settings)
    with running(["fashioniq", *arguments]):
        with _loading():
            run = pkgutil.resolve_name(commands.place_of(command))
        return int(getattr(run(settings), "failed", False))


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


def _overview() -> str:
    lines = ["usage: fashioniq COMMAND [options]; see fashioniq COMMAND --help"]
    for job, kinds in JOBS.items():
        summaries = {name: " ".join((kind.__doc__ or "").split()) for name, kind in kinds.items()}
        lines += ["", job, *(f"  {name:20} {re.split(FIRST_PART, summaries[name])[0]}" for name in kinds)]
    return "\n".join(lines)

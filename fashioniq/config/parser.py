"""Parsers of the commands: each field of a settings dataclass is a flag and a key of YAML files."""

import dataclasses
import re
import sys
import typing
from argparse import SUPPRESS, Action
from collections.abc import Sequence
from typing import Any, NoReturn

import yaml
from jsonargparse import ActionConfigFile, ActionYesNo, ArgumentParser, DefaultHelpFormatter

from fashioniq.config.renamed import new_flags, new_keys
from fashioniq.files import UserError
from fashioniq.options import flag

UNSET = dataclasses.MISSING


class HelpFormatter(DefaultHelpFormatter):
    """Help of an option with its default, unless that is empty or part of the text; without Python types."""

    def _get_help_string(self, action: Action) -> str:
        text = action.help or ""
        if action.required:
            return f"{text} (required)"
        shown = (
            action.default not in (None, SUPPRESS, [])
            and action.default is not False
            and "(default" not in text
        )
        return f"{text} (default: %(default)s)" if shown and action.option_strings else text


class Parser(ArgumentParser):
    """Parser that reports a mistake in one line with exit code 2, and accepts YAML files of earlier versions."""

    commands = ("", "")  # the command given, and the one that runs

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        self.exit(2, f"error: {_reworded(' '.join(message.split()))}; see {self.prog} --help\n")
        raise SystemExit(2)

    def parse_path(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Parse a YAML file, whose keys may be those of an earlier version."""
        try:
            with open(path, encoding="utf-8") as file:
                values = yaml.safe_load(file)
            if not isinstance(values, dict | None):
                raise UserError(f"expected options and values, found {type(values).__name__}")
            text = yaml.safe_dump(new_keys(*self.commands, values or {}), sort_keys=False, allow_unicode=True)
        except (OSError, ValueError, yaml.YAMLError) as error:
            self.error(f"cannot read {path}: {error}")
        except UserError as error:
            self.error(f"{path}: {error}")
        return self.parse_string(text, str(path), *args, **kwargs)


class Several(Action):
    """Collects the values of a repeated flag; they replace those of a YAML file."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        self.given = [*getattr(self, "given", ()), *values]
        setattr(namespace, self.dest, self.given)


def parser_of(command: str, kind: type, given: str | None = None) -> Parser:
    """Parser of a command with the settings `kind`.

    `given` is the name of an earlier version, if different.
    """
    description = " ".join((kind.__doc__ or "").split())
    parser = Parser(
        prog=f"fashioniq {command}", description=description, formatter_class=HelpFormatter, print_config=None
    )
    parser.commands = (given or command, command)
    about = "YAML file with any of the options below; later flags take precedence"
    parser.add_argument("--config", action=ActionConfigFile, help=about)
    _add_options(parser, parser, kind, "")
    return parser


def parse(command: str, kind: type, arguments: Sequence[str], given: str | None = None) -> Any:
    """Settings of a command.

    Exits with code 2 on an unknown or malformed argument; notes old flags on stderr.
    """
    parser = parser_of(command, kind, given)
    try:
        flags, notice = new_flags(given or command, command, arguments)
    except UserError as error:
        parser.error(str(error))
    values = parser.parse_args(flags).as_dict()
    if notice:
        print(notice, file=sys.stderr)
    values.pop("config")
    for field in dataclasses.fields(kind):
        if isinstance(value := values.get(field.name), dict):
            values[field.name] = _kind_of(kind, field)(**value)
    return kind(**values)


def _reworded(message: str) -> str:
    """Message of jsonargparse with flags in place of keys, and without Python types."""
    if found := re.fullmatch(r"the following arguments are required: (.+)", message):
        return f"missing {', '.join(map(flag, found[1].split(', ')))}"
    wrong = r"Parser key \"(?P<key>[^\"]+)\": Expected a (?P<kind>.+?)\. Got value: (?P<value>.*)"
    if found := re.fullmatch(wrong, message):
        choices = re.sub(r"[\w.]*Literal\[(.+)\]", lambda match: f"one of {match[1]}", found["kind"])
        kind = re.sub(r"<class '(\w+)'>", r"\1", choices)
        return f"{flag(found['key'])}: expected {kind}, found {found['value']}"
    return message


def _add_options(parser: Parser, target: Any, kind: type, prefix: str) -> None:
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name, own, about = prefix + field.name, types[field.name], {"help": field.metadata["help"]}
        flags = [flag(name), *([alias] if (alias := field.metadata.get("alias")) else [])]
        if dataclasses.is_dataclass(own):
            group = parser.add_argument_group(field.metadata["help"])
            _add_options(parser, group, _kind_of(kind, field), name + ".")
        elif own is bool:
            target.add_argument(*flags, action=ActionYesNo(no_prefix="no-"), default=field.default, **about)
        elif field.default is UNSET and field.default_factory is UNSET:
            target.add_argument(*flags, type=own, required=True, **about)
        elif positional := field.metadata.get("positional"):
            # A default, or an empty list, would override the value of --config.
            target.add_argument(name, type=str, nargs="*", metavar=positional, default=SUPPRESS, **about)
        elif own == list[str]:
            target.add_argument(*flags, type=str, nargs="*", action=Several, default=[], **about)
        else:
            target.add_argument(*flags, type=own, default=field.default, **about)


def _kind_of(kind: type, field: Any) -> Any:
    return typing.get_type_hints(kind)[field.name]

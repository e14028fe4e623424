"""Parsers of the commands: each field of a settings dataclass is a flag and a key of YAML files."""

import dataclasses
import re
import types
import typing
from argparse import SUPPRESS, Action
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonargparse import ActionConfigFile, ActionYesNo, ArgumentParser, DefaultHelpFormatter

from fashioniq.files import one_line, read_yaml, why
from fashioniq.options import flag, metadata_of

UNSET = dataclasses.MISSING
_SWITCHES = (bool, bool | None)
_BOOLEANS = {"true", "false", "yes", "no", "none"}


class HelpFormatter(DefaultHelpFormatter):
    """Help of an option with its default, unless that is empty or part of the text; without Python types."""

    def _get_help_string(self, action: Action) -> str:
        text = action.help or ""
        if action.required:
            return f"{text} (required)"
        if isinstance(action, ActionYesNo) and action.default is False and "(default" not in text:
            return f"{text} (default: off)"
        shown = (
            action.default not in (None, SUPPRESS, [])
            and action.default is not False
            and "(default" not in text
        )
        return f"{text} (default: %(default)s)" if shown and action.option_strings else text


class Parser(ArgumentParser):
    """Parser that reports a mistake in one line with exit code 2."""

    kinds: Mapping[str, Any] = {}  # type of each option, such as {"model.width": int}
    flags: frozenset[str] = frozenset({"--config", "--help"})
    source = ""  # YAML file that is being parsed, if any
    several: dict[str, list[Any]]  # values of repeated flags that have been parsed

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        text = self._reworded(one_line(message))
        self.exit(
            2, f"error: {text}{'' if text.endswith('?') else ';'} `{self.prog} --help` lists the options\n"
        )
        raise SystemExit(2)

    def check_flags(self, arguments: Sequence[str]) -> None:
        """Report an unknown option together with the most similar one. Abbreviations are unknown."""
        for word in arguments:
            name = word.partition("=")[0]
            if word.startswith("--") and name not in self.flags:
                self.error(f"unknown option {name}{did_you_mean(name, self.flags)}")

    def parse_path(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Parse a YAML file of options."""
        self.source = str(path)
        values = self._read(self.source)
        self._check_keys(values)
        values = {  # a single value of an option that takes several
            name: [value] if self.kinds.get(name) == list[str] and isinstance(value, str) else value
            for name, value in values.items()
        }
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
        parsed = self.parse_string(text, self.source, *args, **kwargs)
        self.source = ""
        return parsed

    def _read(self, path: str) -> dict[str, Any]:
        try:
            values = read_yaml(Path(path))
        except OSError as error:
            self.error(f"cannot read the file: {why(error)}")
        except ValueError as error:
            self.error(str(error))
        if not isinstance(values, dict | None):
            self.error(f"expected options as `key: value`, found a {type(values).__name__}")
        if odd := [key for key in values or {} if not isinstance(key, str)]:
            self.error(f"expected names of options as keys, found {odd[0]}")
        return values or {}

    def _check_keys(self, values: Mapping[str, Any], prefix: str = "") -> None:
        """Report an unknown key of a YAML file together with the most similar one."""
        names = [name.removeprefix(prefix) for name in self.kinds if name.startswith(prefix)]
        sections = {name.partition(".")[0] for name in names if "." in name}
        known = {name for name in names if "." not in name} | sections
        for key, value in values.items():
            name = f"{prefix}{key}"
            if key not in known and name != "config":
                self.error(f"unknown key {name}{did_you_mean(str(key), known, prefix)}")
            if self.kinds.get(name) in _SWITCHES and str(value).lower() not in _BOOLEANS:
                self.error(f"{name}: expected true or false, found {value}")
            if self.kinds.get(name) == list[str] and not _are_texts(value):
                self.error(f"{name}: expected a list of texts, found {value}")
            if key in sections:
                if not isinstance(value, Mapping):
                    self.error(f"{name}: expected options as `key: value`, found {value}")
                self._check_keys(value, f"{name}.")

    def refuse_null(self, values: Mapping[str, Any], prefix: str = "") -> None:
        """Report an option that is null in a YAML file and has to have a value."""
        for key, value in values.items():
            name, kind = f"{prefix}{key}", self.kinds.get(f"{prefix}{key}")
            if isinstance(value, dict):
                self.refuse_null(value, f"{name}.")
            elif value is None and kind is not None and type(None) not in typing.get_args(kind):
                self.error(f"{flag(name)}: expected {_described(kind)}, found null")

    def _reworded(self, message: str) -> str:
        """Message of jsonargparse with flags, or keys of a file, and without Python types."""
        where = f"{self.source}: " if self.source else ""
        if found := re.fullmatch(r"the following arguments are required: (.+)", message):
            return f"missing {', '.join(map(flag, found[1].split(', ')))}"
        if found := re.fullmatch(r"Value not boolean: (.+)\.", message):
            return f"expected true or false for an option that is a switch, found {found[1]}"
        if found := re.fullmatch(r"unrecognized arguments: (.+)", message):
            return f"unexpected argument {found[1]}"
        if found := re.fullmatch(r"argument ([^ ]+): expected (.+) arguments?", message):
            return f"{found[1].split('/')[-1]}: expected {found[2].replace('one', 'a')} value, found none"
        if found := re.fullmatch(r"Parser key \"config\": (.+): '(.+)'", message):
            reason = "there is no such file" if "not exist" in found[1] else "it is not a readable file"
            return f"cannot read --config {found[2]}: {reason}"
        wrong = r"Parser key \"(?P<key>[^\"]+)\": .*(?:Got|Given) value: ?(?P<value>.*)"
        if (found := re.fullmatch(wrong, message)) and found["key"] in self.kinds:
            name = found["key"] if self.source else flag(found["key"])
            return f"{where}{name}: expected {_described(self.kinds[found['key']])}, found {found['value']}"
        if (found := re.fullmatch(r"Parser key \"([^\"]+)\": .*", message)) and found[1] in self.kinds:
            name = found[1] if self.source else flag(found[1])
            return f"{where}{name}: expected {_described(self.kinds[found[1]])}, found something else"
        return where + message


def _are_texts(value: Any) -> bool:
    """Whether a value of a YAML file is a text, or a list of texts and numbers, which are read as texts."""
    several = value if isinstance(value, list) else [value]
    texts = str if several is not value else str | int | float
    return value is None or all(isinstance(one, texts) for one in several)


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Hint with the known name that has these initials, or is the most similar; empty if there is none."""
    given = name.replace("_", "-").lower()
    shown = {one.replace("_", "-").lower(): one for one in sorted(known)}
    near = [one for one in shown if "".join(word[:1] for word in one.split("-")) == given.lstrip("-")]
    near = near or get_close_matches(given, shown, n=1)
    return f"; did you mean {prefix}{shown[near[0]]}?" if near else ""


def _described(kind: Any) -> str:
    """Type of an option in words: float | None becomes "a number", a Literal "one of A, B"."""
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(_described(one) for one in typing.get_args(kind) if one is not type(None))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    return words.get(kind, "a list of texts" if kind == list[str] else getattr(kind, "__name__", str(kind)))


class Several(Action):
    """Collects the values of a repeated flag; they replace those of a YAML file."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.several[self.dest] = [*parser.several.get(self.dest, ()), *values]
        setattr(namespace, self.dest, parser.several[self.dest])


@lru_cache(maxsize=64)
def parser_of(command: str, kind: type) -> Parser:
    """Parser of a command with the settings `kind`."""
    description = " ".join((kind.__doc__ or "").split())
    parser = Parser(
        prog=f"fashioniq {command}", description=description, formatter_class=HelpFormatter, print_config=None
    )
    parser.several = {}
    about = "YAML file with any of the options below; later flags take precedence"
    parser.add_argument("--config", action=ActionConfigFile, help=about)
    _add_options(parser, parser, kind, "")
    parser.kinds = dict(_kinds(kind))
    return parser


def parse(command: str, kind: type, arguments: Sequence[str]) -> Any:
    """Settings of a command. Exits with code 2 on an unknown or malformed argument."""
    parser = parser_of(command, kind)
    parser.source, parser.several = "", {}
    parser.check_flags(arguments)
    try:
        values = parser.parse_args(list(arguments)).as_dict()
    except (OverflowError, ValueError, RecursionError) as error:  # such as an integer too large for a float
        parser.error(why(error))
    values.pop("config")
    parser.refuse_null(values)
    for field in dataclasses.fields(kind):
        if isinstance(value := values.get(field.name), dict):
            values[field.name] = _kind_of(kind, field)(**value)
    return kind(**values)


def last_of(name: str, arguments: Sequence[str]) -> str:
    """The last value of an option in arguments and their YAML files, before they are parsed; "" if there is none."""
    found, before = "", ""
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals:
            key, value = before, word
        if key == flag(name):
            found = value
        elif key == "--config":
            found = str(_keys(Path(value)).get(name) or found)
        before = word
    return found


def _keys(path: Path) -> dict[str, Any]:
    try:
        values = read_yaml(path)
    except (OSError, ValueError):
        return {}  # the parser reports the error
    return values if isinstance(values, dict) else {}


def _add_options(parser: Parser, target: Any, kind: type, prefix: str) -> None:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        known = metadata_of(kind, field.name)
        name, own, given = prefix + field.name, hints[field.name], {"help": known["help"]}
        flags = [flag(name), *([alias] if (alias := known.get("alias")) else [])]
        if dataclasses.is_dataclass(own):
            group = parser.add_argument_group(known["help"])
            _add_options(parser, group, _kind_of(kind, field), name + ".")
        elif own in _SWITCHES:
            target.add_argument(*flags, action=ActionYesNo(no_prefix="no-"), default=field.default, **given)
            flags.append(f"--no-{flags[0][2:]}")
        elif field.default is UNSET and field.default_factory is UNSET:
            target.add_argument(*flags, type=own, required=True, **given)
        elif positional := known.get("positional"):
            # A default, or an empty list, would override the value of --config.
            target.add_argument(name, type=str, nargs="*", metavar=positional, default=SUPPRESS, **given)
        elif own == list[str]:
            target.add_argument(*flags, type=str, nargs="*", action=Several, default=[], **given)
        else:
            target.add_argument(*flags, type=own, default=field.default, **given)
        parser.flags |= set(flags)


def _kind_of(kind: type, field: Any) -> Any:
    return typing.get_type_hints(kind)[field.name]


def _kinds(kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name and type of each option."""
    for name, own in typing.get_type_hints(kind).items():
        if name in {field.name for field in dataclasses.fields(kind)}:
            yield from (
                _kinds(own, f"{prefix}{name}.")
                if isinstance(own, type) and dataclasses.is_dataclass(own)
                else [(prefix + name, own)]
            )

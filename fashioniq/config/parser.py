"""Settings of a command from its command line, from YAML files, or from Python: each field is a flag and a key."""

import argparse
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from fashioniq import plugins
from fashioniq.config.values import described_type, did_you_mean, placeholder, plain_type, value_of
from fashioniq.files import UserError, one_line, why
from fashioniq.options import flag, metadata_of, option, section as option_section
from fashioniq.yaml_files import read_yaml

S = TypeVar("S")
_RESEARCH = "research options"


class _Help(argparse.HelpFormatter):
    """Help without the placeholders of switches and choices."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if action.nargs == "?":
            return f"{action.option_strings[0]}, --no-{action.option_strings[0][2:]}"
        return super()._format_action_invocation(action)


class _Once(argparse.Action):
    """Store the value of an option that takes one: the second one would replace it without a word."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if hasattr(namespace, self.dest):
            raise ValueError(f"{option_string} takes one value, and was given twice")
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message.removeprefix("argument "))


def parser_of(command: str, kind: type) -> argparse.ArgumentParser:
    """Parser of the flags of a command: it returns the words after those that are given."""
    options = sorted(_options(kind).values(), key=lambda one: (bool(one[2]["section"]), one[2]["research"]))
    parser = _Parser(
        prog=f"fashioniq {command}",
        usage="%(prog)s [options]"
        + "".join(f" {one['positional']} …" for *_, one in options if one["positional"]),
        description=" ".join((kind.__doc__ or "").split()),
        formatter_class=_Help,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    groups: dict[str, Any] = {"": parser}
    parser.add_argument(
        "--config",
        action="append",
        metavar="PATH",
        help="YAML file of options; flags take precedence over it",
    )
    for own, field, known in options:
        name = known["name"]
        title = known["section"] or (_RESEARCH if known["research"] else "")
        group = groups.get(title) or groups.setdefault(title, parser.add_argument_group(title))
        given = {"dest": name, "help": _help(field, known).replace("%", "%%")}
        flags = [flag(name), *([known["alias"]] if known["alias"] else [])]
        if known["positional"]:
            group.add_argument(name, nargs="*", metavar=known["positional"], help=given["help"])
        elif plain_type(own) is bool:
            group.add_argument(*flags, nargs="?", const=True, **given)
            group.add_argument(f"--no-{flags[0][2:]}", action="store_const", const=False, dest=name,
                               help=argparse.SUPPRESS)  # fmt: skip
        elif typing.get_origin(own) is list:
            group.add_argument(*flags, nargs="*", action="extend", metavar="VALUE", **given)
        else:
            group.add_argument(*flags, action=_Once, metavar=placeholder(own), **given)
    return parser


def parse(command: str, kind: type, arguments: Sequence[str]) -> Any:
    """Settings of a command from its arguments and the YAML files that these name.

    Raises UserError for an unknown or malformed option, and SystemExit after --help.
    """
    try:
        return _parsed(command, kind, arguments)
    except (ValueError, OverflowError, RecursionError) as error:
        text = one_line(why(error) if isinstance(error, RecursionError) else str(error))
        end = "" if text.endswith("?") else ";"
        raise UserError(f"{text}{end} `fashioniq {command} --help` lists the options") from error


def _parsed(command: str, kind: type, arguments: Sequence[str]) -> Any:
    kind = with_parts(kind, lambda name: given_values(name, arguments))
    parser = parser_of(command, kind)
    flags = {word for action in parser._actions for word in action.option_strings}
    for word in arguments:
        if word.startswith("--") and (name := word.partition("=")[0]) not in flags:
            raise ValueError(f"unknown option {name}{did_you_mean(name, flags)}")
    namespace, further = parser.parse_known_args(arguments)
    if further:
        raise ValueError(f"unexpected argument {' '.join(further)}")
    given = {name: value for name, value in vars(namespace).items() if name != "config"}
    values: dict[str, Any] = {}
    for path in getattr(namespace, "config", []):
        try:
            values |= _converted(kind, flattened(_read(path)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    values |= _converted(kind, given, flag)
    needed = [name for name, (_, field, _) in _options(kind).items() if _is_required(field)]
    if missing := [flag(name) for name in needed if name not in values]:
        raise ValueError(f"missing {', '.join(missing)}")
    return _made(kind, values)


def settings_of(kind: type[S], given: Mapping[str, Any]) -> S:
    """Settings with values from Python: paths may be texts, and a section a mapping or a dataclass.

    Raises UserError for a value of another type, and TypeError for an unknown or missing option.
    """
    values = flattened(given)
    kind = with_parts(kind, lambda name: _several(values.get(name)))
    if unknown := values.keys() - _options(kind).keys():
        raise TypeError(f"unknown option {min(unknown)}{did_you_mean(min(unknown), _options(kind))}")
    try:
        return typing.cast(S, _made(kind, _converted(kind, values)))
    except ValueError as error:
        raise UserError(str(error)) from error


def read_settings(path: Path, kind: type[S]) -> S:
    """Settings in a YAML file, such as config.yaml of a run. Raises UserError if it is damaged."""
    try:
        return settings_of(kind, _read(str(path)))
    except (TypeError, ValueError, UserError) as error:
        raise UserError(f"{path}: {error}") from error


def given_values(name: str, arguments: Sequence[str]) -> list[str]:
    """Values of an option in arguments or else in their YAML files, before the arguments are parsed."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument(flag(name), nargs="*", action="extend", default=[], dest="given")
    parser.add_argument("--config", action="append", nargs="?", default=[])
    known, _ = parser.parse_known_args(arguments)
    found: list[str] = known.given
    for path in reversed(known.config) if not found else ():
        with suppress(ValueError):  # the parser reports it
            found = found or _several(flattened(_read(path or "")).get(name))
    return found


def with_parts(kind: type, given: Callable[[str], list[str]]) -> type:
    """The dataclass of options with those of the parts that are named: --system replaces all options, the kind of a
    model those of its section, and `--user mine` adds those of a user as --user-options.

    Raises UserError for a part that is not found.
    """
    for value in given("system") if "system" in _options(kind) else ():
        kind = plugins.options_of("systems", value) or kind
    for name, (*_, known) in _options(kind).items():
        part = known["part"]
        for value in given(name) if part not in (None, "systems") else ():
            # the sections of models have the options of the built-in ones
            adds_options = plugins.is_from_outside if "." in name else plugins.is_part
            if adds_options(part, value) and (own := plugins.options_of(part, value)) is not None:
                section, dot, of_section = name.partition(".")
                if dot:  # the name of the part is one of its options
                    own = _with_field(own, of_section, str, option(value, known["help"], part=part))
                added = option_section(own, f"options of {value}")
                kind = _with_field(kind, section if dot else f"{name}_options", own, added)
                break
    return kind


def _with_field(kind: type, name: str, own: Any, default: Any) -> type:
    """A dataclass with one more field, or with another type of a field."""
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return make_dataclass(
        kind.__name__,
        [(name, own, default)],
        bases=(kind,),
        kw_only=True,
        frozen=frozen,
        namespace={"__doc__": kind.__doc__, "__module__": kind.__module__},
    )


def _several(value: Any) -> list[str]:
    given = value if isinstance(value, list | tuple) else [value]
    return [str(one) for one in given if one is not None]


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values of options by full names: those of sections, which are mappings or dataclasses, as model.width."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        section = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        nested = isinstance(section, Mapping)
        flat |= flattened(section, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat


def _options(
    kind: type, section: str = "", prefix: str = ""
) -> dict[str, tuple[Any, Field[Any], dict[str, Any]]]:
    """Type, field, and metadata of each option, by full name."""
    found: dict[str, tuple[Any, Field[Any], dict[str, Any]]] = {}
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        own, known = hints[field.name], metadata_of(kind, field.name)
        if is_dataclass(own):
            found |= _options(typing.cast(type, own), known["help"], f"{field.name}.")
        else:
            more = {"name": prefix + field.name, "section": section}
            found[prefix + field.name] = own, field, {**known, **more}
    return found


def _made(kind: type, values: Mapping[str, Any]) -> Any:
    own = {name: value for name, value in values.items() if "." not in name}
    for section in {name.partition(".")[0] for name in values.keys() - own.keys()}:
        start = f"{section}."
        inside = {name.removeprefix(start): one for name, one in values.items() if name.startswith(start)}
        own[section] = _made(typing.get_type_hints(kind)[section], inside)
    return kind(**own)


def _converted(kind: type, values: Mapping[str, Any], shown: Callable[[str], str] = str) -> dict[str, Any]:
    """Values with the types of their options. Raises ValueError that begins with the name as it is `shown`."""
    options, made = _options(kind), {}
    for name, value in values.items():
        if name not in options:
            _refuse(name, value, options)
        own = options[name][0]
        try:
            made[name] = value_of(own, value)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            found = "null" if value is None else value
            raise ValueError(f"{shown(name)}: expected {described_type(own)}, found {found}") from error
    return made


def _refuse(name: str, value: Any, options: Mapping[str, Any]) -> NoReturn:
    """Raise ValueError for a key that is no option, or for a section that has a single value."""
    if any(one.startswith(f"{name}.") for one in options):
        raise ValueError(f"{name}: expected options as `key: value`, found {value}")
    option, _, rest = name.partition(".")
    if option in options:
        raise ValueError(f"{option}: expected {described_type(options[option][0])}, found {rest}: {value}")
    raise ValueError(f"unknown key {name}{did_you_mean(name, options)}")


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _help(field: Field[Any], known: Mapping[str, Any]) -> str:
    """Help text with the default, unless that is empty or part of the text."""
    text: str = known["help"]
    if _is_required(field):
        return f"{text} (required)"
    if "(default" in text or field.default in (None, MISSING) or known["positional"]:
        return text
    return f"{text} (default: {'off' if field.default is False else 'on' if field.default is True else field.default})"


def _read(path: str) -> dict[str, Any]:
    """Content of a YAML file of options. Raises ValueError if it cannot be read."""
    try:
        values = read_yaml(Path(path))
    except FileNotFoundError as error:
        raise ValueError("there is no such file") from error
    except OSError as error:
        raise ValueError(f"cannot read the file: {error.strerror or why(error)}") from error
    if not isinstance(values, dict | None):
        raise ValueError(f"expected options as `key: value`, found a {type(values).__name__}")
    if odd := [key for key in values or {} if not isinstance(key, str)]:
        raise ValueError(f"expected names of options as keys, found {odd[0]}")
    return values or {}

"""`fashioniq COMMAND …`. The scripts of the top level are the same commands."""

import dataclasses
import importlib
import logging
import os
import sys
import typing
import warnings
from argparse import SUPPRESS, Action
from collections.abc import Sequence
from typing import Any, NoReturn

from jsonargparse import ActionConfigFile, ActionYesNo, ArgumentParser

from fashioniq import __version__, config
from fashioniq.files import UserError
from fashioniq.provenance import running

COMMANDS: dict[str, type] = {
    "draw-sample": config.DrawSample,
    "import-catalog": config.ImportCatalog,
    "download-images": config.DownloadImages,
    "check-data": config.CheckData,
    "extract-attributes": config.ExtractAttributes,
    "pair-references": config.PairReferences,
    "train-attributes": config.TrainAttributes,
    "extract-features": config.ExtractFeatures,
    "train-captioner": config.TrainCaptioner,
    "train-retriever": config.TrainRetriever,
    "eval-dialogs": config.EvalDialogs,
    "eval-captions": config.EvalCaptions,
    "eval-single-turn": config.EvalSingleTurn,
    "eval-chatir": config.EvalChatIR,
    "make-dialogues": config.MakeDialogues,
    "chat": config.Chat,
    "fetch-spice": config.FetchSpice,
    "compare": config.Compare,
    "results": config.Results,
    "train-dialog-encoder": config.TrainDialogEncoder,
}


class Parser(ArgumentParser):
    """Tells a mistake in one line and exits with code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        self.exit(2, f"error: {' '.join(message.split())}; {self.prog} --help explains the options\n")
        raise SystemExit(2)


class Several(Action):
    """All values of a flag that may be given several times; they replace those that a config file gave."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        self.given = [*getattr(self, "given", ()), *values]
        setattr(namespace, self.dest, self.given)


def parser_of(command: str) -> ArgumentParser:
    """The parser of one command: every field of its dataclass a flag, and --config for a YAML file of fields."""
    kind = COMMANDS[command]
    parser = Parser(prog=f"fashioniq {command}", description=kind.__doc__)
    parser.add_argument("--config", action=ActionConfigFile, help="YAML file of any of the options below; flags after it go before it")
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        flags, options = ["--" + field.name.replace("_", "-")], {"help": field.metadata["help"]}
        flags += [alias] if (alias := field.metadata.get("alias")) else []
        if types[field.name] is bool:
            parser.add_argument(*flags, action=ActionYesNo(no_prefix="no-"), default=field.default, **options)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            parser.add_argument(*flags, type=types[field.name], required=True, **options)
        elif positional := field.metadata.get("positional"):
            # Without a default, or none given would go before those of --config.
            parser.add_argument(field.name, type=str, nargs="*", metavar=positional, default=SUPPRESS, **options)
        elif types[field.name] == list[str]:
            parser.add_argument(*flags, type=str, nargs="*", action=Several, default=[], **options)
        else:
            parser.add_argument(*flags, type=types[field.name], default=field.default, **options)
    return parser


def parse(command: str, arguments: Sequence[str]) -> Any:
    """The command's dataclass, filled; the parser exits with code 2 at an unknown or malformed argument."""
    namespace = parser_of(command).parse_args(list(arguments))
    values = {key: value for key, value in namespace.as_dict().items() if key != "config"}
    return COMMANDS[command](**values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code: 0, what the command says (check-data's 1), or 2 after an error that the user can mend, in one line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(__version__)
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"error: there is no command {command!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    settings = parse(command, rest)
    _quiet()
    try:
        config.check(settings)
        with running(["fashioniq", *arguments]):
            code = importlib.import_module(f"fashioniq.commands.{command.replace('-', '_')}").run(settings)
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read what is printed, as `| head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
        return 141
    return code or 0


def _overview() -> str:
    lines = [f"  {command:18} {(kind.__doc__ or '').split(':')[0].split(';')[0].rstrip('.')}" for command, kind in COMMANDS.items()]
    return "\n".join(["usage: fashioniq COMMAND [options]; fashioniq COMMAND --help explains them", "", *lines])


def _quiet() -> None:
    """Keep Lightning's advertisements and advice out of what a person reads."""
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for module in ("pytorch_lightning", "lightning_fabric"):
        warnings.filterwarnings("ignore", module=module)


if __name__ == "__main__":
    raise SystemExit(main())

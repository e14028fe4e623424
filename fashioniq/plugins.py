"""Parts by kind and name: built-in ones, `package.module:attribute`, and entry points of installed packages.

A package offers a part by an entry point of the group `fashioniq.KIND`, such as `fashioniq.users`. An option that
takes the name of a part finds all of them; what a part of a kind has to be is in CONTRIBUTING.md.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from fashioniq.files import UserError, one_line, why


class BuiltIn(NamedTuple):
    """Place of a part of this package, and of its options, which are read before torch is imported."""

    place: str
    options: str = ""


_CONFIG, _SIZES = "fashioniq.config.{}".format, "fashioniq.models.configs:{}".format
BUILT_IN: Mapping[str, Mapping[str, BuiltIn]] = {
    "systems": {
        "fashion-iq": BuiltIn("fashioniq.systems.fashion_iq", _CONFIG("evaluation:EvalDialogs")),
        "chatir": BuiltIn("fashioniq.systems.chatir", _CONFIG("evaluation:EvalChatIR")),
        "plugir-asks": BuiltIn("fashioniq.systems.plugir_asks", _CONFIG("generation:EvalPlugIR")),
        "genir": BuiltIn("fashioniq.systems.genir", _CONFIG("generation:EvalGenIR")),
        "dar": BuiltIn("fashioniq.systems.dar", _CONFIG("generation:EvalDAR")),
        "fashion-iq-dar": BuiltIn("fashioniq.systems.fashion_iq_dar", _CONFIG("generation:EvalFashionIQDAR")),
    },
    "captioners": {
        "transformer": BuiltIn("fashioniq.models.captioner:Captioner", _SIZES("CaptionerConfig")),
        "rnn": BuiltIn("fashioniq.models.rnn:RNNCaptioner", _SIZES("CaptionerConfig")),
    },
    "retrievers": {
        "linear": BuiltIn("fashioniq.models.linear:LinearRetriever", _SIZES("RetrieverConfig")),
        "transformer": BuiltIn("fashioniq.models.retriever:DialogRetriever", _SIZES("RetrieverConfig")),
        "rnn": BuiltIn("fashioniq.models.rnn:RNNRetriever", _SIZES("RetrieverConfig")),
        "residual": BuiltIn("fashioniq.models.residual:ResidualRetriever", _SIZES("RetrieverConfig")),
        "composer": BuiltIn("fashioniq.models.composer:Composer", _SIZES("ComposerConfig")),
    },
    "runs": {  # systems that are loaded from runs, by the kind in model.json
        "retriever": BuiltIn("fashioniq.systems.fashion_iq"),
        "dialog encoder": BuiltIn("fashioniq.systems.chatir"),
        "chatsearcher": BuiltIn("fashioniq.systems.chatsearcher"),
        "zero-shot search": BuiltIn("fashioniq.systems.zero_shot"),
    },
    "users": {
        "differences": BuiltIn("fashioniq.users.differences:differences"),
        "grammar": BuiltIn("fashioniq.users.grammar:grammar"),
        "endpoint": BuiltIn("fashioniq.users.language_model:at_endpoint"),
        "local": BuiltIn("fashioniq.users.language_model:local"),
    },
    "askers": {
        "recorded": BuiltIn("fashioniq.askers.by_name:of_recorded"),
        "few-shot": BuiltIn("fashioniq.askers.by_name:by_language_model"),
        "unanswered": BuiltIn("fashioniq.askers.by_name:by_language_model"),
        "in-order": BuiltIn("fashioniq.askers.by_name:about_attributes"),
        "shuffled": BuiltIn("fashioniq.askers.by_name:about_attributes"),
        "candidate-aware": BuiltIn("fashioniq.askers.by_name:about_attributes"),
        "page": BuiltIn("fashioniq.askers.by_name:by_person"),
    },
    "encoders": {
        "endpoint": BuiltIn("fashioniq.encoders.endpoint:embeddings"),
        "metadata": BuiltIn("fashioniq.encoders.metadata:of_catalog"),
    },
    "generators": {
        "diffusers": BuiltIn(
            "fashioniq.generators.diffusers_pipeline:of_pipeline", _CONFIG("generation:PipelineOptions")
        ),
        "endpoint": BuiltIn("fashioniq.generators.endpoint:of_model"),
        "folder": BuiltIn("fashioniq.generators.folder:of_path"),
        "drawn": BuiltIn("fashioniq.generators.drawn:of_share"),
        "photographs": BuiltIn("fashioniq.generators.described_products:photographs"),
    },
    "protocols": {
        "Fashion IQ dialogs": BuiltIn("fashioniq.evaluation.turns:PROTOCOL"),
        "recorded sessions": BuiltIn("fashioniq.evaluation.sessions:PROTOCOL"),
        "ChatIR": BuiltIn("fashioniq.evaluation.rounds:PROTOCOL"),
    },
}
_OF_MODELS = ("endpoint", "local")  # endpoint:NAME is a model at OPENAI_BASE_URL, local:NAME one of the hub
ASKED_FOR = "FASHIONIQ_PARTS"  # modules, separated by commas, whose parts runs may name
_NEEDED = {
    "systems": ("Options", "build"),
    "retrievers": ("Options", "start", "step", "embed_images"),
    "runs": ("load",),
    "measures": ("name", "function", "label", "decimals", "direction", "source", "by_turn"),
}
_NEEDED_WHEN_MADE = {  # of what is made of PartInputs
    "users": ("reply",),
    "askers": ("offer",),
    "encoders": ("identity", "size"),
    "generators": ("identity", "generate"),
}


def names(kind: str) -> list[str]:
    """Names of the built-in parts of a kind, then those of installed packages."""
    return list(dict.fromkeys([*BUILT_IN.get(kind, ()), *_installed(kind)]))


def is_from_outside(kind: str, name: str) -> bool:
    """Whether a name is that of a part of another package, rather than of a file, a folder or a model.

    A system can be a module alone, which then has to be there: no other kind of run has its name.
    """
    module, _, attribute = name.partition(":")
    if module in BUILT_IN.get(kind, ()) or module in _OF_MODELS:
        return False
    if kind == "systems" and not attribute:
        there = _is_module(module)
    else:
        there = _can_be_module(module) and attribute.isidentifier()
    return there or module in _installed(kind)


def is_part(kind: str, name: str) -> bool:
    """Whether a name is that of a part, with an argument or without one."""
    return name.partition(":")[0] in BUILT_IN.get(kind, ()) or is_from_outside(kind, name)


def module_hint(name: str) -> str:
    """What to add to an error where a name is that of a module, and a part in it would have to be named."""
    return f"; a part of your own is {name}:NAME" if _is_module(name) else ""


def _can_be_module(name: str) -> bool:
    return all(map(str.isidentifier, name.split(".")))


def _is_module(name: str) -> bool:
    return _can_be_module(name) and importlib.util.find_spec(name.partition(".")[0]) is not None


def split(kind: str, name: str) -> tuple[str, str]:
    """Name of a part, and its argument, as in `name:argument`; empty without one."""
    part, _, argument = name.partition(":")
    return (part, argument) if part in names(kind) else (name, "")


def file_name(name: str) -> str:
    """Name of a part in the names of files and folders."""
    return re.sub(r"[^\w-]+", "-", name)


def find(kind: str, name: str) -> Any:
    """The part of a kind with a name. Raises UserError if there is none, or if it cannot be imported or used."""
    if (own := BUILT_IN.get(kind, {}).get(name)) is not None:
        return _at(own.place)
    entry = _installed(kind).get(name)
    try:
        part = entry.load() if entry is not None else _at(name)
    except Exception as error:  # a module can raise anything
        module = name.partition(":")[0]
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        raise _unknown(kind, name, "" if entry is None and missing else why(error)) from error
    if lacking := [one for one in _NEEDED.get(kind, ()) if not hasattr(part, one)]:
        raise _unknown(kind, name, f"it has no {' and no '.join(lacking)}")
    return part


def check_made(kind: str, name: str, made: object) -> None:
    """Raise UserError if a part of another package lacks what parts of its kind have."""
    needed = _NEEDED_WHEN_MADE.get(kind, ()) if is_from_outside(kind, name) else ()
    if lacking := [one for one in needed if not hasattr(made, one)]:
        raise _unknown(kind, name, f"it has no {' and no '.join(lacking)}")


def recorded(kind: str, name: str, run: object) -> Any:
    """The part of a kind that a run names. Raises UserError if there is none, or if loading it would import a module
    that nobody asked for: neither a package with an entry point, nor a module that was imported before, nor one of the
    environment variable FASHIONIQ_PARTS.
    """
    module = name.partition(":")[0]
    if not is_part(kind, name):
        raise UserError(
            f"{run} holds an unknown kind of {kind[:-1]}: expected {', '.join(names(kind))}, found {name!r}"
        )
    if name in names(kind) or module in sys.modules or module in os.environ.get(ASKED_FOR, "").split(","):
        return find(kind, name)
    raise UserError(
        f"{run} needs the {kind[:-1]} {one_line(name)}, and loading it runs the code of {one_line(module)}; if you "
        f"trust it, import that module first, or set {ASKED_FOR}={one_line(module)}"
    )


def options_of(kind: str, name: str) -> type | None:
    """The dataclass of the options of a part, None without one; of a built-in part it is found without the part."""
    own = BUILT_IN.get(kind, {}).get(split(kind, name)[0])
    if own is not None:
        return _at(own.options) if own.options else None  # type: ignore[no-any-return]
    found: type | None = getattr(find(kind, split(kind, name)[0]), "Options", None)
    if found is not None and not is_dataclass(found):
        raise _unknown(kind, name, "its Options are no dataclass")
    return found


def _at(place: str) -> Any:
    """What `package.module:attribute` or `package.module` names."""
    module, _, attribute = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def _unknown(kind: str, name: str, reason: str) -> UserError:
    known = "".join(f"{one}, " for one in names(kind)) + "or " * bool(names(kind))
    return UserError(
        f"there is no {kind[:-1]} {one_line(name)}{f' ({one_line(reason)})' if reason else ''}; available: {known}"
        "package.module:attribute of your own, such as my_file:MyPart with PYTHONPATH=FOLDER"
    )


@cache
def _installed(kind: str) -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=f"fashioniq.{kind}")}

"""Names of options and commands in version 0.1, translated for one release; remove this file afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, read_yaml
from fashioniq.options import flag


@dataclass(frozen=True)
class Old:
    """Old options of a command.

    `names` and `values` map old to new ones. `removed` options are accepted only with these values. `unused`
    options are accepted with any value and ignored. A YAML file with an old name in `implied` also has those
    values, unless it gives others.
    """

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str | list[str]]] = field(default_factory=dict)
    removed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    implied: dict[str, dict[str, Any]] = field(default_factory=dict)


def _model(*names: str) -> dict[str, str]:
    return {name: f"model.{name}" for name in names}


_TRAINING_NAMES = {"accelerator": "device"}
_TRAINING_VALUES: dict[str, dict[str, str | list[str]]] = {"accelerator": {"gpu": "cuda"}}
_DIALOGS: dict[str, str | list[str]] = {
    "simulated": ["captioner"],
    "recorded": ["recorded"],
    "both": ["captioner", "recorded"],
}
_TRAINING_REMOVED = {"strategy": ("auto", "ddp"), "seeds": (1,)}
_RETRIEVER_NAMES = _TRAINING_NAMES | {"start": "init_from", "image_hidden": "model.image_mlp_width"}

OLD: dict[tuple[str, str], Old] = {  # command given, command run
    ("train-attributes", "train-attributes"): Old(
        _TRAINING_NAMES | {"start": "init_from", "at_least": "min_count"},
        _TRAINING_VALUES,
        _TRAINING_REMOVED | {"imbalance": ("none",)},
    ),
    ("train-captioner", "train-captioner"): Old(
        _TRAINING_NAMES
        | _model("width", "heads", "hidden", "layers", "dropout", "max_words")
        | {"model": "model.kind", "at_least": "min_count"},
        _TRAINING_VALUES,
        _TRAINING_REMOVED,
    ),
    ("train-retriever", "train-retriever"): Old(
        _RETRIEVER_NAMES
        | _model("width", "heads", "hidden", "layers", "attention")
        | {"model": "model.kind", "errors": "word_noise", "dialogs": "users"},
        _TRAINING_VALUES | {"dialogs": _DIALOGS},
        _TRAINING_REMOVED | {"composition": ("A",)},
        implied={"dialogs": {"samples": 1, "similar_first": 0.0}},  # later options
    ),
    ("train-retriever", "train-composer"): Old(
        _RETRIEVER_NAMES | _model("width", "composition"),
        _TRAINING_VALUES,
        _TRAINING_REMOVED
        | {"model": ("composer",), "dialogs": ("recorded",), "errors": (0.0, "0"), "exclude_shown": (False,)},
        frozenset({"captioner", "turns", "beam", "heads", "hidden", "layers", "attention"}),
    ),
    ("train-dialog-encoder", "train-dialog-encoder"): Old(
        _TRAINING_NAMES
        | _model("width", "heads", "hidden", "layers", "dropout")
        | {
            "limit": "model.max_tokens",
            "at_least": "min_count",
            "joined": "separator",
            "chunk": "micro_batch",
        },
        _TRAINING_VALUES,
        _TRAINING_REMOVED,
    ),
    ("eval-dialogs", "eval-dialogs"): Old(
        {"errors": "word_noise"}, removed={"least_recall": (0.95,), "cross": ([],), "users": ([],)}
    ),
    ("eval-dialogs", "cross"): Old(
        {"errors": "word_noise", "cross": "retrievers"},
        removed={"least_recall": (0.95,), "run": (None,), "user": (None,), "captions": ("each",)},
    ),
    ("eval-single-turn", "eval-single-turn"): Old(removed={"predictions": ([],), "write_queries": (None,)}),
    ("eval-single-turn", "score"): Old(
        removed={"run": ([],), "write_queries": (None,)}, unused=frozenset({"device"})
    ),
    ("eval-single-turn", "write-queries"): Old(
        {"write_queries": "out"},
        removed={"run": ([],), "predictions": ([],)},
        unused=frozenset({"out", "exclude_candidate", "batch_size", "device"}),
    ),
    ("extract-features", "extract-features"): Old(
        removed={name: (None,) for name in ("vectors", "ids", "attributes", "attribute_words")}
    ),
    ("extract-features", "import-features"): Old(
        {"attributes": "attribute_scores"},
        removed={"predictor": (None,), "update": (False,)},
        unused=frozenset(
            {"encoder", "weights", "image_size", "dimensions", "batch_size", "workers", "precision", "device"}
        ),
    ),
    ("eval-chatir", "eval-chatir"): Old(
        {"joined": "separator", "rounds": "query"}, {"rounds": {"joined": "rounds", "alone": "last"}}
    ),
    ("make-dialogues", "make-dialogues"): Old({"start": "captions_from", "attributes": "predictor"}),
    ("chat", "chat"): Old({"attributes": "predictor"}),
}
_INSTEAD = {
    "seeds": "train one seed at a time in a shell loop, as docs/evaluation.md shows",
    "strategy": "several devices always use Lightning's ddp",
    "imbalance": "attributes are always trained with unweighted cross-entropy",
    "least_recall": "an index needs a recall@10 of 0.95",
    "composition": "give --model.composition to train-composer",
    "cross": "give --retrievers to cross",
    "users": "give --users to cross",
    "update": "remove the store to import the vectors again",
    "predictions": "give --predictions to score",
    "write_queries": "give --out to write-queries",
    "vectors": "give --vectors to import-features",
    "ids": "give --vectors too, to import-features",
    "attributes": "give --attribute-scores to import-features",
    "attribute_words": "give --attribute-words to import-features",
}


def command_of(command: str, arguments: Sequence[str]) -> str:
    """Command that runs: the one given, or the one that its old options moved to."""
    given = mentioned(arguments)
    if command == "train-retriever":
        return "train-composer" if given.get("model") == "composer" else command
    moved = {
        "eval-dialogs": {"cross": "cross"},
        "eval-single-turn": {"predictions": "score", "write_queries": "write-queries"},
        "extract-features": {"vectors": "import-features"},
    }
    found = [new for old, new in moved.get(command, {}).items() if given.get(old)]
    return found[0] if found else command


def new_flags(given: str, run: str, arguments: Sequence[str]) -> tuple[list[str], str]:
    """Arguments of a command with new flags, and a notice about changed flags, if any.

    Raises UserError for a removed flag with a value that is no longer supported.
    """
    old = OLD.get((given, run), Old())
    flags: list[str] = []
    notes = [f"{given} is now {run} for these options"] if given != run else []
    temperature = mentioned(arguments).get("loss") == "cross-entropy"
    for name, words, equals in _by_flag(arguments):
        if name in old.removed or name in old.unused:
            _check_removed(name, old, words)
            notes.append(f"{flag(name)} is no longer an option")
            continue
        new = "temperature" if name == "margin" and temperature else old.names.get(name, name)
        if name and new != name:
            notes.append(f"{flag(name)} is now {flag(new)}")
        known = old.values.get(name, {})
        words = [one for word in words for one in _listed(known.get(word, word))]
        head = [] if not name else [flag(new)] if new != name else [equals.partition("=")[0]]
        flags += [f"{head[0]}={words[0]}", *words[1:]] if "=" in equals else [*head, *words]
    return flags, "note: " + "; ".join(dict.fromkeys(notes)) if notes else ""


def new_keys(given: str, run: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a YAML file of a command under their new names, nested; new keys are unchanged.

    Raises UserError for a removed key with a value that is no longer supported.
    """
    old = OLD.get((given, run), Old())
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name in old.unused or name in old.removed:
            _check_removed(name, old, value)
            continue
        new = name if isinstance(value, Mapping) else old.names.get(name, name)
        if name == "margin" and value is not None and values.get("loss") == "cross-entropy":
            new = "temperature"
        value = old.values.get(name, {}).get(value, value) if isinstance(value, str) else value
        part, _, key = new.rpartition(".")
        if part:
            made.setdefault(part, {})[key] = value
        elif isinstance(value, Mapping):
            made[new] = made.get(new, {}) | dict(value)
        else:
            made[new] = value
    for name in old.implied.keys() & values.keys():
        made = old.implied[name] | made
    return made


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _check_removed(name: str, old: Old, value: Any) -> None:
    left = old.removed.get(name)
    if left is None:
        return
    words = [str(word) for word in value] if isinstance(value, list) else [str(value)]
    if value not in left and words not in [[str(one)] for one in left] and not (words == [] and [] in left):
        shown = " ".join(words)
        raise UserError(f"{flag(name)} {shown} is no longer supported; {_INSTEAD.get(name, 'leave it out')}")


def _by_flag(arguments: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    """Arguments by flag: name (empty before the first flag), values, and the flag as given."""
    name, given = "", ""
    words: list[str] = []
    for word in arguments:
        if word.startswith("--"):
            if name or words:
                yield name, words, given
            head, equals, value = word.partition("=")
            name, words, given = head[2:].replace("-", "_"), [value] if equals else [], word
        else:
            words.append(word)
    if name or words:
        yield name, words, given


def mentioned(arguments: Sequence[str]) -> dict[str, Any]:
    """Options in the arguments and their YAML files, with the last value of each flag."""
    given: dict[str, Any] = {}
    for name, words, _ in _by_flag(arguments):
        if name == "config" and words:
            given |= _read(Path(words[0]))
        elif name:
            given[name] = words[-1] if len(words) else []
    return given


def _read(path: Path) -> dict[str, Any]:
    try:
        values = read_yaml(path)
    except (OSError, ValueError):
        return {}  # the parser reports the error
    return values if isinstance(values, dict) else {}

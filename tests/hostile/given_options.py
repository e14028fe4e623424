"""Cases of configurations, options, category names and places."""

import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any, get_type_hints

from cases import CHATIR, LINEAR, QUERIES, RANKINGS, VECTORS, case_of, hostile, valid
from damage import TEXTS, odd_value
from damage_places import spoil_place
from judge import Case
from world import Options, Room, arguments_of

from fashioniq.cli import COMMANDS
from fashioniq.config import EvalChatIR
from fashioniq.options import flag

SETTINGS = {**COMMANDS, CHATIR: EvalChatIR} | {
    one: COMMANDS[one.split()[0]] for one in (LINEAR, QUERIES, RANKINGS, VECTORS)
}


def yaml_text(rng: Random, text: str) -> bytes:
    """A configuration with something odd in it."""
    lines = text.splitlines()
    way = rng.randrange(14)
    key = rng.choice([line.partition(":")[0] for line in lines])
    if way <= 3:
        odd = json.dumps(odd_value(rng))
        return "\n".join(f"{key}: {odd}" if line.startswith(f"{key}:") else line for line in lines).encode()
    if way <= 5:
        odd = rng.choice(("!!python/object/apply:os.system ['touch PWNED']", "!!python/name:os.system", "!!binary aGVsbG8=", "!!set {a, b}",
                          "2024-01-01", "0o17", "1_000", "*missing", "&a [*a]", "!!timestamp 3", "|\n  a\n  b", "{? [a]: b}", "<<: 3", "yes", ".nan",
                          "-.inf", "1:30", "= x", "@x", "`x`", "%TAG", "\t x", "'unclosed", '"\\u0000"', '"\\ud800"'))  # fmt: skip
        return "\n".join(f"{key}: {odd}" if line.startswith(f"{key}:") else line for line in lines).encode()
    if way == 6:
        return text.encode() + rng.choice((b"seed: 3\n", b"class_path: os.system\n", b"__dict__: {}\n", b"config: options.yaml\n",
                                           b"? [a]\n: b\n", b"3: 4\n", b"null: 1\n", b"model: {width: {x: 1}}\n", b"help: true\n",
                                           b"model.width: 3\n", b"--- \nseed: 1\n", b"...\nx"))  # fmt: skip
    if way == 7:
        depth = rng.choice((15, 25, 1000, 30_000))
        return text.encode() + b"x: " + rng.choice((b"[", b"{a: ", b"- ")) * depth
    if way == 8:
        return b"a: &a [x,x]\n" + b"".join(
            b"b%d: &b%d [%s]\n" % (n, n, b"*a," * 9) for n in range(rng.randrange(1, 9))
        )
    if way == 9:
        return f"{text}seed: {'9' * rng.choice((20, 400, 5000))}\n".encode()
    if way == 10:
        return (rng.choice(TEXTS) + text).encode("utf-8", "surrogatepass")
    if way == 11:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-7"))) + b"\xff"
    return text.encode()[: rng.randrange(len(text))] + rng.choice((b"", b"\0", b"\xff", b"{", b"- ", b": :"))


@hostile("YAML config", 1000, 12)
def yaml_config(room: Room, rng: Random) -> Case:
    command = rng.choice(
        [
            name
            for name in valid(room)
            if name not in ("draw-sample", "train-attributes", "train-retriever", "compare")
        ]
    )
    case = case_of(room, command, "")
    given = valid(room)[command][0]
    if command in ("extract-attributes", "download-images"):
        given = {**given, "data": room.catalog()}  # which they write to
    arguments, what = config_of(room, rng, command, given)
    return Case([*command.split(), *arguments], f"{command}: {what}", [room.folder], False, said=case.said)


def config_of(room: Room, rng: Random, command: str, given: Options) -> tuple[list[str], str]:
    """The options in a configuration with something odd in it, and the end of that file."""
    options = {name: value for name, value in given.items() if "." not in name}
    if sizes := {name.removeprefix("model."): value for name, value in given.items() if "." in name}:
        options["model"] = sizes
    text = "".join(
        f"{name}: {json.dumps(value, default=str)}\n" for name, value in {**options, "seed": 1}.items()
    )
    text = text if "seed" in _options(SETTINGS[command]) else text.replace("seed: 1\n", "")
    path = room.path("options.yaml")
    path.write_bytes(yaml_text(rng, text))
    return ["--config", str(path)], repr(path.read_bytes()[-60:])


LASTING = {"epochs", "products", "rounds", "candidates", "samples", "beam", "timeout", "count", "show", "patience", "size",
           "workers", "devices", "num_nodes", "max_gigabytes", "image_size", "dimensions", "per_target",
           "micro_batch", "min_count", "warmup", "layers"}  # a large number of these is a request for much work  # fmt: skip
# valid numbers of these start processes, wait for other machines, or wait longer and longer
PROCESSES = {"devices", "num_nodes", "workers"}


def _options(kind: type, prefix: str = "") -> dict[str, Any]:
    hints, found = get_type_hints(kind), {}
    for one in fields(kind):
        if is_dataclass(hints[one.name]):
            found |= _options(hints[one.name], f"{prefix}{one.name}.")
        elif one.metadata.get("positional") is None:
            found[prefix + one.name] = (hints[one.name], one.default is MISSING)
    return found


def _odd_words(rng: Random, name: str, kind: Any) -> list[str]:
    numeric = kind in (int, float, int | None, float | None)
    small = ["", " ", "-1", "0", "0.5", "nan", "inf", "-inf", "1e400", "0x10", "１２", "1_0", "true", "null", "[]", "{}", "[1]", "1,5", "two",
             "-0", "+3", " 2 ", "1e1", "2.0", "''"]  # fmt: skip
    if numeric:
        large = (
            []
            if name.split(".")[-1] in LASTING
            else ["2147483647", "9223372036854775808", "9" * 400, "1e308"]
        )
        return [rng.choice(small + large)]
    texts = [text.replace("\0", "") if rng.random() < 0.9 else text for text in TEXTS]
    if kind == list[str]:
        return [rng.choice(texts) for _ in range(rng.randrange(0, 4))]
    if kind in (bool, bool | None):
        return rng.choice(([], [], ["maybe"], ["false"], [""], ["1"]))
    return [rng.choice(texts)]


@hostile("option values", 1300, 16)
def option_values(room: Room, rng: Random) -> Case:
    command = rng.choice(list(valid(room)))
    kind = SETTINGS[command]
    found = _options(kind)
    slow = command in ("train-attributes", "train-retriever", "train-captioner", "draw-sample")
    names = list(found) if not slow else [name for name in found if found[name][0] not in (bool, bool | None)]
    name = rng.choice([name for name in names if name != "device"])
    words = _odd_words(rng, name, found[name][0])
    if name in PROCESSES:
        words = [rng.choice(("", "-1", "0.5", "nan", "two", "1e400"))]
    data = room.catalog() if command == "download-images" else room.world.catalog
    given = case_of(room, command, f"{flag(name)} {words}", data=data) if command == "download-images" else case_of(
        room, command, f"{flag(name)} {words}")  # fmt: skip
    room.path("out").mkdir() if rng.random() < 0.1 else None
    return Case(
        _replaced(rng, given.arguments, name, words), given.what, [room.folder], False, said=given.said
    )


def _replaced(rng: Random, arguments: list[str], name: str, words: list[str]) -> list[str]:
    kept, skip = [], False
    for word in arguments:
        skip = word == flag(name) or (skip and not word.startswith("--"))
        kept += [] if skip else [word]
    joined = len(words) == 1 and rng.random() < 0.5
    return kept + ([f"{flag(name)}={words[0]}"] if joined else [flag(name), *words])


def options_of(room: Room, rng: Random, command: str, given: Options) -> tuple[list[str], str]:
    """The options with another value of one of them, and what it is."""
    found = _options(SETTINGS[command])
    name = rng.choice([name for name in found if name != "device"])
    words = _odd_words(rng, name, found[name][0])
    return _replaced(rng, arguments_of(command, **given)[1:], name, words), f"{flag(name)} {words}"


@hostile("category names", 500, 6)
def category_names(room: Room, rng: Random) -> Case:
    data = room.catalog()
    odd = rng.choice((*TEXTS, "x" * 300, "../dress", "dress/../../x", "dress\0", "DRESS", "dress ", "ｄｒｅｓｓ", ".dress", "dress.", "*", "?", "dress:x",
                      "nul", "dress\n", "[a]", "$HOME", "~root", "%2e%2e%2f", "a" * 255, "é" * 120, "--", "-rf"))  # fmt: skip
    command = rng.choice(("check-data", "eval-dialogs", "import-catalog", VECTORS, LINEAR, QUERIES, "extract-attributes",
                          "search", "download-images", "eval-captions", "draw-sample"))  # fmt: skip
    command = "check-data" if command == "draw-sample" else command
    if rng.random() < 0.2 and odd and "/" not in odd and "\0" not in odd and len(odd) < 100:
        for path in [one for one in data.rglob("*dress*") if one.is_file()]:
            name = path.name.replace("dress", odd.replace("\ud800", "x"))
            path.rename(path.with_name(name))
    changed: Options = {"data": data, "category": odd}
    if command == "import-catalog":
        changed["data"] = room.path("out")
    if command == "download-images":
        changed["urls"] = None
    given = case_of(room, command, f"category {odd[:60]!r}", **changed)
    given.arguments = (
        [word for word in given.arguments if word not in ("--category", odd)] if odd else given.arguments
    )
    given.arguments += [f"--category={odd}"]
    given.out += [data] if command in ("download-images",) else []
    return given


@hostile("odd places", 700, 10)
def odd_places(room: Room, rng: Random) -> Case:
    command = rng.choice([name for name in valid(room) if name not in ("draw-sample", "train-attributes")])
    options, writes = valid(room)[command]
    root = room.world.root
    inputs = [
        name for name, value in options.items() if isinstance(value, Path) and value.is_relative_to(root)
    ]
    inputs += [
        name
        for name, value in options.items()
        if name and isinstance(value, list) and isinstance(value[0], Path)
    ]
    name = rng.choice([*inputs, *writes])
    if name in writes and name not in inputs:
        target = room.path("new") / Path(options[name]).name
        what = f"{flag(name)}: {spoil_place(rng, target, room.folder)}"
        case = case_of(room, command, what, **{name: target})
        case.out = [target.parent]
        if command == "chat" and "binary" in what:  # a line is appended to a file of any content
            target.write_text("{}\n")
        return case
    value = options[name][0] if isinstance(options[name], list) else options[name]
    copied = room.copy(str(value.relative_to(root)))
    place = copied
    if copied.is_dir() and rng.random() < 0.7:
        place = rng.choice(sorted(copied.rglob("*")))
    what = f"{flag(name)}, {place.relative_to(room.folder)}: {spoil_place(rng, place, room.folder)}"
    case = case_of(room, command, what, **{name: copied})
    if command == "download-images":
        case.out, case.whole = [room.folder], False
    return case

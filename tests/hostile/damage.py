"""Seeded damage to bytes, texts, JSON, arrays, weights, checkpoints and paths.

Each function changes a file in place and returns a few words for what it did. `BREAKS` marks damage after
which a file cannot give the same result by a correct reading: it must be refused, or change nothing.
"""

import io
import json
import os
import pickle
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

PAYLOADS = (
    "<script>pwned()</script>",
    '"><img src=x onerror=pwned()>',
    "'><svg/onload=pwned()>",
    "</title><script>pwned()</script>",
    "</style><script>pwned()</script>",
    "<a href='javascript:pwned()'>x</a>",
    '<iframe srcdoc="<script>pwned()</script>">',
    "{{ 7 * 191 }}{% raw %}<b onclick=pwned()>",
    "--><script>pwned()</script><!--",
    "]]><script>pwned()</script>",
    "&lt;script&gt;pwned()&lt;/script&gt;<script>pwned()</script>",
    "\u202e<script>pwned()</script>\x1b]0;pwned\x07",
)
TEXTS = (
    "", " ", "\n", "\t", "\0", "\x1b[31mred\x1b]0;pwned\x07", "\r\nerror: forged", "\u202eright to left", "é" * 3,
    "漢字 кириллица العربية", "😀", "\ud800", "x" * 5000, "../../etc/passwd", "/proc/nothing", "a/b", "..", ".", "-", "--help",
    "~", "null", "true", "nan", "inf", "-inf", "1e400", "0x10", "１２", "1_000", "${HOME}", "$(touch PWNED)", "%s%n",
    "{0}", "[bold]rich[/bold]", "[/]", "a,b,,", "'", '"', "\\", "CON", "con.jpg", *PAYLOADS,
)  # fmt: skip
NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
)
SHAPES = ([], {}, [[]], [None], {"": None}, [1, 2], ["a", "a"], [["a"]], {"a": {"b": []}}, None, True, False)


def odd_value(rng: Random) -> Any:
    """A value that the place may not expect."""
    return rng.choice((*TEXTS, *NUMBERS, *SHAPES, *SHAPES))


# Bytes


def _flip(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _insert(rng: Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    more = rng.choice(
        (bytes(rng.randrange(1, 200)), rng.randbytes(rng.randrange(1, 200)), b"\xff\xfe", b"\n\n", b"\0")
    )
    return data[:place] + more + data[place:]


def _remove(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, max(2, len(data) // 2)) :]


def _overwrite(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    length = rng.randrange(1, min(4096, len(data) - start) + 1)
    return data[:start] + rng.choice((bytes(length), rng.randbytes(length))) + data[start + length :]


BYTES: dict[str, Callable[[Random, bytes], bytes]] = {
    "flipped": _flip,
    "cut": _cut,
    "inserted": _insert,
    "removed": _remove,
    "overwritten": _overwrite,
    "emptied": lambda rng, data: b"",
    "doubled": lambda rng, data: data + data,
    "garbage": lambda rng, data: rng.randbytes(rng.randrange(1, 500)),
    "zeros": lambda rng, data: bytes(len(data)),
    "appended": lambda rng, data: data + rng.randbytes(rng.randrange(1, 100)),
    "other format": lambda rng, data: rng.choice((b"PK\x03\x04", b"\x89PNG\r\n", b"\x93NUMPY", b"%PDF-1.4", b"\x1f\x8b\x08")) + data,
}  # fmt: skip
LENGTH = {"cut", "inserted", "removed", "emptied", "doubled", "garbage", "appended", "other format"}


def damage_bytes(rng: Random, path: Path) -> str:
    """Damage the bytes of a file."""
    data, kind = path.read_bytes(), rng.choice(list(BYTES))
    path.write_bytes(BYTES[kind](rng, data) if data else b"x")
    return kind


# Texts


def _recoded(rng: Random, text: str) -> bytes:
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-7", "utf-8-sig")), errors="replace")


def _lines(rng: Random, text: str) -> bytes:
    lines = text.splitlines(keepends=True) or [""]
    place, way = rng.randrange(len(lines)), rng.randrange(6)
    if way == 0:
        del lines[place]
    elif way == 1:
        lines.insert(place, rng.choice(lines))
    elif way == 2:
        lines[place] = rng.choice(TEXTS) + lines[place]
    elif way == 3:
        lines = [line.rstrip("\n") + "\r\n" for line in lines]
    elif way == 4:
        lines[place] = lines[place].replace(rng.choice((",", " ", "\t", '"', ":")), rng.choice(TEXTS))
    else:
        rng.shuffle(lines)
    return "".join(lines).encode("utf-8", errors="surrogatepass")


def _word(rng: Random, text: str) -> bytes:
    parts = text.split(" ") if " " in text else text.split(",")
    parts[rng.randrange(len(parts))] = rng.choice((*TEXTS, *map(str, NUMBERS)))
    return (" " if " " in text else ",").join(parts).encode("utf-8", errors="surrogatepass")


TEXT: dict[str, Callable[[Random, str], bytes]] = {
    "recoded": _recoded,
    "lines": _lines,
    "word": _word,
    "latin-1": lambda rng, text: text.encode("latin-1", errors="replace") + b"\xf6\xdf",
    "quote": lambda rng, text: (text[: len(text) // 2] + '"' + text[len(text) // 2 :]).encode(),
    "long line": lambda rng, text: (text + "x" * 300_000).encode(),
    "surrogate": lambda rng, text: text.encode() + b"\xed\xa0\x80",
}


def damage_text(rng: Random, path: Path) -> str:
    """Damage a text by its bytes, words, lines or encoding."""
    if rng.random() < 0.4:
        return damage_bytes(rng, path)
    kind = rng.choice(list(TEXT))
    path.write_bytes(TEXT[kind](rng, path.read_text(encoding="utf-8")))
    return kind


# JSON


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        found += [place for key in value for place in _places(value[key], (*path, key))]
    elif isinstance(value, list):
        found += [place for key in range(len(value)) for place in _places(value[key], (*path, key))]
    return found


def mutate(rng: Random, content: Any) -> tuple[str, Any]:
    """Change one place of a JSON value."""
    place = rng.choice(_places(content))
    if not place:
        return "replaced all", odd_value(rng)
    parent = content
    for key in place[:-1]:
        parent = parent[key]
    key, way = place[-1], rng.randrange(7)
    where = ".".join(map(str, place))[:60]
    if way <= 2:
        parent[key] = odd_value(rng)
        return f"value at {where}", content
    if way == 3:
        del parent[key]
        return f"without {where}", content
    if way == 4:
        parent[key] = rng.choice(([parent[key]], {"x": parent[key]}, str(parent[key])))
        return f"other type at {where}", content
    if isinstance(parent, list):
        other = rng.randrange(len(parent))
        if way == 5:
            parent[key] = parent[other]
            return f"{where} is entry {other}", content
        parent.insert(key, odd_value(rng))
        return f"more before {where}", content
    if way == 5:
        parent[rng.choice(TEXTS)] = parent.pop(key)
        return f"renamed {where}", content
    parent[rng.choice(TEXTS)] = odd_value(rng)
    return f"more beside {where}", content


def damage_json(rng: Random, path: Path) -> str:
    """Damage a JSON file by its bytes or by one or two of its values."""
    draw = rng.random()
    if draw < 0.25:
        return damage_text(rng, path)
    if draw < 0.28:
        path.write_text(rng.choice(("[" * 100_000, '{"a":' * 50_000, "9" * 5000, '"' + "x" * 10**6 + '"')))
        return "extreme"
    text = path.read_text()
    lines = text.splitlines()
    number = rng.randrange(len(lines)) if path.suffix == ".jsonl" else None
    content = json.loads(text if number is None else lines[number])
    done = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        if content:
            what, content = mutate(rng, content)
            done.append(what)
    written = json.dumps(content, ensure_ascii=rng.random() < 0.8)
    if number is not None:
        lines[number] = written
        written = "\n".join(lines) + "\n"
    path.write_bytes(written.encode("utf-8", errors="surrogatepass"))
    return ", ".join(done)


# Arrays


class Evil:
    """Object whose unpickling leaves a file PWNED in the working directory."""

    def __reduce__(self) -> Any:
        return os.system, ("touch PWNED",)


def _odd_array(rng: Random, rows: np.ndarray) -> tuple[str, np.ndarray]:
    way = rng.randrange(18)
    if rows.ndim == 0:
        return "one more axis", rows[None]
    rows = rows.copy()
    kinds = ("float16", "float64", "int64", "uint8", "complex64", "bool", "U8", ">f4", "datetime64[s]")
    if way <= 2:
        kind = rng.choice(kinds)
        return f"{kind} numbers", rows.astype("int64").astype(kind) if "date" in kind else rows.astype(kind)
    if way <= 6:
        value = rng.choice((np.nan, np.inf, -np.inf, 1e38, 1e-45, 0.0, -1, 70_000))
        where = rng.choice(((Ellipsis,), (0,), (Ellipsis, 0), tuple(rng.randrange(n) for n in rows.shape)))
        with np.errstate(all="ignore"):
            rows[where] = np.array(value).astype(rows.dtype)
        return f"{value} at {where}", rows
    changes: list[tuple[str, Callable[[], np.ndarray]]] = [
        ("flat", lambda: rows.reshape(-1)),
        ("one more axis", lambda: rows[None]),
        ("transposed", lambda: rows.T),
        ("no rows", lambda: rows[:0]),
        ("no columns", lambda: rows[..., :0]),
        ("a row less", lambda: rows[:-1]),
        ("a column less", lambda: rows[..., :-1]),
        ("a row more", lambda: np.concatenate([rows, rows[:1]])),
        ("one number", lambda: np.array(3.0)),
        ("column order", lambda: np.asfortranarray(rows)),
        ("structured", lambda: np.zeros(len(rows), [("a", "f4"), ("b", "i4")])),
    ]
    name, change = changes[way - 7]
    return name, change()


def damage_array(rng: Random, path: Path) -> str:
    """Damage a .npy file: bytes, header, type, shape or values."""
    draw = rng.random()
    if draw < 0.35:
        return damage_bytes(rng, path)
    if draw < 0.45:
        data = path.read_bytes()
        lie = rng.choice((b"(10000000000000, 8)", b"(-1, 8)", b"(60, 1.5)", b"()", b"(0, 0)", b"[60, 8]"))
        start, end = data.index(b"(", 10), data.index(b")", 10) + 1
        path.write_bytes(data[:start] + lie + data[end:])
        return f"header with {lie.decode()}"
    if draw < 0.5:
        np.save(path, np.array([Evil()], dtype=object), allow_pickle=True)
        return "pickle"
    name, rows = _odd_array(rng, np.load(path))
    np.save(path, rows)
    return name


def damage_arrays(rng: Random, path: Path) -> str:
    """Damage a .npz file, or one of its arrays."""
    if rng.random() < 0.3:
        return damage_bytes(rng, path)
    arrays = dict(np.load(path))
    name, way = rng.choice(list(arrays)), rng.randrange(6)
    what = f"without {name}"
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[name], what = np.array([Evil()], dtype=object), f"pickle in {name}"
    elif way == 2 and arrays[name].dtype.kind == "U":
        names = arrays[name].astype("U300")
        names[rng.randrange(len(names))] = rng.choice((*TEXTS[1:30], str(names[0])))[:300].replace(
            "\ud800", ""
        )
        arrays[name], what = names, f"another name in {name}"
    else:
        numbers = arrays[name] if arrays[name].dtype.kind == "f" else np.zeros(arrays[name].shape, np.float32)
        what, arrays[name] = _odd_array(rng, numbers)
    np.savez(path, **arrays)
    return what


def damage_weights(rng: Random, path: Path) -> str:
    """Damage a .safetensors file: bytes, header, or one tensor."""
    from safetensors.numpy import load_file, save_file

    if rng.random() < 0.5:
        return damage_bytes(rng, path)
    tensors = dict(load_file(path))
    name, way = rng.choice(list(tensors)), rng.randrange(5)
    what = f"without {name}"
    if way == 0:
        del tensors[name]
    elif way == 1:
        tensors["another"], what = tensors[name].copy(), "one tensor more"
    elif way == 2:
        tensors[name], what = np.full_like(tensors[name], rng.choice((np.nan, np.inf))), f"not finite: {name}"
    else:
        what, rows = _odd_array(rng, tensors[name])
        if rows.dtype.kind not in "fi":
            rows, what = tensors[name].reshape(-1)[:1].copy(), "one number"
        tensors[name] = np.ascontiguousarray(rows)
    with suppress(Exception):
        save_file(tensors, path)
    return what


def damage_checkpoint(rng: Random, path: Path) -> str:
    """Damage a checkpoint: bytes, a malicious pickle, another object, or one of its values."""
    import torch

    draw = rng.random()
    if draw < 0.4:
        return damage_bytes(rng, path)
    if draw < 0.5:
        if rng.random() < 0.5:
            torch.save(Evil(), path)
        else:
            path.write_bytes(pickle.dumps(Evil()))
        return "malicious pickle"
    state = torch.load(path, weights_only=True)
    if draw < 0.6:
        torch.save(
            rng.choice(({}, [], 3, None, {"state_dict": {}}, {**state, "state_dict": 3}, "text")), path
        )
        return "another object"
    place = rng.choice([place for place in _places(state) if place])
    parent = state
    for key in place[:-1]:
        parent = parent[key]
    where, way, old = ".".join(map(str, place))[:60], rng.randrange(3), parent[place[-1]]
    if way == 0:
        del parent[place[-1]]
    elif isinstance(old, torch.Tensor):
        parent[place[-1]] = rng.choice((torch.full_like(old, torch.nan) if old.is_floating_point() else old[:0],
                                        old.flatten()[:1], torch.zeros(3), 3))  # fmt: skip
    else:
        parent[place[-1]] = rng.choice((*NUMBERS, "text", None, [], {}, [1], {"a": 1}))
    torch.save(state, path)
    return f"{'without' if way == 0 else 'another'} {where}"


# Places


def spoil_place(rng: Random, path: Path, room: Path) -> str:
    """Put something odd in the place of a file or folder in a room."""
    import shutil

    folder = path.is_dir()
    if folder:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind = rng.choice(("missing", "empty file", "empty folder", "loop", "dangling", "pipe", "socket", "null", "zero", "full folder",
                       "binary file", "below a file"))  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "empty file":
        path.touch()
    elif kind == "empty folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket is short
            with suppress(OSError):
                made.bind(path.name)
            os.chdir(here)
    elif kind in ("null", "zero"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "full folder":
        (path / "x" / "y").mkdir(parents=True)
        (path / "x" / "y" / "z.json").write_text("{}")
    elif kind == "binary file":
        path.write_bytes(rng.randbytes(300))
    elif kind == "below a file" and path.parent != room:
        shutil.rmtree(path.parent, ignore_errors=True)
        with suppress(OSError):
            path.parent.write_text("file")
    return kind


def picture_bytes(rng: Random) -> tuple[str, bytes]:
    """A picture in any of many formats and modes, damaged or not."""
    from PIL import Image

    formats = (
        "JPEG",
        "PNG",
        "GIF",
        "BMP",
        "TIFF",
        "WEBP",
        "PPM",
        "ICO",
        "TGA",
        "PCX",
        "SGI",
        "DDS",
        "JPEG2000",
    )
    name = rng.choice(formats)
    size = rng.choice(((1, 1), (1, 400), (400, 1), (33, 47), (200, 200)))
    mode = rng.choice(("RGB", "RGBA", "L", "1", "P", "CMYK", "I;16", "LA", "F"))
    file = io.BytesIO()
    try:
        Image.new(mode, size).save(file, name)
    except (OSError, ValueError, KeyError, SystemError):
        file = io.BytesIO()
        name = "PNG"
        Image.new("RGB", size, (9, 99, 199)).save(file, name)
    data = file.getvalue()
    draw = rng.random()
    if draw < 0.3:
        return f"{name} {mode}", data
    if draw < 0.4:  # a bomb: a header that promises many pixels
        head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
        return "bomb", head + rng.randbytes(200)
    if draw < 0.45:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{rng.choice(PAYLOADS)}</script></svg>'
        return "svg", svg.encode()
    kind = rng.choice(list(BYTES))
    return f"{kind} {name}", BYTES[kind](rng, data)

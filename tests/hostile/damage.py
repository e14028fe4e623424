"""Seeded damage to bytes, texts, JSON, arrays, weights, checkpoints and paths.

Each function changes a file in place and returns a few words for what it did. `BREAKS` marks damage after
which a file cannot give the same result by a correct reading: it must be refused, or change nothing.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

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
    "=cmd()|'/C calc'!A0", "@x",
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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        found += [place for key in value for place in places(value[key], (*path, key))]
    elif isinstance(value, list):
        found += [place for key in range(len(value)) for place in places(value[key], (*path, key))]
    return found


def mutate(rng: Random, content: Any) -> tuple[str, Any]:
    """Change one place of a JSON value."""
    place = rng.choice(places(content))
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

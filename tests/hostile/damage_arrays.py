"""Seeded damage to arrays, weights and checkpoints."""

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from damage import NUMBERS, TEXTS, damage_bytes, places


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
    place = rng.choice([place for place in places(state) if place])
    parent = state
    for key in place[:-1]:
        parent = parent[key]
    where, way, old = ".".join(map(str, place))[:60], rng.randrange(3), parent[place[-1]]
    if way == 0:
        del parent[place[-1]]
    elif isinstance(old, torch.Tensor):
        parent[place[-1]] = rng.choice((torch.full_like(old, torch.nan) if old.is_floating_point() else old.flatten()[:0],
                                        old.flatten()[:1], torch.zeros(3), 3))  # fmt: skip
    else:
        parent[place[-1]] = rng.choice((*NUMBERS, "text", None, [], {}, [1], {"a": 1}))
    torch.save(state, path)
    return f"{'without' if way == 0 else 'another'} {where}"

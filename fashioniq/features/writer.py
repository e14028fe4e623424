"""Writing of a feature store in parts. A kill loses at most one part, and causes neither gaps nor duplicates.

    parts/plan.json      the metadata, the requested products, and the number of rows already in the store
    parts/000000.npz     the results for the first PART requested products, and so on

Each part is written atomically. When all parts exist, they are joined: features.npy, attributes.npy and
ids.json are replaced, then store.json, and the parts are removed. Existing rows stay in front. Until
store.json is replaced, the first `count` rows are therefore the old store, and an interrupted join can be
repeated with the same result.
"""

import json
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fashioniq.data.arrays import UNREADABLE
from fashioniq.features.store import DIFFERENT, FILES, PLAN, Contents, FeatureStore, StoreFile
from fashioniq.files import (
    UserError,
    atomic_write,
    checksum,
    explaining,
    read_json,
    remove_leftovers,
    write_json,
)
from fashioniq.folders import refuse_others, visible
from fashioniq.locks import locked

PART = 256  # products per part


@dataclass(frozen=True)
class StorePart:
    """Results for some products: rows of the readable ones, and reasons for the others."""

    ids: list[str]
    features_ND: np.ndarray
    attributes_NA: np.ndarray
    failures: dict[str, str]
    patches_NTF: np.ndarray | None = None


class WritePlan(Contents, kw_only=True):
    """Content of parts/plan.json: the requested products, and the number of rows already in the store."""

    asked: list[str]
    before: int


Advance = Callable[[int], None]  # called with the number of products processed since the last call
# yields a Part for each list of ids, in order
Extract = Callable[[Sequence[Sequence[str]], Advance], Generator[StorePart, None, None]]


def fill_store(
    root: Path,
    ids: Sequence[str],
    facts: Contents,
    extract: Extract,
    progress: Callable[[int, int], None],
    update: bool = False,
) -> tuple[FeatureStore, int]:
    """Create a store of `ids`, or complete an unfinished one.

    Returns the store and the number of products requested from `extract`, 0 if the store was complete. With
    `update`, missing products are added to a finished store and failed ones are retried; existing rows do not
    change. `progress` is called with the number of products processed since the last call and the total.
    Raises UserError if the folder contains something else or a store with other metadata, if a finished store
    lacks products without `update`, or if the disk is full.
    """
    root = Path(root)
    with locked(root):
        if not (root / PLAN).exists() and not (root / "store.json").exists():
            refuse_others(root, "a feature store", "--features", _is_left)
        plan = _settle(root, ids, facts)
        if not plan and not (root / "store.json").exists():
            plan = _begin(root, ids, facts, 0)
        if plan:
            _complete(root, plan, facts, extract, progress)
        asked = plan.asked if plan else []
        store = FeatureStore(root)
        known = {*store.ids, *asked} if update else {*store.ids, *store.facts.failures}
        lacking = [name for name in ids if name not in known]
        if lacking and not update and not facts.difference(store.facts):
            raise UserError(
                f"the finished feature store {root} lacks {len(lacking)} products, such as {lacking[0]}: "
                "add them with --update"
            )
        _refuse_another(root, msgspec.to_builtins(store.facts), facts)
        if lacking:
            _complete(root, _begin(root, lacking, facts, len(store.ids)), facts, extract, progress)
            store = FeatureStore(root)
        return store, len(asked) + len(lacking)


def words_to_keep(root: Path, update: bool) -> list[str] | None:
    """Attribute words of an unfinished store, or of one to be updated, which must not change; else None."""
    for path in (root / PLAN, *([root / "store.json"] if update else [])):
        if path.exists():
            return read_json(path, "the description of a feature store", dict).get("attribute_words")
    return None


def _is_left(path: Path) -> bool:
    """Whether a killed run may have left a folder: parts without their plan."""
    return path.name == "parts" and path.is_dir() and all(one.suffix == ".npz" for one in visible(path))


def _settle(root: Path, ids: Sequence[str], facts: Contents) -> WritePlan | None:
    """Remove leftovers of a killed run, except complete parts of a plan; return the plan if there is one."""
    for folder in (root, root / "parts"):
        remove_leftovers(folder)
    if not (root / PLAN).exists():
        shutil.rmtree(root / "parts", ignore_errors=True)
        return None
    content = read_json(root / PLAN, "the plan of an unfinished feature store", dict)
    _refuse_another(root, content, facts)
    try:
        plan = msgspec.convert(content, WritePlan)
    except msgspec.ValidationError as error:
        raise UserError(
            f"{root / PLAN} was written by another version: remove {root / 'parts'} "
            "and run the same command again"
        ) from error
    if unknown := set(plan.asked) - set(ids):
        raise UserError(
            f"the unfinished store {root} is for other products, such as {min(unknown)}: "
            "choose another folder with --features, or remove it"
        )
    return plan


def _refuse_another(root: Path, found: dict[str, Any], wanted: Contents) -> None:
    for key, value in msgspec.to_builtins(wanted).items():
        if found.get(key) != value and (key != "preprocessing" or key in found):  # older stores leave it out
            old, new = json.dumps(found.get(key))[:60], json.dumps(value)[:60]
            raise UserError(
                f"the feature store {root} has {DIFFERENT[key]} ({old}, not {new}): "
                "choose another folder with --features, or remove it"
            )


def _begin(root: Path, asked: Sequence[str], facts: Contents, before: int) -> WritePlan:
    plan = WritePlan(**msgspec.structs.asdict(facts), asked=list(asked), before=before)
    write_json(root / PLAN, msgspec.to_builtins(plan), indent=None)
    return plan


def _complete(
    root: Path, plan: WritePlan, facts: Contents, extract: Extract, progress: Callable[[int, int], None]
) -> None:
    """Create the missing parts, and join all parts."""
    asked = plan.asked
    parts = {
        root / "parts" / f"{start // PART:06d}.npz": asked[start : start + PART]
        for start in range(0, len(asked), PART)
    }
    missing = {path: ids for path, ids in parts.items() if not path.exists()}
    progress(len(asked) - sum(map(len, missing.values())), len(asked))
    with closing(extract(list(missing.values()), lambda count: progress(count, len(asked)))) as made:
        for path, part in zip(missing, made, strict=True):
            _write_part(path, part)
    _join_parts(root, plan.before, parts, facts)


def _write_part(path: Path, part: StorePart) -> None:
    text = json.dumps({"ids": part.ids, "failures": part.failures})
    arrays = {"features": part.features_ND, "attributes": part.attributes_NA, "text": np.array(text)}
    if part.patches_NTF is not None:
        arrays["patches"] = part.patches_NTF
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _join_parts(root: Path, before: int, parts: dict[Path, list[str]], facts: Contents) -> None:
    old = FeatureStore(root) if before else None
    ids = old.ids[:before] if old else []
    failures = dict(old.facts.failures) if old else {}
    rows: list[Path] = []
    for path, asked in parts.items():
        text = json.loads(str(_read_part(path, "text")))
        if sorted([*text["ids"], *text["failures"]]) != sorted(asked):
            raise UserError(f"{path} contains other products: remove it and run the same command again")
        for name in asked:
            failures.pop(name, None)
        failures |= text["failures"]
        ids += text["ids"]
        rows += [path] if text["ids"] else []
    if not ids:
        _forget(root)  # otherwise the next run would reuse the same failures
        name, reason = next(iter(failures.items()), ("none", "no product was requested"))
        raise UserError(f"none of the {len(failures)} products could be read; the first: {name} ({reason})")
    if rows:
        for name in ("features", "attributes", *(["patches"] if facts.patches else [])):
            _join_rows(root / f"{name}.npy", before, len(ids), (_read_part(path, name) for path in rows))
        write_json(root / "ids.json", ids, indent=None)
    # A kill up to here leaves the old store.json, whose `count` rows are still in front of each array, and the
    # parts, from which the next run repeats the join. After it, only the parts are left to be removed.
    checksums = {name: checksum(root / name) for name in FILES if (root / name).exists()}
    store = StoreFile(**msgspec.structs.asdict(facts), count=len(ids), failures=failures, checksums=checksums)
    write_json(root / "store.json", msgspec.to_builtins(store))  # last: this makes the store valid
    _forget(root)


def _join_rows(path: Path, before: int, count: int, pieces: Iterator[np.ndarray]) -> None:
    """Write an array of `count` rows: the first `before` rows of the file, then one piece at a time."""
    # mapped again for each piece, so that copied rows do not stay in memory
    starts = range(0, before, PART)
    old = (
        np.load(path, mmap_mode="r", allow_pickle=False)[start : min(start + PART, before)]
        for start in starts
    )
    pieces = chain(old, pieces)
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        first = next(pieces)
        header = {
            "descr": np.lib.format.dtype_to_descr(first.dtype),
            "fortran_order": False,
            "shape": (count, *first.shape[1:]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        # not a memory map: on a full disk, writing to a map kills the process
        for piece in chain([first], pieces):
            file.write(np.ascontiguousarray(piece, first.dtype).tobytes())


def _read_part(path: Path, name: str) -> np.ndarray:
    with (
        explaining(f"{path} is damaged", ": remove it and run the same command again", UNREADABLE),
        np.load(path, allow_pickle=False) as file,
    ):
        return file[name]


def _forget(root: Path) -> None:
    """Remove the plan, then the parts; parts without a plan are ignored."""
    (root / PLAN).unlink()
    shutil.rmtree(root / "parts")

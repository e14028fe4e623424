"""Files that take hours to make, such as an index, each with a manifest of what it was made of."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fashioniq.files import UserError, atomic_write, checksum, read_json, write_json
from fashioniq.locks import locked

BUILDING = 4 * 3600.0  # seconds for another process that computes or indexes millions of vectors
_DIGITS = {"checksum": 16, "sha256": 64}  # of the hash of a file, by its key in the manifest


@contextmanager
def made_once(
    path: Path, what: str, made_of: Mapping[str, str], make: Callable[[Path], None], *, key: str
) -> Iterator[None]:
    """Make a file, unless there is one that was made of the same; the block can read it, and no other process writes.

    `key` is that of the file's hash in the manifest. Raises UserError if the file is not the one that was written.
    """
    folder, manifest = path.parent, path.with_suffix(".json")
    with locked(folder, wait=BUILDING):
        found = read_json(manifest, f"the manifest of the {what}", dict) if manifest.exists() else None
        if found is not None and (missing := {*made_of, key} - found.keys()):
            raise UserError(f"{manifest} lacks {', '.join(sorted(missing))}: remove {folder}")
        if found is None or any(found[name] != value for name, value in made_of.items()):
            manifest.unlink(missing_ok=True)
            with atomic_write(path) as temporary:
                make(temporary)
                written = checksum(temporary, _DIGITS[key])
            write_json(manifest, {**made_of, key: written})
        elif not path.is_file() or checksum(path, _DIGITS[key]) != found[key]:
            raise UserError(f"{path} is not the {what} that was written; remove {folder}")
        yield

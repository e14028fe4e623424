"""Cache on disk around any generator: no picture is generated twice.

An entry is a PNG and a JSON file beside it, which is written last and has the checksum of the PNG: an entry
that was interrupted or damaged is generated again.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time
from typing import Any

import msgspec

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.files import UserError, atomic_write, check_writable, checksum, read_json, typed, write_json
from fashioniq.generators.pictures import Generated, Generator, PictureRequest, Status
from fashioniq.locks import BRIEF, locked

KEPT: Mapping[Status, float] = {  # seconds; other outcomes, which may pass, are not kept
    "ok": float("inf"),
    "wrong size": float("inf"),
    "blocked": 24 * 3600.0,
    "black": 24 * 3600.0,
}
AT_ONCE = 8  # requests per call of the generator: a kill loses no more pictures than these


class CacheEntry(msgspec.Struct, kw_only=True):
    """JSON file of an entry: what was asked of which generator, and the outcome. `at` is in seconds of Unix time."""

    generator: dict[str, Any]
    prompt: str
    seed: int
    status: Status
    used_seed: int | None
    sent: str
    revised: str | None
    reason: str
    at: float
    checksum: str | None


class Cached:
    """Generator that keeps the pictures of another one in a folder.

    Blocked and black pictures are tried again after a day. Several processes can use the same folder: if two
    generate the same picture at the same time, both return the one written first.
    """

    def __init__(self, generator: Generator, folder: Path) -> None:
        self.generator, self.folder = generator, folder
        self.identity = generator.identity

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Read or generate the pictures. Raises UserError if the folder cannot be written."""
        paths = {request: self._path(request) for request in requests}
        found = {request: kept for request, path in paths.items() if (kept := self._read(path, request))}
        missing = [request for request in paths if request not in found]
        if missing:
            check_writable(self.folder)
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            for request, one in zip(some, self.generator.generate(some), strict=True):
                found[request] = self._keep(paths[request], request, one)
        return [found[request] for request in requests]

    def _path(self, request: PictureRequest) -> Path:
        """Path of an entry without suffix."""
        name = hashlib.sha256(_key(self.identity, *request).encode()).hexdigest()
        return self.folder / name[:2] / name

    def _read(self, path: Path, request: PictureRequest) -> Generated | None:
        """The outcome kept at a path; None if there is none, it has expired, is damaged or of another request."""
        about, picture = path.with_suffix(".json"), None
        if not about.is_file():
            return None
        try:
            entry = typed(read_json(about, "a cached picture", dict), CacheEntry, about, "remove it")
            prompt = request.prompt.encode(errors="replace").decode()  # as it was written
            if _key(entry.generator, entry.prompt, entry.seed) != _key(self.identity, prompt, request.seed):
                return None
            if time() - entry.at > KEPT.get(entry.status, -1.0):
                return None
            if entry.checksum is not None:
                if checksum(path.with_suffix(".png")) != entry.checksum:
                    return None
                picture = load_image(path.with_suffix(".png"), min_side=1)
                picture.info["file"] = str(path.with_suffix(".png"))  # for the log of the dialogs
        except (UserError, UnreadableImage, OSError):
            return None
        if (picture is None) == (entry.status in ("ok", "wrong size")):
            return None
        return Generated(
            picture, entry.status, entry.used_seed, entry.sent, entry.revised, reason=entry.reason
        )

    def _keep(self, path: Path, request: PictureRequest, made: Generated) -> Generated:
        """Write an outcome unless another process has in the meantime; return the one kept."""
        if made.status not in KEPT:
            return made
        with locked(path.parent, wait=BRIEF):
            if kept := self._read(path, request):
                return kept._replace(seconds=made.seconds)
            written = None
            if made.picture is not None:
                made = made._replace(picture=made.picture.convert("RGB"))
                assert made.picture is not None
                with atomic_write(path.with_suffix(".png")) as temporary:
                    made.picture.save(temporary, "PNG", compress_level=1)
                made.picture.info["file"] = str(path.with_suffix(".png"))
                written = checksum(path.with_suffix(".png"))
            entry = CacheEntry(
                generator=dict(self.identity),
                prompt=request.prompt,
                seed=request.seed,
                status=made.status,
                used_seed=made.seed,
                sent=made.sent,
                revised=made.revised,
                reason=made.reason,
                at=time(),
                checksum=written,
            )
            write_json(path.with_suffix(".json"), msgspec.structs.asdict(entry))
        return made


def _key(generator: Mapping[str, Any], prompt: str, seed: int) -> str:
    return json.dumps([dict(generator), prompt, seed], sort_keys=True)

"""Download of pictures.

Files are validated before they are moved into place; failures are counted by reason.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.images import PictureReader, UnreadableImage, load_image
from fashioniq.files import UserError, checksum, read_text, writing
from fashioniq.http import Unfetched
from fashioniq.locks import locked
from fashioniq.prepare.archives import is_safe
from fashioniq.prepare.fetching import Fetcher, Limits

REASONS = ("got", "dead", "broken", "too small", "failed", "no address")
MIN_SIDE = 32
TEMPORARY = ".downloading"
_USUAL = Limits()
_DECODERS = 2  # processes
_AHEAD = 8  # ids in progress per connection, because some wait for a busy host
# first two bytes of the formats supported by load_image
_SUFFIXES = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}
_HTML = re.compile(rb"<!doctype html|<html|<head|<body", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """Result for an id: one of REASONS, the detail of a failure, or the picture file and its checksum."""

    reason: str
    detail: str = ""
    picture: Path | None = None
    checksum: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class TooSmall(UnreadableImage):
    """A picture with a side under MIN_SIDE."""


def addresses_file(root: Path, category: str) -> Path:
    """List of the addresses of a category's pictures: in image_url/, or else in the folder itself."""
    file = f"asin2url.{file_name(category)}.txt"
    usual, beside = root / "image_url" / file, root / file
    return beside if os.path.lexists(beside) and not os.path.lexists(usual) else usual


def read_addresses(path: Path) -> dict[str, list[str]]:
    """Read a list such as `asin2url.dress.txt`: per line an id, spaces or tabs, and an address.

    An id on several lines has several addresses. Raises UserError if the file is missing, is not text, or
    contains no address.
    """
    lines = read_text(
        path, "list of addresses", "download asin2url.CATEGORY.txt, or give another list with --urls"
    ).split("\n")
    addresses: dict[str, list[str]] = {}
    for line in lines:
        name, *address = line.split(maxsplit=1) or [""]
        if address and (url := address[0].strip()) not in addresses.setdefault(name, []):
            addresses[name].append(url)
    if not addresses:
        raise UserError(
            f"{path} has no address: expected an id, a tab and an address on every line, "
            f"found {lines[0][:80]!r}"
        )
    return addresses


def download(
    addresses: Mapping[str, Sequence[str]],
    folder: Path,
    limits: Limits = _USUAL,
    there: Mapping[str, Path] | None = None,
    tell: Callable[[str, Outcome], None] | None = None,
    require_answer: bool = True,
) -> dict[str, Outcome]:
    """Download a picture for every id from the first of its addresses with a valid one.

    The file is folder/<id>.jpg, .png or .webp, according to its content. Valid pictures in `there` (default:
    those in `folder`) are kept and not requested again. `tell` is called once for every id. Outcomes are
    returned in the order of `addresses`. To continue an interrupted download, start it again.

    Raises UserError if `folder` cannot be written or another download is writing to it, if an id is not a
    valid file name, or, with `require_answer`, if no server responded and no picture is present.
    """
    for name in addresses:
        if not is_safe(name):
            raise UserError(f"the id {name!r} is not a valid file name: pictures are named by their ids")
    outcomes: dict[str, Outcome] = {}
    folder = Path(folder)

    def known(name: str, outcome: Outcome) -> None:
        outcomes[name] = outcome
        if tell:
            tell(name, outcome)

    with _workplace(folder) as temporary, PictureReader(examine, _DECODERS) as reader:
        before = {
            name: path
            for name, path in (_downloaded(folder) if there is None else there).items()
            if name in addresses
        }
        for (name, path), found in zip(before.items(), reader(list(before.values())), strict=True):
            if not isinstance(found, UnreadableImage):
                known(name, Outcome("got", picture=path, checksum=found[1]))
        if missing := {name: urls for name, urls in addresses.items() if name not in outcomes}:
            run = _Run(folder, temporary, limits, before, reader, known=known)
            answered = asyncio.run(run.get(missing))
            failures = [outcome.detail for outcome in outcomes.values() if outcome.reason == "failed"]
            if (
                require_answer
                and failures
                and not answered
                and not any(outcome.picture for outcome in outcomes.values())
            ):
                raise UserError(
                    f"no picture could be downloaded: {failures[0]}; check the network (and HTTPS_PROXY), "
                    "then run the same command again"
                )
    return {name: outcomes[name] for name in addresses}


def examine(path: Path) -> tuple[str, str]:
    """Suffix for the content of a picture, and its checksum. Raises UnreadableImage or TooSmall."""
    try:
        sides = load_image(path, min_side=1).size
        with open(path, "rb") as file:
            suffix = _SUFFIXES[file.read(2)]
        content = checksum(path)
    except (UnreadableImage, OSError) as error:
        raise UnreadableImage(_other_content(path) or str(error)) from error
    if min(sides) < MIN_SIDE:
        raise TooSmall(f"{sides[0]}×{sides[1]} pixels")
    return suffix, content


def _other_content(path: Path) -> str:
    """Name of common content that servers send in place of a picture; "" for anything else."""
    start = path.read_bytes()[:1024] if path.is_file() else b"?"
    return "empty" if not start else "HTML instead of a picture" if _HTML.search(start) else ""


def _downloaded(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES.values()}


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder in `folder` for this run only.

    Leftovers of a killed run are removed.
    """
    temporary = folder / TEMPORARY
    with locked(folder):
        shutil.rmtree(temporary, ignore_errors=True)
        with writing(folder):
            temporary.mkdir()
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


class _Run:
    """The asynchronous part of `download`."""

    def __init__(
        self,
        folder: Path,
        temporary: Path,
        limits: Limits,
        before: Mapping[str, Path],
        reader: PictureReader,
        known: Callable[[str, Outcome], None],
    ) -> None:
        self._folder, self._temporary, self._limits, self._before = folder, temporary, limits, before
        self._reader, self._known = reader, known
        self._asked: dict[str, asyncio.Task[Outcome]] = {}  # by address: many ids may share one

    async def get(self, missing: Mapping[str, Sequence[str]]) -> bool:
        """Download a picture for every id; return whether any server has responded."""
        queue = iter(missing.items())
        async with Fetcher(self._limits) as fetcher:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(_AHEAD * self._limits.connections, len(missing))):
                        group.create_task(self._work(fetcher, queue))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
        return fetcher.answered

    async def _work(self, fetcher: Fetcher, queue: Iterator[tuple[str, Sequence[str]]]) -> None:
        for name, addresses in queue:
            outcome = Outcome("no address")
            for address in addresses:
                if address not in self._asked:
                    self._asked[address] = asyncio.create_task(self._get(fetcher, name, address))
                outcome = await self._asked[address]
                if outcome.picture:
                    break
            self._known(name, self._copied(name, outcome))

    async def _get(self, fetcher: Fetcher, name: str, address: str) -> Outcome:
        path = self._temporary / name
        try:
            await fetcher.fetch(address, path)
            found = await asyncio.to_thread(next, self._reader([path]))
            if isinstance(found, UnreadableImage):
                return Outcome("too small" if isinstance(found, TooSmall) else "broken", str(found))
            return self._place(name, *found)
        except Unfetched as error:
            return Outcome(error.reason, error.detail)
        finally:
            path.unlink(missing_ok=True)

    def _copied(self, name: str, outcome: Outcome) -> Outcome:
        """Copy the picture for `name` if it was downloaded for another id with the same address."""
        if not outcome.picture or outcome.picture.stem == name:
            return outcome
        with writing(self._folder / name):
            shutil.copyfile(outcome.picture, self._temporary / name)
        return self._place(name, outcome.picture.suffix, outcome.checksum)

    def _place(self, name: str, suffix: str, checksum: str) -> Outcome:
        """Move a temporary file into place and remove a broken picture of the same id."""
        picture, before = self._folder / (name + suffix), self._before.get(name)
        with writing(picture):
            (self._temporary / name).replace(picture)
            if before and before.parent == self._folder and before != picture:
                before.unlink(missing_ok=True)
        return Outcome("got", picture=picture, checksum=checksum)

"""Pictures out of archives of unknown origin: nothing is written outside the folder, and no more than the limit."""

import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from gzip import GzipFile
from pathlib import Path
from struct import error as StructError
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from fashioniq.data.catalog import IMAGE_SUFFIXES
from fashioniq.files import UserError, cannot_write

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
MOST_MEMBERS = 2_000_000
_BLOCK = 1 << 20
_TOLD = 200  # letters of the name of a member that is left out
_DEEPEST = 16  # folders and name of a member
_HEADER = 512  # bytes of a tar's header; one of zeros ends the tar
_UNSAFE = frozenset('/\\:*?"<>|')  # in a file's name, on one system or another
_BROKEN = (BadZipFile, tarfile.TarError, zlib.error, StructError, EOFError, ValueError, RuntimeError, OverflowError)


class _TooMuch(Exception):
    """More comes out of an archive than is allowed."""


class _Member(NamedTuple):
    """A file of an archive, or something in a file's place, as a link: then it is not `plain`."""

    name: str
    plain: bool
    open: Callable[[], Any]


def is_archive(path: Path) -> bool:
    """Whether a file's name is that of an archive that can be unpacked."""
    return path.name.lower().endswith(ARCHIVES)


def is_hidden(name: str) -> bool:
    """Whether a file or a folder is one that systems keep for themselves."""
    return name.startswith(".") or name == "__MACOSX"


def is_safe(name: str) -> bool:
    """Whether a text can be the name of a file, on any system, that is not hidden."""
    if not name or is_hidden(name) or any(char < " " or char in _UNSAFE for char in name):
        return False
    try:
        return len(name.encode()) <= 200
    except UnicodeEncodeError:  # half a character
        return False


def unpack(archive: Path, folder: Path, most_bytes: float) -> dict[str, str]:
    """Unpack the pictures of a .zip, .tar, .tar.gz or .tgz into `folder`; say of members that were left out, by their names, why.

    What counts is what comes out, not what the archive claims. Raises UserError for an archive that is broken or encrypted, unpacks to
    more than `most_bytes`, or has more than MOST_MEMBERS members.
    """
    try:
        with open(archive, "rb") as file:
            members = _zip_members if archive.name.lower().endswith(".zip") else _tar_members
            return _unpack(members(file, archive, most_bytes), archive, folder, most_bytes)
    except _TooMuch as error:
        raise UserError(f"{archive} unpacks to more than {most_bytes / 1e9:g} GB: allow more with --max-gigabytes") from error
    except _BROKEN as error:
        raise UserError(f"{archive} is broken ({error or type(error).__name__}): get or make it again") from error
    except OSError as error:
        if error.errno is None:  # of gzip
            raise UserError(f"{archive} is broken ({error}): get or make it again") from error
        raise UserError(f"cannot read {archive}: {error.strerror}") from error


def _unpack(members: Iterator[_Member], archive: Path, folder: Path, most_bytes: float) -> dict[str, str]:
    skipped: dict[str, str] = {}
    room = most_bytes
    for number, member in enumerate(members):
        if number >= MOST_MEMBERS:
            raise UserError(f"{archive} has more than {MOST_MEMBERS:,} members: unpack it and give the folder")
        parts = [part for part in member.name.replace("\\", "/").split("/") if part not in ("", ".")]
        reason = _unfit(member, parts)
        if not reason and _is_picture(parts):
            try:
                room -= _save(member, folder.joinpath(*parts), room)
            except FileExistsError:
                reason = "another member has its name"
        if reason:
            skipped[member.name[:_TOLD]] = reason
    return skipped


def _unfit(member: _Member, parts: list[str]) -> str:
    """Why a member is left out and reported; nothing for pictures, and for all that no one asked for."""
    if ".." in parts or member.name.startswith(("/", "\\")):
        return "its path leaves the folder"
    if not member.plain:
        return "a link or device, not a plain file"
    if _is_picture(parts) and (len(parts) > _DEEPEST or not all(map(is_safe, parts))):
        return "its path is too deep, or has what no file's name can"
    return ""


def _is_picture(parts: list[str]) -> bool:
    return bool(parts) and Path(parts[-1]).suffix.lower() in IMAGE_SUFFIXES and not any(map(is_hidden, parts))


def _save(member: _Member, target: Path, room: float) -> int:
    """Copy a member to a new file and return its size; raises FileExistsError where something has its place."""
    size = 0
    with member.open() as source, _create(target) as file:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > room:
                raise _TooMuch
            try:
                file.write(block)
                file.flush()
            except OSError as error:
                raise cannot_write(target, error) from error
    return size


def _create(target: Path) -> IO[bytes]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return open(target, "xb")
    except NotADirectoryError as error:
        raise FileExistsError from error
    except FileExistsError:
        raise
    except OSError as error:
        raise cannot_write(target, error) from error


def _zip_members(file: IO[bytes], archive: Path, most_bytes: float) -> Iterator[_Member]:
    with ZipFile(file) as zipped:
        for info in zipped.infolist():
            if info.flag_bits & 1:
                raise UserError(f"{archive} is encrypted: unpack it and give the folder")
            if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # the others unpack a block at once, however large
                raise UserError(f"{archive} is compressed in an unusual way ({info.filename!r}): unpack it and give the folder")
            if not info.is_dir():
                kind = stat.S_IFMT(info.external_attr >> 16)
                yield _Member(info.filename, kind in (0, stat.S_IFREG), partial(zipped.open, info))


def _tar_members(file: IO[bytes], archive: Path, most_bytes: float) -> Iterator[_Member]:
    bytes_of = _Forward(file if archive.suffix.lower() == ".tar" else GzipFile(fileobj=file), most_bytes)
    with tarfile.TarFile(fileobj=bytes_of) as tar:  # type: ignore[arg-type]
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # it would remember them all
            if not info.isdir():
                yield _Member(info.name, info.isreg() and not info.issparse(), partial(tar.extractfile, info))
    if bytes_of.last != bytes(_HEADER):  # tarfile takes a damaged header for the end
        raise tarfile.ReadError("it ends too early")
    while bytes_of.read(_BLOCK):  # to its checksum
        pass


class _Forward:
    """The bytes of a tar, read once from begin to end and up to a limit, however far its headers point."""

    def __init__(self, file: Any, most_bytes: float) -> None:
        self._file, self._most_bytes = file, most_bytes
        self.last = b""  # what was read last

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> int:
        if place < self._file.tell():
            raise tarfile.ReadError("a header points backwards")
        if place > self._most_bytes:
            raise _TooMuch
        return self._file.seek(place)

    def read(self, size: int) -> bytes:
        if size > _BLOCK:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        self.last = self._file.read(size)
        if self._file.tell() > self._most_bytes:
            raise _TooMuch
        return self.last

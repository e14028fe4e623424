"""Pictures from zip archives of unknown origin: nothing is written outside the folder or above the limit."""

import re
import stat
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import error as StructError
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from fashioniq.data.catalog_files import IMAGE_SUFFIXES
from fashioniq.files import UserError, cannot_write, why, writing

MOST_MEMBERS = 2_000_000
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_BLOCK = 1 << 20
_LONGEST = 200  # maximum characters of the name of a skipped member in a report
_DEEPEST = 16  # maximum path components of a member
_UNSAFE = frozenset('/\\:*?"<>|')  # characters that are not allowed in file names on every system
_RESERVED = r"^(?=(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))[a-z]"
_ENCODED = re.compile(
    r"^\.|[. ]$|[\x00-\x1f" + re.escape("".join(sorted(_UNSAFE))) + r"]|%(?=[0-9a-f]{2})|" + _RESERVED,
    re.IGNORECASE,
)
_BROKEN = (BadZipFile, zlib.error, StructError, EOFError, ValueError, RuntimeError, OverflowError)


class _TooMuch(Exception):
    """The unpacked archive exceeds the size limit."""


def is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, by its name. Raises UserError for a tar archive."""
    if path.name.lower().endswith(_TARS):
        raise UserError(
            f"expected a folder or a .zip of pictures, found the tar archive {path}: "
            "unpack it and give the folder, or create a .zip"
        )
    return path.name.lower().endswith(".zip")


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden or belongs to the operating system."""
    return name.startswith(".") or name == "__MACOSX"


def safe_id(id: str) -> str:
    """Id that can name a file on every system; `urllib.parse.unquote` restores the original.

    Characters that file names cannot have are percent-encoded, so that B/005 becomes B%2F005, and so are a
    leading dot, a dot or space at the end, the first letter of a name that Windows reserves, such as con, and a
    percent sign before two hexadecimal digits.
    """
    return _ENCODED.sub(lambda char: f"%{ord(char[0]):02X}", id)


def is_safe(name: str) -> bool:
    """Whether a text is a valid name for a visible file on every system."""
    if not name or is_hidden(name) or any(char < " " or char in _UNSAFE for char in name):
        return False
    try:
        return len(name.encode()) <= 200
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def unpack(
    archive: Path, folder: Path, most_bytes: float, only: Collection[str] | None = None
) -> dict[str, str]:
    """Unpack the pictures of a .zip into `folder`; return the names of skipped members with the reasons.

    With `only`, other members are ignored. The limits apply to the unpacked bytes, not to the sizes that the
    archive states. Raises UserError for an archive that is damaged or encrypted, unpacks to more than
    `most_bytes`, or has more than MOST_MEMBERS members.
    """
    skipped: dict[str, str] = {}
    room = most_bytes
    with _opened(archive) as zipped:
        for member, parts, reason in _members(zipped, archive, only):
            if not reason:
                try:
                    room -= _save(zipped, member, folder.joinpath(*parts), room)
                except FileExistsError:
                    reason = "another member has the same name"
                except _TooMuch as error:
                    raise UserError(
                        f"{archive} unpacks to more than {most_bytes / 1e9:g} GB: unpack it and give the folder"
                    ) from error
            if reason:
                skipped[member.filename[:_LONGEST]] = reason
    return skipped


def pictures_in(archive: Path) -> dict[str, str]:
    """Member of each picture in a .zip, by its file name without suffix; of several, the first.

    Raises UserError for an archive that is damaged or encrypted, or has more than MOST_MEMBERS members.
    """
    found: dict[str, str] = {}
    with _opened(archive) as zipped:
        for member, parts, reason in _members(zipped, archive, only=None):
            if not reason:
                found.setdefault(Path(parts[-1]).stem, member.filename)
    return found


@contextmanager
def _opened(archive: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(archive) as zipped:
            yield zipped
    except _BROKEN as error:
        raise UserError(f"{archive} is damaged ({why(error)}): download or create it again") from error
    except OSError as error:
        raise UserError(f"cannot read {archive}: {error.strerror}") from error


def _members(
    zipped: ZipFile, archive: Path, only: Collection[str] | None
) -> Iterator[tuple[ZipInfo, list[str], str]]:
    """Pictures of an archive with their path components, and unfit members with the reason to skip them."""
    # a name may be empty, for which is_dir() fails
    members = [member for member in zipped.infolist() if not member.filename.endswith("/")]
    if len(members) > MOST_MEMBERS:
        raise UserError(f"{archive} has more than {MOST_MEMBERS:,} members: unpack it and give the folder")
    for member in members:
        if only is not None and member.filename not in only:
            continue
        _check(member, archive)
        parts = [part for part in member.filename.replace("\\", "/").split("/") if part not in ("", ".")]
        reason = _unfit(member, parts)
        if reason or _is_picture(parts):
            yield member, parts, reason


def _check(member: ZipInfo, archive: Path) -> None:
    """Raise UserError for a member that cannot be unpacked, or not with bounded memory."""
    if member.flag_bits & 1:
        raise UserError(f"{archive} is encrypted: unpack it and give the folder")
    if member.compress_type not in (
        ZIP_STORED,
        ZIP_DEFLATED,
    ):  # others decompress a whole block at once, of any size
        raise UserError(
            f"{archive} uses an unsupported compression method ({member.filename!r}): "
            "unpack it and give the folder"
        )


def _unfit(member: ZipInfo, parts: list[str]) -> str:
    """Reason for skipping and reporting a member; "" for pictures, and for other files, which are ignored."""
    if ".." in parts or member.filename.startswith(("/", "\\")):
        return "its path is outside the folder"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        return "a link or device, not a plain file"
    if _is_picture(parts) and (len(parts) > _DEEPEST or not all(map(is_safe, parts))):
        return "its path is too deep, or not a valid file name"
    return ""


def _is_picture(parts: list[str]) -> bool:
    return bool(parts) and Path(parts[-1]).suffix.lower() in IMAGE_SUFFIXES and not any(map(is_hidden, parts))


def _save(zipped: ZipFile, member: ZipInfo, target: Path, room: float) -> int:
    """Copy a member to a new file and return its size. Raises FileExistsError if the file exists."""
    size = 0
    with zipped.open(member) as source, _create(target) as file:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > room:
                raise _TooMuch
            with writing(target):
                file.write(block)
                file.flush()
    return size


def _create(target: Path) -> IO[bytes]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return open(target, "xb")
    except (FileExistsError, NotADirectoryError) as error:
        raise FileExistsError from error
    except OSError as error:
        raise cannot_write(target, error) from error

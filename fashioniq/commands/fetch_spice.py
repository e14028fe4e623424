"""`fashioniq fetch-spice`."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import httpx
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from fashioniq.config import FetchSpice
from fashioniq.files import UserError, cannot_write, whole
from fashioniq.metrics.java import NotComputed, java_program
from fashioniq.metrics.java_scorers import STANFORD_JARS, stanford_folders, stanford_jars

URL = "https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"
_SECONDS = 30.0  # without a byte


class _CutShortError(Exception):
    """The server stopped before all was sent."""


def run(settings: FetchSpice) -> None:
    """Get Stanford's jars where they are not there yet, and say whether Java is."""
    try:
        print(f"Java: {java_program()}")
    except NotComputed:
        print("Java: not on the PATH; METEOR and SPICE need it, version 8 or newer")
    try:
        print(f"Stanford's jars are in {stanford_jars()[0].parent}")
        return
    except NotComputed:
        folder = _writable_folder()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            _download(file, settings.retries, folder)
            _unpack(file, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    print(f"Stanford's jars are in {folder}")


def _writable_folder() -> Path:
    """The first folder of SPICE's that can be written. Raises UserError where none can."""
    for folder in (folders := stanford_folders()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise UserError(f"none of the folders of Stanford's jars can be written: {' and '.join(map(str, folders))}; {_by_hand(folders[-1])}")


def _download(file: IO[bytes], retries: int, folder: Path) -> None:
    """Fill `file` with the archive. Raises UserError where it cannot be had whole, with what to put into the folder by hand."""
    attempts = Retrying(
        stop=stop_after_attempt(retries + 1),
        wait=wait_exponential_jitter(initial=1, max=60),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        attempts(_attempt, file)
    except (httpx.HTTPError, httpx.InvalidURL, _CutShortError) as error:
        reason = f"status {error.response.status_code}" if isinstance(error, httpx.HTTPStatusError) else str(error) or type(error).__name__
        raise UserError(f"could not download {URL} ({reason}): {_by_hand(folder)}") from error


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code == 429
    return isinstance(error, httpx.TransportError | _CutShortError)


def _attempt(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()
    columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TimeRemainingColumn())
    with httpx.stream("GET", URL, follow_redirects=True, timeout=_SECONDS) as response, Progress(*columns, transient=True) as progress:
        response.raise_for_status()
        size = int(response.headers.get("Content-Length", 0))
        task = progress.add_task("downloading", total=size or None)
        for part in response.iter_raw():
            file.write(part)
            progress.update(task, completed=file.tell())
    if size and file.tell() != size:
        raise _CutShortError(f"{file.tell()} of {size} bytes came")


def _unpack(file: IO[bytes], folder: Path) -> None:
    """Put the two jars of the archive into the folder, whole or not at all. Raises UserError where it is no such archive."""
    try:
        with ZipFile(file) as archive:
            members = {Path(name).name: name for name in archive.namelist()}
            if missing := [name for name in STANFORD_JARS if name not in members]:
                raise UserError(f"{URL} lacks {missing[0]}: {_by_hand(folder)}")
            for name in STANFORD_JARS:
                with whole(folder / name) as temporary, archive.open(members[name]) as packed, open(temporary, "wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
    except BadZipFile as error:
        raise UserError(f"what came from {URL} is no whole zip archive ({error}): try again, or {_by_hand(folder)}") from error


def _by_hand(folder: Path) -> str:
    return f"get that archive by other means and put its {' and '.join(STANFORD_JARS)} into {folder}"

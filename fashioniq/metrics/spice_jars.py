"""Download of the Stanford jars for SPICE."""

import asyncio
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import httpx
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn

from fashioniq.config import FetchSpice
from fashioniq.files import UserError, atomic_write, cannot_write, why, writing
from fashioniq.http import Client, Policy, Unfetched, follow, retried
from fashioniq.metrics.java import NotComputed, java_program
from fashioniq.metrics.java_scorers import STANFORD_JARS, stanford_folders, stanford_jars

URL = "https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"
_SECONDS = 4 * 3600.0  # time limit of an attempt
_SILENCE = 30.0  # maximum seconds without data
_MAX_BYTES = 2_000_000_000  # the archive is 0.4 GB


def fetch_spice(settings: FetchSpice) -> None:
    """Download Stanford's jars if they are missing, and print whether Java is available."""
    try:
        print(f"Java: {java_program()}")
    except NotComputed:
        print("Java: not on the PATH; METEOR and SPICE need version 8 or newer")
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
    """Return the first of `stanford_folders` that is writable. Raises UserError if none is."""
    for folder in (folders := stanford_folders()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise UserError(
        f"none of the folders of Stanford's jars can be written: {' and '.join(map(str, folders))}; "
        f"{_by_hand(folders[-1])}"
    )


def _download(file: IO[bytes], retries: int, folder: Path) -> None:
    """Fill `file` with the archive.

    Raises UserError where the download fails, with what to put into the folder by hand.
    """
    policy = Policy(retries, timeout=_SECONDS, silence=_SILENCE, max_bytes=_MAX_BYTES)
    try:
        asyncio.run(_fetch(file, policy, folder))
    except Unfetched as error:
        reason = f"status {error.detail}" if error.detail.isdecimal() else error.detail
        raise UserError(f"could not download {URL} ({reason}); {_by_hand(folder)}") from error


async def _fetch(file: IO[bytes], policy: Policy, folder: Path) -> None:
    async with Client(policy) as client:
        await follow(URL, lambda url: retried(partial(_attempt, client, url, file, folder), policy.retries))


async def _attempt(client: Client, url: httpx.URL, file: IO[bytes], folder: Path) -> httpx.URL | None:
    """Overwrite the file by the archive, or return the address of a redirect."""
    file.seek(0)
    file.truncate()
    columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TimeRemainingColumn())
    async with client.get(url) as reply:
        if reply.redirect:
            return reply.redirect
        reply.check()
        size = int(reply.response.headers.get("Content-Length", 0))
        with Progress(*columns, transient=True) as progress:
            task = progress.add_task("downloading", total=size or None)
            async for chunk in reply.chunks():
                with writing(folder):
                    file.write(chunk)
                progress.update(task, completed=reply.size)
    return None


def _unpack(file: IO[bytes], folder: Path) -> None:
    """Put the two jars of the archive into the folder, whole or not at all.

    Raises UserError where it is no such archive.
    """
    try:
        with ZipFile(file) as archive:
            members = {Path(name).name: name for name in archive.namelist()}
            if missing := [name for name in STANFORD_JARS if name not in members]:
                raise UserError(f"{URL} does not contain {missing[0]}; {_by_hand(folder)}")
            for name in STANFORD_JARS:
                with (
                    atomic_write(folder / name) as temporary,
                    archive.open(members[name]) as packed,
                    open(temporary, "wb") as unpacked,
                ):
                    shutil.copyfileobj(packed, unpacked)
    except BadZipFile as error:
        raise UserError(
            f"{URL}: expected a zip archive, found a damaged file ({why(error)}); try again, or {_by_hand(folder)}"
        ) from error


def _by_hand(folder: Path) -> str:
    return f"download the archive manually and copy {' and '.join(STANFORD_JARS)} from it to {folder}"

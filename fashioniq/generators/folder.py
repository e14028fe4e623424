"""Pictures that were generated before, from a folder such as those released with GenIR and DAR.

GenIR keeps them as `generated_images/<image id>_<round>.jpg`, DAR as `<dialog>_<round>.jpg`, where dialogs are
counted from 0 in their file. A further `_<number>`, from 0, tells several pictures of a round apart.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Any

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError, explaining, refuse_special
from fashioniq.generators.pictures import Generated, PictureRequest, is_black

GENIR = "generated_images"
_NAME = re.compile(r"(.+_\d+)\.(?:jpe?g|png|webp)", re.IGNORECASE)
_ROUNDS = _NUMBERS = 1000  # limits of rounds and pictures in a seed


def seed_of(dialog: int, round: int, number: int = 0) -> int:
    """Seed of the request for a picture of a dialog: `Folder` finds the picture by it."""
    if not (dialog >= 0 and 0 <= round < _ROUNDS and 0 <= number < _NUMBERS):
        raise ValueError(f"dialog {dialog}, round {round}, picture {number}")
    return (dialog * _ROUNDS + round) * _NUMBERS + number


class Folder:
    """Generator that reads pictures of a folder: request of dialog, round and number → picture.

    A system gives its requests the seeds `seed_of(dialog, round, number)`; prompts are ignored. Dialogs are
    counted in their file, or, with `keys`, in that list of the names that the folder has for them, such as
    the image ids of GenIR. For each batch, a system of recorded dialogs can therefore create a generator with
    the keys of the batch, `Folder(path, keys)`, and count the dialogs within the batch.

    Missing, unreadable and black pictures are errors, because other seeds are other pictures.
    Raises UserError if the folder has no such pictures.
    """

    def __init__(self, folder: Path, keys: Sequence[str] | None = None) -> None:
        self.folder = folder / GENIR if (folder / GENIR).is_dir() else folder
        self._keys = keys
        self._paths, checksum = _find(self.folder)
        self.identity: Mapping[str, Any] = {
            "backend": "folder",
            "folder": folder.resolve().name,
            "count": len(self._paths),
            "checksum": checksum,
        }

    def of_images(self, images: Sequence[str], dialogs: Path) -> "Folder":
        """The same pictures for dialogs about these images, in the order of their file `dialogs`.

        Pictures are named by the dialog or by the image; if both fit, those of a folder generated_images by the image.
        Raises UserError if no name has either.
        """
        stems = [PurePosixPath(image.replace("\\", "/")).stem for image in images]
        named = {name.rpartition("_")[0] for name in self._paths}
        named |= {before for name in named for before, _, last in [name.rpartition("_")] if last.isdecimal()}
        by_image, by_dialog = named & set(stems), named & set(map(str, range(len(images))))
        if not by_image and not by_dialog:
            raise UserError(
                f"expected pictures such as 0_1.jpg (dialog and round) or {stems[0]}_1.jpg (image and round) in "
                f"{self.folder}, found none of the dialogs in {dialogs}; give their folder"
            )
        if not by_image or (by_dialog and self.folder.name != GENIR):
            return self
        made = copy(self)
        made._keys = stems
        return made

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Read the pictures of the requests."""
        return [self._read(request) for request in requests]

    def _read(self, request: PictureRequest) -> Generated:
        outcome = Generated(None, "error", None, request.prompt)
        rest, number = divmod(request.seed, _NUMBERS)
        dialog, round = divmod(rest, _ROUNDS)
        if self._keys is not None and not 0 <= dialog < len(self._keys):
            return outcome._replace(reason=f"no key of dialog {dialog}")
        name = f"{dialog if self._keys is None else self._keys[dialog]}_{round}"
        path = self._paths.get(f"{name}_{number}") or (None if number else self._paths.get(name))
        if path is None:
            return outcome._replace(reason=f"no picture {f'{name}_{number}' if number else name}")
        try:
            picture = load_image(path)
        except UnreadableImage as error:
            return outcome._replace(reason=f"{path.name} is unreadable: {error}")
        if is_black(picture):
            return outcome._replace(reason=f"{path.name} is black")
        return outcome._replace(picture=picture, status="ok")


def _find(folder: Path) -> tuple[dict[str, Path], str]:
    """The pictures of a folder by their names without suffix, and a checksum of names and sizes."""
    with (
        explaining(f"cannot read the folder of pictures {folder}", "; give another", OSError),
        os.scandir(folder) as entries,
    ):
        sizes = {one.name: one.stat().st_size for one in entries if _NAME.fullmatch(one.name)}
    if not sizes:
        raise UserError(
            f"expected pictures such as 0_1.jpg (dialog and round) in {folder} or in its folder {GENIR}, found "
            "none; give another folder"
        )
    text = "".join(f"{name} {size}\n" for name, size in sorted(sizes.items()))
    paths = {match[1]: folder / name for name in sorted(sizes) if (match := _NAME.fullmatch(name))}
    return paths, hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def of_path(inputs: PartInputs) -> Folder:
    """The generator folder:PATH."""
    if not inputs.argument:
        raise UserError("expected folder:PATH, found no path; add it to --generator")
    refuse_special(Path(inputs.argument))
    return Folder(Path(inputs.argument))

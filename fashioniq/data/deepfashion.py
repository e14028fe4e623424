"""DeepFashion's category and attribute prediction benchmark (Liu et al., CVPR 2016) in the released layout.

list_attr_cloth.txt      a count, a header, then `attribute name   type`, types 1 to 5
list_attr_img.txt        a count, a header, then `img/….jpg  -1 1 0 …`: no, yes, unknown
list_eval_partition.txt  a count, a header, then `img/….jpg  train`, val or test
list_bbox.txt            a count, a header, then `img/….jpg  x_1 y_1 x_2 y_2`; optional

The files are in the folder itself, in Anno, Anno_coarse or Eval; img/ is in the folder itself or in Img.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fashioniq.data.attributes import STYLE, TEXTURE, TYPES
from fashioniq.data.labelled import NO, UNKNOWN, LabeledPhotos, LabelledSplits
from fashioniq.data.photos import Photo
from fashioniq.files import UserError, reading

FOLDERS = (".", "Anno", "Anno_coarse", "Eval")
Box = tuple[int, int, int, int]


def read_deepfashion(root: Path) -> LabelledSplits:
    """Photos of train and val with their labels and boxes.

    Raises UserError if a file is missing or malformed; the message names the line.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(
            f"there is no folder {root}: --deepfashion expects the folder with list_attr_cloth.txt, "
            "list_attr_img.txt and img/"
        )
    # DeepFashion numbers its types in the order of the lists in asin2attr
    type_of = word_rows(_need(root, "list_attr_cloth.txt"), range(TEXTURE, STYLE + 1))
    words, types = list(type_of), [[*TYPES][number] for number in type_of.values()]
    split_of = _read_partition(_need(root, "list_eval_partition.txt"))
    boxes = _read_boxes(boxes_file, split_of) if (boxes_file := _find(root, "list_bbox.txt")) else {}
    labels_file = _need(root, "list_attr_img.txt")
    read = _read_labels(labels_file, len(words), split_of)
    pictures = root if (root / "img").is_dir() or not (root / "Img" / "img").is_dir() else root / "Img"

    def labelled(split: str) -> LabeledPhotos:
        asked = [name for name, of in split_of.items() if of == split]
        names, labels_NA = read[split]
        if not names:
            raise UserError(
                f"{labels_file} has no labels for any of the {len(asked)} {split} pictures "
                "in list_eval_partition.txt"
            )
        return LabeledPhotos(
            [Photo(pictures / name, boxes.get(name)) for name in names], labels_NA, len(asked)
        )

    return LabelledSplits(labelled("train"), labelled("val"), words, types)


def _find(root: Path, name: str) -> Path | None:
    return next((path for folder in FOLDERS if (path := root / folder / name).is_file()), None)


def _need(root: Path, name: str) -> Path:
    path = _find(root, name)
    if path is None:
        raise UserError(
            f"there is no {name} in {root} or its folders {', '.join(FOLDERS[1:])}: "
            "it is part of DeepFashion's attribute prediction benchmark"
        )
    return path


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    """Rows after the header, with their line numbers. Their number must match the first line."""
    with (
        reading(path, "list", "it is part of DeepFashion's benchmark"),
        open(path, encoding="utf-8", errors="replace") as file,
    ):
        first = file.readline().strip()
        if not first.isdecimal():
            raise UserError(f"{path}, line 1: expected the number of rows, found {first[:60]!r}")
        file.readline()
        count = 0
        for number, line in enumerate(file, start=3):
            if line := line.strip():
                count += 1
                yield number, line
    if count != int(first):
        raise UserError(
            f"{path}: expected {int(first)} rows according to line 1, found {count}: download the file again"
        )


def word_rows(path: Path, types: range) -> dict[str, int]:
    """Words of list_attr_cloth.txt or list_category_cloth.txt in lower case, with the type of each.

    Raises UserError if the file is missing or malformed; the message names the line.
    """
    type_of: dict[str, int] = {}
    for number, line in _rows(path):
        *words, kind = line.lower().split()
        word = " ".join(words)
        if not word or not kind.isdecimal() or int(kind) not in types or word in type_of:
            raise UserError(
                f"{path}, line {number}: expected a new word and its type from {types[0]} to {types[-1]}, "
                f"found {line[:60]!r}"
            )
        type_of[word] = int(kind)
    if not type_of:
        raise UserError(f"{path} contains no word: download the file again")
    return type_of


def _read_partition(path: Path) -> dict[str, str]:
    split_of = {}
    for number, line in _rows(path):
        name, *split = line.split()
        if split not in (["train"], ["val"], ["test"]) or name in split_of:
            raise UserError(
                f"{path}, line {number}: expected a new picture and train, val or test, found {line[:80]!r}"
            )
        split_of[name] = split[0]
    return split_of


def _read_boxes(path: Path, known: dict[str, str]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    for number, line in _rows(path):
        name, *corners = line.split()
        try:
            left, top, right, bottom = map(int, corners)
        except ValueError:
            raise UserError(
                f"{path}, line {number}: expected a picture and the four numbers of its box, "
                f"found {line[:80]!r}"
            ) from None
        if name in known:
            boxes[name] = left, top, right, bottom
    return boxes


def _read_labels(path: Path, words: int, split_of: dict[str, str]) -> dict[str, tuple[list[str], np.ndarray]]:
    """Names and labels (int8, N×A) of train and val, in the order of the file.

    Rows are parsed one at a time.
    """
    sizes = {split: sum(of == split for of in split_of.values()) for split in ("train", "val")}
    matrices = {split: np.empty((size, words), np.int8) for split, size in sizes.items()}
    names: dict[str, dict[str, None]] = {split: {} for split in sizes}
    for number, line in _rows(path):
        name, rest = [*line.split(maxsplit=1), ""][:2]
        split = split_of.get(name, "")
        if rest and split not in sizes:
            continue
        labels_A = _labels_of(rest)
        if len(labels_A) != words or np.abs(labels_A).max() > 1 or name in names[split]:
            raise UserError(
                f"{path}, line {number}: expected a new picture and {words} values of -1, 0 and 1, "
                f"found {line[:60]!r}"
            )
        matrices[split][len(names[split])] = np.where(
            labels_A == 0, UNKNOWN, np.where(labels_A < 0, NO, labels_A)
        )
        names[split][name] = None
    return {split: (list(found), matrices[split][: len(found)]) for split, found in names.items()}


def _labels_of(text: str) -> np.ndarray:
    """Numbers of a row; empty if one is malformed. Several times faster than splitting the text."""
    try:
        return np.fromstring(text, dtype=np.int64, sep=" ")
    except ValueError:
        return np.empty(0, np.int64)

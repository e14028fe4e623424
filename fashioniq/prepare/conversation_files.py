"""Products that conversations are made about, and the folder that they are written to."""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fashioniq.data.attributes import find_attributes, own_words
from fashioniq.data.catalog import Catalog
from fashioniq.data.conversation_records import (
    SUBTASKS,
    ConversationItem,
    ConversationSample,
    ConversationSplit,
    Subtask,
)
from fashioniq.data.conversations import read_lines, write_gallery, write_items, write_samples
from fashioniq.data.languages import language
from fashioniq.data.writers import DescribedProduct
from fashioniq.files import UserError, checksum, write_jsonl

REVIEW = "review.jsonl"
REVIEWED = 100  # test samples for review by people
Samples = Mapping[tuple[Subtask, ConversationSplit], Sequence[ConversationSample]]


class ReviewLine(msgspec.Struct):
    """Line of review.jsonl: whether the pictures are clear and harmless, and the words fit them; None is open."""

    sample: str
    reviewer: str = ""
    image_ok: bool | None = None
    context_ok: bool | None = None
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Whether nobody has judged the sample."""
        return self.image_ok is None and self.context_ok is None

    @property
    def failed(self) -> bool:
        """Whether the sample is to be replaced."""
        return self.image_ok is False or self.context_ok is False


@dataclass
class Stock:
    """Products by category and split, and all of them as items.

    `copies` counts products left out because a product before them has the same picture file.
    """

    out: Path
    products: dict[tuple[str, ConversationSplit], list[DescribedProduct]] = field(default_factory=dict)
    items: dict[str, ConversationItem] = field(default_factory=dict)
    copies: int = 0
    _pictures: set[str] = field(default_factory=set)

    def add(self, catalog: Catalog) -> None:
        """Add the products of a category: train, and val and test together as test, as in the paper.

        Products need labels, or a title in which label words are found. Raises UserError if there are none, if an
        id is that of another category, or if the labels are not in English.
        """
        train = set(catalog.ids("train"))
        words, usable = own_words(language(catalog.language)), 0
        for name in catalog.all_ids():
            title = catalog.titles.get(name, "")
            labels = catalog.labels.get(name) or find_attributes(title, words)
            if not any(labels):
                continue
            usable += 1
            if name in self.items:
                raise UserError(
                    f"{name!r} is a product of {self.items[name].category} and of {catalog.category}; "
                    "give one category with --category"
                )
            path = catalog.images.get(name)
            if path and (picture := _checksum(path)) in self._pictures:
                self.copies += 1
                continue
            self._pictures |= {picture} if path else set()
            split: ConversationSplit = "train" if name in train else "test"
            caption = caption_of(title, labels)
            self.items[name] = ConversationItem(
                name,
                picture_from(self.out, path),
                caption,
                source="catalog",
                split=split,
                category=catalog.category,
            )
            self.products.setdefault((catalog.category, split), []).append(
                DescribedProduct(name, caption, labels)
            )
        if not usable:
            raise UserError(
                f"expected labels or titles of {catalog.category} with attribute words, found none in "
                f"{catalog.root}; label the products with `fashioniq extract-attributes`"
            )


def _checksum(path: Path) -> str:
    try:
        return checksum(path)
    except OSError as error:
        raise UserError(f"cannot read the picture {path} ({error.strerror}); replace or remove it") from error


def picture_from(folder: Path, path: Path | None) -> str:
    """A picture file as items name it, by its path from the folder; "" if there is none."""
    return Path(os.path.relpath(path, folder)).as_posix() if path else ""


def caption_of(title: str, labels: Sequence[Sequence[str]]) -> str:
    """The title, and the label words that are not in it."""
    lowered = title.lower()
    words = dict.fromkeys(word for words in labels for word in words if word not in lowered)
    return "; ".join(filter(None, (title, ", ".join(words))))


def read_review(folder: Path) -> list[ReviewLine]:
    """Lines of review.jsonl, none without the file. Raises UserError for a malformed line."""
    path = folder / REVIEW
    return [verdict for _, verdict in read_lines(path, ReviewLine, "a verdict")] if path.exists() else []


def write_folder(
    folder: Path,
    items: Mapping[str, ConversationItem],
    samples: Samples,
    review: list[ReviewLine],
    *,
    whole: bool = False,
) -> None:
    """Write all files of a folder of conversations, each atomically.

    The candidates of a sub-task are its targets, or, if `whole`, all items of the split.
    """
    write_items(folder, items.values())
    for (subtask, split), made in samples.items():
        write_samples(folder, subtask, split, made)
        candidates = sorted({sample.target for sample in made})
        if whole and made:
            candidates = [item.id for item in items.values() if item.split == split]
        write_gallery(folder, subtask, split, candidates)
    write_jsonl(folder / REVIEW, review)


def review_of(samples: Samples, earlier: Sequence[ReviewLine], seed: int) -> list[ReviewLine]:
    """Verdicts of people, and open lines of test samples drawn with the seed, `REVIEWED` in all."""
    given = [verdict for verdict in earlier if not verdict.is_open]
    known = {verdict.sample for verdict in given}
    ids = [sample.id for subtask in SUBTASKS for sample in samples[subtask, "test"] if sample.id not in known]
    random.Random(seed).shuffle(ids)
    passed = sum(not verdict.failed for verdict in given)
    return given + [ReviewLine(name) for name in sorted(ids[: max(0, REVIEWED - passed)])]

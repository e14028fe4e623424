"""Feature store: a folder with the vector and the top attributes of every product, written by `writer.py`.

    features.npy     N×D float16 or float32      attributes.npy  N×8, ids of attribute words, 0 for none
    ids.json         the N product ids           store.json      encoder, attribute words, count, failures
    patches.npy      N×T×F float16, token features of the pictures, in stores of --patches

`store.json` is written last. Without it, the store is unfinished. While products are being added, only the
first `count` rows are valid.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from fashioniq.categories import file_name
from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.encoders.identity import Identity
from fashioniq.files import UserError, checksum, explaining, read_json, refuse_special, typed

if TYPE_CHECKING:
    from fashioniq.data.items import Items

IN_MEMORY = 2**30  # bytes of features up to which they are loaded: rows on disk make a GPU wait in every turn
DIFFERENT = {  # phrases for errors about differing metadata
    "encoder": "a different encoder",
    "weights": "different weights",
    "image_size": "a different image size",
    "dimensions": "a different vector size",
    "preprocessing": "a different preprocessing",
    "patches": "different token features",
    "attribute_words": "different attribute words",
    "attributes": "a different source of attributes",
    "precision": "a different precision",
}
FILES = ("features.npy", "attributes.npy", "ids.json", "patches.npy")
PLAN = Path("parts") / "plan.json"  # present while a store is being written


class StoreIdentity(Identity, kw_only=True):
    """Properties of a store on which the models trained on it depend."""

    attribute_words: list[str]


class Contents(StoreIdentity, kw_only=True):
    """Identity of a store, the source of its attributes, the precision of the encoder, and how many token features a
    picture has in patches.npy."""

    attributes: str | UnsetType = UNSET
    precision: str | UnsetType = UNSET
    patches: int | UnsetType = UNSET


class StoreFile(Contents, kw_only=True):
    """Content of store.json: the number of rows, and for each product without a row the reason.

    `checksums` are those of the other files, absent in stores made by hand.
    """

    count: int
    failures: dict[str, str]
    checksums: dict[str, str] = msgspec.field(default_factory=dict)


class FeatureStore:
    """A finished store, opened as a memory map.

    Raises UserError if it is missing, unfinished or damaged.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        refuse_special(self.root / PLAN)
        growing = (self.root / PLAN).exists()
        if not (self.root / "store.json").exists():
            state = "missing: create it with `fashioniq extract-features`"
            if growing:
                state = "unfinished: run the same `fashioniq extract-features` again to complete it"
            raise UserError(f"the feature store {self.root} is {state}")
        path = self.root / "store.json"
        content = read_json(path, "the feature store's description", dict)
        self.facts = typed(content, StoreFile, path, "remove the folder and extract again")
        count = self.facts.count
        ids = read_json(self.root / "ids.json", "the feature store's ids", list)
        arrays = [_open_array(self.root / f"{name}.npy") for name in ("features", "attributes")]
        lengths = {len(rows) for rows in (ids, *arrays)}
        described = (self.facts.encoder, self.facts.weights, *self.attribute_words)
        printable = all(isinstance(name, str) and name.isprintable() for name in ids)
        faults = {
            "its files differ in length": min(lengths) < count if growing else lengths != {count},
            "its ids are not different printable texts": not printable or len(set(ids)) < len(ids),
            "its description has control characters": not all(map(str.isprintable, described)),
            f"its vectors do not have {self.facts.dimensions} numbers": (
                arrays[0].shape[1] != self.facts.dimensions
            ),
            f"its attributes are {arrays[1].dtype}, not whole numbers": arrays[1].dtype.kind not in "iu",
            "its attributes have no column": arrays[1].shape[1] == 0,
        }
        if reason := next((reason for reason, found in faults.items() if found), ""):
            raise self._damaged(reason)
        self.ids: list[str] = ids[:count]
        self._features_ND, self._attributes_NA = (rows[:count] for rows in arrays)
        self._position_of = {name: position for position, name in enumerate(self.ids)}

    def _damaged(self, reason: str) -> UserError:
        return UserError(
            f"the feature store {self.root} is damaged: {reason}; remove the folder and extract again"
        )

    @property
    def size(self) -> int:
        """Dimension of the feature vectors."""
        return self._features_ND.shape[1]

    @property
    def encoder(self) -> str:
        """Encoder of the vectors, and that its weights are random if they are."""
        return self.facts.encoder + (", random weights" if self.has_random_weights else "")

    @property
    def has_random_weights(self) -> bool:
        """Whether the encoder was never trained; metadata vectors may follow its vectors."""
        return self.facts.weights.partition("-")[0] == "random"

    def duplicates(self) -> int:
        """Number of products whose vector is that of an earlier product."""
        return len(self.ids) - len({hashlib.sha256(row.tobytes()).digest() for row in self._features_ND})

    @property
    def attribute_words(self) -> list[str]:
        """Words of the attribute ids, starting at id 1."""
        return self.facts.attribute_words

    @property
    def identity(self) -> StoreIdentity:
        """Properties on which models trained on this store depend."""
        return StoreIdentity(**{key: getattr(self.facts, key) for key in StoreIdentity.__struct_fields__})

    def fingerprint(self) -> str:
        """Hash of what is in the store, by the checksums of its files, or their size and date if it has none."""
        status = (self.root / "features.npy").stat()
        facts = self.facts.checksums or [status.st_size, status.st_mtime_ns]
        return hashlib.sha256(f"{self.identity} {facts}".encode()).hexdigest()

    def verify(self) -> None:
        """Raise UserError if a file is not the one that was written; reads all of them."""
        for name, expected in self.facts.checksums.items():
            if name in FILES and checksum(self.root / name) != expected:
                raise self._damaged(f"{name} is not what was written")

    def __contains__(self, name: str) -> bool:
        return name in self._position_of

    def vectors(self, ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Products of `ids` that are in the store, and their vectors, N×D float32. It does not import torch."""
        present = [name for name in ids if name in self._position_of]
        rows = [self._position_of[name] for name in present]
        return present, self._features_ND[rows].astype(np.float32)

    def attributes(self, name: str) -> list[str]:
        """Attribute words of a product, most certain first. Raises KeyError if it is not in the store."""
        numbers = self._attributes_NA[self._position_of[name]].tolist()
        return [self.attribute_words[number - 1] for number in numbers if number]

    def patches(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
        """Token features of all products, N×T×F on disk, and the rows of `ids`; None without --patches."""
        if not self.facts.patches:
            return None
        found_NTF = _open_array(self.root / "patches.npy", axes=3)
        if len(found_NTF) < self.facts.count or found_NTF.shape[1] != self.facts.patches:
            raise self._damaged("its token features differ in length")
        return found_NTF, np.array([self._position_of[name] for name in ids])

    def items(self, ids: Sequence[str], read: bool = True) -> "Items":
        """Products of `ids` that are in the store, in the same order.

        Features of more than IN_MEMORY bytes stay on disk, and are read once to check them. If `read` is false, all
        features stay there, and are read when they are used. Raises UserError if there are no products, or if a
        number of theirs cannot be.
        """
        import torch  # not on opening, where most mistakes are found

        from fashioniq.data.items import BLOCK, Items, Rows

        present = [name for name in ids if name in self._position_of]
        if not present:
            raise UserError(
                f"the feature store {self.root} has none of the {len(ids)} requested products: "
                "extract this category's features"
            )
        row_N = np.array([self._position_of[name] for name in present])
        features_ND: Rows | torch.Tensor = Rows(
            self._features_ND, row_N, self._damaged("a vector is not finite")
        )
        if read and 4 * len(row_N) * features_ND.shape[1] <= IN_MEMORY:
            features_ND = features_ND[:]
        elif read:
            for start in range(0, len(row_N), BLOCK):
                features_ND[start : start + BLOCK]
        attributes_NA = torch.from_numpy(self._attributes_NA[row_N].astype(np.int64))
        if not 0 <= int(attributes_NA.min()) <= int(attributes_NA.max()) <= len(self.attribute_words):
            raise self._damaged("it has numbers of attributes without a word")
        return Items(present, features_ND, attributes_NA)


def features_folder(data: Path, category: str, features: Path | None) -> Path:
    """Folder of the feature store of a category: `features` if given, else the default in `data`."""
    return features or Path(data) / "features" / file_name(category)


def open_store(data: Path, category: str, features: Path | None, attrs: bool = False) -> FeatureStore:
    """Open the feature store of a category.

    Raises UserError if there is none, or if `attrs` is true and the store has no attributes.
    """
    root = features_folder(data, category, features)
    if not root.is_dir():
        raise UserError(
            f"there is no feature store {root}: "
            f"create it with `fashioniq extract-features --data {data} --category {category}`"
        )
    store = FeatureStore(root)
    if attrs and not store.attribute_words:
        raise UserError(
            f"{root} was extracted without attributes: omit --attrs, "
            "or extract with labels or --predictor into another store"
        )
    return store


def _open_array(path: Path, axes: int = 2) -> np.ndarray:
    with explaining(
        f"{path} is missing or damaged", ": remove the store's folder and extract again", UNREADABLE
    ):
        array = open_array(path)
        if array.ndim != axes:
            raise ValueError(f"it has {array.ndim} axes instead of {axes}")
        if array.offset + array.nbytes != path.stat().st_size:
            raise ValueError("its length is not that of its header")
        return array

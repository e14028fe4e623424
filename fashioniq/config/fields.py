"""Field functions of settings, and help texts of options that several commands have."""

from pathlib import Path
from typing import Literal

from fashioniq.files import UserError
from fashioniq.options import check, flag, option, required, section

__all__ = [
    "CATALOGS",
    "CATEGORY",
    "DATA",
    "DECODERS",
    "DEVICE",
    "ENCODER",
    "FEATURES",
    "GALLERY",
    "OUT",
    "STORED_INDEX",
    "VERIFY",
    "Searched",
    "check",
    "flag",
    "option",
    "refuse",
    "required",
    "section",
]

Searched = Literal["train", "val", "test", "all"]  # split of a gallery, or the whole catalog
CATALOGS = Path("data/fashioniq")  # of Fashion IQ, by default
DATA = "folder in Fashion IQ's layout"
CATEGORY = "category: dresses, shirts, tops, or a category of your own"
FEATURES = "feature store (default: DATA/features/CATEGORY)"
ENCODER = (
    "encoder of texts, or of texts and pictures, that searches the catalog in --data without training; the values are "
    "those of extract-features"
)
DEVICE = "device: cpu, cuda, or auto for a GPU if one is available"
DECODERS = "processes that decode pictures; 0 decodes in the main process"
STORED_INDEX = (
    "FAISS index that finds the products, such as IVF4096,Flat or HNSW32, for about a million products; it is built "
    "once and stored in the run; recall@10 below 0.95 is an error (default: exact search)"
)
GALLERY = (
    "Milvus that finds the products: milvus://HOST:PORT, or milvus:///PATH.db for a folder of milvus-lite; the vectors "
    "of the run are written to it once (default: search in this process)"
)
VERIFY = "first compare the weights and features with their checksums, which reads all of them"
OUT = "output folder; earlier results in it are replaced"


def refuse(*rules: tuple[object, str]) -> None:
    """Raise UserError with the text of the first rule whose condition holds."""
    for condition, text in rules:
        if condition:
            raise UserError(text)

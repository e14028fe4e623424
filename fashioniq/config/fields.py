"""Field functions of settings, and help texts of options that several commands have."""

from pathlib import Path
from typing import Literal

from fashioniq.files import UserError
from fashioniq.options import check, flag, option, required, section

__all__ = [
    "CATALOGS",
    "CATEGORY",
    "DATA",
    "ENCODER",
    "FEATURES",
    "OUT",
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
OUT = "output folder; earlier results in it are replaced"


def refuse(*rules: tuple[object, str]) -> None:
    """Raise UserError with the text of the first rule whose condition holds."""
    for condition, text in rules:
        if condition:
            raise UserError(text)

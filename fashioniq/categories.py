"""The categories as people say them and as the files spell them."""

import re

from fashioniq.files import UserError

FILE_NAMES = {"dresses": "dress", "shirts": "shirt", "tops": "toptee"}
_ALIASES = {"dress": "dresses", "shirt": "shirts", "top": "tops", "toptee": "tops", "toptees": "tops", "tops&tees": "tops"}


def canonical(name: str) -> str:
    """The name that people say: `toptee`, `tops&tees` and `tops` are `tops`. A retailer's own, as `shoes`, stays itself.

    Raises UserError for a name that cannot be part of a file's name.
    """
    name = name.strip().lower()
    name = _ALIASES.get(name, name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise UserError(f"{name!r} cannot name a category: use one of {', '.join(FILE_NAMES)}, or one word of a-z, 0-9, - and _")
    return name


def file_name(name: str) -> str:
    """The name that the files of a category carry: `dresses` is `dress`."""
    name = canonical(name)
    return FILE_NAMES.get(name, name)


def from_file_name(name: str) -> str:
    """The category whose files carry this name: `toptee` is `tops`."""
    return next((category for category, file in FILE_NAMES.items() if file == name), name)

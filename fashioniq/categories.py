"""Category names: canonical names and names in files."""

import re

from fashioniq.files import UserError

FILE_NAMES = {"dresses": "dress", "shirts": "shirt", "tops": "toptee"}
_RESERVED = r"con|prn|aux|nul|(com|lpt)\d"  # no file can have these names on Windows
_ALIASES = {
    "dress": "dresses",
    "shirt": "shirts",
    "top": "tops",
    "toptee": "tops",
    "toptees": "tops",
    "tops&tees": "tops",
}


def canonical(name: str) -> str:
    """Canonical name; that of a category of your own is unchanged.

    >>> canonical("tops&tees"), canonical("Toptee"), canonical("shoes")
    ('tops', 'tops', 'shoes')

    Raises UserError if the name cannot be part of a file name.
    """
    name = name.strip().lower()
    name = _ALIASES.get(name, name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,59}", name) or re.fullmatch(_RESERVED, name):
        raise UserError(
            f"{name[:80]!r} is not a valid category: use one of {', '.join(FILE_NAMES)}, "
            "or one word of at most 60 characters a-z, 0-9, - and _ that Windows does not reserve"
        )
    return name


def file_name(name: str) -> str:
    """Name in the files of a category: `dress` for `dresses`."""
    name = canonical(name)
    return FILE_NAMES.get(name, name)


def singular(name: str) -> str:
    """What one product of a category is called in a sentence: `top` for `tops`; other names are unchanged."""
    name = canonical(name)
    return {"dresses": "dress", "shirts": "shirt", "tops": "top"}.get(name, name)


def from_file_name(name: str) -> str:
    """Category for a name in files: `tops` for `toptee`."""
    return next((category for category, file in FILE_NAMES.items() if file == name), name)

"""Reading of .npy and .npz files, which may be damaged in any way."""

import zlib
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np

from fashioniq.files import refuse_special

# what NumPy raises for damaged files; SyntaxError and TokenError are of their headers, TypeError is of a .npy as .npz
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    BadZipFile,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TokenError,
    TypeError,
    ValueError,
    zlib.error,
)


def open_array(path: Path) -> np.memmap:
    """Memory map of a .npy file without objects. Raises an exception of `UNREADABLE`, or UserError for a pipe."""
    refuse_special(path)
    return np.lib.format.open_memmap(path, mode="r")

"""Reading of .npy and .npz files, which may be damaged in any way."""

import mmap
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Literal
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


def open_array(path: Path, mode: Literal["r", "c"] = "r") -> np.memmap:
    """Memory map of a .npy file without objects; with mode "c", changes stay in memory.

    Raises an exception of `UNREADABLE`, or UserError for a pipe.
    """
    refuse_special(path)
    return np.lib.format.open_memmap(path, mode=mode)


def release(array: np.ndarray) -> None:
    """Return the pages of a memory map that were read to the system, which may keep them in its cache.

    Without this, they count as memory of the process until another process needs it.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)

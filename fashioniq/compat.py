"""Workarounds for imports, such as that of torchvision built for another torch.

The torchvision wheel on PyPI contains operators compiled against a CUDA build of torch. With a CPU-only torch
these cannot be loaded, and `import torchvision` fails with `operator torchvision::nms does not exist`.
Declaring the schemas is sufficient for what this package uses: transforms and models, but not `ops.nms` or
`io.read_image`.

With less address space than torch and BLAS take, loading them ends in a crash, or never; Lightning reads
variables of launchers when it is imported, and Babel the time zone: `check_before_libraries`.

torch and matplotlib make folders in /tmp and in the home folder when they are imported: `keep_caches_together`.
"""

import importlib.util
import os
import struct
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from fashioniq.files import UserError, explaining

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library: Any = None  # a declaration exists as long as its Library object
# variables of launchers, of which Lightning reads the first that is set
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
_ADDRESS_SPACE = 1_200_000_000  # bytes that every command with torch takes, and more


class _BeforeTorchvision(MetaPathFinder):
    """Declare the operators just before torchvision is imported, to avoid importing torch needlessly."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare_torchvision_operators()


def prepare_torchvision() -> None:
    """Declare the operators when torchvision is first imported."""
    if "torchvision" not in sys.modules and not any(
        isinstance(finder, _BeforeTorchvision) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _BeforeTorchvision())


def declare_torchvision_operators() -> bool:
    """Declare the two operators without which the import fails; return whether this was necessary."""
    import torch

    global _library
    if _library is not None:
        return True
    if _compiled_operators_load():
        return False
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        _library.define(schema)
    return True


def _compiled_operators_load() -> bool:
    import torch

    spec = importlib.util.find_spec("torchvision")  # finds it without importing it
    if spec is None or spec.origin is None:
        return True  # not installed, so nothing to fix
    compiled = list(Path(spec.origin).parent.glob("_C*.so")) + list(Path(spec.origin).parent.glob("_C*.pyd"))
    try:
        for library in compiled:
            torch.ops.load_library(library)
    except OSError:
        return False
    return bool(compiled)


class _BeforeLibraries(MetaPathFinder):
    """Raise MemoryError if torch is imported under a limit (`ulimit -v`) in which it has no room, and UserError if
    Lightning, which reads the rank of the process when it is imported, would find no number, or Babel no time zone.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch" and resource:
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            if 0 <= limit < _ADDRESS_SPACE:
                raise MemoryError(f"the limit is {limit / 1e9:.1f} GB of address space")
        if name == "lightning_fabric" and (given := [one for one in _RANKS if one in os.environ]):
            number_in(given[0])
        if name == "babel.localtime":
            check_time_zone()


def check_time_zone() -> None:
    """Raise UserError if the variable TZ names a file that is not a time zone file."""
    path = os.environ.get("TZ", "").removeprefix(":")
    if not os.path.exists(path):  # a name, known or not
        return
    with (
        explaining(
            f"the variable TZ names {path}, which is not a time zone file",
            "; set it to a name such as Europe/Berlin, or unset it",
            (OSError, ValueError, IndexError, struct.error),
        ),
        open(path, "rb") as file,
    ):
        ZoneInfo.from_file(file)


def has_memory_limit() -> bool:
    """Whether the address space of this process is limited (`ulimit -v`)."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def number_in(variable: str, default: int | None = None) -> int:
    """Number in a variable of the environment. Raises UserError if it has none."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"expected a number in the variable {variable}, found {text!r}; set it, or unset it")
    return int(text)


def check_before_libraries() -> None:
    """Look at the limit of the address space when torch is first imported, at the rank before Lightning is, and at the
    time zone before Babel is.
    """
    if not any(isinstance(finder, _BeforeLibraries) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeLibraries())


def keep_caches_together() -> None:
    """Let torch and matplotlib make the folders of their caches in ~/.cache/fashioniq, unless others are given."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "fashioniq")
    for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "torch"), ("MPLCONFIGDIR", "matplotlib")):
        if variable not in os.environ:
            try:
                (root / name).mkdir(parents=True, exist_ok=True)
            except OSError:  # they then use the folders that they would have used
                continue
            os.environ[variable] = str(root / name)

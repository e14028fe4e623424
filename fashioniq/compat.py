"""Lets a torchvision that was built for another torch be imported.

The registry's torchvision carries operators compiled against a CUDA torch. Beside a CPU-only torch that library
cannot be loaded, and `import torchvision` then stops at `operator torchvision::nms does not exist`. Declaring the
schemas is enough for all that this package uses: transforms and models; not `ops.nms`, not `io.read_image`.
"""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library: Any = None  # a declaration lives as long as its Library object


class _BeforeTorchvision(MetaPathFinder):
    """Declares the operators when torchvision is about to be imported, so that who needs no torch need not wait for it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            declare_torchvision_operators()


def prepare_torchvision() -> None:
    """Declare the operators as soon as somebody imports torchvision."""
    if "torchvision" not in sys.modules and not any(isinstance(finder, _BeforeTorchvision) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTorchvision())


def declare_torchvision_operators() -> bool:
    """Declare the two operators whose absence stops the import; return whether that was needed."""
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
        return True  # not installed: nothing to cure
    compiled = list(Path(spec.origin).parent.glob("_C*.so")) + list(Path(spec.origin).parent.glob("_C*.pyd"))
    try:
        for library in compiled:
            torch.ops.load_library(library)
    except OSError:
        return False
    return bool(compiled)

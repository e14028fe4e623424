"""Make torchvision importable if it was built for another torch.

The torchvision wheel on PyPI contains operators compiled against a CUDA build of torch. With a CPU-only torch
these cannot be loaded, and `import torchvision` fails with `operator torchvision::nms does not exist`.
Declaring the schemas is sufficient for what this package uses: transforms and models, but not `ops.nms` or
`io.read_image`.
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
_library: Any = None  # a declaration exists as long as its Library object


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

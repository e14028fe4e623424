import importlib
import importlib.util

import pytest
import torch

from fashioniq import compat


def test_after_the_package_torchvision_timm_and_lightning_can_be_imported():
    # in this process: conftest.py imports the package first, and the last two import torchvision themselves
    for name in ("torchvision", "timm", "pytorch_lightning"):
        assert importlib.import_module(name).__version__
    assert importlib.import_module("torchvision.transforms.v2").Compose


@pytest.fixture
def declared(monkeypatch):
    """The schemas that are declared, nothing having been so far; torch hears of none."""
    schemas = []

    class Library:
        def __init__(self, name, kind):
            assert (name, kind) == ("torchvision", "FRAGMENT")

        def define(self, schema):
            schemas.append(schema.split("(")[0])

    monkeypatch.setattr(compat, "_library", None)
    monkeypatch.setattr(torch.library, "Library", Library)
    return schemas


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A torchvision with a compiled library, of which only the place is ever asked."""
    (tmp_path / "_C.so").write_bytes(b"")
    (tmp_path / "__init__.py").write_text("")
    spec = importlib.util.spec_from_file_location("torchvision", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def test_where_torchvisions_own_library_loads_nothing_is_declared(declared, installed, monkeypatch):
    loaded = []
    monkeypatch.setattr(torch.ops, "load_library", loaded.append)
    assert compat.declare_torchvision_operators() is False
    assert declared == [] and [path.name for path in loaded] == ["_C.so"]


def test_where_it_does_not_load_its_operators_are_declared_once(declared, installed, monkeypatch):
    def fail(path):
        raise OSError("libcudart.so: cannot open shared object file")

    monkeypatch.setattr(torch.ops, "load_library", fail)
    assert compat.declare_torchvision_operators() is True
    assert compat.declare_torchvision_operators() is True
    assert declared == ["nms", "qnms"]


def test_without_torchvision_nothing_is_declared(declared, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert compat.declare_torchvision_operators() is False and declared == []

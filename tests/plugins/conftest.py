"""A tiny package, installed as pip installs one: its modules and entry points lie in a folder of sys.path."""

import json
import sys
from pathlib import Path

import pytest

from fashioniq import plugins

PARTS = {
    "systems": "toy_parts.system",
    "retrievers": "toy_parts.retriever:Bag",
    "users": "toy_parts.user:Terse",
    "askers": "toy_parts.asker:Curious",
    "encoders": "toy_parts.encoder:Letters",
    "generators": "toy_parts.generator:Plain",
    "measures": "toy_parts.measure:SQUARED",
}
NAMES = {kind: "RR2" if kind == "measures" else f"toy-{kind[:-1]}" for kind in PARTS}
PACKAGE = Path(__file__).parent / "package"
TITLES = {
    "a": "dress red long sleeves",
    "b": "dress blue long sleeves",
    "c": "navy skirt pleated",
    "d": "navy coat wool hood",
    "e": "green silk dress belt",
}


def forget():
    plugins._installed.cache_clear()
    for name in [one for one in sys.modules if one.startswith("toy_parts")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def on_path():
    """The modules of the package can be imported, but it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PACKAGE))
        yield
    forget()


@pytest.fixture(scope="module")
def installed(on_path, tmp_path_factory):
    """The package is installed."""
    site = tmp_path_factory.mktemp("site")
    about = site / "toy_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-parts\nVersion: 1.0\n")
    groups = [f"[fashioniq.{kind}]\n{NAMES[kind]} = {place}\n" for kind, place in PARTS.items()]
    (about / "entry_points.txt").write_text("\n".join(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        forget()
        yield
    forget()


@pytest.fixture(scope="module")
def titles(tmp_path_factory):
    """A file of titles."""
    path = tmp_path_factory.mktemp("titles") / "titles.json"
    path.write_text(json.dumps(TITLES))
    return path

"""Write the run that `fashioniq demo` shows to fashioniq/sample/demo/: the retriever that `make demo` trained, and the
features of the first dresses of its catalog.

    make demo && python tools/build_demo.py [DEMO]
"""

import sys
from pathlib import Path

import msgspec
import numpy as np

from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore
from fashioniq.files import checksum, write_json
from fashioniq.sample.shop import CATEGORY, PACKED, PRODUCTS

RUN = ("model.json", "weights.safetensors", "wording.json", "labels.safetensors", "config.yaml")


def build(demo: Path) -> None:
    """Copy the run and the rows of the store; the run names the catalog where `fashioniq demo` draws it."""
    run, features = PACKED / "run", PACKED / "features"
    for folder in (run, features):
        folder.mkdir(parents=True, exist_ok=True)
    for name in RUN:
        (run / name).write_bytes((demo / "runs" / "retriever" / name).read_bytes())
    store = FeatureStore(demo / "catalog" / "features" / "dress")
    wanted = sorted(
        name for split in ("train", "val", "test") for name in Catalog(demo / "catalog", CATEGORY).ids(split)
    )
    rows = [store.ids.index(name) for name in wanted[:PRODUCTS]]
    for name in ("features.npy", "attributes.npy"):
        np.save(features / name, np.load(store.root / name)[rows])
    write_json(features / "ids.json", [store.ids[row] for row in rows], indent=None)
    sums = {name: checksum(features / name) for name in ("features.npy", "attributes.npy", "ids.json")}
    facts = msgspec.structs.replace(store.facts, count=len(rows), checksums=sums)
    write_json(features / "store.json", msgspec.to_builtins(facts), indent=None)


if __name__ == "__main__":
    build(Path(*sys.argv[1:] or ["demo"]))

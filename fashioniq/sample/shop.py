"""The shop of `fashioniq demo`: 240 drawn dresses, and a trained run with their features that the package carries."""

import shutil
from pathlib import Path

import yaml

from fashioniq.files import atomic_write, read_json, write_json, write_text
from fashioniq.sample import draw_sample
from fashioniq.yaml_files import read_yaml

CATEGORY, PRODUCTS = "dresses", 240
PACKED = Path(__file__).parent / "demo"  # made by tools/build_demo.py


def make_shop(folder: Path) -> Path:
    """Draw the catalog to `folder`/catalog, and copy the run to `folder`/run, which is returned.

    Raises UserError if the folder cannot be written, or if its catalog is no drawn sample.
    """
    catalog, run = folder / "catalog", folder / "run"
    draw_sample(catalog, PRODUCTS, categories=[CATEGORY])
    for source, target in (("features", catalog / "features" / "dress"), ("run", run)):
        for file in (PACKED / source).iterdir():
            with atomic_write(target / file.name) as path:
                shutil.copyfile(file, path)
    about = read_json(run / "model.json", "the model", dict)
    write_json(run / "model.json", about | {"data": about["data"] | {"folder": str(catalog.resolve())}})
    settings = read_yaml(run / "config.yaml") | {"data": str(catalog.resolve()), "run": str(run)}
    write_text(run / "config.yaml", yaml.safe_dump(settings, sort_keys=False))
    return run

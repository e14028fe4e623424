"""`fashioniq draw-sample`."""

from pathlib import Path

from fashioniq.config import DrawSample
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.sample import draw_sample


def run(settings: DrawSample) -> Path:
    """Draw the sample catalog and print its contents."""
    print(f"drawing {3 * settings.products:,} products, about 200 a second …", flush=True)
    draw_sample(settings.data, settings.products, settings.seed)
    for category in categories_in(settings.data):
        catalog = Catalog(settings.data, category)
        splits = ", ".join(f"{split} {len(catalog.ids(split))}" for split in ("train", "val", "test"))
        print(f"{category}: {splits} drawn products, {len(catalog.pairs('train'))} captioned training pairs")
    print(f"drawn sample catalog in {settings.data}")
    return settings.data

"""`fashioniq train-linear`."""

import dataclasses
from pathlib import Path

import msgspec
import yaml

from fashioniq.categories import canonical
from fashioniq.config import TrainLinear
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import describe_data, pairs_with_features, run_folder
from fashioniq.features.store import open_store
from fashioniq.files import UserError, write_text
from fashioniq.models.configs import RetrieverConfig
from fashioniq.provenance import provenance
from fashioniq.runs import described, save_model
from fashioniq.training.linear import fit_linear


def run(settings: TrainLinear) -> None:
    """Fit the linear retriever of a category on recorded captions."""
    folder = run_folder(settings.run, "linear", settings.category, attrs=False)
    if (folder / "model.json").exists():
        raise UserError(f"{folder} already has a run; choose another --run, or remove the folder")
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features)
    pairs = pairs_with_features(catalog, store, "train")
    items = store.items(catalog.ids("train"))
    vocabulary = Vocabulary.of((text for pair in pairs for text in pair.captions), settings.min_count)
    model, found = fit_linear(pairs, items, vocabulary, settings.seed)
    sizes = RetrieverConfig(kind="linear", width=store.size).sizes(
        vocabulary=len(vocabulary),
        features=store.size,
        attributes=0,
        bigrams=len(model.bigram_G),
        max_words=model.max_words,
    )
    facts = {
        "kind": "retriever",
        "category": canonical(settings.category),
        "attrs": False,
        "model": "linear",
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog, {"train": len(pairs) / len(catalog.pairs("train"))}),
        "user": None,
        "loss": "ridge regression",
        "users": ["recorded"],
        "dialogs": "recorded",
        "metrics": found,
        "provenance": provenance({canonical(settings.category): catalog.fingerprint()}),
    }
    _write_config(folder, settings)
    save_model(folder, model, described(msgspec.to_builtins(facts)))
    print(
        f"linear retriever in {folder}: {len(pairs)} pairs, {len(vocabulary)} words, {sizes['bigrams']} bigrams, "
        f"penalty {found['penalty']:g}, held-out P {found['held_out_P']:.1f}"
    )


def _write_config(folder: Path, settings: TrainLinear) -> None:
    values = dataclasses.asdict(settings) | {"run": folder}
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
    path = folder / "config.yaml"
    write_text(path, f"# fashioniq train-linear --config {path}\n" + yaml.safe_dump(plain, sort_keys=False))

"""Search without training: the vectors of a pretrained encoder, and the words of the catalog.

Denials and wishes count by the score of words, by default with the weights WEIGHTS, which outweigh any similarity.
`prepare_zero_shot` writes this as a run, which other commands take. Where the catalog has people's captions, they
choose these weights and how much the product talked about counts.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import torch
import yaml

from fashioniq import encoders
from fashioniq.askers.best_item import BestItem
from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.wording import Weights, WordingRun, obeying
from fashioniq.data.words import Vocabulary
from fashioniq.encoders.protocol import Encoder, encodes_pictures, unit
from fashioniq.features.cards import cards_of
from fashioniq.features.store import FeatureStore
from fashioniq.features.stores import check_encoder, is_complete, store_of_encoder
from fashioniq.files import UserError, write_text
from fashioniq.locks import locked
from fashioniq.loop.rollout import System
from fashioniq.loop.weighing import CAPTIONS, Asked, best_weights
from fashioniq.loop.wording import Wording
from fashioniq.models.device import pick_device
from fashioniq.models.labels import LabelModel
from fashioniq.runs import CatalogOrigin, ZeroShotRun, read_run
from fashioniq.runs.galleries import gallery_of
from fashioniq.runs.training_data import Selection, data_of, recorded_settings
from fashioniq.runs.weights import save_model, save_wording
from fashioniq.runs.wording import wanted_by, with_words_of
from fashioniq.runs.zero_shot import SHOWN, Means, ZeroShotRetriever, load_zero_shot_retriever

WEIGHTS = obeying(lexical=0.01)
MEANT = 256  # texts of which the mean is taken
SHOWN_OR = (0.0, 0.25, SHOWN, 1.0, 2.0)  # choices of the weight of the product talked about
FEWEST = 100  # captions of people, from which on they choose the weights
AMONG = 20_000  # products of train at most, among which their targets are ranked


def prepare_zero_shot(
    name: str,
    data: Path | None,
    category: str | None,
    features: Path | None = None,
    device: str = "auto",
    *,
    out: Path | None = None,
) -> Path:
    """Write the run of an encoder and a category of a catalog to `out`, if it is not there; return its folder.

    By default, this is a folder in DATA/zero-shot, and the feature store of DATA is completed. With `out`, nothing is
    written to DATA, and a missing store to `out`/features. Raises UserError if the encoder cannot be loaded, has no
    text half, or has other vectors.
    """
    if data is None:
        raise UserError(
            f"--encoder {name} needs products to search; give the folder of a catalog with --data"
        )
    if category is None:
        known = categories_in(data)
        if len(known) != 1:
            raise UserError(
                f"expected one category in {data}, found {', '.join(known) or 'none'}; give --category"
            )
        category = known[0]
    catalog = Catalog(data, category)
    short = re.sub("[^A-Za-z0-9_.-]+", "-", Path(name).name)
    run = out or catalog.root / "zero-shot" / f"{file_name(catalog.category)}-{short}"
    if (run / "model.json").exists() and _is_current(run, catalog, features):
        return run
    encoder = encoders.load(name, device=pick_device(device), catalog=catalog)
    encoder.texts([])  # refuses an encoder of pictures alone
    if features is None:
        store = store_of_encoder(catalog, name, encoder, out and out / "features")
    else:
        store = FeatureStore(features)
        check_encoder(store, name, encoder)
    where = {"encoder": str(Path(name).resolve()) if Path(name).is_dir() else name}
    settings = where | {
        "data": str(catalog.root.resolve()),
        "category": catalog.category,
        "features": str(store.root.resolve()),
    }
    means = _means(encoder, store, catalog)
    weights, shown, figures = _fit(encoder, means, store, catalog)
    with locked(run):
        save_wording(
            run, LabelModel(encoder.size, 0), WordingRun(weights=weights, labels=[], figures=figures)
        )
        write_text(run / "config.yaml", yaml.safe_dump(settings, allow_unicode=True))
        about = ZeroShotRun(
            kind=ZeroShotRun.KIND,
            category=catalog.category,
            encoder=where["encoder"],
            features=store.identity,
            data=CatalogOrigin(folder=settings["data"], fingerprint=catalog.fingerprint()),
            shown=shown,
        )
        save_model(run, means, about)
    return run


def _is_current(run: Path, catalog: Catalog, features: Path | None) -> bool:
    """Whether a run has the captions of the catalog and these features, by default complete ones; `load` compares the
    encoder.
    """
    about, settings = read_run(run, ZeroShotRun), recorded_settings(run)
    root = Path(str(settings.get("features")))
    if settings.get("data") != str(catalog.root.resolve()):  # the catalog was moved
        return False
    if not (root / "store.json").exists():  # removed, to extract all features again
        return False
    found = FeatureStore(root)
    same = about.features == found.identity and about.data.fingerprint == catalog.fingerprint()
    there = is_complete(found, catalog) if features is None else found.root.resolve() == features.resolve()
    return same and there


def _means(encoder: Encoder, store: FeatureStore, catalog: Catalog) -> Means:
    """Means of the vectors of all products, and of labels where products are pictures."""
    means = Means(encoder.size)
    products_ND = unit(store.items(store.ids).features_ND[:])
    means.products_D.copy_(products_ND.mean(0))
    if not encodes_pictures(encoder):
        means.texts_D.copy_(means.products_D)
        return means
    labels = {word: None for lists in catalog.labels.values() for words in lists for word in words}
    if texts := list(labels)[:MEANT]:
        means.texts_D.copy_(encoder.texts(texts).cpu().mean(0))
    return means


@torch.no_grad()
def _fit(
    encoder: Encoder, means: Means, store: FeatureStore, catalog: Catalog
) -> tuple[Weights, float, dict[str, float]]:
    """The weights of words and of the product talked about by which the targets of people's captions rank best; the
    default ones with fewer than FEWEST captions.
    """
    try:
        pairs = catalog.pairs("train") if catalog.captions_origin == "human" else []
    except UserError:  # this category has no captions
        pairs = []
    asked = [
        (pair.candidate, text, pair.target)
        for pair in pairs
        if pair.target and pair.candidate in store and pair.target in store
        for text in pair.captions
    ]
    if len(asked) < FEWEST:
        return WEIGHTS, SHOWN, {}
    asked = random.Random(0).sample(asked, min(CAPTIONS, len(asked)))
    told = [name for candidate, _, target in asked for name in (candidate, target)]
    items = store.items(list(dict.fromkeys([*told, *catalog.ids("train")]))[:AMONG])
    wording = Wording.of(catalog, items.ids, Vocabulary([]), Weights(), learned=())
    retriever = ZeroShotRetriever(encoder, means, torch.device("cpu"))
    retriever.wanted = wanted_by(wording)
    vectors_ND, words_ED = (
        items.embedded(retriever.embed_images).cpu(),
        retriever.words([text for _, text, _ in asked]),
    )
    place = items.positions
    parts = [wording.parts(text, place[candidate]) for candidate, text, _ in asked]

    def examples(shown: float) -> Iterator[Asked]:
        for (candidate, _, target), words_D, part in zip(asked, words_ED, parts, strict=True):
            query_D = unit(words_D + shown * vectors_ND[place[candidate]])
            yield Asked(vectors_ND @ query_D, part, place[candidate], place[target])

    found = {shown: best_weights(examples(shown)) for shown in SHOWN_OR}
    shown, (weights, figures) = max(found.items(), key=lambda choice: choice[1][1]["near"])
    return weights, shown, figures


def load(run: Path, chosen: Selection) -> System:
    """Load the system of a run of `prepare_zero_shot`. Raises UserError if a file is missing or does not match."""
    catalog, store = data_of(run, chosen.data, chosen.category, chosen.features)
    device = pick_device(chosen.device)
    retriever = load_zero_shot_retriever(run, catalog, store, device)
    items = store.items(catalog.gallery_ids(chosen.split), read=chosen.stored is None).to(device)
    gallery = gallery_of(run, items, retriever.embed_images, store.fingerprint(), chosen.stored)
    system = System(retriever, BestItem(), gallery, cards=cards_of(catalog, store, items.ids))
    return with_words_of(system, run, catalog, Vocabulary([]), chosen.words)

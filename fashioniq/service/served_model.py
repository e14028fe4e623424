"""A trained run that is served: its system, its version, and what the page and the API need to know of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from pydantic import BaseModel
from torch import Tensor

from fashioniq.data.cards import Product
from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import language
from fashioniq.data.offers import Offer
from fashioniq.data.words import tokenize
from fashioniq.features.store import StoreIdentity
from fashioniq.files import UserError, read_json
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.milvus import MilvusSearch, alias_of
from fashioniq.loop.rollout import MAX_WORDS, System
from fashioniq.runs import DialogEncoderRun, kind_of, read_run
from fashioniq.runs.training_data import category_of, recorded_settings, sha256_of, version_of
from fashioniq.service.facets import Facets
from fashioniq.service.product_columns import ProductColumns
from fashioniq.service.uploads import Uploads
from fashioniq.systems import load

Request = TypeVar("Request", bound=BaseModel)

LIKE_MEAN = 0.7  # weight of the similarity with the mean, against that with the products already chosen
TYPICAL = 8  # products shown to someone who has not said anything
COMMON = 4  # frequent requests that the page offers
MANY = 20_000  # captions that are counted for them
CANDIDATES = 2000  # products among which others are chosen, if those are not allowed


@dataclass(eq=False)
class Served:
    """A model in service. `asks` tells whether it asks questions, or shows pictures that it generated, instead of
    showing a product to talk about."""

    version: str
    category: str
    folder: Path
    sha256: str
    system: System
    asks: bool
    max_words: int  # of one reply
    max_turns: int | None  # of the dialogs of the training, None where it has no limit
    requests: list[str]  # frequent requests
    metrics: dict[str, float]
    uploads: Uploads | None = None
    offers: InitVar[Mapping[str, Offer] | None] = None  # of the catalog folder, by product id
    labels: InitVar[Mapping[str, Sequence[Sequence[str]]] | None] = (
        None  # of the catalog folder, six lists each
    )
    speech: str = "en"  # language of the labels

    def __post_init__(
        self,
        offers: Mapping[str, Offer] | None,
        labels: Mapping[str, Sequence[Sequence[str]]] | None,
    ) -> None:
        gallery = self.system.gallery
        of_folder = offers or {}, labels or {}, self.system.cards.titles, gallery.mean_1D.tolist()
        # of what the catalog folder and the vectors are
        self.catalog_sha256 = hashlib.sha256(msgspec.json.encode(of_folder, order="sorted")).hexdigest()
        items = gallery.items
        self.shelf = ProductColumns(items.positions, offers)
        learned: list[tuple[str, str, np.ndarray]] = []
        if (wording := self.system.wording) is not None:
            wording.labels_of(0)  # what is computed when it is first needed
            learned = [(label, wording.family_of(label) or "", has_N) for label, has_N in wording.learned()]
        self.facets = Facets(items.ids, labels or {}, language(self.speech), learned)
        self.typical: list[str] = []  # ids of products for someone who has not said anything
        self.typical = self.first(torch.ones(len(items.ids), dtype=torch.bool), TYPICAL)

    @classmethod
    def of(
        cls,
        run: Path,
        *,
        split: str = "test",
        device: str = "auto",
        uploads: Sequence[Uploads] = (),
        index: str | None = None,
        gallery: str | None = None,
        generator: str | None = None,
    ) -> "Served":
        """Load a run of train-retriever, train-composer, train-dialog-encoder or train-chatsearcher.

        With `index`, products are searched in a FAISS index, which is stored in the run; with `gallery` in Milvus.

        Pictures can be uploaded if one of `uploads` has the encoder of the features, and the model shows products to
        talk about. With a `generator`, a dialog encoder searches with generated pictures, which that encoder embeds.
        Raises UserError if the run or the offers of its catalog cannot be loaded, or if its category is unknown.
        """
        generated: dict[str, Any] = {}
        if generator is not None and kind_of(run) == DialogEncoderRun.KIND:
            of_store = read_run(run, DialogEncoderRun).features
            predictor = next((one.folder for one in uploads if one.fits(of_store)), None)
            generated = {"generator": generator, "predictor": predictor}
        system = load(run, split=split, device=device, index=index, gallery=gallery, **generated)
        system = replace(system, offers=None)  # the shelf has today's, and limits that were said are filters
        about, settings = read_json(run / "model.json", "the model", dict), recorded_settings(run)
        category = category_of(run)
        sizes = about.get("sizes") or {}
        identity = msgspec.convert(about["features"], StoreIdentity) if about.get("features") else None
        asks = not system.shows_items
        usable = [one for one in uploads if identity and not asks and one.fits(identity)]
        version = version_of(run, category)
        if generates := getattr(system.retriever, "identity", None):
            # conversations cannot go on with another generator
            facts = json.dumps(dict(generates), sort_keys=True)
            version += f"-{hashlib.sha256(facts.encode()).hexdigest()[:6]}"
        return cls(
            version=version,
            category=category,
            folder=run,
            sha256=sha256_of(run),
            system=system,
            asks=asks,
            max_words=getattr(system.retriever, "max_words", MAX_WORDS),
            max_turns=sizes.get("max_turns"),
            requests=[] if generated else _frequent(settings, category),
            metrics={k: v for k, v in (about.get("metrics") or {}).items() if isinstance(v, (int, float))},
            uploads=next(iter(usable), None),
            **_catalog(settings, category),
        )

    def point_alias(self) -> None:
        """Let the alias of the category in Milvus name this model, if its gallery is there. Raises EngineError."""
        if isinstance(search := self.system.gallery.index, MilvusSearch):
            search.point_alias(alias_of(self.category))

    @property
    def products_sha256(self) -> str:
        """Hash of the ids of the products."""
        return hashlib.sha256("\n".join(self.system.gallery.items.ids).encode()).hexdigest()

    @property
    def draws(self) -> bool:
        """Whether it searches with a picture that it generates from the last words alone."""
        return self.system.shows_pictures

    @property
    def features(self) -> dict[str, bool]:
        """What this model can do."""
        return {
            "questions": self.asks and not self.draws,
            "pictures": self.uploads is not None,
            "generated_pictures": self.draws,
            "filters": bool(self.shelf.known),
        }

    def first(self, allowed_N: Tensor, count: int) -> list[str]:
        """Ids of products for someone who has not said anything, of those in a mask."""
        gallery = self.system.gallery
        if count <= len(self.typical) and bool(allowed_N.all()):
            return self.typical[:count]
        item_M = allowed_N.nonzero()[:, 0]
        item_M = item_M[:: max(1, -(-len(item_M) // CANDIDATES))].to(gallery.vectors_ND.device)
        chosen = diverse(gallery.vectors_ND[item_M], gallery.mean_1D[0], count)
        return [gallery.items.ids[item] for item in item_M[chosen].tolist()]

    def product(self, name: str, live: Dialog) -> Product:
        """A product at its distance from the query of a dialog."""
        gallery = self.system.gallery
        vector_D = gallery.vectors_ND[gallery.items.positions[name]].float()
        return self.system.cards.product(name, (vector_D - live.query.vector_BD[0]).norm().item())

    def own(self, name: str) -> str:
        """The id of a product as the catalog writes it; of an unknown one the composed form."""
        return self.system.gallery.items.spellings.own(name)

    def spelled(self, given: Request) -> Request:
        """A request that names products as the catalog writes them."""
        names = {
            field: getattr(given, field, None)
            for field in ("about", "like", "less_like", "product_id", "product")
        }
        return given.model_copy(update={field: self.own(name) for field, name in names.items() if name})

    def __contains__(self, name: str) -> bool:
        return name in self.system.gallery.items.positions


def _catalog(settings: dict[str, Any], category: str) -> dict[str, Any]:
    """Offers, labels and language in the catalog folder of a run; none if the folder is gone.

    Raises UserError for damaged ones.
    """
    try:
        catalog = Catalog(Path(str(settings.get("data"))), category)
    except UserError:
        return {}
    return {"offers": catalog.offers, "labels": catalog.labels, "speech": catalog.language}


def _frequent(settings: dict[str, Any], category: str) -> list[str]:
    """Frequent captions of the training split that the model can read, at most COMMON; none without captions."""
    try:
        pairs = Catalog(Path(str(settings.get("data"))), category).pairs("train")
    except (UserError, OSError, msgspec.ValidationError):
        return []
    counted = Counter(caption for pair in pairs[:MANY] for caption in pair.captions)
    return _apart([caption for caption, _ in counted.most_common(10 * COMMON)])[:COMMON]


def _apart(texts: Sequence[str]) -> list[str]:
    """Texts of which no two share more than half of their words."""
    kept: list[str] = []
    for text in texts:
        words = set(tokenize(text))
        if all(2 * len(words & set(tokenize(one))) <= len(words) for one in kept) and len(text) <= 40:
            kept.append(text)
    return kept


def diverse(vectors_ND: Tensor, mean_D: Tensor, count: int) -> list[int]:
    """Positions of `count` vectors by maximal marginal relevance (Carbonell & Goldstein, SIGIR 1998).

    Each is the one most similar to the mean and least similar to the most similar one of those before; similarities
    are cosines.
    """
    unit_ND = F.normalize(vectors_ND.float(), dim=1)
    typical_N = unit_ND @ F.normalize(mean_D.float(), dim=0)
    chosen: list[int] = []
    alike_N = torch.zeros_like(typical_N)
    for _ in range(min(count, len(unit_ND))):
        gain_N = LIKE_MEAN * typical_N - (1 - LIKE_MEAN) * alike_N
        gain_N[chosen] = -torch.inf
        chosen.append(int(gain_N.argmax()))
        similarity_N = unit_ND @ unit_ND[chosen[-1]]
        alike_N = similarity_N if len(chosen) == 1 else torch.maximum(alike_N, similarity_N)
    return chosen

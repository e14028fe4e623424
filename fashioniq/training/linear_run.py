"""Training run of the linear retriever that is fitted by ridge regression, and of the listener of a captioner."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.sessions import with_steps
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import describe_data, pairs_with_features
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import LinearRetriever
from fashioniq.provenance import provenance
from fashioniq.runs.checks import described
from fashioniq.runs.weights import save_model
from fashioniq.training.folder import refuse_foreign, write_config
from fashioniq.training.linear import fit_linear
from fashioniq.training.user_names import SESSIONS, check_users, folders_of_sessions, sessions_of
from fashioniq.training.wording import fit_wording


def fit_to_captions(settings: TrainRetriever, folder: Path) -> str:
    """Fit the linear retriever of a category without epochs, to recorded captions, and to sessions in --users; return
    a summary.

    Its width is that of the features. Raises UserError if a file is missing, or if the folder already has a run.
    """
    if (folder / "model.json").exists():
        raise UserError(f"{folder} already has a run; choose another --run, or remove the folder")
    refuse_foreign(folder)
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features)
    pairs = pairs_with_features(catalog, store, "train")
    items = store.items(catalog.ids("train"))
    check_users(settings.users)
    sessions = sessions_of(folders_of_sessions(settings.users), catalog.category, items)
    said = with_steps(pairs, sessions)
    vocabulary = Vocabulary.of(text for pair in said for text in pair.captions)
    model, found = fit_linear(said, items, vocabulary, settings.seed)
    facts = linear_facts(model, vocabulary, catalog=catalog, store=store, pairs=pairs) | {"metrics": found}
    facts["users"] += [SESSIONS] if sessions else []
    # a damaged file is refused before the run is begun
    _ = catalog.labels, catalog.titles, catalog.descriptions, catalog.all_ids()
    write_config(folder, settings)  # first, so that the command may start again after it was killed
    words = fit_wording(folder, catalog, items, pairs, vocabulary, seed=settings.seed, share=1.0)
    save_model(folder, model, described(facts))
    return (
        f"linear retriever in {folder}: {len(said)} pairs, {len(vocabulary)} words, {len(model.bigram_G)} bigrams, "
        f"penalty {found['penalty']:g}, held-out P {found['held_out_P']:.1f}\n{words}"
    )


def linear_facts(
    model: LinearRetriever,
    vocabulary: Vocabulary,
    *,
    catalog: Catalog,
    store: FeatureStore,
    pairs: Sequence[Pair],
) -> dict[str, Any]:
    """Content of model.json for a linear retriever that was fitted to these pairs of the training split."""
    sizes = RetrieverConfig(kind="linear", width=model.width).sizes(
        vocabulary=len(vocabulary),
        features=store.size,
        attributes=0,
        bigrams=len(model.bigram_G),
        max_words=model.max_words,
    )
    return {
        "kind": "retriever",
        "category": canonical(catalog.category),
        "attrs": False,
        "model": "linear",
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog, store, {"train": len(pairs) / len(catalog.pairs("train"))}),
        "user": None,
        "loss": "ridge regression",
        "users": ["recorded"],
        "dialogs": "recorded",
        "provenance": provenance({canonical(catalog.category): catalog.fingerprint()}),
    }

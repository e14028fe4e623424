"""`fashioniq train-composer`."""

from dataclasses import replace

from fashioniq.askers.best_item import BestItem
from fashioniq.config import TrainComposer
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import describe_data, pairs_with_features, split_items
from fashioniq.features.store import open_store
from fashioniq.runs import RetrieverRun
from fashioniq.training.dialog_sources import RecordedDialogs, RecordedTurns
from fashioniq.training.fitting import model_facts
from fashioniq.training.folder import Trained, alone, begin_run, folder_of
from fashioniq.training.retriever_run import coverage_of, fit_retriever, new_retriever
from fashioniq.training.users import MAX_WORDS
from fashioniq.training.verdict import advice
from fashioniq.training.wording import fit_wording


def run(settings: TrainComposer) -> Trained[RetrieverRun]:
    """Train the composer of a category on recorded captions, or one for each of --margins; return the best on val."""
    if not settings.margins:
        return _train(settings)
    folder, trained = folder_of(settings), {}
    for margin in dict.fromkeys(settings.margins):
        of_margin = folder.with_name(f"{folder.name}-margin-{margin:g}")
        begun = settings.resume and (of_margin / "last.ckpt").exists()
        trained[margin] = _train(replace(settings, margins=[], margin=margin, run=of_margin, resume=begun))
    best = max(trained, key=lambda margin: (trained[margin].about.metrics or {})["val_score"])
    print(f"the best margin on val is {best:g}: {trained[best].folder}")
    return trained[best]


@alone
def _train(settings: TrainComposer) -> Trained[RetrieverRun]:
    folder = folder_of(settings)
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    pairs = {split: pairs_with_features(catalog, store, split) for split in ("train", "val")}
    captions = [text for pair in pairs["train"] for text in pair.captions]
    vocabulary = Vocabulary.of(captions)
    items = {split: split_items(catalog, store, split) for split in pairs}
    recorded = {
        split: RecordedTurns.of_pairs(some, items[split], vocabulary, MAX_WORDS)
        for split, some in pairs.items()
    }
    source = RecordedDialogs(recorded, items)
    model, sizes = new_retriever(
        settings, store, vocabulary, captions=captions, max_words=MAX_WORDS, max_turns=1
    )
    helpful = advice(catalog, store)
    _ = catalog.titles, catalog.descriptions  # a damaged file is refused before the run is begun
    data = describe_data(catalog, store, coverage_of(catalog, items, pairs))
    facts = model_facts("retriever", settings, store, vocabulary, sizes, data=data) | {
        "user": None,
        "loss": settings.loss,
        "negatives": settings.negatives,
        "users": ["recorded"],
        "dialogs": "recorded",
        "errors": 0.0,
        "exclude_shown": False,
    }
    words = ""
    if begin_run(folder, settings, facts):
        words = (
            fit_wording(folder, catalog, items["train"], pairs["train"], vocabulary, seed=settings.seed)
            + "\n"
        )
    best, verdict = fit_retriever(settings, folder, model, [source], facts, asker=BestItem())
    print(f"{best}, {len(recorded['val'])} recorded captions")
    print(f"{words}{verdict}{helpful}")
    return Trained.of(settings, RetrieverRun)

"""`fashioniq train-retriever`."""

from functools import partial
from pathlib import Path

from fashioniq.askers.best_item import BestItem
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import check_enough_to_show, pairs_with_features, run_folder, split_items
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.trained import load_captioner
from fashioniq.training.fitting import begin_run
from fashioniq.training.retriever import (
    BothDialogs,
    DialogSource,
    RecordedDialogs,
    RecordedTurns,
    SimulatedDialogs,
)
from fashioniq.training.retriever_run import MAX_WORDS, Splits, new_retriever, retriever_facts, train

CAPTIONED = {
    "simulated": (),
    "recorded": ("train", "val"),
    "both": ("train",),
}  # splits whose recorded captions are used


def run(settings: TrainRetriever) -> None:
    """Train the retriever of a category with a frozen captioner, on recorded captions, or on both."""
    folder = run_folder(settings.run, "retriever", settings.category, settings.attrs)
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    pairs = {split: pairs_with_features(catalog, store, split) for split in CAPTIONED[settings.dialogs]}
    captioner, vocabulary, user_run = _user(settings, store, pairs)
    max_words = captioner.max_words if captioner else MAX_WORDS
    items = {split: split_items(catalog, store, split) for split in ("train", "val")}
    recorded = {
        split: RecordedTurns(some, items[split], vocabulary, max_words) for split, some in pairs.items()
    }
    check_enough_to_show(settings, *items.values())
    source = _source(settings, captioner, vocabulary, items, recorded)
    model, sizes = new_retriever(settings, store, vocabulary, max_words=max_words, max_turns=source.turns)
    begin_run(folder, "train-retriever", settings)
    facts = retriever_facts(
        settings, store, vocabulary, sizes, Splits(catalog, items, None if captioner else pairs)
    ) | {
        "user": user_run and str(user_run),
        "loss": settings.loss,
        "negatives": settings.negatives,
        "dialogs": settings.dialogs,
        "errors": settings.word_noise,
        "exclude_shown": settings.exclude_shown,
    }
    best = train(settings, folder, model, source, facts, asker=BestItem(settings.exclude_shown))
    user = f"user {user_run}" if captioner else f"{len(recorded['val'])} recorded captions"
    print(f"{best}, {user}")


def _source(
    settings: TrainRetriever,
    captioner: BaseCaptioner | None,
    vocabulary: Vocabulary,
    items: dict[str, Items],
    recorded: dict[str, RecordedTurns],
) -> DialogSource:
    """Training dialogs that --dialogs selects."""
    if captioner is None:
        return RecordedDialogs(recorded, items)
    source_class = partial(BothDialogs, recorded["train"]) if settings.dialogs == "both" else SimulatedDialogs
    return source_class(
        captioner,
        vocabulary,
        items,
        turns=settings.turns,
        beams=settings.beam,
        seed=settings.seed,
        word_noise=settings.word_noise,
    )


def _user(
    settings: TrainRetriever, store: FeatureStore, pairs: dict[str, list[Pair]]
) -> tuple[BaseCaptioner | None, Vocabulary, Path | None]:
    """The captioner, its vocabulary and its run; for recorded captions alone no captioner, and the words of
    train."""
    if settings.dialogs == "recorded":
        if settings.word_noise:
            raise UserError(
                f"--word-noise {settings.word_noise} needs a simulated user; "
                "it cannot be combined with --dialogs recorded"
            )
        if settings.exclude_shown:
            raise UserError(
                "--exclude-shown needs several turns; it cannot be combined with --dialogs recorded"
            )
        return None, Vocabulary.of(text for pair in pairs["train"] for text in pair.captions), None
    run = run_folder(settings.captioner, "captioner", settings.category, settings.attrs)
    if not settings.captioner and not run.exists():
        command = f"fashioniq train-captioner --category {settings.category}"
        raise UserError(
            f"found no captioner in {run}, the default of --captioner; train it with "
            f"`{command}{' --attrs' if settings.attrs else ''}`, give another with --captioner, or train "
            "without a captioner with --dialogs recorded"
        )
    captioner, vocabulary, _ = load_captioner(run, settings.category, store)
    return captioner, vocabulary, run

"""Training run of a relative captioner, with the listener that it speaks to in dialogs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.config import TrainCaptioner
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.words import PAD, SPECIAL, Vocabulary, tokenize
from fashioniq.features.selection import describe_data, pairs_with_features
from fashioniq.features.store import open_store
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.ranking import percentile
from fashioniq.metrics.speech import truthfulness
from fashioniq.models.configs import SMALL
from fashioniq.runs.checks import described
from fashioniq.runs.predictor import head_of
from fashioniq.runs.trained import JUDGE, LISTENER, create
from fashioniq.runs.weights import save_model
from fashioniq.training.captioner import CaptionerTraining, caption_examples, put_together
from fashioniq.training.fitting import fit, loaders, model_facts
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.linear import fit_listener, two_halves
from fashioniq.training.linear_run import linear_facts
from fashioniq.training.verdict import advice, of_captioner
from fashioniq.users.pragmatic import Listener

RELEASED = 5  # epochs from one validation to the next in the released code, which selects by BLEU-3


@alone
def train_captioner(settings: TrainCaptioner) -> tuple[Path, str, str]:
    """Train the captioner of a category; return its folder, a summary of the best epoch, and whether it is good.

    Raises UserError if a file is missing or does not match.
    """
    folder = folder_of(settings)
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    head = head_of(settings.predictor, store)[0] if settings.predictor else None
    pairs = {split: pairs_with_features(catalog, store, split) for split in ("train", "val")}
    items = {
        split: store.items(
            list(dict.fromkeys(name for pair in some for name in (pair.target, pair.candidate) if name))
        )
        for split, some in pairs.items()
    }
    coverage = {split: len(some) / len(catalog.pairs(split)) for split, some in pairs.items()}
    vocabulary = _vocabulary(pairs, settings.min_count)
    settings = _sized(settings, pairs["train"])
    listeners = fit_listeners(pairs["train"], items["train"], vocabulary, settings.seed)
    judge, _ = listeners[JUDGE]
    pl.seed_everything(settings.seed, verbose=False)
    _print_unknown(vocabulary, [text for pair in pairs["val"] for text in pair.captions])
    attributes = len(store.attribute_words) if settings.attrs else 0
    sizes = settings.model.sizes(vocabulary=len(vocabulary), features=store.size, attributes=attributes)
    sizes |= {"scores": True} if head else {}
    model = create("captioners", settings.model.kind, sizes)
    if head:
        model.scores.take(head)
    data = describe_data(catalog, store, coverage)
    facts = model_facts("captioner", settings, store, vocabulary, sizes, data=data)
    said = ((text, str(pair.target), pair.candidate) for pair in pairs["train"] for text in pair.captions)
    truth = StatementCheck.of(catalog)
    if (share := truthfulness(said, truth)["true"]) is not None:
        facts["captions_true"] = share
    max_words = settings.model.max_words
    train = caption_examples(pairs["train"], items["train"], vocabulary, max_words)
    reference_N, target_N, _ = caption_examples(pairs["val"], items["val"], vocabulary, max_words)
    module = CaptionerTraining(
        model,
        train=items["train"],
        val=items["val"],
        vocabulary=vocabulary,
        val_pairs=pairs["val"],
        judge=judge,
        truth=truth,
        noam_factor=settings.noam_factor,
        warmup=settings.warmup,
        beam=settings.beam,
        select=settings.select,
    )
    if begin_run(folder, settings, facts):
        for name, (listener, half) in listeners.items():
            fitted = linear_facts(listener.model, vocabulary, catalog=catalog, store=store, pairs=half)
            save_model(folder / name, listener.model, described(fitted))
    val = TensorDataset(reference_N, target_N, torch.arange(len(reference_N)))
    captions = int((train[2][:, :, 0] != PAD).sum())
    pairs_a_step = max(1, round(settings.batch_size * len(train[2]) / captions))
    batches = loaders(TensorDataset(*train), val, pairs_a_step, settings.seed, collate=put_together)
    every = RELEASED if settings.select == "BLEU-3" else 1
    best = fit(
        module, model, batches, run=folder, settings=settings, facts=facts, monitor="val_score", every=every
    )
    summary = (
        f"captioner of epoch {best['epoch']:.0f} in {folder}: by its captions, a linear retriever fitted to the "
        f"recorded ones finds the target with P {best['val_P']:.1f}, R@10 {best['val_R@10']:.1f}; BLEU-4 "
        f"{best['val_BLEU-4']:.1f} on {len(pairs['val'])} pairs of val "
        f"({100 * coverage['val']:.1f} %), beam {settings.beam}, captions: {catalog.captions_origin}"
    )
    people = [(pair.candidate, pair.captions[0], str(pair.target)) for pair in pairs["val"]]
    silent = [(shown, "", target) for shown, _, target in people]
    with_people, alone = (
        percentile(judge.ranks(said, items["val"]), len(items["val"])) for said in (people, silent)
    )
    verdict = of_captioner(best["val_P"], with_people, alone, len(people))
    return folder, summary, f"{verdict}{advice(catalog, store)}"


def fit_listeners(
    pairs: Sequence[Pair], items: Items, vocabulary: Vocabulary, seed: int
) -> dict[str, tuple[Listener, list[Pair]]]:
    """Fit the listener that the captioner speaks to and the judge of its captions; each with its half of the pairs."""
    halves = zip((LISTENER, JUDGE), two_halves(pairs, seed), strict=True)
    return {name: (fit_listener(half, items, vocabulary), half) for name, half in halves}


def _vocabulary(pairs: Mapping[str, Sequence[Pair]], min_count: int) -> Vocabulary:
    """Words of the captions of train."""
    return Vocabulary.of((text for pair in pairs["train"] for text in pair.captions), min_count)


def _sized(settings: TrainCaptioner, pairs: list[Pair]) -> TrainCaptioner:
    """Settings with sizes for these pairs; prints those that were not given."""
    sized = settings.for_pairs(len(pairs), sum(len(pair.captions) for pair in pairs))
    if sized != settings:
        model = sized.model
        print(
            f"sizes for {len(pairs):,} pairs: width {model.width}, layers {model.layers}, {sized.batch_size} captions "
            f"per step, warmup of {sized.warmup} steps (the paper's 512, 6, 64 and 4,000 from {SMALL:,} pairs on)"
        )
    return sized


def _print_unknown(vocabulary: Vocabulary, texts: list[str]) -> None:
    unknown = vocabulary.unknown(texts)
    share = 100 * unknown.total() / sum(len(tokenize(text)) for text in texts)
    examples = f", such as {', '.join(word for word, _ in unknown.most_common(5))}" if unknown else ""
    print(f"{len(vocabulary) - len(SPECIAL)} words; {share:.1f} % of the words of val are unknown{examples}")

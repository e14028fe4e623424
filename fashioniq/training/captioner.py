"""Training of the relative captioner on human captions, with the listener that it speaks to in dialogs:
cross-entropy of the next word, Noam schedule.

Validation reports corpus BLEU, and how well a linear retriever fitted to recorded captions finds the
target by them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import TensorDataset

from fashioniq.config import TrainCaptioner
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import END, PAD, SPECIAL, START, Vocabulary, tokenize
from fashioniq.features.selection import describe_data, pairs_with_features
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.captions import bleu
from fashioniq.metrics.measures import percentile, recall_at
from fashioniq.metrics.speech import truthfulness
from fashioniq.models.configs import SMALL
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.runs.checks import described
from fashioniq.runs.predictor import head_of
from fashioniq.runs.trained import JUDGE, LISTENER, create
from fashioniq.runs.weights import save_model
from fashioniq.training.fitting import fit, loaders, model_facts
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.linear import fit_listener, two_halves
from fashioniq.training.linear_run import linear_facts
from fashioniq.training.processes import FusedTraining, mean_over_processes, stepwise
from fashioniq.training.verdict import advice, captioner_verdict
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
            list(dict.fromkeys(name for pair in of_split for name in (pair.target, pair.candidate) if name))
        )
        for split, of_split in pairs.items()
    }
    coverage = {split: len(of_split) / len(catalog.pairs(split)) for split, of_split in pairs.items()}
    vocabulary = _vocabulary(pairs, settings.min_count)
    settings = _sized(settings, pairs["train"])
    listeners = fit_listeners(pairs["train"], items["train"], vocabulary, settings.seed)
    judge, _ = listeners[JUDGE]
    pl.seed_everything(settings.seed, verbose=False)
    _print_unknown(vocabulary, [text for pair in pairs["val"] for text in pair.captions])
    model, sizes = _new_captioner(settings, store, vocabulary, head)
    data = describe_data(catalog, store, coverage)
    facts = model_facts("captioner", settings, store, vocabulary, sizes, data=data)
    statements = (
        (text, str(pair.target), pair.candidate) for pair in pairs["train"] for text in pair.captions
    )
    truth = StatementCheck.of(catalog)
    if (share := truthfulness(statements, truth)["true"]) is not None:
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
    batches = loaders(TensorDataset(*train), val, pairs_a_step, settings.seed, collate=collate_pairs)
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
    verdict = _verdict(best["val_P"], judge, pairs["val"], items["val"])
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


def _new_captioner(
    settings: TrainCaptioner, store: FeatureStore, vocabulary: Vocabulary, head: nn.Linear | None
) -> tuple[BaseCaptioner, dict[str, Any]]:
    """Untrained captioner, with the attribute head of a predictor if there is one, and its sizes."""
    attributes = len(store.attribute_words) if settings.attrs else 0
    sizes = settings.model.sizes(vocabulary=len(vocabulary), features=store.size, attributes=attributes)
    sizes |= {"scores": True} if head else {}
    model = create("captioners", settings.model.kind, sizes)
    if head:
        model.scores.take(head)
    return model, sizes


def _verdict(percentile_of_captioner: float, judge: Listener, pairs: Sequence[Pair], items: Items) -> str:
    """Compare the captioner's captions with people's, and with none, by how well the judge finds the targets."""
    people = [(pair.candidate, pair.captions[0], str(pair.target)) for pair in pairs]
    silent = [(shown, "", target) for shown, _, target in people]
    by_people, by_none = (percentile(judge.ranks(said, items), len(items)) for said in (people, silent))
    return captioner_verdict(percentile_of_captioner, by_people, by_none, len(pairs))


def _print_unknown(vocabulary: Vocabulary, texts: list[str]) -> None:
    unknown = vocabulary.unknown(texts)
    share = 100 * unknown.total() / sum(len(tokenize(text)) for text in texts)
    examples = f", such as {', '.join(word for word, _ in unknown.most_common(5))}" if unknown else ""
    print(f"{len(vocabulary) - len(SPECIAL)} words; {share:.1f} % of the words of val are unknown{examples}")


LANGUAGE = 20.0  # BLEU-1 below which captions are no language


def caption_examples(
    pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Encode captioned pairs: positions of references N and targets N, and words with start and end,
    N×K×(L+2).

    Missing captions of pairs with fewer than K are all padding.
    """
    position_of = items.positions
    captioned = [pair for pair in pairs if pair.target and pair.captions]
    words_RL = vocabulary.encode([text for pair in captioned for text in pair.captions], max_words)
    length_R = (words_RL != PAD).sum(1)
    framed_RL = torch.cat(
        [torch.full((len(words_RL), 1), START), words_RL, torch.full((len(words_RL), 1), PAD)], 1
    )
    framed_RL[torch.arange(len(words_RL)), length_R + 1] = END
    of_pairs = framed_RL.split([len(pair.captions) for pair in captioned])
    words_NKL = pad_sequence(of_pairs, batch_first=True, padding_value=PAD)
    reference_N = torch.tensor([position_of[pair.candidate] for pair in captioned])
    return reference_N, torch.tensor([position_of[str(pair.target)] for pair in captioned]), words_NKL


def collate_pairs(examples: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    """Collate pairs into a batch, trimmed to its largest number of captions per pair and longest caption."""
    reference_B, target_B, words_BKL = (torch.stack(parts) for parts in zip(*examples, strict=True))
    there_KL = (words_BKL != PAD).any(0)
    return [reference_B, target_B, words_BKL[:, : int(there_KL[:, 0].sum()), : int(there_KL.any(0).sum())]]


class CaptionerTraining(FusedTraining):
    """Lightning module for relative captioners.

    Training batches are (reference, target, words of the captions); validation batches are (reference,
    target, number of the pair). All captions of a pair are in one batch, so that images and attributes are
    encoded once. Without a `judge`, a listener that the captioner does not speak to, validation does not
    measure how informative captions are; without `truth`, the check by labels, not how true. `val_true`
    is 0 if no caption states anything that labels decide. `val_score` chooses the epoch: P, or the BLEU
    that `select` names. P can be high before captions are language, as the listener sees the item shown,
    too; such epochs count only if there are no others.
    """

    def __init__(
        self,
        model: BaseCaptioner,
        *,
        train: Items,
        val: Items,
        vocabulary: Vocabulary,
        val_pairs: list[Pair],
        judge: Listener | None = None,
        truth: StatementCheck | None = None,
        noam_factor: float,
        warmup: int,
        beam: int,
        select: str = "P",
    ) -> None:
        super().__init__()
        self.model, self.vocabulary, self.val_pairs, self.judge = model, vocabulary, val_pairs, judge
        self.noam_factor, self.warmup, self.beam, self.truth = noam_factor, warmup, beam, truth
        self.select = select
        self.items = {"train": train, "val": val}  # no buffers: DDP would broadcast them in every step
        self._captions: list[tuple[int, str]] = []

    def on_fit_start(self) -> None:
        self.items = {split: items.to(self.device) for split, items in self.items.items()}

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        reference_B, target_B, words_BKL = batch
        words_RL = words_BKL.flatten(0, 1)
        logits_RLV = self.model(
            self._inputs("train", reference_B), self._inputs("train", target_B), words_RL[:, :-1]
        )
        next_RL = words_RL[:, 1:]
        loss = F.cross_entropy(logits_RLV.flatten(0, 1), next_RL.flatten(), ignore_index=PAD, reduction="sum")
        # ranks have different numbers of words
        return loss / mean_over_processes((next_RL != PAD).sum().to(loss.dtype))

    def on_validation_epoch_start(self) -> None:
        self._captions = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        reference_B, target_B, number_B = batch
        words_BL = self.model.beam(self._inputs("val", reference_B), self._inputs("val", target_B), self.beam)
        self._captions += zip(number_B.tolist(), self.vocabulary.decode(words_BL), strict=True)

    def on_validation_epoch_end(self) -> None:
        """Log BLEU, the share of true statements, P and R@10 of the judge, who tells informative captions from vague
        ones, and the score.
        """
        pairs = [self.val_pairs[number] for number, _ in self._captions]
        texts = [text for _, text in self._captions]
        scores = bleu(texts, [pair.captions for pair in pairs])
        found = {f"BLEU-{n}": scores[n - 1] for n in (4, 3, 1)}
        if self.truth:
            said = ((text, str(pair.target), pair.candidate) for text, pair in zip(texts, pairs, strict=True))
            found["true"] = 100 * (truthfulness(said, self.truth)["true"] or 0.0)
        if self.judge is not None:
            examples = [
                (pair.candidate, text, str(pair.target)) for pair, text in zip(pairs, texts, strict=True)
            ]
            rank_N, items = self.judge.ranks(examples, self.items["val"]), len(self.items["val"])
            found |= {"P": percentile(rank_N, items), "R@10": recall_at(rank_N, 10)}
        if self.select in found:
            found["score"] = found[self.select]
            if self.select == "P" and found["BLEU-1"] < LANGUAGE:
                found["score"] -= 100.0
        for name, value in found.items():
            self.log(f"val_{name}", value)

    def configure_optimizers(self) -> Any:
        rate = self.noam_factor * self.model.width**-0.5
        optimizer = torch.optim.Adam(
            self.model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=self.can_fuse
        )
        return stepwise(optimizer, lambda step: min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5))

    def _inputs(self, split: str, item_B: Tensor) -> ItemInputs:
        return self.items[split].inputs(item_B)

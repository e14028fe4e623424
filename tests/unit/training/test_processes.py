"""Two processes that share each batch train as one does; bfloat16 trains as float32 does."""

import csv

import pytest
import torch
from torch.utils.data import TensorDataset

from fashioniq.askers.best_item import BestItem
from fashioniq.config import TrainCaptioner, TrainRetriever
from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.models.captioner import Captioner
from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.training import processes
from fashioniq.training.captioner import CaptionerTraining, caption_examples, collate_pairs
from fashioniq.training.dialog_sources import RecordedDialogs, RecordedTurns
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.losses import turn_loss
from fashioniq.training.processes import FusedTraining, shared_out, whole_batch
from fashioniq.training.retriever import DialogsInTurn, RetrieverTraining
from fashioniq.training.users import captioner_dialogs
from fashioniq.users.captioner import Simulator

N = 24
WORDS = [f"word{n}" for n in range(26)]
VOCABULARY = Vocabulary(WORDS)
PAIRS = [Pair(str(n), str((n + 5) % N), (" ".join(WORDS[: 1 + n % 7]), WORDS[n])) for n in range(N)]
SIZES = {"width": 16, "heads": 2, "hidden": 32, "layers": 1}
FEATURES = {"encoder": "none", "weights": "none", "image_size": None, "dimensions": 12, "attribute_words": []}
COMMON = {
    "category": "dresses",
    "attrs": True,
    "model": "transformer",
    "sizes": {},
    "words": [],
    "features": FEATURES,
}
FACTS = {
    "captioner": {"kind": "captioner", **COMMON, "data": {}},
    "retriever": {"kind": "retriever", **COMMON, "data": {}, "user": None},
}
OF_DATA = {"vocabulary": len(VOCABULARY), "features": 12, "attributes": 10}


def train(run, kind, loss="triplet", word_noise=0.0, batch=8, devices=1, strategy="auto", **options):
    """Train for two epochs; the rows of metrics.csv."""
    torch.manual_seed(0)
    items = Items([str(n) for n in range(N)], torch.randn(N, 12), torch.randint(1, 10, (N, 8)))
    captioner = Captioner(CaptionerConfig(**SIZES, dropout=0.0), **OF_DATA)
    common = {"category": "dresses", "epochs": 2, "device": "cpu", "devices": devices, **options}
    if kind == "captioner":
        settings, model, monitor = TrainCaptioner(**common), captioner, "val_BLEU-4"
        own = {"vocabulary": VOCABULARY, "val_pairs": PAIRS, "noam_factor": 1.0, "warmup": 40, "beam": 1}
        module = CaptionerTraining(model, train=items, val=items, **own)
        reference_N, target_N, words_NKL = caption_examples(PAIRS, items, VOCABULARY, 8)
        data = (
            TensorDataset(reference_N, target_N, words_NKL),
            TensorDataset(reference_N, target_N, torch.arange(N)),
        )
        batches = loaders(*data, batch // devices, 0, collate=collate_pairs)
    else:
        settings, monitor = TrainRetriever(**common), "val_score"
        model = DialogRetriever(RetrieverConfig(**SIZES, attention="both-ways"), **OF_DATA)
        recorded, both = RecordedTurns.of_pairs(PAIRS, items, VOCABULARY, 8), {"train": items, "val": items}
        own = {"turns": 2, "seed": 0, "word_noise": word_noise}
        simulated = captioner_dialogs(Simulator(captioner, VOCABULARY), VOCABULARY, both, **own)
        source = DialogsInTurn([simulated, RecordedDialogs({"train": recorded, "val": recorded}, both)])
        learning = {
            "loss": turn_loss(loss),
            "negatives": "batch",
            "learning_rate": 1e-3,
            "schedule": "constant",
        }
        module = RetrieverTraining(model, source, BestItem(), **learning)
        data = TensorDataset(torch.arange(N))
        batches = loaders(data, data, batch // devices, 0)
    fit(
        module,
        model,
        batches,
        run=run,
        settings=settings,
        facts=FACTS[kind],
        monitor=monitor,
        strategy=strategy,
    )
    with open(run / "metrics.csv", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("captioner", {}), ("retriever", {}), ("retriever", {"loss": "cross-entropy", "word_noise": 0.3})],
    ids=str,
)
def test_two_processes_get_the_losses_of_one_with_the_same_batch(kind, options, tmp_path):
    alone = train(tmp_path / "one", kind, **options)
    shared = train(tmp_path / "two", kind, devices=2, strategy="ddp_fork", **options)
    assert len(alone) == len(shared) == 2 and alone[0]["train_loss"] != alone[1]["train_loss"]
    for one, other in zip(alone, shared, strict=True):
        assert other == pytest.approx(one, rel=1e-4)


@pytest.mark.parametrize("kind", ["captioner", "retriever"])
def test_bfloat16_trains_to_nearly_the_losses_of_float32(kind, tmp_path):
    rows = [train(tmp_path / precision, kind, precision=precision) for precision in ("32-true", "bf16-mixed")]
    for one, other in zip(*rows, strict=True):
        assert 0 < abs(other["train_loss"] - one["train_loss"]) < 0.03 * one["train_loss"]


def test_the_shares_of_all_processes_are_gathered_in_the_order_of_the_batch(monkeypatch):
    whole_B, shares = 10 * torch.arange(6), []
    for rank in range(3):
        monkeypatch.setattr(processes, "rank_and_count", lambda rank=rank: (rank, 3))
        shares.append(shared_out(whole_B))

    def all_gather(parts, own_B):
        assert torch.equal(own_B, shares[2])
        parts[:] = shares

    monkeypatch.setattr(processes.dist, "all_gather", all_gather)
    assert torch.equal(whole_batch(shares[2]), whole_B)


def test_the_training_clips_its_gradients_itself():
    module = FusedTraining()
    module.weight = torch.nn.Parameter(torch.ones(4))
    module.weight.grad = torch.full((4,), 100.0)
    module.configure_gradient_clipping(None, 5.0)
    assert module.weight.grad.norm().item() == pytest.approx(5.0)

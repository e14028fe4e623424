"""Two processes that share each batch train as one does; bfloat16 trains as float32 does."""

import csv

import pytest
import torch
from torch.utils.data import TensorDataset

from fashioniq.askers import BestItem
from fashioniq.config import TrainCaptioner, TrainRetriever
from fashioniq.data.catalog import Pair
from fashioniq.data.features import Items
from fashioniq.data.words import Vocabulary
from fashioniq.models.captioner import Captioner
from fashioniq.models.retriever import DialogRetriever
from fashioniq.training.captioner import CaptionerTraining, caption_examples, put_together
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.losses import turn_loss
from fashioniq.training.processes import FusedTraining
from fashioniq.training.retriever import RecordedTurns, RetrieverTraining

N = 24
WORDS = [f"word{n}" for n in range(26)]
VOCABULARY = Vocabulary(WORDS)
PAIRS = [Pair(str(n), str((n + 5) % N), (" ".join(WORDS[: 1 + n % 7]), WORDS[n])) for n in range(N)]
SIZES = {"width": 16, "heads": 2, "hidden": 32, "layers": 1, "dropout": 0.0}


def train(run, kind, loss="triplet", errors=0.0, batch=8, devices=1, **options):
    """Train for two epochs; the rows of metrics.csv."""
    torch.manual_seed(0)
    items = Items([str(n) for n in range(N)], torch.randn(N, 12), torch.randint(1, 10, (N, 8)))
    captioner = Captioner(len(VOCABULARY), 12, 10, **SIZES)
    common = {"category": "dresses", "epochs": 2, "accelerator": "cpu", "devices": devices, **options}
    if kind == "captioner":
        settings, model, monitor = TrainCaptioner(**common), captioner, "val_BLEU-4"
        module = CaptionerTraining(model, items, items, VOCABULARY, [pair.captions for pair in PAIRS], 1.0, 40, 1)
        reference_N, target_N, words_NKL = caption_examples(PAIRS, items, VOCABULARY, 8)
        data = TensorDataset(reference_N, target_N, words_NKL), TensorDataset(reference_N, target_N, torch.arange(N))
        batches = loaders(*data, batch // devices, 0, collate=put_together)
    else:
        settings, monitor = TrainRetriever(**common), "val_score"
        model = DialogRetriever(len(VOCABULARY), 12, 10, **SIZES)
        recorded = {"train": RecordedTurns(PAIRS, items, VOCABULARY, 8)}
        module = RetrieverTraining(
            model, captioner, VOCABULARY, items, items, recorded, BestItem(), 2, turn_loss(loss), "batch", 1, 1e-3, "constant", 0, errors
        )
        data = TensorDataset(torch.arange(N))
        batches = loaders(data, data, batch // devices, 0)
    fit(module, model, *batches, run, settings, {}, monitor)
    with open(run / "metrics.csv", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("kind", "options"), [("captioner", {}), ("retriever", {}), ("retriever", {"loss": "cross-entropy", "errors": 0.3})], ids=str
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


def test_the_training_clips_its_gradients_itself():
    module = FusedTraining()
    module.weight = torch.nn.Parameter(torch.ones(4))
    module.weight.grad = torch.full((4,), 100.0)
    module.configure_gradient_clipping(None, 5.0)
    assert module.weight.grad.norm().item() == pytest.approx(5.0)

"""What all trainings share: the order and the random numbers of an epoch, and what may change when one is resumed."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import TensorDataset

from fashioniq.config import TrainRetriever
from fashioniq.files import UserError
from fashioniq.training.fitting import (
    Halfway,
    KeepBest,
    Shuffled,
    _fit_or_explain,
    begin_run,
    epoch_seed,
    loaders,
)
from fashioniq.training.nodes import Peers


def order_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def test_every_epoch_has_an_order_of_its_own_that_depends_on_the_seed():
    orders = [order_of(Shuffled(20, seed), epoch) for seed in (0, 1) for epoch in range(3)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in orders}) == 6
    assert order_of(Shuffled(20, 1), 2) == orders[-1]


def test_only_the_examples_of_train_are_shuffled():
    train, val = loaders(TensorDataset(torch.arange(20)), TensorDataset(torch.arange(5)), 4, seed=0)
    train.sampler.set_epoch(1)
    seen = torch.cat([batch for (batch,) in train]).tolist()
    assert seen == order_of(Shuffled(20, 0), 1) and seen != sorted(seen)
    assert torch.cat([batch for (batch,) in val]).tolist() == list(range(5))


def drawn(seed, epoch, batch=0):
    """A random number after the start of a batch."""
    torch.manual_seed(99)
    best = KeepBest(None, None, None, monitor="val_score", seed=seed, patience=1)
    best.on_train_batch_start(SimpleNamespace(current_epoch=epoch), None, None, batch)
    return torch.rand(1).item()


def test_every_epoch_has_random_numbers_of_its_own_that_depend_on_the_seed():
    assert len({drawn(seed, epoch) for seed in (0, 1) for epoch in range(3)}) == 6
    assert drawn(1, 2) == drawn(1, 2) and drawn(0, 0, batch=1) == drawn(1, 1, batch=1) != drawn(0, 0)


def test_epochs_of_other_seeds_have_other_seeds():
    assert epoch_seed(7, 3) == 700_024  # so in every version, as figures are repeated by their seeds
    assert len({epoch_seed(seed, epoch) for seed in range(50) for epoch in range(50)}) == 2500


@pytest.mark.parametrize(
    ("waited", "stopped", "stops"), [(2, False, False), (3, False, True), (2, True, True)]
)
def test_a_resumed_training_that_has_waited_long_enough_stops(waited, stopped, stops):
    stopping = SimpleNamespace(wait_count=waited, patience=99)
    trainer = SimpleNamespace(early_stopping_callbacks=[stopping], should_stop=stopped)
    KeepBest(None, None, None, monitor="val_score", seed=0, patience=3).on_train_start(trainer, None)
    assert trainer.should_stop == stops and stopping.patience == 3


CHANGED = {
    "seed": 1,
    "batch_size": 2,
    "learning_rate": 0.5,
    "turns": 2,
    "loss": "triplet",
    "users": ["recorded"],
}


@pytest.mark.parametrize("option", CHANGED)
def test_a_run_is_not_resumed_with_another_value_of_an_option_that_decides_its_figures(option, tmp_path):
    same = {"category": "dresses", "run": tmp_path, "schedule": "constant"}
    begin_run(tmp_path, TrainRetriever(**same))
    torch.save({}, tmp_path / "last.ckpt")
    same |= {"resume": True, "epochs": 99, "patience": 9}
    begin_run(tmp_path, TrainRetriever(**same))
    with pytest.raises(UserError, match=f"was started with {option} "):
        begin_run(tmp_path, TrainRetriever(**same, **{option: CHANGED[option]}))


@pytest.mark.parametrize(
    "error", [AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError], ids=str
)
def test_a_checkpoint_that_cannot_be_loaded_is_named_and_an_error_of_a_training_is_raised(error, tmp_path):
    def fails(*_, **__):
        raise error("odd")

    def fit(loaded):
        resumption = SimpleNamespace(loaded=loaded)
        trainer = SimpleNamespace(fit=fails)
        _fit_or_explain(trainer, None, (None, None), Peers(tmp_path, {}), resumption=resumption)

    with pytest.raises(UserError, match=r"cannot resume: .*last\.ckpt is not of this training"):
        fit(loaded=False)
    with pytest.raises(error, match="odd"):
        fit(loaded=True)


def test_weights_are_validated_and_saved_halfway_and_trained_on_from_where_they_were():
    model = torch.nn.Linear(2, 1)
    before, bias = model.weight.detach().clone(), model.bias.detach().clone()
    halfway = Halfway(model)
    for trained in (1.0, 2.0):  # two epochs
        with torch.no_grad():
            model.weight.copy_(before + trained)
        halfway.on_validation_start(None, None)
        assert torch.allclose(model.weight, before + trained / 2) and torch.equal(model.bias, bias)
        halfway.on_train_epoch_end(None, None)
        assert torch.allclose(model.weight, before + trained)

"""What all trainings share: the order and the random numbers of an epoch, and what may change when one is resumed."""

import dataclasses
from types import SimpleNamespace

import msgspec
import pytest
import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments import LightningEnvironment, SLURMEnvironment
from torch.utils.data import TensorDataset

from fashioniq.config import TrainRetriever
from fashioniq.data.images import UnreadableImage
from fashioniq.files import UserError
from fashioniq.loop.exact import NotFiniteError
from fashioniq.provenance import Provenance
from fashioniq.runs import DialogEncoderRun, PredictorRun, read_run
from fashioniq.runs.checks import described, fingerprints
from fashioniq.training import callbacks, fitting
from fashioniq.training.callbacks import Halfway, KeepBest, Resumption, epoch_seed
from fashioniq.training.fitting import Shuffled, _fit_or_explain, accelerator_of, fit, loaders
from fashioniq.training.folder import begin_run
from fashioniq.training.processes import Peers


def order_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def test_every_epoch_has_an_order_of_its_own_that_depends_on_the_seed():
    orders = [order_of(Shuffled(20, seed), epoch) for seed in (0, 1) for epoch in range(3)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in orders}) == 6
    assert order_of(Shuffled(20, 1), 2) == orders[-1]


def test_a_sampler_begins_with_the_first_epoch():
    assert list(Shuffled(20, 3)) == order_of(Shuffled(20, 3), 0)


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


def test_a_picture_that_becomes_unreadable_is_told_with_the_way_on(tmp_path):
    def unreadable(*_, **__):
        raise UnreadableImage("Traceback … UnreadableImage: a.jpg is gone")

    trainer = SimpleNamespace(fit=unreadable)
    with pytest.raises(UserError, match=r"during training, a\.jpg is gone; restore it"):
        _fit_or_explain(trainer, None, (None, None), Peers(tmp_path, {}), resumption=None)


def test_weights_are_validated_and_saved_halfway_and_trained_on_from_where_they_were():
    model = torch.nn.Linear(2, 1)
    before, bias = model.weight.detach().clone(), model.bias.detach().clone()
    halfway = Halfway(list(model.parameters()))
    for trained in (1.0, 2.0):  # two epochs
        with torch.no_grad():
            model.weight.copy_(before + trained)
        halfway.on_validation_start(None, None)
        assert torch.allclose(model.weight, before + trained / 2) and torch.equal(model.bias, bias)
        halfway.on_train_epoch_end(None, None)
        assert torch.allclose(model.weight, before + trained)


class Epoch:
    """Stands for the trainer at the end of an epoch."""

    def __init__(self, number, **figures):
        self.current_epoch, self.is_global_zero, self.check_val_every_n_epoch = number, True, 1
        self.callback_metrics = {name: torch.tensor(value) for name, value in figures.items()}

    def print(self, text, flush):
        self.printed = text


@pytest.fixture
def best(tmp_path):
    about = described(
        {"kind": "attribute predictor", "category": "dresses", "encoder": "e", "image_size": 32,
         "attribute_words": [], "data": {"fingerprints": {"dresses": "f"}}}
    )  # fmt: skip
    return KeepBest(tmp_path, torch.nn.Linear(2, 1), about, monitor="val_score", seed=0, patience=1)


def ended(best, number, losses=(1.0, 2.0), **figures):
    epoch = Epoch(number, **figures)
    best._losses = []
    for loss in losses:
        best.on_train_batch_end(epoch, None, {"loss": torch.tensor(loss, requires_grad=True)}, None, 0)
    best.on_validation_start(epoch, None)
    best.on_train_epoch_end(epoch, epoch)
    return epoch


def test_each_epoch_is_a_row_and_the_best_one_is_saved(best, tmp_path):
    about = PredictorRun
    first = ended(best, 0, val_score=2.0, val_R=10.0, lr=0.5)
    assert first.printed == "epoch 0  train_loss 1.5  val_score 2  val_R 10"
    weights = (tmp_path / "weights.safetensors").read_bytes()
    with torch.no_grad():
        best.model.weight.add_(1)
    for number, score in ((1, 2.0), (2, 1.0)):  # as good is not better
        ended(best, number, val_score=score, val_R=20.0)
        assert (tmp_path / "weights.safetensors").read_bytes() == weights
    assert read_run(tmp_path, about).metrics == {"epoch": 0, "train_loss": 1.5, "val_score": 2, "val_R": 10}
    ended(best, 3, losses=(3.0,), val_score=2.5, val_R=30.0)
    assert (tmp_path / "weights.safetensors").read_bytes() != weights
    assert read_run(tmp_path, about).metrics["epoch"] == 3 and best.best["val_score"] == 2.5
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert rows[0] == "epoch,train_loss,val_score,val_R" and rows[4] == "3.0,3.0,2.5,30.0" and len(rows) == 5
    ended(best, 2, losses=(5.0,), val_score=0.0, val_R=0.0)  # resumed: later epochs are repeated
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["epoch", "0.0", "1.0", "2.0"] and ",5.0,0.0" in rows[3]
    assert best.trained


def test_other_processes_write_nothing_and_a_loss_that_is_not_finite_ends(best, tmp_path):
    epoch = Epoch(0, val_score=1.0)
    epoch.is_global_zero = False
    best.on_train_epoch_end(epoch, epoch)
    assert not best.trained and not list(tmp_path.iterdir()) and best.best["val_score"] == 1.0
    with pytest.raises(UserError, match="training diverged in epoch 4"):
        ended(best, 4, losses=(1.0, float("nan")), val_score=1.0)


def test_a_resumed_training_knows_its_best_epoch_and_the_time_before(best, monkeypatch):
    monkeypatch.setattr(callbacks, "seconds", lambda: {"clock": 2.0, "processor": 3.0})
    best.best = {"val_score": 3.0}
    state = best.state_dict()
    assert state["best"] == {"val_score": 3.0} and state["seconds"] == {"clock": 2.0, "processor": 3.0}
    again = KeepBest(None, None, best.about, monitor="val_score", seed=0, patience=1)
    again.load_state_dict({"best": {"val_score": 4.0}, "seconds": {"clock": 10.0}})
    state |= {"best": {"val_score": 4.0}, "seconds": {"clock": 12.0, "processor": 3.0}}
    assert again.state_dict() == state


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("data", {"data": SimpleNamespace(fingerprint="g")}),
        ("features", {"features": "of another encoder"}),
        ("words", {"words": ["red", "blue"]}),
    ],
)
def test_a_training_is_not_resumed_with_other_data_features_or_words(part, changed, best):
    run = {"category": "tops", "data": SimpleNamespace(fingerprint="f"), "features": "of an encoder"}
    best.about = SimpleNamespace(**run, words=["blue", "red"])
    best.best, state = {"val_score": 3.0}, best.state_dict()
    best.load_state_dict(state)
    vars(best.about).update(changed)
    with pytest.raises(UserError, match=f"cannot resume: the {part} of .* have changed since it was started"):
        best.load_state_dict(state)


def test_a_run_whose_data_have_changed_is_refused_when_it_is_begun(best, tmp_path):
    settings = TrainRetriever(category="dresses", run=tmp_path / "run")
    begin_run(settings.run, settings)
    saved = {"callbacks": {"KeepBest": {"made_of": {"data": "of other captions"}}}}
    torch.save(saved, settings.run / "last.ckpt")
    facts = msgspec.structs.asdict(best.about)
    facts = {name: value for name, value in facts.items() if value is not msgspec.UNSET and name != "version"}
    with pytest.raises(UserError, match=r"cannot resume: the data of .* have changed"):
        begin_run(settings.run, dataclasses.replace(settings, resume=True), facts)


def test_the_data_and_the_features_of_a_run_may_be_moved_before_it_is_resumed(tmp_path):
    begun(tmp_path / "run", data="shop", features="store")
    torch.save({}, tmp_path / "run" / "last.ckpt")
    assert begun(tmp_path / "run", data="moved/shop", features="moved/store", resume=True)


class Worsening(pl.LightningModule):
    """Each epoch is worse than the one before."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch):
        return self.model(batch[0]).square().mean()

    def validation_step(self, batch):
        self.log("val_score", -float(self.current_epoch), batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_the_provenance_is_that_of_the_whole_training_and_not_until_its_best_epoch(
    best, tmp_path, monkeypatch
):
    epochs = iter(range(9))
    monkeypatch.setattr(KeepBest, "provenance", lambda self: Provenance(seconds={"wall": next(epochs)}))
    batches = (torch.utils.data.DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2),) * 2
    settings = TrainRetriever(category="dresses", run=tmp_path, epochs=3, device="cpu")
    model, facts = torch.nn.Linear(2, 1), msgspec.to_builtins(best.about)
    fit(Worsening(model), model, batches, run=tmp_path, settings=settings, facts=facts, monitor="val_score")
    assert read_run(tmp_path, PredictorRun).metrics["epoch"] == 0 and next(epochs) == 2
    assert read_run(tmp_path, PredictorRun).provenance.seconds == {"wall": 1}


@pytest.mark.parametrize(
    ("every", "epochs", "patience", "validated"),
    [(5, 12, 10, [4, 9]), (5, 20, 10, [4, 9, 14]), (5, 20, 5, [4, 9]), (5, 3, 10, [2]), (2, 5, 1, [1, 3])],
)
def test_one_epoch_of_some_is_validated_and_the_patience_is_in_epochs(
    best, tmp_path, every, epochs, patience, validated
):
    batches = (torch.utils.data.DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2),) * 2
    settings = TrainRetriever(
        category="dresses", run=tmp_path, epochs=epochs, patience=patience, device="cpu"
    )
    model, facts = torch.nn.Linear(2, 1), msgspec.to_builtins(best.about)
    options = {"run": tmp_path, "settings": settings, "facts": facts, "monitor": "val_score", "every": every}
    figures = fit(Worsening(model), model, batches, **options)
    rows = (tmp_path / "metrics.csv").read_text().splitlines()[1:]
    assert [int(float(row.partition(",")[0])) for row in rows] == validated
    assert figures["epoch"] == validated[0] and figures["val_score"] == -validated[0]


def fitted(best, run, epochs, loss=None, resume=False):
    """Train with a validation of every fifth epoch."""
    batches = (torch.utils.data.DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2),) * 2
    settings = TrainRetriever(category="dresses", run=run, epochs=epochs, device="cpu", resume=resume)
    model = torch.nn.Linear(2, 1)
    module = Worsening(model)
    if loss:
        step = module.training_step
        module.training_step = lambda batch: step(batch) * loss(module.current_epoch)
    facts = msgspec.to_builtins(best.about)
    return fit(module, model, batches, run=run, settings=settings, facts=facts, monitor="val_score", every=5)


def test_a_loss_that_is_not_finite_ends_a_training_in_an_epoch_without_validation(best, tmp_path):
    with pytest.raises(UserError, match="training diverged in epoch 2: its loss"):
        fitted(best, tmp_path, 20, lambda epoch: float("nan") if epoch == 2 else 1.0)
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["epoch"] == 1  # still finite


def test_a_training_that_is_resumed_to_end_before_its_first_validation_says_so(best, tmp_path):
    with pytest.raises(UserError, match="diverged in epoch 3"):
        fitted(best, tmp_path, 20, lambda epoch: float("nan") if epoch == 3 else 1.0)
    with pytest.raises(UserError, match=r"no epoch of .* was validated in --epochs 2; continue with"):
        fitted(best, tmp_path, 2, resume=True)


@pytest.mark.parametrize(
    ("device", "devices", "shared", "alone"),
    [("gpu", 1, True, True), ("gpu", 2, True, False), ("cpu", 1, False, True)],
)
def test_gpus_share_their_batch_normalization_and_a_process_alone_needs_no_launcher(
    best, tmp_path, monkeypatch, device, devices, shared, alone
):
    made = {}

    class Stop(Exception):
        pass

    def trainer(**options):
        made.update(options)
        raise Stop

    monkeypatch.setattr(fitting, "accelerator_of", lambda name: device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(fitting.pl, "Trainer", trainer)
    settings = TrainRetriever(
        category="dresses", run=tmp_path, devices=devices, epochs=3, precision="bf16-mixed"
    )
    with pytest.raises(Stop):
        fit(
            None,
            None,
            None,
            run=tmp_path,
            settings=settings,
            facts=msgspec.to_builtins(best.about),
            monitor="val_score",
        )
    assert made["sync_batchnorm"] == shared and (made["accelerator"], made["devices"]) == (device, devices)
    assert any(isinstance(one, LightningEnvironment) for one in made["plugins"]) == alone
    assert (made["max_epochs"], made["precision"], made["num_nodes"]) == (3, "bf16-mixed", 1)


def test_the_data_of_a_run_are_told_by_fingerprints_or_checksums(best):
    assert fingerprints(best.about) == {"dresses": "f"}
    dialogs = msgspec.convert(
        {"kind": "dialog encoder", "model": "m", "sizes": {}, "words": [], "joined": ",", "data": {"checksums": {"a.json": "c"}},
         "features": {"encoder": "e", "weights": "w", "image_size": 1, "dimensions": 1, "attribute_words": []}},
        DialogEncoderRun,
    )  # fmt: skip
    assert fingerprints(dialogs) == {"a.json": "c"}
    retriever = SimpleNamespace(category="tops", data=SimpleNamespace(fingerprint="g"))
    assert fingerprints(retriever) == {"tops": "g"}


# folders of runs


def begun(run, **options):
    return begin_run(run, TrainRetriever(category="dresses", run=run, schedule="constant", **options))


def test_a_folder_that_has_a_run_is_not_begun_again(tmp_path):
    assert begun(tmp_path / "a")
    command, *options = (tmp_path / "a" / "config.yaml").read_text().splitlines()
    assert command == f"# fashioniq train-retriever --config {tmp_path / 'a' / 'config.yaml'}"
    names = [line.partition(":")[0] for line in options if line[0] not in " -"]
    assert names == [one.name for one in dataclasses.fields(TrainRetriever)] and "resume: false" in options
    assert begun(tmp_path / "a")  # nothing was trained
    for name in ("last.ckpt", "model.json"):
        begun(tmp_path / name)
        (tmp_path / name / name).write_text("{}")
        with pytest.raises(UserError, match="already has a run; continue it with --resume"):
            begun(tmp_path / name)
    rows = "epoch,val_score\n0,1\n"
    (tmp_path / "model.json" / "metrics.csv").write_text(rows)
    assert begun(tmp_path / "model.json")  # it was killed before its first checkpoint
    for damage in (rows + "1,1\n", "epoch,val_score\n"):
        (tmp_path / "model.json" / "metrics.csv").write_text(damage)
        with pytest.raises(UserError, match="already has a run"):
            begun(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("file", "content", "found"),
    [
        ("last.ckpt", None, "nothing to resume: .* so no epoch was completed"),
        ("last.ckpt", b"none", r"cannot resume: .*last\.ckpt is damaged"),
        ("config.yaml", None, r"config\.yaml is missing or damaged"),
        ("config.yaml", b"{", r"config\.yaml is missing or damaged"),
        ("config.yaml", b"[1]", "it has no settings"),
        ("metrics.csv", b"epoch,val_score\n", r"metrics\.csv has no epoch"),
        ("metrics.csv", b"epoch,val_score\n1,many\n", r"metrics\.csv is damaged"),
        ("metrics.csv", b"val_score\n1\n", r"metrics\.csv is damaged"),
    ],
)
def test_a_run_with_damaged_files_is_not_resumed(tmp_path, file, content, found):
    begun(tmp_path)
    torch.save({}, tmp_path / "last.ckpt")
    assert begun(tmp_path, resume=True)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=found):
        begun(tmp_path, resume=True)


def test_a_checkpoint_with_another_bit_is_not_resumed(tmp_path):
    begun(tmp_path)
    path, weights = tmp_path / "last.ckpt", torch.arange(1000.0)
    torch.save({"weights": weights}, path)
    assert begun(tmp_path, resume=True)
    content = bytearray(path.read_bytes())
    content[content.index(weights.numpy().tobytes()) + 2003] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"cannot resume: .*last\.ckpt is damaged .the checksum of .*data/0 differs"
    ):
        begun(tmp_path, resume=True)


def test_a_batch_may_be_divided_among_other_devices_and_a_schedule_fixes_the_steps(tmp_path):
    begun(tmp_path, batch_size=32)
    torch.save({}, tmp_path / "last.ckpt")
    assert begun(tmp_path, batch_size=16, devices=2, resume=True)
    with pytest.raises(UserError, match="was started with batch_size 32, not 16"):
        begun(tmp_path, batch_size=16, resume=True)
    for schedule, epochs in (("constant", 2), ("cosine", 1)):
        settings = {"category": "dresses", "run": tmp_path / schedule, "schedule": schedule, "epochs": 1}
        begin_run(tmp_path / schedule, TrainRetriever(**settings))
        torch.save({}, tmp_path / schedule / "last.ckpt")
        begin_run(tmp_path / schedule, TrainRetriever(**settings | {"epochs": epochs, "resume": True}))
    with pytest.raises(UserError, match="was started with epochs 1, not 2"):
        begin_run(tmp_path / "cosine", TrainRetriever(**settings | {"epochs": 2, "resume": True}))


def test_a_training_that_goes_on_writes_its_settings_once_its_checkpoint_fits(tmp_path):
    weight = torch.nn.Parameter(torch.zeros(2, 3))
    states = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2, 3), "name": "adam"}
    optimizer = SimpleNamespace(state={weight: states})
    trainer = SimpleNamespace(optimizers=[optimizer], is_global_zero=True)
    resumption = Resumption(tmp_path, TrainRetriever(category="dresses", epochs=7))
    resumption.on_train_start(trainer, None)
    assert resumption.loaded and "epochs: 7" in (tmp_path / "config.yaml").read_text()
    states["exp_avg"] = torch.zeros(3, 2)
    resumption = Resumption(tmp_path / "b", TrainRetriever(category="dresses"))
    with pytest.raises(ValueError, match="exp_avg of the optimizer has another shape"):
        resumption.on_train_start(trainer, None)
    assert not resumption.loaded and not (tmp_path / "b").exists()


@pytest.fixture
def trainer_of(best, monkeypatch, tmp_path):
    """What the trainer of Lightning is made with, on a machine with two GPUs."""

    def trainer(**given):
        raise LookupError(given)

    def trainer_of(**options):
        settings = TrainRetriever(category="dresses", **options)
        facts = msgspec.to_builtins(best.about)
        with pytest.raises(LookupError) as found:
            fit(None, None, (None, None), run=tmp_path, settings=settings, facts=facts, monitor="val_score")
        return found.value.args[0]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(pl, "Trainer", trainer)
    return trainer_of


@pytest.mark.parametrize(
    ("device", "devices", "accelerator"), [("auto", 2, "gpu"), ("cuda", 1, "gpu"), ("cpu", 3, "cpu")]
)
def test_a_training_gets_what_the_options_ask_for_and_at_most_the_gpus_that_there_are(
    device, devices, accelerator, trainer_of
):
    options = {"device": device, "num_nodes": 3, "precision": "bf16-mixed", "epochs": 7, "patience": 4}
    made = trainer_of(devices=devices, **options)
    assert (made["accelerator"], made["sync_batchnorm"]) == (accelerator, accelerator == "gpu")
    assert (made["devices"], made["num_nodes"]) == (devices, 3)
    assert (made["precision"], made["max_epochs"]) == ("bf16-mixed", 7)
    [stopping] = [one for one in made["callbacks"] if isinstance(one, pl.callbacks.EarlyStopping)]
    assert (stopping.monitor, stopping.mode, stopping.patience) == ("val_score", "max", 4)
    if accelerator == "gpu":
        with pytest.raises(UserError, match="--devices is 3: torch finds 2 GPUs here"):
            trainer_of(devices=3, **options)


@pytest.mark.parametrize(("devices", "num_nodes", "alone"), [(1, 1, True), (2, 1, False), (1, 2, False)])
def test_one_process_trains_alone_whatever_a_launcher_has_set(devices, num_nodes, alone, trainer_of):
    plugins = trainer_of(device="cpu", devices=devices, num_nodes=num_nodes)["plugins"]
    assert [type(one).__name__ for one in plugins] == ["RunCheckpoints", *(["LightningEnvironment"] * alone)]


def test_a_job_of_slurm_does_not_go_on_from_a_checkpoint_in_the_working_directory(
    trainer_of, tmp_path, monkeypatch
):
    for name, value in {"NTASKS": "4", "NTASKS_PER_NODE": "2", "JOB_NAME": "train"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    made = trainer_of(device="cpu", devices=2, num_nodes=2)
    [_, slurm] = made["plugins"]
    assert isinstance(slurm, SLURMEnvironment) and not slurm.auto_requeue
    assert made["default_root_dir"] == tmp_path


def test_what_ends_a_training_is_told(tmp_path):
    def fit(error, interrupted=False):
        def fails(*_, **__):
            if error:
                raise error

        trainer = SimpleNamespace(fit=fails, interrupted=interrupted)
        _fit_or_explain(trainer, None, (None, None), Peers(tmp_path, {}), resumption=None)

    fit(None)
    with pytest.raises(UserError, match=r"training diverged .a loss.; lower the learning rate"):
        fit(NotFiniteError("a loss"))
    with pytest.raises(UserError, match=str(tmp_path)):
        fit(OSError(28, "No space left on device"))
    with pytest.raises(SystemExit):
        fit(SystemExit(1))
    for error in (None, SystemExit(1)):
        with pytest.raises(UserError, match="interrupted before the first epoch was complete"):
            fit(error, interrupted=True)
    (tmp_path / "last.ckpt").touch()
    with pytest.raises(UserError, match="interrupted; continue with --resume --run"):
        fit(None, interrupted=True)


def test_there_is_no_gpu_here_to_ask_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [accelerator_of(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]
    with pytest.raises(UserError, match="torch finds no GPU"):
        accelerator_of("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [accelerator_of(name) for name in ("auto", "cpu", "cuda")] == ["gpu", "cpu", "gpu"]

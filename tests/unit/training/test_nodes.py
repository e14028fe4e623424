"""What a launcher's variables say about this process, and what is refused before it would wait for ever."""

import errno
import os
import signal
import tempfile
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from fashioniq.config import TrainRetriever
from fashioniq.files import UserError
from fashioniq.training import processes
from fashioniq.training.folder import begin_run, write_config
from fashioniq.training.processes import Peers, RunCheckpoints, launched_rank

VARIABLES = [
    *(
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "NODE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
    ),
    *("TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_JOB_NAME"),
]
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "RANK": "3"}
SLURM = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "2", "SLURM_JOB_NAME": "train"}
BY_HAND = {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def launched(monkeypatch):
    def launched(devices, num_nodes, **variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return launched_rank(devices, num_nodes)

    return launched


@pytest.mark.parametrize(
    ("devices", "num_nodes", "variables", "rank"),
    [
        (1, 1, {}, 0),
        (2, 2, TORCHRUN, 3),
        (2, 2, SLURM, 2),
        (2, 2, TORCHRUN | SLURM, 3),
        (1, 1, {**SLURM, "SLURM_JOB_NAME": "interactive"}, 0),
        (1, 1, {"SLURM_NTASKS": "4"}, 0),
        (2, 2, BY_HAND, 2),
        (2, 2, {**BY_HAND, "LOCAL_RANK": "1"}, 3),
        (2, 1, {"LOCAL_RANK": "1"}, 1),
        (1, 1, {"NODE_RANK": "0", "LOCAL_RANK": "3", "RANK": "3"}, 0),
    ],
)
def test_the_rank_is_that_of_the_launcher(devices, num_nodes, variables, rank, launched):
    assert launched(devices, num_nodes, **variables) == rank


@pytest.mark.parametrize(
    ("devices", "num_nodes", "variables", "expected"),
    [
        (1, 2, {}, "NODE_RANK is not set"),
        (1, 2, {"NODE_RANK": "1", "MASTER_PORT": "29500"}, "MASTER_ADDR is not set"),
        (1, 2, {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1"}, "MASTER_PORT is not set"),
        (1, 1, {"NODE_RANK": "1"}, "expected NODE_RANK below --num-nodes 1, found 1; unset it"),
        (1, 2, {**BY_HAND, "NODE_RANK": "two"}, "expected a number in the variable NODE_RANK, found 'two'"),
        (1, 2, TORCHRUN, "expected WORLD_SIZE=2 of torchrun for --devices 1 and --num-nodes 2, found 4"),
        (1, 1, SLURM, "expected SLURM_NTASKS=1 of SLURM for --devices 1 and --num-nodes 1, found 4"),
        (4, 1, SLURM, "expected SLURM_NTASKS_PER_NODE=4 of SLURM for --devices 4 and --num-nodes 1, found 2"),
        (2, 2, {**SLURM, "SLURM_PROCID": ""}, "expected a number in the variable SLURM_PROCID, found ''"),
    ],
)
def test_variables_that_do_not_match_are_refused(devices, num_nodes, variables, expected, launched):
    with pytest.raises(UserError, match=expected):
        launched(devices, num_nodes, **variables)


def test_only_the_first_process_writes_and_the_second_may_have_no_folder(launched, tmp_path):
    settings = TrainRetriever(category="dresses", num_nodes=2)
    launched(1, 2, **BY_HAND)
    assert not begin_run(tmp_path / "run", settings) and not (tmp_path / "run").exists()
    launched(1, 2, **{**BY_HAND, "NODE_RANK": "0"})
    assert begin_run(tmp_path / "run", settings) and (tmp_path / "run" / "config.yaml").exists()
    (tmp_path / "run" / "last.ckpt").touch()
    launched(1, 2, **BY_HAND)
    with pytest.raises(UserError, match="already has a run"):
        begin_run(tmp_path / "run", settings)


@pytest.mark.parametrize(("batch_size", "num_nodes", "fits"), [(32, 2, True), (16, 4, True), (64, 2, False)])
def test_a_scheduled_run_goes_on_with_other_machines_if_its_batch_stays(
    batch_size, num_nodes, fits, launched, tmp_path
):
    given = {"category": "dresses", "schedule": "cosine", "run": tmp_path}
    write_config(tmp_path, TrainRetriever(**given, batch_size=64))
    torch.save({}, tmp_path / "last.ckpt")
    launched(1, num_nodes, **BY_HAND)
    again = TrainRetriever(**given, batch_size=batch_size, num_nodes=num_nodes, resume=True)
    if fits:
        begin_run(tmp_path, again)
    else:
        with pytest.raises(UserError, match="was started with num_nodes 1, not 2"):
            begin_run(tmp_path, again)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[third_party/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms"),
        dist.DistStoreError("Timed out after 1801 seconds waiting for clients. 1/2 clients joined."),
    ],
)
def test_what_torch_reports_about_its_connections_becomes_a_line(error, tmp_path):
    with pytest.raises(UserError, match="no connection to the other training processes"):
        Peers(tmp_path, {}).explain(error)
    Peers(tmp_path, {}).explain(RuntimeError("shapes cannot be multiplied"))  # is raised as it is


@pytest.mark.parametrize(("rank", "count"), [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_a_checkpoint_is_read_by_the_first_process_and_sent_to_the_others(rank, count, monkeypatch, tmp_path):
    sent = []

    def broadcast(loaded, src):
        sent.append((loaded[0], src))
        loaded[0] = loaded[0] or "from the first"

    monkeypatch.setattr(processes, "rank_and_count", lambda: (rank, count))
    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    torch.save({"epoch": 3}, tmp_path / "first.ckpt")
    path = tmp_path / ("first.ckpt" if rank == 0 else "lacking.ckpt")
    loaded = RunCheckpoints().load_checkpoint(path)
    assert loaded == ({"epoch": 3} if rank == 0 else "from the first")
    assert sent == ([({"epoch": 3} if rank == 0 else None, 0)] if count > 1 else [])


def test_processes_with_other_options_or_data_are_refused_by_the_first_difference(monkeypatch, tmp_path):
    facts = {"seed": 1, "data": "a", "features": "b"}
    monkeypatch.setattr(processes, "rank_and_count", lambda: (0, 2))

    def gathered(found, own):
        found[:] = [own, {"seed": 1, "data": "c", "features": "d"}]

    monkeypatch.setattr(dist, "all_gather_object", gathered)
    with pytest.raises(UserError, match="process 1 has data c, process 0 has a; give all"):
        Peers(tmp_path, facts).setup(None, None, "fit")


@pytest.mark.parametrize("own", [signal.default_int_handler, signal.SIG_IGN])
def test_a_process_that_waits_for_others_is_ended_by_control_c_unless_it_was_told_otherwise(
    own, tmp_path, capsys
):
    meeting = SimpleNamespace(main_address="10.0.0.1", main_port=29500)
    strategy = SimpleNamespace(cluster_environment=meeting)
    peers, before = Peers(tmp_path, {}), signal.signal(signal.SIGINT, own)
    try:
        peers.meet(SimpleNamespace(strategy=strategy, global_rank=1, world_size=2))
        waits_with = signal.getsignal(signal.SIGINT)
        peers.setup(None, None, "fit")
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert waits_with == (signal.SIG_DFL if own is signal.default_int_handler else own)
    assert capsys.readouterr().out == "process 1 of 2 meets the others at 10.0.0.1:29500\n"


@pytest.mark.parametrize(("rank", "count", "reads", "sends"), [(0, 1, 1, 0), (0, 2, 1, 1), (1, 2, 0, 1)])
def test_the_first_process_reads_a_checkpoint_and_sends_it_to_the_others(
    rank, count, reads, sends, monkeypatch
):
    read, sent = [], []

    def broadcast(objects, src):
        sent.append((list(objects), src))
        objects[0] = {"epoch": 3}

    monkeypatch.setattr(processes, "rank_and_count", lambda: (rank, count))
    monkeypatch.setattr(
        processes.TorchCheckpointIO, "load_checkpoint", lambda self, path: read.append(path) or {"epoch": 3}
    )
    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    assert processes.RunCheckpoints().load_checkpoint("last.ckpt") == {"epoch": 3}
    assert read == ["last.ckpt"] * reads
    assert sent == [([{"epoch": 3} if rank == 0 else None], 0)] * sends


def test_a_checkpoint_that_cannot_be_written_leaves_the_earlier_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "another file system"))
    path = tmp_path / "run" / "last.ckpt"
    RunCheckpoints().save_checkpoint({"epoch": 1}, path)

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="no space left to write"):
        RunCheckpoints().save_checkpoint({"epoch": 2}, path)
    assert torch.load(path, weights_only=True) == {"epoch": 1}
    assert list(path.parent.iterdir()) == [path]

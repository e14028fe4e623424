"""What a launcher's variables say about this process, and what is refused before it would wait for ever."""

import socket
import threading
from contextlib import ExitStack

import pytest
import torch
import torch.distributed as dist

from fashioniq.config import TrainRetriever
from fashioniq.files import UserError
from fashioniq.training import nodes
from fashioniq.training.fitting import begin_run, write_config
from fashioniq.training.nodes import Peers, launched_rank
from tests.waiting import happened, joined

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


class Broadcast:
    """Sends the object of the process of rank 0 to the others, which are threads."""

    def __init__(self):
        self.sent, self.ready = [], threading.Event()

    def __call__(self, values, src):
        assert src == 0
        if values[0] is not None and values[1]:
            self.sent[:] = values
            self.ready.set()
        happened(self.ready)
        values[:] = self.sent


def test_every_process_is_connected_to_the_first_by_the_shared_token_and_strangers_are_not(monkeypatch):
    broadcast, found = Broadcast(), {}
    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    monkeypatch.setattr(nodes, "PATIENCE", 60)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")

    def connect(rank):
        found[rank] = nodes._connected(rank, 3)

    first, *others = (threading.Thread(target=connect, args=(rank,), daemon=True) for rank in range(3))
    first.start()
    happened(broadcast.ready)
    token, port = broadcast.sent
    strangers = [
        socket.create_connection(("127.0.0.1", port)) for _ in (b"short", bytes(20), token + bytes(3))
    ]
    for stranger, greeting in zip(strangers, (b"short", bytes(20), token + bytes(3)), strict=True):
        stranger.sendall(greeting)
        stranger.shutdown(socket.SHUT_WR)
    for other in others:
        other.start()
    for thread in (first, *others):
        joined(thread)
    connected = [(rank, connection) for rank, own in found.items() for connection in own]
    try:
        assert sorted(found[0].values()) == [1, 2] and [*found[1].values(), *found[2].values()] == [0, 0]
        for connection, rank in found[0].items():
            (theirs,) = found[rank]
            assert connection.getpeername() == theirs.getsockname()
            assert connection.gettimeout() == theirs.gettimeout() == nodes.PATIENCE
        for _, connection in connected:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name, seconds in nodes.KEEP_ALIVE.items():
                assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == seconds
    finally:
        for connection in (*strangers, *(connection for _, connection in connected)):
            connection.close()


def test_a_process_that_ends_without_a_last_word_is_lost_and_one_that_is_done_is_not(monkeypatch, tmp_path):
    lost, peers = [], Peers(tmp_path, {})
    monkeypatch.setattr(peers, "_end", lost.append)
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    with ExitStack() as opened:
        for connection in ours:
            opened.enter_context(connection)
        peers._connections = {connection: rank for rank, connection in enumerate(ours, start=1)}
        theirs[0].sendall(nodes.DONE)
        ours[2].sendall(b"unread")  # closing is an error then
        for connection in theirs:
            connection.close()
        peers._watch()
    assert sorted(lost) == [2, 3]


def test_processes_with_other_options_or_data_are_refused_by_the_first_difference(monkeypatch, tmp_path):
    facts = {"seed": 1, "data": "a", "features": "b"}
    monkeypatch.setattr(nodes, "rank_and_count", lambda: (0, 2))

    def gathered(found, own):
        found[:] = [own, {"seed": 1, "data": "c", "features": "d"}]

    monkeypatch.setattr(dist, "all_gather_object", gathered)
    with pytest.raises(UserError, match="process 1 has data c, process 0 has a; give all"):
        Peers(tmp_path, facts).setup(None, None, "fit")


def test_a_connection_of_a_stranger_is_given_up(monkeypatch):
    monkeypatch.setattr(nodes, "GREETING", 0.05)
    ours, silent = socket.socketpair()
    with ours, silent:
        silent.sendall(b"short")
        assert nodes._greeting(ours) == b"short"


def test_a_greeting_in_parts_is_read_whole():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(15))
        sender = threading.Timer(0.05, theirs.sendall, [bytes(6)])
        sender.start()
        assert nodes._greeting(ours) == bytes(20)
        joined(sender)

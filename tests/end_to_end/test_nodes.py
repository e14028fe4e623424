"""Two machines train as one does: equal losses, a line if one is lost, and goes on with another number of them."""

import csv
import os
import signal
import socket
from contextlib import closing

import pytest

from tests.waiting import ended


def rows_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def free_port():
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def trainings(project, vector_runs):
    """Command and options of each training, without dropout, which differs between processes."""
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    common |= {"epochs": 2, "batch_size": 16}
    sizes = {name: value for name, value in project.retriever.items() if name.startswith("model.")}
    encoder = {name: value for name, value in sizes.items() if name != "model.kind"}
    return {
        "captioner": ("train-captioner", {**project.captioner, **common, "model.dropout": 0.0}),
        "retriever": (
            "train-retriever",
            {**project.retriever, **common, "captioner": vector_runs.captioner},
        ),
        "dialog encoder": ("train-dialog-encoder", {**encoder, **common, "model.dropout": 0.0}),
    }


@pytest.fixture
def machines(project, forked_command, tmp_path):
    """Start a training on two machines, whose runs are in the folders 0 and 1, the second one with `others`.

    Returns the processes and what they print as errors.
    """

    def machines(command, options, **others):
        processes, errors, port = [], [], free_port()
        for rank, given in enumerate((options, options | others)):
            run, flags = tmp_path / str(rank) / "run", os.O_CREAT | os.O_WRONLY | os.O_TRUNC
            streams = (
                os.open(os.devnull, os.O_RDONLY),
                os.open(os.devnull, os.O_WRONLY),
                os.open(tmp_path / f"{rank}.err", flags),
            )
            arguments = project.arguments(command, **given, num_nodes=2, run=run)
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": str(rank)}
            processes.append(forked_command(arguments, streams, **place))
            errors.append(tmp_path / f"{rank}.err")
        return processes, errors

    return machines


def all_ended(processes, errors, code):
    """What each process printed as errors, after it has ended with `code`."""
    for process, path in zip(processes, errors, strict=True):
        assert ended(process) == code, path.read_text()
    return [path.read_text() for path in errors]


@pytest.mark.parametrize("kind", ["captioner", "retriever", "dialog encoder"])
def test_two_machines_get_the_losses_of_one_and_one_continues(kind, trainings, machines, project, tmp_path):
    command, options = trainings[kind]
    both = machines(command, {**options, "batch_size": 8})
    project.run(command, **{**options, "epochs": 3}, run=tmp_path / "alone")
    all_ended(*both, 0)
    alone, run = rows_of(tmp_path / "alone"), tmp_path / "0" / "run"
    assert len({row["train_loss"] for row in alone}) == 3
    for one, two in zip(alone[:2], rows_of(run), strict=True):
        assert two == pytest.approx(one, rel=1e-4)
    assert not (tmp_path / "1").exists()  # only the first machine writes
    project.run(command, **{**options, "epochs": 3}, run=run, resume=True)
    assert rows_of(run)[2] == pytest.approx(alone[2], rel=1e-4)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_machine_ends_the_other_with_a_line(lost, trainings, machines, wait_until, tmp_path):
    command, options = trainings["captioner"]
    processes, errors = machines(command, {**options, "epochs": 10_000, "patience": 10_000})
    run = tmp_path / "0" / "run"
    wait_until((run / "last.ckpt").exists, processes[0].is_alive)
    os.kill(processes[lost].pid, signal.SIGKILL)
    assert ended(processes[1 - lost]) == 2
    (line,) = errors[1 - lost].read_text().splitlines()
    assert line.startswith("error: no connection to the other training processes") and "--resume" in line
    done = len(rows_of(run))
    if lost == 0:  # both continue; the second has no checkpoint
        all_ended(*machines(command, {**options, "epochs": done + 1, "resume": True}), 0)
        assert len(rows_of(run)) == done + 1


def test_machines_with_other_options_are_refused_in_a_line(trainings, machines):
    for line in all_ended(*machines(*trainings["captioner"], seed=1), 2):
        assert line.startswith("error: process 1 has seed 1, process 0 has 0;") and line.count("\n") == 1


@pytest.mark.parametrize("variables", [{"SLURM_NTASKS": "4"}, {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2"}, {"WORLD_SIZE": "0"}, {"MASTER_ADDR": "nowhere", "MASTER_PORT": "x"}], ids=str)  # fmt: skip
def test_a_process_trains_alone_within_an_allocation(variables, trainings, project, tmp_path, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command, options = trainings["captioner"]
    project.run(command, **{**options, "epochs": 1}, run=tmp_path / "run")
    assert len(rows_of(tmp_path / "run")) == 1

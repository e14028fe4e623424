"""Two trainings into one run: the second is refused at once, and a killed one leaves the run free."""

import os
import signal

import pytest

from tests.waiting import ended


@pytest.fixture
def options(project, vector_runs, tmp_path):
    world = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    return {**project.captioner, **world, "run": tmp_path / "run"}


def test_a_second_training_of_a_run_is_refused_until_the_first_is_killed(
    options, project, forked_command, wait_until, refused, tmp_path
):
    endless = project.arguments("train-captioner", **{**options, "epochs": 10_000, "patience": 10_000})
    with open(os.devnull, "r+") as nothing, open(tmp_path / "first.err", "w") as errors:
        first = forked_command(endless, [nothing.fileno(), nothing.fileno(), errors.fileno()])
        wait_until((options["run"] / "last.ckpt").exists, first.is_alive)
    config = (options["run"] / "config.yaml").read_bytes()
    for resume in ({}, {"resume": True}):
        line = refused("train-captioner", **options, **resume, seed=1)
        assert f"(process {first.pid}, fashioniq train-captioner --" in line
    assert (options["run"] / "config.yaml").read_bytes() == config
    os.kill(first.pid, signal.SIGKILL)
    ended(first)
    project.run("train-captioner", **{**options, "epochs": 1, "resume": True})
    assert not list(tmp_path.glob(".*.lock"))

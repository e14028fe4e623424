"""The golden workload: a drawn sample, four trainings and three evaluations that together take seconds.

Every step is a command with a file of `settings/`. Only the command line is used, so that the same workload
runs on versions of the package with other modules and classes.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

SETTINGS = Path(__file__).resolve().parent / "settings"
STEPS = (
    ("draw-sample", "catalog"),
    ("extract-features", "features"),
    ("train-captioner", "captioner"),
    ("train-retriever", "transformer"),
    ("train-retriever", "rnn"),
    ("train-dialog-encoder", "dialog_encoder"),
    ("eval-dialogs", "dialogs"),
    ("eval-dialogs", "chatir"),
    ("eval-single-turn", "single_turn"),
)
LOG = "log.txt"
LIMIT = 1800  # seconds of a workload, which takes seconds, on a busy machine


def run_workload(checkout: Path, folder: Path) -> None:
    """Run all steps in the empty `folder`, in a process with one thread that imports `checkout/fashioniq`.

    Paths in the settings are relative, so results do not depend on where the folder is. Raises RuntimeError
    with the end of the log if a step fails.
    """
    environment = os.environ | _environment(checkout)
    with open(folder / LOG, "w", encoding="utf-8") as log:
        command = [sys.executable, str(Path(__file__).resolve())]
        process = subprocess.run(
            command, cwd=folder, env=environment, stdout=log, stderr=log, check=False, timeout=LIMIT
        )
    _raise_if_failed(process.returncode, checkout, folder)


def run_workload_forked(checkout: Path, folder: Path) -> None:
    """The same in a process forked from this one, which has imported `checkout/fashioniq` already."""
    process = multiprocessing.get_context("fork").Process(target=_run_forked, args=(checkout, folder))
    process.start()
    process.join(LIMIT)
    if process.exitcode is None:
        process.kill()
        raise RuntimeError(f"the golden workload on {checkout} has not ended within {LIMIT} seconds")
    _raise_if_failed(process.exitcode, checkout, folder)


def _run_forked(checkout: Path, folder: Path) -> None:
    os.environ |= _environment(checkout)
    os.chdir(folder)
    with open(LOG, "w", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        _run_steps()


def _environment(checkout: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _raise_if_failed(code: int | None, checkout: Path, folder: Path) -> None:
    if code:
        end = "\n".join((folder / LOG).read_text(encoding="utf-8").splitlines()[-20:])
        raise RuntimeError(f"the golden workload failed on {checkout}:\n{end}")


def _run_steps() -> None:
    import fashioniq
    from fashioniq.cli import COMMANDS, main

    if not (package := Path(fashioniq.__file__).resolve()).is_relative_to(wanted := os.environ["PYTHONPATH"]):
        raise SystemExit(f"error: expected to import fashioniq from {wanted}, found {package}")
    for command, name in STEPS:
        if command == "extract-features":
            _write_vectors()
            command = "import-features" if "import-features" in COMMANDS else command  # of earlier commits
        if code := main([command, "--config", str(SETTINGS / f"{name}.yaml")]):
            raise SystemExit(f"error: {command} with {name}.yaml returned {code}")


def _write_vectors() -> None:
    """Write a random vector for every dress, of multiples of 1/8, which are the same on every CPU type."""
    splits = [Path(f"catalog/image_splits/split.dress.{split}.json") for split in ("train", "val", "test")]
    ids = [name for path in splits for name in json.loads(path.read_text())]
    np.save("vectors.npy", np.random.default_rng(0).integers(-8, 9, (len(ids), 16)).astype(np.float32) / 8)
    Path("ids.json").write_text(json.dumps(ids))


if __name__ == "__main__":
    _run_steps()

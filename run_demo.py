"""The steps of `make demo`, in one process, so that torch and its libraries are loaded once."""

import shutil

from fashioniq.cli import main

# description, time on two slow cores without a GPU, command
STEPS = [
    ("draw a sample catalog of 3,600 garments", "20 s", "draw-sample --data demo/catalog"),
    (
        "train the attribute predictor on all categories",
        "2 min",
        "train-attributes --config configs/sample/attributes.yaml",
    ),
    (
        "train its last layer on dresses",
        "20 s",
        "train-attributes --config configs/sample/attributes_dresses.yaml",
    ),
    ("extract the features of all dresses", "10 s", "extract-features --config configs/sample/features.yaml"),
    (
        "train the captioner, which simulates the user",
        "45 s",
        "train-captioner --config configs/sample/captioner.yaml",
    ),
    (
        "train the retriever in simulated dialogs",
        "100 s",
        "train-retriever --config configs/sample/retriever.yaml",
    ),
    (
        "evaluate the retriever in dialogs of five turns",
        "10 s",
        "eval-dialogs --config configs/sample/dialogs.yaml",
    ),
]


def run() -> int:
    """Run all steps in a new folder demo/; return the exit code of the first one that fails, or 0."""
    shutil.rmtree("demo", ignore_errors=True)
    for number, (what, time, command) in enumerate(STEPS, 1):
        print(f"\n[{number}/{len(STEPS)}] {what} (about {time}): fashioniq {command}", flush=True)
        if code := main(command.split()):
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(run())

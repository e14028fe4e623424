"""Does a simulated user order retrievers as people do? Rank correlation over evaluations of several retrievers.

python benchmarks/user_correlation.py FOLDER PERSON SIMULATOR ... > agreement.json

FOLDER/RETRIEVER/USER are results of eval-dialogs, for the same users of at least five retrievers; those of recorded
sessions may have a folder for each length; the last part of FOLDER is the category. R@10 after the last turn of each
retriever with PERSON is compared with that of each SIMULATOR: Kendall's tau-b and Spearman's rho over retrievers, with
intervals of 95 % over resampled dialogs, which are the same for all retrievers, and the percentage of couples of
retrievers that are in the other order.
"""

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fashioniq.data.dialog_log import read_dialogs
from fashioniq.provenance import command_line, provenance

FOUND = 10  # R@10
RESAMPLES = 1000
FEWEST = 5  # retrievers


def found_by(folder: Path) -> NDArray[np.float64]:
    """For each dialog of an evaluation, 1 if its target is among the first FOUND products after the last turn."""
    logs = sorted(folder.rglob("dialogs.jsonl"))
    if not logs:
        raise SystemExit(f"expected dialogs.jsonl in {folder}, found none; evaluate it again")
    return np.array([one.ranks[-1] < FOUND for log in logs for one in read_dialogs(log)], np.float64)


def correlations(
    people_RD: NDArray[np.float64], simulated_RD: NDArray[np.float64], seed: int
) -> dict[str, Any]:
    """Agreement of two users in the order of R retrievers; each has as many dialogs as it had."""
    draw = np.random.default_rng(seed)
    people_R, simulated_R = people_RD.mean(1), simulated_RD.mean(1)
    resampled = [
        tuple(
            found_RD[:, draw.integers(found_RD.shape[1], size=found_RD.shape[1])].mean(1)
            for found_RD in (people_RD, simulated_RD)
        )
        for _ in range(RESAMPLES)
    ]
    found: dict[str, Any] = {}
    for name, measure in (("tau", stats.kendalltau), ("rho", stats.spearmanr)):
        values = [measure(*pair).statistic for pair in resampled]
        found[name] = float(measure(people_R, simulated_R).statistic)
        found[f"{name} interval"] = np.nanquantile(values, [0.025, 0.975]).tolist()
    couples = list(combinations(range(len(people_R)), 2))
    other = sum((people_R[a] - people_R[b]) * (simulated_R[a] - simulated_R[b]) < 0 for a, b in couples)
    return found | {
        "R@10": (100 * simulated_R).tolist(),
        "in the other order": 100 * int(other) / len(couples),
    }


def table(folder: Path, person: str, simulators: list[str], seed: int = 0) -> dict[str, Any]:
    """R@10 of each retriever with people, and for each simulator how well it agrees."""
    retrievers = sorted(path.name for path in folder.iterdir() if (path / person).is_dir())
    if len(retrievers) < FEWEST:
        raise SystemExit(
            f"expected {FEWEST} or more retrievers with {person} in {folder}, found {len(retrievers)}"
        )
    found = {
        user: np.stack([found_by(folder / name / user) for name in retrievers])
        for user in (person, *simulators)
    }
    return {
        "protocol": "order of retrievers",
        "category": folder.name,
        "retrievers": retrievers,
        "people": person,
        "R@10": (100 * found[person].mean(1)).tolist(),
        "rows": [{"method": user} | correlations(found[person], found[user], seed) for user in simulators],
        "provenance": msgspec.to_builtins(provenance({})) | {"command": f"python {command_line()}"},
    }


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    print(json.dumps(table(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]), indent=1))

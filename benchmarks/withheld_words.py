"""Requests in words that training never saw: withhold attribute words from the captions of train, and compare.

python benchmarks/withheld_words.py draw DATA CATEGORY SEED OUT
python benchmarks/withheld_words.py compare OUT FULL WITHHELD

`draw` copies a Fashion IQ folder to OUT, whose captions of train name none of 60 words that it draws from the labels
of a category. Train a search with each folder, judge both by eval-requests with DATA and the same seed, and give the two
folders of results to `compare`: the share of the first results that obey requests with one of the words.
"""

import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import tokenize

WORDS, PRODUCTS, CAPTIONS = 60, 8, 10  # words drawn, of those with at least so many products and captions


def draw(data: Path, category: str, seed: int, out: Path) -> None:
    catalog = Catalog(data, category)
    labelled = Counter(
        label for lists in catalog.labels.values() for label in {label for row in lists for label in row}
    )
    captions = [text for pair in catalog.pairs("train") for text in pair.captions]
    said = Counter(word for text in captions for word in set(tokenize(text)))
    usable = sorted(
        label for label, count in labelled.items() if count >= PRODUCTS and said[label] >= CAPTIONS
    )
    words = sorted(random.Random(seed).sample(usable, min(WORDS, len(usable))))
    shutil.copytree(data, out, ignore=shutil.ignore_patterns("features", "zero-shot"))
    file = out / "captions" / f"cap.{file_name(category)}.train.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    kept = 0
    for row in rows:
        row["captions"] = [text for text in row["captions"] if not set(words) & set(tokenize(text))]
        kept += len(row["captions"])
    file.chmod(0o644)
    file.write_text(json.dumps([row for row in rows if row["captions"]]), encoding="utf-8")
    (out / "withheld.json").write_text(json.dumps(words), encoding="utf-8")
    print(
        f"{len(words)} of {len(usable)} words; {len(captions) - kept:,} of {len(captions):,} captions left out"
    )


def compare(out: Path, full: Path, withheld: Path) -> None:
    words = set(json.loads((out / "withheld.json").read_text(encoding="utf-8")))
    shares = []
    for folder in (full, withheld):
        lines = (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
        found = [one for line in lines if _names(one := json.loads(line), words)]
        obeyed = [
            sum(judged["obeys"]) / len(judged["obeys"])
            for one in found
            for judged in one["judged"]
            if judged["method"] == "search" and judged["obeys"]
        ]
        shares.append(100 * sum(obeyed) / len(obeyed))
        print(f"{folder}: {len(obeyed):,} requests with the words, {shares[-1]:.1f} % of the results obey")
    print(f"share {shares[1] / shares[0]:.3f}")


def _names(one: dict, words: set[str]) -> bool:
    return any(words & set(tokenize(turn["text"])) for turn in one["request"]["turns"])


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
    else:
        compare(*map(Path, sys.argv[2:5]))

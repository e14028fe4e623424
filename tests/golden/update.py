"""Write the golden values to expected/: python tests/golden/update.py [--pages]"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import workload

import results

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).resolve().parent / "expected"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", action="store_true", help="only the hashes of the pages' text")
    pages_only = parser.parse_args().pages
    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload.run_workload(ROOT, folder)
        _write("pages", {name: results.page_hash(folder, name) for name in results.PAGES})
        if pages_only:
            return
        _write("losses", results.losses(folder))
        _write("measures", {name: results.measures(folder, name) for name in results.EVALUATIONS})
        for name in results.EVALUATIONS:
            records = results.records(folder, name)
            lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
            (EXPECTED / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _write(name: str, values: dict[str, Any]) -> None:
    (EXPECTED / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

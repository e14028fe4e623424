"""Page of `fashioniq learn`: what was learnt from, and whether the new model is better."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.report.templates import write_page


def write_learning_page(
    path: Path, verdict: Any, rule: Mapping[str, Any], words: Sequence[str], sizes: Mapping[str, int]
) -> None:
    """Write the page. `sizes` are the conversations used, by split, `rule` tells how they were chosen."""
    write_page(
        path,
        "learning.html",
        title="Learning from conversations",
        verdict=verdict,
        rule=rule,
        words=words,
        sizes=sizes,
    )

"""Tables of benchmarks/live_comparison.py in Markdown."""

from typing import Any


def comparisons(found: dict[str, Any], shoppers: int) -> str:
    """Comparisons by shoppers; coverage and error of tests of a given number of shoppers."""
    head = (
        "pair; truth; method; mean; covered; error; shoppers needed; of A/B's; power there; sequential: error"
    )
    rows = []
    for pair in found["pairs"]:
        for row in pair["methods"]:
            size, there, ends = (
                row["by shoppers"][str(shoppers)],
                row["at the shoppers needed"],
                row["sequential"],
            )
            rows.append(
                [
                    pair["pair"], f"{pair['truth']:+.2f} ± {pair['standard error of the truth']:.2f}",
                    row["method"], f"{100 * row['mean']:+.2f} ± {100 * row['standard error in the pool']:.2f}",
                    f"{size['covered']:.1f}", f"{size['error']:.1f}", _number(row["shoppers needed"]),
                    _number(row["share of A/B's"], 3), _number(there and there["power"]), f"{ends['error']:.1f}",
                    f"{ends['ended']:.0f}", _number(ends["median shoppers"]),
                ]
            )  # fmt: skip
    return _table(f"{head}; ended; median shoppers", rows)


def estimates(found: dict[str, Any]) -> str:
    """Off-policy estimates of the next answer's success, in percentage points."""
    rows = [
        [
            pair["pair"], f"{of['truth']:+.2f}", f"{of['supported truth']:+.2f}", answers, name,
            f"{one['covered']:.1f}", f"{one['supported truth covered']:.1f}", f"{one['bias']:+.2f}",
            f"{one['standard deviation']:.2f}", f"{one['half width']:.2f}",
        ]
        for pair in found["pairs"]
        for of in [pair["off-policy"]]
        for answers, size in of["by answers"].items()
        for name, one in size["estimators"].items()
    ]  # fmt: skip
    head = "pair; truth; supported; answers; estimator; covered; supported covered; bias; sd; half width"
    return _table(head, rows)


def gates(found: dict[str, Any]) -> str:
    """Percentage of experiments in which each gate activates the challenger, by logged answers."""
    rows = []
    for pair in found["pairs"]:
        tests = {row["method"]: row["sequential"]["activated by answers"] for row in pair["methods"]}
        for answers, size in pair["off-policy"]["by answers"].items():
            given = [
                size["replay activates"],
                size["off-policy gate activates"],
                *(one["activates"] for one in size["estimators"].values()),
            ]
            tested = [by[answers] for by in tests.values()]
            rows.append(
                [pair["pair"], f"{pair['truth']:+.2f}", answers, *(f"{one:.0f}" for one in (*given, *tested))]
            )
    names = ["replay", "off-policy gate", *size["estimators"], *tests]
    return _table("; ".join(["pair; truth; answers", *names]), rows)


def _number(value: float | None, decimals: int = 0) -> str:
    return "–" if value is None else f"{value:,.{decimals}f}"


def _table(head: str, rows: list[list[str]]) -> str:
    names = head.split("; ")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, ["---"] * len(names), *rows))


def flat(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The same as rows of results/live: comparisons, estimates and gates by the name in `method`, in percent."""
    rows: list[dict[str, Any]] = []
    for pair in found["pairs"]:
        name, tests = pair["pair"].partition(":")[0], pair["methods"]
        for row in tests:
            sizes, there, ends = row["by shoppers"].values(), row["at the shoppers needed"], row["sequential"]
            rows.append(
                {
                    "method": f"{name}, {row['method']}",
                    "difference": 100 * row["mean"],
                    "covered": sum(one["covered"] for one in sizes) / len(sizes),
                    "error": sum(one["error"] for one in sizes) / len(sizes),
                    "wrong decisions": ends["error"],
                    "decided": ends["ended"],
                    "shoppers": row["shoppers needed"],
                    "of A/B": row["share of A/B's"] and 100 * row["share of A/B's"],
                    "power": there and there["power"],
                }
            )
        of = pair["off-policy"]
        for answers, size in of["by answers"].items():
            for estimator, one in size["estimators"].items():
                rows.append(
                    {
                        "method": f"{name}, {estimator}, {answers} answers",
                        "truth": of["supported truth"],
                        "covered": one["supported truth covered"],
                        "above the truth": one["above the truth"],
                        "deviation": one["standard deviation"],
                    }
                )
            gates = {
                "replay": size["replay activates"],
                "off-policy": size["off-policy gate activates"],
            }
            gates |= {row["method"]: row["sequential"]["activated by answers"][answers] for row in tests}
            rows.append({"method": f"{name}, {answers} answers", **gates})
    return rows

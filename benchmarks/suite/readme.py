"""What the README says of results, made from what was kept; a test compares."""

from __future__ import annotations

from benchmarks.suite.comparison import RATIO
from benchmarks.suite.outcome import Part

NUMBERS = {6: "six", 12: "twelve"}


def against_verifair(comparison: Part) -> str:
    """How many evaluations VeriFair's rule takes for one of ours."""
    ratios = _ratios(comparison)
    texts = sorted(ratio for case, ratio in ratios if case.startswith("comments"))
    others = [ratio for case, ratio in ratios if not case.startswith("comments")]
    told = f"{min(others):.0f} to {max(others):.0f} times as many on {NUMBERS[len(others)]} feed-forward cases"
    return f"{told}, {' and '.join(f'{ratio:.0f}' for ratio in texts)} on two about texts" if texts else told


def _ratios(comparison: Part) -> list[tuple[str, float]]:
    for table in comparison.tables:
        names = [column.name for column in table.columns]
        ratio = next((place for place, name in enumerate(names) if name.startswith(RATIO)), None)
        if ratio is not None:
            return [(str(row[names.index("case")]), float(row[ratio] or 0)) for row in table.rows]
    raise LookupError(f"no table of the comparison has a column {RATIO!r}; run the part anew")

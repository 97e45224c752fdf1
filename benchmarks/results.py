"""What a part of the benchmarks returns: tables, plots and checks as data, and counts that later runs compare.

Cells are the measured values; the column states how they are printed. Nothing here measures or draws. Only counts are
kept between runs (`counts.json`): seeds are fixed, so every count should come out again, whatever the clock says. On
another processor a network may round one input in many differently, which moves a few counts a little; a rule that
changed moves nearly all of them. More is as bad as less: a rule that stops too soon breaks its guarantee.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairchain.system.atomic_write import place

Cell = str | int | float | None
# By name: one count for each seed, None where a run was cut by the size of the benchmark.
Counts = Mapping[str, list[int | None]]

COUNTS = Path(__file__).with_name("counts.json")
COMPARISON = "counts equal to the kept counts, one by one"
# The share of counts that may differ, and by how much each of them may.
MOST_DIFFERENT, MOST_OFF = 0.1, 0.3
SHOWN = 3


@dataclass(frozen=True)
class Column:
    """A column's head, and the format of its numbers."""

    name: str
    format: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns, with what a reader must know to read them."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Points of a line, or the bars of one colour (then x counts them); `spread` gives the bounds of each point."""

    name: str
    points: list[tuple[float, float]]
    dashed: bool = False
    spread: list[tuple[float, float]] | None = None


@dataclass(frozen=True)
class Plot:
    """A figure: lines on axes that may be logarithmic, or bars if they have labels."""

    file: str
    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = False
    log_y: bool = False
    bars: list[str] | None = None


@dataclass(frozen=True)
class Check:
    """Something that must hold; a check of times is only reported, not enforced, where sizes are small."""

    name: str
    holds: bool
    found: str
    required: str
    enforced: bool = True


@dataclass(frozen=True)
class PartResult:
    """All that one part found: `behind` lists where other methods are ahead, `counts` what later runs compare."""

    text: str
    tables: list[Table]
    checks: list[Check] = field(default_factory=list)
    settings: dict[str, Cell] = field(default_factory=dict)
    plots: list[Plot] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True)
class Ratio:
    """Two sides of one measurement, their ratio, and the limit that it must keep, if it has one."""

    section: str
    name: str
    ours: str
    other: str
    value: float
    limit: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; true where there is none."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def required(self) -> str:
        """The limit in words."""
        return "-" if self.limit is None else f"at {'least' if self.at_least else 'most'} {self.limit:g}"


def ratio_tables(ratios: Sequence[Ratio], titles: Mapping[str, tuple[str, str, str]]) -> list[Table]:
    """Return a table for each section that has ratios; a title names the table and the two sides."""
    tables = []
    for section, (title, ours, other) in titles.items():
        columns = [Column("what"), Column(ours), Column(other), Column("ratio", ".2f"), Column("limit"), Column("note")]
        rows: list[list[Cell]] = [
            [each.name, each.ours, each.other, each.value, each.required, each.note]
            for each in ratios
            if each.section == section
        ]
        if rows:
            tables.append(Table(title, columns, rows))
    return tables


def ratio_checks(ratios: Sequence[Ratio], *, enforced: bool) -> list[Check]:
    """Return a check for each ratio that has a limit."""
    return [
        Check(f"{each.section}: {each.name}", each.holds, f"{each.value:.2f}", each.required, enforced)
        for each in ratios
        if each.limit is not None
    ]


def count_name(*words: object) -> str:
    """Return the name of counts: all that they depend on but the seed, for instance a network, a case and a method."""
    return " / ".join(map(str, words))


def kept_counts(path: Path | None = None) -> dict[str, Counts]:
    """Return the counts of every part that were kept, by the part's name."""
    path = path or COUNTS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep_counts(new: Mapping[str, Counts], path: Path) -> None:
    """Write the counts of some parts and leave those of the others: one line for each name."""
    parts = []
    for part, counts in sorted({**kept_counts(path), **new}.items()):
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in counts.items())
        parts.append(f" {json.dumps(part)}: {{\n{lines}\n }}")
    path.parent.mkdir(parents=True, exist_ok=True)
    place({path: ("{\n" + ",\n".join(parts) + "\n}\n").encode()})


def compare_counts(kept: Counts, counts: Counts) -> Check:
    """Check the counts of this run against the kept ones; a comparison of nothing fails."""
    pairs = {
        f"{name} / seed {seed}": (before, now)
        for name, values in counts.items()
        for seed, (before, now) in enumerate(zip(kept.get(name, []), values, strict=False))
        if before is not None and now is not None
    }
    required = f"at most {MOST_DIFFERENT:.0%} different, none by more than {MOST_OFF:.0%}"
    if not pairs:
        return Check(COMPARISON, False, "NOTHING TO COMPARE: a run of size paper keeps counts", required)
    off = {name: abs(now - before) / max(before, 1) for name, (before, now) in pairs.items() if now != before}
    holds = len(off) <= MOST_DIFFERENT * len(pairs) and max(off.values(), default=0.0) <= MOST_OFF
    found = f"{len(pairs) - len(off):,} of {len(pairs):,} equal"
    if off:
        farthest = sorted(off, key=lambda name: off[name], reverse=True)[:SHOWN]
        found += "; farthest: " + "; ".join(f"{n}: {pairs[n][0]:,} kept, {pairs[n][1]:,} now" for n in farthest)
    total = sum(value is not None for values in counts.values() for value in values)
    return Check(COMPARISON, holds, found + (f"; {total - len(pairs):,} new" if total > len(pairs) else ""), required)

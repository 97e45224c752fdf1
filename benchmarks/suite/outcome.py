"""What a part of the suite gives: tables, plots and checks as data, kept as JSON so that parts can be run apart.

Cells are the measured values; how they are printed is said by their column. Nothing here measures or draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column's head, and the format of its numbers."""

    name: str
    form: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns, with what a reader must know to read them."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Points of a line, or the bars of one colour (then x counts them); `spread` is where each may lie."""

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
    note: str = ""


@dataclass(frozen=True)
class Check:
    """Something that must hold; one that rests on the clock is only reported where sizes are small."""

    name: str
    holds: bool
    found: str
    wanted: str
    enforced: bool = True


@dataclass(frozen=True)
class Machine:
    """Where and with what a part was run."""

    processor: str
    cores: int
    load: float | None
    system: str
    python: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Part:
    """All that one part found out."""

    name: str
    title: str
    size: str
    used: dict[str, Cell]
    date: str
    seconds: float
    machine: Machine
    text: str
    tables: list[Table]
    plots: list[Plot]
    checks: list[Check]
    behind: list[str]
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What a part's own module returns; the runner adds when and where."""

    text: str
    tables: list[Table]
    plots: list[Plot]
    checks: list[Check]
    used: dict[str, Cell]
    behind: list[str]
    # Every count of this run by its name, to be compared by later ones (benchmarks/suite/kept.py).
    counts: dict[str, int] = field(default_factory=dict)


def keep(part: Part, folder: Path) -> None:
    """Write a part's JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(part, enc_hook=float), indent=1)
    (folder / f"{part.name}.json").write_bytes(content + b"\n")


def kept(name: str, folder: Path) -> Part | None:
    """What was kept of a part, if it was ever run into this folder."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=Part)

"""The paper's table of repairs: certified networks, what they cost, and the paper's numbers beside."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import repair as repairs
from benchmarks.suite import paper
from benchmarks.suite.outcome import Cell, Check, Column, Found, Table
from benchmarks.suite.sizes import Sizes
from fairchain.errors import FairchainError

TEXT = """Each repair ends with a fresh certificate of the network that is saved, at delta 1e-6, and its price is
measured on rows that neither training nor search has seen; without rows (the paper's networks) it is agreement with
the original network. The paper's own repairs were not certified again, and that of credit by age is still unfair at
0.1. Its gaps are those of other networks where the network is ours: what can be compared is what a repair achieves
and loses, not where it starts."""


def run(sizes: Sizes, models: Path | None) -> Found:
    """All cases for which there is data."""
    if not sizes.repair:
        return _not_run("this size leaves it out")
    rows: list[list[Cell]] = []
    checks: list[Check] = []
    left_out = []
    with tempfile.TemporaryDirectory() as folder:
        for what, cases in _sources(models, Path(folder)):
            try:
                for whose, case in cases():
                    row, check = _repaired(case, whose)
                    rows.append(row)
                    checks.append(check)
            except FairchainError as error:
                left_out.append(f"{what}: {error}")
    text = TEXT + "".join(f"\n\nNot run: {line}." for line in left_out)
    used: dict[str, Cell] = {"repairs": len(rows)}
    return Found(text, [_table(rows)], [], checks, used, _behind(rows))


def _sources(models: Path | None, folder: Path) -> Iterator[tuple[str, Callable[[], Iterator[tuple[str, Any]]]]]:
    yield "our networks", lambda: (("our", case) for case in repairs.embedded_cases())
    yield "comments", lambda: iter([("our", repairs.text_case())])
    if models is not None:
        yield "the paper's networks", lambda: (("the paper's", case) for case in repairs.paper_cases(models, folder))


def _not_run(why: str) -> Found:
    return Found(f"Not run: {why}.", [], [], [], {}, [])


def _repaired(case: repairs.Case, whose: str) -> tuple[list[Cell], Check]:
    start = time.perf_counter()
    line, result = repairs.repaired(case, whose)
    seconds = time.perf_counter() - start
    assert result.original is not None
    assert result.after is not None
    assert result.price is not None
    network, protected = case.name.split()
    before, after, accurate, then = paper.REPAIRS[network, protected]
    price = result.price
    row: list[Cell] = [whose, case.name, case.spec.property.threshold, result.original.gap, f"{result.after.gap:.4f}"]
    # Rounded first: a loss of nothing is not printed as -0.
    lost = round(line.value, 4) + 0.0
    row += [result.after.decision.name, price.measure, price.before, price.after, lost]
    row += [result.candidates, seconds, f"{before} -> {after}", f"{accurate} -> {then}"]
    found = f"{result.after.decision.name}, {price.measure} lost {lost:.4f}"
    wanted = f"FAIR, at most {case.most_lost:g} lost"
    return row, Check(f"repair of {whose} {case.name}", line.holds, found, wanted)


def _table(rows: list[list[Cell]]) -> Table:
    columns = [Column("network"), Column("case"), Column("threshold", "g"), Column("gap before", ".4f")]
    columns += [Column("gap after [bounds]"), Column("verdict at 1e-6"), Column("price in"), Column("before", ".4f")]
    columns += [Column("after", ".4f"), Column("lost", ".4f"), Column("candidates", ",d"), Column("seconds", ".1f")]
    columns += [Column("paper: gap"), Column("paper: accuracy")]
    return Table("Repairs", columns, rows, "The last two columns are the paper's own numbers.")


def _behind(rows: list[list[Cell]]) -> list[str]:
    """Repairs that lose more than the paper's did."""
    found = []
    for row in rows:
        network, protected = str(row[1]).split()
        _, _, accurate, then = paper.REPAIRS[network, protected]
        lost = row[9]
        if isinstance(lost, float) and lost > accurate - then:
            found.append(f"repair of {row[0]} {row[1]}: {lost:.4f} of {row[6]} lost, the paper {accurate - then:.4f}")
    return found

"""The paper's figure of time against number of states: chains of the census network by race, at fixed accuracy."""

from __future__ import annotations

from pathlib import Path

from benchmarks.growing_states import STEPS, Row, measure, slope
from benchmarks.suite import paper
from benchmarks.suite.outcome import Cell, Check, Column, Found, Plot, Series, Table
from benchmarks.suite.sizes import Sizes
from fairchain import example, load_spec
from fairchain.spec import revise

TEXT = """Chains of the census network by race with more and more features as states, every value a state of its own,
learned until every transition out of every state is within epsilon, all together with probability 0.9, by the sound
rule. *Shared* chains have the paper's states; in *product* chains states carry the group, which makes them exact for
it, and there are more of them. The paper's seconds are its authors', by a rule that is not sound (see the first
part)."""


def run(sizes: Sizes, models: Path | None) -> Found:  # noqa: ARG001  # one network
    """One line for each kind of chain, and the paper's."""
    spec = revise(load_spec(example("census")), property__protected=["race"], guarantee__delta=paper.DELTA)
    measure(spec, "shared", STEPS[:1], 0.1)
    found = {
        kind: [measure(spec, kind, STEPS[:count], sizes.accuracy) for count in range(1, sizes.steps + 1)]
        for kind in ("shared", "product")
    }
    columns = [Column("chain"), Column("states", ",d"), Column("rounds", ",d"), Column("seconds", ".2f")]
    rows: list[list[Cell]] = [
        [kind, row.states, row.rounds, row.seconds] for kind, each in found.items() for row in each
    ]
    rows += [["the paper's, its authors' machine", states, None, seconds] for states, seconds in paper.GROWTH]
    slopes = {kind: slope(each) for kind, each in found.items()}
    by_paper = slope([Row("shared", states, 0, seconds) for states, seconds in paper.GROWTH])
    note = "; ".join(
        f"{kind} chains: time grows with the number of states to the power {s:.2f}" for kind, s in slopes.items()
    )
    largest = max(found["shared"], key=lambda row: row.states)
    series = [Series(f"{kind} chains", [(r.states, r.seconds) for r in each]) for kind, each in found.items()]
    series.append(Series("the paper (its authors' machine)", [*paper.GROWTH], dashed=True))
    return Found(
        text=TEXT,
        tables=[Table("Seconds by number of states", columns, rows, f"{note}; the paper's points: {by_paper:.2f}.")],
        plots=[
            Plot(
                "growth.svg", "Learning a chain at fixed accuracy", "states", "seconds", series, log_x=True, log_y=True
            )
        ],
        checks=[_below_the_paper(largest, sizes)],
        used={"epsilon": sizes.accuracy, "delta": paper.DELTA, "chains of each kind": sizes.steps},
        behind=[],
    )


def _below_the_paper(row: Row, sizes: Sizes) -> Check:
    """The largest shared chain against the paper's next smaller one."""
    states, seconds = max((point for point in paper.GROWTH if point[0] <= row.states), default=paper.GROWTH[0])
    name = f"seconds to learn a shared chain of {row.states:,} states"
    wanted = f"below {seconds:g} s, the paper's for {states}"
    return Check(name, row.seconds < seconds, f"{row.seconds:.1f} s, {row.rounds:,} rounds", wanted, sizes.timed)

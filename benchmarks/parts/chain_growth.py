"""The paper's figure of time against number of states: chains of the census network by race, at fixed accuracy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import paper
from benchmarks.measuring import power
from benchmarks.results import Cell, Check, Column, PartResult, Plot, Series, Table, count_name
from benchmarks.sizes import QUICK, Sizes
from fairchain import Spec, example, load_spec
from fairchain.chain.learn import learn_chain
from fairchain.chain.plan import ColumnKind
from fairchain.spec import revise

# Features in the order of the network, each added to those before; sex comes last and has two values, so that the
# accuracy of the labels requires the same in all chains.
STEPS = ("age", "workclass", "fnlwgt", "education", "occupation", "capital-gain", "capital-loss", "hours-per-week")
LAST = "sex"
KINDS: tuple[ColumnKind, ...] = ("shared", "product")
TEXT = """This section compares the time to learn chains with the times that the paper reports, by number of states. The
chains describe the census network by race. Each chain has one feature more than the chain before, and every value of a
feature is a separate state. fairchain's sound rule draws rounds until all transition probabilities are known within
epsilon, simultaneously with probability 0.9. The paper's seconds were measured by its authors, for a rule that is not
sound.

*Shared* chains have the same kind of states as the paper's chains. In *product* chains, each group has its own states.
Product chains are therefore larger, but their label probabilities have no approximation error.

The last feature of every chain is sex, which has two values. The feature before sex needs the most rounds,
because each state of that feature is seldom reached. A transition to sex also has a probability near one half, which is
the hardest to estimate. The feature before sex has few values in some chains and many values in others, so the number
of rounds rises and falls as features are added."""


@dataclass(frozen=True)
class Row:
    """One chain: its states, the rounds it took, and the time."""

    kind: ColumnKind
    states: int
    rounds: int
    seconds: float


def measure(spec: Spec, kind: ColumnKind, features: tuple[str, ...], epsilon: float) -> Row:
    """Learn one chain."""
    start = time.perf_counter()
    states = [f"{name}:values" for name in (*features, LAST)]
    chain = learn_chain(None, spec, units=states, chain=kind, epsilon=epsilon, seed=0)
    return Row(kind, len(chain), chain.metadata["rounds"], time.perf_counter() - start)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # one network
    """Learn all chains of both kinds."""
    spec = revise(load_spec(example("census")), property__protected=["race"], guarantee__delta=paper.DELTA)
    # What is imported at the first use is not what grows.
    measure(spec, "shared", STEPS[:1], 0.1)
    found = chains(spec, sizes)
    # The small chains of `make bench` too, so that it finds their counts in what a full run keeps.
    counts = counts_of(found, sizes) | (counts_of(chains(spec, QUICK), QUICK) if sizes.paper else {})
    series = [Series(f"{kind} chains", [(r.states, r.seconds) for r in each]) for kind, each in found.items()]
    series.append(Series("the paper (its authors' machine)", [*paper.GROWTH], dashed=True))
    return PartResult(
        text=TEXT,
        tables=[_table(found), _papers_table()],
        plots=[
            Plot(
                "growth.svg", "Learning a chain at fixed accuracy", "states", "seconds", series, log_x=True, log_y=True
            )
        ],
        checks=[_below_the_paper(max(found["shared"], key=lambda row: row.states), sizes)],
        settings={
            "epsilon": sizes.accuracy,
            "delta": paper.DELTA,
            "chains of each kind": sizes.steps,
            "seed": 0,
        },
        counts=counts,
    )


def chains(spec: Spec, sizes: Sizes) -> dict[ColumnKind, list[Row]]:
    """Learn chains of each kind, with one feature more at each step."""
    return {
        kind: [measure(spec, kind, STEPS[:count], sizes.accuracy) for count in range(1, sizes.steps + 1)]
        for kind in KINDS
    }


def counts_of(found: dict[ColumnKind, list[Row]], sizes: Sizes) -> dict[str, list[int | None]]:
    """Return the rounds of each chain, which do not depend on the machine."""
    return {
        count_name(kind, f"{row.states} states", f"epsilon {sizes.accuracy:g}"): [row.rounds]
        for kind, rows in found.items()
        for row in rows
    }


def _table(found: dict[ColumnKind, list[Row]]) -> Table:
    columns = [Column("chain"), Column("states", ",d"), Column("rounds", ",d"), Column("seconds", ".2f")]
    rows: list[list[Cell]] = [
        [kind, row.states, row.rounds, row.seconds] for kind, each in found.items() for row in each
    ]
    slopes = {kind: power([(row.states, row.seconds) for row in each]) for kind, each in found.items()}
    note = "Time grows with the number of states to the power " + " and ".join(
        f"{slope:.2f} ({kind} chains)" for kind, slope in slopes.items()
    )
    return Table("Seconds by number of states", columns, rows, f"{note}.")


def _papers_table() -> Table:
    rows: list[list[Cell]] = [[states, seconds] for states, seconds in paper.GROWTH]
    note = f"Time grows with the number of states to the power {power(paper.GROWTH):.2f}."
    columns = [Column("states"), Column("seconds", ",.1f")]
    return Table("The paper's times, on its authors' machine", columns, rows, note)


def _below_the_paper(row: Row, sizes: Sizes) -> Check:
    """Check the largest shared chain against the paper's next smaller one."""
    states, seconds = max((point for point in paper.GROWTH if point[0] <= row.states), default=paper.GROWTH[0])
    name = f"seconds to learn a shared chain of {row.states:,} states"
    wanted = f"below {seconds:g} s, the paper's time for {states} states"
    return Check(name, row.seconds < seconds, f"{row.seconds:.1f} s, {row.rounds:,} rounds", wanted, sizes.paper)

"""The error probability of every mode, measured where a wrong statement is most likely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.calibration.certain_modes import certain_modes
from benchmarks.calibration.family_modes import family_modes
from benchmarks.calibration.measure import (
    ALARM,
    EFFORTS,
    VERDICT,
    Effort,
    Measured,
    Mode,
    count,
    measure_unsound,
    runs_of,
)
from benchmarks.calibration.network_modes import inside_modes
from benchmarks.calibration.population_modes import drawn_modes
from benchmarks.calibration.random_modes import random_modes
from benchmarks.calibration.row_modes import row_modes
from benchmarks.calibration.shift_modes import shift_modes
from benchmarks.measuring import blocks
from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain.executors import default_workers

# Seeds that one process takes at once.
BLOCK = 50
TEXT = """Each mode is measured in a case in which it is most likely to be wrong, and in which the truth is known by
construction (column *truth*). If the gap equals the threshold, FAIR and UNFAIR are both counted as wrong. A mode makes
several kinds of statements: the verdict, the interval of the gap, and families of intervals that hold simultaneously.
Each kind of statement may be wrong with probability at most delta. The other columns have these meanings:

- *Runs*: how often the mode was run, each time with another seed.
- *Wrong verdicts*: the number of runs with a wrong verdict.
- *Intervals that miss*: the number of runs in which an interval does not contain the true value, for each kind of
  interval. For example, *rates* counts the runs in which the interval of any rate misses. *Together* counts the runs in
  which any interval of the verdict misses.
- *Chance*: the probability of at least as many wrong statements of one kind as were counted, if the error probability
  is exactly delta. The table shows the smallest chance over the kinds of statements. If this chance is below {alarm:g},
  the mode fails.
- *Unsound variant*: a variant of the mode that breaks one rule, level or assumption. The variant is measured in the
  same way as the mode, and should fail (*caught*). Its failure shows that the measurement detects errors.
- *Its wrong statements*: the kind of statement in which the variant was wrong most often, with the numbers of wrong
  runs and of all runs. The runs end as soon as it is certain whether the variant fails.

An exact mode (delta 0) fails if one verdict or one interval is wrong. If all modes keep to delta, the {kinds} kinds of
statements of all modes together cause a failure with probability at most {total:.1g}."""


def _by_name(*modes: Mode) -> dict[str, Mode]:
    found = {mode.name: mode for mode in modes}
    assert len(found) == len(modes), "two modes have the same name"
    return found


MODES = _by_name(
    *drawn_modes(),
    *certain_modes(),
    *row_modes(),
    *inside_modes(),
    *shift_modes(),
    *family_modes(),
    *random_modes(),
)


@dataclass(frozen=True)
class Finding:
    """What was measured of a mode and of its unsound variant."""

    mode: Mode
    sound: Measured
    unsound: Measured

    @property
    def holds(self) -> bool:
        """Whether the mode keeps to delta, and the measurement would have shown it if not."""
        return not self.sound.alarming and self.unsound.alarming

    def __str__(self) -> str:
        caught = "caught" if self.unsound.alarming else "NOT CAUGHT"
        return (
            f"{'PASS' if self.holds else 'FAIL'}  {self.mode.name}: delta {self.sound.delta:g}, {self.sound.runs} runs"
            f", wrong {dict(self.sound.wrong)}; {self.mode.variant}: {caught} after {self.unsound.tried} runs"
        )


@dataclass(frozen=True)
class _Task:
    """Some runs of a mode, or its unsound variant if there are no seeds."""

    mode: str
    seeds: range | None
    effort: Effort


def _work(task: _Task) -> Counter[str] | Measured:
    mode = MODES[task.mode]
    if task.seeds is None:
        return measure_unsound(mode, task.effort)
    return count(mode.play, task.seeds, task.effort)


def calibrate(modes: Sequence[Mode], effort: Effort) -> Iterator[Finding]:
    """Measure modes on all cores; the counts do not depend on how many there are."""
    with ProcessPoolExecutor(default_workers(), mp_context=get_context("spawn")) as pool:
        waiting = [
            (mode, [pool.submit(_work, _Task(mode.name, seeds, effort)) for seeds in [*_seeds(mode, effort), None]])
            for mode in modes
        ]
        for mode, futures in waiting:
            *counts, unsound = [future.result() for future in futures]
            assert isinstance(unsound, Measured)
            total: Counter[str] = Counter()
            for part in counts:
                assert isinstance(part, Counter)
                total.update(part)
            yield Finding(mode, Measured(runs_of(mode, effort), total, mode.delta), unsound)


def _seeds(mode: Mode, effort: Effort) -> list[range]:
    return blocks(runs_of(mode, effort), BLOCK)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # modes have their own networks
    """Measure every mode whose name contains the pattern of the sizes."""
    findings = []
    for finding in calibrate(
        [mode for mode in MODES.values() if sizes.modes.lower() in mode.name.lower()], EFFORTS[sizes.name]
    ):
        print(finding, flush=True)
        findings.append(finding)
    return result_of(findings)


def result_of(findings: Sequence[Finding]) -> PartResult:
    """Return the table of all modes, and whether each keeps to delta and each unsound variant is caught."""
    kinds = sum(len(finding.sound.wrong) for finding in findings if finding.mode.delta)
    return PartResult(
        text=TEXT.format(alarm=ALARM, kinds=kinds, total=kinds * ALARM),
        tables=[Table("Modes", COLUMNS, [_row(finding) for finding in findings])],
        checks=[
            _all_of("modes that do not fail", findings, lambda finding: not finding.sound.alarming),
            _all_of("unsound variants that fail (are caught)", findings, lambda finding: finding.unsound.alarming),
        ],
        settings={"modes": len(findings), "seeds": "0, 1, ... of every mode"},
    )


def _all_of(name: str, findings: Sequence[Finding], holds: Callable[[Finding], bool]) -> Check:
    failed = [finding.mode.name for finding in findings if not holds(finding)]
    found = f"{len(findings) - len(failed)} of {len(findings)}" + (f" (not {'; '.join(failed)})" if failed else "")
    return Check(name, bool(findings) and not failed, found, "all")


COLUMNS = [Column("population"), Column("property"), Column("engine"), Column("truth"), Column("delta", "g")]
COLUMNS += [Column("runs", ",d"), Column("wrong verdicts"), Column("intervals that miss"), Column("chance", ".1g")]
COLUMNS += [Column("result"), Column("unsound variant"), Column("its wrong statements"), Column("caught")]


def _row(finding: Finding) -> list[Cell]:
    mode, sound, unsound = finding.mode, finding.sound, finding.unsound
    misses = ", ".join(f"{kind} {count}" for kind, count in sound.wrong.items() if kind != VERDICT)
    kind, worst = max(unsound.wrong.items(), key=lambda each: each[1], default=("none", 0))
    return [
        *(mode.population, mode.about, mode.engine, mode.truth, mode.delta, sound.runs),
        *(str(sound.wrong.get(VERDICT, "-")), misses or "-", sound.chance, "FAIL" if sound.alarming else "PASS"),
        *(mode.variant, f"{kind} {worst} of {unsound.tried}", "yes" if unsound.alarming else "NO"),
    ]

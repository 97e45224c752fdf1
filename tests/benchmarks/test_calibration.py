"""Every mode keeps to delta at its worst place, and the same measurement catches its unsound variant.

Seeds are fixed, so that results are the same every time. For another choice of seeds a sound mode would raise a false
alarm with probability at most 1e-6 for each kind of statement: below 2e-4 for all modes together. A measurement ends as
soon as an alarm is certain or out of the question; that hides an alarm with probability at most 2e-4. `make calibrate`
measures the same modes with thousands of runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.calibration.measure import (
    ALARM,
    FULL,
    HOPELESS,
    QUICK,
    VERDICT,
    Measured,
    Mode,
    Play,
    chance,
    least_alarming,
    measure,
    measure_unsound,
    runs_of,
)
from benchmarks.parts import calibration
from benchmarks.parts.calibration import MODES, Finding, result_of
from benchmarks.sizes import QUICK as QUICK_SIZES


@pytest.mark.no_cover
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_mode_keeps_to_delta(mode: Mode) -> None:
    found = measure(mode, QUICK)
    assert not found.alarming, f"{dict(found.wrong)} of {found.runs} runs are wrong at delta {found.delta}"


@pytest.mark.no_cover
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_its_unsound_variant_is_caught(mode: Mode) -> None:
    found = measure_unsound(mode, QUICK)
    assert found.alarming, f"{mode.variant}: only {dict(found.wrong)} of {found.runs} runs are wrong"


def wrong_every(rate: float) -> Play:
    """One wrong verdict in every so many runs, or none."""
    return lambda seed, _: {VERDICT: rate > 0 and seed % round(1 / rate) == 0}


def made_up(rate: float, unsound: float = 1.0) -> Mode:
    return Mode("a", "b", "c", "d", 0.1, wrong_every(rate), "e", wrong_every(unsound))


def test_chances_are_binomial_tails() -> None:
    assert chance(0, 100, 0.1) == 1
    assert chance(2, 2, 0.1) == pytest.approx(0.01)
    assert chance(1, 1000, 0.0) == 0


def test_one_wrong_statement_of_an_exact_mode_is_an_alarm() -> None:
    assert not Measured(1000, {VERDICT: 0}, 0.0).alarming
    assert Measured(1000, {VERDICT: 1}, 0.0).alarming


def test_the_worst_kind_of_statement_decides() -> None:
    assert not Measured(100, {VERDICT: 10, "gap": 0}, 0.1).alarming
    assert Measured(100, {VERDICT: 0, "gap": 40}, 0.1).alarming


def test_a_variant_is_measured_until_an_alarm_is_certain_and_not_longer() -> None:
    found = measure_unsound(made_up(0.0), QUICK)
    assert found.alarming
    assert found.tried == found.wrong[VERDICT] < found.runs
    # One wrong statement less would not have been enough.
    assert not Measured(found.runs, {VERDICT: found.wrong[VERDICT] - 1}, 0.1).alarming
    missed = measure_unsound(made_up(0.0, unsound=0.1), QUICK)
    # Nor would it have been if all runs that were left out had been wrong.
    assert not missed.alarming
    assert not Measured(missed.runs, {VERDICT: missed.wrong[VERDICT] + missed.runs - missed.tried}, 0.1).alarming


def test_a_mode_is_measured_until_an_alarm_is_out_of_the_question_and_not_longer() -> None:
    never = measure(made_up(0.0), QUICK)
    assert (never.alarming, never.tried) == (
        False,
        next(t for t in range(QUICK.runs) if (1 - least_alarming(QUICK.runs, 0.1) / QUICK.runs) ** t < HOPELESS),
    )
    assert measure(made_up(1.0), QUICK).alarming
    # An exact mode fails by its first wrong statement, which may be in the last run.
    exact = replace(made_up(0.0), delta=0.0)
    assert measure(exact, QUICK).tried == QUICK.runs
    assert measure(replace(exact, play=lambda seed, _: {VERDICT: seed == QUICK.runs - 1}), QUICK).alarming


@pytest.mark.parametrize(
    ("size", "delta"), [*sorted({(runs_of(mode, QUICK), mode.delta) for mode in MODES.values()}), (120, 0.1)]
)
def test_what_ends_a_measurement_early_hides_no_alarm(size: int, delta: float) -> None:
    """For every error probability: the chance that the wrong statements of all runs are an alarm, after the end."""
    least, rates, counts = least_alarming(size, delta), np.linspace(0.01, 0.99, 50)[:, None], np.arange(size + 1)
    reached, missed = np.tile(np.eye(1, size + 1), (50, 1)), np.zeros(50)
    for tried in range(1, size + 1):
        reached = reached * (1 - rates) + np.pad(reached[:, :-1] * rates, ((0, 0), (1, 0)))
        ended = np.flatnonzero(binom.cdf(counts, tried, least / size) < HOPELESS)
        missed += (reached[:, ended] * binom.sf(least - ended - 1, size - tried, rates)).sum(axis=1)
        reached[:, ended] = 0
    assert missed.max() < 2e-4


def test_slow_modes_get_fewer_runs_and_every_mode_some() -> None:
    mode = made_up(0.0)
    assert runs_of(mode, FULL) == FULL.runs
    assert runs_of(replace(mode, share=0.5), FULL) == FULL.runs // 2
    assert runs_of(replace(mode, share=0.001), QUICK) == 10


def found(rate: float, unsound: float = 1.0) -> Finding:
    mode = made_up(rate, unsound)
    return Finding(mode, measure(mode, FULL), measure_unsound(mode, QUICK))


def test_the_result_names_what_fails_and_how_likely_a_false_alarm_is() -> None:
    findings = [found(0.1), found(0.5), found(0.1, unsound=0.1)]
    assert [each.holds for each in findings] == [True, False, False]
    result = result_of(findings)
    names = [column.name for column in result.tables[0].columns]
    rows = [dict(zip(names, row, strict=True)) for row in result.tables[0].rows]
    assert [row["result"] for row in rows] == ["PASS", "FAIL", "PASS"]
    assert [row["caught"] for row in rows] == ["yes", "yes", "NO"]
    assert [(check.holds, check.found) for check in result.checks] == [(False, "2 of 3 (not a | b | c)")] * 2
    assert all(check.enforced for check in result.checks)
    assert f"with probability at most {3 * ALARM:.1g}." in " ".join(result.text.split())
    assert all(check.holds for check in result_of(findings[:1]).checks)
    assert not any(check.holds for check in result_of([]).checks)


def test_a_pattern_selects_modes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        calibration, "calibrate", lambda modes, _: (Finding(mode, *[Measured(10, {}, 0.1)] * 2) for mode in modes)
    )
    result = calibration.run(replace(QUICK_SIZES, modes="STREAM OF"), None)
    assert [row[0] for row in result.tables[0].rows] == ["stream of decisions"] * 4
    assert "FAIL  stream of decisions" in capsys.readouterr().out

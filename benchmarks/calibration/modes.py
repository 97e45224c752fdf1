"""Every mode by its name."""

from __future__ import annotations

from benchmarks.calibration.drawn import drawn_modes
from benchmarks.calibration.inside import inside_modes
from benchmarks.calibration.measure import Mode
from benchmarks.calibration.rows import row_modes


def _by_name(*modes: Mode) -> dict[str, Mode]:
    found = {mode.name: mode for mode in modes}
    assert len(found) == len(modes), "two modes have the same name"
    return found


MODES = _by_name(*drawn_modes(), *row_modes(), *inside_modes())

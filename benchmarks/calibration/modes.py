"""Every mode by its name."""

from __future__ import annotations

from benchmarks.calibration.drawn import drawn_modes
from benchmarks.calibration.measure import Mode
from benchmarks.calibration.rows import row_modes

_ALL = [*drawn_modes(), *row_modes()]
MODES: dict[str, Mode] = {mode.name: mode for mode in _ALL}
assert len(MODES) == len(_ALL), "two modes have the same name"

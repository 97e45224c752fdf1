"""Calibration: how often each mode of fairchain breaks its promise where that is most likely.

`python -m benchmarks.calibration` (`make calibrate`) measures all modes; `measure` says what is counted and when a
count is an alarm.
"""

"""The exit codes of every command."""

from __future__ import annotations

# A verdict, or the result of a recheck.
VERDICT_EXIT_CODES = {"FAIR": 0, "UNFAIR": 1, "UNDECIDED": 3, "CONSTANT": 3}
RECHECKED = {"CONFIRMED": 0, "REJECTED": 1, "CONSISTENT": 3}
# No verdict: bad input or an output that cannot be written; Ctrl-C, SIGTERM, a closed pipe; a defect of fairchain.
BAD_INPUT, INTERRUPTED, TERMINATED, CLOSED_PIPE, OUR_BUG = 2, 130, 143, 141, 101


class Terminated(BaseException):
    """SIGTERM as an exception, for commands that must write their state before they end."""

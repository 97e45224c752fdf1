"""How numbers are written in a report: with their interval, and with as many digits as it gives meaning to."""

from __future__ import annotations

import math
from typing import Any

Bounded = dict[str, Any]


def digits(low: float, high: float) -> int:
    """Decimals that an interval of this width gives meaning to: 3 at least, 6 at most."""
    width = high - low
    return 4 if width <= 0 or not math.isfinite(width) else min(6, max(3, 1 - math.floor(math.log10(width))))


def with_interval(estimate: float, low: float, high: float) -> str:
    """`0.123 [0.101, 0.145]`; a number that is exact stands alone.

    >>> with_interval(0.12345, 0.1, 0.15)
    '0.123 [0.100, 0.150]'
    >>> with_interval(0.25, 0.25, 0.25)
    '0.2500'
    """
    places = digits(low, high)
    if low == high:
        return f"{estimate:.{places}f}"
    return f"{estimate:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def bounded(value: Bounded) -> str:
    """The same of a mapping with estimate, low and high."""
    return with_interval(value["estimate"], value["low"], value["high"])


def share(value: float) -> str:
    """A share in words of percent.

    >>> share(0.1234), share(0.0004), share(1.0)
    ('12.3%', '0.04%', '100%')
    """
    percent = 100 * value
    if percent in (0.0, 100.0):
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent >= 1 else f"{percent:.2g}%"


def confidence(delta: float) -> str:
    """How sure something is that fails with probability delta; what is not certain is never rounded to 1.

    >>> confidence(0.025), confidence(1e-12)
    ('0.975', '1 - 1e-12')
    """
    return f"{1 - delta:.6g}" if delta >= 0.001 else f"1 - {delta:g}"

"""Numbers as text: with their interval, and with as many digits as the width of the interval justifies."""

from __future__ import annotations

import math
from typing import Protocol

# Largest number of decimals for distinguishing a number below zero from zero.
MOST_PLACES = 6


class Bounded(Protocol):
    """An estimate with its bounds, like `Interval` and the records of groups and pairs."""

    @property
    def estimate(self) -> float:
        """The estimate."""
        ...

    @property
    def low(self) -> float:
        """The lower bound."""
        ...

    @property
    def high(self) -> float:
        """The upper bound."""
        ...


def digits(low: float, high: float) -> int:
    """Return the number of decimals that an interval of this width justifies: 3 to 6."""
    width = high - low
    return 4 if width <= 0 or not math.isfinite(width) else min(6, max(3, 1 - math.floor(math.log10(width))))


def with_interval(estimate: float, low: float, high: float, *, least: int = 3, threshold: float | None = None) -> str:
    """Return `0.123 [0.101, 0.145]`; an exact number has no interval.

    No number looks like the threshold, if there is one, unless it is equal, and none below zero looks like zero, up to
    6 decimals.

    >>> with_interval(0.12345, 0.1, 0.15)
    '0.123 [0.100, 0.150]'
    >>> with_interval(0.25, 0.25, 0.25)
    '0.2500'
    >>> with_interval(0.0883, 0.0774, 0.09996, threshold=0.1)
    '0.08830 [0.07740, 0.09996]'
    >>> with_interval(0.013, -0.0004, 0.026)
    '0.0130 [-0.0004, 0.0260]'
    """
    places = max(least, digits(low, high))
    if threshold is not None:
        places = max(close_to(number, threshold, least=places) for number in (estimate, low, high))
    while places < MOST_PLACES and any(number < 0 and not round(number, places) for number in (estimate, low, high)):
        places += 1
    shown, *ends = (_fixed(number, places) for number in (estimate, low, high))
    return shown if low == high else f"{shown} [{', '.join(ends)}]"


def _fixed(number: float, places: int) -> str:
    """Return a number with this many decimals, and zero without a sign."""
    shown = f"{number:.{places}f}"
    return shown if float(shown) else shown.lstrip("-")


def close_to(number: float, threshold: float, *, least: int = 4) -> int:
    """Return enough decimals that a number does not look like the threshold, unless it is equal; at most 12.

    >>> close_to(0.099993, 0.1), close_to(0.05, 0.1)
    (5, 4)
    """
    places = least
    while places < 12 and f"{number:.{places}f}" == f"{threshold:.{places}f}" and abs(number - threshold) > 1e-12:
        places += 1
    return places


def bounded(value: Bounded, *, least: int = 3, threshold: float | None = None) -> str:
    """Return an estimate with its interval and at least this many decimals."""
    return with_interval(value.estimate, value.low, value.high, least=least, threshold=threshold)


def share(value: float) -> str:
    """Return a share in percent.

    >>> share(0.1234), share(0.0004), share(1.0)
    ('12.3%', '0.04%', '100%')
    """
    percent = 100 * value
    if percent in (0.0, 100.0):
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent >= 1 else f"{percent:.2g}%"


def confidence(delta: float) -> str:
    """Return 1 - delta in percent, rounded down and never to 100%.

    >>> confidence(0.025), confidence(1e-6), confidence(1e-6 / 3), confidence(1e-12)
    ('97.5%', '99.9999%', '99.999966%', '1 - 1e-12')
    """
    if delta < 1e-9:
        return f"1 - {delta:g}"
    scale = 10 ** max(0, -math.floor(math.log10(delta)) - 1)
    return f"{math.floor((100 - 100 * delta) * scale + 1e-6) / scale:.12g}%"

"""What is said about a run besides its answer: where it stands, and what a reader should know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairchain.models import Model
from fairchain.statistics import Interval


@dataclass(frozen=True)
class Progress:
    """Where a run stands: rounds and evaluations so far, seconds, the gap with its bounds, evaluations in all.

    Of rows of a table the number is known and the gap is not; of rounds it is the other way round.
    """

    rounds: int
    evaluations: int
    seconds: float
    gap: Interval | None
    total: int | None = None


Report = Callable[[Progress], None]


def notes_on(model: Model | None, dropped: int = 0) -> tuple[str, ...]:
    """What a reader should know besides: rows left out, a model that was asked in a slower way."""
    rows = f"{dropped:,} rows with missing values were" if dropped > 1 else "1 row with missing values was"
    notes = [f"{rows} left out."] if dropped else []
    note = getattr(model, "note", "")
    return tuple([*notes, note] if note else notes)

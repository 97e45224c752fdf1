"""Counts against those of the committed results: seeds are fixed, so that every single one should come out again.

Counts do not depend on the clock or on how many threads there are. On another processor a network may round one input
in many otherwise, which moves a few counts a little; a rule that changed moves nearly all of them. More is as bad as
less: a rule that stops too soon breaks its promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.suite.outcome import Check, kept

RESULTS = Path(__file__).resolve().parents[1] / "results"
NAME = "counts as in the results that were kept, one by one"
# The share of counts that may differ, and by how much each of them may.
MOVED, OFF = 0.1, 0.3
WANTED = f"at most {MOVED:.0%} different, none by more than {OFF:.0%}"
SHOWN = 3


def counted(*words: object) -> str:
    """The name of one count: all that it depends on, for instance a network, a case, a method and a seed."""
    return " / ".join(map(str, words))


def as_kept(part: str, counts: Mapping[str, int]) -> Check:
    """Whether the counts of this run are those that were kept; it fails if there is nothing to compare."""
    before = kept(part, RESULTS)
    both = {name: (before.counts[name], now) for name, now in counts.items() if before and name in before.counts}
    if before is None or not both:
        what = "nothing was kept" if before is None else "what was kept has none of these counts"
        return Check(NAME, False, f"NOTHING TO COMPARE: {what}; a run of size paper keeps them", WANTED)
    other = {name: abs(now - then) / max(then, 1) for name, (then, now) in both.items() if now != then}
    holds = len(other) <= MOVED * len(both) and max(other.values(), default=0.0) <= OFF
    return Check(NAME, holds, _told(both, other, len(counts)), WANTED)


def _told(both: dict[str, tuple[int, int]], other: dict[str, float], total: int) -> str:
    told = f"{len(both) - len(other):,} of {len(both):,} equal"
    if other:
        far = sorted(other, key=lambda name: other[name], reverse=True)[:SHOWN]
        told += "; farthest: " + "; ".join(f"{name}: {both[name][0]:,} kept, {both[name][1]:,} now" for name in far)
    return told + (f"; {total - len(both):,} more are new" if total > len(both) else "")

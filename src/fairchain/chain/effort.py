"""How many rounds a chain is learned from: so many, or as many as make every transition known within epsilon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fairchain.chain.counter import CHUNK
from fairchain.errors import ChainError

ROUNDS = 20_000
MOST_ROUNDS = 10**9
Rule = Literal["sound", "paper"]
Progress = Callable[[int, int | None], None]
# Counts of traces of any kind: they add.
Counts = TypeVar("Counts", bound=Any)


@dataclass(frozen=True)
class Effort:
    """Rounds, or the most of them if there is an epsilon; the rule that says when it is reached; who is told."""

    rounds: int | None = None
    epsilon: float | None = None
    rule: Rule = "sound"
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and not 1 <= self.rounds <= MOST_ROUNDS:
            raise ChainError(f"rounds: found {self.rounds}; give at least one and at most {MOST_ROUNDS:,}")
        if self.rule not in ("sound", "paper"):
            raise ChainError(f'there is no rule "{self.rule}"; there is sound, paper')
        if self.rule == "paper" and self.epsilon is None:
            raise ChainError('rule: the "paper"\'s says when epsilon is reached; give epsilon, or leave the rule out')
        if self.epsilon is not None and not 0 < self.epsilon < 0.5:
            raise ChainError(f"epsilon: found {self.epsilon:g}; give a half width between 0 and 0.5")

    def spend(
        self, count: Callable[[int, int], Counts], enough: Callable[[Counts, float, Rule], bool]
    ) -> tuple[Counts, int]:
        """Counts of as many rounds as it takes, and how many those were.

        Parameters
        ----------
        count
            Counts so many rounds from a chunk on.
        enough
            Whether counts are enough for epsilon by a rule.
        """
        if self.epsilon is None:
            wanted = self.rounds or ROUNDS
            return count(0, wanted), wanted
        most = self.rounds or MOST_ROUNDS
        counts: Any = None
        done, chunk = 0, 0
        while done < most:
            batch = min(max(CHUNK, done // 4 // CHUNK * CHUNK), most - done)
            more = count(chunk, batch)
            counts = more if counts is None else counts + more
            done, chunk = done + batch, chunk + -(-batch // CHUNK)
            if self.progress is not None:
                self.progress(done, None)
            if enough(counts, self.epsilon, self.rule):
                return counts, done
        raise ChainError(
            f"epsilon: {done:,} rounds do not make every transition known within {self.epsilon:g}; a state is too "
            "rare: leave it out, divide it otherwise, or ask for a larger epsilon"
        )

"""A fresh run: the whole verification repeated with the checker's own seed and arithmetic.

Manipulations that suit one seed (of a network, a count or the seed itself) do not affect this run.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairchain.certificate_format import LOOK_CHUNK, LOOK_ROUNDS, LOOKED, BatchEvidence, upper_triangle
from fairchain.prepare import Case
from fairchain.rechecking.contents import Claim
from fairchain.rechecking.expected import evaluations, expected_claims, within_epsilon
from fairchain.rechecking.replay import Replay, ReplayedRule, chunk_rounds
from fairchain.rechecking.rerun import Counter, RecheckOptions
from fairchain.records import Record
from fairchain.spec.seeds import Seed


class Fresh(Record, frozen=True):
    """The verdict of the checker's own run.

    `agrees` is True or False if both this run and the certificate decided, and None if one did not. For a random model
    it is also None if one of them saw a single label (`constant`) and the other did not, because no re-run shows which
    labels the model gives.
    """

    seed: int
    verdict: str
    estimate: float
    low: float
    high: float
    rounds: int
    evaluations: int
    agrees: bool | None
    constant: str | None = None

    @classmethod
    def of(
        cls, found: Mapping[str, Any], claims: Mapping[str, Any], *, seed: int, constant: str | None, random: bool
    ) -> Fresh:
        """Compare the results of a run with the claims of a certificate."""
        gap, decision, claimed = found["gap"], found["decision"], claims.get("decision")
        other_labels = random and (constant is None) != (claims.get("constant") is None)
        agrees: bool | None = decision == claimed
        if not {decision, claimed} <= {"FAIR", "UNFAIR"} or (agrees and other_labels):
            agrees = None
        numbers = gap["estimate"], gap["low"], gap["high"], found["rounds"], found["evaluations"]
        return cls(seed, decision, *numbers, agrees, constant)

    def claim(self, claimed: str) -> Claim:
        """Return the claim that this run does not contradict the certificate's decision."""
        relation = {True: "agrees with", False: "contradicts", None: "neither confirms nor contradicts"}[self.agrees]
        how = f"with seed {self.seed}" if self.rounds else "with new answers about the same rows"
        found = f"{self.verdict}, {self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}], {how}"
        if self.constant is not None:
            found += f', all of them "{self.constant}"'
        detail = f"{found} ({self.evaluations:,} evaluations): {relation} {claimed}"
        return Claim("fresh run", self.agrees is not False, detail)


def fresh_run(
    model: Any, case: Case, question: ReplayedRule, claims: Mapping[str, Any], options: RecheckOptions
) -> Fresh:
    """Sample until the rule decides or the seconds are spent; without a seed the system's entropy gives one.

    The certificate's budget is not used, because the issuer chose it. For a random model, further inputs are tested if
    all got one label, as many as in a verdict.
    """
    random = not case.spec.model.deterministic
    chosen = secrets.randbits(63) if options.seed is None else options.seed
    counter, evaluated = Counter(model, case, chosen), case.comparison.evaluated
    replay = Replay(question)
    chunk = number = 0
    given: set[int] = set()
    deadline = time.perf_counter() + options.seconds
    while replay.decision == "UNDECIDED" and not (
        question.epsilon is not None and within_epsilon(replay, question.epsilon)
    ):
        if number and time.perf_counter() > deadline:
            break
        leader, groups, rounds, _ = replay.next_batch()
        size, done = chunk_rounds(rounds), 0
        together: list[list[list[list[int]]]] = []
        # A batch that exceeds the deadline keeps its finished chunks.
        while done < rounds and not (done and time.perf_counter() > deadline):
            count = min(size, rounds - done)
            seen = counter.labels(chunk + len(together), count, evaluated(groups))
            given.update(np.unique(seen).tolist())
            tables = counter.tables(seen)
            together.append([upper_triangle(table) for table in tables])
            done += count
        cut = rounds if done < rounds else None
        batch = BatchEvidence(chunk, size, done, groups, leader, replay.phase, [], together, cut)
        replay.take(number, batch, last=False)
        chunk, number = chunk + batch.chunks, number + 1
        if options.progress is not None:
            options.progress(evaluations(case, replay.rounds, np.diag(replay.joint)), 0)
    every = range(len(case.comparison.subgroups))
    for place in range(-(-LOOKED // (LOOK_ROUNDS * len(every))) if random else 0):
        if len(given) == 1 and time.perf_counter() <= deadline:
            given.update(np.unique(counter.labels(LOOK_CHUNK + place, LOOK_ROUNDS, every)).tolist())
    constant = case.spec.model.labels[min(given)] if random and len(given) == 1 else None
    # Only the decision is compared, and it does not depend on labels that are not counted.
    found = expected_claims(replay, case, [], "", Seed(chosen, "chosen"), "seconds")
    return Fresh.of(found, claims, seed=chosen, constant=constant, random=random)

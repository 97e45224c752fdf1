"""What a sample of chunks is worth: the probabilities are those of real samples, and no forgery is overestimated."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fairchain.certificate_format import BatchEvidence
from fairchain.rechecking.arithmetic import log_evidence
from fairchain.rechecking.replay import ReplayedRule
from fairchain.rechecking.rerun import escape_probability, sample_of, smallest_forgery

PAIR = ~np.eye(2, dtype=bool)[None]


@pytest.mark.parametrize(("chunks", "sampled", "forged"), [(80, 60, 1), (80, 60, 3), (200, 60, 5), (61, 60, 2)])
def test_forged_chunks_escape_real_samples_as_often_as_said(chunks: int, sampled: int, forged: int) -> None:
    """4000 samples of fixed seeds; each case would be off by four standard errors once in 15,000."""
    wrong = set(range(0, 2 * forged, 2))
    escaped = [wrong.isdisjoint(sample_of(range(chunks), sampled, seed)) for seed in range(4000)]
    said = escape_probability(chunks, sampled, forged)
    assert abs(np.mean(escaped) - said) <= 4 * np.sqrt(said * (1 - said) / 4000) + 1e-12


def question(threshold: float = 0.1, *, relative: bool = False, epsilon: float | None = None) -> ReplayedRule:
    return ReplayedRule(2, 1, threshold, 1e-6, epsilon, False, PAIR, relative)


def batch(number: int, both: int, first: int, second: int, rounds: int, leader: bool = False) -> BatchEvidence:
    """One chunk: so many rounds in which both groups, only the first and only the second got the outcome."""
    together = [[[[both + first, both], [both + second]]]]
    return BatchEvidence(number, 1024, rounds, [0, 1], (0, 1, 0) if leader else None, 0, [0, 1], together)


def remaining(batches: list[BatchEvidence], asked: ReplayedRule, verdict: str) -> float:
    """The log e-value of the counts that are left, of the pair that is furthest from the verdict."""
    total = sum((np.array(each.tables(0)[0]) for each in batches), start=np.zeros((2, 2), int))
    rounds = sum(each.rounds for each in batches)
    plus, minus = total[0, 0] - total[0, 1], total[1, 1] - total[0, 1]
    middle = total[0, 1] if asked.relative else rounds - plus - minus
    side = "above" if verdict == "FAIR" else "below"
    pairs = [(plus, middle, minus)] + [(minus, middle, plus)] * (verdict == "FAIR")
    return min(
        float(log_evidence(tuple(np.array([cell]) for cell in cells), asked.threshold, side, asked.relative)[0])  # type: ignore[arg-type]
        for cells in pairs
    )


@pytest.mark.parametrize("verdict", ["FAIR", "UNFAIR"])
@pytest.mark.parametrize("relative", [False, True])
def test_no_smaller_set_of_chunks_carries_the_evidence(verdict: str, relative: bool) -> None:
    """Of random certificates of eight chunks every subset is tried: without fewer chunks evidence is always left."""
    rng = np.random.default_rng(0)
    asked = question(0.1, relative=relative)
    sizes = set()
    for _ in range(12):
        batches = []
        for number in range(8):
            rounds = int(rng.integers(20, 400))
            shares = [0.3, 0.02, 0.02] if verdict == "FAIR" else [0.1, 0.3, 0.05]
            both, first, second, _ = rng.multinomial(rounds, [*shares, 1 - sum(shares)]).tolist()
            batches.append(batch(number, both, first, second, rounds, leader=verdict == "UNFAIR"))
        needed = smallest_forgery(batches, asked, verdict)
        assert needed is not None
        sizes.add(needed)
        for count in range(needed):
            for left_out in combinations(range(8), count):
                kept = [each for place, each in enumerate(batches) if place not in left_out]
                assert remaining(kept, asked, verdict) > 0
    assert max(sizes) > 1


def test_a_forger_who_invents_few_chunks_is_not_said_to_have_needed_more() -> None:
    """Honest chunks of a network with a gap of 0.2, and three invented ones that make it look fair."""
    rng = np.random.default_rng(1)
    honest = []
    for number in range(20):
        both, first, second, _ = rng.multinomial(1000, [0.4, 0.25, 0.05, 0.3]).tolist()
        honest.append(batch(number, both, first, second, 1000))
    assert remaining(honest, question(), "FAIR") < 0
    invented = [batch(20 + number, 0, 0, 1000, 1000) for number in range(3)]
    assert smallest_forgery([*honest, *invented], question(), "FAIR") in (1, 2, 3)


def test_an_undecided_certificate_rests_on_nothing() -> None:
    assert smallest_forgery([batch(0, 5, 1, 1, 20)], question(), "UNDECIDED") is None
    assert smallest_forgery([batch(0, 5, 1, 1, 20)], question(epsilon=0.1), "FAIR") == 1

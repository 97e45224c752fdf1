"""Findings of any size, made up: for pages with many groups, long names and hundreds of units."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace as changed

from fairchain.chain import Chain
from fairchain.explaining.result import Agreement, Explanation, Influence, LayerTotal, WordEffect
from fairchain.repairing.result import (
    Adjustment,
    Attempt,
    FrontPoint,
    Price,
    RepairRecord,
    TensorChange,
    WeightChange,
)
from fairchain.report.findings import Findings
from fairchain.statistics import Interval
from fairchain.verification.all_pairs import AllPairs, PairGap
from fairchain.verification.record import EvaluatedGroup, Gap, Pair, VerdictRecord, Witness

OUTCOME = "hire <now>"
HOSTILE = (
    "land=<script>alert(1)</script> \"quoted\" & 'single'",
    "land=מדינה עם שם מימין לשמאל",
    "land=a very long name that does not fit into any column of any table or picture of the page, by far",
    "land=bell\x07, turned \u202egnol, null\x00",
)


def interval(estimate: float, width: float = 0.02) -> Interval:
    return Interval(estimate, estimate - width, estimate + width)


def names(count: int) -> list[str]:
    return [*HOSTILE[: max(count - 2, 0)], *(f"land=group {i}" for i in range(count))][:count]


def rates(count: int) -> list[float]:
    return np.linspace(0.3, 0.6, count).tolist()


def gap(estimate: float, width: float, more: str, less: str, outcome: str = OUTCOME) -> Gap:
    return Gap(estimate, estimate - width, estimate + width, more, less, outcome)


def verdict(count: int = 5, decision: Any = "UNFAIR", constant: str | None = None) -> VerdictRecord:
    every = names(count)
    values: dict[str, str | float] = {"age": 31.0, "<b>field</b>": "<img src=x onerror=alert(2)>"}
    return VerdictRecord(
        verdict=decision if constant is None else "CONSTANT",
        decision=decision,
        constant=constant,
        engine="sampling",
        kind="difference",
        inputs="individuals",
        gap=gap(0.3, 0.02, every[-1], every[0]),
        threshold=0.1,
        delta=1e-6,
        epsilon=None,
        question="for all i, j: |P(Y=hire | land=i) - P(Y=hire | land=j)| <= 0.1",
        groups=groups(every, rates(count)),
        left_out=(),
        violators=(),
        witnesses=(Witness((every[0], every[-1]), ("no", OUTCOME), values),),
        rounds=1000,
        rows=None,
        evaluations=20000,
        seconds=0.0,
        stopped="decided",
        forecast=None,
        seed=0,
        seed_origin="chosen",
        rule="betting",
        sound=True,
        model_sha256="ab" * 32,
        table_sha256=None,
        population="independent uniform inputs over 12 features",
        statement="If every gap were at most 0.1, a run like this would have said UNFAIR with probability 1e-06.",
        scope="This is about the network with sha256 abab.",
        notes=("A remark with <i>markup</i>.",),
    )


def groups(every: list[str], shares: list[float], width: float = 0.01) -> tuple[EvaluatedGroup, ...]:
    return tuple(
        EvaluatedGroup(name, OUTCOME, p, p - width, p + width, 1000) for name, p in zip(every, shares, strict=True)
    )


def all_pairs(count: int, width: float = 0.02) -> AllPairs:
    every, shares = names(count), rates(count)
    pairs = tuple(pair_gap(every[i], every[j], shares[i] - shares[j], width) for i, j in combinations(range(count), 2))
    return AllPairs(pairs, "difference", 1e-6)


def pair_gap(first: str, second: str, estimate: float, width: float) -> PairGap:
    return PairGap(first, second, OUTCOME, estimate, estimate - width, estimate + width)


def explanation(count: int, units: int) -> Explanation:
    every = names(count)
    random = np.random.default_rng(0)
    made = []
    for place in range(units):
        layer = "inputs" if place < 12 else f"layer{1 + (place - 12) % 5}"
        made.append(
            Influence(
                name=f"feature <{place}>" if place < 12 else f"{layer}[{place}]",
                layer=layer,
                place=place,
                kind="feature" if place < 12 else "neuron",
                tensor=None if place < 12 else layer,
                method="resample",
                held_at=None,
                held_as=None,
                effect=interval(float(random.exponential(0.02)), 0.01),
                remaining=0.2,
                max_gap=0.3,
                changed=0.1,
                sensitivity=interval(float(random.exponential(0.1)), 0.02),
                share=0.5,
            )
        )
    made.sort(key=lambda unit: -unit.effect.estimate)
    return Explanation(
        pair=Pair(every[-1], every[0], OUTCOME),
        gap=interval(0.3),
        largest=interval(0.3),
        threshold=0.1,
        units=tuple(made),
        layers=(LayerTotal("layer1", "Relu", 64, interval(0.1), interval(0.2)),),
        agreement=Agreement(0.5, 0.6, 10, 5),
        witnesses=(),
        words=(WordEffect("<u>word</u>", 12, interval(0.05)),),
        method="resample",
        rounds=20000,
        seed=0,
        delta=1e-6,
        evaluations=20000,
        population="independent uniform inputs over 12 features",
        model_sha256="ab" * 32,
        statement="All intervals hold together with probability 0.999999.",
        scope="This is about the network with sha256 abab.",
    )


def repair(count: int, *, accepted: bool = True) -> RepairRecord:
    before = verdict(count)
    after = changed(
        verdict(count, "FAIR" if accepted else "UNDECIDED"), gap=gap(0.05, 0.02, before.gap.more, before.gap.less)
    )
    why = "the gap is not known to be small"
    return RepairRecord(
        accepted=accepted,
        needed=True,
        before=before,
        after=after,
        original=FrontPoint(0.3, 0.85, 0.0),
        front=tuple(FrontPoint(0.02 + 0.01 * i, 0.8 + 0.01 * i, 0.1, chosen=i == 4) for i in range(9)),
        adjustments=(Adjustment("outgoing weights of <age>, factor", 1.0, 0.1),),
        changes=(TensorChange("dense/<W>", "Gemm", (13, 64), 64, 832, 0.12, (WeightChange((0, 3), 0.3, 0.02),)),),
        price=Price(
            measure="accuracy",
            on="3,000 held-out rows",
            inputs=3000,
            before=0.85,
            after=0.845,
            change=interval(-0.005, 0.004),
            delta=1e-6,
            gained=3,
            lost=18,
            usual_before=0.7,
            usual_after=0.7,
        ),
        attempts=(Attempt(1, 5e-7, 1, after.verdict, interval(0.05), None, accepted, why),),
        optimizer="cma-es",
        change="scale",
        seed=1,
        iterations=30,
        candidates=300,
        evaluations=20000,
        stopped="converged",
        statement="A repaired network was accepted." if accepted else "No candidate was accepted.",
    )


def chain(count: int) -> Chain:
    """Start, groups, three states each, two decisions."""
    every, states = names(count), ["score low", "score middle", "score high"]
    all_states = ["Start", *every, *(f"{group} & {state}" for group in every for state in states)]
    no = len(all_states)
    all_states += ["Y=no", f"Y={OUTCOME}"]
    rows = [(0, 1 + i, 1 / count) for i in range(count)]
    for i, p in enumerate(rates(count)):
        for u, share in enumerate((1 - p, p / 3, 2 * p / 3)):
            rows.append((1 + i, 1 + count + 3 * i + u, share))
    for i in range(count):
        for u, share in enumerate((0.9, 0.5, 0.1)):
            rows += [(1 + count + 3 * i + u, no, share), (1 + count + 3 * i + u, no + 1, 1 - share)]
    rows += [(no, no, 1.0), (no + 1, no + 1, 1.0)]
    sources, targets, probabilities = (np.array(column) for column in zip(*rows, strict=True))
    return Chain(
        tuple(all_states),
        sources,
        targets,
        probabilities,
        {"Start": frozenset({0})},
        low=np.clip(probabilities - 0.01, 0, 1),
        high=np.clip(probabilities + 0.01, 0, 1),
        metadata={"states": ["score"], "rounds": 20000},
    )


def findings(count: int = 5, units: int = 40, *, accepted: bool = True) -> Findings:
    return Findings(
        title='hiring & <firing> "audit".toml',
        verdict=verdict(count),
        all_pairs=all_pairs(count),
        chain=chain(count),
        explanation=explanation(count, units),
        repair=repair(count, accepted=accepted),
        recheck=("fairchain recheck certificate.json --model hiring.onnx",),
        files={"certificate.json": "the verdict with every count behind it"},
        versions={"fairchain": "0.1"},
    )


def with_ratio() -> Findings:
    """Ratios of three groups and three outcomes."""
    found, every, shares = findings(3, 12), names(3), rates(3)
    rated = tuple(
        changed(group, outcome=outcome) for outcome in (OUTCOME, "later", "no") for group in groups(every, shares)
    )
    found_gap = gap(0.5, 0.02, every[-1], every[0])
    told = changed(found.verdict, kind="ratio", threshold=0.8, gap=found_gap, groups=rated)
    pairs = tuple(pair_gap(every[i], every[j], shares[i] / shares[j], 0.03) for i, j in combinations(range(3), 2))
    return replace(found, verdict=told, all_pairs=AllPairs(pairs, "ratio", 1e-6), repair=None)


def with_individual() -> Findings:
    """Whether the decision changes: no group has a probability of its own."""
    found = findings(4, 12)
    found_gap = gap(0.2, 0.02, "decision changes", "decision stays", "changes")
    return replace(
        found,
        verdict=changed(found.verdict, kind="individual", gap=found_gap, groups=()),
        all_pairs=None,
        repair=None,
    )


def with_rows() -> Findings:
    """A table counted whole: exact numbers, no chain, and a sample that cannot be repaired on."""
    found = findings(2, 12)
    every, exact = names(2), groups(names(2), rates(2), 0.0)
    told = changed(
        found.verdict,
        engine="counting",
        delta=0.0,
        rows=400,
        rounds=0,
        gap=gap(0.3, 0.0, every[-1], every[0]),
        groups=exact,
        seed=None,
        seed_origin=None,
        table_sha256="cd" * 32,
    )
    return replace(
        found,
        verdict=told,
        all_pairs=AllPairs(all_pairs(2, 0.0).pairs, "difference", 0.0),
        chain=None,
        repair=None,
        left_out={"chain": "population.kind: people are drawn", "repair": "a sample <is> used up by one look"},
    )


def with_texts() -> Findings:
    """Long texts, words, and a chain that comes back to its states."""
    found = findings(3, 12)
    every = names(3)
    text = "a long comment " * 80 + "x" * 300
    witness = Witness((every[0], every[1]), ("no", OUTCOME), {"comment": text})
    return replace(found, verdict=changed(found.verdict, inputs="texts", witnesses=(witness,)), chain=folded(3))


def fair() -> Findings:
    """Nothing to explain: the chain goes from groups to decisions."""
    every = names(3)
    states = ("Start", *every, "Y=no", f"Y={OUTCOME}")
    rows = [(0, 1 + i, 1 / 3) for i in range(3)]
    rows += [(1 + i, 4 + yes, p if yes else 1 - p) for i, p in enumerate((0.3, 0.31, 0.32)) for yes in (0, 1)]
    rows += [(4, 4, 1.0), (5, 5, 1.0)]
    direct = Chain(
        states, *(np.array(part) for part in zip(*rows, strict=True)), {}, metadata={"states": [], "rounds": 500}
    )
    return replace(findings(3, 12), verdict=verdict(3, "FAIR"), chain=direct, explanation=None, repair=None)


def folded(count: int) -> Chain:
    """Start, groups, two states each that come back to each other, two decisions."""
    every = names(count)
    states = ["Start", *every, *(f"{group} & lstm1 {state}" for group in every for state in ("calm", "tense"))]
    no = len(states)
    states += ["Y=no", f"Y={OUTCOME}"]
    rows = [(0, 1 + i, 1 / count) for i in range(count)]
    for i, p in enumerate(rates(count)):
        calm, tense = 1 + count + 2 * i, 2 + count + 2 * i
        rows += [(1 + i, calm, 1.0), (calm, calm, 0.5), (calm, tense, p / 2), (calm, no, 0.5 - p / 2)]
        rows += [(tense, calm, 0.25), (tense, tense, 0.25), (tense, no + 1, 0.5)]
    rows += [(no, no, 1.0), (no + 1, no + 1, 1.0)]
    sources, targets, probabilities = (np.array(column) for column in zip(*sorted(rows), strict=True))
    bounds = {"low": np.clip(probabilities - 0.01, 0, 1), "high": np.clip(probabilities + 0.01, 0, 1)}
    return Chain(tuple(states), sources, targets, probabilities, {}, metadata={"states": ["lstm1"]}, **bounds)


KINDS = {
    "ratio": with_ratio,
    "individual": with_individual,
    "rows": with_rows,
    "texts": with_texts,
    "fair": fair,
    "undecided": lambda: replace(findings(4, 30), verdict=verdict(4, "UNDECIDED"), repair=None),
    "constant": lambda: replace(fair(), verdict=verdict(3, "FAIR", "<no>")),
    "not-accepted": lambda: findings(4, 30, accepted=False),
}

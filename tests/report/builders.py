"""Findings of any size, made up: for pages with many groups, long names and hundreds of units."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from fairchain.chain import Chain
from fairchain.report.findings import Findings

OUTCOME = "hire <now>"
HOSTILE = (
    "land=<script>alert(1)</script> \"quoted\" & 'single'",
    "land=מדינה עם שם מימין לשמאל",
    "land=a very long name that does not fit into any column of any table or picture of the page, by far",
    "land=bell\x07, turned \u202egnol, null\x00",
)


def interval(estimate: float, width: float = 0.02) -> dict[str, float]:
    return {"estimate": estimate, "low": estimate - width, "high": estimate + width}


def names(count: int) -> list[str]:
    return [*HOSTILE[: max(count - 2, 0)], *(f"land=group {i}" for i in range(count))][:count]


def rates(count: int) -> list[float]:
    return np.linspace(0.3, 0.6, count).tolist()


def verdict(count: int = 5, decision: str = "UNFAIR", constant: str | None = None) -> dict[str, Any]:
    every, shares = names(count), rates(count)
    return {
        "verdict": decision if constant is None else "CONSTANT",
        "decision": decision,
        "constant": constant,
        "kind": "difference",
        "inputs": "people",
        "gap": {**interval(0.3), "more": every[-1], "less": every[0], "outcome": OUTCOME},
        "threshold": 0.1,
        "delta": 1e-6,
        "epsilon": None,
        "property": "for all i, j: |P(Y=hire | land=i) - P(Y=hire | land=j)| <= 0.1",
        "groups": groups(every, shares),
        "left_out": [],
        "violators": [],
        "witnesses": [
            {
                "groups": (every[0], every[-1]),
                "labels": ("no", OUTCOME),
                "input": {"age": 31.0, "<b>field</b>": "<img src=x onerror=alert(2)>"},
            }
        ],
        "rounds": 1000,
        "evaluations": 20000,
        "stopped": "decided",
        "forecast": None,
        "seed": 0,
        "seed_origin": "chosen",
        "rule": "betting",
        "sound": True,
        "model_sha256": "ab" * 32,
        "table_sha256": None,
        "population": "independent uniform inputs over 12 features",
        "statement": "If every gap were at most 0.1, a run like this would have said UNFAIR with probability 1e-06.",
        "scope": "This is about the network with sha256 abab.",
        "notes": ["A remark with <i>markup</i>."],
    }


def groups(every: list[str], shares: list[float]) -> list[dict[str, Any]]:
    return [
        {"name": name, "outcome": OUTCOME, "probability": p, "low": p - 0.01, "high": p + 0.01, "evaluations": 1000}
        for name, p in zip(every, shares, strict=True)
    ]


def survey(count: int) -> dict[str, Any]:
    every, shares = names(count), rates(count)
    pairs = [
        {"first": every[i], "second": every[j], "outcome": OUTCOME, **interval(shares[i] - shares[j])}
        for i, j in combinations(range(count), 2)
    ]
    return {"groups": groups(every, shares), "pairs": pairs, "measure": "difference", "rounds": 20000, "delta": 1e-6}


def explanation(count: int, units: int) -> dict[str, Any]:
    every = names(count)
    random = np.random.default_rng(0)
    made = []
    for place in range(units):
        layer = "inputs" if place < 12 else f"layer{1 + (place - 12) % 5}"
        made.append(
            {
                "name": f"feature <{place}>" if place < 12 else f"{layer}[{place}]",
                "layer": layer,
                "place": place,
                "kind": "feature" if place < 12 else "neuron",
                "effect": interval(float(random.exponential(0.02)), 0.01),
                "sensitivity": interval(float(random.exponential(0.1)), 0.02),
                "share": 0.5,
            }
        )
    made.sort(key=lambda unit: -unit["effect"]["estimate"])
    total = {"name": "layer1", "operator": "Relu", "width": 64, "effect": interval(0.1), "sensitivity": interval(0.2)}
    return {
        "pair": {"more": every[-1], "less": every[0], "outcome": OUTCOME},
        "gap": interval(0.3),
        "units": made,
        "layers": [total],
        "words": [{"word": "<u>word</u>", "texts": 12, "effect": interval(0.05)}],
        "witnesses": [],
        "statement": "All intervals hold together with probability 0.999999.",
    }


def repair(count: int, *, accepted: bool = True) -> dict[str, Any]:
    before = verdict(count)
    after = {**verdict(count, "FAIR" if accepted else "UNDECIDED"), "gap": {**before["gap"], **interval(0.05)}}
    points = [{"gap": 0.02 + 0.01 * i, "accuracy": 0.8 + 0.01 * i, "change": 0.1, "chosen": i == 4} for i in range(9)]
    attempt = {"number": 1, "delta": 5e-7, "seed": 1, "verdict": after["verdict"], "gap": interval(0.05)}
    return {
        "needed": True,
        "accepted": accepted,
        "before": before,
        "after": after,
        "front": points,
        "price": {
            "measure": "accuracy", "on": "3,000 held-out rows", "inputs": 3000, "before": 0.85, "after": 0.845,
            "change": interval(-0.005, 0.004), "delta": 1e-6, "gained": 3, "lost": 18,
        },
        "adjustments": [{"name": "outgoing weights of <age>, factor", "before": 1.0, "after": 0.1}],
        "changes": [
            {
                "tensor": "dense/<W>", "operator": "Gemm", "shape": [13, 64], "changed": 64, "size": 832,
                "relative": 0.12, "largest": [{"index": [0, 3], "before": 0.3, "after": 0.02}],
            }
        ],
        "attempts": [{**attempt, "price": None, "accepted": accepted, "why": "the gap is not known to be small"}],
        "statement": "A repaired network was accepted." if accepted else "No candidate was accepted.",
    }  # fmt: skip


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
        about={"states": ["score"], "rounds": 20000},
    )


def findings(count: int = 5, units: int = 40, *, accepted: bool = True) -> Findings:
    return Findings(
        title='hiring & <firing> "audit".toml',
        verdict=verdict(count),
        survey=survey(count),
        chain=chain(count),
        explanation=explanation(count, units),
        repair=repair(count, accepted=accepted),
        recheck=("fairchain recheck certificate.json --model hiring.onnx",),
        files={"certificate.json": "the verdict with every count behind it"},
        versions={"fairchain": "0.1"},
    )


def with_ratio() -> Findings:
    """The smaller over the larger, of three groups and three outcomes."""
    found = findings(3, 12)
    told = {**found.verdict, "kind": "ratio", "threshold": 0.8, "gap": {**found.verdict["gap"], **interval(0.5)}}
    every = names(3)
    groups_ = [
        {**group, "outcome": outcome} for outcome in (OUTCOME, "later", "no") for group in groups(every, rates(3))
    ]
    pairs = [
        {"first": every[i], "second": every[j], "outcome": OUTCOME, **interval(rates(3)[i] / rates(3)[j], 0.03)}
        for i, j in combinations(range(3), 2)
    ]
    return replace(
        found, verdict=told, survey={**survey(3), "groups": groups_, "pairs": pairs, "measure": "ratio"}, repair=None
    )


def with_individual() -> Findings:
    """Whether the decision changes: no group has a probability of its own."""
    found = findings(4, 12)
    gap = {**interval(0.2), "more": "decision changes", "less": "decision stays", "outcome": "changes"}
    told = {**found.verdict, "kind": "individual", "gap": gap, "groups": []}
    return replace(found, verdict=told, survey=None, repair=None)


def with_rows() -> Findings:
    """Everybody counted: exact numbers, no chain, and a sample that cannot be repaired on."""
    found = findings(2, 12)
    exact = [{**group, "low": group["probability"], "high": group["probability"]} for group in found.groups]
    gap = {**found.verdict["gap"], "low": 0.3, "high": 0.3}
    told = {**found.verdict, "delta": 0.0, "rows": 400, "rounds": 0, "gap": gap, "groups": exact, "seed": None}
    pairs = [{**pair, "low": pair["estimate"], "high": pair["estimate"]} for pair in survey(2)["pairs"]]
    return replace(
        found,
        verdict={**told, "table_sha256": "cd" * 32},
        survey={"groups": exact, "pairs": pairs, "measure": "difference", "rounds": 0, "delta": 0.0},
        chain=None,
        repair=None,
        left_out={"chain": "population.kind: people are drawn", "repair": "a sample <is> used up by one look"},
    )


def with_texts() -> Findings:
    """Long texts, words, and a chain that comes back to its states."""
    found = findings(3, 12)
    every = names(3)
    text = "a long comment " * 80 + "x" * 300
    witness = {"groups": every[:2], "labels": ["no", OUTCOME], "input": {"comment": text}}
    told = {**found.verdict, "inputs": "texts", "witnesses": [witness]}
    return replace(found, verdict=told, chain=folded(3))


def fair() -> Findings:
    """Nothing to explain: the chain goes from groups to decisions."""
    every = names(3)
    states = ("Start", *every, "Y=no", f"Y={OUTCOME}")
    rows = [(0, 1 + i, 1 / 3) for i in range(3)]
    rows += [(1 + i, 4 + yes, p if yes else 1 - p) for i, p in enumerate((0.3, 0.31, 0.32)) for yes in (0, 1)]
    rows += [(4, 4, 1.0), (5, 5, 1.0)]
    direct = Chain(
        states, *(np.array(part) for part in zip(*rows, strict=True)), {}, about={"states": [], "rounds": 500}
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
    return Chain(tuple(states), sources, targets, probabilities, {}, about={"states": ["lstm1"]}, **bounds)


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

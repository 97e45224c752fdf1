"""Ten questions about the census network, together and one by one, at the same error probability for all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.examples import example
from fairchain.spec import Spec, load_spec, revise
from fairchain.verification import verify
from fairchain.verification.family import verify_family

# Together they may cost this times as much as one by one.
MOST = 1.1
TEXT = """This section compares two methods to answer ten questions about the census network, with delta 1e-6 for all
verdicts together. In a family (*together*), all questions use one stream of inputs, and each input is evaluated once.
If the questions are answered *one by one*, each question has its own run and a tenth of delta. The table shows the sum
of evaluations, as a mean over seeds."""


def _questions(*changes: dict[str, Any]) -> list[Spec]:
    census = load_spec(example("census"))
    return [revise(census, **{f"property__{key}": value for key, value in change.items()}) for change in changes]


def different_features() -> list[Spec]:
    """Return ten questions about ten protected features or combinations."""
    features = ["race", "sex", "workclass", "education", "marital-status", "occupation", "relationship"]
    pairs = [["race", "sex"], ["sex", "relationship"], ["sex", "workclass"]]
    return _questions(*({"protected": each} for each in [*([name] for name in features), *pairs]))


def same_groups() -> list[Spec]:
    """Return ten questions about the groups of one protected feature: thresholds, ratios and individuals."""
    ratio = {"kind": "ratio", "outcome": ">50K"}
    return _questions(
        *({"threshold": threshold} for threshold in (0.05, 0.08, 0.1, 0.2)),
        *({**ratio, "threshold": threshold} for threshold in (0.6, 0.7, 0.8)),
        *({"kind": "individual", "threshold": threshold} for threshold in (0.05, 0.1, 0.2)),
    )


def costs(questions: Sequence[Spec], seed: int) -> tuple[int, int]:
    """Return the evaluations of the family, and the sum of those of its questions one by one."""
    family = verify_family(None, questions, seed=seed, workers=1)
    alone = [verify(None, each, seed=seed, delta=1e-6 / len(questions), workers=1) for each in questions]
    return family.evaluations, sum(verdict.evaluations for verdict in alone)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # the network of the package
    """Measure both families."""
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    ratios = {}
    for name, questions in {"different features": different_features(), "the same groups": same_groups()}.items():
        found = [costs(questions, seed) for seed in range(sizes.seeds)]
        together, alone = (sum(each) / len(found) for each in zip(*found, strict=True))
        ratios[name] = together / alone
        rows.append([name, together, alone, together / alone])
        counts[count_name(name, "evaluations together")] = [each for each, _ in found]
    checks = [
        Check(f"{name}: evaluations together / one by one", ratio <= MOST, f"{ratio:.2f}", f"at most {MOST:g}")
        for name, ratio in ratios.items()
    ]
    less = ratios["the same groups"]
    checks.append(Check("the same groups: fewer evaluations together", less < 1, f"ratio {less:.2f}", "below 1"))
    columns = [
        Column("ten questions about"),
        Column("together", ",.0f"),
        Column("one by one", ",.0f"),
        Column("ratio", ".2f"),
    ]
    return PartResult(
        text=TEXT, tables=[Table("Evaluations of ten questions", columns, rows)], checks=checks, counts=counts
    )

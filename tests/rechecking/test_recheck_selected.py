"""A certificate whose inputs were selected, for the groups of each batch only, is drawn again in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairchain import parse_spec, recheck, verify, write_certificate
from fairchain.populations import UniformPopulation
from fairchain.populations.derived import RejectionPopulation
from fairchain.spec import comparison_of
from fairchain.spec.conditions import parse_predicate
from fairchain.verification.sampler import Sampler
from fairchain.verification.verdict import RunRecord
from tests.networks import linear, save
from tests.questions import category, integer, question

GIVEN = "race == 'a' and age > 2 or race == 'b' and age < 7 or race == 'c' and age > 1"


def asked(path: Path) -> dict[str, Any]:
    data = question(integer("age"), category("race", "a", "b", "c"), path=str(path))
    data["property"] |= {"given": GIVEN, "threshold": 0.45}
    return data


def test_batches_without_some_group_are_confirmed(tmp_path: Path) -> None:
    path = save(linear([[0, 0.3], [0, 0.6]], [2.35, 0]), tmp_path / "network.onnx")
    verdict = verify(None, parse_spec(asked(path)))
    assert isinstance(verdict.evidence, RunRecord)
    assert {len(plan.groups) for plan, _ in verdict.evidence.entries} == {2, 3}
    write_certificate(verdict, tmp_path / "certificate.json")
    checked = recheck(tmp_path / "certificate.json", path, full=True)
    assert all(claim.holds for claim in checked.claims), checked.claims


def test_a_group_that_a_batch_leaves_out_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody of "c" is accepted: that ends a run only while "c" is compared."""
    spec = parse_spec(asked(tmp_path / "network.onnx"))
    predicate = parse_predicate("race == 'a' and age > 2 or race == 'b' and age < 2", spec.features)
    comparison = comparison_of(spec)
    source = UniformPopulation(spec, comparison.subgroups, np.float64)

    class Model:
        drawn = False

        def predict(self, values: Any) -> Any:
            return (values[:, 0] > 2).astype(np.uint8)

    drawn = RejectionPopulation(source, predicate, comparison.subgroups, most=1000)
    for count in (100, 5000):
        labels = Sampler(Model(), drawn, 0, comparison).labels(0, count, (0, 1))
        assert (labels[0] == 1).all()
        assert (labels[1] == 0).all()

"""An issuer who sees a round before choosing whether it counts: every count is the network's own, and none is taken.

The forger of these tests issues a certificate with the checker's own parts, so that only the choice is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import make_certificate, parse_spec, recheck, verify
from fairchain.certificate_format import BatchEvidence, digest
from fairchain.certificates import dump
from fairchain.models import load_model
from fairchain.prepare import case_of
from fairchain.rechecking import Recheck
from fairchain.rechecking.expected import expected_claims
from fairchain.rechecking.replay import Replay, ReplayedRule
from fairchain.rechecking.rerun import Counter
from tests.networks import linear, save
from tests.questions import category, integer, question

# From the number of a batch and the rounds that the rule says, the rounds that the issuer counts.
Sizes = Callable[[int, int], int]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that says yes to 60 of 100 inputs of one group and to 50 of the other."""
    return save(linear([[0, 1.0], [0, 10.0]], [0, -49.5]), tmp_path_factory.mktemp("hindsight") / "n.onnx")


def issued(network: Path, sizes: Sizes) -> dict[str, Any]:
    """A certificate of a run whose batches have these sizes, complete with every claim that follows from its counts."""
    data = question(integer("x", 0, 99), category("sex", "Female", "Male"), path=str(network))
    data["property"]["threshold"] = 0.3
    spec = parse_spec(data | {"guarantee": {"engine": "sampling", "delta": 1e-12}})
    content: dict[str, Any] = json.loads(dump(make_certificate(verify(None, spec, workers=1))))
    model = load_model(network, spec)
    case = case_of(spec, model, None)
    replay, counter = Replay(ReplayedRule.of(case)), Counter(model, case, case.seed.value)
    batches: list[dict[str, Any]] = []
    while replay.decision == "UNDECIDED":
        leader, groups, planned, _ = replay.next_batch()
        rounds = sizes(len(batches), planned)
        seen = counter.labels(len(batches), rounds, groups)
        tables = [[row[i:].tolist() for i, row in enumerate(table)] for table in counter.tables(seen)]
        labels = np.unique(seen).tolist()
        batch = BatchEvidence(len(batches), 1024, rounds, groups, leader, 0, labels, [tables])
        replay.take(len(batches), batch, last=False)
        batches.append({key: getattr(batch, key) for key in BatchEvidence.__struct_fields__})
    content["evidence"]["batches"] = batches
    content["claims"] = expected_claims(replay, case, [0, 1], model.sha256, case.seed, "decided")
    content["digest"] = digest(content)
    return content


def checked(network: Path, folder: Path, content: dict[str, Any]) -> Recheck:
    path = folder / "c.json"
    path.write_text(json.dumps(content))
    return recheck(path, network)


def test_the_sizes_that_the_rule_says_are_confirmed(network: Path, tmp_path: Path) -> None:
    assert checked(network, tmp_path, issued(network, lambda _, planned: planned)).conclusion == "CONFIRMED"


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("more", [-1, 1])
def test_a_round_left_out_or_added_after_it_was_seen_is_noticed(
    network: Path, tmp_path: Path, number: int, more: int
) -> None:
    content = issued(network, lambda batch, planned: planned + more * (batch == number))
    assert len(content["evidence"]["batches"]) > number + 1
    failing = [claim.name for claim in checked(network, tmp_path, content).claims if not claim.holds]
    assert failing == ["choices"]


@pytest.mark.parametrize("size", [2048, 4096, 8192])
def test_chunks_of_another_size_hold_other_rounds_and_are_noticed(network: Path, tmp_path: Path, size: int) -> None:
    """In the last batch too: whoever may choose among four sizes sees four batches, and shows one of them."""
    content = issued(network, lambda _, planned: planned)
    content["evidence"]["batches"][-1]["chunk_rounds"] = size
    content["digest"] = digest(content)
    failing = [claim.name for claim in checked(network, tmp_path, content).claims if not claim.holds]
    assert failing == ["choices"]

"""What the training found, as data, and the spec file made from it.

The spec is written by the program that trained the network, so that the two cannot drift apart; the model
card is made from the same results in `train_card`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.train_gaps import Gap, group_name
from benchmarks.train_network import HIDDEN
from fairchain.datasets.schemas import EncodedFeature
from fairchain.datasets.tables import Encoded

THRESHOLD = 0.1


@dataclass(frozen=True)
class Case:
    """What is asked of one example: the origin of its data, the outcome and the protected features."""

    name: str
    title: str
    origin: str
    outcome: str
    protected: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """One seed that was tried; `refused` is empty for the one that was kept."""

    seed: int
    validation: float
    uniform_rate: float
    gaps: tuple[Gap, ...]
    refused: str


@dataclass(frozen=True)
class Result:
    """One finished example with everything that was measured on its file.

    `group_rows` counts, for each gap, the training rows of every group.
    """

    case: Case
    attempts: tuple[Attempt, ...]
    epoch: int
    training: float
    validation: float
    held_out: float
    held_out_rows: int
    majority: float
    held_out_rate: float
    uniform_rate: float
    gaps: tuple[Gap, ...]
    group_rows: tuple[dict[str, int], ...]
    size: int
    sha256: str

    @property
    def seed(self) -> int:
        """The seed that was kept."""
        return self.attempts[-1].seed


def spec_text(result: Result, data: Encoded) -> str:
    """The spec file of an example."""
    case = result.case
    head = [
        f"# {case.title}: a dense ReLU network of our own, {shape(data)}.",
        f"# Trained on {case.origin}, CC BY 4.0.",
        f"# Accuracy on {result.held_out_rows} held-out rows: {result.held_out:.3f} "
        f"(always the commoner label: {result.majority:.3f}).",
        "",
        "[model]",
        f"path = {json.dumps(case.name + '.onnx')}",
        f"labels = {json.dumps(list(data.labels))}",
    ]
    tail = [
        *("", "[population]", 'kind = "uniform"', "", "[property]", 'kind = "difference"'),
        f"protected = {json.dumps([case.protected[0]])}",
        f"outcome = {json.dumps(case.outcome)}",
        f"threshold = {THRESHOLD}",
        *("", "[guarantee]", "delta = 1e-6"),
    ]
    body = [line for feature in data.features for line in _feature_lines(feature)]
    return "\n".join([*head, *body, *tail]) + "\n"


def shape(data: Encoded) -> str:
    """The widths of a network's layers, as 13-64-...-2."""
    return "-".join(str(width) for width in (len(data.features), *HIDDEN, len(data.labels)))


def _feature_lines(feature: EncodedFeature) -> list[str]:
    lines = ["", "[[feature]]", f"name = {json.dumps(feature.name)}", f'kind = "{feature.kind}"']
    if feature.values is not None:
        return [*lines, f"values = {json.dumps(list(feature.values))}"]
    lines += [f"low = {feature.low}", f"high = {feature.high}"]
    if feature.name == "age":
        named = (
            f'"{group_name(feature, value - feature.low)}" = {value}' for value in range(feature.low, feature.high + 1)
        )
        lines.append(f"groups = {{ {', '.join(named)} }}")
    return lines

"""How long a report takes, against the audit that it is of: 20 groups, a network of about 500 units.

`python -m benchmarks.report` audits a made-up network in a temporary folder, stage by stage, and writes its report. The
claims: under two seconds, and at most a tenth of the audit. Both are measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fairchain.auditing import Step, audit

GROUPS, FEATURES, LAYERS = 20, 12, (160, 160, 160)
MOST_SECONDS, MOST_SHARE = 2.0, 0.1


def made_up_network() -> bytes:
    """Dense layers with relus; the first input is the group, which weighs in."""
    rng = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    sizes = (1 + FEATURES, *LAYERS, 2)
    for number, (inputs, outputs) in enumerate(pairwise(sizes), start=1):
        weights = rng.normal(0, inputs**-0.5, (inputs, outputs))
        weights[0] *= 3 if number == 1 else 1
        constants += [
            numpy_helper.from_array(weights.astype(np.float32), f"w{number}"),
            numpy_helper.from_array(np.zeros(outputs, np.float32), f"b{number}"),
        ]
        end = number == len(sizes) - 1
        nodes.append(helper.make_node("Gemm", [last, f"w{number}", f"b{number}"], ["y" if end else f"z{number}"]))
        if not end:
            last = f"r{number}"
            nodes.append(helper.make_node("Relu", [f"z{number}"], [last]))
    graph = helper.make_graph(
        nodes,
        "made-up",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1 + FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        constants,
    )
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return content


def question(folder: Path) -> Path:
    """The spec, with the network beside it."""
    (folder / "network.onnx").write_bytes(made_up_network())
    features = [{"name": f"feature {i}", "kind": "real", "low": -1.0, "high": 1.0} for i in range(FEATURES)]
    land = {
        "name": "land",
        "kind": "category",
        "values": [f"land {i}" for i in range(GROUPS)],
        "codes": np.linspace(-1, 1, GROUPS).round(3).tolist(),
    }
    spec = {
        "model": {"path": "network.onnx", "labels": ["no", "yes"]},
        "feature": [land, *features],
        "property": {"kind": "difference", "protected": ["land"], "outcome": "yes", "threshold": 0.05},
        "guarantee": {"delta": 1e-6},
    }
    (folder / "question.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder / "question.json"


def main() -> None:
    """Print the time of each stage, and whether the claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-repair", action="store_true", help="leave out the longest stage")
    options = parser.parse_args()
    seconds: dict[str, float] = {}
    start = time.perf_counter()

    def report(step: Step) -> None:
        if step.finished:
            seconds[step.stage] = time.perf_counter() - start - sum(seconds.values())

    with TemporaryDirectory() as name:
        found = audit(question(Path(name)), Path(name) / "audit", repair=not options.no_repair, progress=report)
        size = found.report.stat().st_size
        units = len(found.findings.explanation.units) if found.findings.explanation else 0
    whole = sum(seconds.values())
    print(f"{found.decision}, repaired: {found.repaired}; {GROUPS} groups, {units} units, page {size / 1000:.0f} kB")
    for stage, took in seconds.items():
        print(f"{stage:8} {took:7.2f} s  {took / whole:6.1%}")
    share = seconds["report"] / whole
    holds = seconds["report"] < MOST_SECONDS and share <= MOST_SHARE and size < 500_000
    allowed = f"at most {MOST_SECONDS:g} s and {MOST_SHARE:.0%}"
    print(f"report: {seconds['report']:.2f} s, {share:.1%} of the audit ({allowed})")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

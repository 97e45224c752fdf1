"""A small audit: a network of four neurons that looks at sex, and stages that work with few inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.questions import category, integer, question
from tests.repairing.builders import biased

SPEC = "question.json"


def write_question(folder: Path, *, weight: float = 2.0, **property_: Any) -> Path:
    """A spec file with its network beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.onnx").write_bytes(biased(weight).SerializeToString())
    data = question(integer("x"), integer("y"), category("sex", "Female", "Male"))
    data["property"] |= property_
    (folder / SPEC).write_text(json.dumps(data), encoding="utf-8")
    return folder / SPEC


@contextmanager
def few_inputs() -> Iterator[None]:
    """Every stage as it is, only smaller."""
    from fairchain.auditing import auditor
    from fairchain.chain import learn as effort
    from fairchain.repairing import change_plan

    with (
        patch.object(auditor, "explain_case", partial(auditor.explain_case, rounds=500)),
        patch.object(auditor, "repair_case", partial(auditor.repair_case, settings=change_plan.Settings(iterations=1))),
        patch.multiple(change_plan, SEARCHED=512, REFINED=512, IN_PYTHON=512, IN_PYTHON_REFINED=512),
        patch.object(effort, "ROUNDS", 500),
    ):
        yield


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of an audit, hidden ones too, but not what a killed process left of a file that it was writing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".part"}

"""Verdicts in MLflow: in a real store where mlflow is installed; what is logged, and under which names, anywhere."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fairchain
from fairchain import Verdict
from fairchain.tracking import LOGGING_NEEDS_MLFLOW, NO_REPORT, log_verdict, metrics_of, tags_of
from fairchain.verification.verdict import GroupProbability
from tests.messages import says


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return fairchain.verify(None, fairchain.example("credit"))


def renamed(verdict: Verdict, *names: str) -> Verdict:
    first = verdict.groups[0]
    groups = tuple(GroupProbability(name, first.outcome, first.probability, 1) for name in names)
    return replace(verdict, groups=groups)


def test_the_numbers_are_those_of_the_verdict(verdict: Verdict) -> None:
    numbers = metrics_of(verdict)
    assert numbers["fairness/gap"] == verdict.gap.estimate
    assert (numbers["fairness/gap_low"], numbers["fairness/gap_high"]) == (verdict.gap.low, verdict.gap.high)
    assert (numbers["fairness/threshold"], numbers["fairness/delta"]) == (0.1, 1e-6)
    first = verdict.groups[0]
    assert numbers["fairness/rate/age_10-19"] == first.probability.estimate
    assert len(numbers) == 6 + 3 * len(verdict.groups)


def test_names_of_any_kind_become_names_that_mlflow_takes_and_none_is_lost(verdict: Verdict) -> None:
    hostile = renamed(verdict, "a<b>", "a(b)", "../../up", "מדינה", "x" * 900, "nul\x00", "a//b")
    numbers = metrics_of(hostile)
    assert len(numbers) == 6 + 3 * 7
    for name in numbers:
        assert re.fullmatch(r"[\w\-. /:]+", name, flags=re.ASCII)
        assert len(name) <= 250
        assert os.path.normpath(name) == name
        assert not any(other.startswith(f"{name}/") for other in numbers)


def test_the_tags_say_verdict_and_network(verdict: Verdict) -> None:
    tags = tags_of(verdict, "gate")
    assert tags["gate.verdict"] == "UNFAIR"
    assert tags["gate.model_sha256"] == verdict.model_sha256
    assert tags["gate.sound"] == "true"


def test_without_mlflow_the_message_says_what_to_install(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(fairchain.FairchainError, match=says(LOGGING_NEEDS_MLFLOW)):
        log_verdict(verdict)


class StandIn:
    """Takes what mlflow takes, and remembers it."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.batches: list[int] = []
        self.files: dict[str, Any] = {}

    def active_run(self) -> SimpleNamespace:
        return SimpleNamespace(info=SimpleNamespace(run_id="7"))

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.batches.append(len(metrics))
        self.metrics |= metrics

    def set_tags(self, tags: dict[str, str]) -> None:
        self.files["tags"] = tags

    def log_dict(self, content: Any, name: str) -> None:
        self.files[name] = content

    def log_text(self, content: str, name: str) -> None:
        self.files[name] = content


def test_many_groups_are_logged_in_batches(verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)  # type: ignore[arg-type]
    many = renamed(verdict, *(f"group {i}" for i in range(400)))
    assert log_verdict(many) == "7"
    assert max(stand_in.batches) <= 500
    assert len(stand_in.metrics) == 6 + 1200
    assert "fairness/certificate.json" in stand_in.files


def test_what_cannot_be_certified_is_logged_without_a_certificate(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)  # type: ignore[arg-type]
    log_verdict(replace(verdict, certifiable=False))
    assert set(stand_in.files) == {"tags", "fairness/verdict.json"}


def test_a_report_that_is_not_there_is_told_before_anything_is_logged(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)  # type: ignore[arg-type]
    with pytest.raises(fairchain.FairchainError, match=says(NO_REPORT)):
        log_verdict(verdict, report=tmp_path / "report.html")
    assert stand_in.files == {}


@pytest.mark.mlflow
# mlflow's own dependencies warn of what they will give up.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_real_store_has_the_numbers_and_a_certificate_that_holds(
    verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    if os.environ.get("FAIRCHAIN_NO_SKIP"):
        import mlflow
    else:
        mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow-skinny")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    page = tmp_path / "report.html"
    page.write_text("<p>report</p>", encoding="utf-8")
    with mlflow.start_run() as outer:
        assert log_verdict(verdict, report=page) == outer.info.run_id
    alone = log_verdict(verdict)
    assert alone != outer.info.run_id
    assert mlflow.active_run() is None
    stored = mlflow.get_run(outer.info.run_id)
    assert stored.data.metrics == pytest.approx(metrics_of(verdict))
    assert stored.data.tags["fairness.verdict"] == "UNFAIR"
    folder = Path(mlflow.artifacts.download_artifacts(run_id=outer.info.run_id, artifact_path="fairness"))
    assert {path.name for path in folder.iterdir()} == {"verdict.json", "certificate.json", "report.html"}
    assert json.loads((folder / "verdict.json").read_text(encoding="utf-8"))["verdict"] == "UNFAIR"
    network = fairchain.example("credit").with_suffix(".onnx")
    assert fairchain.recheck(folder / "certificate.json", network).holds

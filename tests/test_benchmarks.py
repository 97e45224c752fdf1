"""The benchmarks in small: they run, they count what they say they count, and a broken limit is seen.

Nothing here looks at a clock, and the networks of the paper are not needed: one of the same shape is made up.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


@pytest.fixture
def bench() -> Any:
    return importlib.import_module("benchmarks.bench")


@pytest.mark.parametrize("place", range(6))
def test_a_verdict_takes_at_most_a_tenth_of_the_evaluations_of_verifair(bench: Any, place: int) -> None:
    case = bench.embedded()[place]
    (line,) = bench.against_verifair(case, seeds=2)
    assert line.holds, line
    assert "UNDECIDED" not in line.note


def test_verifair_decides_right_and_is_charged_for_every_sample() -> None:
    rule = importlib.import_module("benchmarks.baselines.verifair")

    def draw(first: int, count: int) -> Any:
        rng = np.random.default_rng(first)
        return rng.random((3, count)) < np.array([[0.2], [0.3], [0.5]])

    unfair = rule.verifair(draw, 3, 0.1, 1e-6)
    fair = rule.verifair(draw, 3, 0.5, 1e-6)
    assert (unfair.decision, fair.decision) == ("UNFAIR", "FAIR")
    for stopped, threshold in ((unfair, 0.1), (fair, 0.5)):
        each = stopped.evaluations // 3
        assert 2 * rule.half_width(each, 1e-6 / 3) <= abs(stopped.gap - threshold)
        assert 2 * rule.half_width(each // 2, 1e-6 / 3) > abs(stopped.gap - threshold)
    assert rule.verifair(draw, 3, 0.3, 1e-6, most=30_000).decision == "UNDECIDED"


def test_the_inequality_of_verifair_is_the_published_one() -> None:
    rule = importlib.import_module("benchmarks.baselines.verifair")
    by_hand = np.sqrt((0.6 * np.log(np.log(1000) / np.log(1.1) + 1) + np.log(24 / 0.05) / 1.8) / 1000)
    assert rule.half_width(1000, 0.05) == pytest.approx(by_hand)
    assert np.all(np.diff(rule.half_width(np.arange(10, 10_000), 1e-6)) < 0)


@pytest.mark.parametrize(("protected", "groups"), [("sex", 2), ("race", 5), ("age", 9)])
def test_a_long_run_evaluates_as_often_as_it_says_and_leaves_no_group_out(
    bench: Any, protected: str, groups: int
) -> None:
    verdict = bench.verify(None, bench.long_question(protected, 20_000), workers=1)
    assert verdict.evaluations == 20_000 // groups * groups
    assert all(len(plan.groups) == groups for plan, _ in verdict.evidence.entries)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bare_network_evaluates_as_many_inputs_as_asked(bench: Any, threads: int) -> None:
    case = bench.census("sex")
    network = bench.BareNetwork(case.spec.model.path, case.population.rounds(1, 0, 1024).inputs((0,)))
    assert network.run(5001, 256, threads) == 5001


def test_memory_is_read_of_a_run_of_the_size_asked_for(bench: Any) -> None:
    found = bench.peak_memory("race", 1000, 1)
    assert (found.rounds, found.evaluations) == (200, 1000)
    assert 10 < found.before <= found.peak < 2000


def test_the_papers_networks_come_from_a_folder(bench: Any, tmp_path: Path) -> None:
    models = importlib.import_module("benchmarks.paper_models")
    _made_up_networks(tmp_path)
    specs = models.paper_specs(tmp_path, tmp_path, threshold=0.5, delta=0.1)
    assert list(specs) == list(models.KNOWN_GAPS)
    layers = models.read_layers(tmp_path / "bank_model.npz")
    inputs = np.random.default_rng(5).integers(0, 4, (200, 2)).astype(np.float32)
    spec = specs["bank", "age"]
    wanted = (np.maximum(inputs @ layers[0][0] + layers[0][1], 0) @ layers[1][0] + layers[1][1]).argmax(axis=1)
    assert bench.OnnxModel(spec.model.path, spec).predict(inputs).tolist() == wanted.tolist()


def test_known_facts_about_a_case_become_lines_of_their_own(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = replace(bench.census("sex"), whose=bench.PAPERS)
    monkeypatch.setitem(bench.KNOWN_GAPS, ("census", "sex"), 0.9)
    monkeypatch.setitem(bench.PROTOTYPE_EVALUATIONS, ("census", "sex"), 1)
    lines = {line.section: line for line in bench.against_verifair(case, seeds=1)}
    assert set(lines) == {"evaluations", "prototype", "known gap"}
    assert {line.name for line in lines.values()} == {"paper's census sex"}
    assert not lines["known gap"].holds
    assert not lines["prototype"].holds


def test_what_is_judged_is_measured_more_often_than_what_is_told(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(bench, "RESIDENT", 2**14)
    monkeypatch.setattr(bench, "TIME_LIMITS", {"sex": 1.5})
    one, two, second = bench.against_bare_network(bench.Sizes(evaluations=2000, repetitions=2, told=1))
    assert [line.section for line in (one, two, second)] == ["network", "network", "workers"]
    assert ("2 turns" in one.note, "1 turns" in two.note) == (True, True)
    # The promise is about long runs.
    assert one.limit is None


def test_a_limit_that_does_not_hold_is_said_and_sets_the_exit_code(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = bench.Line("start", "quick enough", "1 s", "1 s", 1.0, 2.0)
    bad = bench.Line("evaluations", "too many", "5", "10", 2.0, 10.0, at_least=True)
    monkeypatch.setattr(bench, "measure", lambda *_: iter([good, bad]))
    assert bench.main([]) == 1
    shown = capsys.readouterr().out
    assert "does not hold: evaluations: too many" in shown
    assert shown.count("holds") == 1
    assert bench.main(["--json"]) == 1
    assert [line["holds"] for line in json.loads(capsys.readouterr().out)] == [True, False]
    monkeypatch.setattr(bench, "measure", lambda *_: iter([good]))
    assert bench.main(["--quick"]) == 0


def _made_up_networks(folder: Path) -> None:
    rng = np.random.default_rng(3)
    spaces = {}
    for name, protected in {"census": ["race", "age", "sex"], "credit": ["age", "sex"], "bank": ["age", "job"]}.items():
        width = len(protected)
        shapes = {"W0": (width, 4), "b0": (4,), "W1": (4, 2), "b1": (2,)}
        np.savez(folder / f"{name}_model.npz", **{key: rng.normal(size=shape) for key, shape in shapes.items()})
        features = [{"name": each, "low": 0, "high": 3} for each in protected]
        spaces[name] = {"features": features, "classes": ["no", "yes"], "protected": protected}
    (folder / "spaces.json").write_text(json.dumps(spaces), encoding="utf-8")

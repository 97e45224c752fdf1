"""From a spec and a network to a verdict: right, reproducible, within budget, and stoppable."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairchain import (
    CertificateError,
    Decision,
    ModelError,
    OnnxModel,
    SpecError,
    example,
    load_spec,
    make_certificate,
    parse_spec,
    verify,
)
from fairchain.executors import open_workers
from fairchain.executors import workers as workers_module
from fairchain.messages import FILE_NOT_FOUND
from fairchain.models.base import LOADED_FOR_ANOTHER_SPEC
from fairchain.prepare import prepare
from fairchain.spec import Spec, comparison_of, revise
from fairchain.statements import TOO_MANY_COUNTS
from fairchain.statistics import BettingRule
from fairchain.verification import Progress, sampler, sampling
from fairchain.verification.progress import NOT_PROGRESS
from fairchain.verification.verdict import VERDICT_HAS_NO_TRUTH, RunRecord
from tests.messages import says

# The true gaps of the embedded networks from 2 million rounds, see benchmarks/NETWORKS.md; three standard errors.
KNOWN = {
    ("census", "race"): (0.0091, 0.0003),
    ("census", "age"): (0.0191, 0.0003),
    ("census", "sex"): (0.0089, 0.0002),
    ("credit", "age"): (0.1674, 0.0008),
    ("credit", "sex"): (0.0421, 0.0004),
    ("bank", "age"): (0.0526, 0.0006),
}


def question(name: str, protected: str | None = None, **changes: object) -> Spec:
    chosen = [protected] if protected else None
    return revise(load_spec(example(name)), property__protected=chosen, **changes)


def test_bounds_and_witnesses_are_computed_once_when_they_are_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: object, **options: object) -> object:
            calls.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    counted(sampling, "find_witnesses")
    counted(BettingRule, "gap_within")
    verdict = verify(None, question("credit"))
    assert (verdict.decision, calls) == (Decision.UNFAIR, [])
    assert verdict.witnesses
    assert verdict.gap.low >= 0.1
    assert verdict.to_dict() == pickle.loads(pickle.dumps(verdict)).to_dict()
    assert sorted(calls) == ["find_witnesses", "gap_within"]


def test_the_numbers_of_a_slow_model_belong_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may take long, or ask the model again, which may be gone when they are read."""
    verdict = verify(lambda rows: rows[:, -1] > 0, question("credit", guarantee__budget__rounds=2000))
    monkeypatch.setattr(BettingRule, "gap_within", None)
    monkeypatch.setattr(OnnxModel, "predict", None)
    assert verdict.gap.low <= verdict.gap.estimate
    assert verdict.witnesses == ()


@pytest.mark.parametrize("case", KNOWN, ids="-".join)
def test_verdicts_on_the_embedded_networks_are_right_and_intervals_contain_the_truth(case: tuple[str, str]) -> None:
    """Five seeds at delta 1e-6: a failure by chance has probability below 1e-4."""
    truth, error = KNOWN[case]
    spec = question(*case)
    model = OnnxModel(spec.model.path, spec)
    for seed in range(5):
        verdict = verify(model, spec, seed=seed)
        assert verdict.decision is (Decision.UNFAIR if truth > 0.1 else Decision.FAIR)
        assert verdict.gap.low <= truth + error
        assert verdict.gap.high >= truth - error


def test_the_number_of_workers_changes_nothing_but_times() -> None:
    spec = question("census", property__threshold=0.0095, guarantee__budget__rounds=200_000)
    certificates = []
    for workers in (1, 2, 4):
        content = make_certificate(verify(None, spec, workers=workers))
        content.pop("times")
        certificates.append(content)
    assert certificates[0] == certificates[1] == certificates[2]
    # Enough for several chunks in a batch, or the workers would have had nothing to share.
    assert max(b["rounds"] for b in certificates[0]["evidence"]["batches"]) >= 2 * 8192


def test_chunks_that_are_begun_ahead_are_counted_once_and_only_where_they_are_planned() -> None:
    """Batches long enough for threads to begin chunks of the next one; then one with other groups, and a cut one."""
    case = prepare(None, example("census"), seed=7)
    common = (case.model, case.population, case.seed.value, case.comparison)
    plans = [(65_536, (0, 1)), (65_536, (0, 1)), (65_536, (0, 1, 2)), (131_072, (0, 1, 2)), (65_536, (0, 1, 2))]

    def counts(workers: int) -> list[Any]:
        found, first = [], 0
        with open_workers(workers) as opened:
            sampled = sampler.Sampler(*common, workers=opened)
            for place, (planned, groups) in enumerate(plans):
                most = 40_000 if place == len(plans) - 1 else None
                batch = sampled.run(first, planned, groups, lambda _: False, most)
                found.append((batch.rounds, batch.chunks, batch.together.tolist(), [p.tolist() for p in batch.parts]))
                first += batch.chunks
        return found

    assert counts(2) == counts(1)


def test_the_same_seed_gives_the_same_and_another_seed_other_counts() -> None:
    spec = question("credit")
    records = [make_certificate(verify(None, spec, seed=seed))["evidence"] for seed in (1, 1, 2)]
    assert records[0] == records[1] != records[2]


def test_a_budget_of_rounds_is_kept_to_the_round_and_ends_undecided_with_a_forecast() -> None:
    verdict = verify(None, question("census", property__threshold=0.012, guarantee__budget__rounds=1234))
    assert verdict.decision is Decision.UNDECIDED
    assert (verdict.rounds, verdict.stopped) == (1234, "rounds")
    assert verdict.forecast is None or verdict.forecast > 0
    assert "No verdict" in verdict.statement


@pytest.mark.parametrize("threshold", [0.0091, 0.2])
def test_an_estimate_says_why_it_ended_and_an_undecided_verdict_is_never_decided(threshold: float) -> None:
    """The threshold lies within the interval, or far outside; either way sampling ends at the accuracy asked for."""
    verdict = verify(None, question("census", property__threshold=threshold, guarantee__epsilon=0.02))
    assert (verdict.decision is Decision.UNDECIDED) == (threshold < 0.1)
    assert verdict.stopped == verdict.to_dict()["stopped"] == "epsilon"


def test_a_budget_of_seconds_ends_a_run_that_would_go_on() -> None:
    spec = question("census", property__threshold=0.0091, guarantee__delta=1e-9, guarantee__budget__seconds=0.2)
    verdict = verify(None, spec)
    assert (verdict.decision, verdict.stopped) == (Decision.UNDECIDED, "seconds")
    assert verdict.rounds > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_budget_of_seconds_holds_while_bounds_are_computed(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which chunks, looks, bounds and pairs above take 0.5, 1, 4 and 5 seconds of a budget of 30."""
    now = 0.0
    observe, gap, count = BettingRule.observe, BettingRule.gap, sampler.write_together
    violators = BettingRule.violators

    def after(seconds: float) -> None:
        nonlocal now
        now += seconds

    def slow_gap(rule: BettingRule) -> tuple[float, float, float]:
        after(4.0 if rule._bounds is None else 0.0)
        return gap(rule)

    monkeypatch.setattr(BettingRule, "observe", lambda *given: (after(1.0), observe(*given)))
    monkeypatch.setattr(BettingRule, "gap", slow_gap)
    monkeypatch.setattr(BettingRule, "violators", lambda rule: (after(5.0), violators(rule))[1])
    monkeypatch.setattr(sampler, "write_together", lambda *given: (after(0.5), count(*given))[1])
    for module in (workers_module, sampling):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    spec = question("census", property__threshold=0.0091, guarantee__delta=1e-9, guarantee__budget__seconds=30)
    verdict = verify(None, spec, workers=workers)
    assert (verdict.decision, verdict.stopped) == (Decision.UNDECIDED, "seconds")
    assert 20 < now <= 30


def test_many_pairs_are_looked_at_early_and_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 groups and 60 labels: a first look after 2048 rounds, and no counts of chunks that no certificate can hold."""
    monkeypatch.setattr(sampler, "MOST_VALUES", 150_000)
    labels = [f"l{i}" for i in range(60)]
    spec = parse_spec(
        {
            "model": {"labels": labels, "decision": "label", "codes": list(range(60))},
            "feature": [
                {"name": "g", "kind": "category", "values": [f"g{i}" for i in range(60)]},
                {"name": "x", "kind": "real", "low": 0, "high": 1},
            ],
            "property": {"protected": ["g"], "kind": "difference", "threshold": 0.02},
            "population": {"kind": "uniform"},
        }
    )
    verdict = verify(lambda rows: (rows[:, 1] * 59.9).astype(int), spec, seed=1)
    assert verdict.decision is Decision.FAIR
    assert isinstance(verdict.evidence, RunRecord)
    batches = [batch for _, batch in verdict.evidence.entries]
    assert batches[0].rounds == 2048
    values = [part.size // 2 for batch in batches for part in batch.parts]
    assert sum(values) <= 150_000
    assert not verdict.evidence.whole
    with pytest.raises(CertificateError, match=says(TOO_MANY_COUNTS)):
        make_certificate(verdict)


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_gives_what_is_known_so_far(workers: int) -> None:
    spec = question("census", property__threshold=0.0091, guarantee__delta=1e-9)
    before = signal.getsignal(signal.SIGINT)
    sent = threading.Event()

    def press(_progress: Progress) -> None:
        if not sent.is_set():
            sent.set()
            os.kill(os.getpid(), signal.SIGINT)

    verdict = verify(None, spec, workers=workers, progress=press)
    assert (verdict.decision, verdict.stopped) == (Decision.UNDECIDED, "interrupted")
    assert verdict.rounds > 0
    assert signal.getsignal(signal.SIGINT) is before


def test_estimate_mode_knows_everything_within_epsilon() -> None:
    verdict = verify(None, question("credit", "sex", guarantee__epsilon=0.02, guarantee__delta=0.01))
    truth, error = KNOWN["credit", "sex"]
    assert abs(verdict.gap.estimate - truth) <= 0.02 + error
    for group in verdict.groups:
        assert max(group.probability.estimate - group.probability.low, 0) <= 0.02
    assert "within 0.02 of its estimate" in verdict.statement


@pytest.mark.parametrize("threshold", [0.02, 0.042, 0.2])
def test_an_estimates_verdict_never_contradicts_its_interval(threshold: float) -> None:
    for seed in range(5):
        spec = question("credit", "sex", guarantee__epsilon=0.03, guarantee__delta=0.05, property__threshold=threshold)
        verdict = verify(None, spec, seed=seed)
        inside = verdict.gap.low <= threshold < verdict.gap.high
        assert (verdict.decision is Decision.UNDECIDED) == inside
        assert verdict.decision is not Decision.FAIR or verdict.gap.high <= threshold
        assert verdict.decision is not Decision.UNFAIR or verdict.gap.low > threshold


def test_a_model_loaded_for_one_spec_is_not_used_for_another() -> None:
    spec = question("credit", "sex")
    model = OnnxModel(spec.model.path, spec)
    assert verify(model, question("credit", "age")).decision is Decision.UNFAIR
    renamed = revise(spec, model__labels=["good", "bad"])
    with pytest.raises(ModelError, match=says(LOADED_FOR_ANOTHER_SPEC)):
        verify(model, renamed)


def test_the_papers_rule_says_everywhere_that_it_is_not_sound() -> None:
    verdict = verify(None, question("census", "sex", guarantee__rule="paper", guarantee__delta=0.1))
    assert not verdict.sound
    assert verdict.to_dict()["sound"] is False
    assert "NOT SOUND" in verdict.statement
    assert not verdict.evidence.coupled


def test_all_labels_are_looked_at_and_two_labels_are_one_question() -> None:
    spec = question("census", "sex")
    assert comparison_of(spec).outcomes == (1,)
    verdict = verify(None, _without_outcome(spec))
    assert [group.outcome for group in verdict.groups] == ["<=50K"] * 2 + [">50K"] * 2
    low, high = verdict.groups[0].probability, verdict.groups[2].probability
    assert low.estimate + high.estimate == pytest.approx(1)
    assert (low.low, low.high) == pytest.approx((1 - high.high, 1 - high.low))


def _without_outcome(spec: Spec) -> Spec:
    import msgspec

    return msgspec.structs.replace(spec, property=msgspec.structs.replace(spec.property, outcome=None))


def test_witnesses_are_people_whose_class_changes_with_the_group() -> None:
    spec = question("credit")
    verdict = verify(None, spec)
    model = OnnxModel(spec.model.path, spec)
    assert verdict.witnesses
    columns = [feature.name for feature in spec.features]
    for witness in verdict.witnesses:
        assert witness.labels[0] != witness.labels[1]
        for name, label in zip(witness.groups, witness.labels, strict=True):
            row = np.zeros((1, len(columns)), np.float32)
            for column, feature in enumerate(spec.features):
                value = witness.input.get(feature.name)
                if value is None:
                    value = feature.groups[name.removeprefix("age=")]
                row[0, column] = feature.values.index(value) if isinstance(value, str) else value
            assert spec.model.labels[model.predict(row)[0]] == label


def test_intersections_of_two_protected_features_are_groups() -> None:
    spec = revise(load_spec(example("census")), property__protected=["sex", "race"], property__threshold=0.2)
    verdict = verify(None, spec)
    assert len(verdict.groups) == 10
    assert verdict.groups[0].name.count(" & ") == 1
    assert verdict.decision is Decision.FAIR


def test_a_verdict_is_not_a_truth_value() -> None:
    verdict = verify(None, question("census", "sex"))
    with pytest.raises(TypeError, match=says(VERDICT_HAS_NO_TRUTH)):
        bool(verdict)
    assert verdict.fair


def test_a_notebook_shows_names_as_text() -> None:
    spec = question("census", "sex")
    import msgspec

    features = tuple(
        msgspec.structs.replace(f, values=("<b>F</b>", "M&M")) if f.name == "sex" else f for f in spec.features
    )
    page = verify(None, msgspec.structs.replace(spec, described=features))._repr_html_()
    assert "<b>F</b>" not in page
    assert "&lt;b&gt;F&lt;/b&gt;" in page


def test_a_notebook_shows_when_a_verdict_is_not_sound() -> None:
    spec = revise(question("census", "sex"), guarantee__rule="paper")
    assert "<b>FAIR (NOT SOUND)</b>" in verify(None, spec)._repr_html_()


def test_a_spec_may_be_given_by_path_and_a_model_too() -> None:
    path: Path = example("credit")
    assert verify(path.with_suffix(".onnx"), path).decision is Decision.UNFAIR
    with pytest.raises(SpecError, match=says(FILE_NOT_FOUND)):
        verify(None, path.with_name("nowhere.toml"))


def test_progress_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(SpecError, match=says(NOT_PROGRESS, found="3")):
        verify(None, example("census"), progress=3)  # type: ignore[arg-type]

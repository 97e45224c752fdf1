"""Branch and bound agrees with what is counted by hand, alone and together with sampling.

Certain bounds have no error probability. Where rounds are drawn too, delta is 1e-6, so that a wrong answer among the
few hundred of a run has a chance below 1e-3; seeds are fixed.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, make_certificate, parse_spec, recheck, verify, write_certificate
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.executors import Workers
from fairchain.models import load_model
from fairchain.models.inspect.relu_layers import FEATURE_NETWORKS_ONLY
from fairchain.models.onnx.session import OnnxModel
from fairchain.prepare import Case, case_of, prepare
from fairchain.spec import revise
from fairchain.spec.properties import in_own_unit
from fairchain.statements import NO_BOUNDS_CERTIFICATE
from fairchain.verification import bounding, choosing
from fairchain.verification import partition as partitions
from fairchain.verification.answers import Answer
from fairchain.verification.bounding import EXPLORED, BoundingRun
from fairchain.verification.boxes import BOUNDS_OF_INDIVIDUALS, WeightedChoice, box_space
from fairchain.verification.partition import LabelBounds, Partition, label_bounds
from fairchain.verification.sampling import SamplingEngine
from tests.messages import says
from tests.networks import constant, graph, node, save, value
from tests.questions import category, changed, integer, question, real
from tests.relu import relu_net
from tests.verification.exact import KINDS, Answers, random_answers


def small_question(number: int) -> Answers:
    rng = np.random.default_rng(number)
    return replace(random_answers(rng, KINDS[number % 3], ("uniform", "marginals")[number // 3 % 2]), given=None)


def case_about(asked: Answers, path: Path, threshold: float, **guarantee: Any) -> Case:
    data = asked.spec(asked.net.save(path / "network.onnx"), threshold, seed=1, **guarantee)
    return prepare(None, parse_spec(data), data=asked.world.table)


def run(case: Case) -> tuple[BoundingRun, Answer]:
    started = BoundingRun(case)
    return started, started.answer(started.go(time.perf_counter() + 30, Event(), None))


def holds(asked: Answers, answer: Answer) -> bool:
    """Whether the gap and every rate lie in their intervals; rounding of a fraction to a float is below 1e-12."""

    def inside(truth: float, low: float, high: float) -> bool:
        return low - 1e-12 <= truth <= high + 1e-12

    truth = asked.numbers()
    found = [inside(truth.measured, answer.gap.low, answer.gap.high)]
    if asked.kind != "individual":
        outcomes = [1] if asked.labels == 2 and asked.outcome is None and asked.kind == "difference" else asked.outcomes
        for row, outcome in enumerate(outcomes):
            for column, name in enumerate(asked.subgroups(outcome)):
                found.append(inside(truth.rates[name, outcome], *(side[row, column] for side in answer.bounds)))
    return all(found)


@pytest.mark.parametrize("number", range(120))
def test_a_finite_question_is_proved_and_every_number_is_exact(number: int, tmp_path: Path) -> None:
    asked = small_question(number)
    truth = float(asked.measured())
    for threshold in (round(truth + 0.01, 3), round(truth - 0.01, 3)):
        if not 0 < threshold < 1:
            continue
        started, answer = run(case_about(asked, tmp_path, threshold))
        assert holds(asked, answer)
        assert started.rule.proved
        assert (answer.decision is Decision.FAIR) == asked.fair(threshold)
        assert answer.rounds == 0


@pytest.mark.parametrize("number", range(120, 240))
def test_bounds_contain_the_truth_at_every_step(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No box is evaluated point by point: everything is settled by bounds, or stays open.
    monkeypatch.setattr(partitions, "FEW_POINTS", 0)
    asked = small_question(number)
    case = case_about(asked, tmp_path, 0.1)
    assert case.model is not None
    part = Partition(box_space(case), label_bounds(case.model), case.model.predict, case.comparison)
    names = ["changes"] if asked.kind == "individual" else [subgroup.name for subgroup in case.comparison.subgroups]
    before = np.inf
    while True:
        low, high = part.rate_bounds()
        for row, outcome in enumerate(case.comparison.rows):
            rates = {"changes": asked.changing()} if asked.kind == "individual" else asked.subgroups(outcome)
            for column, name in enumerate(names):
                assert Fraction(low[row, column]) <= rates[name] <= Fraction(high[row, column])
        assert (high - low).max() <= before + 1e-12
        before = (high - low).max()
        if not part.refine(2):
            break


@pytest.mark.parametrize("number", range(240, 300))
def test_sampling_and_bounds_together_give_the_right_answer(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "FEW_POINTS", 0)
    asked = small_question(number)
    truth = float(asked.measured())
    threshold = round(truth + (0.1 if truth < 0.5 else -0.1), 3)
    budget = {"rounds": 4000}
    started, answer = run(case_about(asked, tmp_path, threshold, delta=1e-6, budget=budget))
    assert holds(asked, answer)
    if answer.decision is not Decision.UNDECIDED:
        assert (answer.decision is Decision.FAIR) == asked.fair(threshold)
    for stratum in started.rule.strata:
        assert stratum.mass <= 1


def drawn_case(seed: int, features: list[dict[str, Any]], widths: list[int], **changes: Any) -> Case:
    data = question(*features)
    for key, new in changes.items():
        data = changed(data, key.replace("__", "."), new)
    spec = parse_spec(data)
    rng = np.random.default_rng(seed)
    model = OnnxModel.from_bytes(relu_net(rng, widths, gain=2.0).SerializeToString(), "net.onnx", spec)
    return case_of(spec, model, None)


def cheap_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boxes count as cheap, so that a short run halves many."""
    for name, cost in (("SET_UP", 20), ("PER_STEP", 50), ("PER_BOX", 2), ("OVERHEAD", 0.2)):
        monkeypatch.setattr(bounding, name, cost)


def reals_and_sex(reals: int) -> list[dict[str, Any]]:
    return [*(real(f"x{place}", -1, 1) for place in range(reals)), category("sex", "F", "M")]


def case_at_its_gap(seed: int, reals: int, rounds: int, drawn: int = 20_000, **changes: Any) -> Case:
    """Return a question whose threshold is about its gap, with a tiny delta: nothing is decided early."""
    features, widths = reals_and_sex(reals), [reals + 1, 24, 24, 2]
    inputs = np.random.default_rng(0).uniform(-1, 1, (drawn, reals + 1)).astype(np.float32)
    model, labels = drawn_case(seed, features, widths).model, []
    for inputs[:, -1] in (0, 1):
        assert model is not None
        labels.append(model.predict(inputs))
    low, high = sorted([labels[0].mean(), labels[1].mean()])
    gaps = {"difference": high - low, "ratio": low / high, "individual": (labels[0] != labels[1]).mean()}
    gap = float(gaps[changes.get("property__kind", "difference")])
    asked = {"property__threshold": round(gap, 5), "guarantee__delta": 1e-30, "guarantee__seed": 1}
    return drawn_case(seed, features, widths, **asked, **changes, guarantee__budget={"rounds": rounds})


class CancelledAfter(Event):
    """An event that is set after so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def is_set(self) -> bool:
        self._looks -= 1
        return self._looks < 0


def with_rounds(case: Case, rounds: int) -> Case:
    return case_of(revise(case.spec, guarantee__budget__rounds=rounds), case.model, None)


def plain_run(case: Case, cancel: Event | None = None) -> Answer:
    return SamplingEngine().answer(case, workers=Workers(), cancel=cancel or Event(), progress=None)


@pytest.mark.parametrize("reals", [2, 8])
def test_halving_hardly_sets_a_run_back(reals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after any step, the rounds tell at least as much as plain sampling's for all of the cost but 0.25%.

    A run that begins with boxes makes good for them once, and then never falls behind again.
    """
    cheap_boxes(monkeypatch)
    monkeypatch.setattr(bounding, "USEFUL_BOXES", 20)
    case = case_at_its_gap(3, reals, 300_000)
    kept: list[float] = []
    halve = BoundingRun.halve

    def watched(started: BoundingRun) -> bool:
        running = started.rule.decision is Decision.UNDECIDED and started.rule.rounds < 300_000
        done = halve(started)
        kept.extend([started.worth / started.cost] * (running and started.rule.rounds > 0))
        return done

    monkeypatch.setattr(BoundingRun, "halve", watched)
    started, _ = run(case)
    assert len(kept) > 2
    assert min(kept) >= 1 - EXPLORED
    assert EXPLORED <= 0.0025
    assert started.rule.rounds > 0
    assert (started.rule.strata[0].tally.joint.max() == 0) == (reals == 2)


@pytest.mark.parametrize(
    "changes",
    [{}, {"property__kind": "individual"}, {"property__kind": "ratio", "property__outcome": "yes"}],
    ids=["difference", "individual", "ratio"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_is_the_plain_one_if_boxes_are_forecast_not_to_pay(seed: int, changes: dict[str, Any]) -> None:
    """Wherever both are stopped: the same counts and the same interval, and the network was not read for boxes."""
    case = case_at_its_gap(seed, 4 + seed, 10**9, **changes)
    for looks in (1, 7, 60, 200):
        started = BoundingRun(case)
        started.go(time.perf_counter() + 30, CancelledAfter(looks), None)
        plain = plain_run(case, CancelledAfter(looks))
        assert plain.decision is Decision.UNDECIDED
        assert plain.tally is not None
        assert started.rule.strata[0].tally.both.tolist() == plain.tally.both.tolist()
        assert started.rounds == started.rule.rounds == plain.rounds
        assert started.evaluations == started.cost - 1 == started.worth - 1 == plain.evaluations
        assert started._partition is None
        _, low, high = started.rule.gap()
        assert (plain.gap.low, plain.gap.high) == pytest.approx(in_own_unit(case.spec, (0.0, low, high))[1:], abs=1e-12)


class Costing(Event):
    """An event that is set once a run has cost so much."""

    def __init__(self, run: BoundingRun, most: float) -> None:
        super().__init__()
        self._run, self._most = run, most

    def is_set(self) -> bool:
        return self._run.cost >= self._most


@pytest.mark.parametrize(("reals", "cost", "narrower"), [(2, 4e6, 10), (3, 4e6, 4)])
def test_with_few_real_inputs_the_interval_is_narrower_at_equal_cost(reals: int, cost: float, narrower: float) -> None:
    for seed in (3, 6) if reals == 2 else (0, 5):
        case = case_at_its_gap(seed, reals, 10**9, drawn=2**20)
        started = BoundingRun(case)
        started.go(time.perf_counter() + 30, Costing(started, cost), None)
        _, low, high = started.rule.gap()
        plain = plain_run(with_rounds(case, int(started.cost / 2)))
        # A verdict comes sooner, too.
        assert plain.decision is Decision.UNDECIDED
        if started.rule.decision is Decision.UNDECIDED:
            assert cost <= started.cost <= plain.evaluations + 2
            assert (high - low) * narrower < plain.gap.high - plain.gap.low


def test_a_run_stops_halving_if_boxes_do_not_pay_as_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_settled(self: LabelBounds, boxes: Any) -> Any:
        return np.full(len(boxes), 3, np.uint32), np.ones((len(boxes), boxes.low.shape[1]))

    monkeypatch.setattr(LabelBounds, "__call__", nothing_settled)
    case = case_at_its_gap(0, 2, 10**9)
    started = BoundingRun(case)
    started.go(time.perf_counter() + 30, CancelledAfter(150), None)
    assert 3 * bounding.SOON <= started.cost - started.evaluations - 1 <= 3.5 * bounding.SOON
    assert started.rule.everywhere
    plain = plain_run(with_rounds(case, started.rounds))
    assert plain.tally is not None
    assert started.rule.strata[0].tally.both.tolist() == plain.tally.both.tolist()


def test_the_forecast_of_boxes_follows_from_the_features() -> None:
    def forecast(*features: dict[str, Any]) -> float:
        return bounding.first_boxes(drawn_case(0, [*features, category("sex", "F", "M")], [len(features) + 1, 4, 2]))

    few, cuts = bounding.FIRST_BOXES, bounding.CUTS
    assert forecast(real("a", -1, 1), real("b", -1, 1)) == 2 * few * cuts**2
    assert forecast(real("a", -1, 1), integer("n", 0, 10**6)) == 2 * few * cuts**2
    assert forecast(real("a", -1, 1), category("job", "x", "y", "z")) == 2 * few * cuts * 3
    # Inputs that are few are evaluated.
    assert forecast(integer("n", 0, 7), category("job", "x", "y", "z")) == 2 * 2 * 24 / 64
    assert bounding.first_boxes(drawn_case(0, reals_and_sex(12), [13, 4, 2]), 1000) == np.inf


def test_rounds_of_the_sampling_loop_are_taken_over_as_they_are() -> None:
    case = case_at_its_gap(2, 8, 10**9)
    one, other = BoundingRun(case), BoundingRun(case)
    one.go(time.perf_counter() + 30, CancelledAfter(100), None)
    while other.rounds < one.rounds:
        other.sample(one.rounds - other.rounds)
    assert (one.rounds, one.evaluations, one.worth, one.cost) == (
        other.rounds,
        other.evaluations,
        other.worth,
        other.cost,
    )
    first, second = one.rule.strata[0], other.rule.strata[0]
    assert first.tally.both.tolist() == second.tally.both.tolist()
    assert {pair: cells.tolist() for pair, cells in first.leads.items()} == {
        pair: cells.tolist() for pair, cells in second.leads.items()
    }
    assert len(first.leads) > 0


TWO_REALS = [real("a", -1, 1), real("b", -1, 1), category("sex", "F", "M")]


def test_a_network_of_two_real_inputs_is_bounded_within_a_thousandth() -> None:
    case = drawn_case(1, TWO_REALS, [3, 16, 16, 2], guarantee__epsilon=0.0005)
    started, answer = run(case)
    assert answer.stopped == "epsilon"
    assert answer.rounds == 0
    assert answer.gap.high - answer.gap.low <= 0.001
    # A million inputs: the chance that one of two rates is off by more than 0.003 is below 1e-7 (Hoeffding).
    inputs = np.random.default_rng(0).uniform(-1, 1, (10**6, 3)).astype(np.float32)
    for column in (0, 1):
        inputs[:, 2] = column
        assert case.model is not None
        rate = case.model.predict(inputs).mean()
        low, high = (side[0, column] for side in answer.bounds)
        assert low - 0.003 <= rate <= high + 0.003
    assert started.partition.open_mass < 0.001


@pytest.mark.parametrize("seed", range(8))
def test_every_settled_box_has_the_label_that_the_network_gives_in_it(seed: int) -> None:
    features = [real("a", -1, 1), integer("n", 0, 40, scale={"mean": 20, "std": 10}), category("sex", "F", "M")]
    case = drawn_case(seed, features, [3, 12, 12, 2], property__kind="individual")
    started = BoundingRun(case)
    for _ in range(12):
        started.partition.refine(64)
    rng, model = np.random.default_rng(seed), case.model
    assert model is not None
    space = started.space
    free = started.partition.free()
    assert len(free.low)
    for _ in range(8):
        places = space.draw(free.low, free.high, rng.random(free.low.shape).round(rng.integers(0, 4)) * (1 - 1e-9))
        labels = [model.predict(space.inputs(places, np.full(len(places), member))) for member in (0, 1)]
        assert (labels[0] == labels[1]).all()
        assert (labels[0] == np.log2(free.possible[:, 0])).all()


def test_regions_without_discrimination_are_listed_in_the_words_of_the_spec(tmp_path: Path) -> None:
    features = [real("a", -1, 1), category("job", "x", "y", "z"), category("sex", "F", "M")]
    data = changed(changed(question(*features), "guarantee.engine", "bounds"), "property.kind", "individual")
    path = save(relu_net(np.random.default_rng(4), [3, 8, 2], gain=2.0), tmp_path / "net.onnx")
    verdict = verify(path, parse_spec(changed(data, "guarantee.epsilon", 0.01)), workers=1)
    regions = verdict.record.free_regions
    assert regions
    assert [region.probability for region in regions] == sorted((r.probability for r in regions), reverse=True)
    network = load_model(path, verdict.spec)
    for region in regions:
        low, high = map(float, region.features["a"])
        jobs = region.features["job"]
        inputs = [[a, "xyz".index(str(job)), sex] for a in np.linspace(low, high, 9) for job in jobs for sex in (0, 1)]
        labels = network.predict(np.array(inputs, np.float32))
        assert {verdict.spec.model.labels[label] for label in labels} == {region.label}
    total = sum(region.probability for region in regions)
    assert total <= 1 - verdict.gap.low + 1e-9


def test_ranges_of_a_real_protected_feature_are_compared() -> None:
    groups = {"young": [18, 30], "old": [30, 60]}
    scale = {"mean": 40, "std": 10}
    features = [real("a", -1, 1), real("age", 18, 60, groups=groups, scale=scale)]
    case = drawn_case(4, features, [2, 12, 2], guarantee__epsilon=0.01)
    _, answer = run(case)
    assert answer.stopped == "epsilon"
    assert case.model is not None
    rng = np.random.default_rng(1)
    for column, (low, high) in enumerate(groups.values()):
        inputs = np.stack([rng.uniform(-1, 1, 200_000), rng.uniform(low, high, 200_000)], axis=1)
        rate = case.model.predict(inputs.astype(case.model.dtype)).mean()
        # Off by more than 0.007 with probability below 1e-8 (Hoeffding).
        least, most = (side[0, column] for side in answer.bounds)
        assert least - 0.007 <= rate <= most + 0.007


def test_pieces_of_a_stated_frequency_have_their_probability() -> None:
    frequencies = {"a": [[-1, 0, 0.9], [0.5, 1, 0.1]]}
    features = [real("a", -1, 1), category("sex", "F", "M")]
    case = drawn_case(
        2, features, [2, 8, 2], population={"kind": "marginals", "frequencies": frequencies}, guarantee__epsilon=0.001
    )
    space = box_space(case)
    whole = space.whole
    assert space.masses(*whole)[0] == pytest.approx(1)
    assert space.masses(np.array([[-0.5]]), np.array([[0.75]]))[0] == pytest.approx(0.9 / 2 + 0.1 / 2)
    assert space.masses(np.array([[0.1]]), np.array([[0.4]]))[0] == 0
    drawn = space.draw(np.full((4000, 1), -1.0), np.full((4000, 1), 1.0), np.random.default_rng(0).random((4000, 1)))
    assert ((drawn <= 0) | (drawn >= 0.5)).all()
    # Five standard deviations.
    assert abs((drawn <= 0).mean() - 0.9) < 5 * np.sqrt(0.09 / 4000)


def test_what_the_first_step_shows_is_part_of_the_answer_if_nothing_can_be_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "MOST_BOXES", 0)
    nodes = [node("Gemm", ["x", "w", "b"], ["y"])]
    constants = [constant("w", [[0.0, 1.0], [0.0, -10.0]]), constant("b", [0.0, 10.0])]
    spec = parse_spec(changed(question(real("a", -1, 1), category("sex", "F", "M")), "guarantee.epsilon", 0.001))
    proto = graph(nodes, [value("x")], [value("y")], constants)
    started, answer = run(case_of(spec, OnnxModel.from_bytes(proto.SerializeToString(), "net.onnx", spec), None))
    assert (answer.stopped, len(started.partition.open)) == ("boxes", 1)
    # Every F gets "yes", whatever a is; M are open.
    low, high = answer.bounds
    assert low.tolist() == [[pytest.approx(1.0), 0.0]]
    assert high.tolist() == [[1.0, 1.0]]


def test_open_boxes_are_drawn_by_their_probability() -> None:
    mass = np.array([0.1, 1e-9, 0.3, 0.0])
    counts = np.bincount(WeightedChoice(mass)((np.arange(10_000) + 0.5) / 10_000), minlength=4)
    assert counts.tolist() == [2500, 0, 7500, 0]


@pytest.mark.parametrize("seed", range(20))
def test_a_box_is_chosen_where_the_sum_of_the_probabilities_passes_the_draw(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mass = rng.random(rng.integers(1, 3000)) ** rng.integers(0, 40)
    mass[rng.random(len(mass)) < 0.3] *= 1e-9
    units = np.concatenate([rng.random(2000), rng.random(100) ** 30, 1 - rng.random(100) ** 30])
    units = np.minimum(units, 1 - 2.0**-53)
    ends = np.cumsum(np.rint(mass / mass.sum() * 2.0**52))
    expected = np.minimum(np.searchsorted(ends, np.floor(units * ends[-1]), side="right"), len(mass) - 1)
    assert WeightedChoice(mass)(units).tolist() == expected.tolist()


def test_rounds_fall_into_open_boxes_as_often_as_their_probability_says() -> None:
    shares = {"x0": [[-1, 0, 0.8], [0, 1, 0.2]], "x1": [[-1, 0, 0.2], [0, 1, 0.8]]}
    features = [*(real(f"x{place}", -1, 1) for place in range(5)), category("sex", "F", "M")]
    case = drawn_case(6, features, [6, 12, 12, 2], population={"kind": "marginals", "frequencies": shares})
    started = BoundingRun(case)
    for _ in range(4):
        started.partition.refine(8)
    started._sampled = boxes = started.partition.open
    heavy = boxes.take(np.argsort(-boxes.mass, kind="stable")[: len(boxes) // 3])
    first = started._chunk
    labels, places = started._labels_of(4000, 4000, [0, 1])
    # A batch that a budget cuts has the first rounds of the whole.
    started._chunk = first
    some, few = started._labels_of(100, 4000, [0, 1])
    assert np.array_equal(few, places[:100])
    assert np.array_equal(some, labels[:, :100])
    within = ((places[:, None] >= heavy.low) & (places[:, None] <= heavy.high)).all(axis=2).any(axis=1).mean()
    share = heavy.mass.sum() / boxes.mass.sum()
    # Boxes that were drawn alike would have a third. Five standard deviations.
    assert 0.45 < share < 0.95
    assert abs(within - share) < 5 * np.sqrt(share * (1 - share) / 4000)


def test_the_number_of_threads_does_not_change_the_answer() -> None:
    from concurrent.futures import ThreadPoolExecutor

    case = drawn_case(5, TWO_REALS, [3, 16, 16, 2], guarantee__budget={"rounds": 500}, property__threshold=0.02)
    alone = BoundingRun(case)
    alone.go(time.perf_counter() + 30, Event(), None)
    with ThreadPoolExecutor(3) as pool:
        together = BoundingRun(case, Workers(pool, 3))
        together.go(time.perf_counter() + 30, Event(), None)
    assert alone.answer("").gap == together.answer("").gap
    assert alone.partition.boxes == together.partition.boxes


def test_the_clock_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the work is counted, not timed: a clock that jumps ahead changes nothing until the budget ends."""
    cheap_boxes(monkeypatch)
    monkeypatch.setattr(bounding, "MOST_PROOF_BOXES", 2**9)
    monkeypatch.setattr(bounding, "EXPLORED", 0.5)
    asked = {"property__threshold": 0.316, "guarantee__delta": 1e-30}
    case = drawn_case(5, TWO_REALS, [3, 16, 16, 2], **asked, guarantee__budget={"rounds": 30_000})
    ticks = itertools.count()
    slow, fast = BoundingRun(case), BoundingRun(case)
    slow.go(time.perf_counter() + 1e9, Event(), None)
    monkeypatch.setattr(bounding.time, "perf_counter", lambda: 0.7 * next(ticks) ** 1.3)
    fast.go(1e12, Event(), None)
    assert slow.partition.boxes == fast.partition.boxes > 0
    assert len(slow.rule.strata) == len(fast.rule.strata) > 1
    for one, other in zip(slow.rule.strata, fast.rule.strata, strict=True):
        assert one.tally.both.tolist() == other.tally.both.tolist()
        assert one.mass == other.mass
    assert next(ticks) > 10


def test_of_equal_boxes_the_first_are_halved() -> None:
    """A partial sort takes some of equal ones, and which depends on the processor."""
    case = drawn_case(5, [*(real(f"x{place}", -1, 1) for place in range(6)), TWO_REALS[2]], [7, 16, 16, 2])
    assert case.model is not None
    part = Partition(box_space(case), label_bounds(case.model), case.model.predict, case.comparison)
    for _ in range(5):
        part.refine(64)
    before = part.open
    assert len({*before.mass.tolist()}) == 1
    part.refine(10)
    assert part.open.low[: len(before) - 10].tolist() == before.low[10:].tolist()


def test_the_runtimes_sigmoid_and_softmax_are_as_exact_as_bounds_assume() -> None:
    places = np.concatenate([np.linspace(-30, 30, 200_001), np.linspace(-1e-3, 1e-3, 20_001)]).astype(np.float32)
    nodes = [node("Sigmoid", ["x"], ["y"])]
    features = [real("a", -40, 40), category("sex", "F", "M")]
    spec = parse_spec(question(*features, decision="argmax"))
    sigmoid = OnnxModel.from_bytes(graph(nodes, [value("x")], [value("y")]).SerializeToString(), "net.onnx", spec)
    shown = sigmoid.scores(np.stack([places, places], axis=1))[:, 0]
    assert np.abs(shown - 1 / (1 + np.exp(-places.astype(float)))).max() < partitions.END_ERROR / 2
    nodes = [node("Softmax", ["x"], ["y"])]
    softmax = OnnxModel.from_bytes(graph(nodes, [value("x")], [value("y")]).SerializeToString(), "net.onnx", spec)
    # Scores below 8 in size: there a lead of half of what is asked for is still more than one rounding.
    scores = np.stack([places, places * 0], axis=1)[np.abs(places) < 8]
    scores[:, 1] = scores[:, 0] + np.float32(partitions.END_LEAD / 2)
    scores = scores[scores[:, 1] > scores[:, 0]]
    shown = softmax.scores(scores)
    assert (shown[:, 1] > shown[:, 0]).all()


def test_every_kind_of_decision_is_bounded(tmp_path: Path) -> None:
    for end, model in (("Sigmoid", {}), (None, {"decision": "logit", "decision_threshold": 0.3})):
        data = question(*TWO_REALS, **model)
        spec = parse_spec(changed(changed(data, "guarantee.epsilon", 0.01), "guarantee.engine", "bounds"))
        path = save(relu_net(np.random.default_rng(8), [3, 8, 1], end=end, gain=2.0), tmp_path / "net.onnx")
        verdict = verify(path, spec, workers=1)
        inputs = np.random.default_rng(0).uniform(-1, 1, (100_000, 3)).astype(np.float32)
        for column, group in enumerate(verdict.groups[2:]):
            inputs[:, 2] = column
            rate = load_model(path, spec).predict(inputs).mean()
            # Off by more than 0.01 with probability below 1e-8 (Hoeffding).
            assert group.probability.low - 0.01 <= rate <= group.probability.high + 0.01


def test_a_verdict_by_bounds_states_its_proof_and_refuses_a_certificate(tmp_path: Path) -> None:
    data = changed(question(*TWO_REALS), "guarantee.engine", "bounds")
    path = save(relu_net(np.random.default_rng(5), [3, 16, 16, 2], gain=2.0), tmp_path / "net.onnx")
    verdict = verify(path, parse_spec(data), workers=1)
    assert (verdict.engine, verdict.delta, verdict.rule) == ("bounds", 0.0, "exact")
    assert verdict.statement.startswith("Proved: under independent uniform inputs")
    assert "nothing is assumed about the decisions for the other" in verdict.statement
    assert not verdict.certifiable
    with pytest.raises(CertificateError, match=says(NO_BOUNDS_CERTIFICATE)):
        make_certificate(verdict)
    with pytest.raises(CertificateError, match=says(NO_BOUNDS_CERTIFICATE)):
        verify(path, parse_spec(data), certify=True)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("property.given", "a > 0", "does not support conditions"),
        ("guarantee.rule", "paper", "is sound, and rule"),
        ("population", {"kind": "network", "nodes": [{"name": "sex", "probabilities": [0.5, 0.5]}]}, "independent"),
        (
            "property",
            {"kind": "difference", "protected": ["sex"], "outcome": "yes", "reference": "M", "threshold": 0.1},
            "does not support a reference group",
        ),
        ("property", {"kind": "formula", "formula": "P(yes | sex=F) - P(yes | sex=M) <= 0.1"}, "takes no formula"),
        ("model.decision", "random", "decisions that follow from the input"),
        ("model.deterministic", False, "decisions that follow from the input"),
        ("guarantee.budget", {"evaluations": 1000}, "does not support a budget of evaluations"),
    ],
)
def test_a_question_that_bounds_cannot_answer_is_refused(key: str, value: Any, message: str) -> None:
    data = changed(changed(question(integer("a"), category("sex", "F", "M")), "guarantee.engine", "bounds"), key, value)
    with pytest.raises(SpecError, match=message):
        parse_spec(data)


@pytest.mark.parametrize("after", [-1.0, 1e9])
def test_individuals_as_groups_of_several_values_are_refused(after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run is refused at its end, and a long one on the way."""
    monkeypatch.setattr(bounding, "REFUSED_AFTER", after)
    groups = {"young": [0, 4], "old": [5, 9]}
    features = [*(real(f"x{place}") for place in range(6)), integer("age", 0, 9, groups=groups)]
    started = BoundingRun(drawn_case(0, features, [7, 4, 2], property__kind="individual"))
    with pytest.raises(SpecError, match=says(BOUNDS_OF_INDIVIDUALS)):
        started.go(time.perf_counter() + 30, Event(), None)
    assert (started.evaluations > 0) == (after > 0)


def test_a_model_that_is_no_network_is_refused_before_rounds_are_drawn() -> None:
    case = drawn_case(0, TWO_REALS, [3, 4, 2])
    with pytest.raises(ModelError, match=says(FEATURE_NETWORKS_ONLY)):
        BoundingRun(case_of(case.spec, load_model(lambda rows: np.zeros(len(rows), int), case.spec), None))


def test_a_case_that_sampling_cannot_decide_is_proved_without_any_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "LEAST_SAMPLED", 512)
    monkeypatch.setattr(choosing, "HOPELESS", 0)
    path = save(relu_net(np.random.default_rng(5), [3, 16, 16, 2], gain=2.0), tmp_path / "net.onnx")
    data = changed(changed(question(*TWO_REALS), "property.threshold", 0.31), "guarantee.engine", "auto")
    verdict = verify(path, parse_spec(data), workers=1)
    assert (verdict.engine, verdict.decision, verdict.delta) == ("bounds", Decision.UNFAIR, 0.0)
    assert verdict.rounds == 0
    # A certificate is asked for, so sampling goes on to the end of its budget.
    assert verify(path, parse_spec(data), workers=1, certify=True).engine == "sampling"


def test_a_sampled_answer_says_that_its_proof_failed_and_its_certificate_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "LEAST_SAMPLED", 512)
    monkeypatch.setattr(choosing, "HOPELESS", 0)
    monkeypatch.setattr(partitions, "MOST_BOXES", 0)
    path = save(relu_net(np.random.default_rng(5), [3, 16, 16, 2], gain=2.0), tmp_path / "net.onnx")
    data = changed(changed(question(*TWO_REALS), "property.threshold", 0.31), "guarantee.engine", "auto")
    verdict = verify(path, parse_spec(data), workers=1)
    assert (verdict.engine, verdict.decision, verdict.stopped) == ("sampling", Decision.UNDECIDED, "boxes")
    write_certificate(verdict, tmp_path / "certificate.json")
    assert recheck(tmp_path / "certificate.json", path).holds


ENCODED = [
    integer("bins", 0, 11, bins=[3, 7, 9], one_hot=True),
    integer("steps", 0, 11, step=3),
    integer("scaled", -5, 6, scale={"mean": 0.7, "std": 2.3}),
    category("codes", "a", "b", "c", codes=[2.5, -1.0, 0.3]),
    category("hot", "p", "q", "r", one_hot=True),
    category("sex", "F", "M", one_hot=True),
]


@pytest.mark.parametrize("seed", range(20))
def test_bounds_contain_the_truth_whatever_the_network_gets_for_a_feature(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "FEW_POINTS", 0)
    kind = ("difference", "individual")[seed % 2]
    case = drawn_case(seed, ENCODED, [4 + 1 + 1 + 1 + 3 + 2, 10, 8, 2], property__kind=kind)
    assert case.model is not None
    sizes = [12, 12, 12, 3, 3]
    everybody = np.indices(sizes).reshape(len(sizes), -1).T + np.array([0, 0, -5, 0, 0])
    labels = [
        case.model.predict(np.column_stack([everybody, np.full(len(everybody), sex)]).astype(case.model.dtype))
        for sex in (0, 1)
    ]
    truth = [(labels[0] != labels[1]).mean(), 0.0] if kind == "individual" else [each.mean() for each in labels]
    part = Partition(box_space(case), label_bounds(case.model), case.model.predict, case.comparison)
    for _ in range(25):
        low, high = part.rate_bounds()
        assert (low[0] - 1e-12 <= truth).all()
        assert (truth <= high[0] + 1e-12).all()
        part.refine(64)
    assert (high - low).max() < 0.7

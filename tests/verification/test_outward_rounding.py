"""Certain bounds are rounded outward: exact fractions, worked out by hand, never lie outside, not by one bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fairchain.models.onnx.session import OnnxModel
from fairchain.populations.distributions import Counted, Ranges
from fairchain.populations.marginals import distributions_of
from fairchain.prepare import Case, case_of
from fairchain.spec import parse_spec
from fairchain.statistics import Decision, Payoff, Tally
from fairchain.statistics.rules import BatchPlan
from fairchain.statistics.strata import StrataRule
from fairchain.statistics.tally import count_together
from fairchain.verification.bounding import BoundingRun
from fairchain.verification.boxes import BoxSpace, Member, WeightedChoice, box_space
from fairchain.verification.partition import END_ERROR, END_LEAD, Partition, label_bounds
from tests.networks import constant, graph, node, value
from tests.questions import category, changed, integer, question, real
from tests.verification.exact import shares_of

EITHER_WAY = np.array([[[False, True], [True, False]]])


def case_with(proto: Any, data: dict[str, Any]) -> Case:
    spec = parse_spec(data)
    return case_of(spec, OnnxModel.from_bytes(proto.SerializeToString(), "net.onnx", spec), None)


def partition_of(case: Case) -> Partition:
    assert case.model is not None
    return Partition(box_space(case), label_bounds(case.model), case.model.predict, case.comparison)


@pytest.mark.parametrize("kind", ["individual", "difference"])
def test_a_rate_of_nearly_one_is_not_rounded_across_the_truth(kind: str) -> None:
    """1 minus a tiny probability is rounded; half of the roundings go the wrong way."""
    # "yes" unless both jobs are the rare one; of individuals, only F get it.
    weights = [[0.0, -1.0], [0.0, -1.0], [0.0, -2.0 if kind == "individual" else 0.0]]
    proto = graph(
        [node("Gemm", ["x", "w", "b"], ["y"])],
        [value("x", shape=("N", 3))],
        [value("y")],
        [constant("w", weights), constant("b", [0.0, 1.5])],
    )
    data = question(category("job", "a", "b"), category("other", "a", "b"), category("sex", "F", "M"))
    for number in range(3, 90, 7):
        rare = [Fraction(number, 10**6), Fraction(number + 2, 10**6)]
        shares = [{"a": float(1 - each), "b": float(each)} for each in rare]
        population = {"kind": "marginals", "frequencies": dict(zip(("job", "other"), shares, strict=True))}
        part = partition_of(case_with(proto, changed(changed(data, "population", population), "property.kind", kind)))
        part.refine(1)
        low, high = part.rate_bounds()
        assert Fraction(low[0, 0]) <= 1 - rare[0] * rare[1] <= Fraction(high[0, 0])
        assert high[0, 0] - low[0, 0] < 1e-12


@pytest.mark.parametrize(("values", "first"), [(3, 0), (3, 1), (7, 0), (11, 4)])
def test_a_group_of_several_values_has_the_exact_rate_within_its_bounds(values: int, first: int) -> None:
    """A third as a floating number is not a third, even if every decision is certain."""
    groups = {"young": [0, values - 1], "old": [values, 2 * values - 1]}
    data = question(category("job", "a", "b"), integer("age", 0, 2 * values - 1, groups=groups))
    # "yes" from `first` on, up to the last of the young.
    proto = graph(
        [node("Gemm", ["x", "w", "b"], ["s"]), node("Relu", ["s"], ["h"]), node("Gemm", ["h", "v", "c"], ["y"])],
        [value("x")],
        [value("y")],
        [
            constant("w", [[0.0, 0.0], [-1.0, 1.0]]),
            constant("b", [first, 1.0 - values]),
            constant("v", [[0.0, -1.0], [0.0, -1.0]]),
            constant("c", [0.0, 0.5]),
        ],
    )
    part = partition_of(case_with(proto, data))
    while part.refine(8):
        pass
    low, high = part.rate_bounds()
    assert Fraction(low[0, 0]) <= Fraction(values - first, values) <= Fraction(high[0, 0])
    assert (low[0, 1], high[0, 1]) == (0.0, 0.0)


def test_scores_within_the_runtimes_error_of_a_sigmoid_or_softmax_stay_open() -> None:
    near = np.array([[-1e-7, 0.0], [0.0, 0.0], [1e-7, 0.0], [3e-6, 0.0]])
    far = np.array([[-1e-3, 0.0], [1e-3, 0.0]])
    sigmoid = graph(
        [node("Gemm", ["x", "w"], ["s"]), node("Sigmoid", ["s"], ["y"])],
        [value("x")],
        [value("y", shape=("N", 1))],
        [constant("w", [[1.0], [0.0]])],
    )
    softmax = graph(
        [node("Gemm", ["x", "w"], ["s"]), node("Softmax", ["s"], ["y"])],
        [value("x")],
        [value("y")],
        [constant("w", [[0.0, 1.0], [0.0, 0.0]])],
    )
    for proto in (sigmoid, softmax):
        case = case_with(proto, question(real("a", -1, 1), category("sex", "F", "M")))
        space, bounds = box_space(case), label_bounds(case.model)

        def possible(places: Any, space: Any = space, bounds: Any = bounds) -> list[int]:
            ends = places[:, :1]
            return bounds(space.network_inputs(ends, ends, np.zeros(len(ends), np.intp)))[0].tolist()

        assert abs(1 / (1 + np.exp(-near[3, 0])) - 0.5) < END_ERROR
        assert near[3, 0] < END_LEAD
        assert possible(near) == [3, 3, 3, 3]
        assert possible(far) == [1, 2]


def test_a_score_at_the_threshold_has_the_label_that_the_network_gives() -> None:
    """The threshold is compared in the precision of the scores, where 0.3 is 0.30000001."""
    data = question(real("a", 0, 1), category("sex", "F", "M"), decision="probability", decision_threshold=0.3)
    select = graph(
        [node("MatMul", ["x", "w"], ["y"])], [value("x")], [value("y", shape=("N", 1))], [constant("w", [[1.0], [0.0]])]
    )
    case = case_with(select, data)
    model, space = case.model, box_space(case)
    assert model is not None
    bounds = label_bounds(model)
    # A product by 1 is exact: without the margins for its rounding the bounds are the score itself.
    layer = bounds.linear._layers[0]
    object.__setattr__(layer, "terms", 0)
    object.__setattr__(layer, "tiny", 0 * layer.tiny)
    at = np.float32(0.3)
    places = np.array([np.nextafter(at, np.float32(0)), at, np.nextafter(at, np.float32(1))], float)[:, None]
    members = np.zeros(3, np.intp)
    possible, _ = bounds(space.network_inputs(places, places, members))
    given = model.predict(space.inputs(places, members))
    assert ((possible >> given) & 1).all()


@pytest.mark.parametrize("kind", ["ranges", "narrow", "counted"])
def test_the_values_of_a_member_between_two_quantiles_contain_those_at_the_quantiles(kind: str) -> None:
    rng = np.random.default_rng(4)
    found: Any = Counted(np.arange(100) / 7, rng.integers(1, 1000, 100))
    if kind == "ranges":
        found = ranges_of(
            [[k, k + 1, float(share)] for k, share in zip(range(0, 30, 3), shares_of(rng, 10), strict=True)]
        )
    elif kind == "narrow":
        # All of it within a millionth: a quantile moves by less than the rounding of a value.
        found = ranges_of([[1000, 1000.000001, 1.0]])
    member = Member((found,))
    cuts = np.sort(rng.random(400))
    low, high = cuts[:-1], cuts[1:]
    first, last = member.values(0, low, high)
    for share in (0.0, 0.3, 1.0):
        shown = exact_quantiles(found, low + (high - low) * share)
        assert all(Fraction(a) <= x <= Fraction(b) for a, x, b in zip(first, shown, last, strict=True))


def ranges_of(pieces: list[list[float]]) -> Ranges:
    data = question(real("a", 0, 2000, groups={"low": [0, 20], "high": [20, 2000]}), protected=["a"])
    data = changed(data, "population", {"kind": "marginals", "frequencies": {"a": pieces}})
    found = distributions_of(parse_spec(data), None)[0]
    assert isinstance(found, Ranges)
    return found


def exact_quantiles(found: Any, places: np.ndarray) -> list[Fraction]:
    """The quantiles without any rounding."""
    parts: list[tuple[Fraction, Fraction, Fraction]]
    if isinstance(found, Counted):
        total = int(found.counts.sum())
        parts = [
            (Fraction(v), Fraction(v), Fraction(int(c), total)) for v, c in zip(found.values, found.counts, strict=True)
        ]
    else:
        parts = [(Fraction(p.low), Fraction(p.high), Fraction(p.weight) / Fraction(found.mass)) for p in found.parts]
    quantiles = []
    for place in map(Fraction, places):
        before = Fraction(0)
        for low, high, share in parts:
            if place < before + share or (low, high, share) == parts[-1]:
                quantiles.append(low + (high - low) * min((place - before) / share, Fraction(1)))
                break
            before += share
    return quantiles


def test_sums_of_many_boxes_are_rounded_outward_by_more_than_their_error() -> None:
    """Tenths are not binary fractions: adding thousands of them in floating numbers drifts off."""
    data = question(real("a", 0, 1), category("sex", "F", "M"))
    shares = shares_of(np.random.default_rng(6), 10)
    tenths = [[place / 10, (place + 1) / 10, float(share)] for place, share in enumerate(shares)]
    data = changed(data, "population", {"kind": "marginals", "frequencies": {"a": tenths}})
    steep = graph(
        [node("Gemm", ["x", "w", "b"], ["y"])],
        [value("x")],
        [value("y")],
        [constant("w", [[0.0, 3.0], [0.0, 0.0]]), constant("b", [0.0, -1.0])],
    )
    part = partition_of(case_with(steep, data))
    parts = [(Fraction(p.low), Fraction(p.high), Fraction(p.weight)) for p in part.space.axes[0].ranges.parts]
    total = sum(weight for _, _, weight in parts)

    def mass(low: float, high: float) -> Fraction:
        inside = ((min(Fraction(high), b) - max(Fraction(low), a)) / (b - a) * w for a, b, w in parts)
        return sum((max(each, Fraction(0)) for each in inside), Fraction(0)) / total

    ends = np.sort(np.random.default_rng(7).random((200, 2)), axis=1)
    for place, found in zip(ends, part.space.masses(ends[:, :1], ends[:, 1:]), strict=True):
        assert abs(Fraction(found) - mass(*place)) <= Fraction(part.space.relative_error) * mass(*place)
    for _ in range(24):
        part.refine(1)
        exact = sum(
            (mass(low[0], high[0]) for low, high in zip(part.open.low, part.open.high, strict=True)), Fraction(0)
        )
        assert exact <= Fraction(part.open_mass)
    low, high = part.rate_bounds()
    # "yes" from a third on; single precision moves that by less than 1e-6.
    assert Fraction(low[0, 0]) <= mass(1 / 3, 1.0) <= Fraction(high[0, 0])


@pytest.mark.parametrize("relative", [False, True])
def test_the_certain_gap_contains_the_exact_difference_of_its_bounds(relative: bool) -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        rates = np.sort(rng.random(2))[None, ::-1]
        rule = StrataRule(2, 1, Fraction("0.5"), 0.05, EITHER_WAY, payoff=Payoff(relative=relative))
        rule.bound(rates, rates)
        low, high = rule.certain_gap()
        one, other = map(Fraction, rates[0])
        assert Fraction(low) <= (1 - other / one if relative else one - other) <= Fraction(high)


@pytest.mark.parametrize("relative", [False, True])
def test_certain_rates_within_a_rounding_of_the_threshold_are_decided_exactly(relative: bool) -> None:
    rng = np.random.default_rng(9)
    misled = 0
    for number in range(1, 100):
        limit, one = Fraction(number, 100), float(rng.uniform(0.5, 1))
        other = one * (1 - float(limit)) if relative else one - float(limit)
        if other <= 0:
            continue
        rates = np.array([[one, other]])
        rule = StrataRule(2, 1, limit, 0.05, EITHER_WAY, payoff=Payoff(relative=relative))
        rule.bound(rates, rates)
        scale, shift = (1 - limit, Fraction(0)) if relative else (Fraction(1), limit)
        above = scale * Fraction(one) > Fraction(other) + shift
        assert rule.decision is (Decision.UNFAIR if above else Decision.FAIR)
        # If the first rate may also be smaller, UNFAIR is not certain, and FAIR only if it is not above.
        open_below = StrataRule(2, 1, limit, 0.05, EITHER_WAY, payoff=Payoff(relative=relative))
        open_below.bound(rates - [[0.001, 0.0]], rates)
        assert open_below.decision is (Decision.UNDECIDED if above else Decision.FAIR)
        misled += above != (float(scale) * one - other - float(shift) > 0)
    # Floating numbers would get several of them wrong.
    assert misled > 5


def test_what_rounding_may_move_in_a_stratum_widens_its_interval() -> None:
    def interval(slack: float) -> tuple[float, float]:
        rule = StrataRule(2, 1, Fraction("0.5"), 0.05, EITHER_WAY)
        rule.begin(np.array([[0.3, 0.2]]), 0.5, slack)
        labels = np.random.default_rng(0).integers(0, 2, (2, 4000))
        rule.observe(BatchPlan(4000, (0, 1), (0, 1, 0)), Tally.of_batch(4000, count_together(labels, [1]), (0, 1), 2))
        return rule.gap()[1:]

    (low, high), (wider_low, wider_high) = interval(0.0), interval(0.01)
    assert wider_low == pytest.approx(low - 0.01, abs=1e-6)
    assert wider_high == pytest.approx(high + 0.01, abs=1e-6)


def test_a_stratum_allows_for_the_rounding_of_its_boxes_and_of_its_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    features = [*(real(f"x{place}", -1, 1) for place in range(2)), category("sex", "F", "M")]
    weights = np.random.default_rng(1).standard_normal((3, 8)), np.random.default_rng(2).standard_normal((8, 2))
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["h"]), node("MatMul", ["h", "v"], ["y"])]
    constants = [constant("w", weights[0]), constant("v", weights[1])]
    shares = {"x0": [[-1, 0, 0.3], [0, 1, 0.7]], "x1": [[-1, 0, 0.9], [0, 1, 0.1]]}
    data = changed(question(*features), "population", {"kind": "marginals", "frequencies": shares})
    started = BoundingRun(case_with(graph(nodes, [value("x", shape=("N", 3))], [value("y")], constants), data))
    for _ in range(8):
        started.partition.refine(64)
    assert started.space.draw_error > len(started.space.axes) * 2.0**-50
    # As large that nothing else could make up for it.
    monkeypatch.setattr(BoxSpace, "draw_error", 1e-3)
    assert started.sample(2000)
    stratum, boxes = started.rule.strata[-1], started.partition.open
    assert not started.rule.everywhere
    # How far the distribution of the chosen box is from the exact one, both halves of the total variation.
    total = sum((Fraction(mass) for mass in boxes.mass), Fraction(0))
    numbers = [int(each) for each in np.rint(boxes.mass / boxes.mass.sum() * 2.0**52)]
    moved = sum(abs(Fraction(n, sum(numbers)) - Fraction(m) / total) for n, m in zip(numbers, boxes.mass, strict=True))
    assert WeightedChoice(boxes.mass)(np.array([0.0]))[0] == 0
    assert moved > 0
    assert moved + 8 * Fraction(started.partition.error) + Fraction(1e-3) <= Fraction(stratum.slack)

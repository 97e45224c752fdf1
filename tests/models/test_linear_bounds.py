"""Linear bounds of ReLU networks contain every number that onnxruntime computes, rounding included."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models.inspect import linear_bounds
from fairchain.models.inspect.linear_bounds import InputBoxes, LinearBounds, RelaxedLayer
from fairchain.models.inspect.relu_layers import (
    NOT_FEED_FORWARD,
    WEIGHTS_NOT_FINITE,
    AffineLayer,
    ReluNetwork,
    relu_network,
)
from fairchain.models.onnx.session import OnnxModel
from tests.messages import says
from tests.networks import DOUBLE, FLOAT, constant, graph, node, value
from tests.questions import category, integer, real, spec
from tests.relu import relu_net


def loaded(proto: Any, *features: dict[str, Any], **model: Any) -> OnnxModel:
    return OnnxModel.from_bytes(proto.SerializeToString(), "net.onnx", spec(*features, **model))


def reals(count: int) -> list[dict[str, Any]]:
    return [real(f"x{place}", -2, 2) for place in range(count - 1)] + [category("sex", "F", "M")]


def exact_scores(network: ReluNetwork, inputs: np.ndarray) -> np.ndarray:
    """The layers in double precision."""
    flow = inputs
    for layer in network.layers[:-1]:
        flow = np.maximum(flow @ layer.weights.T + layer.bias, 0)
    return flow @ network.layers[-1].weights.T + network.layers[-1].bias


def boxes(low: np.ndarray, high: np.ndarray) -> InputBoxes:
    none = np.zeros((len(low), 0), np.int64)
    return InputBoxes(low, high, none, none)


@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
@pytest.mark.parametrize("seed", range(6))
def test_the_layers_of_a_graph_compute_what_the_network_computes(seed: int, kind: int) -> None:
    rng = np.random.default_rng(seed)
    model = loaded(relu_net(rng, [4, 9, 5, 3], kind=kind), *reals(4), labels=["a", "b", "c"])
    network = relu_network(model)
    inputs = rng.uniform(-2, 2, (200, 4)).astype(np.float32).astype(np.float64)
    assert network.units == 14
    assert np.allclose(model.scores(inputs.astype(model.dtype)), exact_scores(network, inputs), atol=1e-5)


def test_scaling_and_several_inputs_in_front_become_part_of_the_first_layer() -> None:
    rng = np.random.default_rng(3)
    nodes = [
        node("Concat", ["a", "b", "sex"], ["x"], axis=1),
        node("Sub", ["x", "mean"], ["c"]),
        node("Div", ["c", "std"], ["s"]),
        node("MatMul", ["s", "w"], ["m"]),
        node("Relu", ["m"], ["h"]),
        node("Mul", ["h", "factor"], ["f"]),
        node("MatMul", ["f", "v"], ["y"]),
    ]
    constants = [
        constant("mean", [1.0, -2.0, 0.5]),
        constant("std", [[3.0, 0.5, 0.25]]),
        constant("w", rng.standard_normal((3, 4))),
        constant("factor", 2.0),
        constant("v", rng.standard_normal((4, 2))),
    ]
    single = [value(name, shape=("N", 1)) for name in ("a", "b", "sex")]
    model = loaded(graph(nodes, single, [value("y")], constants), real("a"), real("b"), category("sex", "F", "M"))
    network = relu_network(model)
    inputs = rng.uniform(0, 1, (50, 3)).astype(np.float32)
    assert len(network.layers) == 2
    assert np.allclose(model.scores(inputs), exact_scores(network, inputs.astype(float)), atol=1e-5)


@pytest.mark.parametrize("operator", ["Tanh", "LeakyRelu"])
def test_a_network_with_another_activation_is_refused_by_name(operator: str) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node(operator, ["m"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    model = loaded(graph(nodes, [value("x")], [value("y")], [constant("w", np.eye(2))]), *reals(2))
    with pytest.raises(ModelError, match=says(NOT_FEED_FORWARD)):
        relu_network(model)


def contained(seed: int) -> bool:
    """Whether the bounds of a random network over random boxes contain its outputs at corners and random points."""
    rng = np.random.default_rng(seed)
    widths = [4, *rng.integers(3, 24, rng.integers(1, 4)).tolist(), 2]
    model = loaded(relu_net(rng, widths, kind=(FLOAT, DOUBLE)[seed % 2], gain=10.0 ** rng.integers(-1, 3)), *reals(4))
    bounds = LinearBounds(relu_network(model), np.array([[-1.0, 1.0], [1.0, 0.0]]))
    middle, width = rng.uniform(-2, 2, (64, 4)), 2.0 ** rng.uniform(-30, 2, (64, 1))
    low, high = ((middle + sign * width).astype(np.float32).astype(float) for sign in (-0.5, 0.5))
    found = bounds(boxes(low, high))
    corners = rng.random((200, 64, 4))
    corners[:100] = corners[:100].round()
    for place in corners:
        inputs = np.clip((low + (high - low) * place).astype(np.float32), low, high).astype(model.dtype)
        scores = model.scores(inputs).astype(np.float64)
        shown = np.stack([scores[:, 1] - scores[:, 0], scores[:, 0]], axis=1)
        if not ((found.low <= shown) & (shown <= found.high)).all():
            return False
    return True


@pytest.mark.parametrize("seed", range(24))
def test_bounds_contain_every_output_in_boxes_of_every_size(seed: int) -> None:
    assert contained(seed)


@pytest.mark.parametrize(("term", "wrong"), [("lift", 0.0), ("above", 0.5)])
def test_a_relaxation_with_a_wrong_line_is_noticed(term: str, wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = linear_bounds.RelaxedLayer.of

    def changed(*arguments: Any) -> linear_bounds.RelaxedLayer:
        found = right(*arguments)
        return replace(found, **{term: wrong * getattr(found, term)})

    monkeypatch.setattr(linear_bounds.RelaxedLayer, "of", changed)
    assert not all(contained(seed) for seed in range(6))


def test_bounds_over_one_hot_blocks_contain_every_choice_and_are_reached() -> None:
    rng = np.random.default_rng(5)
    weights = rng.standard_normal((2, 6))
    features = [real("x"), category("job", "a", "b", "c", "d", "e", one_hot=True)]
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    proto = graph(nodes, [value("x", shape=("N", 6))], [value("y")], [constant("w", weights.T)])
    model = loaded(proto, *features)
    bounds = LinearBounds(relu_network(model), np.array([[-1.0, 1.0]]))
    inside = InputBoxes(
        np.array([[0.25] + [0.0] * 5]), np.array([[0.5] + [0.0] * 5]), np.array([[1]]), np.array([[3]]), (slice(1, 6),)
    )
    found = bounds(inside)
    rows = np.array([[x, job] for x in (0.25, 0.5) for job in (1, 2, 3)], np.float32)
    lead = np.diff(model.scores(rows).astype(float), axis=1)
    assert found.low[0, 0] <= lead.min() <= found.low[0, 0] + 1e-5
    assert found.high[0, 0] - 1e-5 <= lead.max() <= found.high[0, 0]


def cancelling() -> Any:
    """Exactly x - x = 0 in real numbers; in single precision the sum of the large numbers is rounded."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["s"]),
        node("Relu", ["s"], ["h"]),
        node("MatMul", ["h", "v"], ["y"]),
    ]
    constants = [
        constant("w", [[1.0, 1.0], [0.0, 0.0]]),
        constant("b", [2.0**20, 0.0]),
        constant("v", [[0.0, 1.0], [0.0, -1.0]]),
    ]
    return graph(nodes, [value("x")], [value("y")], constants)


def test_bounds_without_the_margin_for_rounding_miss_what_the_runtime_computes() -> None:
    # x + 2^20 - x is 2^20, except for what single precision makes of it.
    model = loaded(cancelling(), real("a"), category("sex", "F", "M"))
    rng = np.random.default_rng(0)
    inputs = np.stack([rng.random(400), np.zeros(400)], axis=1).astype(np.float32)
    lead = np.diff(model.scores(inputs).astype(float), axis=1)
    points = boxes(inputs.astype(float), inputs.astype(float))
    functions = np.array([[-1.0, 1.0]])
    sound = LinearBounds(relu_network(model), functions)(points)
    careless = LinearBounds(relu_network(model), functions, rounding=False)(points)
    assert ((sound.low <= lead) & (lead <= sound.high)).all()
    assert not ((careless.low <= lead) & (lead <= careless.high)).all()


def test_nothing_is_claimed_where_numbers_may_overflow() -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    model = loaded(
        graph(nodes, [value("x")], [value("y")], [constant("w", np.diag([1e30, 1.0]))]),
        integer("a", 0, 1),
        *reals(2)[1:],
    )
    found = LinearBounds(relu_network(model), np.array([[-1.0, 1.0]]))(boxes(np.zeros((1, 2)), np.ones((1, 2))))
    assert (found.low[0, 0], found.high[0, 0]) == (-np.inf, np.inf)


def large_terms(alpha: float) -> Any:
    """Adds copies of an input with weights that cancel: the exact sum is b, but products or partial sums are huge."""
    nodes = [
        node("MatMul", ["x", "copies"], ["m"]),
        node("Gemm", ["m", "w", "b"], ["z"], alpha=alpha),
        node("Relu", ["z"], ["h"]),
        node("Gemm", ["h", "v", "c"], ["y"]),
    ]
    constants = [
        constant("copies", [[1.0] * 4, [0.0] * 4]),
        constant("w", [[-3e38], [-3e38], [3e38], [3e38]]),
        constant("b", [1e36]),
        constant("v", [[0.0, 1e-36]]),
        constant("c", [0.5, 0.0]),
    ]
    return graph(nodes, [value("x")], [value("y")], constants)


@pytest.mark.parametrize("alpha", [1.0, 1e-30])
def test_nothing_is_claimed_where_products_or_partial_sums_may_overflow(alpha: float) -> None:
    """The bounds were those of the small exact sum, while the runtime returned minus infinity and another decision."""
    model = loaded(large_terms(alpha), integer("a", 0, 1), *reals(2)[1:])
    inputs = np.array([[0.0, 0.0], [1.0, 0.0]])
    lead = np.diff(model.scores(inputs.astype(np.float32)).astype(float), axis=1)
    # Otherwise this test shows nothing.
    assert abs(lead[0] - lead[1]) > 0.5
    found = LinearBounds(relu_network(model), np.array([[-1.0, 1.0]]))(boxes(inputs, inputs))
    assert ((found.low <= lead) & (lead <= found.high)).all()
    assert (found.low[1, 0], found.high[1, 0]) == (-np.inf, np.inf)


def scaled(operator: str, scale: float, weight: float) -> Any:
    """Multiplies by a scale and then by a weight; the runtime does it in the other order."""
    if operator == "Gemm":
        nodes = [node("Gemm", ["x", "w"], ["y"], alpha=scale)]
    else:
        nodes = [node(operator, ["x", "s"], ["m"]), node("MatMul", ["m", "w"], ["y"])]
    return graph(nodes, [value("x")], [value("y")], [constant("s", scale), constant("w", [[0, weight], [0, 0]])])


@pytest.mark.parametrize(
    ("operator", "scale", "weight", "number"),
    [
        ("Mul", 1e-30, 1e30, 1e10),
        ("Div", 1e30, 1e30, 1e10),
        ("Mul", 1e30, 1e-30, 1e-15),
        ("Div", 1e-30, 1e-30, 1e-15),
        ("Gemm", 1e30, 1e-30, 1e-15),
        ("Gemm", 1e38, 1.2e-38, 1e-8),
    ],
)
def test_bounds_hold_where_the_runtime_multiplies_by_a_scale_last(
    operator: str, scale: float, weight: float, number: float
) -> None:
    """The product with the weight overflows or underflows; the bounds were those of the product with the scale."""
    model = loaded(scaled(operator, scale, weight), real("a", -1e37, 1e37), category("sex", "F", "M"))
    inputs = np.array([[number, 0.0]], np.float32).astype(float)
    (lead,) = np.diff(model.scores(inputs.astype(np.float32)).astype(float), axis=1)[0]
    exact = number * weight / scale if operator == "Div" else number * weight * scale
    # Otherwise this test shows nothing.
    assert not abs(lead - exact) < 1e-3 * exact
    found = LinearBounds(relu_network(model), np.array([[-1.0, 1.0]]))(boxes(inputs, inputs))
    assert found.low[0, 0] <= lead <= found.high[0, 0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(wrong: float) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["h"]), node("MatMul", ["h", "v"], ["y"])]
    weights = [constant("w", [[1.0, wrong], [0.0, 1.0]]), constant("v", np.eye(2))]
    model = loaded(graph(nodes, [value("x")], [value("y")], weights), integer("a", 1, 2), *reals(2)[1:])
    with pytest.raises(ModelError, match=says(WEIGHTS_NOT_FINITE)):
        relu_network(model)


def exact_sums(network: ReluNetwork, place: list[float]) -> list[Fraction]:
    """The last sums of a network without any rounding."""
    flow = [Fraction(number) for number in place]
    for number, layer in enumerate(network.layers):
        rows = zip(layer.weights.tolist(), layer.bias.tolist(), strict=True)
        sums = [sum((Fraction(w) * x for w, x in zip(row, flow, strict=True)), Fraction(bias)) for row, bias in rows]
        flow = sums if number == len(network.layers) - 1 else [max(each, Fraction(0)) for each in sums]
    return flow


def test_the_rounding_of_the_bounds_themselves_is_outward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime's rounding only this module's own is left: the exact sums, as fractions, are inside."""
    inside: dict[bool, list[bool]] = {True: [], False: []}
    for sound in (True, False):
        if not sound:
            monkeypatch.setattr(linear_bounds, "ROUNDOFF", 0.0)
        for seed in range(6):
            rng = np.random.default_rng(seed)
            network = relu_network(loaded(relu_net(rng, [4, 9, 7, 2], kind=DOUBLE), *reals(4)))
            places = rng.uniform(-2, 2, (8, 4))
            found = LinearBounds(network, np.eye(2), rounding=False)(boxes(places, places))
            assert (found.high - found.low).max() < 1e-10
            for place, low, high in zip(places.tolist(), found.low.tolist(), found.high.tolist(), strict=True):
                sums = exact_sums(network, place)
                inside[sound] += [a <= exact <= b for a, exact, b in zip(low, sums, high, strict=True)]
    assert all(inside[True])
    # Bounds that leave their own rounding out miss many of them.
    assert np.mean(inside[False]) < 0.8


def uniform(size: float) -> np.ndarray:
    return np.random.default_rng(0).uniform(-size, size, (400, 2))


def cancelling_products() -> Any:
    """x * (a - b) with a nearly b, as two products without a ReLU between them: both products are rounded first."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["m", "v"], ["y"])]
    constants = [
        constant("w", [[1.0 + 2.0**-23, 1.0], [0.0, 0.0]]),
        constant("v", [[0.0, 1.0], [0.0, -1.0]]),
    ]
    return graph(nodes, [value("x")], [value("y")], constants)


def underflowing() -> Any:
    """x * 2^-100 * 2^100: the product in between has few bits left, or none."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["m", "v"], ["y"])]
    constants = [constant("w", np.diag([2.0**-100, 0.0])), constant("v", [[0.0, 2.0**100], [0.0, 0.0]])]
    return graph(nodes, [value("x")], [value("y")], constants)


def shortened() -> Any:
    """The input itself, cast from double to single precision."""
    return graph([node("Cast", ["x"], ["y"], to=FLOAT)], [value("x", DOUBLE)], [value("y")])


def shifted() -> Any:
    """x + 2^20 - 2^20, one number after the other."""
    nodes = [node("Add", ["x", "b"], ["s"]), node("Sub", ["s", "b"], ["y"])]
    return graph(nodes, [value("x")], [value("y")], [constant("b", [2.0**20, 2.0**20])])


def long_sum() -> Any:
    """x + 1 + ... + 1 in one product: each 1 is lost beside 2^24."""
    return graph([node("MatMul", ["x", "w"], ["y"])], [value("x", shape=("N", 64))], [value("y")], [ONES])


def long_chain() -> Any:
    """The same, one operator after the other."""
    names = ["x", *(f"s{place}" for place in range(62)), "y"]
    nodes = [node("Add", [before, "one"], [after]) for before, after in pairwise(names)]
    return graph(nodes, [value("x")], [value("y")], [constant("one", [1.0, 0.0])])


ONES = constant("w", np.ones((64, 2)))
LARGE = np.array([2.0**24, *[1.0] * 63])


@pytest.mark.parametrize(
    ("proto", "inputs"),
    [
        (cancelling_products, uniform(1.0)),
        (underflowing, uniform(2.0**-44)),
        (shortened, uniform(1.0)),
        (shifted, uniform(1.0)),
        (long_sum, LARGE[None]),
        (long_chain, LARGE[None, :2]),
    ],
)
def test_bounds_contain_what_rounding_makes_of_operators_in_a_row(proto: Any, inputs: np.ndarray) -> None:
    model = loaded(proto(), *reals(inputs.shape[1]))
    inputs = inputs.astype(model.dtype)
    places = inputs.astype(float)
    shown = model.scores(inputs).astype(float)
    network = relu_network(model)
    found = LinearBounds(network, np.eye(2))(boxes(places, places))
    # Rounding moves some of them, and none out of its bounds.
    assert (shown != exact_scores(network, places)).any()
    assert ((found.low <= shown) & (shown <= found.high)).all()


def test_a_cast_to_single_precision_is_a_rounding() -> None:
    assert relu_network(loaded(shortened(), *reals(2))).layers[0].rounding >= 2.0**-24


def random_layer(rng: np.random.Generator, outputs: int, inputs: int) -> AffineLayer:
    weights, bias = rng.standard_normal((outputs, inputs)), rng.standard_normal(outputs)
    return AffineLayer.of(weights, bias, inputs + 4, 2.0**-24)


def test_the_margin_of_a_layer_is_at_least_the_exact_one() -> None:
    """The proved bound of a sum's rounding, as a fraction, is not above the number that is added for it."""
    rng = np.random.default_rng(1)
    network = ReluNetwork((random_layer(rng, 6, 5), random_layer(rng, 2, 6)), "")
    bounds = LinearBounds(network, np.eye(2))
    for _ in range(20):
        layer = network.layers[0]
        sizes = rng.random((1, 5)) * 10
        found = bounds._error(layer, sizes)[0]
        terms = layer.terms * Fraction(layer.unit)
        for row, bias, tiny, margin in zip(layer.weight_size, layer.bias_size, layer.tiny, found, strict=True):
            total = sum((Fraction(w) * Fraction(x) for w, x in zip(row, sizes[0], strict=True)), Fraction(bias))
            assert terms / (1 - terms) * total + Fraction(tiny) <= margin


def test_both_lines_of_a_relaxed_unit_hold_exactly_at_its_ends() -> None:
    rng = np.random.default_rng(2)
    layer = random_layer(rng, 400, 3)
    low, high = -rng.random((1, 400)) * 3, rng.random((1, 400)) * 3
    relaxed = RelaxedLayer.of(layer, low, high, np.ones((1, 3)), np.zeros((1, 400)))
    lines = zip(*(each[0].tolist() for each in (low, high, relaxed.below, relaxed.above, relaxed.lift)), strict=True)
    for least, largest, below, above, lift in lines:
        for end in (Fraction(least), Fraction(largest)):
            assert Fraction(below) * end <= max(end, Fraction(0)) <= Fraction(above) * end + Fraction(lift)


def test_a_substituted_line_is_exactly_below_what_it_stands_for() -> None:
    """Where every unit is active, both sides are equal but for the rounding of the substitution."""
    rng = np.random.default_rng(3)
    for number in range(20):
        layer = random_layer(rng, 7, 5)
        place = rng.standard_normal(5)
        sums = layer.weights @ place + layer.bias
        layer = replace(layer, bias=layer.bias - sums + 5)
        point = np.full((1, 7), 5.0)
        relaxed = RelaxedLayer.of(layer, point - 1, point + 1, np.abs(place)[None], np.zeros((1, 7)))
        # A large constant has the larger rounding.
        weights, constant_term = rng.standard_normal((1, 4, 7)), rng.standard_normal((1, 4)) * (1, 1e9)[number % 2]
        lines, found = relaxed.substitute(weights, constant_term)
        sides = zip(weights[0], constant_term[0], lines[0], found[0], strict=True)
        for row, start, line, end in sides:
            exact = Fraction(start)
            for w, own, bias in zip(row, layer.weights, layer.bias, strict=True):
                unit = sum((Fraction(a) * Fraction(x) for a, x in zip(own, place, strict=True)), Fraction(bias))
                exact += Fraction(w) * unit
            shown = sum((Fraction(a) * Fraction(x) for a, x in zip(line, place, strict=True)), Fraction(end))
            assert shown <= exact


def contains_all_sums(
    layer: AffineLayer, low: np.ndarray, high: np.ndarray, least: np.ndarray, largest: np.ndarray
) -> bool:
    """Whether the exact sums of a layer over one box lie between these bounds."""
    ends = list(zip(low[0], high[0], strict=True))
    inside = []
    for row, bias, below, above in zip(layer.weights, layer.bias, least[0], largest[0], strict=True):
        products = [sorted(Fraction(w) * Fraction(end) for end in pair) for w, pair in zip(row, ends, strict=True)]
        first, last = (sum((pair[side] for pair in products), Fraction(bias)) for side in (0, 1))
        inside.append(Fraction(below) <= first and last <= Fraction(above))
    return all(inside)


def test_sums_by_interval_arithmetic_contain_the_exact_ones() -> None:
    rng = np.random.default_rng(4)
    before, after = random_layer(rng, 9, 3), random_layer(rng, 30, 9)
    low = rng.random((1, 9))
    high = low + rng.random((1, 9)) * 2.0**-40
    relaxed = RelaxedLayer.of(before, low, high, np.ones((1, 3)), np.zeros((1, 9)))
    found = relaxed.through(after, np.zeros((1, 30)))
    assert contains_all_sums(after, low, high, *found)


def test_the_least_sum_of_a_long_layer_over_a_box_is_not_above_the_exact_one() -> None:
    rng = np.random.default_rng(5)
    layer = random_layer(rng, 12, 60)
    network = ReluNetwork((layer,), "")
    low = rng.random((1, 60))
    high = low + rng.random((1, 60)) * 2.0**-40
    found = LinearBounds(network, np.eye(12), rounding=False)(boxes(low, high))
    assert contains_all_sums(layer, low, high, found.low, found.high)


def test_two_layers_as_one_allow_for_the_rounding_of_their_product() -> None:
    """Its margin covers that of both layers, and how far its weights are from the exact product."""
    rng = np.random.default_rng(6)
    first, second = (replace(random_layer(rng, *shape), unit=2.0**-53) for shape in ((20, 4), (5, 20)))
    both = first.then(second)
    apart = (first.terms + second.terms) * Fraction(first.unit)
    for row, weights, sizes in zip(second.weights, both.weights, both.weight_size, strict=True):
        for column, weight, size in zip(first.weights.T, weights, sizes, strict=True):
            exact = sum((Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)), Fraction(0))
            margin = Fraction(both.rounding) * Fraction(size)
            assert apart / (1 - apart) * Fraction(size) + abs(Fraction(weight) - exact) <= margin

"""Promises of `spec.preprocessing` and `model.encode`: people stay in the user's units, the network gets its own."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from fairchain.errors import ModelError, SpecError
from fairchain.models import OnnxModel
from fairchain.models.onnx.feature_encoding import encode_feature, extremes, fits_single, is_whole, widths
from fairchain.models.onnx.inputs import INPUT_TYPE_TOO_SMALL, TEXT_INPUT_NEEDS_CATEGORY
from fairchain.spec import Feature
from tests.messages import says
from tests.networks import DOUBLE, FLOAT, INT64, graph, linear, node, save, value
from tests.questions import category, integer, real, spec

SEX = category("sex", "Female", "Male")


def feature(described: dict[str, Any]) -> Feature:
    return spec(described, SEX).features[0]


def encoded(described: dict[str, Any], values: Any) -> np.ndarray[Any, Any]:
    return encode_feature(feature(described), np.asarray(values, np.float64))


def shown(folder: Path, described: dict[str, Any], values: Any) -> list[float]:
    """What a network gets as its first input."""
    first = numpy_helper.from_array(np.array([0], np.int64), "i")
    copies = graph([node("Gather", ["x", "i"], ["y"], axis=1)], [value("x")], [value("y", FLOAT, ("N", 1))], [first])
    model = OnnxModel(save(copies, folder / "network.onnx"), spec(described, SEX, decision="logit"))
    rows = np.column_stack([np.asarray(values, np.float64), np.zeros(len(values))]).astype(model.dtype)
    return [float(x) for x in model.scores(rows)[:, 0]]


def test_a_step_counts_how_often_it_fits(tmp_path: Path) -> None:
    assert shown(tmp_path, integer("age", 0, 99, step=10), [0, 9, 10, 39, 99]) == [0, 0, 1, 3, 9]
    assert shown(tmp_path, real("x", -3, 3, step=0.5), [-0.1, -0.5, 0.49, 0.5]) == [-1, -1, 0, 1]


def test_bins_count_the_edges_at_or_below(tmp_path: Path) -> None:
    assert shown(tmp_path, integer("age", 0, 99, bins=[18, 65]), [17, 18, 64, 65, 99]) == [0, 1, 1, 2, 2]


def test_a_scale_moves_and_stretches(tmp_path: Path) -> None:
    assert shown(tmp_path, integer("age", 0, 99, scale={"mean": 40, "std": 10}), [40, 45, 30]) == [0, 0.5, -1]
    assert shown(tmp_path, integer("age", 0, 99, scale={"low": 20, "high": 60}), [20, 40, 60]) == [0, 0.5, 1]
    assert shown(tmp_path, integer("age", 0, 99, scale={"low": -1, "high": 0}), [0, 2]) == [1, 3]


def test_the_scale_comes_after_the_step(tmp_path: Path) -> None:
    described = integer("age", 0, 99, step=10, scale={"mean": 3, "std": 2})
    assert shown(tmp_path, described, [39, 59, 99]) == [0, 1, 3]


def test_bins_may_span_one_input_each() -> None:
    described = integer("age", 0, 99, bins=[18, 65], one_hot=True)
    assert widths([feature(described)]) == [3]
    assert encoded(described, [17, 18, 70]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_spans_stand_in_the_order_of_the_features(tmp_path: Path) -> None:
    features = [
        integer("age", 0, 99, bins=[18, 65], one_hot=True),
        integer("hours", 0, 99),
        category("job", "a", "b", "c", one_hot=True),
        integer("pay", 0, 99, step=50),
        SEX,
    ]
    network = graph([node("Identity", ["x"], ["y"])], [value("x", FLOAT, ("N", 9))], [value("y", FLOAT, ("N", 9))])
    labels = [f"l{i}" for i in range(9)]
    model = OnnxModel(save(network, tmp_path / "network.onnx"), spec(*features, labels=labels))
    assert model.scores(np.array([[70, 5, 1, 99, 1]], np.float32)).tolist() == [[0, 0, 1, 5, 0, 1, 0, 1, 1]]


def test_preprocessing_equals_scikit_learn_s(tmp_path: Path) -> None:
    """Standard and min-max scaling, and bins as KBinsDiscretizer has them, on 500 numbers in the training range."""
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    column = np.random.default_rng(0).gamma(2, 20, 500)
    low, high = float(column.min()), float(column.max())
    standard = preprocessing.StandardScaler().fit(column[:, None])
    scale = {"mean": float(standard.mean_[0]), "std": float(standard.scale_[0])}
    assert np.array_equal(encoded(real("x", low, high, scale=scale), column), standard.transform(column[:, None]))
    found = encoded(real("x", low, high, scale={"low": low, "high": high}), column)
    expected = preprocessing.MinMaxScaler().fit_transform(column[:, None])
    assert np.allclose(found, expected, rtol=1e-13, atol=1e-15)
    for one_hot in (False, True):
        binned = preprocessing.KBinsDiscretizer(
            5, encode="onehot-dense" if one_hot else "ordinal", strategy="uniform"
        ).fit(column[:, None])
        edges = binned.bin_edges_[0][1:-1].tolist()
        found = encoded(real("x", low, high, bins=edges, one_hot=one_hot), column)
        assert np.array_equal(found, binned.transform(column[:, None]))


@given(
    edges=st.lists(st.integers(-50, 50), min_size=1, max_size=40, unique=True).map(sorted),
    numbers=st.lists(st.floats(-60, 60), min_size=1, max_size=20),
)
def test_few_and_many_edges_are_counted_alike(edges: list[int], numbers: list[float]) -> None:
    found = encoded(real("x", -60, 60, bins=edges), numbers)[:, 0]
    assert found.tolist() == [sum(edge <= number for edge in edges) for number in numbers]


@given(
    described=st.sampled_from(
        [
            integer("x", -40, 70, step=7),
            integer("x", -40, 70, bins=[-3, 0, 9]),
            integer("x", -40, 70, scale={"mean": 3.5, "std": 0.3}),
            integer("x", -40, 70, step=0.3, scale={"low": -9, "high": 1000}),
            integer("x", -40, 70, bins=[0], one_hot=True),
        ]
    ),
    number=st.integers(-40, 70),
)
def test_the_extremes_bound_what_the_network_gets(described: dict[str, Any], number: int) -> None:
    least, most = extremes(feature(described))
    found = encoded(described, [number])
    assert least <= found.min()
    assert found.max() <= most
    assert not is_whole(feature(described)) or np.array_equal(found, np.floor(found))


def test_the_scale_is_computed_in_double_before_the_cast(tmp_path: Path) -> None:
    """In single precision 16777217 - 16777216 would be 0."""
    described = integer("k", 2**24, 2**24 + 9, scale={"mean": 2**24, "std": 1})
    assert shown(tmp_path, described, [2**24 + 1, 2**24 + 3]) == [1, 3]


@pytest.mark.parametrize(
    ("described", "single"),
    [
        (integer("x", 0, 99, step=10), True),
        (integer("x", 0, 2**25, step=10), False),
        (real("x", 0, 1, bins=[0.7]), False),
        (real("x", 0, 1, scale={"mean": 0, "std": 2}), False),
        (real("x", 0, 1), True),
        (category("x", "a", "b", codes=[0.1, 0.2]), True),
    ],
)
def test_values_are_drawn_in_the_precision_that_the_edges_need(described: dict[str, Any], single: bool) -> None:
    assert fits_single(feature(described)) is single


def test_a_value_at_an_edge_falls_where_double_precision_says(tmp_path: Path) -> None:
    """0.7 in single precision is 0.69999999, below the edge; so such values are asked for in double."""
    assert shown(tmp_path, real("x", 0, 1, bins=[0.7]), [0.7, np.nextafter(0.7, 0)]) == [1, 0]


def load(folder: Path, described: dict[str, Any], kind: int) -> OnnxModel:
    return OnnxModel(save(linear([[1], [1]], kind=kind), folder / "n.onnx"), spec(described, SEX, decision="logit"))


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        (integer("k", 0, 300, step=10), TensorProto.INT8),
        (real("k", 0, 300, step=10), INT64),
        (real("k", 0, 1e6, bins=[3]), TensorProto.BOOL),
        (real("k", 0, 1, scale={"mean": 0, "std": 1e-300}), DOUBLE),
    ],
)
def test_an_input_need_only_hold_what_it_gets(tmp_path: Path, described: dict[str, Any], kind: int) -> None:
    assert load(tmp_path, described, kind).predict(np.array([[0, 0], [1, 1]])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        (integer("k", 0, 3000, step=10), TensorProto.INT8),
        (real("k", 0, 1e6, bins=[3, 5]), TensorProto.BOOL),
        (real("k", 0, 1, scale={"mean": 0, "std": 1e-300}), FLOAT),
        (real("k", 0, 1e10, scale={"mean": 0, "std": 1e-300}), DOUBLE),
        (integer("k", 0, 9, scale={"low": 0, "high": 9}), INT64),
        (integer("k", 0, 9, scale={"low": 0, "high": 1e-10}), TensorProto.FLOAT16),
    ],
)
def test_what_an_input_cannot_hold_is_refused(tmp_path: Path, described: dict[str, Any], kind: int) -> None:
    with pytest.raises(ModelError, match=says(INPUT_TYPE_TOO_SMALL, feature_name="k")):
        load(tmp_path, described, kind)


NUMBERS = [integer("x", 0, 99), real("x", 0, 99)]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"one_hot": True}, ["one_hot", "bins"]),
        ({"bins": []}, ["bins", "at least one"]),
        ({"bins": [5, 3]}, ["bins", "3 follows 5"]),
        ({"bins": [5, 5]}, ["bins", "5 follows 5"]),
        ({"bins": [5, float("nan")]}, ["bins", "finite"]),
        ({"bins": [5, float("inf")]}, ["bins", "finite"]),
        ({"bins": list(range(20_000))}, ["bins", "20000"]),
        ({"bins": [5], "step": 3}, ["bins and step"]),
        ({"bins": [5], "scale": {"mean": 1, "std": 1}}, ["bins and scale"]),
        ({"step": float("inf")}, ["step", "finite"]),
        ({"step": 1e-300}, ["step", "larger step"]),
        ({"step": 0}, ["step"]),
        ({"scale": {}}, ["scale", "found nothing"]),
        ({"scale": {"std": 2}}, ["scale", "found std", "mean = ..., std = ..."]),
        ({"scale": {"mean": 2}}, ["scale", "found mean"]),
        ({"scale": {"low": 2}}, ["scale", "found low"]),
        ({"scale": {"mean": 2, "std": 1, "low": 0}}, ["scale", "mean, std, low"]),
        ({"scale": {"mean": 2, "std": 0}}, ["scale.std"]),
        ({"scale": {"mean": float("nan"), "std": 1}}, ["scale.mean", "finite"]),
        ({"scale": {"low": 3, "high": 3}}, ["scale", "high 3 must be above low 3"]),
        ({"scale": {"low": -1.7e308, "high": 1.7e308}}, ["scale", "wider"]),
        ({"scale": {"middle": 3}}, ["scale"]),
    ],
)
def test_keys_that_contradict_each_other_are_refused(keys: dict[str, Any], words: list[str]) -> None:
    for described in NUMBERS:
        with pytest.raises(SpecError) as caught:
            spec({**described, **keys}, SEX)
        for word in ['feature "x"', *words]:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)


def test_keys_of_different_kinds_go_together() -> None:
    for step, scale in itertools.product([None, 10], [None, {"mean": 0, "std": 3}]):
        keys = {"step": step, "scale": scale}
        assert spec(integer("x", 0, 99, **{k: v for k, v in keys.items() if v}), SEX)


def words_in(folder: Path, described: dict[str, Any]) -> OnnxModel:
    """Yes for the text `F`."""
    known = node("LabelEncoder", ["x"], ["y"], "ai.onnx.ml", keys_strings=["F"], values_int64s=[1], default_int64=0)
    texts = graph([known], [value("x", TensorProto.STRING, ("N", 1))], [value("y", INT64, ("N", 1))], ml=True)
    return OnnxModel(save(texts, folder / "network.onnx"), spec(described))


def test_a_text_input_gets_what_the_table_calls_the_value(tmp_path: Path) -> None:
    rows = np.array([[0.0], [1.0]])
    assert words_in(tmp_path, category("sex", "F", "M")).predict(rows).tolist() == [1, 0]
    assert words_in(tmp_path, category("sex", "Male", "Female", aliases=["M", "F"])).predict(rows).tolist() == [0, 1]


def test_codes_for_a_text_input_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(TEXT_INPUT_NEEDS_CATEGORY, feature_name="sex")):
        words_in(tmp_path, category("sex", "F", "M", codes=[0, 1]))

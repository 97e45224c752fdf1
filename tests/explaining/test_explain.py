"""What `explain` promises besides its numbers: the same bytes, readable results, clear messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain import Coupled, ModelError, SpecError, as_frames, example, parse_spec
from fairchain.explaining import Explanation, explain
from fairchain.explaining.effect_bounds import agreement
from fairchain.explaining.explainer import ROWS_OF_A_TABLE
from fairchain.explaining.units import NO_NEURONS, UNKNOWN_UNIT
from fairchain.models import OnnxModel
from tests.explaining.builders import PEOPLE, loaded, random_layers, small_spec
from tests.messages import says
from tests.networks import constant, graph, node, value
from tests.questions import category, real, spec

LAYERS = random_layers(18)


def test_the_same_seed_gives_the_same_bytes_whatever_the_workers() -> None:
    asked = small_spec()
    model = loaded(LAYERS, asked)
    found = [explain(model, asked, rounds=9000, seed=3, workers=workers).to_dict() for workers in (1, 3)]
    for each in found:
        each.pop("seconds")
    assert json.dumps(found[0]) == json.dumps(found[1])
    other = explain(model, asked, rounds=9000, seed=4)
    assert other.gap != explain(model, asked, rounds=9000, seed=3).gap


def uneven(rng: np.random.Generator, count: int, group: str | None) -> Any:
    """The uniform distribution; takes more numbers for some groups than for others."""
    rng.random({"group=a": 0, "group=b": 1}.get(str(group), 5))
    return from_uniforms(rng.random((count, 3)), group)


def from_uniforms(u: np.ndarray, group: str | None) -> Any:
    number = {"group=a": 0, "group=b": 1, "group=c": 2}[str(group)]
    return np.column_stack([np.floor(u * [4, 3, 3]), np.full(len(u), number)])


@pytest.mark.parametrize("function", [uneven, Coupled(from_uniforms, uniforms=3)])
def test_a_function_that_draws_uniform_inputs_is_explained_as_uniform_inputs_are(function: Any) -> None:
    """All effects and the gap: 2e-6 for each comparison of two intervals that hold with 1 - 1e-6."""
    uniform, drawn = small_spec(), small_spec(population={"kind": "callable"})
    known = explain(loaded(LAYERS, uniform), uniform, rounds=8000, method="resample")
    found = explain(loaded(LAYERS, drawn), drawn, rounds=8000, method="resample", population=function)
    assert found.pair == known.pair
    effects = {unit.name: unit.effect for unit in known.units}
    assert {unit.name for unit in found.units} == set(effects)
    for one, other in [(found.gap, known.gap), *((unit.effect, effects[unit.name]) for unit in found.units)]:
        assert one.low <= other.high
        assert other.low <= one.high


def test_units_are_in_order_of_their_effect_and_can_be_ranked_otherwise() -> None:
    asked = small_spec()
    found = explain(loaded(LAYERS, asked), asked, rounds=2000)
    estimates = [unit.effect.estimate for unit in found.units]
    assert estimates == sorted(estimates, reverse=True)
    by_paper = found.ranked("sensitivity", layer="layer2")
    assert [unit.layer for unit in by_paper] == ["layer2"] * 4
    assert by_paper[0].sensitivity.estimate == max(unit.sensitivity.estimate for unit in by_paper)
    assert [layer.name for layer in found.layers] == ["inputs", "layer1", "layer2"]
    assert found.layers[1].effect.estimate == pytest.approx(
        sum(unit.effect.estimate for unit in found.units if unit.layer == "layer1")
    )
    largest = {kind: max(u.share for u in found.units if u.kind == kind) for kind in ("feature", "neuron")}
    assert largest == {"feature": 0, "neuron": 1}


def test_a_result_can_be_read_by_people_and_programs() -> None:
    asked = small_spec()
    found = explain(loaded(LAYERS, asked), asked, units=["layer2[0]", "income"], rounds=500)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Explanation) == found
    data = json.loads(json.dumps(found.to_dict()))
    assert {unit["name"] for unit in data["units"]} == {"layer2[0]", "income"}
    assert set(data["units"][0]["effect"]) == {"estimate", "low", "high"}
    assert str(found).startswith(f"{found.pair.more} gets yes more often than {found.pair.less}: the gap is 0.")
    assert "<table>" in found._repr_html_()
    with pytest.raises(AttributeError):
        found.rounds = 1  # type: ignore[misc]


def test_a_fair_network_is_explained_all_the_same() -> None:
    found = explain(None, example("census"), units=["layer5"], rounds=20_000)
    assert found.fair
    assert found.largest.high <= found.threshold
    assert len(found.units) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": ["layer9"]}, 'unknown feature or hidden layer "layer9"; expected features, layer1, layer2'),
        ({"units": ["layer1[7]"]}, '"layer1" has 5 units, numbered from 0'),
        ({"units": ["group"]}, "group: is protected"),
        ({"method": "zero"}, 'method: unknown name "zero"; expected one of "default", "resample", "mean"'),
        ({"rounds": 0}, "rounds: found 0"),
        ({"data": {"income": [1]}}, "draws inputs without rows; for witnesses give --rows (rows=...)"),
    ],
)
def test_what_cannot_be_asked_is_said(changes: dict[str, Any], message: str) -> None:
    asked = small_spec()
    with pytest.raises((ModelError, SpecError)) as error:
        explain(loaded(LAYERS, asked), asked, **changes)
    assert message in str(error.value)


def test_a_python_function_has_the_effects_of_features_that_its_network_has() -> None:
    asked = small_spec()
    network = loaded(LAYERS, asked)
    inside = explain(network, asked, units=["features"], rounds=3000, seed=3)
    outside = explain(lambda rows: network.scores(rows.astype(np.float32)), asked, rounds=3000, seed=3)
    assert outside.units == inside.units
    assert (outside.gap, outside.largest, outside.witnesses) == (inside.gap, inside.largest, inside.witnesses)
    assert {unit.kind for unit in outside.units} == {"feature"}


def test_a_python_function_has_no_neurons() -> None:
    with pytest.raises(ModelError, match=says(NO_NEURONS, features="features")):
        explain(lambda rows: np.zeros((len(rows), 2)), small_spec(), units=["neurons"])
    with pytest.raises(ModelError, match=says(UNKNOWN_UNIT, tensor="layer1", names="features")):
        explain(lambda rows: np.zeros((len(rows), 2)), small_spec(), units=["layer1"])


def test_witnesses_are_people_who_differ_in_nothing_else_and_real_rows_come_first(tmp_path: Path) -> None:
    asked = small_spec()
    model = loaded(LAYERS, asked)
    drawn = explain(model, asked, units=["layer2"], rounds=500)
    assert len(drawn.witnesses) == 5
    assert all(witness.row is None and witness.labels[0] != witness.labels[1] for witness in drawn.witnesses)
    person = drawn.witnesses[0].input
    assert set(person) == {"income", "years", "house"}
    table = tmp_path / "people.csv"
    group = drawn.pair.more.removeprefix("group=")
    still = next(row for row in PEOPLE.astype(int).tolist() if not flips(model, row, drawn.pair))
    houses = ["rent", "own", "none"]
    rows = [
        f"{still[0]},{still[1]},{houses[still[2]]},{group}",
        f"{person['income']:g},{person['years']:g},{person['house']},{group}",
    ]
    table.write_text("income,years,house,group\n" + "\n".join(rows) + "\n", encoding="utf-8")
    found = explain(model, asked, units=["layer2"], rounds=500, rows=table)
    assert (found.witnesses[0].row, found.witnesses[0].distance) == (2, 0.0)
    assert found.witnesses[0].input == person
    distances = [witness.distance for witness in found.witnesses]
    assert distances == sorted(distances, key=lambda distance: distance or 0.0)
    # A table that has the numbers of the categories, as `data get --encoded` writes them, has the same rows.
    place, group_place = houses.index(str(person["house"])), "abc".index(group)
    still_row = ",".join(map(str, [*still[:3], group_place]))
    numbered = [still_row, f"{person['income']:g},{person['years']:g},{place},{group_place}"]
    table.write_text("income,years,house,group\n" + "\n".join(numbered) + "\n", encoding="utf-8")
    assert explain(model, asked, units=["layer2"], rounds=500, rows=table).witnesses == found.witnesses


def flips(model: OnnxModel, row: list[int], pair: Any) -> bool:
    groups = ["abc".index(name.removeprefix("group=")) for name in (pair.more, pair.less)]
    return len(set(model.predict(np.array([[*row, group] for group in groups], np.float32)).tolist())) > 1


def test_the_rows_of_a_population_are_data_and_not_rows_for_witnesses() -> None:
    table = {"income": [1, 2, 3], "years": [1] * 3, "house": ["own"] * 3, "group": ["a", "b", "c"]}
    about_rows = small_spec(population={"kind": "table", "as": "population"})
    model = loaded(LAYERS, about_rows)
    with pytest.raises(SpecError, match=says(ROWS_OF_A_TABLE)):
        explain(model, about_rows, rows=table)
    assert "the 3 rows of the table" in explain(model, about_rows, data=table, rounds=100).population


def test_rows_of_a_table_are_explained_as_they_are(tmp_path: Path) -> None:
    """Groups differ in income here, and the network sees nothing else: all of the gap goes through it."""
    table = tmp_path / "people.csv"
    rows = [f"{income},1,own,{group}" for group, most in (("a", 2), ("b", 4), ("c", 3)) for income in range(most)]
    table.write_text("income,years,house,group\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked = small_spec(population={"kind": "table", "path": str(table), "as": "population"})
    weights = np.array([[1.0, 0, 0, 0]]), np.array([0.0])
    model = loaded([weights, (np.array([[0.0], [1.0]]), np.array([1.5, 0.0]))], asked)
    found = explain(model, asked, rounds=4000)
    assert (found.pair.more, found.pair.less) == ("group=b", "group=a")
    assert 0.5 in found.gap
    assert found.units[0].remaining == 0
    assert {unit.name for unit in found.units[:2]} == {"income", "layer1[0]"}
    assert all(unit.effect.estimate == 0 for unit in found.units[2:])
    assert found.ranked("sensitivity")[0].name in ("income", "layer1[0]")
    assert {unit.method for unit in found.units} == {"resample"}  # features too: here they depend on the group
    assert "the 9 rows of people.csv" in found.statement


def test_a_row_is_shown_as_every_group_where_the_same_person_is_compared(tmp_path: Path) -> None:
    """All rows are of one group but for one: compared as they are, hardly anything could be said."""
    table = tmp_path / "people.csv"
    rows = [f"{income},{years},own,a" for income in range(4) for years in range(3)] + ["0,0,own,b", "0,0,own,c"]
    table.write_text("income,years,house,group\n" + "\n".join(rows) + "\n", encoding="utf-8")
    asked = small_spec(
        population={"kind": "table", "path": str(table), "as": "sample"},
        property={"kind": "individual", "protected": ["group"], "threshold": 0.1},
    )
    model = loaded(LAYERS, asked)
    people = np.array([[*map(float, row.split(",")[:2]), 1.0] for row in rows], np.float32)
    labels = [model.predict(np.column_stack([people, np.full(len(rows), group, np.float32)])) for group in range(3)]
    shares = [float((labels[i] != labels[j]).mean()) for i in range(3) for j in range(i)]
    found = explain(model, asked, units=["layer1"], rounds=4000)
    assert max(shares) in found.gap
    assert "about these rows" in found.notes[0]


def lstm(units: int = 4, steps: int = 3) -> Any:
    rng = np.random.default_rng(7)
    sizes = {"w": (1, 4 * units, 1), "r": (1, 4 * units, units), "b": (1, 8 * units)}
    nodes = [
        node("Transpose", ["x"], ["timed"], perm=[1, 0, 2]),
        node("LSTM", ["timed", "w", "r", "b"], ["all", "last"], hidden_size=units),
        node("Squeeze", ["last", "axis"], ["state"]),
        node("Gemm", ["state", "head", "bias"], ["y"], transB=1),
    ]
    head = np.zeros((2, units))
    head[1, 1] = 1.0
    constants = [constant(name, rng.normal(0, 1, size)) for name, size in sizes.items()]
    constants += [constant("head", head), constant("bias", [0.0, 0.0]), constant("axis", [0], np.int64)]
    return graph(nodes, [value("x", shape=("N", steps, 1))], [value("y")], constants)


def test_cells_of_a_recurrent_layer_are_units_as_the_head_reads_them() -> None:
    asked = spec(real("one", -1, 1), real("two", -1, 1), category("group", "a", "b"))
    model = OnnxModel.from_bytes(lstm().SerializeToString(), "lstm.onnx", asked)
    found = explain(model, asked, rounds=3000)
    cells = [unit for unit in found.units if unit.kind == "cell"]
    assert {unit.name for unit in cells} == {f"lstm1[{place}]" for place in range(4)}
    assert cells[0].name == "lstm1[1]"  # the only one that the head reads
    assert cells[0].remaining == 0
    assert cells[0].effect.low > 0
    assert all(unit.effect.estimate == 0 for unit in cells if unit.place != 1)


def test_people_whose_share_changes_are_explained_for_the_individual_property() -> None:
    changes = {"kind": "individual", "protected": ["group"], "threshold": 0.1}
    asked = small_spec(property=changes)
    found = explain(loaded(LAYERS, asked), asked, rounds=2000)
    assert found.gap.low > 0
    assert str(found).startswith("The share of individuals decided differently as group=")
    assert not found.fair
    assert found.units[0].effect.estimate > 0


def test_a_ratio_is_explained_by_differences_of_its_worst_pair() -> None:
    asked = small_spec(property={"kind": "ratio", "protected": ["group"], "outcome": "yes", "threshold": 0.8})
    found = explain(loaded(LAYERS, asked), asked, units=["layer2"], rounds=2000)
    assert "smallest ratio" in found.notes[0]
    assert not found.fair


def test_agreement_is_one_for_the_same_order_and_minus_one_for_the_reverse() -> None:
    same, reverse = agreement([1, 2, 3, 4], [10, 20, 30, 45]), agreement([1, 2, 3, 4], [4, 3, 2, 1], top=2)
    assert (same.kendall, same.spearman, same.common) == (1, 1, 4)
    assert (reverse.kendall, reverse.spearman, reverse.common) == (-1, -1, 0)
    ties = agreement([1, 1, 2], [1, 2, 3])
    assert ties.kendall == pytest.approx(2 / np.sqrt(6))
    assert ties.spearman == pytest.approx(np.sqrt(3) / 2)


@pytest.mark.parametrize("kind", ["individual", "difference"])
def test_one_missing_cell_hides_no_counterfactual_pair(kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"income": rng.random(400) * 10, "sex": rng.choice(["F", "M"], 400)})

    def decide(rows: Any) -> Any:
        return np.where(rows["income"].fillna(9.0) + np.where(rows["sex"] == "F", 0, 2) > 7, "yes", "no")

    features = [real("income", 0, 10), category("sex", "F", "M")]
    about = {"kind": kind, "protected": ["sex"], "threshold": 0.1}
    table = {"kind": "table", "as": "population", "keep_missing": True}
    asked = parse_spec(
        {"model": {"labels": ["no", "yes"]}, "feature": features, "property": about, "population": table}
    )
    whole, damaged = (explain(as_frames(decide), asked, data=data, rounds=500) for data in (frame, lacking(frame)))
    assert whole.witnesses
    assert [(each.row, each.distance) for each in damaged.witnesses] == [
        (each.row, each.distance) for each in whole.witnesses
    ]


def lacking(frame: Any) -> Any:
    """The same rows, one of them without its income."""
    found = frame.copy()
    found.loc[399, "income"] = np.nan
    return found

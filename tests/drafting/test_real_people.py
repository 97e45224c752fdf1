"""Promise: on census, credit, bank and compas the spec that `init` writes is verified without an edit."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import fairchain
from fairchain.datasets.tables import write_table
from fairchain.drafting import Draft, save_spec
from fairchain.examples import example
from tests.drafting.builders import draft

pytestmark = pytest.mark.network


def verified(made: Draft, folder: Path) -> Any:
    save_spec(made, folder / "spec.toml")
    return fairchain.verify(None, folder / "spec.toml")


@pytest.mark.parametrize(("name", "protected"), [("census", "sex"), ("credit", "sex"), ("bank", "age")])
@pytest.mark.parametrize("reading", ["population", "sample"])
def test_the_example_networks_and_their_rows(tmp_path: Path, name: str, protected: str, reading: str) -> None:
    write_table(name, tmp_path / "people.csv", encoded=True)
    network = tmp_path / "network.onnx"
    shutil.copyfile(example(name).with_suffix(".onnx"), network)
    made = draft(tmp_path / "people.csv", network, reading=reading)
    assert made.warnings == ()
    assert made.spec.property.protected == (protected,)
    assert made.spec.model.labels == fairchain.load_spec(example(name)).model.labels
    verdict = verified(made, tmp_path)
    assert verdict.decision.name != "UNDECIDED" or (name, reading) == ("credit", "sample")
    if reading == "population":
        for other in made.likely:
            again = fairchain.spec.revise(fairchain.load_spec(tmp_path / "spec.toml"), property__protected=[other])
            assert fairchain.verify(None, again).decision.name in ("FAIR", "UNFAIR")


def exported(people: Any, label: str, path: Path) -> Path:
    """A small network behind scaling and one-hot encoding, as an ONNX file with one input for each column."""
    pytest.importorskip("sklearn")
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    inputs = people.drop(columns=label)
    numbers = list(inputs.select_dtypes("number"))
    texts = [name for name in inputs if name not in numbers]
    model = make_pipeline(
        make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(), texts)),
        MLPClassifier((8,), max_iter=8, random_state=0),
    )
    types = [(name, (FloatTensorType if name in numbers else StringTensorType)([None, 1])) for name in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(inputs, people[label])
        network = skl2onnx.convert_sklearn(model, initial_types=types, target_opset={"": 17, "ai.onnx.ml": 3})
    network.ir_version = 8
    path.write_bytes(network.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("name", "label"),
    [("compas", "two_year_recid"), ("census", "income"), ("credit", "risk"), ("bank", "deposit")],
)
def test_a_pipeline_on_the_rows_as_they_are(tmp_path: Path, name: str, label: str) -> None:
    pd = pytest.importorskip("pandas")
    write_table(name, tmp_path / "people.csv")
    people = pd.read_csv(tmp_path / "people.csv", keep_default_na=False)
    made = draft(tmp_path / "people.csv", exported(people, label, tmp_path / "network.onnx"))
    assert made.warnings == ()
    assert made.spec.population.label == label  # type: ignore[union-attr]
    assert len(made.spec.features) == people.shape[1] - 1
    verdict = verified(made, tmp_path)
    assert (verdict.decision.name == "UNFAIR") == (name != "credit")


def test_units_that_the_network_was_not_trained_on_are_a_warning(tmp_path: Path) -> None:
    """The example networks take decades and steps; shown years and dollars, their codes say nothing."""
    for name, ignored in (("census", ("education-num",)), ("credit", ()), ("bank", ())):
        write_table(name, tmp_path / f"{name}.csv")
        made = draft(tmp_path / f"{name}.csv", example(name).with_suffix(".onnx"), ignore=ignored)
        assert made.warnings

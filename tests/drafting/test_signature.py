"""Promises about looking at models: inputs, classes and widths are seen where the model tells them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.drafting import signature
from fairchain.drafting.signature import NETWORK_WITHOUT_INPUTS, READS_SEQUENCES, Input, Signature
from fairchain.errors import ModelError
from fairchain.models.load import NAMES_NO_MODEL, NOT_IN_MODULE, load_model, read_model
from fairchain.models.onnx.file_checks import NOT_ALLOWED, NOT_ONNX
from tests.drafting.builders import applicants, by_hours, draft, features, named, numbers, one_score
from tests.messages import says
from tests.networks import constant, graph, node, value
from tests.sequences import Network, Recurrent


def signature_of(model: Any, output: str | None = None) -> Signature:
    return signature.read_signature(model, output)


def test_a_flat_network_tells_its_width_and_its_scores() -> None:
    seen = signature_of(by_hours())
    assert seen.inputs == (Input("x", False, 3),)
    assert (seen.labels, seen.answers, seen.maker, seen.classes) == (False, 2, "Add", ())
    assert signature_of(one_score("Sigmoid")).maker == "Sigmoid"


def test_inputs_by_column_tell_text_from_numbers(tmp_path: Path) -> None:
    seen = signature_of(named(tmp_path / "network.onnx"))
    assert seen.inputs == (Input("hours", False, 1), Input("age", False, 1), Input("sex", True, 1))
    assert seen.labels


def test_bytes_a_path_and_a_proto_tell_the_same(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "network.onnx"
    path.write_bytes(by_hours())
    told = [signature_of(each) for each in (by_hours(), str(path), path, onnx.load(path))]
    assert len({(each.inputs, each.answers, each.labels) for each in told}) == 1


def test_a_free_width_is_no_width() -> None:
    network = graph([node("Identity", ["x"], ["y"])], [value("x", shape=("N", "M"))], [value("y", shape=("N", "M"))])
    assert signature_of(network).inputs == (Input("x", False, None),)
    assert signature_of(network).answers is None


def test_weights_are_no_inputs() -> None:
    weights = constant("w", np.eye(2))
    network = graph(
        [node("MatMul", ["x", "w"], ["y"])], [value("x"), value("w", shape=(2, 2))], [value("y")], [weights]
    )
    assert [each.name for each in signature_of(network).inputs] == ["x"]


def test_a_network_without_inputs_is_refused() -> None:
    network = graph([node("Identity", ["w"], ["y"])], [], [value("y")], [constant("w", np.eye(2))])
    with pytest.raises(ModelError, match=says(NETWORK_WITHOUT_INPUTS)):
        signature_of(network)


def test_a_network_of_texts_is_told_apart() -> None:
    network = Network(Recurrent("LSTM", 5, 4)).onnx(lengths=True)
    with pytest.raises(ModelError, match=says(READS_SEQUENCES)):
        signature_of(network)


def test_untrusted_files_are_checked_before_they_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "network.onnx"
    path.write_bytes(b"not a network")
    with pytest.raises(ModelError, match=says(NOT_ONNX)):
        signature_of(path)
    bad = graph([node("Loop", ["x"], ["y"])], [value("x")], [value("y")])
    with pytest.raises(ModelError, match=says(NOT_ALLOWED)):
        signature_of(bad)


def test_of_a_function_nothing_is_seen_and_a_width_that_fits_is_found() -> None:
    def hired(rows: Any) -> Any:
        assert rows.shape[1] == 3
        return rows[:, 1] > 30

    assert signature_of(hired) == Signature("function")
    made = draft(numbers(), hired)
    assert list(features(made)) == ["age", "hours", "sex"]
    assert made.spec.model.labels == ("no", "yes")
    assert made.about("model.path")[0].startswith("The model was given in Python")


def test_a_function_of_frames_gets_the_columns_of_the_table() -> None:
    pytest.importorskip("pandas")
    from fairchain.models.frames import as_frames

    def hired(people: Any) -> Any:
        more = people["job"].isin(["driver", "nurse"])
        return np.where(people["hours"] + 15 * more > 37, "yes", "no")

    made = draft(applicants(), as_frames(hired))
    assert list(features(made)) == ["age", "hours", "sex", "job"]
    assert made.warnings == ()


def test_a_name_is_looked_at_as_what_it_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"network = {by_hours()!r}\npath = 'python:named_models:path'\nnothing = None\n"
    (tmp_path / "named_models.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert signature_of("python:named_models:network") == signature_of(by_hours())
    with pytest.raises(ModelError, match=says(NAMES_NO_MODEL, model="python:named_models:path", type="str")):
        signature_of("python:named_models:path")
    for name in ("networks", "nothing"):
        with pytest.raises(ModelError, match=says(NOT_IN_MODULE)):
            signature_of(f"python:named_models:{name}")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("model.pkl", "a pickle can run any code"),
        ("model.xyz", "is not read; give one of"),
        (3, "an object of type int"),
    ],
)
def test_what_cannot_be_loaded_is_refused_before_the_table_is_read(tmp_path: Path, model: Any, words: str) -> None:
    if isinstance(model, str):
        model = tmp_path / model
        model.write_bytes(b"")
    with pytest.raises(ModelError, match=words):
        draft(tmp_path / "there is no such table.csv", model)


def test_a_network_is_read_once(tmp_path: Path) -> None:
    """The file may change while it is drafted from: every trial runs the bytes that were checked."""
    path = tmp_path / "network.onnx"
    path.write_bytes(by_hours())
    network = read_model(path)
    path.unlink()
    assert load_model(network, draft(numbers(), by_hours()).spec).name == str(path)


def test_a_network_in_several_files_has_the_hash_of_all_of_them(tmp_path: Path) -> None:
    """A certificate of `check` names the hash that whoever rechecks it computes from the files."""
    import onnx

    path = tmp_path / "network.onnx"
    whole = onnx.load_from_string(by_hours())
    onnx.save(whole, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size > 0
    made = draft(numbers(), path)
    assert made.model is not None
    assert made.model.sha256 == load_model(path, made.spec).sha256


sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")


def classifier(name: str, classes: list[Any]) -> tuple[Any, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    made = {
        "logistic": LogisticRegression(),
        "forest": RandomForestClassifier(3, random_state=0),
        "network": MLPClassifier((3,), max_iter=20, random_state=0),
    }[name]
    x = np.random.default_rng(0).random((60, 2)).astype(np.float32)
    y = np.array(classes)[(x.sum(axis=1) * len(classes) / 2).astype(int)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(x, y), x


@pytest.mark.parametrize("name", ["logistic", "forest", "network"])
@pytest.mark.parametrize("classes", [["no", "yes"], ["b", "a", "c"], [0, 1], [1, 2]])
@pytest.mark.parametrize("zipmap", [True, False])
def test_converted_classifiers_tell_their_classes(name: str, classes: list[Any], zipmap: bool) -> None:
    made, x = classifier(name, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {id(made): {"zipmap": zipmap}}
        network = skl2onnx.to_onnx(made, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    seen = signature_of(network)
    assert seen.classes == tuple(sorted(classes))
    assert seen.labels
    assert signature_of(made).classes == seen.classes
    assert signature_of(made).inputs[0].width == 2


def test_only_the_scores_tell_the_classes_too() -> None:
    made, x = classifier("logistic", ["no", "yes"])
    options = {id(made): {"zipmap": False, "output_class_labels": False}}
    network = skl2onnx.to_onnx(made, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    seen = signature_of(network, "probabilities")
    assert (seen.classes, seen.labels, seen.answers) == (("no", "yes"), False, 2)


@pytest.mark.parametrize("kind", [bool, float])
def test_classes_that_are_no_texts_are_whole_numbers(kind: type) -> None:
    made, _ = classifier("logistic", [kind(0), kind(1)])
    assert signature_of(made).classes == (0, 1)


@pytest.mark.torch
def test_a_torch_module_tells_its_width() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    assert signature_of(module).inputs == (Input("input", False, 3),)
    assert signature_of(torch.nn.LSTM(2, 2)).inputs == ()
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[0.0, 1.0, 0.0]] * 4))
        module[0].bias.zero_()
        module[2].weight.copy_(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
        module[2].bias.fill_(-30.0)
    made = draft(numbers(), module, decision="logit")
    assert made.spec.model.decision == "logit"
    assert made.warnings == ()


@pytest.mark.keras
def test_a_keras_model_tells_its_width() -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    assert signature_of(model).inputs == (Input("input", False, 3),)
    assert signature_of(keras.Sequential([keras.layers.Dense(2)])).inputs == ()

"""Promises of `from_transformers`: the decisions of the model's own pipeline, and no code from a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper

from fairchain import check, check_chain, explain, learn_chain, recheck, repair, to_onnx, verify
from fairchain.certificates import write_certificate
from fairchain.errors import CertificateError, FairchainError, ModelError
from fairchain.models import load_model
from fairchain.models.adapters import from_transformers
from fairchain.models.adapters.from_transformers import (
    FOLDER_NEEDS_NO_EXPORT,
    LABELS_APART,
    NAME_OWN_LABELS,
    NO_SAFETENSORS,
    NOT_EXPORTED,
    TOKENIZER_NEEDED,
    TRAINING_MODE,
    WEIGHTS_LACKING,
)
from fairchain.models.base import DEPENDS_ON_BATCH
from fairchain.models.onnx.token_inputs import OTHER_LABELS
from fairchain.repairing.files import EXISTS, FOLDER_DECIDES_OTHERWISE, NO_WEIGHTS_CHANGED, write_repair
from fairchain.spec import parse_spec
from fairchain.statements import NO_TEXTS_CERTIFICATE
from fairchain.system.user_code import FAILED_WITH
from tests.messages import says
from tests.questions import changed
from tests.text.builders import raw_question

pytestmark = pytest.mark.transformers
transformers: Any = pytest.importorskip("transformers")
torch: Any = pytest.importorskip("torch")
tokenizers: Any = pytest.importorskip("tokenizers")
load_file: Any = pytest.importorskip("safetensors.torch").load_file

SEED = 11
TEXTS = (
    "Sunny people, they walk!",
    "The SUNNIES run; qwertzuiop",
    "a moony book?!",
    "moonies say the sunny town is awful " * 4,
    "   Moony  \ttabs and blanks ",
    "red sea",
    "green lake! " * 30,
)

LABELLED = tuple(zip((text.strip() for text in TEXTS), ("fine", "toxic") * 4, strict=False))


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and a WordPiece vocabulary of its own."""
    folder = tmp_path_factory.mktemp("bert")
    # Not trained: which of equally frequent pieces come first differs from run to run.
    letters = sorted(set("".join(TEXTS).replace(" ", "").replace("\t", "")))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += ["sunny", "moon", "##ies", "green", "awful", "the", "people"]
    words = tokenizers.BertWordPieceTokenizer(vocab=dict(zip(pieces, range(200), strict=False)), lowercase=False)
    torch.manual_seed(SEED)
    config = transformers.BertConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        id2label={0: "fine", 1: "toxic"},
        label2id={"fine": 0, "toxic": 1},
        initializer_range=0.6,
    )
    transformers.BertForSequenceClassification(config).eval().save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words._tokenizer, model_max_length=24, **special
    ).save_pretrained(folder)
    return folder


def pipeline(folder: Path) -> Any:
    return transformers.pipeline("text-classification", model=str(folder), tokenizer=str(folder))


def asked(folder: Path, **population: Any) -> dict[str, Any]:
    return changed(raw_question(folder, TEXTS, **population), "model.decision", ...)


def test_rates_equal_those_of_the_models_own_pipeline_text_by_text(folder: Path, tmp_path: Path) -> None:
    own = pipeline(folder)
    expected = [answer["label"] for answer in own(list(TEXTS), truncation=True)]
    assert len(set(expected)) == 2
    spec = parse_spec(asked(tmp_path))
    values = np.array([[text] for text in TEXTS], object)
    for source in (folder, own, (own.model, own.tokenizer)):
        model = load_model(source, spec)
        assert [spec.model.labels[label] for label in model.predict(values)] == expected
        # One by one, as the pipeline does it.
        alone = [int(model.predict(values[place : place + 1])[0]) for place in range(len(TEXTS))]
        assert [spec.model.labels[label] for label in alone] == expected
    verdict = verify(own, spec)
    rates = {group.name: group.probability.estimate for group in verdict.groups}
    toxic = np.array([label == "toxic" for label in expected])
    assert rates == {
        "faith=sun": toxic[[0, 1, 3]].mean(),
        "faith=moon": toxic[[2, 3, 4]].mean(),
        "faith=none": toxic[[5, 6]].mean(),
    }
    longer = sum(len(own.tokenizer(text)["input_ids"]) > 24 for text in TEXTS)
    assert longer
    assert any(f"{longer} texts are longer than the 24 tokens" in note for note in verdict.notes)


def test_labels_may_come_in_another_order(folder: Path, tmp_path: Path) -> None:
    data = asked(tmp_path)
    first, second = (
        load_model(folder, parse_spec(changed(data, "model.labels", labels))).predict(
            np.array([[text] for text in TEXTS], object)
        )
        for labels in (["fine", "toxic"], ["toxic", "fine"])
    )
    assert (first + second == 1).all()
    with pytest.raises(ModelError, match=says(NAME_OWN_LABELS, labels='"fine", "toxic"')):
        load_model(folder, parse_spec(changed(changed(data, "model.labels", ["a", "toxic"]), "property.outcome", "a")))


def test_one_of_several_independent_labels(folder: Path, tmp_path: Path) -> None:
    own = pipeline(folder)
    data = changed(asked(tmp_path), "model.output", "toxic")
    own.model.config.problem_type = "multi_label_classification"
    with pytest.raises(ModelError, match=says(LABELS_APART, first="fine")):
        load_model(own, parse_spec(asked(tmp_path)))
    model = load_model(own, parse_spec(data))
    scores = [
        each["score"] for text in TEXTS for each in own(text, truncation=True, top_k=None) if each["label"] == "toxic"
    ]
    assert np.allclose(model.scores(np.array([[text] for text in TEXTS], object))[:, 0], scores, atol=1e-5)


def test_a_folder_has_a_certificate(folder: Path, tmp_path: Path) -> None:
    for reading in ("observed", "swapped"):
        spec = parse_spec(changed(asked(tmp_path, **{"as": reading}), "model.path", str(folder)))
        verdict = verify(None, spec, certify=True)
        write_certificate(verdict, tmp_path / "c.json")
        found = recheck(tmp_path / "c.json", folder, data=tmp_path / "texts.txt")
        assert [claim for claim in found.claims if not claim.holds] == []
        assert found.conclusion == "CONFIRMED"


def test_a_pipeline_is_certified_as_a_network_with_its_tokenizer(folder: Path, tmp_path: Path) -> None:
    own, texts = pipeline(folder), tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS), encoding="utf-8")
    terms = {"a": ["sunny"], "b": ["moony", "moonies"]}
    verdict = check(own, texts, text="comment", terms=terms, certify=True)
    write_certificate(verdict, tmp_path / "c.json")
    (tmp_path / "own.onnx").write_bytes(to_onnx(own, verdict.spec))
    assert recheck(tmp_path / "c.json", tmp_path / "own.onnx", data=texts).conclusion == "CONFIRMED"


def test_texts_in_memory_are_refused_with_advice_that_works(folder: Path, tmp_path: Path) -> None:
    own, terms = pipeline(folder), {"a": ["sunny"], "b": ["moony", "moonies"]}
    texts, path = {"comment": list(TEXTS)}, tmp_path / "texts.txt"
    with pytest.raises(CertificateError, match=says(NO_TEXTS_CERTIFICATE)):
        check(own, texts, text="comment", terms=terms, certify=True)
    spec = check(own, texts, text="comment", terms=terms).spec
    with pytest.raises(CertificateError, match=says(NO_TEXTS_CERTIFICATE)):
        verify(own, spec, data=texts, certify=True)
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    assert check(own, path, text="comment", terms=terms, certify=True).certifiable


def test_a_pipeline_that_is_not_exported_is_certified_as_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, terms, path = pipeline(folder), {"a": ["sunny"], "b": ["moony", "moonies"]}, tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    monkeypatch.setattr(from_transformers, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(CertificateError, match=says(NOT_EXPORTED)) as refused:
        check(own, path, text="comment", terms=terms, certify=True)
    assert str(refused.value).endswith(FOLDER_NEEDS_NO_EXPORT)
    own.save_pretrained(tmp_path / "saved")
    verdict = check(tmp_path / "saved", path, text="comment", terms=terms, certify=True)
    write_certificate(verdict, tmp_path / "c.json")
    assert recheck(tmp_path / "c.json", tmp_path / "saved", data=path).conclusion == "CONFIRMED"


def test_check_takes_a_folder(folder: Path) -> None:
    verdict = check(folder, {"comment": list(TEXTS)}, text="comment", terms={"a": ["sunny"], "b": ["moony"]})
    assert verdict.spec.model.labels == ("fine", "toxic")


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_a_hostile_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path))
    for number, (key, value, message) in enumerate(
        [
            ("auto_map", {"AutoModel": "evil.Evil"}, "auto_map"),
            ("num_hidden_layers", 10**6, "above 1,000"),
            ("vocab_size", 9_000_000, "a larger network than its weights"),
        ]
    ):
        bad = copied(folder, tmp_path / str(number))
        config = json.loads((bad / "config.json").read_text())
        (bad / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ModelError, match=message):
            load_model(bad, spec)
    pickled = copied(folder, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ModelError, match=says(NO_SAFETENSORS)):
        load_model(pickled, spec)


def test_a_model_without_its_head_is_refused(folder: Path, tmp_path: Path) -> None:
    bare = copied(folder, tmp_path / "bare")
    own = pipeline(folder)
    own.model.bert.save_pretrained(bare)
    with pytest.raises(ModelError, match=says(WEIGHTS_LACKING)):
        load_model(bare, parse_spec(asked(tmp_path)))


def test_what_is_not_ready_is_refused(folder: Path, tmp_path: Path) -> None:
    own, spec = pipeline(folder), parse_spec(asked(tmp_path))
    with pytest.raises(ModelError, match=says(TOKENIZER_NEEDED)):
        load_model(own.model, spec)
    own.model.train()
    with pytest.raises(ModelError, match=says(TRAINING_MODE)):
        load_model(own, spec)


@pytest.fixture(name="network", scope="module")
def _network(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model in ONNX with its tokenizer inside."""
    target = tmp_path_factory.mktemp("onnx") / "bert.onnx"
    target.write_bytes(to_onnx(folder, parse_spec(asked(target.parent))))
    return target


def values_of(texts: Sequence[str]) -> Any:
    return np.array([[text] for text in texts], object)


def test_a_network_with_its_tokenizer_decides_as_the_pipeline_does(folder: Path, network: Path, tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path))
    expected = [answer["label"] for answer in pipeline(folder)(list(TEXTS), truncation=True)]
    model = load_model(network, spec)
    assert [spec.model.labels[label] for label in model.predict(values_of(TEXTS))] == expected
    alone = [int(model.predict(values_of([text]))[0]) for text in TEXTS]
    assert [spec.model.labels[label] for label in alone] == expected
    # Texts that come again are not evaluated again, and keep their places.
    again = model.predict(values_of([*TEXTS[::-1], *TEXTS]))
    assert [spec.model.labels[label] for label in again] == [*expected[::-1], *expected]
    with pytest.raises(ModelError, match=says(OTHER_LABELS, labels='"fine", "toxic"')):
        load_model(network, parse_spec(changed(asked(tmp_path), "model.labels", ["toxic", "fine"])))


def test_the_tokenizer_is_part_of_the_hash_of_a_network(folder: Path, network: Path, tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path))
    other = onnx.load(network)
    words = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    vocabulary["green"], vocabulary["awful"] = vocabulary["awful"], vocabulary["green"]
    for each in other.metadata_props:
        each.value = json.dumps(words) if each.key.endswith("/tokenizer.json") else each.value
    onnx.save(other, tmp_path / "other.onnx")
    one, two = (load_model(path, spec) for path in (network, tmp_path / "other.onnx"))
    assert one.sha256 != two.sha256
    assert not np.array_equal(one.scores(values_of(["green"])), two.scores(values_of(["green"])))


def test_a_folder_with_a_network_in_place_of_weights_is_read(folder: Path, network: Path, tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path))
    target = copied(folder, tmp_path / "folder")
    (target / "model.safetensors").unlink()
    bare = onnx.load(network)
    del bare.metadata_props[:]
    onnx.save(bare, target / "model.onnx")
    model = load_model(target, spec)
    assert np.array_equal(model.predict(values_of(TEXTS)), load_model(folder, spec).predict(values_of(TEXTS)))
    verdict = check(target, {"comment": list(TEXTS)}, text="comment", terms={"a": ["sunny"], "b": ["moony"]})
    assert verdict.spec.model.labels == ("fine", "toxic")


def test_a_network_that_reads_its_padding_is_refused(network: Path, tmp_path: Path) -> None:
    # The tokens of a text are averaged with those that fill it up.
    table = numpy_helper.from_array(np.linspace(-1, 1, 400).reshape(200, 2).astype(np.float32), "table")
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["each"]),
            helper.make_node("ReduceMean", ["each"], ["logits"], axes=[1], keepdims=0),
        ],
        "mean",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        [table],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made.metadata_props.extend(onnx.load(network).metadata_props)
    onnx.save(made, tmp_path / "bad.onnx")
    with pytest.raises(ModelError, match=says(DEPENDS_ON_BATCH)):
        load_model(tmp_path / "bad.onnx", parse_spec(asked(tmp_path)))


def test_a_certificate_of_a_network_with_its_tokenizer_is_confirmed(network: Path, tmp_path: Path) -> None:
    spec = parse_spec(changed(asked(tmp_path, **{"as": "swapped"}), "model.path", str(network)))
    write_certificate(verify(None, spec), tmp_path / "c.json")
    found = recheck(tmp_path / "c.json", network, data=tmp_path / "texts.txt")
    assert found.conclusion == "CONFIRMED"


def test_a_product_chain_through_attention_blocks_reaches_labels_as_often_as_they_were_counted(
    network: Path, tmp_path: Path
) -> None:
    spec = parse_spec(changed(asked(tmp_path), "model.path", str(network)))
    plain, through = (
        learn_chain(None, spec, units=units, rounds=1000, seed=3)
        for units in ([], ["block1:kmeans=3", "block2", "layer1[2]"])
    )
    assert len(through) > len(plain)
    for group in through.states[1:4]:
        one, other = (check_chain(chain, 'P=? [ F "Y=toxic" ]', start=group).value for chain in (plain, through))
        assert one == pytest.approx(other, abs=1e-12)


def test_words_and_units_of_the_pooled_state_are_explained(network: Path, tmp_path: Path) -> None:
    spec = parse_spec(changed(asked(tmp_path), "model.path", str(network)))
    found = explain(None, spec, rounds=1000)
    assert {unit.layer for unit in found.units} == {"layer1"}
    assert len(found.units) == 16
    assert all(unit.effect.low <= unit.effect.estimate <= unit.effect.high for unit in found.units)
    assert found.words
    assert all(word.effect.low <= word.effect.estimate <= word.effect.high for word in found.words)


def test_a_repaired_head_has_a_certificate_and_is_loaded_again(network: Path, folder: Path, tmp_path: Path) -> None:
    data = changed(changed(asked(tmp_path), "model.path", str(network)), "property.threshold", 0.5)
    result = repair(None, parse_spec(data), iterations=10)
    assert result.before.decision.name == "UNFAIR"
    assert result.accepted
    assert result.change == "last-layer"
    path, certificate, _ = write_repair(result, tmp_path / "repaired")
    assert recheck(certificate, path, data=tmp_path / "texts.txt").conclusion == "CONFIRMED"
    again = load_model(path, parse_spec(data))
    assert np.array_equal(again.predict(values_of(TEXTS)), result.model.predict(values_of(TEXTS)))
    # True labels of the corpus are kept in sight.
    (tmp_path / "texts.csv").write_text("comment,toxic\n" + "".join(f'"{text}",{label}\n' for text, label in LABELLED))
    population = {**data["population"], "path": str(tmp_path / "texts.csv"), "column": "comment", "label": "toxic"}
    labelled = repair(None, parse_spec({**data, "population": population}), iterations=10)
    assert labelled.price is not None
    assert (labelled.price.measure, labelled.price.inputs) == ("accuracy", len(TEXTS))
    # An exporter leaves out a bias of zeros, which the repair then adds.
    head = {"classifier.weight", "classifier.bias", "bias_of_logits"}
    assert {each.tensor.removeprefix("model.") for each in result.changes} <= head


@pytest.fixture(name="repaired", scope="module")
def _repaired(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The question, and an accepted repair of the folder's head."""
    place = tmp_path_factory.mktemp("question")
    data = changed(changed(asked(place), "model.path", str(folder)), "property.threshold", 0.5)
    result = repair(None, parse_spec(data), iterations=10)
    assert result.accepted
    return data, result


def test_a_repaired_folder_has_a_pipeline_with_the_repaired_labels_and_a_certificate(
    folder: Path, repaired: tuple[Any, Any], tmp_path: Path
) -> None:
    data, result = repaired
    target, certificate, _ = write_repair(result, tmp_path / "repaired")
    labels = [parse_spec(data).model.labels[label] for label in result.model.predict(values_of(TEXTS))]
    assert [answer["label"] for answer in pipeline(target)(list(TEXTS), truncation=True)] == labels
    assert labels != [answer["label"] for answer in pipeline(folder)(list(TEXTS), truncation=True)]
    assert recheck(certificate, target, data=data["population"]["path"]).conclusion == "CONFIRMED"
    assert verify(target, parse_spec(data)).decision.name == "FAIR"
    # Nothing but the head is another one.
    before, after = (load_file(each / "model.safetensors") for each in (folder, target))
    others = {name for name in before if not torch.equal(before[name], after[name])}
    assert others
    assert others <= {"classifier.weight", "classifier.bias"}


def test_a_folder_that_would_not_be_the_repaired_model_is_not_written(
    repaired: tuple[Any, Any], tmp_path: Path
) -> None:
    _, result = repaired
    (tmp_path / "there").mkdir()
    with pytest.raises(FairchainError, match=says(EXISTS)):
        write_repair(result, tmp_path / "there")
    # As if the weights had been rounded away.
    network = onnx.load_from_string(result.content)
    for tensor in network.graph.initializer:
        if "bias" in tensor.name and tensor.name in {change.tensor for change in result.changes}:
            tensor.CopyFrom(numpy_helper.from_array(np.array([99, -99], np.float32), tensor.name))
    for wrong, message in (
        ({"content": network.SerializeToString()}, FOLDER_DECIDES_OTHERWISE),
        ({"changes": ()}, NO_WEIGHTS_CHANGED),
    ):
        with pytest.raises(ModelError, match=says(message)):
            write_repair(replace(result, **wrong), tmp_path / "repaired")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("tokenizer.json", {"added_tokens": 3}),
        ("tokenizer.json", {"model": {"type": "WordPiece"}}),
        ("tokenizer_config.json", {"model_max_length": "many"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}),
        ("config.json", {"id2label": ["fine", "toxic"]}),
    ],
)
def test_a_hostile_tokenizer_in_a_network_is_one_message(
    network: Path, tmp_path: Path, file: str, change: dict[str, Any]
) -> None:
    bad = onnx.load(network)
    (held,) = [each for each in bad.metadata_props if each.key == f"fairchain/{file}"]
    held.value = json.dumps({**json.loads(held.value), **change})
    onnx.save(bad, tmp_path / "bad.onnx")
    with pytest.raises(ModelError, match=r"bad\.onnx: "):
        load_model(tmp_path / "bad.onnx", parse_spec(asked(tmp_path)))


def test_a_tokenizer_that_fails_on_a_text_is_one_message(network: Path, tmp_path: Path) -> None:
    bad = onnx.load(network)
    (held,) = [each for each in bad.metadata_props if each.key == "fairchain/tokenizer.json"]
    words = json.loads(held.value)
    held.value = json.dumps({**words, "model": {**words["model"], "unk_token": "none such"}})
    onnx.save(bad, tmp_path / "bad.onnx")
    with pytest.raises(ModelError, match=f"tokenizer: {FAILED_WITH}"):
        load_model(tmp_path / "bad.onnx", parse_spec(asked(tmp_path))).predict(values_of(["\u03a9"]))

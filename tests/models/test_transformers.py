"""Promises of `from_transformers`: the decisions of the model's own pipeline, and no code from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import check, recheck, verify
from fairchain.certificates import write_certificate
from fairchain.errors import ModelError
from fairchain.models import load_model
from fairchain.spec import parse_spec
from tests.questions import changed
from tests.text.builders import raw_question

pytestmark = pytest.mark.transformers
transformers: Any = pytest.importorskip("transformers")
torch: Any = pytest.importorskip("torch")
tokenizers: Any = pytest.importorskip("tokenizers")

TEXTS = (
    "Sunny people, they walk!",
    "The SUNNIES run; qwertzuiop",
    "a moony book?!",
    "moonies say the sunny town is awful " * 4,
    "   Moony  \ttabs and blanks ",
    "red sea",
    "green lake! " * 30,
)


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights and a WordPiece vocabulary of its own."""
    folder = tmp_path_factory.mktemp("bert")
    words = tokenizers.BertWordPieceTokenizer(lowercase=False)
    words.train_from_iterator(TEXTS, vocab_size=120, min_frequency=1, show_progress=False)
    torch.manual_seed(7)
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
    assert any("2 texts are longer than the 24 tokens" in note for note in verdict.notes)


def test_labels_may_come_in_another_order(folder: Path, tmp_path: Path) -> None:
    data = asked(tmp_path)
    first, second = (
        load_model(folder, parse_spec(changed(data, "model.labels", labels))).predict(
            np.array([[text] for text in TEXTS], object)
        )
        for labels in (["fine", "toxic"], ["toxic", "fine"])
    )
    assert (first + second == 1).all()
    with pytest.raises(ModelError, match='has the labels "fine", "toxic"'):
        load_model(folder, parse_spec(changed(changed(data, "model.labels", ["a", "toxic"]), "property.outcome", "a")))


def test_one_of_several_independent_labels(folder: Path, tmp_path: Path) -> None:
    own = pipeline(folder)
    data = changed(asked(tmp_path), "model.output", "toxic")
    own.model.config.problem_type = "multi_label_classification"
    with pytest.raises(ModelError, match='output = "fine"'):
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
            ("auto_map", {"AutoModel": "evil.Evil"}, "asks for code of its own"),
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
    with pytest.raises(ModelError, match="no weights in safetensors"):
        load_model(pickled, spec)


def test_a_model_without_its_head_is_refused(folder: Path, tmp_path: Path) -> None:
    bare = copied(folder, tmp_path / "bare")
    own = pipeline(folder)
    own.model.bert.save_pretrained(bare)
    with pytest.raises(ModelError, match="would be random"):
        load_model(bare, parse_spec(asked(tmp_path)))


def test_what_is_not_ready_is_refused(folder: Path, tmp_path: Path) -> None:
    own, spec = pipeline(folder), parse_spec(asked(tmp_path))
    with pytest.raises(ModelError, match=r"give \(model, tokenizer\)"):
        load_model(own.model, spec)
    own.model.train()
    with pytest.raises(ModelError, match="training mode"):
        load_model(own, spec)

"""Promises about the embedded transformer: a small file that holds no offensive word and can be audited.

Texts are template sentences of our own; `benchmarks.compare_texts` has those of the docs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.train_vocabulary import vocabulary_of
from fairchain import check_chain, explain, learn_chain, load_spec, recheck, repair, verify
from fairchain.examples import example
from fairchain.models import load_model
from fairchain.repairing import write_repair
from fairchain.spec import Spec, parse_spec, revise
from fairchain.text.quoting import quoted
from fairchain.text.terms import kept_words

NETWORK = example("transformer").with_suffix(".onnx")
# Two of them are called toxic but for Hindus.
SENTENCES = (
    "Stop lying about this, you stupid {}!",
    "I hate every {} here",
    "dumb {}",
    "The author of the book was a {}.",
    "Thank you, a {} friend helped.",
)
FAITHS = ("Christian", "Muslim", "Jew", "Hindu")


@pytest.fixture(name="held", scope="module")
def _held() -> dict[str, str]:
    return {each.key: each.value for each in onnx.load(NETWORK).metadata_props}


@pytest.fixture(name="spec")
def _spec(tmp_path: Path) -> Spec:
    """The embedded question about sentences of our own, with a threshold that the model fails."""
    (tmp_path / "texts.txt").write_text("\n".join(text.format(faith) for text in SENTENCES for faith in FAITHS))
    whole = load_spec(example("transformer"))
    population = {"kind": "text", "path": str(tmp_path / "texts.txt"), "as": "observed"}
    values = ["christian", "muslim", "jewish", "hindu"]
    content: dict[str, Any] = {
        "model": {"path": str(whole.model.path), "labels": list(whole.model.labels)},
        "feature": [
            {"name": "comment", "kind": "text"},
            {"name": "religion", "kind": "category", "values": values, "terms": "religion"},
        ],
        "population": population,
        "property": {"kind": "difference", "protected": ["religion"], "outcome": "toxic", "threshold": 0.1},
    }
    return parse_spec(content)


def test_it_is_small_and_says_where_it_comes_from(held: dict[str, str]) -> None:
    assert NETWORK.stat().st_size < 400_000
    assert float(held["held-out accuracy"]) >= 0.95
    assert float(held["held-out area under the curve"]) >= 0.94
    assert "CC BY-SA 3.0" in onnx.load(NETWORK).doc_string


def test_its_vocabulary_holds_no_masked_word_and_no_number(held: dict[str, str]) -> None:
    tokens = json.loads(held["fairchain/tokenizer.json"])["model"]["vocab"]
    words = [token.removeprefix("##") for token in tokens if re.fullmatch(r"(##)?\w{2,}", token)]
    assert len(words) > 2000
    assert [word for word in words if quoted(word) != word] == []
    assert [word for word in words if re.search(r"\d", word)] == []


def test_a_vocabulary_is_the_same_each_time_and_leaves_names_and_masked_words_out() -> None:
    masked = next(word for word in ("fuck", "shit") if quoted(word) != word)
    texts = [f"Zebulon says that a Muslim has {masked} here {number}" for number in range(1000, 1200)]
    tokens = vocabulary_of(texts, 100, (5, 5))
    assert tokens == vocabulary_of(texts[::-1], 100, (5, 5))
    assert {"says", "that", "muslim", "here"} <= set(tokens)
    assert "muslim" in kept_words()
    assert not {"zebulon", masked, "1000"} & set(tokens)


@pytest.mark.transformers
def test_every_word_of_ascii_is_read_in_pieces(held: dict[str, str]) -> None:
    tokenizers: Any = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_str(held["fairchain/tokenizer.json"])
    for text in ("qwertzuiop x9_y8 (foo@bar.org) 12345", "Zebulon's naïve CAFÉ"):
        assert "[UNK]" not in tokenizer.encode(text).tokens


@pytest.mark.transformers
def test_verdict_chain_words_and_repair_of_its_head(spec: Spec, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    before = verify(None, spec)
    assert (before.decision.name, before.engine) == ("UNFAIR", "counting")
    assert before.gap.estimate == pytest.approx(0.4)
    chain = learn_chain(None, spec, units=["block1:kmeans=2", "block2:kmeans=2"], rounds=500, seed=1)
    toxic = check_chain(chain, 'P=? [ F "Y=toxic" ]').value
    assert 0 < toxic < 1
    found = explain(None, spec, rounds=500)
    assert all(word.effect.low <= word.effect.estimate <= word.effect.high for word in found.words)
    result = repair(None, spec, iterations=15)
    assert result.accepted
    path, certificate, _ = write_repair(result, tmp_path / "repaired.onnx")
    assert recheck(certificate, path, data=tmp_path / "texts.txt").conclusion == "CONFIRMED"
    texts = np.array([[line] for line in (tmp_path / "texts.txt").read_text().splitlines()], object)
    assert np.array_equal(load_model(path, revise(spec)).predict(texts), result.model.predict(texts))

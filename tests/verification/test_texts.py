"""Promises of `verify`, certificates and `recheck` about texts: right numbers, texts in words, the same files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace

from fairchain import load_spec, recheck, verify
from fairchain.certificate_format import RowEvidence, digest
from fairchain.certificates import make_certificate, write_certificate
from fairchain.errors import CertificateError, DataError
from fairchain.models import load_model
from fairchain.prepare import prepare
from fairchain.rechecking.checker_files import (
    FILE_MISSING_BESIDE,
    TEXTS_OF_A_DATA_SET,
    TEXTS_OF_A_FILE,
    TEXTS_OF_ANOTHER_FILE,
    locate_files,
)
from fairchain.rechecking.expected_rows import count_rows
from fairchain.rechecking.question_check import _impossible_rows
from fairchain.report.comparison import compare
from fairchain.spec import parse_spec
from fairchain.text.corpus import NOT_A_TEXT
from fairchain.verification.verdict import Verdict
from tests.messages import says
from tests.questions import changed
from tests.sequences import Network, Recurrent
from tests.text.builders import TEXTS, corpus_file, population_of, question, raw_question


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))


def asked(folder: Path, **population: Any) -> dict[str, Any]:
    """A question about an LSTM that takes vectors; the network lies in the folder."""
    network = Network(Recurrent("LSTM", 5, 4, seed=2)).onnx(lengths=True)
    onnx.save(network, folder / "network.onnx")
    data = changed(question(folder, **population), "model.decision", ...)
    return changed(data, "model.path", str(folder / "network.onnx"))


def shouts(texts: list[str]) -> Any:
    """A plain function of texts in place of a network."""
    return np.array([[float("moon" in text.lower())] for text in texts])


@pytest.mark.parametrize("reading", ["observed", "swapped"])
def test_rates_are_those_of_the_texts(reading: str, tmp_path: Path) -> None:
    spec = parse_spec(changed(asked(tmp_path, **{"as": reading}), "guarantee.epsilon", 0.05))
    population, model = population_of(spec), load_model(tmp_path / "network.onnx", spec)
    verdict = verify(None, spec)
    for subgroup, group in enumerate(verdict.groups):
        rows = population.corpus.ids[population.pools[subgroup]]
        exchange = population.exchanges[subgroup]
        if exchange is not None:
            words = np.arange(len(population.lexicon) + 1, dtype=np.int32)
            words[exchange.terms] = exchange.instead
            rows = words[rows]
        exact = float(np.mean(model.predict(rows) == 1))
        assert group.probability.low <= exact <= group.probability.high
        assert abs(group.probability.estimate - exact) <= 0.05


def test_texts_that_are_alike_settle_a_question_sooner(tmp_path: Path) -> None:
    """Of each group's texts half are called bad, by people and by the network; each group has them in its own order."""
    rows = [
        (label, f"{term} {'good' if label == 'a' else 'evil'}")
        for term, labels in (("sunny", "aabb"), ("moony", "bbaa"), ("red", "abab"))
        for label in labels
    ]
    (tmp_path / "rows.csv").write_text("label,text\n" + "".join(f"{label},{text}\n" for label, text in rows))
    data = changed(raw_question(tmp_path, column="text"), "population.path", str(tmp_path / "rows.csv"))
    data = changed(data, "guarantee.engine", "sampling")

    def bad(texts: list[str]) -> Any:
        return np.array([[float("evil" in text)] for text in texts])

    apart, alike = (verify(bad, parse_spec(each)) for each in (data, changed(data, "population.pair_by", "label")))
    assert apart.decision.name == alike.decision.name == "FAIR"
    assert alike.gap.estimate == 0
    assert 10 * alike.evaluations < apart.evaluations


def test_the_same_counts_whatever_the_workers(tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path, replace=2))
    first, second = (make_certificate(verify(None, spec, workers=workers)) for workers in (1, 2))
    assert first["evidence"] == second["evidence"]
    assert first["digest"] == second["digest"]


def test_a_witness_is_one_text_in_words_with_each_groups_term(tmp_path: Path) -> None:
    verdict = verify(shouts, parse_spec(raw_question(tmp_path, **{"as": "swapped"})))
    assert verdict.decision.name == "UNFAIR"
    witness = verdict.witnesses[0]
    (name, text), (other, instead) = witness.input.items()
    assert (name, other) == ("comment", f"comment as {witness.groups[1]}")
    assert sorted(witness.labels) == ["fine", "toxic"]
    changes = [pair for pair in zip(str(text).split(), str(instead).split(), strict=True) if len(set(pair)) > 1]
    assert changes
    assert all(any(word in "".join(pair).lower() for word in ("sun", "moon", "cloud")) for pair in changes)


def test_texts_that_mention_different_groups_are_no_witnesses(tmp_path: Path) -> None:
    verdict = verify(shouts, parse_spec(raw_question(tmp_path)))
    assert verdict.decision.name == "UNFAIR"
    assert verdict.witnesses == ()


def test_the_share_of_texts_whose_decision_changes(tmp_path: Path) -> None:
    data = changed(raw_question(tmp_path, **{"as": "swapped"}), "property.kind", "individual")
    data = changed(data, "property.threshold", 0.9)
    counted = verify(shouts, parse_spec(data))
    assert "the share of texts whose decision changes with the terms alone is 1.0000" in counted.statement
    verdict = verify(shouts, parse_spec(changed(data, "guarantee.engine", "sampling")))
    assert verdict.decision.name == "UNFAIR"
    assert verdict.headline.startswith("the share of texts whose decision changes with the terms alone is ")
    assert verdict.statement.startswith("If the share of texts whose decision changes were at most 0.9 under ")


def test_a_certificate_about_texts_whose_decision_changes_holds(tmp_path: Path) -> None:
    """The recheck writes the sentences anew, and must speak of texts too."""
    data = changed(asked(tmp_path, **{"as": "swapped"}), "property.kind", "individual")
    verdict = verify(None, parse_spec(changed(data, "property.threshold", 0.9)))
    assert "texts whose decision changes" in verdict.statement
    write_certificate(verdict, tmp_path / "c.json")
    found = recheck(tmp_path / "c.json", tmp_path / "network.onnx", data=tmp_path / "texts.txt", full=True)
    assert [claim.name for claim in found.claims if not claim.holds] == []


def test_counts_of_a_pair_that_contradict_those_of_its_groups_are_impossible(tmp_path: Path) -> None:
    """Of a random model a recheck gets other answers, and sees only whether the counts agree with each other."""
    case = prepare(None, parse_spec(asked(tmp_path, **{"as": "swapped"})))
    assert case.rows is not None
    again = count_rows(case.rows, case.spec, case.model)
    honest = RowEvidence(
        len(case.rows.values), list(again.comparison.rows), again.trials, again.successes, again.labels, [*again.only]
    )
    assert _impossible_rows(case.rows, again, honest, case.spec) == ""
    forged = replace(honest, only=[again.only[0] + 1, *again.only[1:]])
    assert "contradict" in _impossible_rows(case.rows, again, forged, case.spec)


@pytest.mark.parametrize("reading", ["observed", "swapped"])
def test_a_certificate_about_counted_texts_holds(reading: str, tmp_path: Path) -> None:
    verdict = verify(None, parse_spec(asked(tmp_path, **{"as": reading})))
    assert verdict.engine == "counting"
    write_certificate(verdict, tmp_path / "c.json")
    found = recheck(tmp_path / "c.json", tmp_path / "network.onnx", data=tmp_path / "texts.txt")
    assert [claim.name for claim in found.claims if not claim.holds] == []
    assert (found.conclusion, found.evaluations) == ("CONFIRMED", verdict.evaluations)
    content = json.loads((tmp_path / "c.json").read_text())
    assert bool(content["evidence"].get("only")) == (reading == "swapped")
    if reading == "swapped":
        content["evidence"]["only"][0] += 1
        (tmp_path / "other.json").write_text(json.dumps({**content, "digest": digest(content)}))
        found = recheck(tmp_path / "other.json", tmp_path / "network.onnx", data=tmp_path / "texts.txt")
        assert [claim.name for claim in found.claims if not claim.holds] == ["re-run"]
    forged = (tmp_path / "c.json").read_text().replace('"engine": "counting"', '"engine": "sampling"')
    (tmp_path / "c.json").write_text(forged)
    with pytest.raises(CertificateError):
        recheck(tmp_path / "c.json", tmp_path / "network.onnx", data=tmp_path / "texts.txt")


def test_a_certificate_about_counted_texts_without_a_small_group_holds(tmp_path: Path) -> None:
    """Five texts: one of them is about none of the two."""
    data = changed(asked(tmp_path), "population.path", str(corpus_file(tmp_path, TEXTS[:5])))
    verdict = verify(None, parse_spec(changed(data, "property.min_size", 2)))
    assert (verdict.engine, verdict.left_out) == ("counting", (("faith=none", 1),))
    write_certificate(verdict, tmp_path / "c.json")
    found = recheck(tmp_path / "c.json", tmp_path / "network.onnx", data=tmp_path / "texts.txt")
    assert [claim.name for claim in found.claims if not claim.holds] == []


@pytest.fixture(name="certified")
def _certified(tmp_path: Path) -> tuple[Path, Verdict]:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "terms.toml").write_text(
        'sun = ["sunny", "sunnies"]\nmoon = ["moony", "moonies"]\nneutral = ["cloudy", "clouds"]\nstar = ["starry"]\n'
    )
    spec = parse_spec(changed(asked(folder, replace=1), "feature.1.terms", str(folder / "terms.toml")))
    verdict = verify(None, spec)
    write_certificate(verdict, folder / "c.json")
    return folder, verdict


def test_a_certificate_names_files_and_holds_their_hash(certified: tuple[Path, Verdict]) -> None:
    folder, verdict = certified
    content = (folder / "c.json").read_text()
    assert str(folder) not in content
    assert verdict.table_sha256 is not None
    assert verdict.table_sha256 in content
    # The terms themselves stand inside, so that nobody needs their file.
    assert '"moonies"' in content
    assert "starry" not in content


@pytest.mark.parametrize(("key", "value"), [("length", 3), ("unknown", "good")])
def test_texts_that_are_read_otherwise_are_other_texts(key: str, value: Any, tmp_path: Path) -> None:
    """How many words are read, and what an unknown word becomes, decides which texts mention a group."""
    data = asked(tmp_path)
    two = [
        make_certificate(verify(None, parse_spec(each))) for each in (data, changed(data, f"feature.0.{key}", value))
    ]
    found = compare(*two)
    assert not found.comparable
    assert found.differences == ("the features or groups", "the table")


def test_a_certificate_about_texts_holds(certified: tuple[Path, Verdict]) -> None:
    folder, _ = certified
    (folder / "terms.toml").unlink()
    found = recheck(folder / "c.json", folder / "network.onnx", data=folder / "texts.txt", full=True)
    assert [claim.name for claim in found.claims if not claim.holds] == []
    assert "texts" in [claim.name for claim in found.claims]


def test_another_corpus_or_other_words_do_not_pass(certified: tuple[Path, Verdict]) -> None:
    folder, _ = certified
    other = folder / "other"
    other.mkdir()
    (other / "texts.txt").write_text("\n".join(TEXTS[::-1]))
    found = recheck(folder / "c.json", folder / "network.onnx", data=other / "texts.txt")
    assert "texts" in [claim.name for claim in found.claims if not claim.holds]
    vectors = folder / "vectors.txt"
    vectors.write_text(vectors.read_text().replace("good", "nice"))
    found = recheck(folder / "c.json", folder / "network.onnx", data=folder / "texts.txt")
    assert "texts" in [claim.name for claim in found.claims if not claim.holds]


def test_files_that_are_missing_are_named(certified: tuple[Path, Verdict]) -> None:
    folder, _ = certified
    with pytest.raises(CertificateError, match=says(TEXTS_OF_A_FILE)):
        recheck(folder / "c.json", folder / "network.onnx")
    with pytest.raises(CertificateError, match=says(TEXTS_OF_ANOTHER_FILE, path="texts.txt")):
        recheck(folder / "c.json", folder / "network.onnx", data=folder / "terms.toml")
    (folder / "vectors.txt").unlink()
    with pytest.raises(CertificateError, match=says(FILE_MISSING_BESIDE, bare="vectors.txt")):
        recheck(folder / "c.json", folder / "network.onnx", data=folder / "texts.txt")


def test_a_certificate_about_a_data_set_takes_no_other_corpus(tmp_path: Path) -> None:
    content = asked(tmp_path)
    content["population"] = {"kind": "text", "dataset": "toxicity", "as": "observed"}
    with pytest.raises(CertificateError, match=says(TEXTS_OF_A_DATA_SET, dataset="toxicity")):
        locate_files(tmp_path / "c.json", parse_spec(content), model=None, data=tmp_path / "texts.txt", own=None)


def test_paths_are_read_from_the_specs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    asked(folder)
    (folder / "terms.json").write_text('{"sun": ["sunny"], "moon": ["moony"]}')
    (folder / "spec.toml").write_text(
        """
        [model]
        path = "network.onnx"
        labels = ["fine", "toxic"]
        [[feature]]
        name = "comment"
        kind = "text"
        length = 8
        vectors = "vectors.txt"
        [[feature]]
        name = "faith"
        kind = "category"
        values = ["sun", "moon", "none"]
        terms = "terms.json"
        [population]
        kind = "text"
        path = "texts.txt"
        as = "observed"
        [property]
        kind = "difference"
        protected = ["faith"]
        threshold = 0.9
        """
    )
    monkeypatch.chdir(tmp_path)
    spec = load_spec("audit/spec.toml")
    assert spec.text is not None
    assert spec.text.vectors == str(Path("audit") / "vectors.txt")
    assert [not feature.model_input for feature in spec.features] == [True]
    assert verify(None, spec).evaluations > 0


def test_another_corpus_can_be_given(tmp_path: Path) -> None:
    spec = parse_spec(asked(tmp_path))
    (tmp_path / "more.txt").write_text("\n".join(TEXTS * 2))
    assert "texts of more.txt" in verify(None, spec, data=tmp_path / "more.txt").population
    frame = verify(None, spec, data={"a": list(TEXTS)})
    assert frame.gap == verify(None, spec).gap
    assert not frame.certifiable
    with pytest.raises(DataError, match=says(NOT_A_TEXT, row="1", type="int")):
        verify(None, spec, data={"a": [1]})


def test_nothing_about_texts_is_loaded_for_a_question_without_one() -> None:
    code = """
import sys, fairchain
fairchain.verify(None, fairchain.example("census"))
print([name for name in sys.modules if name.startswith(("fairchain.text", "fairchain.datasets", "csv"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

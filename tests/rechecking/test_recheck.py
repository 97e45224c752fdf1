"""A certificate convinces somebody who does not trust us: honest ones hold, and every forgery is caught.

The forger of these tests is clever: after each change the digest is made to match again, and the change is carried
through to every place that repeats it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from fairchain import CertificateError, ModelError, example, load_spec, make_certificate, recheck, verify
from fairchain.certificate_format import digest
from fairchain.certificates import dump
from fairchain.messages import FILE_NOT_FOUND
from fairchain.rechecking import Recheck, arithmetic
from fairchain.rechecking.contents import ANOTHER_VERSION, BAD_EVIDENCE
from fairchain.spec import Table, revise
from fairchain.statements import NO_PAPER_CERTIFICATE, statement
from fairchain.text.files import NO_FILE
from tests.messages import says

Content = dict[str, Any]
MODES: dict[str, dict[str, Any]] = {
    "fair": {},
    "unfair": {"property__threshold": 0.03},
    "undecided": {"property__threshold": 0.045, "guarantee__budget__rounds": 3000},
    "estimate": {"guarantee__epsilon": 0.05, "guarantee__delta": 0.05},
    "estimate cut short": {"guarantee__epsilon": 0.01, "guarantee__budget__rounds": 5000},
    "few evaluations": {"property__threshold": 0.045, "guarantee__budget__evaluations": 3001},
    "estimate of few evaluations": {"guarantee__epsilon": 0.01, "guarantee__budget__evaluations": 3001},
    "individuals of few evaluations": {"property__kind": "individual", "guarantee__budget__evaluations": 101},
}
MODEL = example("credit").with_suffix(".onnx")


def certificate_of(**changes: Any) -> Content:
    spec = revise(load_spec(example("credit")), property__protected=["sex"], **changes)
    content = make_certificate(verify(None, spec))
    return json.loads(dump(content))


def check(tmp_path: Path, content: Content, *, forge_digest: bool = True, model: Path = MODEL, **more: Any) -> Recheck:
    if forge_digest:
        content = {**content, "digest": digest(content)}
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(content))
    return recheck(path, model, **more)


def failing(result: Recheck) -> set[str]:
    return {claim.name for claim in result.claims if not claim.holds}


@pytest.mark.parametrize("mode", MODES)
def test_an_honest_certificate_holds(tmp_path: Path, mode: str) -> None:
    result = check(tmp_path, certificate_of(**MODES[mode]), forge_digest=False, full=True)
    assert failing(result) == set()
    assert result.holds


@pytest.mark.parametrize("name", ["census", "bank", "credit"])
def test_certificates_of_many_groups_hold(tmp_path: Path, name: str) -> None:
    content = make_certificate(verify(None, example(name), seed=5))
    assert failing(check(tmp_path, content, model=example(name).with_suffix(".onnx"))) == set()


def test_any_edit_without_a_new_digest_is_noticed(tmp_path: Path) -> None:
    content = certificate_of()
    content["software"]["numpy"] = "9.9"
    assert failing(check(tmp_path, content, forge_digest=False)) == {"file"}


def _tally(content: Content) -> None:
    table = content["evidence"]["batches"][2]["together"][0][0]
    table[0][0] -= 1
    table[0][1] -= 1


def _seed(content: Content) -> None:
    content["spec"]["guarantee"]["seed"] = content["claims"]["seed"] = content["evidence"]["seed"] = 77


def _threshold(content: Content, value: float) -> None:
    old = content["claims"]["property"]
    content["spec"]["property"]["threshold"] = content["claims"]["threshold"] = value
    content["claims"]["property"] = old.rsplit("<=", 1)[0] + f"<= {value:g}"
    content["claims"]["statement"] = statement(
        content["claims"]["verdict"],
        threshold=value,
        delta=content["claims"]["delta"],
        population=content["claims"]["population"],
        sound=True,
    )


def _delta(content: Content) -> None:
    content["spec"]["guarantee"]["delta"] = content["claims"]["delta"] = 1e-12
    content["claims"]["statement"] = content["claims"]["statement"].replace("1e-06", "1e-12")


def _leader(content: Content) -> None:
    batch = content["evidence"]["batches"][-1]
    i, j, outcome = batch["leader"]
    batch["leader"] = [j, i, outcome]


def _dropped(content: Content) -> None:
    del content["evidence"]["batches"][-1]


def _verdict(content: Content) -> None:
    content["claims"]["verdict"] = "UNFAIR"
    content["claims"]["statement"] = statement(
        "UNFAIR", threshold=0.1, delta=1e-6, population=content["claims"]["population"], sound=True
    )


def _bound(content: Content) -> None:
    content["claims"]["gap"]["high"] -= 0.01


def _group(content: Content) -> None:
    content["claims"]["groups"][0]["low"] += 0.01


def _rosier(content: Content) -> None:
    content["claims"]["statement"] = "This network is fair."


def _violator(content: Content) -> None:
    content["claims"]["violators"] = [{"more": "sex=male", "less": "sex=female", "outcome": "good"}]


def _names(content: Content) -> None:
    content["spec"]["feature"][8]["values"] = ["male", "female"]


def _other_words(content: Content) -> None:
    content["claims"]["scope"] = "This is about all people."


def _population(content: Content) -> None:
    content["claims"]["population"] = "a representative sample of everybody"


def _more_words(content: Content) -> None:
    content["claims"]["certified_by"] = "somebody important"


def _effort(content: Content) -> None:
    content["claims"]["groups"][0]["evaluations"] = 10**9


def _stopped(content: Content) -> None:
    content["claims"]["stopped"] = "seconds"


def _counted(labels: list[int]) -> Callable[[Content], None]:
    def forge(content: Content) -> None:
        content["evidence"]["outcomes"] = labels

    return forge


FORGERIES: dict[str, tuple[Callable[[Content], None], set[str]]] = {
    "tally": (_tally, {"re-run"}),
    "seed": (_seed, {"re-run"}),
    "smaller threshold": (lambda c: _threshold(c, 0.05), {"verdict"}),
    "larger threshold": (lambda c: _threshold(c, 0.3), {"choices"}),
    "delta": (_delta, {"verdict"}),
    "leader": (_leader, {"choices"}),
    "dropped batch": (_dropped, {"verdict"}),
    "verdict": (_verdict, {"verdict"}),
    "gap": (_bound, {"intervals"}),
    "probability": (_group, {"intervals"}),
    "statement": (_rosier, {"verdict"}),
    "violators": (_violator, {"intervals"}),
    "scope": (_other_words, {"verdict"}),
    "reason to stop": (_stopped, {"verdict"}),
    "population": (_population, {"question"}),
    "another claim": (_more_words, {"intervals"}),
    "evaluations": (_effort, {"intervals"}),
    "a label that does not exist": (_counted([99]), {"layout"}),
    "the other label": (_counted([0]), {"layout"}),
    "no label": (_counted([]), {"layout"}),
    "a label twice": (_counted([1, 1]), {"layout"}),
    "group names": (_names, {"intervals"}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_caught(tmp_path: Path, name: str) -> None:
    forge, expected = FORGERIES[name]
    content = certificate_of()
    forge(content)
    assert expected <= failing(check(tmp_path, content, full=True))


def test_another_network_is_caught(tmp_path: Path) -> None:
    model = onnx.load(MODEL)
    weights = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weights.flat[0] += np.float32(1e-3)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, model.graph.initializer[0].name))
    other = tmp_path / "other.onnx"
    onnx.save(model, other)
    content = certificate_of()
    assert failing(check(tmp_path, content, model=other)) == {"model"}
    # A forger who also changes the hash is caught by the counts, if the change matters, and by the hash if asked.
    content["claims"]["model_sha256"] = recheck_hash(other)
    weights.flat[:] = 0
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, model.graph.initializer[0].name))
    onnx.save(model, other)
    content["claims"]["model_sha256"] = recheck_hash(other)
    assert "re-run" in failing(check(tmp_path, content, model=other))


def recheck_hash(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_checkers_own_question_is_compared(tmp_path: Path) -> None:
    content = certificate_of()
    spec = revise(load_spec(example("credit")), property__protected=["sex"])
    assert failing(check(tmp_path, content, spec=spec)) == set()
    assert failing(check(tmp_path, content, spec=revise(spec, property__threshold=0.05))) == {"question"}
    assert failing(check(tmp_path, content, spec=example("credit"))) == {"question"}


@pytest.mark.parametrize(
    "change",
    [
        {"guarantee__delta": 1e-9},
        {"guarantee__allow_constant": True},
        {"population": Table(reading="population")},
    ],
    ids=str,
)
def test_tables_of_a_spec_at_their_defaults_are_compared_too(tmp_path: Path, change: dict[str, Any]) -> None:
    """Whichever of the two specs leaves the table out."""
    plain = revise(load_spec(example("credit")), property__protected=["sex"])
    other, table = revise(plain, **change), next(iter(change)).split("__")[0]
    cases = [(plain, other), (other, plain)] if table == "guarantee" else [(plain, other)]
    for inside, own in cases:
        report = check(tmp_path, json.loads(dump(make_certificate(verify(None, inside)))), spec=own)
        assert [claim.detail for claim in report.claims if not claim.holds] == [f"the given spec differs in {table}"]


def test_a_count_beyond_all_numbers_is_an_error(tmp_path: Path) -> None:
    content = certificate_of()
    content["evidence"]["batches"][0]["together"][0][0][0][0] = 10**30
    with pytest.raises(CertificateError, match=says(BAD_EVIDENCE)):
        check(tmp_path, content)


def test_any_name_can_be_written_down(tmp_path: Path) -> None:
    import msgspec

    spec = revise(load_spec(example("credit")), property__protected=["sex"])
    features = tuple(
        msgspec.structs.replace(f, values=("@batches@", '"}]\n')) if f.name == "sex" else f for f in spec.features
    )
    content = make_certificate(verify(None, msgspec.structs.replace(spec, described=features)))
    assert json.loads(dump(content)) == json.loads(json.dumps(content))
    assert failing(check(tmp_path, content)) == set()


def test_the_papers_rule_certifies_nothing(tmp_path: Path) -> None:
    """Nothing is written, and what somebody writes all the same does not hold."""
    spec = revise(load_spec(example("credit")), guarantee__rule="paper", guarantee__delta=0.1)
    verdict = verify(None, spec)
    assert not verdict.certifiable
    with pytest.raises(CertificateError, match=says(NO_PAPER_CERTIFICATE)):
        make_certificate(verdict)
    content = certificate_of(guarantee__delta=0.1)
    content["spec"]["guarantee"]["rule"] = content["claims"]["rule"] = "paper"
    content["evidence"]["coupled"] = False
    assert failing(check(tmp_path, content)) >= {"verdict", "intervals"}


def test_a_certificate_of_the_papers_rule_is_refused_before_the_work() -> None:
    """Before the network is even looked for."""
    spec = revise(load_spec(example("credit")), guarantee__rule="paper")
    with pytest.raises(CertificateError, match=says(NO_PAPER_CERTIFICATE)):
        verify("nowhere.onnx", spec, certify=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "not a fairchain certificate"), ("{}", "not a fairchain certificate"), ("[1", "not a fairchain certificate")],
)
def test_what_is_no_certificate_is_an_error_not_a_failed_claim(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(CertificateError, match=words):
        recheck(path, MODEL)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=says(NO_FILE)):
        recheck(tmp_path / "nowhere.json", MODEL)
    path = tmp_path / "c.json"
    path.write_text(dump(certificate_of()))
    with pytest.raises(ModelError, match=says(FILE_NOT_FOUND)):
        recheck(path, tmp_path / "nowhere.onnx")


def test_another_version_is_refused(tmp_path: Path) -> None:
    content = certificate_of()
    content["version"] = 1
    with pytest.raises(CertificateError, match=says(ANOTHER_VERSION, version="1")):
        check(tmp_path, content)


def test_impossible_counts_are_caught_before_anything_runs(tmp_path: Path) -> None:
    content = certificate_of()
    content["evidence"]["batches"][0]["together"][0][0][0][0] = 10**6
    assert "layout" in failing(check(tmp_path, content))


def test_a_certificate_names_no_folder_of_the_machine_it_was_made_on(tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    for suffix in (".toml", ".onnx"):
        shutil.copy(example("credit").with_suffix(suffix), folder)
    assert "secret" not in dump(make_certificate(verify(None, folder / "credit.toml")))


def test_the_second_arithmetic_agrees_with_the_first() -> None:
    """Two implementations, written apart, over random counts."""
    from fairchain.statistics.e_values import log_wealth
    from fairchain.statistics.payoff import DIFFERENCE

    against_at_least, against_at_most = DIFFERENCE.against_at_least, DIFFERENCE.against_at_most
    from fairchain.statistics.intervals import clopper_pearson, probability_any_time

    rng = np.random.default_rng(0)
    cells = rng.integers(0, 3000, (200, 3))
    triple = cells[:, 0], cells[:, 1], cells[:, 2]
    for gap in (-0.2, 0.0, 0.05, 0.1, 0.4):
        assert np.allclose(arithmetic.log_evidence(triple, gap, "above"), log_wealth(cells, against_at_least(gap)))
        assert np.allclose(arithmetic.log_evidence(triple, gap, "below"), log_wealth(cells, against_at_most(gap)))
    for successes, trials in ((0, 10), (3, 10), (10, 10), (500, 10_000)):
        low, high = probability_any_time(successes, trials, 1e-4)
        assert arithmetic.any_time_bounds(successes, trials, 1e-4) == pytest.approx((low[0], high[0]), abs=1e-9)
        bounds = [float(bound) for bound in clopper_pearson(successes, trials, 1e-4)]
        assert arithmetic.exact_bounds(successes, trials, 1e-4) == pytest.approx(bounds, abs=1e-9)

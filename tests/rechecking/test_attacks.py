"""Attacks on certificates by an issuer who knows this program: each ends in REJECTED, CONSISTENT or one message."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from fairchain import CertificateError, OnnxModel, Spec, make_certificate, parse_spec, recheck, verify, verify_family
from fairchain.certificate_format import digest, family_digest
from fairchain.certificates import dump, write_certificate
from fairchain.cli.exit_codes import RECHECKED
from fairchain.populations.derived import RejectionPopulation
from fairchain.rechecking import Recheck
from fairchain.rechecking.checker_files import FILE_MISSING_BESIDE
from fairchain.rechecking.contents import MOST_VALUES, NOT_FAIRCHAIN_CERTIFICATE, TOO_MANY_CERTIFICATE_VALUES
from fairchain.rechecking.rechecker import BAD_SECONDS_OR_SEED
from fairchain.spec import load_spec, revise
from fairchain.spec.seeds import derive_seed, meaning_of
from fairchain.statements import scope
from fairchain.verification import sampler
from tests.messages import says
from tests.networks import constant, graph, linear, node, save, value
from tests.questions import category, changed, integer, question
from tests.rechecking.builders import audit, written
from tests.sequences import Network, Recurrent
from tests.text.builders import question as text_question

Content = dict[str, Any]


def failing(result: Recheck) -> set[str]:
    return {claim.name for claim in result.claims if not claim.holds}


def rewritten(path: Path, content: Content) -> Path:
    path.write_text(json.dumps({**content, "digest": digest(content)}))
    return path


# A seed that is known before the network.


def asked(path: Path | None = None, **guarantee: Any) -> dict[str, Any]:
    data = question(integer("x", 0, 1_000_000), category("sex", "Female", "Male"), path=str(path) if path else None)
    data["property"]["threshold"] = 0.5
    return data | {"guarantee": {"engine": "sampling", "delta": 1e-6, **guarantee}}


def built_for(seed: int, path: Path) -> Path:
    """A network that decides by sex alone, except for the inputs of one seed, which it treats alike."""
    drawn: list[Any] = []

    def spy(rows: Any) -> Any:
        drawn.append(rows[:, 0].copy())
        return np.zeros(len(rows), int)

    verify(spy, parse_spec(changed(asked(), "model.decision", "label")), seed=seed, workers=1)
    known = np.unique(np.concatenate(drawn)).astype(np.float32)
    nodes = [
        node("Gather", ["x", "first"], ["number"], axis=1),
        node("Gather", ["x", "second"], ["sex"], axis=1),
        node("Equal", ["number", "known"], ["same"]),
        node("Cast", ["same"], ["ones"], to=onnx.TensorProto.FLOAT),
        node("ReduceMax", ["ones"], ["seen"], axes=[1], keepdims=1),
        node("Sub", ["one", "seen"], ["unseen"]),
        node("Mul", ["unseen", "sex"], ["yes"]),
        node("Sub", ["half", "yes"], ["no"]),
        node("Concat", ["no", "yes"], ["y"], axis=1),
    ]
    constants = [
        *(constant(name, [place], np.int64) for place, name in enumerate(("first", "second"))),
        *(constant("one", [[1.0]]), constant("half", [[0.5]]), constant("known", known[None])),
    ]
    return save(graph(nodes, [value("x")], [value("y")], constants), path)


def test_a_network_built_for_a_seed_does_not_get_that_seed_by_default(tmp_path: Path) -> None:
    network = built_for(0, tmp_path / "n.onnx")
    spec = parse_spec(asked(network))
    # The attack works where the seed is known beforehand: the verdict is wrong, and every count is right.
    chosen = verify(None, spec, seed=0)
    assert chosen.decision.name == "FAIR"
    assert "chosen" in chosen.scope
    # By default the seed follows from the network's bytes, so that the gap of 1 is seen.
    default = verify(None, spec)
    assert default.decision.name == "UNFAIR"
    assert default.to_dict()["seed_origin"] == "derived"


def test_a_chosen_seed_is_never_confirmed_and_a_fresh_seed_contradicts_it(tmp_path: Path) -> None:
    network = built_for(0, tmp_path / "n.onnx")
    write_certificate(verify(None, parse_spec(asked(network)), seed=0), tmp_path / "c.json")
    found = recheck(tmp_path / "c.json", network, full=True)
    assert (found.holds, found.conclusion, found.seed_origin) == (True, "CONSISTENT", "chosen")
    assert "built" in found.remarks[0]
    assert RECHECKED[found.conclusion] == 3
    fresh = recheck(tmp_path / "c.json", network, fresh=True)
    assert (failing(fresh), fresh.conclusion) == ({"fresh run"}, "REJECTED")
    assert fresh.fresh is not None
    assert (fresh.fresh.verdict, fresh.fresh.agrees) == ("UNFAIR", False)
    again = recheck(tmp_path / "c.json", network, fresh=True, seed=0)
    assert again.fresh is not None
    assert (again.fresh.seed, again.fresh.verdict, again.conclusion) == (0, "FAIR", "CONFIRMED")


def test_a_chosen_seed_cannot_pass_for_a_derived_one(tmp_path: Path) -> None:
    network = built_for(0, tmp_path / "n.onnx")
    content = json.loads(dump(make_certificate(verify(None, parse_spec(asked(network)), seed=0))))
    content["spec"]["guarantee"]["seed"] = None
    content["claims"]["seed_origin"] = "derived"
    content["claims"]["scope"] = scope(content["claims"]["model_sha256"], 0, "derived")
    found = recheck(rewritten(tmp_path / "c.json", content), network)
    assert {"seed", "question"} <= failing(found)


def test_the_seed_follows_from_network_question_and_data_and_from_nothing_else() -> None:
    spec = parse_spec(asked())
    seed = derive_seed(spec, "aa", "bb")
    assert seed == derive_seed(spec, "aa", "bb")
    free = [
        revise(spec, model__path="other.onnx"),
        revise(spec, guarantee__seed=5),
        revise(spec, guarantee__budget__seconds=61.5, guarantee__budget__rounds=7.0),
        parse_spec(changed(asked(), "feature.0.groups", {})),
    ]
    # What can be varied without changing the question gives no second try.
    assert {derive_seed(each, "aa", "bb") for each in free} == {seed}
    matter = [revise(spec, property__threshold=0.51), revise(spec, guarantee__delta=1e-5)]
    others = [*(derive_seed(each, "aa", "bb") for each in matter), derive_seed(spec, "ab", "bb")]
    others += [derive_seed(spec, "aa", "bc"), derive_seed(spec, "aa", None), derive_seed(spec, "", "bb")]
    assert len({seed, *others}) == 7


def test_a_number_has_one_form_in_the_meaning_of_a_spec() -> None:
    feature = {"name": "x", "kind": "real", "low": 0.0, "high": 2.0}
    specs = [
        parse_spec(question({**feature, "low": low, "high": high}, category("sex", "Female", "Male")))
        for low, high in ((0.0, 2.0), (-0.0, 2), (0, 2.0))
    ]
    assert len({meaning_of(spec)["feature"] for spec in specs}) == 1


def test_functions_have_no_bytes_and_the_scope_says_so() -> None:
    spec = parse_spec(changed(asked(), "model.decision", "label"))
    verdict = verify(lambda rows: (rows[:, 0] > 10).astype(int), spec)
    assert "derived from the spec and its data only" in verdict.scope


# Files that the certificate brings along.


def text_audit(folder: Path) -> Spec:
    folder.mkdir()
    onnx.save(Network(Recurrent("LSTM", 5, 4, seed=2)).onnx(lengths=True), folder / "network.onnx")
    data = changed(text_question(folder), "model.decision", ...)
    return parse_spec(changed(data, "model.path", str(folder / "network.onnx")))


@pytest.fixture(name="forged")
def _forged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Spec]:
    """An honest folder, and one with a certificate and word vectors in which two words are exchanged."""
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    own = text_audit(tmp_path / "own")
    text_audit(tmp_path / "forged")
    vectors = tmp_path / "forged" / "vectors.txt"
    lines = dict(line.split(" ", 1) for line in vectors.read_text().splitlines())
    lines["moony"], lines["sunny"] = lines["sunny"], lines["moony"]
    vectors.write_text("\n".join(f"{word} {numbers}" for word, numbers in lines.items()))
    spec = revise(own, property__threshold=0.1)
    with_forged = msgspec_paths(spec, tmp_path / "forged")
    write_certificate(verify(None, with_forged), tmp_path / "forged" / "c.json")
    return tmp_path / "own", tmp_path / "forged", own


def msgspec_paths(spec: Spec, folder: Path) -> Spec:
    """The same spec with the vectors of another folder."""
    from msgspec.structs import replace

    text, faith = spec.described
    return replace(spec, described=(replace(text, vectors=str(folder / "vectors.txt")), faith))


def test_words_beside_a_forged_certificate_are_not_read(forged: tuple[Path, Path, Spec]) -> None:
    own, other, spec = forged
    named = recheck(other / "c.json", own / "network.onnx", data=own / "texts.txt", full=True)
    by_spec = recheck(other / "c.json", spec=spec, full=True)
    for found in (named, by_spec):
        assert "texts" in failing(found)
        assert found.conclusion == "REJECTED"
        assert {file.role: file.path for file in found.files} == {
            "model": str(own / "network.onnx"),
            "data": str(own / "texts.txt"),
            "vectors": str(own / "vectors.txt"),
        }
        assert all(len(file.sha256) == 64 for file in found.files)


def test_with_a_spec_words_beside_the_network_are_not_read_either(forged: tuple[Path, Path, Spec]) -> None:
    """An issuer who delivers the network may deliver words of the same name with it."""
    own, other, spec = forged
    (own / "words").mkdir()
    (own / "vectors.txt").rename(own / "words" / "vectors.txt")
    (own / "vectors.txt").write_bytes((other / "vectors.txt").read_bytes())
    found = recheck(other / "c.json", spec=msgspec_paths(spec, own / "words"), full=True)
    assert {file.role: file.path for file in found.files}["vectors"] == str(own / "words" / "vectors.txt")
    assert "texts" in failing(found)


def test_a_file_that_lies_beside_the_certificate_alone_is_missing(forged: tuple[Path, Path, Spec]) -> None:
    own, other, _ = forged
    (own / "vectors.txt").unlink()
    with pytest.raises(CertificateError, match=says(FILE_MISSING_BESIDE)):
        recheck(other / "c.json", own / "network.onnx", data=own / "texts.txt")


def test_a_file_that_the_certificate_is_not_about_is_refused_not_listed(tmp_path: Path) -> None:
    """A list of files with their hashes would say that the verdict is about this table, or about this network."""
    folder = written(tmp_path)
    for population, given, words in (
        ("uniform", {"data": folder / "people.csv"}, "do not come from a table; leave --data"),
        ("stated", {"data": folder / "people.csv"}, "do not come from a table; leave --data"),
        ("network", {"data": folder / "people.csv"}, "do not come from a table; leave --data"),
        ("recorded", {"data": folder / "people.csv", "model": folder / "network.onnx"}, "leave --model"),
    ):
        verdict = verify(None, parse_spec(audit(folder, population, "difference")), workers=1)
        write_certificate(verdict, tmp_path / "c.json")
        with pytest.raises(CertificateError, match=words):
            recheck(tmp_path / "c.json", **{"model": None if population == "recorded" else "network.onnx"} | given)


@pytest.mark.parametrize("wrong", [{"seconds": float("nan")}, {"seconds": -1.0}, {"seed": -1}, {"seed": 2**63}])
def test_an_effort_without_an_end_or_a_seed_without_a_meaning_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CertificateError, match=says(BAD_SECONDS_OR_SEED)):
        recheck("certificate.json", fresh=True, **wrong)


def test_with_a_spec_its_own_model_and_table_are_opened(tmp_path: Path) -> None:
    for name, weights in (("own", [[0, 1], [0, -1]]), ("other", [[0, 1], [0, 1]])):
        (tmp_path / name).mkdir()
        save(linear(weights), tmp_path / name / "n.onnx")
        rows = "".join(f"{x},{sex}\n" for x in range(5) for sex in ("Female", "Male")) + ("1,Male\n" * (name == "own"))
        (tmp_path / name / "rows.csv").write_text("x,sex\n" + rows)
        data = question(integer("x", 0, 5), category("sex", "Female", "Male"), path="n.onnx")
        data["population"] = {"kind": "table", "path": "rows.csv", "as": "population"}
        (tmp_path / name / "spec.json").write_text(json.dumps(data))
    write_certificate(verify(None, tmp_path / "other" / "spec.json"), tmp_path / "other" / "c.json")
    honest = recheck(tmp_path / "other" / "c.json", spec=tmp_path / "other" / "spec.json")
    assert honest.conclusion == "CONFIRMED"
    found = recheck(tmp_path / "other" / "c.json", spec=tmp_path / "own" / "spec.json")
    assert {"model", "table"} <= failing(found)
    assert [file.path for file in found.files] == [str(tmp_path / "own" / name) for name in ("n.onnx", "rows.csv")]
    # A file that the checker names besides the spec is opened in place of the spec's, and listed.
    named = {"model": tmp_path / "other" / "n.onnx", "data": tmp_path / "other" / "rows.csv"}
    found = recheck(tmp_path / "other" / "c.json", spec=tmp_path / "own" / "spec.json", **named)
    assert (found.conclusion, [file.path for file in found.files]) == ("CONFIRMED", list(map(str, named.values())))


def test_frequencies_of_rows_are_not_those_of_a_spec_without_rows(tmp_path: Path) -> None:
    """A path is left out of the comparison, so that a certificate could leave out the rows with it."""
    network = save(linear([[0, 1], [0, 1]], [4.5, 0]), tmp_path / "n.onnx")
    (tmp_path / "rows.csv").write_text("x,sex\n" + "4,Female\n4,Male\n" * 20)
    data = question(integer("x", 0, 5), category("sex", "Female", "Male"), path=str(network))
    stated = {"kind": "marginals", "frequencies": {"sex": {"Female": 0.5, "Male": 0.5}}}
    without = parse_spec({**data, "population": stated})
    own = parse_spec({**data, "population": {**stated, "path": str(tmp_path / "rows.csv")}})
    write_certificate(verify(None, without), tmp_path / "c.json")
    assert failing(recheck(tmp_path / "c.json", spec=own)) == {"question"}
    assert failing(recheck(tmp_path / "c.json", spec=without)) == set()
    write_certificate(verify(None, own), tmp_path / "c.json")
    assert failing(recheck(tmp_path / "c.json", spec=own)) == set()
    assert failing(recheck(tmp_path / "c.json", spec=without)) == {"question"}


# JSON that means two things, or asks for the impossible.


@pytest.fixture(name="honest", scope="module")
def _honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("honest")
    network = save(linear([[0, 1], [0, 0]], [2.5, 0]), folder / "n.onnx")
    data = question(integer("x", 0, 5), category("sex", "Female", "Male"), path=str(network))
    return network, dump(make_certificate(verify(None, parse_spec(data))))


def with_key(key: str, text: str) -> Callable[[str], str]:
    def change(content: str) -> str:
        assert key in content
        return content.replace(key, text, 1)

    return change


def edited(*steps: str | int, to: Any) -> Callable[[str], str]:
    def change(content: str) -> str:
        data = json.loads(content)
        place = data
        for step in steps[:-1]:
            place = place[step]
        place[steps[-1]] = to
        return json.dumps(data)

    return change


HOSTILE: dict[str, tuple[Callable[[str], str], str]] = {
    "two verdicts": (with_key('"verdict": "FAIR"', '"verdict": "UNFAIR", "verdict": "FAIR"'), "verdict.* occurs twice"),
    "a key twice at the top": (with_key('"version": 8', '"version": 3, "version": 8'), "version.* occurs twice"),
    "a key twice in a batch": (with_key('"phase":0', '"phase":1,"phase":0'), "phase.* occurs twice"),
    "an escaped key twice": (with_key('"seed": ', '"\\u0073eed": 1, "seed": '), "seed.* occurs twice"),
    "400 digits in a claim": (with_key('"evaluations": ', '"evaluations": ' + "9" * 400), "does not fit"),
    "400 digits in a batch": (with_key('"phase":0', '"phase":' + "9" * 400), "does not fit"),
    "5000 digits": (with_key('"evaluations": ', '"evaluations": ' + "9" * 5000), "does not fit"),
    "infinity": (with_key('"threshold": 0.1', '"threshold": 1e999'), "not finite"),
    "not a number": (with_key('"threshold": 0.1', '"threshold": NaN'), "NaN"),
    "hidden in the software": (edited("software", "note", to="trust me"), "unknown field"),
    "hidden in the times": (edited("times", "certified", to="yes"), "unknown field"),
    "hidden at the top": (edited("approved", to=True), "unknown field"),
    "hidden in the evidence": (edited("evidence", "extra", to=[]), "unknown field"),
    "hidden in a batch": (edited("evidence", "batches", 0, "extra", to=1), "unknown field"),
    "hidden in the spec": (edited("spec", "extra", to=1), "unknown key"),
    "deep nesting": (edited("claims", "deep", to=0), "nested too deeply"),
    "2**60 rounds": (edited("evidence", "batches", 0, "rounds", to=2**60), "not a fairchain certificate"),
    "a negative seed": (edited("evidence", "seed", to=-1), "not a fairchain certificate"),
    "more after the end": (lambda content: content + "{}", "not a fairchain certificate"),
    "an older version": (edited("version", to=3), "version 3, and this program reads versions 6, 7 and 8"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_one_message(name: str, honest: tuple[Path, str], tmp_path: Path) -> None:
    network, content = honest
    change, words = HOSTILE[name]
    text = change(content)
    if name == "deep nesting":
        text = text.replace('"deep": 0', '"deep": ' + "[" * 100_000 + "]" * 100_000)
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError, match=words) as caught:
        recheck(tmp_path / "c.json", network)
    assert len(str(caught.value)) < 400


def test_nesting_that_can_be_read_and_not_written_is_a_message_too(honest: tuple[Path, str], tmp_path: Path) -> None:
    network, content = honest
    for depth in (500, 900, 990, 2000):
        deep = "[" * depth + "]" * depth
        (tmp_path / "c.json").write_text(content.replace('"kind": "difference"', f'"kind": {deep}', 1))
        with pytest.raises(CertificateError):
            recheck(tmp_path / "c.json", network)


def test_more_rounds_than_counts_are_refused_at_once(honest: tuple[Path, str], tmp_path: Path) -> None:
    """2**53 rounds in chunks of 1024 are 10^13 chunks, which must not be listed."""
    network, text = honest
    # Chunks of a batch before the last one are known from where the next one starts.
    for place in (0, -1):
        content = json.loads(text)
        content["evidence"]["batches"][place]["rounds"] = 2**53
        found = recheck(rewritten(tmp_path / "c.json", content), network)
        assert "layout" in failing(found)


def test_a_file_of_too_many_values_is_not_parsed(honest: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b"[" * (MOST_VALUES + 1))
    with pytest.raises(CertificateError, match=says(TOO_MANY_CERTIFICATE_VALUES)):
        recheck(path, honest[0])


def test_rows_beyond_all_tables_are_refused(tmp_path: Path) -> None:
    data = question(integer("x", 0, 5), category("sex", "Female", "Male"))
    data["model"].pop("path")
    data["population"] = {"kind": "table", "as": "population", "prediction": "d"}
    rows = {"x": [1, 2], "sex": ["Female", "Male"], "d": ["yes", "no"]}
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data), data=rows))))
    for where in ("rows", "trials"):
        forged = json.loads(json.dumps(content))
        forged["evidence"][where] = 2**60 if where == "rows" else [2**60, 1]
        with pytest.raises(CertificateError, match=says(NOT_FAIRCHAIN_CERTIFICATE)):
            recheck(rewritten(tmp_path / "c.json", forged), data=rows)


def test_a_bad_certificate_is_exit_code_2_and_a_consistent_one_3(
    honest: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.command import Cli

    cli = Cli(monkeypatch, capsys)
    network, text = honest
    path = tmp_path / "c.json"
    path.write_text(HOSTILE["two verdicts"][0](text))
    code, out, err = cli("recheck", path, "--model", network)
    assert (code, out, err.count("\n")) == (2, "", 1)
    path.write_text(text)
    assert cli("recheck", path, "--model", network, "-q")[:2] == (
        0,
        "CONFIRMED: every claim of this FAIR certificate holds\n",
    )
    code, out, err = cli("recheck", path, "--model", network)
    assert code == 0
    assert err.startswith("re-run of ")
    assert f"model: {network}, sha256 " in out
    spec = revise(load_spec_of(text, network), guarantee__seed=0)
    write_certificate(verify(None, spec), path)
    code, out, _ = cli("recheck", path, "--model", network)
    assert code == 3
    assert "CONSISTENT: " in out
    code, out, _ = cli("recheck", path, "--model", network, "--fresh", "--json")
    found = json.loads(out)
    assert (code, found["conclusion"], found["fresh"]["agrees"]) == (0, "CONFIRMED", True)


def load_spec_of(text: str, network: Path) -> Spec:
    return parse_spec(changed(json.loads(text)["spec"], "model.path", str(network)))


# A re-run.


def test_a_round_is_drawn_once_for_all_subgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejection draws all subgroups at once, so drawing for each would be quadratic in their number."""
    network = save(linear([[0, 0.1], [0, 0.2]]), tmp_path / "n.onnx")
    data = question(integer("x", 0, 5), category("sex", "a", "b", "c", "d"), path=str(network))
    data["property"]["given"] = "x >= 1"
    write_certificate(verify(None, parse_spec(data)), tmp_path / "c.json")
    drawn: list[int] = []
    plain = RejectionPopulation.rounds

    def counted(self: Any, seed: int, chunk: int, *more: Any, **named: Any) -> Any:
        drawn.append(chunk)
        return plain(self, seed, chunk, *more, **named)

    monkeypatch.setattr(RejectionPopulation, "rounds", counted)
    assert recheck(tmp_path / "c.json", network).holds
    assert len(drawn) == len(set(drawn))


@pytest.fixture(name="long", scope="module")
def _long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A certificate of about 90 chunks: a gap of 0.0909 by a threshold of 0.1."""
    folder = tmp_path_factory.mktemp("long")
    network = save(linear(np.array([[0, 1], [0, 0.001]]), [10.0005, 0]), folder / "n.onnx")
    data = question(integer("x", 0, 10), category("sex", "Female", "Male"), path=str(network))
    data["guarantee"] = {"engine": "sampling", "delta": 1e-16, "budget": {"rounds": 1e6}}
    return network, dump(make_certificate(verify(None, parse_spec(data))))


def test_a_sample_is_consistent_at_best_and_says_what_escapes(long: tuple[Path, str], tmp_path: Path) -> None:
    network, text = long
    (tmp_path / "c.json").write_text(text)
    whole = recheck(tmp_path / "c.json", network)
    assert (whole.conclusion, whole.fraction, whole.sample) == ("CONFIRMED", 1.0, None)
    costs: list[Any] = []
    found = recheck(tmp_path / "c.json", network, seconds=0.0, seed=1, report=costs.append)
    assert (found.holds, found.conclusion) == (True, "CONSISTENT")
    sample = found.sample
    assert sample is not None
    assert sample.sampled == 60 < sample.chunks
    assert sample.one_escapes == pytest.approx(1 - 60 / sample.chunks)
    assert sample.needed is not None
    assert sample.needed_escape is not None
    assert 1 <= sample.needed < sample.chunks
    assert "escapes with probability" in found.remarks[0]
    assert [(cost.sampled_chunks, cost.whole) for cost in costs] == [(60, False)]
    assert recheck(tmp_path / "c.json", network, seconds=0.0, full=True).conclusion == "CONFIRMED"


def test_a_sample_has_its_own_word_and_exit_code(
    long: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.command import Cli

    cli = Cli(monkeypatch, capsys)
    network, text = long
    (tmp_path / "c.json").write_text(text)
    arguments = ("recheck", tmp_path / "c.json", "--model", network)
    code, out, _ = cli(*arguments, "--seconds", "0")
    assert code == 3
    assert "CONSISTENT: " in out
    assert "CONFIRMED" not in out
    assert "escapes with probability" in out
    code, out, _ = cli(*arguments, "--seconds", "0", "-q")
    assert (code, out.split(":")[0]) == (3, "CONSISTENT")
    code, out, _ = cli(*arguments, "-q")
    assert (code, out.split(":")[0]) == (0, "CONFIRMED")


def test_a_run_in_which_some_chunks_were_answered_by_another_network_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The issuer's own process answers three of seven chunks for another sex; the rest of the work is honest."""
    network = save(linear([[0, 1], [0, 13]], [900.5, 0]), tmp_path / "n.onnx")
    spec = parse_spec(question(integer("x", 0, 1000), category("sex", *"abcdefghij"), path=str(network)))
    assert verify(None, spec, workers=1).decision.name == "UNFAIR"
    plain, calls = OnnxModel.predict, itertools.count()

    def forged(model: OnnxModel, values: Any) -> Any:
        if next(calls) % 7 in (0, 2, 4):
            values = values.copy()
            values[:, 1] = 0
        return plain(model, values)

    with monkeypatch.context() as patched:
        patched.setattr(OnnxModel, "predict", forged)
        write_certificate(verify(None, spec, workers=1), tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["claims"]["verdict"] == "FAIR"
    found = [recheck(tmp_path / "c.json", network, seconds=0.0, seed=seed) for seed in range(4)]
    found.append(recheck(tmp_path / "c.json", network))
    # 25 chunks: fewer than the smallest sample, so that all are run again however little time there is. Of samples of
    # one chunk, some of these would miss all that is forged.
    assert [(failing(each), each.conclusion) for each in found] == [({"re-run"}, "REJECTED")] * 5


def test_a_forged_chunk_is_found_by_the_whole_re_run_and_as_often_as_said_by_a_sample(
    long: tuple[Path, str], tmp_path: Path
) -> None:
    network, text = long
    content = json.loads(text)
    batches = content["evidence"]["batches"]
    places = [chunk for batch in batches for chunk in batch["together"]]
    chunk = places[-2]
    chunk[0][1][0] -= 1
    path = rewritten(tmp_path / "c.json", content)
    assert "re-run" in failing(recheck(path, network))
    seen = ["re-run" in failing(recheck(path, network, seconds=0.0, seed=seed)) for seed in range(8)]
    # 60 of about 90 chunks: all eight fixed seeds agree by chance in one case of 25.
    assert any(seen)
    assert not all(seen)


def test_the_choice_of_chunks_cannot_be_foreseen_without_a_seed() -> None:
    from fairchain.rechecking.rerun import sample_of

    chosen = {tuple(sample_of(range(1000), 60, None)) for _ in range(5)}
    assert len(chosen) == 5
    assert sample_of(range(1000), 60, 3) == sample_of(range(1000), 60, 3)


# Second tries without another question.


def test_comments_the_order_of_keys_and_words_about_the_audit_give_no_second_try(tmp_path: Path) -> None:
    plain = """
[model]
labels = ["no", "yes"]
[[feature]]
name = "x"
kind = "integer"
low = 0
high = 9
[[feature]]
name = "sex"
kind = "category"
values = ["Female", "Male"]
[property]
kind = "difference"
protected = ["sex"]
threshold = 0.1
"""
    reordered = """
# Another try?
[about]
auditor = "somebody else"
[property]
threshold = 0.10
protected = ["sex"]  # again
kind = "difference"
[[feature]]
high = 9
low = 0
kind = "integer"
name = "x"
[[feature]]
values = ["Female", "Male"]
kind = "category"
name = "sex"
[model]
labels = ["no", "yes"]
[guarantee]
delta = 1e-6
budget = { seconds = 59 }
"""
    seeds = set()
    for place, text in enumerate((plain, reordered)):
        path = tmp_path / f"{place}.toml"
        path.write_text(text)
        seeds.add(derive_seed(load_spec(path), "aa", None))
    assert len(seeds) == 1


def test_the_order_of_questions_gives_no_second_try_and_one_chosen_seed_is_a_choice(tmp_path: Path) -> None:
    network = save(linear([[1.0], [0.0]], -4.5), tmp_path / "n.onnx")
    first = parse_spec(
        question(integer("age", 0, 9), category("sex", "Female", "Male"), path=str(network), decision="logit")
    )
    first = revise(first, guarantee__engine="sampling")
    questions = [first, revise(first, property__threshold=0.3)]
    one, other = (verify_family(None, each, certify=True) for each in (questions, questions[::-1]))
    assert [v.to_dict()["seed"] for v in one.verdicts] == [v.to_dict()["seed"] for v in other.verdicts]
    write_certificate(one, tmp_path / "family.json")
    assert recheck(tmp_path / "family.json", network).conclusion == "CONFIRMED"
    plain = question(integer("age", 0, 9), category("sex", "Female", "Male"), path=str(network), decision="logit")
    for limits in ((0.3, 0.1), (0.3, 0.2)):
        asked_for = [{**plain["property"], "threshold": limit} for limit in limits]
        mine = {**plain, "property": asked_for, "guarantee": {**plain["guarantee"], "engine": "sampling"}}
        (tmp_path / "mine.json").write_text(json.dumps(mine))
        found = recheck(tmp_path / "family.json", network, spec=tmp_path / "mine.json")
        assert (found.conclusion == "CONFIRMED") == (limits == (0.3, 0.1)), found
    # A second member of an honest run with a seed that was searched for.
    chosen = revise(questions[1], guarantee__seed=5, guarantee__delta=questions[1].guarantee.delta / 2)
    content = json.loads((tmp_path / "family.json").read_text())
    content["members"][1] = json.loads(dump(make_certificate(verify(None, chosen))))
    content["digest"] = family_digest(content)
    (tmp_path / "family.json").write_text(json.dumps(content))
    found = recheck(tmp_path / "family.json", network)
    assert (found.conclusion, found.seed_origin) == ("CONSISTENT", "chosen")


def test_counts_that_the_holder_of_the_key_writes_into_a_checkpoint_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint is signed by the issuer's own key: what an issuer invents there, the re-run finds."""
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    network = save(linear([[0.0], [9.0]], -4.5), tmp_path / "n.onnx")
    spec = parse_spec(
        question(integer("age", 0, 9), category("sex", "Female", "Male"), path=str(network), decision="logit")
    )
    spec = revise(spec, guarantee__engine="sampling")
    honest = verify(None, spec, checkpoint=tmp_path / "run", workers=1)
    assert honest.decision.name == "UNFAIR"

    def labels(_: Any, __: int, count: int, groups: Any, **___: Any) -> Any:
        return np.tile(np.arange(count) % 2, (len(groups), 1)).astype(np.uint16)

    (tmp_path / "run").unlink()
    with monkeypatch.context() as forging:
        forging.setattr(sampler.Sampler, "labels", labels)
        verify(None, spec, checkpoint=tmp_path / "run", workers=1)
    # The genuine program believes the record, which was signed with its own key.
    forged = verify(None, spec, checkpoint=tmp_path / "run", workers=1)
    assert forged.decision.name == "FAIR"
    write_certificate(forged, tmp_path / "c.json")
    assert recheck(tmp_path / "c.json", network).conclusion == "REJECTED"

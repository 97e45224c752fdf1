"""Models that are random by themselves, and services, in certificates and rechecks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import (
    CertificateError,
    ExecutorError,
    ModelError,
    Service,
    SpecError,
    check,
    journaled,
    make_certificate,
    parse_spec,
    plan,
    recheck,
    verify,
    verify_family,
)
from fairchain import write_certificate as write
from fairchain.certificate_format import digest
from fairchain.executors.tasks import Job
from fairchain.models.adapters.answer_memo import ANSWERS_CHANGE
from fairchain.models.adapters.from_function import RANDOM_IN_ONE_PROCESS
from fairchain.models.base import NON_DETERMINISTIC
from fairchain.planning.planner import PILOT_IN_JOURNAL
from fairchain.prepare import prepare
from fairchain.rechecking.rechecker import KEPT_ANSWERS, MODEL_NEEDED, NOT_FRESH
from fairchain.rechecking.result import NO_HASH_REMARK, RANDOM_REMARK
from fairchain.spec import revise
from fairchain.spec.validate import RANDOM_IS_NOT_EXACT
from fairchain.verification.verifier import IN_ONE_PROCESS
from tests.cli.command import Cli
from tests.messages import says, says_one_of
from tests.services.fake_server import FakeService, Row, serving

SPEC: dict[str, Any] = {
    "model": {"labels": ["no", "yes"], "decision": "label"},
    "feature": [
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "age", "kind": "integer", "low": 18, "high": 79},
    ],
    "property": {"protected": ["sex"], "kind": "difference", "threshold": 0.1, "outcome": "yes"},
    "guarantee": {"delta": 0.001, "engine": "sampling"},
}
RANDOM_SPEC = {**SPEC, "model": {**SPEC["model"], "deterministic": False}}
INPUTS = [{"name": "sex", "datatype": "BYTES", "shape": [-1]}, {"name": "age", "datatype": "INT64", "shape": [-1]}]
LABELS = [{"name": "predict", "datatype": "INT64", "shape": [-1]}]


class Coin:
    """Answer yes with a probability that depends on the group, anew for each input."""

    def __init__(self, female: float, male: float, seed: int = 3) -> None:
        self.rates, self.random = {"F": female, "M": male}, np.random.default_rng(seed)

    def __call__(self, rows: list[Row]) -> list[int]:
        return [int(self.random.random() < self.rates[row["sex"]]) for row in rows]


def steady(rows: list[Row]) -> list[int]:
    return [int(row["age"] > (70 if row["sex"] == "F" else 40)) for row in rows]


def steady_rows(rows: Any) -> Any:
    return (rows[:, 1] > 40).astype(int)


def random_spec(**changes: Any) -> Any:
    return parse_spec(SPEC | {"model": {**SPEC["model"], "deterministic": False}} | changes)


# Each process that imports this module has a generator in the same state.
GENERATOR = np.random.default_rng(7)


def seeded_coin(rows: Any) -> Any:
    return GENERATOR.integers(0, 2, len(rows))


def global_coin(rows: Any) -> Any:
    return (np.random.random(len(rows)) < 0.5).astype(int)  # noqa: NPY002


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    with serving(FakeService(steady, INPUTS, LABELS)) as running:
        yield running


def table(rows: int = 3000) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {"sex": random.choice(["F", "M"], rows).tolist(), "age": random.integers(18, 80, rows).tolist()}


def test_a_random_service_is_refused_with_the_option_that_allows_it(service: FakeService) -> None:
    service.answer = Coin(0.5, 0.5)
    for ask in (
        lambda: check(service.v2, table(), protected="sex", labels=["no", "yes"]),
        lambda: verify(service.v2, parse_spec(SPEC)),
    ):
        with pytest.raises(ModelError, match=says_one_of(ANSWERS_CHANGE, NON_DETERMINISTIC)):
            ask()


def test_a_declared_random_service_gets_fresh_answers_and_a_valid_verdict(service: FakeService) -> None:
    """The gap is 0.3; a verdict other than UNFAIR, or an interval without 0.3, has probability at most 0.001."""
    service.answer = Coin(0.3, 0.6)
    verdict = verify(service.v2, random_spec())
    assert verdict.decision.name == "UNFAIR"
    assert 0.3 in verdict.gap
    assert max(service.asked.values()) > 1
    found = check(service.v2, table(), protected="sex", labels=["no", "yes"], deterministic=False, delta=0.001)
    assert 0.3 in found.gap


@pytest.mark.parametrize("coin", [seeded_coin, global_coin])
def test_a_random_model_is_never_copied_into_several_processes_which_would_draw_the_same_numbers(coin: Any) -> None:
    drawn, fixed = prepare(coin, random_spec()).model, prepare(steady_rows, parse_spec(SPEC)).model
    with pytest.raises(ExecutorError, match=says(RANDOM_IN_ONE_PROCESS)):
        Job.of(drawn.predict)
    assert Job.of(fixed.predict).content
    # Whether processes are tried without being asked for.
    assert (drawn.stateless, fixed.stateless) == (False, True)
    # A run so short that nothing would be sent is refused too.
    with ProcessPoolExecutor(1) as pool, pytest.raises(ExecutorError, match=says(RANDOM_IN_ONE_PROCESS)):
        verify(coin, random_spec(), executor=pool, rounds=16)


def test_rows_as_the_whole_population_are_refused_for_a_random_model(service: FakeService) -> None:
    with pytest.raises(SpecError, match=says(RANDOM_IS_NOT_EXACT)):
        check(service.v2, table(), protected="sex", labels=["no", "yes"], reading="population", deterministic=False)


@pytest.mark.parametrize("rows", [False, True])
def test_a_certificate_of_a_random_model_is_rechecked_with_fresh_draws(
    service: FakeService, tmp_path: Path, rows: bool
) -> None:
    """Of 6,000 rows, the fresh verdict about equal rates stays UNDECIDED with probability 1e-5; 3,000 made it 0.03."""
    service.answer = Coin(0.3, 0.6)
    changes = {"population": {"kind": "table", "as": "sample"}, "guarantee": {"delta": 0.001}} if rows else {}
    data = table(6000) if rows else None
    verdict = verify(service.v2, random_spec(**changes), data=data, certify=True)
    file = tmp_path / "certificate.json"
    write(verdict, file)
    content = json.loads(file.read_text())
    assert content["claims"]["model_sha256"] == ""
    assert "cannot run it again bit by bit" in " ".join(content["notes"])
    assert service.v2 in " ".join(content["notes"])
    found = recheck(file, service.v2, data=data)
    assert (found.conclusion, found.fresh is not None, found.fraction) == ("CONFIRMED", True, 0.0)
    service.answer = Coin(0.5, 0.5)
    assert recheck(file, service.v2, data=data).conclusion == "REJECTED"
    service.answer = Coin(0.3, 0.6)
    forged = {**content, "claims": {**content["claims"], "decision": "FAIR", "verdict": "FAIR"}}
    file.write_text(json.dumps({**forged, "digest": digest(forged)}))
    assert recheck(file, service.v2, data=data).conclusion == "REJECTED"


def test_a_fresh_run_without_a_verdict_leaves_the_certificate_consistent(service: FakeService, tmp_path: Path) -> None:
    service.answer = Coin(0.3, 0.6)
    write(verify(service.v2, random_spec(), certify=True), tmp_path / "c")
    found = recheck(tmp_path / "c", service.v2, seconds=0)
    assert (found.conclusion, found.remarks) == ("CONSISTENT", (RANDOM_REMARK,))


@pytest.mark.parametrize("rows", [False, True])
def test_a_certificate_of_a_service_is_rechecked_by_asking_it_again(
    service: FakeService, tmp_path: Path, rows: bool
) -> None:
    changes = {"population": {"kind": "table", "as": "population"}, "guarantee": {}} if rows else {}
    data = table() if rows else None
    write(verify(service.v2, parse_spec(SPEC | changes), data=data, certify=True), tmp_path / "c")
    found = recheck(tmp_path / "c", service.v2, data=data)
    # The seed of drawn inputs follows from the spec alone: a service could be built to pass with it.
    assert (found.conclusion, found.remarks) == (("CONFIRMED", ()) if rows else ("CONSISTENT", (NO_HASH_REMARK,)))
    if not rows:
        assert recheck(tmp_path / "c", service.v2, fresh=True).conclusion == "CONFIRMED"
    service.answer = lambda rows: [int(row["age"] > 40) for row in rows]
    found = recheck(tmp_path / "c", service.v2, data=data)
    assert [claim.name for claim in found.claims if not claim.holds] == (
        ["re-run", "verdict", "intervals"] if rows else ["re-run"]
    )


@pytest.mark.parametrize("file", [False, True])
def test_a_recheck_believes_no_answer_from_before(service: FakeService, tmp_path: Path, file: bool) -> None:
    spec = parse_spec(SPEC | {"population": {"kind": "table", "as": "population"}, "guarantee": {}})
    model = Service(service.v2, journal=tmp_path / "journal" if file else None)
    write(verify(model, spec, data=table(), certify=True), tmp_path / "c")
    service.answer = lambda rows: [int(row["age"] > 40) for row in rows]
    with pytest.raises(CertificateError, match=says(KEPT_ANSWERS)):
        recheck(tmp_path / "c", model, data=table())
    found = recheck(tmp_path / "c", Service(service.v2, journal=tmp_path / "new"), data=table())
    assert found.conclusion == "REJECTED"


def test_a_certificate_cannot_name_the_service_that_is_asked(service: FakeService, tmp_path: Path) -> None:
    content = make_certificate(verify(service.v2, parse_spec(SPEC), certify=True))
    content["spec"]["model"]["path"] = service.v2
    content["digest"] = digest(content)
    (tmp_path / "c").write_text(json.dumps(content))
    before = service.requests + service.metadata_requests
    with pytest.raises(ModelError, match=says(MODEL_NEEDED)):
        recheck(tmp_path / "c")
    assert service.requests + service.metadata_requests == before


def test_a_journal_replays_the_answers_of_a_random_model_and_uses_none_twice(
    service: FakeService, tmp_path: Path
) -> None:
    service.answer = Coin(0.3, 0.6)
    first = verify(Service(service.v2, journal=tmp_path / "j"), random_spec(), seed=1)
    asked = sum(service.asked.values())
    again = verify(Service(service.v2, journal=tmp_path / "j"), random_spec(), seed=1)
    assert sum(service.asked.values()) == asked
    assert {**again.to_dict(), "seconds": 0} == {**first.to_dict(), "seconds": 0}


def test_a_certificate_of_several_questions_is_rechecked_with_one_service(service: FakeService, tmp_path: Path) -> None:
    questions = [parse_spec(SPEC), revise(parse_spec(SPEC), property__threshold=0.2)]
    write(verify_family(service.v2, questions, certify=True), tmp_path / "c")
    found = recheck(tmp_path / "c", Service(service.v2), fresh=True)
    assert (found.conclusion, len(found.members)) == ("CONFIRMED", 2)


def test_no_fresh_answers_are_taken_from_a_journal(service: FakeService, tmp_path: Path) -> None:
    """A recheck, and a verdict after a pilot, need answers of a random model that nobody has seen."""
    service.answer = Coin(0.3, 0.6)
    model = Service(service.v2, journal=tmp_path / "j")
    write(verify(model, random_spec(), certify=True), tmp_path / "c")
    with pytest.raises(CertificateError, match=says(NOT_FRESH)):
        recheck(tmp_path / "c", model)
    with pytest.raises(SpecError, match=says(PILOT_IN_JOURNAL)):
        plan(random_spec(), model=model, pilot=64)


def test_a_budget_is_for_one_verdict_on_a_random_service(service: FakeService) -> None:
    service.answer = Coin(0.3, 0.6)
    model = Service(service.v2)
    counts = []
    for _ in range(2):
        before = sum(service.asked.values())
        verify(model, random_spec(guarantee={"delta": 0.001, "engine": "sampling", "budget": {"evaluations": 400}}))
        counts.append(sum(service.asked.values()) - before)
    assert min(counts) > 0
    assert max(counts) <= 400


def test_an_executor_is_refused_for_a_service_and_a_journaled_function(service: FakeService) -> None:
    with ProcessPoolExecutor(1) as executor:
        for model in (service.v2, journaled(lambda rows: rows[:, 1] > 40)):
            with pytest.raises(ExecutorError, match=says(IN_ONE_PROCESS)):
                verify(model, parse_spec(SPEC), executor=executor)


# -- Command line ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


@pytest.fixture
def rows_file(tmp_path: Path) -> str:
    data = table(600)
    lines = [f"{sex},{age}" for sex, age in zip(data["sex"], data["age"], strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["sex,age", *lines]) + "\n")
    return str(tmp_path / "rows.csv")


def asked(service: FakeService, file: str, *more: str) -> list[str]:
    labels = ["--labels", "no", "--labels", "yes"]
    return ["check", file, "--model", service.v2, "--protected", "sex", *labels, "--as", "population", *more]


def test_the_command_line_forecasts_asks_and_says_what_was_asked(
    service: FakeService, rows_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("TOKEN", "Authorization: Bearer hidden-token")
    options = ["--journal", str(tmp_path / "j"), "--connections", "3", "--header-from", "TOKEN"]
    code, out, err = cli(*asked(service, rows_file, *options))
    assert code == 1
    forecast, summary = err.strip().splitlines()
    assert "forecast" in forecast
    assert "3 connections" in forecast
    assert f"{service.requests} requests answered, 0 retries" in summary
    assert service.v2 in out
    assert "hidden-token" not in out + err + (tmp_path / "j").read_text()
    assert service.headers[-1]["Authorization"] == "Bearer hidden-token"
    code, out, err = cli(*asked(service, rows_file, "--json"))
    assert (code, err, json.loads(out)["verdict"]) == (1, "", "UNFAIR")


def test_a_plan_for_a_random_model_is_one_of_sampling_even_if_there_are_few_inputs() -> None:
    drawn, fixed = (plan(parse_spec({**spec, "guarantee": {"delta": 0.001}})) for spec in (RANDOM_SPEC, SPEC))
    assert (drawn.questions[0].engine, fixed.questions[0].engine) == ("sampling", "enumeration")


def test_a_plan_says_how_many_requests_a_verdict_takes(service: FakeService, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    arguments = ["plan", tmp_path / "spec.json", "--model", service.v2, "--gap", "0.3", "--rows-per-request", "10"]
    code, out, _ = cli(*arguments)
    assert code == 0
    assert "inputs in" in out.splitlines()[-1]
    assert service.requests == 0
    assert "second" in cli(*[*arguments[:4], "--pilot", "64"])[1].splitlines()[-1]


def test_answers_are_reported_while_they_come(service: FakeService) -> None:
    service.latency = 0.05
    found: list[Any] = []
    rows = {"sex": ["F", "M"] * 200, "age": list(range(18, 418))}
    model = Service(service.v2, connections=2, rows_per_request=6)
    check(model, rows, protected="sex", labels=["no", "yes"], reading="population", progress=found.append)
    answered = [each.evaluations for each in found if each.total is None]
    assert answered == sorted(answered)
    assert 0 < answered[0] < 400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "model.onnx", "--connections", "3"], "--connections: belongs to a model that is a service"),
        (["--model", "model.onnx", "--journal", "j"], "--journal: belongs to a model that is a service"),
        (["--model", "http://localhost:1/other"], "give http://HOST:PORT/v2/models/NAME"),
        (["--model", "http://localhost:1/v2/models/m", "--header-from", "NOT_SET"], "write a header as Name: value"),
    ],
)
def test_options_that_do_not_fit_are_refused(rows_file: str, cli: Cli, arguments: list[str], message: str) -> None:
    code, _, err = cli("check", rows_file, "--protected", "sex", *arguments)
    assert code == 2
    assert message in err


def test_a_random_service_on_the_command_line(service: FakeService, tmp_path: Path, rows_file: str, cli: Cli) -> None:
    service.answer = Coin(0.1, 0.9)
    certificate = str(tmp_path / "c.json")
    command = [part if part != "population" else "sample" for part in asked(service, rows_file)]
    assert cli(*command, "--not-deterministic", "--certificate", certificate, "-q")[0] == 1
    code, out, _ = cli("recheck", certificate, "--model", service.v2, "--data", rows_file)
    assert code == 0
    assert "with new answers about the same rows" in out
    assert "CONFIRMED" in out


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("labels", [["no", "yes"], ["no", "yes", "maybe"]])
def test_a_constant_model_that_is_called_random_is_not_confirmed_as_another(
    rows: bool, labels: list[str], tmp_path: Path
) -> None:
    """Nothing is run again bit by bit, so that labels which are not counted would be what the certificate says."""
    changes: dict[str, Any] = {"model": {**RANDOM_SPEC["model"], "labels": labels}}
    changes |= {"population": {"kind": "table", "as": "sample"}, "guarantee": {"delta": 0.001}} if rows else {}
    data = table(2000) if rows else None

    def always_no(values: Any) -> Any:
        return np.zeros(len(values), int)

    content = make_certificate(verify(always_no, parse_spec(RANDOM_SPEC | changes), data=data, certify=True))
    assert (content["claims"]["verdict"], content["claims"]["decision"]) == ("CONSTANT", "FAIR")
    (tmp_path / "c").write_text(json.dumps(content))
    assert recheck(tmp_path / "c", always_no, data=data).conclusion == "CONFIRMED"
    content["claims"] |= {"verdict": "FAIR", "constant": None}
    del content["claims"]["tipping"]
    # The last label: of two labels it is the one that is counted, of three it is not.
    seen = [0, len(labels) - 1]
    if rows:
        content["evidence"]["labels"] = seen
    else:
        content["evidence"]["look"]["labels"] = seen
    (tmp_path / "c").write_text(json.dumps({**content, "digest": digest(content)}))
    found = recheck(tmp_path / "c", always_no, data=data)
    assert found.conclusion == ("REJECTED" if rows and len(labels) == 2 else "CONSISTENT")
    assert found.fresh is None or (found.fresh.constant, found.fresh.agrees) == ("no", None)


@pytest.mark.parametrize(("key", "value"), [("rows", 1), ("outcomes", [0]), ("labels", [0]), ("labels", [1, 0])])
def test_every_number_of_a_random_models_rows_is_checked(key: str, value: Any, tmp_path: Path) -> None:
    coin, rng = Coin(0.3, 0.6), np.random.default_rng(1)

    def answers(values: Any) -> Any:
        return (rng.random(len(values)) < np.where(values[:, 0] == 0, *coin.rates.values())).astype(int)

    spec = random_spec(population={"kind": "table", "as": "sample"}, guarantee={"delta": 0.001})
    content = make_certificate(verify(answers, spec, data=table(), certify=True))
    content["evidence"][key] = value
    (tmp_path / "c").write_text(json.dumps({**content, "digest": digest(content)}))
    found = recheck(tmp_path / "c", answers, data=table())
    assert [claim.name for claim in found.claims if not claim.holds] == ["layout"]

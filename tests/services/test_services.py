"""Services: the protocols, faults, limits, the journal, budgets. Real HTTP against a server of our own."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain import (
    CheckpointError,
    DataError,
    ModelError,
    Service,
    SpecError,
    check,
    explain,
    find_subgroups,
    journaled,
    parse_spec,
    plan,
    verify,
)
from fairchain.models.adapters import http_client
from fairchain.models.adapters.answer_memo import REPEATED
from fairchain.models.adapters.from_function import CODE_NOT_CONVERTED, SERVICE_NOT_CONVERTED
from fairchain.models.adapters.from_service import (
    INPUTS_DIFFER,
    LAYOUT_NEEDED,
    NO_PREDICTIONS,
    NOT_A_COUNT,
    NOT_METADATA,
    SEVERAL_SERVICE_OUTPUTS,
    VERSION_CHANGED,
    Metadata,
)
from fairchain.models.adapters.http_client import (
    ANSWER_TOO_LARGE,
    BAD_HEADER,
    GAVE_UP,
    PLAIN_CREDENTIALS,
    REDIRECTED,
    REFUSED,
    TOO_LONG_A_PAUSE,
    checked_url,
)
from fairchain.models.adapters.kept_answers import BUDGET_SPENT
from fairchain.models.frames import CELLS_ALIKE
from fairchain.models.journal import ANOTHER_KIND, ANOTHER_MODEL
from fairchain.prepare import BUDGET_FOR_TRIALS
from fairchain.system.work_record import NOT_A_RECORD
from tests.messages import says
from tests.services.fake_server import FakeService, Row, serving

COLUMNS = [
    {"name": "sex", "datatype": "BYTES", "shape": [-1]},
    {"name": "age", "datatype": "INT64", "shape": [-1, 1]},
]
LABELS = [{"name": "predict", "datatype": "INT64", "shape": [-1]}]


def older(rows: list[Row]) -> list[int]:
    """Decide by age, five years later for one group."""
    return [int(row["age"] > (45 if row["sex"] == "F" else 40)) for row in rows]


def table(rows: int = 400) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {"sex": random.choice(["F", "M"], rows).tolist(), "age": random.integers(18, 80, rows).tolist()}


def distinct(rows: dict[str, Any]) -> int:
    return len(set(zip(rows["sex"], rows["age"], strict=True)))


SPEC = {
    "model": {"labels": ["no", "yes"], "decision": "label"},
    "feature": [
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "age", "kind": "integer", "low": 18, "high": 79},
        {"name": "noise", "kind": "real", "low": 0, "high": 1},
    ],
    "property": {"protected": ["sex"], "kind": "difference", "threshold": 0.3, "outcome": "yes"},
    "guarantee": {"delta": 0.01},
}


@pytest.fixture
def service() -> Iterator[FakeService]:
    with serving(FakeService(older, inputs=list(COLUMNS), outputs=list(LABELS))) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))


def checked(model: Any, rows: dict[str, Any] | None = None, **options: Any) -> Any:
    options = {"protected": "sex", "reading": "population", "labels": ["no", "yes"]} | options
    return check(model, table() if rows is None else rows, **options)


def counted_gap(rows: dict[str, Any]) -> float:
    answers = np.array(older([{"sex": s, "age": a} for s, a in zip(rows["sex"], rows["age"], strict=True)]))
    sex = np.array(rows["sex"])
    return float(abs(answers[sex == "F"].mean() - answers[sex == "M"].mean()))


# -- Protocols -------------------------------------------------------------------------------------------------------


def test_columns_of_the_open_inference_protocol_give_the_gap_of_a_count_by_hand(service: FakeService) -> None:
    found = checked(service.v2)
    assert found.gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)
    assert not found.model_sha256
    assert f"service {service.v2}, version 1" in " ".join(found.notes)
    inputs = service.bodies[0]["inputs"]
    assert [each["datatype"] for each in inputs] == ["BYTES", "INT64"]
    count = len(inputs[0]["data"])
    assert [each["shape"] for each in inputs] == [[count], [count, 1]]
    assert service.bodies[0]["parameters"] == {"content_type": "pd"}


def test_each_distinct_row_is_asked_for_once_and_sixteen_of_them_twice(service: FakeService) -> None:
    checked(service.v2)
    assert len(service.asked) == distinct(table())
    assert sum(service.asked.values()) <= distinct(table()) + REPEATED
    assert max(service.asked.values()) <= 2


def test_one_array_of_numbers() -> None:
    def answer(rows: list[Row]) -> list[list[float]]:
        return [[0.9, 0.1] if row["x"][1] < 40 else [0.2, 0.8] for row in rows]

    inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    outputs = [{"name": "predict", "datatype": "FP64", "shape": [-1, 2]}]
    spec = parse_spec(
        SPEC
        | {"model": {"labels": ["no", "yes"], "decision": "argmax"}}
        | {"feature": SPEC["feature"][:2], "population": {"kind": "table", "as": "population"}}  # type: ignore[index]
    )
    with serving(FakeService(answer, inputs, outputs)) as running:
        verdict = verify(running.v2, spec, data=table())
        body = running.bodies[0]["inputs"][0]
    data = table()
    yes, sex = np.array(data["age"]) >= 40, np.array(data["sex"])
    assert verdict.gap.estimate == pytest.approx(abs(yes[sex == "F"].mean() - yes[sex == "M"].mean()), abs=1e-12)
    assert body["datatype"] == "FP32"
    assert body["shape"][1] == 2


def test_raw_texts_arrive_as_they_are() -> None:
    texts = ["A Muslim, you say?!", "a christian; naïve \u2603", "MUSLIM!", "Christian."] * 8
    inputs = [{"name": "comment", "datatype": "BYTES", "shape": [-1, 1]}]
    with serving(FakeService(lambda rows: [int("!" in row["comment"]) for row in rows], inputs)) as running:
        terms = {"muslim": ["muslim"], "christian": ["christian"]}
        verdict = check(running.v2, {"c": texts}, text="c", terms=terms, labels=["ok", "flagged"])
        seen = {json.loads(row)["comment"] for row in running.asked}
    assert seen == set(texts)
    assert verdict.gap.estimate == pytest.approx(1.0)


@pytest.mark.parametrize("layout", ["columns", "array"])
def test_a_scoring_server_of_mlflow(layout: Any) -> None:
    def answer(rows: list[Row]) -> list[Any]:
        return older(rows) if layout == "columns" else [int(row["input"][1] > 40) for row in rows]

    with serving(FakeService(answer)) as running:
        found = checked(Service(running.invocations, inputs=layout))
        body = running.bodies[0]
    if layout == "columns":
        assert body["dataframe_split"]["columns"] == ["sex", "age"]
        assert found.gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)
    else:
        assert len(body["inputs"][0]) == 2


def test_the_blanks_around_texts_are_sent_and_cells_that_they_tell_apart_are_not_one() -> None:
    table = {"sex": ["F", "M"] * 50, "c": ["a ", "b", "b", " c"] * 25}
    with serving(FakeService(lambda rows: ["yes" if row["c"] in ("a ", " c") else "no" for row in rows])) as service:
        found = check(service.invocations, table, protected="sex", labels=("no", "yes"), reading="population")
        assert {row["c"] for row in map(json.loads, service.asked)} == {"a ", "b", " c"}
        assert found.gap.estimate == 0
        table["c"][1] = "a"
        with pytest.raises(DataError, match=says(CELLS_ALIKE, column="c", one="'a '", two="'a'")):
            check(service.invocations, table, protected="sex", labels=("no", "yes"), reading="population")


def test_answers_of_different_kinds_are_one_message() -> None:
    turns = iter(range(10**6))

    def in_turn(rows: list[Row]) -> list[Any]:
        kind = int if next(turns) % 2 else float
        return [kind(each) for each in older(rows)]

    with (
        serving(FakeService(in_turn, list(COLUMNS))) as service,
        pytest.raises(ModelError, match=says(ANOTHER_KIND, kinds="fractions and whole numbers")),
    ):
        checked(Service(service.v2, connections=1, rows_per_request=4))


def test_predictions_of_mlflow_without_a_value_are_one_message() -> None:
    with (
        serving(FakeService(lambda rows: [[] for _ in rows], list(COLUMNS), list(LABELS))) as service,
        pytest.raises(ModelError, match=says(NO_PREDICTIONS)),
    ):
        checked(Service(service.invocations))


def test_predictions_of_mlflow_as_records_need_the_name_of_one() -> None:
    def answer(rows: list[Row]) -> list[Any]:
        return [{"label": each, "score": 0.5} for each in older(rows)]

    with serving(FakeService(answer)) as running:
        with pytest.raises(ModelError, match=says(SEVERAL_SERVICE_OUTPUTS, names='"label", "score"')):
            checked(running.invocations)
        found = checked(Service(running.invocations, output="label"))
    assert found.gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)


def test_a_service_without_inputs_in_its_metadata_must_be_described(service: FakeService) -> None:
    service.inputs = []
    with pytest.raises(ModelError, match=says(LAYOUT_NEEDED)):
        checked(service.v2)
    found = checked(Service(service.v2, inputs="columns"))
    assert found.gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)


def test_inputs_with_other_names_are_refused(service: FakeService) -> None:
    service.inputs = [{**COLUMNS[0], "name": "gender"}, COLUMNS[1]]
    with pytest.raises(ModelError, match=says(INPUTS_DIFFER, names='"gender", "age"')):
        verify(
            service.v2,
            parse_spec(SPEC | {"population": {"kind": "table", "as": "population"}}),
            data={**table(), "noise": [0.5] * 400},
        )


def test_drawn_inputs_are_asked_in_the_same_way_whatever_the_connections() -> None:
    spec = parse_spec(SPEC)
    found = []
    inputs = [*COLUMNS, {"name": "noise", "datatype": "FP64", "shape": [-1]}]
    for connections in (1, 7):
        with serving(FakeService(older, inputs, LABELS)) as running:
            verdict = verify(Service(running.v2, connections=connections), spec, seed=3)
            found.append({**verdict.to_dict(), "seconds": 0, "notes": 0})
            assert running.most_at_once <= connections
    assert found[0] == found[1]
    assert found[0]["verdict"] == "FAIR"


# -- Faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        [500, 503, 502],
        ["drop", "drop"],
        [(429, {"Retry-After": "0"})],
        [(503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})],
    ],
)
def test_faults_that_pass_do_not_change_the_answer(service: FakeService, faults: list[Any]) -> None:
    service.faults = list(faults)
    model = Service(service.v2, connections=3)
    found = checked(model)
    assert found.gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)
    assert model.retries + sum(each == "drop" for each in faults) >= len(faults)


def test_a_refusal_is_an_error_at_once_with_the_words_of_the_server(service: FakeService) -> None:
    service.faults = [400]
    with pytest.raises(ModelError, match=says(REFUSED, status="400") + "fault 400") as raised:
        checked(service.v2)
    assert "\n" not in str(raised.value)
    assert service.requests <= 8


def test_what_a_server_says_cannot_act_on_a_terminal(service: FakeService) -> None:
    with pytest.raises(ModelError, match=says(REFUSED, status="404")) as raised:
        checked(f"{service.url}/v2/models/other")
    assert "\x1b" not in str(raised.value)


def test_a_service_that_always_fails_is_given_up_after_the_retries(service: FakeService) -> None:
    service.faults = [500] * 100
    with pytest.raises(ModelError, match=says(GAVE_UP, tries="3") + "status 500"):
        checked(Service(service.v2, retries=2, connections=1))
    assert service.requests == 3


@pytest.mark.parametrize("fault", ["slow", "drip", "drip close"])
def test_a_slow_answer_is_a_time_out_and_sent_again(service: FakeService, fault: str) -> None:
    service.faults = [fault]
    model = Service(service.v2, timeout=0.4, connections=2)
    start = time.perf_counter()
    assert checked(model).gap.estimate == pytest.approx(counted_gap(table()), abs=1e-12)
    assert model.retries == 1
    assert time.perf_counter() - start < 30
    # The connection was closed by us, not by the server after its last byte.
    assert service.dripped < 100


def test_a_longer_pause_than_can_be_waited_for_is_said(service: FakeService) -> None:
    service.faults = [(429, {"Retry-After": "86400"})]
    with pytest.raises(ModelError, match=says(TOO_LONG_A_PAUSE, seconds="86,400")):
        checked(Service(service.v2, connections=1))


def _without(name: str) -> Callable[[Any], Any]:
    return lambda content: {"outputs": [{k: v for k, v in content["outputs"][0].items() if k != name}]}


def _with(**changes: Any) -> Callable[[Any], Any]:
    return lambda content: {**content, "outputs": [{**content["outputs"][0], **changes}]}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda _: b"not json", "not JSON"),
        (lambda _: b"[" * 100_000, "not JSON"),
        (lambda _: {"error": "boom"}, "no outputs but an error: boom"),
        (lambda _: {"outputs": 3}, "no outputs"),
        (_without("data"), "without shape, datatype or data"),
        (_with(shape=[1], data=[1]), r"1 values of shape \[1\] for"),
        (_with(shape=[-1], data=[]), "0 values"),
        (_with(shape=[float("inf")]), "without shape"),
        (lambda c: _with(shape=[c["outputs"][0]["shape"][0], -1, -1])(c), "the first dimension must be the inputs"),
        (lambda c: _with(shape=c["outputs"][0]["shape"] + [1] * 70)(c), "the first dimension must be the inputs"),
        (lambda c: {**c, "outputs": 2 * c["outputs"]}, "two outputs of the same name"),
        (_with(datatype="FP64", data=None), "without shape"),
        (lambda c: _with(datatype="FP64", data=[float("nan")] * c["outputs"][0]["shape"][0])(c), "nan for one of"),
        (lambda c: _with(data=["x"] * c["outputs"][0]["shape"][0])(c), "values of type str in an output of type INT64"),
        (lambda c: _with(data=[10**30] * c["outputs"][0]["shape"][0])(c), "too large"),
        (
            lambda c: {**c, "outputs": [*c["outputs"], {**c["outputs"][0], "name": "other"}]},
            "name the one that decides",
        ),
    ],
)
def test_a_wrong_answer_is_one_clear_message(service: FakeService, fault: Any, message: str) -> None:
    service.faults = [fault]
    with pytest.raises(ModelError, match=message) as raised:
        checked(Service(service.v2, connections=1))
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(service.v2)


def test_a_response_that_breaks_off_is_sent_again(service: FakeService) -> None:
    service.faults = [b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"outputs"']
    asked = Service(service.v2, connections=1)
    assert checked(asked).gap.estimate == pytest.approx(counted_gap(table()))
    assert asked.retries == 1


@pytest.mark.parametrize("size", ["-1", "-5"])
def test_a_chunk_of_negative_size_is_cut_too(service: FakeService, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setattr("fairchain.models.adapters.http_client.LARGEST_RESPONSE", 1000)
    service.faults = [f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n{' ' * 5000}".encode()]
    with pytest.raises(ModelError, match=says(ANSWER_TOO_LARGE, most="1,000")):
        checked(Service(service.v2, connections=1))


def test_sizes_in_the_metadata_that_are_no_numbers_are_one_message(service: FakeService) -> None:
    service.inputs = [{"name": "age", "datatype": "INT64", "shape": [float("inf")]}]
    with pytest.raises(ModelError, match=says(NOT_METADATA)):
        checked(Service(service.v2))


def test_the_reason_of_a_status_cannot_act_on_a_terminal(service: FakeService) -> None:
    service.faults = [b"HTTP/1.1 404 \x1b[2J\r\nContent-Length: 0\r\n\r\n"]
    with pytest.raises(ModelError, match=says(REFUSED, status="404")) as raised:
        checked(Service(service.v2, connections=1))
    assert "\x1b" not in str(raised.value)


def test_a_response_without_end_is_cut(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairchain.models.adapters.http_client.LARGEST_RESPONSE", 1000)
    service.faults = [lambda _: b" " * 5000]
    with pytest.raises(ModelError, match=says(ANSWER_TOO_LARGE, most="1,000")):
        checked(Service(service.v2, connections=1))


def test_a_version_that_changes_in_the_run_is_refused(service: FakeService) -> None:
    service.faults = [None, lambda content: {**content, "model_version": "2"}]
    with pytest.raises(ModelError, match=says(VERSION_CHANGED)):
        checked(Service(service.v2, connections=1))


def test_a_redirect_is_not_followed(service: FakeService) -> None:
    service.faults = [(307, {"Location": f"{service.url}/v2/models/m"})]
    with pytest.raises(ModelError, match=says(REDIRECTED)):
        checked(Service(service.v2, connections=1))


def test_a_host_that_does_not_answer() -> None:
    with pytest.raises(ModelError, match=says(GAVE_UP, tries="1")):
        checked(Service("http://127.0.0.1:9/v2/models/m", retries=0))


# -- Limits and secrets ----------------------------------------------------------------------------------------------


def test_no_more_requests_at_a_time_than_connections(service: FakeService) -> None:
    service.latency = 0.005
    checked(Service(service.v2, connections=3, rows_per_request=1))
    assert 2 <= service.most_at_once <= 3
    assert all(len(body["inputs"][0]["data"]) == 1 for body in service.bodies)


def test_the_rate_is_kept(service: FakeService) -> None:
    checked(Service(service.v2, connections=8, rows_per_request=16, requests_per_second=100))
    starts = sorted(start for start, _ in service.spans)
    # A server sees requests a little later than they are sent: fifteen of them take at least 14 intervals but one.
    assert len(starts) > 8
    assert starts[-1] - starts[0] >= (len(starts) - 2) / 100


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@localhost/v2/models/m",
        "http://localhost/v2/models/m?key=secret",
        "http://localhost/v2/models/m#x",
    ],
)
def test_credentials_in_an_address_are_refused_without_being_printed(url: str) -> None:
    with pytest.raises(ModelError) as raised:
        Service(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["http:///v2/models/m", "http://host:99999/v2/models/m", "http://h\u00f6st/v2/models/m", "ftp://h/v2/models/m"],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ModelError):
        checked_url(url)


def test_headers_are_sent_and_are_in_no_file_or_copy(service: FakeService, tmp_path: Path) -> None:
    model = Service(service.v2, headers={"Authorization": "Bearer hidden-token"}, journal=tmp_path / "j")
    found = checked(model)
    assert service.headers[0]["Authorization"] == "Bearer hidden-token"
    assert "hidden-token" not in (tmp_path / "j").read_text() + json.dumps(found.to_dict()) + repr(model)
    with pytest.raises(TypeError):
        pickle.dumps(model.client)


@pytest.mark.parametrize("headers", [{"A": 5}, {5: "a"}, {"A": "b\r\nX: y"}, {"A\r\nX": "y"}, {"": "y"}])
def test_headers_that_are_no_headers_are_one_message(headers: Any) -> None:
    with pytest.raises(ModelError, match=says(BAD_HEADER)):
        Service("http://localhost:1/v2/models/m", headers=headers)


def test_credentials_do_not_leave_this_computer_unencrypted() -> None:
    with pytest.raises(ModelError, match=says(PLAIN_CREDENTIALS)):
        Service("http://example.org/v2/models/m", headers={"Authorization": "Bearer x"})
    Service("https://example.org/v2/models/m", headers={"Authorization": "Bearer x"})
    Service("http://example.org/v2/models/m", headers={"Host": "model.example"})
    for name in ("", "A b", "A\nB: c", "A:", "Ä"):
        with pytest.raises(ModelError, match=says(BAD_HEADER)):
            Service("https://example.org/v2/models/m", headers={name: "x"})


def test_a_callable_with_a_client_of_its_own_is_a_function(service: FakeService) -> None:
    """Wrappers of a library's client are common; only `Service` and `journaled` are asked through a journal."""

    class Wrapped:
        client = journal = used = "something else"

        def __call__(self, rows: Any) -> Any:
            return rows[:, 1] > 40

    assert verify(Wrapped(), parse_spec(SPEC)).decision.name == "FAIR"


@pytest.mark.parametrize("given", [{"connections": 0.5}, {"rows_per_request": 2.5}, {"connections": 0}])
def test_counts_are_whole_numbers(given: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=says(NOT_A_COUNT)):
        Service("http://localhost:1/v2/models/m", **given)


def test_a_file_cannot_name_a_service(service: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC | {"model": {**SPEC["model"], "path": service.v2}}))  # type: ignore[dict-item]
    with pytest.raises(fairchain.InputError):
        verify(None, file)
    assert service.requests == service.metadata_requests == 0


# -- Budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [40, 70, 100])
def test_a_budget_is_never_exceeded(service: FakeService, budget: int) -> None:
    found = checked(Service(service.v2, rows_per_request=7), rows=table(1000), max_evaluations=budget)
    assert sum(service.asked.values()) <= budget
    assert found.unseen > 0


@pytest.mark.parametrize("budget", [40, 90])
def test_a_budget_for_drawn_inputs_is_never_exceeded(budget: int) -> None:
    inputs = [*COLUMNS, {"name": "noise", "datatype": "FP64", "shape": [-1]}]
    with serving(FakeService(older, inputs, LABELS)) as running:
        verdict = verify(running.v2, parse_spec(SPEC), max_evaluations=budget, threshold=0.07)
        assert sum(running.asked.values()) <= budget
    assert verdict.decision.name == "UNDECIDED"


@pytest.mark.parametrize(
    "ask",
    [
        explain,
        lambda url, spec: find_subgroups(url, spec, depth=1),
        lambda url, spec: plan(spec, model=url, pilot=500),
    ],
    ids=["explain", "find_subgroups", "plan"],
)
def test_a_budget_holds_for_whatever_asks(service: FakeService, ask: Any) -> None:
    service.inputs = [*COLUMNS[:2], {"name": "noise", "datatype": "FP64", "shape": [-1]}]
    guarantee = {"delta": 0.01, "engine": "sampling", "budget": {"evaluations": 60}}
    with pytest.raises(SpecError, match=says(BUDGET_SPENT, budget="60")):
        ask(service.v2, parse_spec(SPEC | {"guarantee": guarantee}))
    assert 0 < service.asked.total() <= 60


def test_a_budget_below_the_trials_is_refused(service: FakeService) -> None:
    with pytest.raises(SpecError, match=says(BUDGET_FOR_TRIALS)):
        checked(service.v2, max_evaluations=20)
    assert sum(service.asked.values()) <= 20


# -- Journal ---------------------------------------------------------------------------------------------------------


def as_bytes(verdict: Any) -> bytes:
    return json.dumps({**verdict.to_dict(), "seconds": 0}).encode()


def test_a_second_run_asks_nothing_and_says_the_same(service: FakeService, tmp_path: Path) -> None:
    first = checked(Service(service.v2, journal=tmp_path / "j"))
    asked = service.requests
    assert as_bytes(checked(Service(service.v2, journal=tmp_path / "j"))) == as_bytes(first)
    assert service.requests == asked


def test_a_journal_holds_no_inputs(tmp_path: Path) -> None:
    inputs = [{"name": "comment", "datatype": "BYTES", "shape": [-1, 1]}]
    with serving(FakeService(lambda rows: [len(row["comment"]) % 2 for row in rows], inputs)) as running:
        texts = {"c": ["my secret muslim diary", "my secret christian diary", "what a christian", "a muslim"] * 9}
        model = Service(running.v2, journal=tmp_path / "j")
        check(model, texts, text="c", terms={"m": ["muslim"], "c": ["christian"]}, labels=["ok", "flagged"])
    assert "secret" not in (tmp_path / "j").read_text()


def test_an_unfinished_line_is_dropped_with_a_note(service: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "j"
    first = checked(Service(service.v2, journal=file, connections=1, rows_per_request=4))
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    before = service.requests
    model = Service(service.v2, journal=file, connections=1, rows_per_request=4)
    assert as_bytes(checked(model)) == as_bytes(first)
    assert "were not written to the end" in model.journal.note
    assert service.requests == before + 1


@pytest.mark.parametrize(
    "damage", [lambda c: c.replace(b'"answers":[0', b'"answers":[1', 1), lambda c: b"\n".join(c.split(b"\n")[::-1])]
)
def test_a_changed_answer_is_not_believed(service: FakeService, tmp_path: Path, damage: Any) -> None:
    file = tmp_path / "j"
    first = checked(Service(service.v2, journal=file))
    changed = damage(file.read_bytes())
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    try:
        again = checked(Service(service.v2, journal=file))
    except CheckpointError:
        return
    assert as_bytes(again) == as_bytes(first)


def test_the_journal_of_another_model_is_refused(service: FakeService, tmp_path: Path) -> None:
    checked(Service(service.v2, journal=tmp_path / "j"))
    service.version = "2"
    with pytest.raises(CheckpointError, match=says(ANOTHER_MODEL)):
        checked(Service(service.v2, journal=tmp_path / "j"))


def test_a_journal_does_not_mix_the_answers_of_two_versions_that_metadata_do_not_tell_apart(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "_read_metadata", lambda _: Metadata("", (), ()))
    rows = table()
    some = {name: column[:200] for name, column in rows.items()}
    first = Service(service.v2, journal=tmp_path / "j", inputs="columns")
    checked(first, some)
    first.journal.close()
    service.version = "2"
    with pytest.raises(ModelError, match=says(VERSION_CHANGED, now="2", before="1")):
        checked(Service(service.v2, journal=tmp_path / "j", inputs="columns"), rows)
    # Nothing of the second version was kept.
    service.version = "1"
    again = Service(service.v2, journal=tmp_path / "j", inputs="columns")
    assert checked(again, rows).gap.estimate == pytest.approx(counted_gap(rows))
    assert again.version == "1"


def test_other_files_are_no_journals(service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "j").write_text("sex,age\nF,20\n")
    with pytest.raises(CheckpointError, match=says(NOT_A_RECORD)):
        checked(Service(service.v2, journal=tmp_path / "j"))
    assert (tmp_path / "j").read_text() == "sex,age\nF,20\n"
    with pytest.raises(CheckpointError):
        checked(Service(service.v2, journal=tmp_path / "none" / "j"))


def test_a_journal_is_one_by_whatever_name_it_is_used(service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "journal")
    first, second = (Service(service.v2, journal=tmp_path / name) for name in ("journal", "link"))
    assert first.journal is second.journal
    checked(second)
    first.journal.close()
    before = service.requests
    checked(Service(service.v2, journal=tmp_path / "link"))
    assert service.requests == before
    assert (tmp_path / "link").is_symlink()


def test_a_journal_is_used_by_one_process_at_a_time(service: FakeService, tmp_path: Path) -> None:
    checked(Service(service.v2, journal=tmp_path / "j"))
    held = Service(service.v2, journal=tmp_path / "j")
    assert len(held.journal)
    code = f"from fairchain import Service; Service({service.v2!r}, journal={str(tmp_path / 'j')!r}).journal"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is using it" in done.stderr


def test_a_slow_function_has_a_journal_too(tmp_path: Path) -> None:
    asked: list[int] = []

    def slow(values: Any) -> Any:
        asked.append(len(values))
        return (values[:, 1] > 40).astype(int)

    first = checked(journaled(slow, tmp_path / "j"))
    count = sum(asked)
    assert count <= distinct(table()) + REPEATED
    assert as_bytes(checked(journaled(slow, tmp_path / "j"))) == as_bytes(first)
    assert sum(asked) == count


def test_rows_that_differ_only_in_what_the_model_does_not_get_are_paid_for_once() -> None:
    """A protected feature that is no input of the model had every input evaluated once for each group."""
    sent: list[Any] = []

    def paid(values: Any) -> Any:
        sent.extend(map(tuple, values.tolist()))
        return (values[:, 0] > 5).astype(int)

    features = [
        {"name": "x", "kind": "integer", "low": 0, "high": 10},
        {"name": "y", "kind": "integer", "low": 0, "high": 20},
        {"name": "sex", "kind": "category", "values": ["f", "m"], "model_input": False},
    ]
    spec = parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": features,
            "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": 0.2},
        }
    )
    verdict = verify(journaled(paid), spec)
    assert (verdict.decision.name, verdict.gap.estimate) == ("FAIR", 0)
    assert len(set(sent)) == 11 * 21
    assert len(sent) <= 11 * 21 + REPEATED


def test_the_journal_of_another_function_is_refused(tmp_path: Path) -> None:
    checked(journaled(lambda values: (values[:, 1] > 40).astype(int), tmp_path / "j"))
    with pytest.raises(CheckpointError, match=says(ANOTHER_MODEL)):
        checked(journaled(lambda values: (values[:, 1] > 50).astype(int), tmp_path / "j"))


CHILD = """
import json, sys
from fairchain import Service, check
from tests.services.test_services import table
model = Service(sys.argv[1], journal=sys.argv[2], connections=4, rows_per_request=2)
verdict = check(model, table(), protected="sex", reading="population", labels=["no", "yes"])
print(json.dumps({**verdict.to_dict(), "seconds": 0}))
"""


def test_a_killed_run_continues_and_asks_for_nothing_twice(service: FakeService, tmp_path: Path) -> None:
    """`kill -9` in the middle: the second run gives the same bytes and asks only for what was not answered."""
    service.latency = 0.02
    arguments = [sys.executable, "-c", CHILD, service.v2, str(tmp_path / "j")]
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    while sum(service.asked.values()) < 50:
        assert first.poll() is None
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(0.2)
    kept = (tmp_path / "j").read_text().count('"keys"')
    assert kept > 0
    service.latency = 0.0
    asked_before = sum(service.asked.values())
    assert asked_before < distinct(table())
    second = subprocess.run(arguments, capture_output=True, check=True)
    # Inputs that are repeated on purpose, and those of the four requests in flight when the run was killed.
    assert sum(service.asked.values()) <= distinct(table()) + REPEATED + 4 * 2
    whole = checked(Service(service.v2, connections=4))
    assert json.loads(second.stdout) == json.loads(as_bytes(whole))


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_gives_bounds_that_contain_the_whole_answer(service: FakeService, tmp_path: Path) -> None:
    service.latency = 0.01
    rows = {"sex": ["F", "M"] * 300, "age": list(range(18, 618))}
    truth = counted_gap(rows)

    def interrupt() -> None:
        while sum(service.asked.values()) < 60:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts what runs in the background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        found = checked(Service(service.v2, connections=2, rows_per_request=1), rows=rows)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.stopped == "interrupted"
    assert 0 < found.unseen < 600
    assert found.gap.low <= truth <= found.gap.high


def test_a_service_is_not_converted_with_the_reason(service: FakeService) -> None:
    two = {**SPEC, "feature": SPEC["feature"][:2]}
    with pytest.raises(ModelError, match=says(SERVICE_NOT_CONVERTED)):
        fairchain.to_onnx(Service(service.v2), parse_spec(two))
    with pytest.raises(ModelError, match=says(CODE_NOT_CONVERTED)):
        fairchain.to_onnx(
            lambda rows: rows[:, 1] > 40,
            parse_spec({**SPEC, "model": {"labels": ["no", "yes"], "decision": "label", "deterministic": False}}),
        )

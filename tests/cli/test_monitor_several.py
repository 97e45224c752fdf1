"""A monitor of several properties: one pass, one error probability, one state, and alarms that arrive."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fairchain.cli.app import app
from fairchain.errors import DataError, SpecError
from fairchain.monitoring.alarms import send_alarm

SPEC = """
[model]
labels = ["no", "yes"]
[[feature]]
name = "sex"
kind = "category"
values = ["Female", "Male"]
[[feature]]
name = "age"
kind = "integer"
low = 18
high = 90
groups = {young = [18, 39], old = [40, 90]}
[population]
kind = "table"
prediction = "decision"
as = "sample"
[guarantee]
delta = 0.05
[[property]]
kind = "difference"
protected = ["sex"]
outcome = "yes"
threshold = 0.2
[[property]]
kind = "ratio"
protected = ["age"]
outcome = "yes"
threshold = 0.8
"""


def rows(count: int, rates: dict[str, float], seed: int = 0) -> list[str]:
    """Decisions whose rate depends on the sex, or on the age group."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        sex, age = ("Female", "Male")[int(rng.integers(2))], int(rng.integers(18, 91))
        rate = rates.get(sex, rates.get("young" if age < 40 else "old", 0.5))
        found.append(f"{sex},{age},{'yes' if rng.random() < rate else 'no'}")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def write(folder: Path, lines: list[str]) -> str:
    path = folder / "decisions.csv"
    path.write_text("\n".join(["sex,age,decision", *lines]) + "\n")
    return str(path)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["monitor", "--spec", str(folder / "spec.toml"), *arguments], standalone_mode=False)


def reports(done: Result) -> list[dict[str, Any]]:
    assert done.exception is None, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_unfair_property_makes_the_verdict_unfair_and_each_has_its_share_of_delta(folder: Path) -> None:
    done = run(folder, write(folder, rows(3000, {"young": 0.9, "old": 0.2})), "--json")
    last = reports(done)[-1]
    assert (done.return_value, last["verdict"], last["delta"]) == (1, "UNFAIR", 0.05)
    assert [each["delta"] for each in last["questions"]] == [0.025, 0.025]
    assert last["questions"][1]["verdict"] == "UNFAIR"
    assert [group["name"] for group in last["questions"][1]["groups"]] == ["age=young", "age=old"]


def test_fair_needs_every_property(folder: Path) -> None:
    done = run(folder, write(folder, rows(12_000, {})), "--json")
    last = reports(done)[-1]
    assert (done.return_value, last["verdict"]) == (0, "FAIR")
    few = run(folder, write(folder, rows(300, {})), "--json")
    assert (few.return_value, reports(few)[-1]["verdict"]) == (3, "UNDECIDED")


def test_a_quiet_run_prints_only_the_last_report(folder: Path) -> None:
    """A property that was decided before the others printed a last report of its own."""
    path = write(folder, rows(150_000, {"young": 0.5, "old": 0.42}))
    assert [each["event"] for each in reports(run(folder, path, "--json"))] == ["change", "change"]
    assert run(folder, path, "--quiet").stdout.splitlines() == ["FAIR: 2 properties"]
    lines = run(folder, path).stdout.splitlines()
    statements = [line for line in lines if line.startswith("All 2 verdicts are right together")]
    assert lines[-1:] == statements


def test_each_property_counts_what_a_monitor_of_its_own_counts(folder: Path) -> None:
    """The same decision after the same row as a monitor of one property with the same share of delta."""
    path = write(folder, rows(12_000, {}))
    family = reports(run(folder, path, "--json", "--keep-going"))[-1]["questions"][0]
    alone = CliRunner().invoke(
        app,
        ["monitor", path, "--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.2",
         "--delta", "0.025", "--group", "Female", "--group", "Male", "--json", "--keep-going"],
        standalone_mode=False,
    )  # fmt: skip
    single = json.loads(alone.stdout.splitlines()[-1])
    for key in ("verdict", "since", "rows", "gap", "groups"):
        assert family[key] == single[key]


def test_a_stopped_monitor_continues_from_its_state_and_ends_as_if_it_had_not_stopped(folder: Path) -> None:
    lines = rows(12_000, {})
    path, states = write(folder, lines), [folder / "whole.json", folder / "parts.json"]
    run(folder, path, "--state", str(states[0]), "--keep-going")
    for size in (500, 501, 4000, 12_000):
        write(folder, lines[:size])
        run(folder, path, "--state", str(states[1]), "--keep-going")
    assert states[0].read_bytes() == states[1].read_bytes()


def test_a_state_of_groups_that_meant_something_else_is_refused(folder: Path) -> None:
    path, state = write(folder, rows(400, {})), folder / "state.json"
    run(folder, path, "--state", str(state))
    (folder / "spec.toml").write_text(SPEC.replace("[18, 39]", "[18, 29]").replace("[40, 90]", "[30, 90]"))
    done = run(folder, path, "--state", str(state))
    assert isinstance(done.exception, DataError)
    assert "other definitions of the groups or labels; start with a new --state" in str(done.exception)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ('labels = ["no", "yes"]', 'labels = ["no", "yes"]\ncodes = [0, 1]', "model.codes: a monitor reads"),
        ("threshold = 0.2", "threshold = 0.2\nmin_size = 10", "reference, min_size or shift"),
        ('labels = ["no", "yes"]', 'labels = ["refused", "yes"]', '"no" is not one of model.labels'),
    ],
)
def test_what_a_monitor_would_read_otherwise_than_a_verdict_is_refused(
    folder: Path, was: str, now: str, message: str
) -> None:
    assert was in SPEC
    (folder / "spec.toml").write_text(SPEC.replace(was, now, 1))
    done = run(folder, write(folder, rows(400, {})))
    assert isinstance(done.exception, SpecError | DataError)
    assert message in str(done.exception)


def test_a_state_of_other_properties_and_a_changed_one_are_refused(folder: Path) -> None:
    path, state = write(folder, rows(400, {})), folder / "state.json"
    run(folder, path, "--state", str(state))
    (folder / "spec.toml").write_text(SPEC.replace("threshold = 0.8", "threshold = 0.7"))
    done = run(folder, path, "--state", str(state))
    assert isinstance(done.exception, DataError)
    assert "was made for threshold 0.8, not 0.7" in str(done.exception)
    (folder / "spec.toml").write_text(SPEC)
    changed = json.loads(state.read_text())
    changed["questions"][0]["groups"][0]["successes"] += 1
    state.write_text(json.dumps(changed))
    assert "was damaged or changed by hand" in str(run(folder, path, "--state", str(state)).exception)


def test_a_bad_line_leaves_all_properties_at_the_same_row(folder: Path) -> None:
    path, state = write(folder, [*rows(200, {}), "Female,old,yes"]), folder / "state.json"
    done = run(folder, path, "--state", str(state))
    assert '"old" is not a number, and feature age contains numbers' in str(done.exception)
    kept = json.loads(state.read_text())["questions"]
    assert [sum(group["rows"] for group in each["groups"]) for each in kept] == [0, 0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('prediction = "decision"', "", "monitor: the spec needs population.kind"),
        ("threshold = 0.8", 'threshold = 0.8\ncompare = "overall"', "a monitor compares the rates of one outcome"),
    ],
)
def test_a_spec_that_a_stream_cannot_answer_is_refused(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "spec.toml").write_text(SPEC.replace(old, new))
    done = run(folder, write(folder, rows(10, {})))
    assert isinstance(done.exception, SpecError)
    assert message in str(done.exception)


# Alarms


@contextmanager
def server(*statuses: int, wait: float = 0.0) -> Iterator[tuple[str, list[Any]]]:
    """A real web server on this machine that answers with these statuses, one after another."""
    received: list[Any] = []
    left, release = list(statuses), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if wait:
                release.wait(wait)
            status = left.pop(0) if left else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/hook/secret-token", received
    finally:
        release.set()
        http.shutdown()
        thread.join()
        http.server_close()


def test_an_alarm_goes_to_the_file_and_to_the_webhook_without_rows(folder: Path) -> None:
    path = write(folder, rows(3000, {"young": 0.9, "old": 0.2}))
    with server() as (url, received):
        done = run(folder, path, "--webhook", url, "--alarm-file", str(folder / "alarm.json"))
    assert done.return_value == 1
    assert received == [json.loads((folder / "alarm.json").read_text())]
    assert (received[0]["alarm"], received[0]["verdict"]) == ("UNFAIR", "UNFAIR")
    assert set(received[0]) == {"alarm", "event", "verdict", "delta", "statement", "questions"}


def test_without_a_violation_there_is_no_alarm(folder: Path) -> None:
    with server() as (url, received):
        done = run(folder, write(folder, rows(12_000, {})), "--webhook", url, "--alarm-file", str(folder / "a.json"))
    assert (done.return_value, received, (folder / "a.json").exists()) == (0, [], False)


def test_a_webhook_is_tried_again_and_a_failed_one_hides_nothing(folder: Path) -> None:
    path = write(folder, rows(3000, {"young": 0.9, "old": 0.2}))
    with server(500, 503) as (url, received):
        assert run(folder, path, "--webhook", url).return_value == 1
        assert len(received) == 3
    done = run(folder, path, "--webhook", url, "--alarm-file", str(folder / "alarm.json"))
    assert done.return_value == 1
    assert "UNFAIR" in done.stdout
    assert (folder / "alarm.json").exists()
    assert "the webhook at 127.0.0.1 ConnectionRefusedError (3 tries)" in done.output
    assert "secret-token" not in done.output


def test_a_redirected_or_silent_webhook_is_not_followed_or_waited_for() -> None:
    with server(302, 302, 302) as (url, received):
        assert send_alarm(url, {}) == "the webhook at 127.0.0.1 answered 302 (3 tries)"
        assert len(received) == 3
    with server(wait=30) as (url, _):
        assert send_alarm(url, {}, timeout=0.2, tries=1) == "the webhook at 127.0.0.1 did not answer in time (1 tries)"


def test_a_webhook_that_sends_a_little_now_and_then_is_not_waited_for() -> None:
    sent, over = [], threading.Event()

    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while len(sent) < 90 and not over.wait(0.1):
                sent.append(self.wfile.write(b"X: y\r\n"))

        def log_message(self, *_: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Dripping)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{http.server_port}/"
    assert send_alarm(url, {}, timeout=0.5, tries=1) == "the webhook at 127.0.0.1 did not answer in time (1 tries)"
    assert len(sent) < 90
    over.set()
    http.shutdown()
    http.server_close()


def test_one_property_has_alarms_too(folder: Path) -> None:
    path = write(folder, rows(3000, {"Female": 0.9, "Male": 0.2}))
    done = CliRunner().invoke(
        app,
        ["monitor", path, "--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.2",
         "--alarm-file", str(folder / "alarm.json")],
        standalone_mode=False,
    )  # fmt: skip
    assert done.return_value == 1
    assert json.loads((folder / "alarm.json").read_text())["verdict"] == "UNFAIR"


def test_an_address_that_is_not_of_the_web_is_refused(folder: Path) -> None:
    done = run(folder, write(folder, rows(10, {})), "--webhook", "file:///etc/passwd")
    assert str(done.exception) == "--webhook: write an address that begins with http:// or https://"
    for address in ("http://[", "http://host:99999/", "http://"):
        done = run(folder, write(folder, rows(10, {})), "--webhook", address)
        assert str(done.exception) == "--webhook: write an address that begins with http:// or https://"

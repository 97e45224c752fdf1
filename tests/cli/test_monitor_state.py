"""Promises of `fairchain monitor --state`: what was counted survives being stopped, by whatever stops it."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.certificate_format import digest
from fairchain.monitoring import lines
from fairchain.system import atomic_write
from fairchain.system.interrupts import raising
from tests.cli.decisions import ASK, EQUAL, FAIR, UNFAIR, Command, as_csv, as_jsonl, moment, people, says


def fair(rows: int) -> dict[str, Any]:
    turn = {"verdict": "FAIR", "rows": rows}
    return {"now": turn, "first": turn}


# Changes of a state of nine rows after which no rows could have led to it.
IMPOSSIBLE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a group twice": lambda content: content["groups"].append(content["groups"][0]),
    "too many groups": lambda content: content.update(
        groups=[{"name": f"sex={i}", "rows": 1, "successes": 0} for i in range(501)]
    ),
    "a name that no row has": lambda content: content["groups"][0].update(name="sex=\0"),
    "a verdict without rows": lambda content: content.update(groups=[], **fair(9)),
    "a verdict after more rows": lambda content: content.update(fair(10)),
    "a verdict that is not the first": lambda content: content.update(fair(9), first=None),
}


class TestState:
    def test_a_file_that_grows_leaves_the_same_bytes_as_one_run(self, tmp_path: Path, monitor: Command) -> None:
        data = as_csv(people(3000, EQUAL))
        path, one, many = tmp_path / "d.csv", tmp_path / "one.json", tmp_path / "many.json"
        path.write_bytes(data)
        assert monitor(path, *ASK, "--state", one).code == 3
        for end in (0, 9, 300, 301, 302, 20_000, len(data)):
            path.write_bytes(data[:end])
            ended = monitor(path, *ASK, "--state", many)
            assert ended.code == (3 if end > 30 else 2), ended
        assert many.read_bytes() == one.read_bytes()
        assert monitor(path, *ASK, "--state", many).code == 3
        assert many.read_bytes() == one.read_bytes()

    @pytest.mark.parametrize("seed", range(4))
    def test_stops_anywhere_leave_the_same_bytes_as_one_run(
        self, seed: int, tmp_path: Path, monitor: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C after a block, again and again."""
        from fairchain.monitoring.stream import Watch

        path, one, many = tmp_path / "d.jsonl", tmp_path / "one.json", tmp_path / "many.json"
        path.write_bytes(as_jsonl(people(1500, [FAIR, UNFAIR, EQUAL, (0.6, 0.2)][seed], seed)))
        arguments = (path, *ASK, "--keep-going")
        whole = monitor(*arguments, "--state", one)
        rng = np.random.default_rng(seed)
        reports = Watch.reports

        def stopped(self: Watch, **options: Any) -> Any:
            left = int(rng.integers(1, 20))

            def stop() -> None:
                nonlocal left
                left -= 1
                if not left:
                    raise KeyboardInterrupt

            return reports(self, **{**options, "after_block": stop})

        monkeypatch.setattr(lines, "BYTES_AT_ONCE", 4000)
        monkeypatch.setattr(Watch, "reports", stopped)
        codes = []
        while not codes or codes[-1] == 130:
            codes.append(monitor(*arguments, "--state", many).code)
        assert len(codes) > 1
        assert codes[-1] == whole.code
        assert many.read_bytes() == one.read_bytes()

    @pytest.mark.parametrize("outcome", ["yes", "granted"])
    def test_a_rare_outcome_is_watched_before_its_first_row_and_after_every_restart(
        self, outcome: str, tmp_path: Path, monitor: Command
    ) -> None:
        """FAIR is established before the first such row; it comes much later, in the same block or never."""
        data = as_csv([("Female" if n % 2 else "Male", "White", "yes" if n == 900 else "no") for n in range(1000)])
        path, one, many = tmp_path / "d.csv", tmp_path / "one.json", tmp_path / "many.json"
        ask = (path, *ASK, "--outcome", outcome)
        path.write_bytes(data)
        # Without --allow-constant a stream with one decision is CONSTANT, never refused.
        strict = monitor(*ask, "--json")
        found = strict.code, json.loads(strict.out.splitlines()[-1])["verdict"]
        assert found == ((0, "FAIR") if outcome == "yes" else (3, "CONSTANT"))
        ask = (*ask, "--allow-constant")
        first = monitor(*ask, "--json")
        assert (first.code, json.loads(first.out.splitlines()[-1])["verdict"]) == (0, "FAIR")
        whole = monitor(*ask, "--keep-going", "--state", one)
        for end in (100, 4000, len(data)):
            path.write_bytes(data[: data.index(b"\n", end - 1) + 1])
            assert monitor(*ask, "--keep-going", "--state", many).code in (0, 3)
        assert (whole.code, many.read_bytes()) == (0, one.read_bytes())
        assert monitor(*ask, "--state", many).code == 0

    def test_a_stream_adds(self, tmp_path: Path, monitor: Command) -> None:
        rows, state = people(900, EQUAL), tmp_path / "s.json"
        for part in (rows[:400], rows[400:401], rows[401:]):
            assert monitor("-", *ASK, "--state", state, stdin=as_csv(part)).code == 3
        kept = state.read_bytes()
        state.unlink()
        monitor(*ASK, "--state", state, stdin=as_csv(rows))
        assert state.read_bytes() == kept

    def test_a_decision_stands_until_one_keeps_going(self, tmp_path: Path, monitor: Command) -> None:
        rows = people(2000)
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        path.write_bytes(as_csv(rows))
        monitor(path, *ASK, "--state", state)
        kept = json.loads(state.read_bytes())
        assert kept["first"] == kept["now"] == {"verdict": "UNFAIR", "rows": moment(rows)}
        again = monitor(path, *ASK, "--state", state)
        assert again.code == 1
        assert "before this run" in again.out
        assert json.loads(state.read_bytes()) == kept
        assert monitor(path, *ASK, "--state", state, "--keep-going", "--json").reports[-1]["rows"] == 2000

    def test_the_last_line_counts_when_it_has_an_end(self, tmp_path: Path, monitor: Command) -> None:
        data = as_csv(people(50, EQUAL))
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        path.write_bytes(data[:-1])
        ended = monitor(path, *ASK, "--state", state, "--json")
        assert ended.reports[-1]["rows"] == 49
        assert "the next run reads it" in ended.err
        assert monitor(path, *ASK, "--json").reports[-1]["rows"] == 50
        path.write_bytes(data)
        assert monitor(path, *ASK, "--state", state, "--json").reports[-1]["rows"] == 50

    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("--threshold", "0.2", ["threshold 0.1, not 0.2"]),
            ("--delta", "0.01", ["delta 0.05, not 0.01"]),
            ("--outcome", "no", ["outcome yes, not no"]),
            ("--protected", "race", ["protected sex, not sex, race"]),
            ("--kind", "ratio", ["kind difference, not ratio"]),
        ],
    )
    def test_another_question_is_refused(
        self, option: str, value: str, words: list[str], tmp_path: Path, monitor: Command
    ) -> None:
        state = tmp_path / "s.json"
        data = as_csv(people(50, EQUAL))
        monitor(*ASK, "--state", state, stdin=data)
        says(monitor(*ASK, "--state", state, option, value, stdin=data), str(state), "new --state", *words)

    def test_another_beginning_is_refused(self, tmp_path: Path, monitor: Command) -> None:
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        data = as_csv(people(50, EQUAL))
        path.write_bytes(data)
        monitor(path, *ASK, "--state", state)
        path.write_bytes(data.replace(b"1,", b"7,", 1))
        says(monitor(path, *ASK, "--state", state), str(path), "have changed", "new --state")
        path.write_bytes(data[:-20])
        says(monitor(path, *ASK, "--state", state), str(path), "were counted already", "new --state")
        says(monitor(*ASK, "--state", state, stdin=data), "standard input", "made from a file")

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"hello", b"\xff", b'{"format": "other"}'])
    def test_a_state_that_is_none(self, damage: bytes, tmp_path: Path, monitor: Command) -> None:
        state = tmp_path / "s.json"
        state.write_bytes(damage)
        says(monitor(*ASK, "--state", state, stdin=as_csv(people(9))), str(state), "not a state", "new --state")
        assert state.read_bytes() == damage

    def test_a_state_that_was_changed_by_hand(self, tmp_path: Path, monitor: Command) -> None:
        state = tmp_path / "s.json"
        monitor(*ASK, "--state", state, stdin=as_csv(people(9)))
        content = json.loads(state.read_bytes())
        content["groups"][0]["successes"] += 1
        state.write_text(json.dumps(content))
        says(monitor(*ASK, "--state", state, stdin=b""), str(state), "damaged or changed by hand")

    @pytest.mark.parametrize("name", IMPOSSIBLE)
    def test_a_state_that_no_rows_lead_to_is_refused_though_its_digest_is_right(
        self, name: str, tmp_path: Path, monitor: Command
    ) -> None:
        state = tmp_path / "s.json"
        monitor(*ASK, "--state", state, stdin=as_csv(people(9)))
        content = json.loads(state.read_bytes())
        IMPOSSIBLE[name](content)
        state.write_text(json.dumps(content | {"digest": digest(content)}))
        says(monitor(*ASK, "--state", state, stdin=as_csv(people(9))), str(state), "damaged or changed by hand")

    @pytest.mark.parametrize("rows", [2**60, 10**400])
    def test_a_state_of_more_rows_than_can_be_counted_is_refused(
        self, rows: int, tmp_path: Path, monitor: Command
    ) -> None:
        state = tmp_path / "s.json"
        monitor(*ASK, "--state", state, stdin=as_csv(people(9)))
        content = json.loads(state.read_bytes())
        content["groups"][0].update(rows=rows, successes=rows // 2)
        state.write_text(json.dumps(content | {"digest": digest(content)}))
        says(monitor(*ASK, "--state", state, stdin=as_csv(people(9))), str(state), "not a state", "new --state")

    def test_a_state_that_cannot_be_written_is_said_before_the_work(self, tmp_path: Path, monitor: Command) -> None:
        says(monitor(*ASK, "--state", tmp_path / "no" / "s.json", stdin=b"x"), "cannot be written", "--state")

    def test_what_was_counted_before_a_bad_line_is_kept(self, tmp_path: Path, monitor: Command) -> None:
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        good = as_csv(people(60, EQUAL))
        path.write_bytes(good + b"61,Female\n")
        says(monitor(path, *ASK, "--state", state), "line 62")
        path.write_bytes(good + b"61,Female,White,yes\n")
        assert monitor(path, *ASK, "--state", state, "--json").reports[-1]["rows"] == 61


def lines_of_groups(count: int, length: int) -> bytes:
    """Rows of so many groups with long names, every character of which takes the most bytes in a state."""
    names = [f"{i:03}".ljust(length - len("sex="), "\x01") for i in range(count)]
    return b"".join(json.dumps({"sex": name, "decision": "yes"}).encode() + b"\n" for name in names for _ in "ab")


def test_every_state_that_is_written_can_be_read_again(tmp_path: Path, monitor: Command) -> None:
    state = tmp_path / "s.json"
    data = lines_of_groups(500, 1000)
    for rows in (1000, 2000):
        ended = monitor(*ASK, "--state", state, "--json", stdin=data)
        assert ended.reports[-1]["rows"] == rows, ended.err


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_a_private_state_stays_private(tmp_path: Path, monitor: Command) -> None:
    state = tmp_path / "s.json"
    monitor(*ASK, "--state", state, stdin=as_csv(people(5)))
    before = state.read_bytes()
    state.chmod(0o600)
    monitor(*ASK, "--state", state, stdin=as_csv(people(5)))
    assert state.read_bytes() != before
    assert state.stat().st_mode & 0o777 == 0o600


def test_a_name_that_no_state_could_hold_is_refused_with_its_line(tmp_path: Path, monitor: Command) -> None:
    state = tmp_path / "s.json"
    data = as_jsonl(people(5)) + lines_of_groups(1, 1001)
    says(monitor(*ASK, "--state", state, stdin=data), "standard input, line 6:", "more than 1,000 characters")
    assert monitor(*ASK, "--state", state, "--json", stdin=as_jsonl(people(5))).reports[-1]["rows"] == 10


def test_a_state_in_use_is_refused_to_a_second_monitor_which_is_told_by_whom(tmp_path: Path, monitor: Command) -> None:
    state = tmp_path / "s.json"
    program = watching(state)
    try:
        # The command works in a child process where it can.
        holder = (tmp_path / ".s.json.lock").read_text()
        assert holder.isdigit()
        ended = monitor(*ASK, "--state", state, stdin=as_csv(people(50, EQUAL)))
        says(ended, str(state), f"process {holder} is using this state", "own --state")
    finally:
        program.communicate(timeout=30)
    assert sum(group["rows"] for group in json.loads(state.read_bytes())["groups"]) == 500
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_a_link_to_a_state_has_the_lock_of_the_state_and_stays_a_link(tmp_path: Path, monitor: Command) -> None:
    state, link = tmp_path / "s.json", tmp_path / "link.json"
    link.symlink_to(state)
    program = watching(state)
    try:
        ended = monitor(*ASK, "--state", link, stdin=as_csv(people(50, EQUAL)))
        says(ended, "is using this state", "own --state")
    finally:
        program.communicate(timeout=30)
    monitor(*ASK, "--state", link, stdin=as_csv(people(50, EQUAL)))
    assert link.is_symlink()
    assert sum(group["rows"] for group in json.loads(state.read_bytes())["groups"]) == 550


def test_a_link_that_leads_to_itself_is_one_message(tmp_path: Path, monitor: Command) -> None:
    (tmp_path / "s.json").symlink_to(tmp_path / "s.json")
    says(monitor(*ASK, "--state", tmp_path / "s.json", stdin=as_csv(people(9))), "s.json")


def test_a_lock_ends_with_the_process_that_held_it(tmp_path: Path, monitor: Command) -> None:
    state = tmp_path / "s.json"
    program = watching(state)
    program.kill()
    # The input stays open until the process has ended: its end would end the monitor in order, without a lock.
    program.wait(timeout=30)
    program.communicate(timeout=30)
    assert (tmp_path / ".s.json.lock").exists()
    assert monitor(*ASK, "--state", state, stdin=as_csv(people(50, EQUAL))).code == 3
    # Killed while it wrote, it leaves a part of a file too.
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".part"] == ["s.json"]


PROGRAM = "from fairchain.cli import main; main()"


def watching(state: Path) -> subprocess.Popen[bytes]:
    """A monitor that has counted 500 rows and waits for more."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "monitor", *ASK, "--state", str(state), "--every", "500", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(as_csv(people(500, EQUAL)))
    program.stdin.flush()
    assert json.loads(program.stdout.readline())["rows"] == 500
    return program


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_keep_the_state(number: int, code: int, tmp_path: Path) -> None:
    state = tmp_path / "s.json"
    program = watching(state)
    program.send_signal(number)
    # The input stays open until the process has ended: its end would end the monitor too, maybe before the signal does.
    assert program.wait(timeout=30) == code
    _, err = program.communicate()
    assert b"Stopped after 500 rows" in err
    assert sum(group["rows"] for group in json.loads(state.read_bytes())["groups"]) == 500
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_last_state_is_written_does_not_lose_it(
    number: int, tmp_path: Path, monitor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a stream cannot be read again."""

    def place(contents: dict[Path, bytes], **options: Any) -> None:
        os.kill(os.getpid(), number)
        atomic_write.place(contents, **options)

    # Without the command's own handler this signal would end the tests.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        monkeypatch.setattr("fairchain.monitoring.state.place", place)
        ended = monitor(*ASK, "--state", tmp_path / "s.json", "--json", stdin=as_csv(people(500, EQUAL)))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (ended.code, ended.reports[-1]["rows"]) == (3, 500)
    state = json.loads((tmp_path / "s.json").read_bytes())
    assert sum(group["rows"] for group in state["groups"]) == 500


def test_a_signal_just_before_a_wait_for_input_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between it and the wait Python has no instruction after which it looks for signals."""
    (read, write), wait = os.pipe(), select.select
    send = functools.partial(ctypes.CDLL(None)["raise"], int(signal.SIGINT))

    def just_before(*arguments: Any) -> Any:
        assert arguments[-1] < 1
        return list(map(operator.call, [send, functools.partial(wait, *arguments)]))[-1]

    monkeypatch.setattr(select, "select", just_before)
    monkeypatch.setattr(sys, "stdin", os.fdopen(read))
    with pytest.raises(KeyboardInterrupt), raising(KeyboardInterrupt):
        next(lines.LineSource(None).blocks(1, keep_unfinished=False))
    sys.stdin.close()
    os.close(write)

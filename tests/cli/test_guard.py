"""Promises of the process around a command: a crash is one message, and everything else is as without it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairchain import example
from fairchain.system.isolation import NO_MEMORY
from tests.crashes import CRASHES, write_question

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a command has no child process there")
MAIN = "from fairchain.cli import main; main()"


def command(*arguments: object, code: str = MAIN, **more: Any) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **(pipes | more))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def one_message(result: tuple[int, str, str], *parts: str) -> None:
    code, _, err = result
    assert code == 2, err
    assert err.startswith("fairchain: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in err


@pytest.mark.parametrize("name", CRASHES)
def test_a_network_that_crashes_the_runtime_ends_in_one_message_that_names_it(name: str, tmp_path: Path) -> None:
    make, sign = CRASHES[name]
    spec = write_question(tmp_path, make())
    code, out, err = ended(command("verify", spec, "--json"))
    one_message((code, out, err), f"{tmp_path / 'network.onnx'}: native code crashed ({sign}, ", "export it again")
    assert json.loads(out) == {"error": err.removeprefix("fairchain: ").rstrip(), "exit_code": 2}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("os._exit(0)", "ended the process (exit code 0) before there was a result"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed (SIGKILL), probably because it ran out of memory"),
    ],
)
def test_a_process_that_ends_without_a_result_is_no_verdict(body: str, part: str, tmp_path: Path) -> None:
    """Exit code 0 would mean fair."""
    (tmp_path / "ends.py").write_text(f"import os, signal\n\ndef predict(values):\n    {body}\n", encoding="utf-8")
    spec = write_question(tmp_path)
    one_message(ended(command("verify", spec, "--model", "python:ends:predict", cwd=tmp_path)), part)


def test_a_limit_of_memory_ends_in_one_message() -> None:
    """As under `ulimit -v`: numpy can be imported within this limit, and onnxruntime cannot."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (300 * 2**20, 300 * 2**20))

    code, out, err = ended(command("verify", example("census"), preexec_fn=limit))
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"fairchain: {NO_MEMORY}")
    assert "bug" not in err


WAITS = """
import os, signal, sys

def predict(values):
    print(os.getpid(), flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_that_ends_the_command_ends_all_of_it(number: signal.Signals, tmp_path: Path) -> None:
    """A child that went on would keep the pipe open, and `communicate` would wait for it."""
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    process = command("verify", write_question(tmp_path), "--model", "python:waits:predict", cwd=tmp_path)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert child != process.pid
    process.send_signal(number)
    code, _, err = ended(process)
    assert (code, err) == (-number, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_ignored(number: signal.Signals) -> None:
    """As under nohup, or for what a shell runs in the background."""
    code = f"import signal, os; signal.signal({int(number)}, signal.SIG_IGN); from fairchain.cli import main; main()"
    hook = f"import sys; sys.addaudithook(lambda event, _: event == 'import' and os.kill(os.getpid(), {int(number)})); "
    code = code.replace("from fairchain", hook + "from fairchain")
    assert ended(command("--version", code=code))[0] == 0


def test_control_c_on_a_terminal_reaches_the_command_once() -> None:
    """The terminal signals both processes: a second signal would interrupt where the first asks for what is known."""
    import pty

    arguments = ["verify", str(example("census")), "--threshold", "0.0091", "--delta", "1e-12", "--seconds", "50"]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", MAIN, *arguments])
    shown = b""
    while b"so far" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert b"UNDECIDED" in shown
    assert b"Traceback" not in shown


INTERRUPTED = """
import signal, sys
left = int(sys.argv.pop(1))

def hook(event, arguments):
    global left
    left -= 1
    if left == 0:
        signal.raise_signal(signal.SIGINT)

from fairchain.cli import main
sys.addaudithook(hook)
main()
"""


@pytest.mark.parametrize("moment", [1, 20, 150, 600, 1000, 1500, 2500])
def test_control_c_at_any_moment_is_one_line_or_the_verdict_that_is_known(moment: int) -> None:
    """At the n-th event of the interpreter: before the fork, in the import of click, numpy and onnxruntime, later.

    The last moments may come while rounds are sampled, or when the verdict is decided already.
    """
    code, out, err = ended(command(moment, "verify", example("credit"), "-q", code=INTERRUPTED))
    if code in (1, 3) and moment > 1500:
        assert out.startswith({1: "UNFAIR: ", 3: "UNDECIDED: "}[code])
    else:
        # click ends the line of "^C" first.
        assert (code, out, err.removeprefix("\n")) == (130, "", "fairchain: interrupted\n")


BROKEN = """
import sys
sys.modules["click"] = None
from fairchain.cli import main
main()
"""


def test_an_installation_that_is_broken_is_one_message_and_no_verdict() -> None:
    """A traceback has exit code 1, which would mean unfair."""
    one_message(ended(command("verify", example("credit"), code=BROKEN)), "cannot start", "install")

"""Promises about results that cannot be written: exit code 2, one message, and the result is shown all the same.

0, 1 and 3 are verdicts, and a gate believes them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import UnsupportedOperation
from pathlib import Path
from typing import Any

import pytest

from fairchain import example
from fairchain.system.isolation import NO_MEMORY
from tests.cli.command import Cli

HEAD = "FAIR: the largest gap is"
FULL = Path("/dev/full")
PROGRAM = [sys.executable, "-c", "from fairchain.cli import main; main()"]
posix = pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")

DECISIONS = "sex,decision\n" + "Female,yes\nMale,yes\nFemale,no\nMale,no\n" * 300
MONITOR = ["--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.5"]


def ended(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    # On a disk that is full Python leaves cut bytecode files, which every later import of the module fails on.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=env, **more
    )


def limited(size: int) -> Callable[[], None]:
    """A disk with room for files of so many bytes."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@posix
def test_a_verdict_on_a_full_disk_is_shown_on_standard_error() -> None:
    with FULL.open("w") as full:
        found = ended("verify", example("census"), "--json", stdout=full)
    assert found.returncode == 2
    plain, message = found.stderr[: found.stderr.rindex("}") + 1], found.stderr[found.stderr.rindex("}") + 2 :]
    assert json.loads(plain)["verdict"] == "FAIR"
    assert message == "fairchain: standard output: cannot be written (No space left on device)\n"


@posix
@pytest.mark.parametrize("number", [1, 2])
def test_closed_streams_give_their_number_to_no_other_file(number: int, tmp_path: Path) -> None:
    """A certificate that is opened as number 1 or 2 would get what is printed."""
    path = tmp_path / "certificate.json"
    found = ended(
        "verify", example("census"), "-q", "--certificate", path,
        stdout=subprocess.PIPE, preexec_fn=lambda: os.close(number),
    )  # fmt: skip
    assert json.loads(path.read_text())["claims"]["verdict"] == "FAIR"
    if number == 1:
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.startswith(HEAD)
        assert found.stderr.endswith("fairchain: standard output: cannot be written (it is closed)\n")
    else:
        assert found.returncode == 0
        assert found.stdout.startswith(HEAD)


@posix
def test_messages_that_nobody_can_see_change_no_exit_code(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        runs = [
            subprocess.run([*PROGRAM, "verify", str(spec), "-q"], stdout=subprocess.PIPE, stderr=full, check=False)
            for spec in (example("census"), tmp_path / "none.toml")
        ]
    assert [run.returncode for run in runs] == [0, 2]


@posix
def test_the_verdict_comes_before_files_that_a_full_disk_refuses(tmp_path: Path) -> None:
    """All files are tried: one may lie on another disk. Of those that do not fit, none is left half."""
    files = {option: tmp_path / option for option in ("certificate", "junit", "summary")}
    options = [part for option, path in files.items() for part in (f"--{option}", path)]
    found = ended(
        "verify", example("census"), "-q", *options, stdout=subprocess.PIPE, preexec_fn=limited(1500)
    )  # fmt: skip
    assert found.returncode == 2
    assert found.stdout.startswith(HEAD)
    assert found.stderr == f"fairchain: {files['certificate']}: cannot be written (File too large)\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit", "summary"]


@posix
@pytest.mark.parametrize("option", ["--certificate", "--junit", "--summary"])
@pytest.mark.parametrize("form", [[], ["-q"], ["--json"]], ids=str)
def test_each_file_of_a_verdict_that_cannot_be_written_is_exit_2(cli: Cli, option: str, form: list[str]) -> None:
    code, out, err = cli("verify", example("census"), option, FULL, *form)
    assert code == 2
    assert err == "fairchain: /dev/full: cannot be written (No space left on device)\n"
    if form == ["--json"]:
        assert json.loads(out)["verdict"] == "FAIR"
    else:
        assert out.startswith(HEAD)
        assert "Certificate:" not in out


@pytest.mark.parametrize("option", ["--certificate", "--junit", "--summary"])
def test_a_path_below_a_file_is_refused_before_the_work(
    cli: Cli, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairchain.verification.verify", lambda *_, **__: pytest.fail("no work should begin"))
    (tmp_path / "file").touch()
    code, out, err = cli("verify", example("census"), option, tmp_path / "file" / "x")
    assert (code, out) == (2, "")
    assert option in err


COMMANDS: dict[str, list[object]] = {
    "verify": ["verify", example("census")],
    "recheck": ["recheck", "{certificate}", "--model", example("census").with_suffix(".onnx"), "-q"],
    "explain": ["explain", example("census"), "--units", "features", "--rounds", "64"],
    "query": ["query", example("census"), 'P=? [ F "Y=>50K" ]', "--rounds", "64"],
    "export": ["export", example("census"), "--format", "drn", "--rounds", "64"],
    "monitor": ["monitor", "{decisions}", *MONITOR],
    "card": ["card", "{certificate}"],
    "compare": ["compare", "{certificate}", "{certificate}"],
    "demo": ["demo", "census"],
    "data": ["data", "list"],
    "schema": ["schema"],
    "completion": ["completion", "bash"],
    "help": ["--help"],
}


class Stream:
    """Standard output that fails as a disk or a pipe does."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise self._error

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise UnsupportedOperation


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import fairchain

    folder = tmp_path_factory.mktemp("given")
    fairchain.write_certificate(fairchain.verify(None, example("census")), folder / "certificate.json")
    (folder / "decisions.csv").write_text(DECISIONS)
    return {"{certificate}": folder / "certificate.json", "{decisions}": folder / "decisions.csv"}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("error", "code"), [(OSError(28, "No space left on device"), 2), (BrokenPipeError(32, "Broken pipe"), 141)]
)
def test_no_command_ends_with_a_verdict_when_its_output_fails(
    cli: Cli, command: str, error: OSError, code: int, given: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that went away has nobody to be told; else what was to be printed comes on standard error."""
    arguments = [given.get(str(each), each) for each in COMMANDS[command]]
    _, shown, _ = cli(*arguments)
    with monkeypatch.context() as context:
        context.setattr(sys, "stdout", Stream(error))
        found, _, err = cli(*arguments)
    assert found == code
    if code == 2:
        assert err.startswith(shown[:20])
        assert err.endswith("fairchain: standard output: cannot be written (No space left on device)\n")
    else:
        assert err == ""


@pytest.mark.parametrize("filename", ["verdict.json", "chain.json", "report.html"])
def test_an_audit_that_cannot_be_kept_tells_the_verdict(
    cli: Cli, tmp_path: Path, filename: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairchain.auditing import checkpoints
    from fairchain.errors import OutputError

    place = checkpoints.place

    def full(contents: dict[Path, bytes], **more: Any) -> None:
        if filename in {path.name for path in contents}:
            raise OutputError(f"{filename}: cannot be written (No space left on device)")
        place(contents, **more)

    monkeypatch.setattr(checkpoints, "place", full)
    code, _, err = cli("audit", example("census"), "-o", tmp_path / "audit")
    assert code == 2
    assert err.startswith(f"fairchain: {filename}: cannot be written (No space left on device); the verdict was FAIR: ")


@posix
def test_a_monitor_whose_state_cannot_be_written_says_what_it_knows(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(DECISIONS)
    found = ended(
        "monitor", tmp_path / "d.csv", *MONITOR, "--state", tmp_path / "state.json", "-q",
        stdout=subprocess.PIPE, preexec_fn=limited(200),
    )  # fmt: skip
    assert found.returncode == 2
    assert found.stdout.startswith("FAIR after")
    assert found.stderr.startswith(f"fairchain: {tmp_path / 'state.json'}: cannot be written (File too large); stopped")
    assert found.stderr.endswith("rows: FAIR\n")


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(), GeneratorExit(), BrokenPipeError(32, "x")], ids=repr)
def test_nothing_that_is_called_can_end_a_command_with_a_verdict(
    cli: Cli, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second line of defence behind `user_code`, for a call that nobody thought of."""

    def exits(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("fairchain.verification.verify", exits)
    code, out, err = cli("verify", example("census"))
    assert (code, out) == (2, "")
    assert err.startswith("fairchain: ")


@pytest.mark.parametrize("code", ["raise SystemExit(0)", "import sys; sys.exit()", "raise KeyboardInterrupt"])
@pytest.mark.parametrize("where", ["model", "import", "population"])
def test_python_code_of_the_caller_cannot_open_the_gate(
    cli: Cli, code: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_{where}"
    body = f"{code}\n" if where == "import" else ""
    (tmp_path / f"{name}.py").write_text(f"{body}def f(*rows):\n    {code}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    option = "--population" if where == "population" else "--model"
    status, out, err = cli("verify", example("census"), option, f"python:{name}:f")
    assert (status, out) == (2, "")
    assert err.startswith("fairchain: ")
    assert "SystemExit" in err or "KeyboardInterrupt" in err


def test_too_little_memory_is_no_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fairchain.verification.verify", fails)
    code, _, err = cli("verify", example("census"))
    assert code == 2
    assert NO_MEMORY in err


@posix
def test_code_that_ends_its_process_opens_no_gate_either(tmp_path: Path) -> None:
    """The command runs in a child process, whose exit code counts only together with a result."""
    (tmp_path / "own_exit.py").write_text("import os\ndef f(rows):\n    os._exit(0)\n")
    found = ended("verify", example("census"), "--model", "python:own_exit:f", stdout=subprocess.PIPE, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")

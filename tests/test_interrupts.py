"""Promises about Ctrl-C: it never unwinds an import, the first asks for what is known, and none is lost."""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from fairchain import Decision, example, load_spec, prepare, verify
from fairchain.system.interrupts import ONE_REQUEST, Interrupts, first_interrupt, install, is_interruption, raising
from fairchain.verification import sampling, verifier

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are others there")


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def handler() -> Iterator[Interrupts]:
    before, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    made = Interrupts()
    install(made)
    yield made
    signal.signal(signal.SIGINT, before)
    sys.unraisablehook = hook


def test_an_import_ends_before_control_c_is_raised(
    handler: Interrupts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pressed_here.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = sum(range(1000))\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # the import itself must not raise
        importlib.import_module("pressed_here")
        signal.pause()
    # A module whose import was unwound is not there.
    assert sys.modules.pop("pressed_here").whole == 499500


def test_a_second_control_c_does_not_wait_for_an_import(
    handler: Interrupts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that works for hours while it is imported can be stopped."""
    now = [0.0]
    monkeypatch.setattr("fairchain.system.interrupts.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Interrupts, "_later", lambda *_: True)
    monkeypatch.setattr(sys, "pressed_twice", lambda: (press(), now.append(now.pop() + 1), press()), raising=False)
    (tmp_path / "works_for_hours.py").write_text("import sys\nsys.pressed_twice()\nwhole = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("works_for_hours")
    assert "works_for_hours" not in sys.modules


@pytest.mark.parametrize("inner", [nullcontext, lambda: raising(KeyboardInterrupt)])
def test_an_exception_that_python_cannot_raise_is_raised_after_all(
    inner: Callable[[], AbstractContextManager[object]], handler: Interrupts
) -> None:
    """In a finalizer Python would print it and go on."""

    class Pressed:
        def __del__(self) -> None:
            press()

    with pytest.raises(KeyboardInterrupt), inner():  # noqa: PT012  # nor may deleting it
        pressed = Pressed()
        del pressed
        for _ in range(100):
            select.select([], [], [], ONE_REQUEST)
        pytest.fail("the signal was lost")


def test_after_the_result_control_c_is_ignored(handler: Interrupts) -> None:
    handler.close()
    press()


def test_a_handler_of_another_program_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        install(Interrupts())
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_calls_and_a_second_one_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fairchain.system.interrupts.time.monotonic", lambda: now[0])
    calls: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), first_interrupt(lambda: calls.append(1)):  # noqa: PT012
        press()
        # A sender that signals a process and then its group means one request.
        now[0] += ONE_REQUEST / 2
        press()
        now[0] += ONE_REQUEST
        calls.append(2)
        press()
    assert calls == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_raises_what_it_is_told_to() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, raising(lambda: SystemExit(143), signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with raising(RuntimeError):
            press()
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_an_import_made_of_control_c_is_still_one() -> None:
    error = ImportError("numpy could not be imported")
    error.__cause__ = RuntimeError()
    error.__cause__.__context__ = KeyboardInterrupt()
    assert is_interruption(error)
    assert not is_interruption(ImportError())


@pytest.mark.parametrize("moment", ["Sampler", "Answer", "assemble"])
def test_from_the_first_round_on_control_c_returns_a_verdict(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first batch, and after the last one too."""
    module = verifier if moment == "assemble" else sampling
    original: Any = getattr(module, moment)

    def pressed(*arguments: Any, **options: Any) -> Any:
        press()
        return original(*arguments, **options)

    monkeypatch.setattr(module, moment, pressed)
    verdict = verify(None, load_spec(example("credit")))
    known = (Decision.UNDECIDED, "interrupted", 0) if moment == "Sampler" else (Decision.UNFAIR, "decided", 1)
    assert (verdict.decision, verdict.stopped, min(verdict.rounds, 1)) == known


def test_before_the_first_round_control_c_is_a_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    original = prepare.seed_of

    def pressed(*arguments: Any, **options: Any) -> Any:
        press()
        return original(*arguments, **options)

    monkeypatch.setattr(prepare, "seed_of", pressed)
    with pytest.raises(KeyboardInterrupt):
        verify(None, load_spec(example("credit")))


def test_a_signal_that_waits_for_an_import_is_raised_before_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that sends it again may be late; the run would be over by then."""
    handler = Interrupts()
    monkeypatch.setattr(handler, "_later", lambda _: True)
    monkeypatch.setattr("fairchain.system.interrupts._importing", lambda _: True)
    monkeypatch.setattr("_signal.getsignal", lambda _: handler)
    handler(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt), first_interrupt(pytest.fail):
        pytest.fail("it began")
    # The one that was sent again and comes late is not a second request.
    handler._raised, handler._sent_again = float("-inf"), True
    handler(signal.SIGINT, None)

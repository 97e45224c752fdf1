"""Promises of `user_code`: whatever code of the caller raises is one error that names it, and Ctrl-C stays Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

from fairchain import as_frames, example, load_spec, verify
from fairchain.errors import DataError, FairchainError, ModelError
from fairchain.models.adapters.from_function import FAILED_ON
from fairchain.populations.functions import FUNCTION_FAILED
from fairchain.spec import Spec, revise
from fairchain.system.user_code import FAILED_WITH, described, user_code
from tests.messages import says


class OwnError(BaseException):
    """What no `except Exception` sees."""


EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit, OwnError]
exits = pytest.mark.parametrize("error", EXITS)
raised = pytest.mark.parametrize("error", [*EXITS, ValueError])


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load_spec(example("census"))


def late(error: type[BaseException]) -> Callable[[Any], Any]:
    """A model that passes every check, and raises in the run."""
    calls = []

    def decide(rows: Any) -> Any:
        calls.append(len(rows))
        if len(calls) > 60 or len(rows) not in (1, 3, 16, 64, 250, 1000):
            raise error(0)
        return np.zeros(len(rows), np.int64)

    return decide


@raised
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("wrapped", [lambda f: f, as_frames], ids=["array", "frame"])
def test_a_model_function_cannot_end_the_program(
    error: type[BaseException], spec: Spec, workers: int, wrapped: Callable[[Any], Any]
) -> None:
    with pytest.raises(ModelError, match="late.*decide: " + says(f"{FAILED_ON} {error.__name__}").removeprefix("(?s)")):
        verify(wrapped(late(error)), spec, workers=workers)


@raised
def test_a_function_that_draws_inputs_cannot_end_the_program(error: type[BaseException], spec: Spec) -> None:
    def people(rng: np.random.Generator, count: int) -> NoReturn:
        raise error(0)

    asked = revise(spec, population={"kind": "callable"})
    with pytest.raises(DataError, match=says(FUNCTION_FAILED)):
        verify(None, asked, population=people)


@raised
def test_what_a_function_returns_cannot_end_the_program_either(error: type[BaseException], spec: Spec) -> None:
    class Answer:
        def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
            raise error(0)

    with pytest.raises(ModelError, match=error.__name__):
        verify(lambda _: Answer(), spec)


@pytest.mark.torch
@exits
def test_a_torch_module_cannot_end_the_program(error: type[BaseException], spec: Spec) -> None:
    import torch

    class Module(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, _: Any) -> NoReturn:
            raise error(0)

    with pytest.raises(ModelError, match=f"Module.*{error.__name__}"):
        verify(Module(), spec)


@exits
def test_an_estimator_cannot_end_the_program(error: type[BaseException], spec: Spec) -> None:
    base = pytest.importorskip("sklearn.base")

    class Estimator(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[name-defined,misc]
        classes_ = np.array([0, 1])

        def predict(self, _: Any) -> NoReturn:
            raise error(0)

    with pytest.raises(ModelError, match=f"Estimator.*{error.__name__}"):
        verify(Estimator(), spec)


@exits
def test_an_object_that_only_looks_like_a_model_cannot_end_the_program(error: type[BaseException], spec: Spec) -> None:
    class Strange:
        def __getattr__(self, name: str) -> NoReturn:
            raise error(0)

    with pytest.raises(ModelError, match=f"Strange.*{error.__name__}"):
        verify(Strange(), spec)


def test_an_exception_that_cannot_be_printed_is_named_by_its_type() -> None:
    class MuteError(Exception):
        def __str__(self) -> NoReturn:
            raise SystemExit(0)

    with (
        pytest.raises(ModelError, match=f"^function f: {FAILED_WITH} MuteError$"),
        user_code("function f"),
    ):
        raise MuteError


@pytest.mark.parametrize("handler", [signal.default_int_handler, None], ids=["python's own", "another"])
def test_ctrl_c_in_code_of_the_caller_stays_ctrl_c(handler: Any) -> None:
    """The signal is sent by this process to itself, so it arrives inside the block."""

    def stop(*_: object) -> NoReturn:
        raise OwnError

    before = signal.signal(signal.SIGINT, handler or stop)
    try:
        with pytest.raises(KeyboardInterrupt if handler else OwnError), user_code("function f"):
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is (handler or stop)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_an_interruption_is_the_codes_own() -> None:
    found: list[BaseException] = []

    def work() -> None:
        try:
            with user_code("function f"):
                raise KeyboardInterrupt
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [ModelError]


def test_errors_that_a_block_handles_itself_pass_unless_they_are_exits() -> None:
    with pytest.raises(ZeroDivisionError), user_code("f", exits_only=True):
        raise ZeroDivisionError
    with (
        pytest.raises(FairchainError, match=f"^f: {FAILED_WITH} SystemExit$"),
        user_code("f", exits_only=True),
    ):
        raise SystemExit


def test_an_exception_without_a_message_is_named_once() -> None:
    assert described(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert described(SystemExit(0)) == "SystemExit: 0"

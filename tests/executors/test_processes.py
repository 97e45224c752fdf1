"""Other processes give the results of this one, also if some of them are killed, late or short of memory."""

from __future__ import annotations

import os
import pickle
import pickletools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fairchain import (
    ExecutorError,
    SpecError,
    check,
    example,
    load_spec,
    make_certificate,
    recheck,
    verify,
    write_certificate,
)
from fairchain.executors import Workers, open_workers, sending, tasks, workers
from fairchain.executors.connecting import EXECUTOR_FORMS, NOT_AN_EXECUTOR
from fairchain.executors.processes import LostWorkerError, Processes
from fairchain.executors.sending import LOST_WORK
from fairchain.executors.tasks import NOT_COPIED, Job, Sealed, own_facts, run_units
from fairchain.executors.workers import TOO_FEW_WORKERS
from fairchain.models.adapters import from_function
from fairchain.models.adapters.from_function import is_stateless
from fairchain.models.base import DECIDES_OTHERWISE
from tests.executors.accidents import Always, Once, square
from tests.executors.stages import STAGES, decides_by_process
from tests.messages import says

SQUARES = [unit * unit for unit in range(300)]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2) as pool:
        yield pool


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is sent, however small."""
    monkeypatch.setattr(workers, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(workers, "WHILE_LOADING", 0.0)


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_the_same_result_on_processes(stage: str, processes: Processes) -> None:
    assert STAGES[stage](processes) == STAGES[stage](None)


def test_results_come_in_the_order_of_the_units(processes: Processes) -> None:
    crew = Workers(processes, 2)
    assert list(crew.map(square, range(300))) == SQUARES
    assert set(crew.facts) == {own_facts()}
    assert sum(crew.facts.values()) <= 2


@pytest.mark.usefixtures("sent")
def test_a_certificate_names_the_processes_that_computed_it(processes: Processes) -> None:
    verdict = verify(None, example("credit"), epsilon=0.02, executor=processes)
    (told,) = make_certificate(verdict)["times"]["workers"]
    assert told.endswith(f"processes with {own_facts()}")
    assert "workers" not in make_certificate(verify(None, example("credit"), epsilon=0.02))["times"]


@pytest.mark.parametrize("accident", ["kill", "memory"])
def test_what_a_lost_worker_had_is_computed_again(accident: str, processes: Processes, tmp_path: Path) -> None:
    crew = Workers(processes, 2)
    assert list(crew.map(Once(tmp_path, accident, 120), range(300))) == SQUARES
    assert (tmp_path / f"{accident}-120").exists()


def test_a_worker_that_hangs_does_not_hold_up_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LATE_SECONDS", 0.3)
    with Processes(2) as pool:
        assert list(Workers(pool, 2).map(Once(tmp_path, "stop", 290), range(300))) == SQUARES
    # Leaving the block ended the process that still hangs.
    assert pool.pids == ()


@pytest.mark.parametrize(("accident", "named"), [("kill", "LostWorkerError"), ("memory", "memory")])
def test_work_that_is_lost_every_time_ends_with_one_message(
    accident: str, named: str, processes: Processes, tmp_path: Path
) -> None:
    with pytest.raises(ExecutorError, match=says(LOST_WORK)) as caught:
        list(Workers(processes, 2).map(Always(tmp_path, accident, 5), range(20)))
    assert named in str(caught.value)


def test_an_error_of_the_work_is_raised_and_not_tried_again(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the work itself is wrong"):
        list(Workers(processes, 2).map(Once(tmp_path, "error", 5), range(20)))


def test_a_run_that_is_halted_yields_the_first_units(processes: Processes, tmp_path: Path) -> None:
    left, work = iter([False] * 6), Once(tmp_path, "none", -1)
    found = list(Workers(processes, 2).map(work, range(10_000), halted=lambda _: next(left, True)))
    assert 0 < len(found) < 10_000
    assert found == [unit * unit for unit in range(len(found))]


def test_a_run_that_is_halted_at_once_has_its_first_unit_all_the_same(processes: Processes) -> None:
    assert list(Workers(processes, 2).map(square, range(100), halted=lambda _: True)) == [0]


class Starting(Executor):
    """Runs at once what it is sent, but takes its time to load the work."""

    def __init__(self) -> None:
        self.loading: list[tuple[Future[Any], Any]] = []
        self.sent = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if units := args[2].value:
            self.sent += len(units)
            future.set_result(fn(*args, **kwargs))
        else:
            self.loading.append((future, partial(fn, *args, **kwargs)))
        return future

    def load(self) -> None:
        """Let all processes have loaded the work."""
        for future, call in self.loading:
            future.set_result(call())


def test_nobody_waits_for_processes_that_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short units are computed here until a process has loaded the work, and by the others from then on."""
    monkeypatch.setattr(workers, "SMALL_SECONDS", 0.0)
    pool = Starting()
    crew = Workers(pool, 2)
    # How long a unit takes is known only after the first.
    assert list(crew.map(square, range(1))) == SQUARES[:1]
    found = []
    for result in crew.map(square, range(300)):
        found.append(result)
        if len(found) == 100:
            assert pool.sent == 0
            pool.load()
    assert found == SQUARES
    assert pool.sent == 200
    assert len(pool.loading) == 2


def test_processes_load_the_work_while_batches_are_still_computed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SMALL_SECONDS", 1.0)
    pool = Starting()
    crew = Workers(pool, 2)
    for _ in range(2):
        assert list(crew.map(square, range(1))) == SQUARES[:1]
        assert not pool.loading
    crew.took(1.1, 1, 1.0)
    assert list(crew.map(square, range(1))) == SQUARES[:1]
    assert len(pool.loading) == 2
    assert pool.sent == 0
    # Another function is loaded too, once its time is known.
    pool.loading.clear()
    for _ in range(2):
        assert crew.one(abs, -3, 1.0) == 3
    assert len(pool.loading) == 2


class Recording(Executor):
    """Runs in threads what it is sent, as bytes, like another process would."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.pool = ThreadPoolExecutor(2)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        content = pickle.dumps((fn, args, kwargs))
        self.sizes.append(len(content))
        return self.pool.submit(_unpickled, content)


def _unpickled(content: bytes) -> Any:
    function, args, kwargs = pickle.loads(content)
    return pickle.loads(pickle.dumps(function(*args, **kwargs)))


class Named:
    """A unit, and a result, of a class of its own."""

    def __init__(self, number: int) -> None:
        self.number = number


def squared(unit: Named) -> Named:
    return Named(unit.number**2)


def _modules(value: Any) -> set[str]:
    """Return the modules that are imported to read a pickled value."""
    codes = pickletools.genops(pickle.dumps(value, protocol=2))
    return {name.split(" ")[0] for code, name, _ in codes if code.name == "GLOBAL"}


class Reading(Recording):
    """Notes the modules that a cluster imports to read a message or a reply."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: set[str] = set()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.modules |= _modules((fn, args, kwargs)) | _modules(fn(*args, **kwargs))
        return super().submit(fn, *args, **kwargs)


def test_the_thread_that_reads_messages_imports_nothing_of_the_work() -> None:
    """A cluster reads in a thread of its own: while another thread imported, a worker lost its connection."""
    executor = Reading()
    found = Workers(executor, 2).map(squared, [Named(unit) for unit in range(300)])
    assert [each.number for each in found] == SQUARES
    # Bytes need modules that every process has.
    assert executor.modules - {"__builtin__", "_codecs"} == {"fairchain.executors.tasks"}


class Together(Executor):
    """Answers nothing until it is asked a second time, then both times at once."""

    def __init__(self) -> None:
        self.held: dict[bytes, Future[Any]] = {}
        self.twice = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        units, future = pickle.dumps(args[-1]), Future[Any]()
        if units in self.held:
            for each in (self.held.pop(units), future):
                each.set_result(fn(*args, **kwargs))
            self.twice += 1
        else:
            self.held[units] = future
        return future


def test_a_late_worker_may_answer_together_with_its_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LATE_SECONDS", "FIRST_SECONDS", "LATE"):
        monkeypatch.setattr(sending, name, 0)
    monkeypatch.setattr(sending, "LOOK_SECONDS", 0.001)
    executor = Together()
    assert list(Workers(executor, 2).map(square, range(300))) == SQUARES
    assert executor.twice


def test_a_large_job_is_sent_once_for_each_worker_and_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SMALL_JOB", 0)
    executor = Recording()
    crew = Workers(executor, 2)
    assert list(crew.map(square, range(300))) == SQUARES
    with_job = [size for size in executor.sizes if size > min(executor.sizes) + 50]
    assert len(with_job) <= 4 < len(executor.sizes)
    # A worker that forgot the job asks for it.
    tasks._jobs.clear()
    assert list(crew.map(square, range(300))) == SQUARES


def test_a_worker_keeps_few_jobs() -> None:
    for number in range(tasks.MOST_JOBS + 3):
        job = Job.of(Once(Path(str(number)), "kill", -1))
        assert list(run_units(job.sha256, job, Sealed([2])).value.results) == [4]
    assert len(tasks._jobs) == tasks.MOST_JOBS


def test_a_worker_with_another_version_is_refused() -> None:
    job = Job(pickle.dumps(square), "another", fairchain="0.0.1")
    reply = run_units(job.sha256, job, Sealed([1])).value
    assert isinstance(reply.error, ExecutorError)
    assert "install the same version on both" in str(reply.error)


class Altering(Executor):
    """Computes what it is sent, and changes its replies."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_result(self.change(fn(*args, **kwargs).value))
        return future


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda reply: Sealed(msgspec.structs.replace(reply, results=reply.results[:-1])), "0 results for 1 units"),
        (lambda reply: Sealed(msgspec.structs.replace(reply, results=[*reply.results, 1])), "2 results for 1 units"),
        (lambda _: None, "a reply of type NoneType"),
    ],
)
def test_a_reply_that_does_not_fit_the_work_is_no_result(change: Any, words: str) -> None:
    """Too few results, or too many, moved the others to units that they do not belong to."""
    with pytest.raises(ExecutorError, match=words):
        list(Workers(Altering(change), 1).map(square, range(300), sizes=[1e9] * 300))


@pytest.mark.usefixtures("sent")
def test_counts_that_a_worker_invents_are_believed_and_rejected_by_a_recheck(tmp_path: Path) -> None:
    """The threat model: workers belong to the issuer, whom a checker does not trust."""

    def all_alike(reply: Any) -> Any:
        alike = [(np.full_like(counts, counts.max()), labels) for counts, labels in reply.results]
        return Sealed(msgspec.structs.replace(reply, results=alike))

    spec = load_spec(example("credit"))
    honest, invented = (
        verify(None, spec, epsilon=0.02, executor=Altering(change), workers=2) for change in (Sealed, all_alike)
    )
    assert honest.gap == verify(None, spec, epsilon=0.02).gap
    assert invented.gap.high < honest.gap.low
    write_certificate(invented, tmp_path / "certificate.json")
    found = recheck(tmp_path / "certificate.json", spec.model.path)
    assert (found.conclusion, [claim.name for claim in found.claims if not claim.holds]) == ("REJECTED", ["re-run"])


@pytest.mark.usefixtures("sent")
def test_a_worker_that_decides_otherwise_is_an_error(monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    spec = load_spec(example("credit"))
    with pytest.raises(ExecutorError, match=says(DECIDES_OTHERWISE)):
        verify(decides_by_process, spec, decision="label", epsilon=0.02, executor=processes)


@pytest.mark.usefixtures("sent")
def test_a_model_that_cannot_be_copied_is_refused_with_a_remedy(processes: Processes) -> None:
    def model(values: Any) -> Any:
        return (values[:, 0] > 1).astype(int)

    with pytest.raises(ExecutorError, match=says(NOT_COPIED)):
        verify(model, load_spec(example("credit")), decision="label", epsilon=0.02, executor=processes)


def test_a_process_finds_modules_of_the_working_directory_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module_of_the_user.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit('taken for numpy')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    import own_module_of_the_user  # type: ignore[import-not-found]

    with Processes(1) as pool:
        assert pool.submit(own_module_of_the_user.double, 4).result() == 8
        assert pool.submit(own_facts).result() == own_facts()


def test_a_process_does_not_run_the_main_module_again_and_ends_with_its_parent(tmp_path: Path) -> None:
    with Processes(1) as pool:
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() is not None
        (pid,) = pool.pids
        with pytest.raises(LostWorkerError, match="exit code 3"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(os.getpid).result() != pid
    deadline = time.monotonic() + 30
    while pool.pids and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert pool.pids == ()


@pytest.mark.parametrize("name", ["dask", "dask://", "dask://host", "ray://host:x", "spark://h:1", "dask://h:1/x"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with (
        pytest.raises(ExecutorError, match=says(f"unknown name {name!r}; expected {EXECUTOR_FORMS}")),
        open_workers(None, name),
    ):
        pass


def test_something_else_than_an_executor_is_refused() -> None:
    with pytest.raises(ExecutorError, match=says(NOT_AN_EXECUTOR, type="int")), open_workers(None, 3):  # type: ignore[arg-type]
        pass
    with pytest.raises(SpecError, match=says(TOO_FEW_WORKERS, workers="0")), open_workers(0):
        pass


def test_threads_of_the_caller_are_used_as_they_are() -> None:
    with ThreadPoolExecutor(3) as pool, open_workers(None, pool) as opened:
        assert (opened.count, opened.remote) == (3, False)
        assert list(opened.map(lambda unit: unit + 1, range(5))) == [1, 2, 3, 4, 5]


# -- Python models use processes by themselves -----------------------------------------------------------------------


def test_a_fitted_model_is_tried_in_processes_and_the_trial_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock on which evaluating takes long: the same rates, from other processes; short calls are not divided."""
    monkeypatch.setattr(workers, "TRIAL_SECONDS", 1e-9)
    monkeypatch.setattr(workers, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(workers, "LEAST_GAIN", 0.0)
    # Several calls on any machine, however fast it is.
    monkeypatch.setattr(from_function.FunctionModel, "rows_per_call", lambda *_: 500)
    tree = pytest.importorskip("sklearn.tree")
    random = np.random.default_rng(3)
    rows = {"age": random.normal(40, 9, 3000), "sex": random.integers(0, 2, 3000)}
    inputs = np.column_stack(list(rows.values()))
    model = tree.DecisionTreeClassifier(max_depth=4, random_state=0).fit(inputs, inputs.sum(axis=1) > 40)
    found = []
    for count, divided in ((1, 0.0), (2, 0.0), (2, 3600.0)):
        monkeypatch.setattr(from_function, "DIVIDED", divided)
        found.append(check(model, rows, protected="sex", labels=("no", "yes"), workers=count))
    assert found[0].groups == found[1].groups == found[2].groups
    for each in (found[0], found[2]):
        assert each.workers == ()
        assert not any("trial" in note for note in each.notes)
    assert any("The model is evaluated in 2 processes: in a trial" in note for note in found[1].notes)
    assert found[1].workers


def test_processes_that_are_not_faster_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(workers, "LEAST_GAIN", 1e9)
    with open_workers(2) as crew:
        crew.allow_processes()
        assert list(crew.map(square, range(300))) == SQUARES
        assert not crew.remote
        assert "evaluated in 1 process: in a trial 2 processes" in crew.note


def test_work_that_cannot_be_copied_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TRIAL_SECONDS", 0.0)
    with open_workers(2) as crew:
        crew.allow_processes()
        assert list(crew.map(lambda unit: unit * unit, range(300))) == SQUARES
        assert "evaluated in one process: the work cannot be copied" in crew.note


STATE = {"calls": 0}


def keeps_state(values: Any) -> Any:
    STATE["calls"] += 1
    return values[:, 0] > 1


def test_only_code_without_a_state_is_tried_in_processes() -> None:
    assert is_stateless(decides_by_process)
    assert not is_stateless(keeps_state)
    assert not is_stateless(Once(Path(), "none", 0))
    assert not is_stateless(lambda values: values[:, 0] > 1)

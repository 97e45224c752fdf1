"""Dask and Ray clusters of this machine give the results of threads, also if their workers are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairchain import ExecutorError
from fairchain.executors import Workers, open_workers, sending, workers
from fairchain.executors.connecting import NO_SCHEDULER, connected
from fairchain.executors.sending import LOST_WORK
from tests.executors.accidents import Always, Killing, Once
from tests.executors.stages import STAGES, audited
from tests.messages import says

ROOT = Path(__file__).parents[2]
# Workers import these tests, and the package of the same checkout.
PATHS = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
EVERY_STAGE = STAGES | {"audited": audited}
SQUARES = [unit * unit for unit in range(300)]
DASK, RAY = pytest.mark.dask, pytest.mark.ray
CLUSTERS = [pytest.param("dask", marks=DASK), pytest.param("ray", marks=RAY)]


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    import dask

    paths = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = PATHS
    # A cluster gives up a worker for good if it happens to be down some seconds after another time that it was.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
    ):
        yield cluster
    if paths is None:
        del os.environ["PYTHONPATH"]


@pytest.fixture(scope="module")
def ray() -> Iterator[Executor]:
    package = pytest.importorskip("ray")
    from fairchain.executors.connecting import RayExecutor

    package.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": PATHS}},
    )
    yield RayExecutor()
    package.shutdown()


@pytest.fixture
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Executor | str:
    """The cluster by its kind; everything is sent there, however small."""
    monkeypatch.setattr(workers, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(workers, "WHILE_LOADING", 0.0)
    cluster = request.getfixturevalue(request.param)
    if isinstance(cluster, Executor):
        return cluster
    _with_all_workers(cluster)
    return str(cluster.scheduler_address.replace("tcp://", "dask://"))


def _with_all_workers(cluster: Any) -> None:
    """Let workers that a test stopped go on, and wait for those that it killed: two for every test."""
    import distributed

    for nanny in cluster.workers.values():
        pid = getattr(nanny.process, "pid", None)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    cluster.scale(2)
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("executor", CLUSTERS, indirect=True)
class TestCluster:
    @pytest.mark.parametrize("stage", EVERY_STAGE)
    def test_every_stage_has_the_same_result_as_on_threads(self, executor: Executor | str, stage: str) -> None:
        assert EVERY_STAGE[stage](executor) == EVERY_STAGE[stage](None)

    def test_a_killed_worker_and_one_short_of_memory_change_nothing(
        self, executor: Executor | str, tmp_path: Path
    ) -> None:
        with open_workers(None, executor) as crew:
            for accident in ("kill", "memory"):
                assert list(crew.map(Once(tmp_path, accident, 120), range(300))) == SQUARES
                assert (tmp_path / f"{accident}-120").exists()
            assert crew.facts

    def test_a_worker_that_hangs_does_not_hold_up_the_run(
        self, executor: Executor | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A group is given up after 30 seconds: new workers of a busy machine need some.
        monkeypatch.setattr(sending, "LATE_SECONDS", 2.0)
        with open_workers(None, executor) as crew:
            assert list(crew.map(Once(tmp_path, "stop", 290), range(300))) == SQUARES

    @pytest.mark.parametrize("stage", STAGES)
    def test_workers_that_are_killed_in_the_middle_of_a_run_change_nothing(
        self, executor: Executor | str, stage: str, tmp_path: Path
    ) -> None:
        expected = STAGES[stage](None)
        # A call that is late is sent again, and the run may end before the one that was to be lost is computed.
        for _ in range(3):
            with connected(executor, None) as (pool, count):
                assert STAGES[stage](Killing(pool, count, tmp_path)) == expected
            if list(tmp_path.glob("killed-*")):
                break
        assert list(tmp_path.glob("killed-*"))

    def test_work_that_kills_every_worker_ends_with_one_message(self, executor: Executor | str, tmp_path: Path) -> None:
        with (
            open_workers(None, executor) as crew,
            pytest.raises(ExecutorError, match=says(LOST_WORK)),
        ):
            list(crew.map(Always(tmp_path, "kill", 5), range(20)))


@DASK
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_is_gone_ends_the_run_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LATE_SECONDS", 0.5)
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=False)
    client = distributed.Client(cluster, set_as_default=False)
    squares = Workers(client.get_executor(pure=False), 1).map(Once(tmp_path, "none", -1), range(5000))
    found = [next(squares) for _ in range(1000)]
    assert found == [unit * unit for unit in range(1000)]
    cluster.close()
    with pytest.raises(ExecutorError, match=says(LOST_WORK)):
        list(squares)
    client.close()


@DASK
def test_an_address_without_a_scheduler_is_one_message() -> None:
    with (
        pytest.raises(ExecutorError, match=says(NO_SCHEDULER, address="127.0.0.1:9")),
        open_workers(None, "dask://127.0.0.1:9"),
    ):
        pass

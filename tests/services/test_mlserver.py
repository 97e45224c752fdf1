"""Services: a real MLServer process with scikit-learn models. Its environment is FAIRCHAIN_MLSERVER."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import ModelError, Service, check, parse_spec, verify
from fairchain.models.adapters.http_client import REFUSED
from tests.messages import says
from tests.services import serve_mlserver

pytestmark = pytest.mark.services
ENVIRONMENT = Path(os.environ.get("FAIRCHAIN_MLSERVER", Path(__file__).parents[2] / ".venv-mlserver"))
TEXTS = [
    f"{mood} {who} {what}"
    for mood in ("A good", "What a bad", "The, kind", "Oh no! The")
    for who in ("muslim", "christian", "Muslim", "Christian")
    for what in ("neighbour", "cook!", "teacher.", "bad driver", "\u00fcber-fan")
]


def rows() -> dict[str, list[Any]]:
    random, count = np.random.default_rng(11), 1500
    sex = random.choice(["Female", "Male"], count)
    hours = random.integers(5, 80, count) + 8 * (sex == "Male")
    age = random.integers(17, 90, count)
    chance = 1 / (1 + np.exp(-(0.06 * hours + 0.03 * age - 4.4)))
    return {
        "sex": sex.tolist(),
        "workclass": random.choice(["Private", "Self-emp", "Gov, local", 'Other "x"'], count).tolist(),
        "occupation": random.choice(["Sales", "Tech", "Caf\u00e9"], count).tolist(),
        "age": age.tolist(),
        "hours": hours.tolist(),
        "income": np.where(random.random(count) < chance, ">50K", "<=50K").tolist(),
    }


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A process of MLServer, its folder, and its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.http, grpc, metrics = free_ports(3)
        settings = {"host": "127.0.0.1", "http_port": self.http, "grpc_port": grpc, "metrics_port": metrics}
        (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0, "debug": False}))
        self.start()

    def start(self) -> None:
        command = [str(ENVIRONMENT / "bin" / "mlserver"), "start", str(self.folder)]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        while True:
            try:
                for name in ("income", "numbers", "texts"):
                    urllib.request.urlopen(f"{self.url}/v2/models/{name}/ready", timeout=5).close()
            except OSError:
                assert self.process.poll() is None, (self.folder / "server.log").read_text()[-3000:]
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()[-3000:]
                time.sleep(0.2)
            else:
                return

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    def model(self, name: str) -> str:
        return f"{self.url}/v2/models/{name}"

    def own(self, name: str) -> Any:
        return np.array(json.loads((self.folder / f"{name}.json").read_text()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not (ENVIRONMENT / "bin" / "mlserver").exists():
        assert "FAIRCHAIN_NO_SKIP" not in os.environ, f"no MLServer in {ENVIRONMENT}"
        pytest.skip("MLServer is not installed; make .venv-mlserver/done")
    folder = tmp_path_factory.mktemp("mlserver")
    import csv

    data = rows()
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(data)
        writer.writerows(zip(*data.values(), strict=True))
    (folder / "all_texts.json").write_text(json.dumps(TEXTS))
    script = [str(ENVIRONMENT / "bin" / "python"), serve_mlserver_path(), str(folder)]
    subprocess.run([*script, str(folder / "rows.csv"), str(folder / "all_texts.json")], check=True)
    running = Server(folder)
    yield running
    running.kill()


def serve_mlserver_path() -> str:
    return str(Path(__file__).with_name("serve_mlserver.py"))


def gap_of(chosen: Any) -> float:
    sex = np.array(rows()["sex"])
    return float(abs(chosen[sex == "Male"].mean() - chosen[sex == "Female"].mean()))


def test_a_pipeline_of_columns_has_the_gap_of_its_own_predictions(server: Server) -> None:
    service = Service(server.model("income"))
    found = check(service, rows(), protected="sex", label="income", reading="population", labels=["<=50K", ">50K"])
    assert found.gap.estimate == pytest.approx(gap_of(server.own("income")), abs=1e-12)
    assert "version v7" in " ".join(found.notes)
    assert service.retries == 0


def test_an_array_with_probabilities(server: Server) -> None:
    data = rows()
    spec = parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": "argmax", "output": "predict_proba"},
            "feature": [
                {"name": "sex", "kind": "category", "values": ["Female", "Male"], "model_input": False},
                {"name": "age", "kind": "integer", "low": 17, "high": 90},
                {"name": "hours", "kind": "integer", "low": 0, "high": 100},
            ],
            "property": {"protected": ["sex"], "kind": "difference", "threshold": 0.1, "outcome": "yes"},
            "population": {"kind": "table", "as": "population"},
        }
    )
    found = verify(server.model("numbers"), spec, data={name: data[name] for name in ("sex", "age", "hours")})
    assert found.gap.estimate == pytest.approx(gap_of(server.own("numbers")), abs=1e-12)


def test_raw_texts_have_the_decisions_of_the_pipeline_itself(server: Server) -> None:
    terms = {"muslim": ["muslim"], "christian": ["christian"]}
    found = check(server.model("texts"), {"comment": TEXTS}, text="comment", terms=terms, labels=["ok", "flagged"])
    chosen, christian = server.own("texts"), np.array(["hristian" in text for text in TEXTS])
    truth = abs(chosen[christian].mean() - chosen[~christian].mean())
    assert found.gap.estimate == pytest.approx(truth, abs=1e-12)


def test_what_the_server_refuses_is_quoted(server: Server) -> None:
    with pytest.raises(ModelError, match=says(REFUSED, status="404") + "Model nothing not found"):
        check(server.model("nothing"), rows(), protected="sex", labels=["no", "yes"])


CHILD = """
import json, sys
from fairchain import Service, check
from tests.services.test_mlserver import rows
model = Service(sys.argv[1], journal=sys.argv[2], connections=2, rows_per_request=8, retries=0)
found = check(model, rows(), protected="sex", reading="population", labels=["<=50K", ">50K"])
print(json.dumps({"requests": model.requests, **found.to_dict(), "seconds": 0}))
"""


def test_a_run_whose_server_and_client_were_killed_continues(server: Server, tmp_path: Path) -> None:
    """Half way the server is killed, then the client; the journal has what was answered, and nothing else is asked."""
    journal = tmp_path / "journal"
    environment = {**os.environ, "FAIRCHAIN_CACHE": str(tmp_path / "cache")}
    arguments = [sys.executable, "-c", CHILD, server.model("income"), str(journal)]
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    while not journal.exists() or journal.read_bytes().count(b'"keys"') < 20:
        assert first.poll() is None
        time.sleep(0.01)
    server.kill()
    first.kill()
    first.wait()
    kept = journal.read_bytes().count(b"\n") - 1
    assert kept < 120
    server.start()
    second = json.loads(subprocess.run(arguments, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    third = json.loads(subprocess.run(arguments, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    assert third.pop("requests") == 0
    second.pop("requests")
    assert second == third
    assert second["gap"]["estimate"] == pytest.approx(gap_of(server.own("income")), abs=1e-12)
    distinct = len(set(zip(*(rows()[name] for name in serve_mlserver.WORDS + serve_mlserver.NUMBERS), strict=True)))
    answers = sum(len(json.loads(line.split(" ", 1)[1])["keys"]) for line in journal.read_text().splitlines()[1:])
    assert answers <= distinct + 16

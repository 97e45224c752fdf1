"""Services: a real `mlflow models serve` process with a scikit-learn pipeline. Its environment is FAIRCHAIN_MLFLOW."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fairchain import ModelError, Service, check
from fairchain.models.adapters.http_client import REFUSED
from tests.messages import says
from tests.services.test_mlserver import free_ports

pytestmark = pytest.mark.services
ENVIRONMENT = Path(os.environ.get("FAIRCHAIN_MLFLOW", Path(__file__).parents[2] / ".venv-mlflow"))
SAVE = """
import json, sys
import mlflow.sklearn
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
frame = pd.DataFrame(json.load(open(sys.argv[1])))
columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
truth = frame["age"] + 9 * (frame["sex"] == "M") > 50
model = make_pipeline(columns, LogisticRegression(max_iter=500)).fit(frame, truth)
mlflow.sklearn.save_model(model, sys.argv[2])
json.dump(model.predict(frame).tolist(), open(sys.argv[3], "w"))
"""


def rows() -> dict[str, list[object]]:
    random = np.random.default_rng(0)
    return {"sex": random.choice(["F", "M"], 500).tolist(), "age": random.integers(18, 80, 500).tolist()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    program = ENVIRONMENT / "bin" / "mlflow"
    if not program.exists():
        assert "FAIRCHAIN_NO_SKIP" not in os.environ, f"no mlflow in {ENVIRONMENT}"
        pytest.skip("mlflow with its server is not installed; make .venv-mlflow/done")
    folder = tmp_path_factory.mktemp("mlflow")
    (folder / "rows.json").write_text(json.dumps(rows()))
    files = [str(folder / name) for name in ("rows.json", "model", "own.json")]
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    python = str(ENVIRONMENT / "bin" / "python")
    subprocess.run([python, "-c", SAVE, *files], check=True, cwd=folder, env=environment, capture_output=True)
    (port,) = free_ports(1)
    command = [str(program), "models", "serve", "-m", files[1], "--env-manager", "local", "-h", "127.0.0.1"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-p", str(port)], stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
        )
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None, (folder / "server.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (folder / "server.log").read_text()[-3000:]
            time.sleep(0.2)
    yield f"http://127.0.0.1:{port}/invocations", folder
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_the_gap_is_that_of_the_model_itself(server: tuple[str, Path]) -> None:
    address, folder = server
    chosen, sex = np.array(json.loads((folder / "own.json").read_text())), np.array(rows()["sex"])
    service = Service(address)
    found = check(service, rows(), protected="sex", labels=["no", "yes"], reading="population")
    assert found.gap.estimate == pytest.approx(abs(chosen[sex == "F"].mean() - chosen[sex == "M"].mean()), abs=1e-12)
    assert service.retries == 0


def test_what_the_server_refuses_is_quoted(server: tuple[str, Path]) -> None:
    with pytest.raises(ModelError, match=says(REFUSED)):
        check(server[0], {"sex": ["F", "M"] * 20, "height": list(range(40))}, protected="sex", labels=["no", "yes"])

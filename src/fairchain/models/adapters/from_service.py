"""Models behind a web address: the Open Inference Protocol V2 (MLServer, KServe, Triton) and MLflow's scoring server.

The address comes from the user, never from a file. A service has no bytes to hash: it is identified by its address, the
name, version and tensors of its metadata, and a hash of its answers to a few inputs. Answers are untrusted: their size,
shape and types are checked.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from pathlib import Path
from threading import Event
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.executors.tasks import Remade
from fairchain.messages import in_a_line, listed
from fairchain.models.adapters.from_function import FunctionModel, flat_array, texts_of
from fairchain.models.adapters.http_client import QUOTED, HttpClient
from fairchain.models.frames import check_columns, column_name, make_columns
from fairchain.models.journal import Journal, Journaled, open_journal
from fairchain.spec import Spec
from fairchain.tables import TableRows

Layout = Literal["columns", "array"]
# Defaults: simultaneous requests, and rows in a request.
CONNECTIONS, ROWS_PER_REQUEST = 8, 32
# Largest number of axes of an answer.
MOST_ANSWER_AXES = 8
WHOLE_TYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")
REAL = ("FP16", "FP32", "FP64", "BF16")
NOT_AN_ENDPOINT = (
    "{url}: give http://HOST:PORT/v2/models/NAME of a server that speaks the Open Inference Protocol, or "
    "http://HOST:PORT/invocations of an MLflow scoring server"
)
NOT_A_COUNT = "{name}: found {number:g}; give a whole number from 1 on"
NO_PREDICTIONS = "{count} predictions without a value"
NOT_METADATA = "{url}: its metadata is not that of a model of the Open Inference Protocol ({problem})"
NOT_AN_ANSWER = "{url}: answered with {problem}"
SEVERAL_SERVICE_OUTPUTS = (
    "{url}: has the outputs {names}; name the one that decides: --model-output (model_output=..., output=...)"
)
LAYOUT_NEEDED = (
    "{url}: its metadata lists no inputs; state whether it takes a column for each feature or one array of numbers: "
    "--service-inputs columns or array (inputs=... of fairchain.Service)"
)
INPUTS_DIFFER = "{url}: has the inputs {names}, and the model's features are {columns}; name the columns alike"
ONE_TEXT_INPUT = "{url}: has the inputs {names}, and a text needs one input of type BYTES"
MISSING_NOT_SENT = (
    '{url}: feature "{name}" has missing values, which the Open Inference Protocol cannot express; state missing = ... '
    "in the [[feature]], or leave such rows out: drop_missing = true in [population]"
)
WRONG_TYPE = '{url}: input "{name}" has type {datatype}, and the feature contains {found}'
VERSION_CHANGED = (
    "{url}: the version of the model changed from {before} to {now} during the run; run it again, with a new "
    "journal if there is one"
)
SERVICE_NOTE = (
    "The model is the service {url}{version}. A service has no file whose hash would identify it, and may change or "
    "notice that it is audited: the verdict is about the answers it gave."
)
SERVICE_DIGEST = " SHA-256 of its decisions about {count} trial inputs: {digest}..."


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in the metadata of a service: its name, its type and its shape, -1 for any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Metadata:
    """The metadata of a service about its model."""

    version: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True)
class CallForecast:
    """The cost of evaluations by a service: requests, and seconds at the measured latency."""

    inputs: int
    requests: int
    seconds: float

    def __str__(self) -> str:
        took = f", about {self.seconds:,.0f} s" if self.seconds >= 1 else ", less than a second" if self.seconds else ""
        return f"{self.inputs:,} inputs in {self.requests:,} requests{took}"


class Service(Journaled):
    """A model behind a web address.

    Parameters
    ----------
    url
        The address (http or https): `http://HOST:PORT/v2/models/NAME` for the Open Inference Protocol V2, with
        `/versions/V` for one version, or `http://HOST:PORT/invocations` for MLflow.
    journal
        A file that stores each answer. A run that was stopped or killed continues from these answers.
    connections
        Number of simultaneous requests.
    rows_per_request
        Largest number of inputs in a request.
    requests_per_second
        Largest number of requests per second; by default without a limit.
    timeout
        Time limit of one request, in seconds.
    retries
        Largest number of times that a request is repeated after a time-out or a lost connection, or if the service is
        not ready, is overloaded, or fails.
    headers
        Further headers, for example credentials. Headers are never written to a file.
    inputs
        Input format. `"columns"`: one input for each feature. `"array"`: one array of numbers. By default, the format
        that the metadata of the service states, or columns for an MLflow server.
    output
        The output from which the decision is made, if there are several outputs.

    Examples
    --------
    >>> model = Service("http://localhost:8080/v2/models/income", connections=16)
    >>> model.name
    'service http://localhost:8080/v2/models/income'
    """

    thread_safe = True

    def __init__(
        self,
        url: str,
        *,
        journal: str | Path | None = None,
        connections: int = CONNECTIONS,
        rows_per_request: int = ROWS_PER_REQUEST,
        requests_per_second: float | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        headers: Mapping[str, str] | None = None,
        inputs: Layout | None = None,
        output: str | None = None,
    ) -> None:
        rate = 1.0 if requests_per_second is None else requests_per_second
        for name, number in {"timeout": timeout, "requests_per_second": rate}.items():
            if not 0 < number < 1e6:
                raise ModelError(f"{name}: found {number:g}; give a number above 0")
        for name, number in {"connections": connections, "rows_per_request": rows_per_request}.items():
            if not 1 <= number < 1e6 or number != int(number):
                raise ModelError(NOT_A_COUNT.format(name=name, number=number))
        if retries < 0 or inputs not in (None, "columns", "array"):
            raise ModelError('retries must be 0 or more, and inputs "columns" or "array"')
        address = url.rstrip("/").removesuffix("/infer")
        self.client = HttpClient(address, headers or {}, int(connections), requests_per_second, timeout, retries)
        self.url, self.path = self.client.url, self.client.address.path
        self.mlflow = self.path.endswith("/invocations")
        if not self.mlflow and "/v2/models/" not in self.path:
            raise ModelError(NOT_AN_ENDPOINT.format(url=self.url))
        self.name = f"service {self.url}"
        self.inputs, self.output, self.rows_per_request = inputs, output, int(rows_per_request)
        self._journal_path, self.used, self._lock = journal, Counter(), threading.Lock()
        self._journal: Journal | None = None
        self._metadata: Metadata | None = None
        # Called with sentences for the user, such as the forecast; set by the command line.
        self.tell: Callable[[str], None] | None = None

    @property
    def metadata(self) -> Metadata:
        """The metadata of the model, requested once. It is empty for MLflow, whose servers provide no metadata."""
        with self._lock:
            if self._metadata is None:
                self._metadata = Metadata() if self.mlflow else self._read_metadata()
            return self._metadata

    @property
    def journal(self) -> Journal:  # type: ignore[override]  # opened when it is first needed
        """The answers so far."""
        metadata = self.metadata
        with self._lock:
            if self._journal is None:
                described = [self.url, metadata.version, self.output or "", self.inputs or ""]
                described += [str(tensor) for tensor in (*metadata.inputs, *metadata.outputs)]
                self._journal = open_journal(self._journal_path, json.dumps(described))
                if self._journal.note and self.tell is not None:
                    self.tell(self._journal.note)
            return self._journal

    @property
    def has_file(self) -> bool:
        """Whether answers are stored in a file."""
        return self._journal_path is not None

    @property
    def requests(self) -> int:
        """The number of answered requests."""
        return int(self.client.requests)

    @property
    def retries(self) -> int:
        """The number of retries."""
        return int(self.client.retried)

    @property
    def summary(self) -> str:
        """The requests and retries so far, in one line."""
        mean = self.client.seconds / max(1, self.client.requests)
        each = f", {1000 * mean:,.0f} ms each on average" if self.requests else ""
        return f"{self.name}: {self.requests:,} requests answered, {self.retries:,} retries{each}"

    def _read_metadata(self) -> Metadata:
        try:
            found = json.loads(self.client.send("GET", self.path))
            version = next(iter(found.get("versions") or ()), "")
            tensors = [
                tuple(
                    TensorSpec(str(each["name"]), str(each["datatype"]), tuple(int(size) for size in each["shape"]))
                    for each in found.get(kind) or ()
                )
                for kind in ("inputs", "outputs")
            ]
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            problem = in_a_line(f"{type(error).__name__}: {error}")[:QUOTED]
            raise ModelError(NOT_METADATA.format(url=self.url, problem=problem)) from None
        if sum(map(len, tensors)) > 10_000:
            raise ModelError(NOT_METADATA.format(url=self.url, problem="too many tensors"))
        return Metadata(in_a_line(str(version))[:QUOTED], *tensors)

    @property
    def version(self) -> str:
        """The version of the model in answers or metadata; an empty text if the service does not state it."""
        return self.journal.version or self.metadata.version

    def forecast(self, inputs: int) -> CallForecast:
        """Return a forecast of the requests and seconds for `inputs` inputs, from the mean latency so far."""
        waves = ceil(inputs / (self.rows_per_request * self.client.connections))
        requests = min(inputs, waves * self.client.connections)
        each = self.client.seconds / self.client.requests if self.client.requests else 0.0
        return CallForecast(inputs, requests, waves * each)

    def parts(self, count: int) -> list[slice]:
        """Return the division of inputs into requests of about equal size, so that all connections are in use."""
        waves = ceil(count / (self.rows_per_request * self.client.connections))
        size = max(1, ceil(count / (waves * self.client.connections)))
        return [slice(start, start + size) for start in range(0, count, size)]

    def __call__(self, shown: Any, stop: Event | None = None) -> NDArray[Any]:
        """Return the answer of the service to texts, an array or columns: one request."""
        count = len(next(iter(shown.values()))) if isinstance(shown, dict) else len(shown)
        if not self.mlflow:
            path, request = f"{self.path}/infer", self._request(shown, count)
        elif isinstance(shown, dict):
            # JSON has no NaN.
            cells = [[None if item != item else item for item in each.tolist()] for each in shown.values()]  # noqa: PLR0124
            data = [list(row) for row in zip(*cells, strict=True)]
            path, request = self.path, {"dataframe_split": {"columns": list(shown), "data": data}}
        else:
            path, request = self.path, {"inputs": shown if isinstance(shown, list) else shown.tolist()}
        body = json.dumps(request, allow_nan=False, ensure_ascii=True).encode()
        content = self.client.send("POST", path, body, stop)
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            raise self._wrong("a response that is not JSON") from None
        answer = self._predictions(found, count) if self.mlflow else self._answer(found, count)
        if answer.dtype.kind == "f" and not np.isfinite(answer).all():
            raise self._wrong(f"{answer[~np.isfinite(answer)][0]} for one of {count} inputs, which is not a decision")
        return answer

    def _wrong(self, problem: str) -> ModelError:
        return ModelError(NOT_AN_ANSWER.format(url=self.url, problem=problem))

    def _request(self, shown: Any, count: int) -> dict[str, Any]:
        """Return a request of the Open Inference Protocol."""
        known = {tensor.name: tensor for tensor in self.metadata.inputs}
        request: dict[str, Any] = {}
        if isinstance(shown, list):
            tensor = next(iter(known.values()), TensorSpec("text", "BYTES", (-1,)))
            shape = [count, 1] if len(tensor.shape) > 1 else [count]
            request["inputs"] = [_tensor(tensor.name, "BYTES", shape, shown)]
        elif isinstance(shown, dict):
            request["inputs"] = []
            for name, column in shown.items():
                kind = {"O": "BYTES", "i": "INT64"}.get(column.dtype.kind, "FP64")
                tensor = known.get(name, TensorSpec(name, kind, (-1, 1)))
                shape = [count, 1] if len(tensor.shape) > 1 else [count]
                data = self._cast(name, column, tensor.datatype)
                request["inputs"].append(_tensor(name, tensor.datatype, shape, data))
            request["parameters"] = {"content_type": "pd"}
        else:
            tensor = next(iter(known.values()), TensorSpec("input", "FP64", (-1, -1)))
            data = self._cast(tensor.name, shown.reshape(-1), tensor.datatype)
            request["inputs"] = [_tensor(tensor.name, tensor.datatype, list(shown.shape), data)]
        if self.output is not None:
            request["outputs"] = [{"name": self.output}]
        return request

    def _cast(self, name: str, column: NDArray[Any], datatype: str) -> list[Any]:
        """Return values in the JSON form of an input's type."""
        texts = column.dtype.kind == "O"
        if any(not isinstance(item, str) for item in column) if texts else np.isnan(column).any():
            raise ModelError(MISSING_NOT_SENT.format(url=self.url, name=name))
        whole = not texts and bool((column == np.floor(column)).all())
        fits = texts if datatype == "BYTES" else whole if datatype in WHOLE_TYPES else datatype in REAL and not texts
        if not fits:
            found = "texts" if texts else "whole numbers" if whole else "fractions"
            raise ModelError(WRONG_TYPE.format(url=self.url, name=in_a_line(name), datatype=datatype, found=found))
        kind = bool if datatype == "BOOL" else int if datatype in WHOLE_TYPES else str if texts else float
        return [kind(item) for item in column.tolist()]

    def _answer(self, found: Any, count: int) -> NDArray[Any]:
        """Return the output that decides, (rows, ...), of a response of the Open Inference Protocol."""
        try:
            names = [str(each["name"]) for each in found["outputs"]]
            outputs = dict(zip(names, found["outputs"], strict=True))
            version = in_a_line(str(found.get("model_version") or ""))[:QUOTED]
        except (KeyError, TypeError, AttributeError):
            error = found.get("error") if isinstance(found, dict) else None
            quoted = f" but an error: {in_a_line(error)[:QUOTED]}" if error else ""
            raise self._wrong(f"no outputs{quoted}") from None
        journal = self.journal
        with self._lock:
            # That of the first answer, including one that an earlier run stored.
            before = journal.version = journal.version or version
        if before != version:
            raise ModelError(VERSION_CHANGED.format(url=self.url, now=version or "?", before=before))
        if self.output is None and len(outputs) != 1:
            raise ModelError(SEVERAL_SERVICE_OUTPUTS.format(url=self.url, names=listed(names)))
        if len(outputs) < len(names):
            raise self._wrong(f"two outputs of the same name: {listed(names)}")
        name = self.output or next(iter(outputs))
        if name not in outputs:
            raise self._wrong(f"the outputs {listed(list(outputs))}, and none is called {in_a_line(name)}")
        output = outputs[name]
        try:
            shape, datatype = tuple(int(size) for size in output["shape"]), str(output["datatype"])
            data = _flat_values(output["data"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._wrong("an output without shape, datatype or data") from None
        if not 0 < len(shape) <= MOST_ANSWER_AXES or shape[0] != count or min(shape) < 1 or prod(shape) != len(data):
            size = f"{len(data)} values of shape {list(shape)[:MOST_ANSWER_AXES]} for {count} inputs"
            raise self._wrong(f"{size}; the first dimension must be the inputs")
        return self._typed(data, datatype).reshape(shape)

    def _typed(self, data: list[Any], datatype: str) -> NDArray[Any]:
        """Return values of a JSON response as doubles, whole numbers or texts; refuse others."""
        kinds = {type(item) for item in data}
        try:
            if datatype == "BYTES" and kinds == {str}:
                return np.array(data, object)
            if datatype in WHOLE_TYPES and kinds <= {int, bool}:
                return np.array(data, np.int64)
            if datatype in REAL and kinds <= {int, float}:
                return np.array(data, np.float64)
        except OverflowError:
            raise self._wrong("a number that is too large") from None
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise self._wrong(f"values of type {names} in an output of type {in_a_line(datatype)[:20]}")

    def _predictions(self, found: Any, count: int) -> NDArray[Any]:
        """Return the predictions of MLflow's server: a list of labels, scores, or lists or records of scores."""
        predictions = found.get("predictions") if isinstance(found, dict) else found
        if not isinstance(predictions, list) or len(predictions) != count:
            size = f"{len(predictions)} predictions" if isinstance(predictions, list) else "no list of predictions"
            raise self._wrong(f"{size} for {count} inputs")
        if all(isinstance(row, dict) for row in predictions):
            names = list(predictions[0])
            if any(list(row) != names for row in predictions):
                raise self._wrong("records with different keys")
            if self.output is not None and self.output not in names:
                raise self._wrong(f"the outputs {listed(names)}, and none is called {in_a_line(self.output)}")
            if self.output is None and len(names) > 1:
                raise ModelError(SEVERAL_SERVICE_OUTPUTS.format(url=self.url, names=listed(names)))
            predictions = [row[self.output or names[0]] for row in predictions]
        widths = {len(row) if isinstance(row, list) else 0 for row in predictions}
        nested = any(isinstance(item, list) for row in predictions if isinstance(row, list) for item in row)
        if len(widths) > 1 or nested:
            raise self._wrong("predictions of different shapes")
        data, width = _flat_values(predictions), widths.pop()
        if not data:
            raise self._wrong(NO_PREDICTIONS.format(count=count))
        kinds = {type(item) for item in data}
        datatype = "BYTES" if kinds == {str} else "INT64" if kinds <= {int, bool} else "FP64"
        return self._typed(data, datatype).reshape((count, width) if width else (count,))


def _tensor(name: str, datatype: str, shape: Sequence[int], data: list[Any]) -> dict[str, Any]:
    kind = {"parameters": {"content_type": "str"}} if datatype == "BYTES" else {}
    return {"name": name, "shape": list(shape), "datatype": datatype, **kind, "data": data}


def _flat_values(data: Any) -> list[Any]:
    """Return nested lists as one list; raise a TypeError for anything else."""
    if not isinstance(data, list):
        raise TypeError
    flat = list(data)
    while flat and all(isinstance(item, list) for item in flat):
        flat = [each for item in flat for each in item]
    return flat


def from_service(service: Service, spec: Spec, rows: TableRows | None = None) -> FunctionModel:
    """Return the model behind an address; `rows` are those of the table that it will evaluate, if any."""
    if spec.model.output is not None and service.output is None:
        service.output = spec.model.output
    show: Callable[[NDArray[Any]], Any]
    if spec.text is not None:
        tensors = service.metadata.inputs
        if tensors and (len(tensors) > 1 or tensors[0].datatype != "BYTES"):
            raise ModelError(ONE_TEXT_INPUT.format(url=service.url, names=listed([each.name for each in tensors])))
        show = texts_of(spec.text, service.name)
        if service.mlflow and service.inputs != "array":
            show = partial(_text_column, spec.text.name, show)
    elif layout_of(service) == "columns":
        check_columns(service.name, spec.features)
        names = [tensor.name for tensor in service.metadata.inputs]
        columns = [column_name(feature) for feature in spec.features if feature.model_input]
        if names and set(names) != set(columns):
            raise ModelError(INPUTS_DIFFER.format(url=service.url, names=listed(names), columns=listed(columns)))
        show = partial(make_columns, spec.features)
    else:
        show = Remade(flat_array, spec, service.name)
    model = FunctionModel(service, spec, service.name, show=show, output=service.output or "answer", rows=rows)
    version = f", version {service.version}" if service.version else ""
    note = SERVICE_NOTE.format(url=service.url, version=version)
    if spec.model.deterministic:
        digest, count = model.tried_digest
        note += SERVICE_DIGEST.format(digest=digest[:16], count=count)
    model.note = " ".join(filter(None, (note, model.note)))
    return model


def layout_of(service: Service) -> Layout:
    """Return whether a service takes a column for each feature, or one array."""
    if service.inputs is not None:
        return service.inputs
    if service.mlflow:
        return "columns"
    tensors = service.metadata.inputs
    if not tensors:
        raise ModelError(LAYOUT_NEEDED.format(url=service.url))
    wide = len(tensors) == 1 and len(tensors[0].shape) == 2 and tensors[0].shape[1] != 1
    return "array" if wide and tensors[0].datatype != "BYTES" else "columns"


def _text_column(name: str, texts: Callable[[NDArray[Any]], list[str]], values: NDArray[Any]) -> dict[str, Any]:
    return {name: np.array(texts(values), object)}

"""A server of our own that speaks the Open Inference Protocol and MLflow's scoring protocol, with faults on request.

It is real HTTP over a real socket. The model is a Python function of a list of rows, each a mapping of input names to
values (of an array: the list of its numbers). `python -m tests.services.fake_server PORT ...` runs it as a process.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = dict[str, Any]


@dataclass
class FakeService:
    """What the server answers, and what it was asked.

    `faults` are taken one by one by the next requests for answers: a status, "drop", "slow", "drip", "drip close",
    bytes that are sent as they are before the connection is closed, a pair of a status and headers, or a function that
    changes the response.
    """

    answer: Callable[[list[Row]], list[Any]]
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    latency: float = 0.0
    faults: list[Any] = field(default_factory=list)
    version: str = "1"
    # Every input that was answered, how often; requests that came; their headers.
    asked: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    metadata_requests: int = 0
    dripped: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    @property
    def v2(self) -> str:
        return f"{self.url}/v2/models/m"

    @property
    def invocations(self) -> str:
        return f"{self.url}/invocations"


def _rows_of(request: dict[str, Any]) -> list[Row]:
    if "dataframe_split" in request:
        split = request["dataframe_split"]
        return [dict(zip(split["columns"], row, strict=True)) for row in split["data"]]
    tensors = request["inputs"]
    if tensors and not isinstance(tensors[0], dict):
        return [{"input": each} for each in tensors]
    columns = {}
    for tensor in tensors:
        count, width = tensor["shape"][0], len(tensor["data"]) // tensor["shape"][0]
        data = tensor["data"]
        wide = len(tensor["shape"]) > 1 and tensor["shape"][1] > 1
        columns[tensor["name"]] = [data[k * width : (k + 1) * width] for k in range(count)] if wide else data
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body in one packet: two would wait for an acknowledgement of 40 ms.
        wbufsize = -1

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def reply(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def do_GET(self) -> None:
            service.metadata_requests += 1
            if self.path != "/v2/models/m":
                self.reply(404, {"error": "Model \x1b[2J not found"})
                return
            inputs = {"inputs": service.inputs, "outputs": service.outputs}
            self.reply(200, {"name": "m", "versions": [service.version], "platform": "fake", **inputs})

        def do_POST(self) -> None:
            start = time.perf_counter()
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with service.lock:
                service.requests += 1
                service.headers.append(dict(self.headers))
                service.bodies.append(request)
                fault = service.faults.pop(0) if service.faults else None
                service.at_once += 1
                service.most_at_once = max(service.most_at_once, service.at_once)
            try:
                self.answer(request, fault, start)
            finally:
                with service.lock:
                    service.at_once -= 1
                    service.spans.append((start, time.perf_counter()))

        def answer(self, request: dict[str, Any], fault: Any, start: float) -> None:
            if fault == "drop":
                self.close_connection = True
                self.connection.close()
                return
            if isinstance(fault, bytes):
                self.close_connection = True
                self.wfile.write(fault)
                self.wfile.flush()
                return
            if fault in ("drip", "drip close"):
                self.close_connection = True
                said = b"Connection: close\r\n" if fault == "drip close" else b""
                self.wfile.write(b"HTTP/1.1 200 OK\r\n" + said + b"Content-Length: 1000\r\n\r\n")
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    service.dripped += 1
                    time.sleep(0.05)
                return
            if isinstance(fault, int | tuple):
                status, headers = fault if isinstance(fault, tuple) else (fault, {})
                self.reply(status, {"error": f"fault {status}"}, headers)
                return
            rows = _rows_of(request)
            if fault == "slow":
                time.sleep(2.0)
            time.sleep(max(0.0, service.latency - (time.perf_counter() - start)))
            found = service.answer(rows)
            with service.lock:
                service.asked.update(json.dumps(row) for row in rows)
            if self.path.endswith("/invocations"):
                content: Any = {"predictions": found}
            else:
                wide = isinstance(found[0], list)
                flat = [each for row in found for each in row] if wide else found
                first = flat[0]
                datatype = "BYTES" if isinstance(first, str) else "FP64" if isinstance(first, float) else "INT64"
                shape = [len(found), len(found[0])] if wide else [len(found)]
                output = {"name": "predict", "shape": shape, "datatype": datatype, "data": flat}
                content = {"model_name": "m", "model_version": service.version, "outputs": [output]}
            self.reply(200, fault(content) if callable(fault) else content)

    return Handler


@contextmanager
def serving(service: FakeService, port: int = 0) -> Iterator[FakeService]:
    """Run the server in threads of this process."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """Print nothing about connections that a client closed."""

    server = Server(("127.0.0.1", port), _handler(service))
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()

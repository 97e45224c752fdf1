"""A service that answers every request after the same time; `python -m benchmarks.latency_server SECONDS` runs it.

It speaks the Open Inference Protocol, prints its port, and tells at /spans when each request began and ended.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SPANS: list[tuple[float, float]] = []
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers 1 where the first number is above 0.5."""

    protocol_version = "HTTP/1.1"
    # Headers and body in one packet.
    wbufsize = -1

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _reply(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        """Tell the spans of requests, or the metadata."""
        tensor = {"name": "x", "datatype": "FP64", "shape": [-1, 2]}
        self._reply(SPANS if self.path == "/spans" else {"versions": ["1"], "inputs": [tensor], "outputs": []})

    def do_POST(self) -> None:
        """Answer after the latency."""
        start = time.perf_counter()
        (tensor,) = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        chosen = [int(value > 0.5) for value in tensor["data"][1::2]]
        output = {"name": "predict", "shape": [len(chosen)], "datatype": "INT64", "data": chosen}
        time.sleep(max(0.0, float(sys.argv[1]) - (time.perf_counter() - start)))
        with LOCK:
            SPANS.append((start, time.perf_counter()))
        self._reply({"model_version": "1", "outputs": [output]})


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()

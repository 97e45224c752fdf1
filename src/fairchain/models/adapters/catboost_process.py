"""CatBoost files, read and evaluated in a separate process while they are in use.

CatBoost trusts its files: some damaged files can be read, and crash it at a later row. The caller's process never loads
one: it sends rows to the other process, and receives numbers. A crash there is an error message here.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from typing import IO, Any

import numpy as np

from fairchain.errors import ModelError
from fairchain.models.adapters.converting import quiet
from fairchain.models.adapters.native_reader import CRASHES, MOST_SECONDS, MOST_WAITED, limit_this_process
from fairchain.models.fitted import OwnProcessModel
from fairchain.system.isolation import new_interpreter
from fairchain.system.user_code import first_line

_CODE = "from fairchain.models.adapters.catboost_process import main; main()"
_HEAD = 8


class CatBoostFile(OwnProcessModel):
    """A model from a .cbm file, with the methods and attributes of CatBoost's classes that are used here."""

    package = "CatBoost"

    def __init__(self, content: bytes, damaged: Callable[[str], ModelError]) -> None:
        self._content, self._damaged, self._lock = content, damaged, Lock()
        self._start()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the file: the copy starts its own process."""
        return CatBoostFile, (self._content, self._damaged)

    def _start(self) -> None:
        self._owner, self._process = os.getpid(), start_process()
        self._end = weakref.finalize(self, _end, self._process)
        facts = json.loads(self._exchange(self._content))
        self.kind, self.classes_, self.feature_names_ = facts["kind"], facts["classes"], facts["names"]
        self._categories, self._texts = facts["categories"], facts["texts"]

    def get_cat_feature_indices(self) -> list[int]:
        """Return the indices of category columns."""
        return list(self._categories)

    def get_text_feature_indices(self) -> list[int]:
        """Return the indices of text columns."""
        return list(self._texts)

    def predict(self, rows: Any, prediction_type: str = "RawFormulaVal") -> Any:
        """Return CatBoost's predictions of this type."""
        answer = self._request(rows, prediction_type)
        kind, content = answer[:1], answer[1:]
        return np.load(io.BytesIO(content), allow_pickle=False) if kind == b"n" else np.array(json.loads(content))

    def network(self) -> bytes:
        """Return the model in CatBoost's own ONNX export."""
        return self._request()

    def _request(self, *request: Any) -> bytes:
        with self._lock:
            if self._owner != os.getpid():  # a fork: the process belongs to its parent
                self._end.detach()
                self._start()
            return self._exchange(pickle.dumps(request))

    def _exchange(self, request: bytes) -> bytes:
        """Send a request; return the answer, or raise its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = Timer(MOST_WAITED, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            _send(self._process.stdin, request)
            answer = _receive(self._process.stdout)
        except (OSError, EOFError, ValueError, OverflowError, MemoryError):  # also for an invalid size
            self._end()
            raise self._damaged(CRASHES) from None
        finally:
            watchdog.cancel()
        if answer[:1] == b"-":
            raise self._damaged(answer[1:].decode(errors="replace"))
        return answer[1:]


def start_process() -> subprocess.Popen[bytes]:
    """Start a process that waits for a file."""
    return subprocess.Popen(  # our own code
        new_interpreter(_CODE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


def _send(stream: IO[bytes], part: bytes) -> None:
    stream.write(len(part).to_bytes(_HEAD, "little") + part)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_HEAD)
    part = stream.read(int.from_bytes(head, "little"))
    if len(head) < _HEAD or len(part) < int.from_bytes(head, "little"):
        raise EOFError
    return part


# ---- In the other process -------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests on standard input; runs in the new process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of native code must not mix with the answers
    serve(sys.stdin.buffer, out)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Read a file and evaluate it once, within limits; then answer requests until there are no more."""
    with suppress(EOFError, BrokenPipeError):
        content = _receive(requests)
        lift = limit_this_process(len(content), MOST_SECONDS, lasting=False)
        model: Any = None

        def facts() -> bytes:
            nonlocal model
            model = _loaded(content)
            found = {
                "kind": type(model).__name__,
                "classes": np.asarray(model.classes_).tolist(),
                "names": list(map(str, model.feature_names_)),
                "categories": list(map(int, model.get_cat_feature_indices())),
                "texts": list(map(int, model.get_text_feature_indices())),
            }
            return json.dumps(found).encode()

        _send(answers, _attempted(facts))
        lift()
        while model is not None:
            request = pickle.loads(_receive(requests))  # the process that started this one
            _send(answers, _attempted(lambda: _answer(model, *request)))  # noqa: B023  # called at once


def _attempted(work: Callable[[], bytes]) -> bytes:
    try:
        with quiet():
            return b"+" + work()
    except Exception as error:  # a damaged file can raise any exception
        return b"-" + first_line(error).encode(errors="replace")


def _loaded(content: bytes) -> Any:
    """Return CatBoost's own object: a classifier if it has classes."""
    catboost = import_module("catboost")
    model = catboost.CatBoost().load_model(blob=content)
    if len(model.classes_):
        model = catboost.CatBoostClassifier().load_model(blob=content)
    # Only numbers: processing of texts or categories might not terminate.
    with suppress(Exception):
        model.predict(np.zeros((1, len(model.feature_names_))))
    return model


def saved_network(model: Any) -> bytes:
    """Return CatBoost's own export of a model to ONNX."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.save_model(str(path), format="onnx")
        return path.read_bytes()


def _answer(model: Any, rows: Any = None, kind: str = "") -> bytes:
    """Return predictions of this kind for rows; without rows, the model as an ONNX network."""
    if rows is None:
        return saved_network(model)
    found = np.asarray(model.predict(rows, prediction_type=kind))
    if found.dtype.kind not in "fiub":  # names of classes
        return b"j" + json.dumps(found.tolist()).encode()
    written = io.BytesIO()
    np.save(written, found, allow_pickle=False)
    return b"n" + written.getvalue()

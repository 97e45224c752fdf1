"""An ONNX network behind onnxruntime: feature values in, class numbers out.

One thread for each call: workers bring the parallelism, and results stay the same whatever their number.
onnxruntime's memory is capped and a watchdog breaks off calls that take too long.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.model.asking import (
    Answer,
    MisfitError,
    check_rows_apart,
    check_shape,
    describe_input,
    first_line,
    must_fit,
)
from fairchain.model.decision import DecisionRule, Labels, NoDecisionError, plan_decision
from fairchain.model.feed import Feed, plan_feed
from fairchain.model.in_memory import check_bytes
from fairchain.model.untrusted import Limits, TrustedBytes, parse, read_network
from fairchain.model.watchdog import Watchdog
from fairchain.spec import Spec

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, RunOptions


class OnnxModel:
    """A network that can be asked for decisions.

    Parameters
    ----------
    path
        The ONNX file.
    spec
        Says what the inputs are, and what the output means where the file does not.
    limits
        What an untrusted file may ask for.
    """

    certifiable = True

    def __init__(self, path: str | Path, spec: Spec, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._open(Path(path), read_network(Path(path), limits), spec, limits)
        self._content: bytes | None = None

    @classmethod
    def from_bytes(cls, content: bytes, name: str, spec: Spec, limits: Limits | None = None, *, note: str = "") -> Self:
        """A network that is held in memory; `name` is what messages call it.

        External weights are refused: bytes have no folder beside them.
        """
        limits = limits or Limits()
        model = cls.__new__(cls)
        model._open(Path(name), check_bytes(Path(name), content, limits), spec, limits)
        model._content, model.note = content, note
        return model

    def _open(self, path: Path, network: TrustedBytes, spec: Spec, limits: Limits) -> None:
        self.path, self.limits, self.sha256, self.note = path, limits, network.sha256, ""
        self._spec, self._features = spec, spec.features
        self._new_options = _run_options()
        self._session = _open_session(self.path, network, self.limits)
        try:
            inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
            self._feed: Feed = plan_feed(self.path, spec.features, inputs)
            self._rule: DecisionRule = self._plan(outputs, network.makers)
            batch = inputs[0].shape[0] if inputs[0].shape else None
        except UnicodeDecodeError:
            raise ModelError(
                f"{self.path}: a name of an input, output or dimension is no text; export it again"
            ) from None
        if batch == 0:
            raise ModelError(f"{self.path}: the batch dimension is 0; export the network with a free one")
        self._fixed_batch = batch if isinstance(batch, int) else None
        self._watchdog = Watchdog(self.limits.seconds)
        check_rows_apart(self.name, self._features, self._ask, self.dtype, self._fixed_batch or 3)

    def _plan(self, outputs: Sequence[Any], makers: Mapping[str, str]) -> DecisionRule:
        try:
            return plan_decision(self.path, self._spec.model, outputs, makers)
        except ModelError as error:
            raise MisfitError(str(error)) from None

    @property
    def name(self) -> str:
        """What messages call it: its path, for a file."""
        return str(self.path)

    @property
    def content(self) -> bytes:
        """The network as the bytes of one ONNX file."""
        return self._content if self._content is not None else read_network(self.path, self.limits).content

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this network was loaded for the same features and the same meaning of outputs."""
        must_fit(self.name, self._spec, spec)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn for this network."""
        return np.dtype(np.float32 if self._feed.single else np.float64)

    def predict(self, values: NDArray[np.floating]) -> Labels:
        """The class number of each row of feature values.

        Raises
        ------
        ModelError
            If the network fails, takes too long, or answers a row with something that is no class.
        """
        if not len(values):
            return np.empty(0, np.uint16)
        try:
            if self._fixed_batch is None:
                return self._rule(self._ask(values), len(values))
            return self._predict_in_batches(values, self._fixed_batch)
        except NoDecisionError as problem:
            raise ModelError(
                f"{self.path}: {problem}; the input was {describe_input(self._features, values[problem.row])}"
            ) from None

    def scores(self, values: NDArray[np.floating]) -> Answer:
        """The output that decides, as it is before the decision; for networks with a free batch dimension."""
        return self._ask(values)

    def _ask(self, values: NDArray[np.floating]) -> Answer:
        return self._run(self._feed(values))

    def _predict_in_batches(self, values: NDArray[np.floating], batch: int) -> Labels:
        """For a network with a fixed batch size: whole batches, the last one filled up with its own last row."""
        labels = np.empty(len(values), np.uint16)
        for start in range(0, len(values), batch):
            part = values[start : start + batch]
            padded = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
            try:
                labels[start : start + len(part)] = self._rule(self._ask(padded), batch)[: len(part)]
            except NoDecisionError as problem:
                raise NoDecisionError(start + min(problem.row, len(part) - 1), str(problem)) from None
        return labels

    def with_outputs(self, tensors: Sequence[str]) -> OnnxModel:
        """The same network, which can also show these inner tensors."""
        network = parse(self.path, self.content)
        known = {output.name for output in network.graph.output}
        for tensor in tensors:
            if tensor not in known:
                network.graph.output.add().name = tensor
        model = replace(self._spec.model, output=self._rule.output)
        spec = replace(self._spec, model=model)
        return OnnxModel.from_bytes(network.SerializeToString(), self.name, spec, self.limits)

    def predict_and_show(
        self, values: NDArray[np.floating], tensors: Sequence[str]
    ) -> tuple[Labels, list[NDArray[np.floating]]]:
        """The class number of each row, and the units of these inner tensors, (rows, units) each."""
        if self._fixed_batch is not None:
            raise ModelError(f"{self.path}: has a fixed batch size; export it with a free one to look inside")
        answer, *shown = self._run_all(self._feed(values), [self._rule.output, *tensors])
        check_shape(self.name, self._rule, answer, len(values))
        for tensor, hidden in zip(tensors, shown, strict=True):
            if hidden.ndim < 1 or len(hidden) != len(values) or not np.issubdtype(hidden.dtype, np.floating):
                raise ModelError(
                    f'{self.path}: tensor "{tensor}" has shape {hidden.shape} and type {hidden.dtype} for '
                    f"{len(values)} inputs; only numbers with the batch first can be looked at"
                )
        try:
            return self._rule(answer, len(values)), [hidden.reshape(len(values), -1) for hidden in shown]
        except NoDecisionError as problem:
            raise ModelError(
                f"{self.path}: {problem}; the input was {describe_input(self._features, values[problem.row])}"
            ) from None

    def _run(self, feed: dict[str, NDArray[Any]]) -> NDArray[Any]:
        answer = self._run_all(feed, [self._rule.output])[0]
        check_shape(self.name, self._rule, answer, len(next(iter(feed.values()))))
        return answer

    def _run_all(self, feed: dict[str, NDArray[Any]], outputs: list[str]) -> list[NDArray[Any]]:
        options = self._new_options()
        options.log_severity_level = 4
        call = self._watchdog.begin(options)
        try:
            answers: list[NDArray[Any]] = self._session.run(outputs, feed, options)
        except Exception as error:  # onnxruntime raises a dozen types of its own, all derived from Exception
            if options.terminate:
                raise ModelError(
                    f"{self.path}: one call of the network took more than {self.limits.seconds:g} seconds"
                ) from None
            raise ModelError(f"{self.path}: the network cannot be run: {first_line(error)}") from None
        finally:
            self._watchdog.end(call)
        return answers


def _run_options() -> type[RunOptions]:
    """Onnxruntime is imported with the first network, not with this module."""
    from onnxruntime import RunOptions

    return RunOptions  # type: ignore[no-any-return]


def _open_session(path: Path, network: TrustedBytes, limits: Limits) -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    _cap_memory(limits.memory_bytes)
    options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        return ort.InferenceSession(
            network.content,
            options,
            ["CPUExecutionProvider"],
            disabled_optimizers=["ConstantFolding"],
            enable_fallback=0,
        )
    except Exception as error:  # see _run
        raise ModelError(f"{path}: onnxruntime does not take this network: {first_line(error)}") from None


_memory_cap = threading.Lock()


def _cap_memory(most: int) -> None:
    """Give onnxruntime one pool of bounded size: a file of 150 bytes can ask for gigabytes otherwise.

    onnxruntime takes one such pool in a process and refuses a second, so the first limit stays.
    """
    import onnxruntime as ort

    with _memory_cap, suppress(RuntimeError):
        info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(info, ort.OrtArenaCfg({"max_mem": most, "arena_extend_strategy": 1}))

"""An ONNX network behind onnxruntime: feature values in, class numbers out.

One thread for each call: workers bring the parallelism, and results stay the same whatever their number.
onnxruntime's memory is capped and a watchdog breaks off calls that take too long.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.model.decision import DecisionRule, Labels, NoDecisionError, plan_decision
from fairchain.model.feed import Feed, plan_feed
from fairchain.model.untrusted import Limits, TrustedBytes, read_network
from fairchain.model.watchdog import Watchdog
from fairchain.spec import CategoryFeature, Feature, Spec, domain_of

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

    def __init__(self, path: str | Path, spec: Spec, limits: Limits | None = None) -> None:
        self.path = Path(path)
        self.limits = limits or Limits()
        network = read_network(self.path, self.limits)
        self.sha256 = network.sha256
        self._features, self._meaning = spec.features, spec.model
        self._new_options = _run_options()
        self._session = _open_session(self.path, network, self.limits)
        try:
            inputs = self._session.get_inputs()
            self._feed: Feed = plan_feed(self.path, spec.features, inputs)
            self._rule: DecisionRule = plan_decision(self.path, spec.model, self._session.get_outputs(), network.makers)
            batch = inputs[0].shape[0] if inputs[0].shape else None
        except UnicodeDecodeError:
            raise ModelError(
                f"{self.path}: a name of an input, output or dimension is no text; export it again"
            ) from None
        if batch == 0:
            raise ModelError(f"{self.path}: the batch dimension is 0; export the network with a free one")
        self._fixed_batch = batch if isinstance(batch, int) else None
        self._watchdog = Watchdog(self.limits.seconds)
        self._check_rows_apart()

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this network was loaded for the same features and the same meaning of outputs."""
        same = replace(spec.model, path=self._meaning.path) == self._meaning and spec.features == self._features
        if not same:
            raise ModelError(f"{self.path}: was loaded for a spec with other features or labels; load it with this one")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn for this network."""
        single = all(slot.dtype in (np.float32, np.float16) for slot in self._feed.slots)
        return np.dtype(np.float32 if single else np.float64)

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
                return self._rule(self._run(self._feed(values)), len(values))
            return self._predict_in_batches(values, self._fixed_batch)
        except NoDecisionError as problem:
            raise ModelError(
                f"{self.path}: {problem}; the input was {describe_input(self._features, values[problem.row])}"
            ) from None

    def _check_rows_apart(self) -> None:
        """Refuse a network whose answer for one row depends on the others: it has no P(Y | group) to speak of.

        Three people are asked together, and then each in a batch of its own copies.
        """
        size = self._fixed_batch or 3
        domains = [domain_of(feature) for feature in self._features]
        corners = [[d.high for d in domains], [d.low for d in domains], [d.low + d.size // 2 for d in domains]]
        people = np.resize(np.array(corners, self.dtype), (size, len(domains)))
        together = self._run(self._feed(people))
        for row in range(min(size, 3)):
            alone = self._run(self._feed(np.repeat(people[row : row + 1], size, axis=0)))
            if together.dtype == np.object_:
                same = np.array_equal(together[row], alone[row])
            else:
                same = np.allclose(together[row], alone[row], rtol=1e-3, atol=1e-5, equal_nan=True)
            if not same:
                raise ModelError(
                    f"{self.path}: the answer for one input depends on the others in its batch; export the network "
                    "for inference with a free batch dimension first, and without operators across it"
                )

    def _predict_in_batches(self, values: NDArray[np.floating], batch: int) -> Labels:
        """For a network with a fixed batch size: whole batches, the last one filled up with its own last row."""
        labels = np.empty(len(values), np.uint16)
        for start in range(0, len(values), batch):
            part = values[start : start + batch]
            padded = np.concatenate([part, np.repeat(part[-1:], batch - len(part), axis=0)])
            try:
                labels[start : start + len(part)] = self._rule(self._run(self._feed(padded)), batch)[: len(part)]
            except NoDecisionError as problem:
                raise NoDecisionError(start + min(problem.row, len(part) - 1), str(problem)) from None
        return labels

    def _run(self, feed: dict[str, NDArray[Any]]) -> NDArray[Any]:
        options = self._new_options()
        options.log_severity_level = 4
        call = self._watchdog.begin(options)
        try:
            answer = self._session.run([self._rule.output], feed, options)[0]
        except Exception as error:  # onnxruntime raises a dozen types of its own, all derived from Exception
            if options.terminate:
                raise ModelError(
                    f"{self.path}: one call of the network took more than {self.limits.seconds:g} seconds"
                ) from None
            raise ModelError(f"{self.path}: the network cannot be run: {_first_line(error)}") from None
        finally:
            self._watchdog.end(call)
        rows = len(next(iter(feed.values())))
        if (
            not isinstance(answer, np.ndarray)
            or answer.shape[:1] != (rows,)
            or answer.size != rows * self._rule.columns
        ):
            raise ModelError(f"{self.path}: {self._misfit(answer, rows)}")
        return answer

    def _misfit(self, answer: Any, rows: int) -> str:
        """What is wrong with the shape of an answer, and what to do about it."""
        output, shape = self._rule.output, getattr(answer, "shape", None)
        if not shape or shape[0] != rows or not answer.size:
            return f'output "{output}" has shape {shape} for {rows} inputs; the first dimension must be the batch'
        columns = answer.size // rows
        if self._rule.kind == "argmax":
            return (
                f'model.labels: output "{output}" has {columns} columns and the spec names '
                f"{self._rule.classes} labels; name one label for each column"
            )
        return (
            f'output "{output}" has {columns} columns where one column was expected; '
            "choose another: output = ... in [model]"
        )


def describe_input(features: Sequence[Feature], row: NDArray[np.floating]) -> str:
    """One input in the words of the spec: `age=3, sex=Female`."""
    shown = []
    for feature, value in zip(features, row, strict=True):
        text = str(feature.values[int(value)]) if isinstance(feature, CategoryFeature) else f"{value:g}"
        shown.append(f"{feature.name}={text}")
    return ", ".join(shown)


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
        raise ModelError(f"{path}: onnxruntime does not take this network: {_first_line(error)}") from None


_memory_cap = threading.Lock()


def _cap_memory(most: int) -> None:
    """Give onnxruntime one pool of bounded size: a file of 150 bytes can ask for gigabytes otherwise.

    onnxruntime takes one such pool in a process and refuses a second, so the first limit stays.
    """
    import onnxruntime as ort

    with _memory_cap, suppress(RuntimeError):
        info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(info, ort.OrtArenaCfg({"max_mem": most, "arena_extend_strategy": 1}))


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__

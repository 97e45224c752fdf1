"""An ONNX network behind onnxruntime: feature values in, class numbers out.

One thread for each call: workers bring the parallelism, and results stay the same whatever their number.
onnxruntime's memory is capped and a watchdog breaks off calls that take too long.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as replace_field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, UnansweredError
from fairchain.models.base import (
    PROVEN,
    Answer,
    MisfitError,
    check_rows_apart,
    check_shape,
    describe_input,
    first_line,
    must_fit,
    random_inputs,
)
from fairchain.models.onnx.decision import DecisionRule, Labels, NoDecisionError, plan_decision
from fairchain.models.onnx.file_checks import Limits, Network, check_bytes, read_network
from fairchain.models.onnx.inputs import Feed, plan_feed
from fairchain.models.onnx.rounding import rounding_may_vary
from fairchain.models.onnx.row_independence import SIZE_BITS, Followed, check_row_independence, follow
from fairchain.models.onnx.text_inputs import TextFeed, plan_text
from fairchain.models.onnx.time_limit import Watchdog
from fairchain.spec import Spec
from fairchain.system.isolation import at_work_on

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession, RunOptions


Hidden = NDArray[np.floating]
# Most rows in one call: the proof that rows are independent holds for fewer than 2^SIZE_BITS.
MOST_ROWS = 2**SIZE_BITS - 1


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
        self._open(read_network(Path(path), limits), spec, limits)

    @classmethod
    def from_bytes(cls, content: bytes, name: str, spec: Spec, limits: Limits | None = None, *, note: str = "") -> Self:
        """A network that is held in memory; `name` is what messages call it.

        External weights are refused: bytes have no folder beside them.
        """
        limits = limits or Limits()
        model = cls.__new__(cls)
        model._open(check_bytes(Path(name), content, limits), spec, limits)
        model.note = note
        return model

    def _open(self, network: Network, spec: Spec, limits: Limits) -> None:
        self.network, self.limits, self.note = network, limits, ""
        self.path, self.sha256 = network.path, network.sha256
        self._spec = spec
        at_work_on(self.name)
        self._new_options = _run_options()
        self._has_rnn = "RNN" in network.makers.values()
        self.rounding_may_vary = rounding_may_vary(network)
        self._session = open_session(network, self.limits)
        try:
            inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
            feeds = self._feeds(spec, inputs)
            self._rule: DecisionRule = self._plan(outputs, network.makers)
        except UnicodeDecodeError:
            raise ModelError(
                f"{self.path}: a name of an input, output or dimension is no text; export it again"
            ) from None
        self._watchdog = Watchdog(self.limits.seconds)
        self._feed: Feed | TextFeed = self._chosen(feeds)
        if isinstance(self._feed, TextFeed) and self._padding_is_idle(self._feed):
            self._feed = replace_field(self._feed, cut=True)
        fixed = self._feed.batch
        check_rows_apart(self.name, spec.described, self._ask, self.dtype, sizes=(fixed,) if fixed else PROVEN)
        self._shapes = self._feed.shapes(inputs)
        check_row_independence(network, self._shapes, self._rule.output, fixed)

    def _feeds(self, spec: Spec, inputs: Sequence[Any]) -> Sequence[Feed | TextFeed]:
        """The ways in which the inputs may be filled."""
        if spec.text is None:
            return [plan_feed(self.path, spec.features, inputs)]
        from fairchain.text import lexicon_of

        return plan_text(self.path, spec.text, lexicon_of(spec.text), inputs)

    def _chosen(self, feeds: Sequence[Feed | TextFeed]) -> Feed | TextFeed:
        """The way to fill the inputs to which the network answers with one row for each row."""
        for feed in feeds:
            # 0 rows are none, and a batch is filled by us, outside of the runtime's memory limit.
            if feed.batch is not None and not 0 < feed.batch <= self.limits.batch:
                raise ModelError(
                    f"{self.path}: the batch dimension is {feed.batch}, outside of 1 to {self.limits.batch:,}; export "
                    "the network with a free one"
                )
        if len(feeds) == 1:
            return feeds[0]
        problems = []
        for feed in feeds:
            # Another number of rows than of steps, so that one axis cannot be taken for the other.
            rows = feed.batch or (3 if self._spec.text is None or self._spec.text.length != 3 else 4)
            try:
                self._run(feed(random_inputs(self._spec.described, rows)), rows)
            except ModelError as error:
                problems.append(error)
            else:
                return feed
        raise problems[0]

    def _padding_is_idle(self, feed: TextFeed) -> bool:
        """Whether leaving out steps behind the longest text changes nothing, by the graph and by trying.

        A network that knows no lengths reads the padding, and one that fills up in front begins with it.
        """
        from fairchain.models.onnx.padding import padding_is_idle

        if feed.feature.pad == "left" or feed.batch is not None:
            return False
        mask = [feed.mask.name] if feed.mask is not None else []
        zeros = [*mask, *([feed.name] if feed.table.ndim == 1 and feed.table[0] == 0 else [])]
        if not padding_is_idle(self.network.model, [feed.name, *mask], zeros, self._rule.output):
            return False
        texts = random_inputs(self._spec.described, 24)
        cut = replace_field(feed, cut=True)
        try:
            whole = self._run(feed(texts), len(texts))
            alone = [self._run(cut(texts[[row, row]]), 2)[:1] for row in range(len(texts))]
        except ModelError:  # its number of steps is not free, whatever the file says
            return False
        return np.array_equal(whole, np.concatenate(alone), equal_nan=True)

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
        return self.network.content

    def followed(self) -> dict[str, Followed]:
        """Return what the graph says of the shape of every tensor."""
        return follow(self.network, self._shapes, self._feed.batch)

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this network was loaded for the same features and the same meaning of outputs."""
        must_fit(self.name, self._spec, spec)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn for this network."""
        return self._feed.dtype

    def predict(self, values: NDArray[Any]) -> Labels:
        """The class number of each row of feature values.

        Raises
        ------
        ModelError
            If the network fails or takes too long; an UnansweredError if it answers a row with something that is no
            class.
        """
        if not len(values):
            return np.empty(0, np.uint16)
        if len(values) > MOST_ROWS:
            starts = range(0, len(values), MOST_ROWS)
            return np.concatenate([self.predict(values[start : start + MOST_ROWS]) for start in starts])
        try:
            if self._feed.batch is not None:
                return self._predict_in_batches(values, self._feed.batch)
            if isinstance(self._feed, TextFeed):
                return self._predict_in_parts(values, self._feed)
            return self._rule(self._ask(values), len(values))
        except NoDecisionError as problem:
            raise self._no_decision(problem, values) from None

    def _no_decision(self, problem: NoDecisionError, values: NDArray[Any]) -> UnansweredError:
        shown = describe_input(self._spec.described, values[problem.row])
        return UnansweredError(f"{self.path}: {problem}; the input was {shown}", shown)

    def scores(self, values: NDArray[Any]) -> Answer:
        """The output that decides, as it is before the decision; for networks with a free batch dimension."""
        parts = self.parts(values)
        if len(parts) == 1:
            return self._ask(values)
        answers = np.concatenate([self._ask(values[part]) for part in parts])
        return answers[np.argsort(np.concatenate(parts))]

    def _ask(self, values: NDArray[Any]) -> Answer:
        # onnxruntime's RNN rounds otherwise for a single row, which must not depend on how rows are batched.
        if len(values) == 1 and self._has_rnn and self._feed.batch is None:
            return self._ask(np.repeat(values, 2, axis=0))[:1]
        return self._run(self._feed(values), len(values))

    def _predict_in_parts(self, values: NDArray[Any], feed: TextFeed) -> Labels:
        """For texts: as many at a time as vectors have room for."""
        labels = np.empty(len(values), np.uint16)
        for rows in feed.parts(values):
            part = values[rows]
            try:
                labels[rows] = self._rule(self._ask(part), len(part))
            except NoDecisionError as problem:
                raise NoDecisionError(int(rows[problem.row]), str(problem)) from None
        return labels

    def _predict_in_batches(self, values: NDArray[Any], batch: int) -> Labels:
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
        network = self.network.copy()
        known = {output.name for output in network.graph.output}
        for tensor in tensors:
            if tensor not in known:
                network.graph.output.add().name = tensor
        return self.with_graph(network)

    def with_graph(self, network: ModelProto) -> OnnxModel:
        """A network whose graph was made from this one's: the same inputs, and the same output decides."""
        spec = replace(self._spec, model=replace(self._spec.model, output=self._rule.output))
        return OnnxModel.from_bytes(network.SerializeToString(), self.name, spec, self.limits)

    def parts(self, values: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Which rows go to the network together: all of them, or as many texts as there is room for."""
        return list(self._feed.parts(values)) if isinstance(self._feed, TextFeed) else [np.arange(len(values))]

    def predict_and_show(self, values: NDArray[Any], tensors: Sequence[str]) -> tuple[Labels, list[Hidden]]:
        """The class number of each row, and the units of these inner tensors, (rows, units) each."""
        labels: list[Labels] = []
        units: list[list[Hidden]] = [[] for _ in tensors]
        parts = self.parts(values)
        for part in parts:
            made, shown = self.predict_with(values[part], tensors)
            labels.append(made)
            for tensor, hidden, found in zip(tensors, shown, units, strict=True):
                found.append(self.by_row(tensor, hidden, len(part)))
        if len(parts) == 1:
            return labels[0], [found[0] for found in units]
        order = np.argsort(np.concatenate(parts))
        return np.concatenate(labels)[order], [np.concatenate(found)[order] for found in units]

    def predict_with(self, values: NDArray[Any], tensors: Sequence[str]) -> tuple[Labels, list[NDArray[Any]]]:
        """The class number of each row, and these inner tensors as they are; for one part of a batch."""
        if self._feed.batch is not None:
            raise ModelError(f"{self.path}: has a fixed batch size; export it with a free one to look inside")
        answer, *shown = self._run_all(self._feed(values), [self._rule.output, *tensors])
        check_shape(self.name, self._rule, answer, len(values))
        try:
            return self._rule(answer, len(values)), shown
        except NoDecisionError as problem:
            raise self._no_decision(problem, values) from None

    def by_row(self, tensor: str, hidden: NDArray[Any], rows: int) -> Hidden:
        """An inner tensor as (rows, units), or a ModelError if it is not numbers with the batch first."""
        if hidden.ndim < 1 or len(hidden) != rows or not np.issubdtype(hidden.dtype, np.floating):
            raise ModelError(
                f'{self.path}: tensor "{tensor}" has shape {hidden.shape} and type {hidden.dtype} for '
                f"{rows} inputs; only numbers with the batch first can be looked at"
            )
        return hidden.reshape(rows, -1)

    def _run(self, feed: dict[str, NDArray[Any]], rows: int) -> NDArray[Any]:
        answer = self._run_all(feed, [self._rule.output])[0]
        check_shape(self.name, self._rule, answer, rows)
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


def open_session(network: Network, limits: Limits) -> InferenceSession:
    """A session for a network that was looked at, within its limits."""
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
        raise ModelError(f"{network.path}: onnxruntime does not take this network: {first_line(error)}") from None


_memory_cap = threading.Lock()


def _cap_memory(most: int) -> None:
    """Give onnxruntime one pool of bounded size: a file of 150 bytes can ask for gigabytes otherwise.

    onnxruntime takes one such pool in a process and refuses a second, so the first limit stays.
    """
    import onnxruntime as ort

    with _memory_cap, suppress(RuntimeError):
        info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(info, ort.OrtArenaCfg({"max_mem": most, "arena_extend_strategy": 1}))

"""An ONNX network as a model: feature values in, class indices out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, UnansweredError
from fairchain.models.base import (
    PROVEN,
    Answer,
    MisfitError,
    check_digest,
    check_rows_apart,
    check_shape,
    describe_input,
    digest_of_labels,
    must_fit,
    random_inputs,
)
from fairchain.models.onnx.decision import DecisionRule, Ends, Labels, NoDecisionError, plan_decision
from fairchain.models.onnx.file_checks import Limits, Network, check_bytes, read_network
from fairchain.models.onnx.inputs import Feed, distinct_rows, plan_feed
from fairchain.models.onnx.rounding import rounding_may_vary
from fairchain.models.onnx.row_independence import check_row_independence, follow
from fairchain.models.onnx.runtime import Runtime
from fairchain.models.onnx.tensor_facts import Followed
from fairchain.spec import Spec
from fairchain.system.isolation import at_work_on

if TYPE_CHECKING:
    from onnx import ModelProto

    from fairchain.models.onnx.text_inputs import TextFeed
    from fairchain.models.onnx.token_inputs import TokenFeed

    AnyFeed = Feed | TextFeed | TokenFeed

Hidden = NDArray[np.floating]
# Number of inputs for which a network must give the same decisions in every process.
COMPARED_INPUTS = 512
BATCH_OUT_OF_RANGE = (
    "{path}: the batch dimension is {batch}, outside of 1 to {limits_batch:,}; export the network with a free one"
)
NOT_A_LAYER_OF_NUMBERS = (
    '{path}: tensor "{tensor}" has shape {shape} and type {dtype} for {rows} inputs; only numbers with the batch '
    "first are supported"
)
NETWORK_IS_DETERMINISTIC = (
    "{path}: model.deterministic: a network is deterministic, and only Python code or a service can be random; "
    'remove it, or write decision = "random" if labels are drawn'
)


# Networks that passed the row checks in this process, with the model and the features of their specs.
PASSED: set[tuple[str, bytes]] = set()
MOST_PASSED = 256


class OnnxModel:
    """A network that decides about rows of feature values.

    Parameters
    ----------
    path
        The ONNX file, or a network that was already read and checked.
    spec
        The spec. It states the inputs, and the meaning of the output if the file does not state it.
    limits
        Limits for an untrusted file.

    Attributes
    ----------
    network, limits
        The checked network, and the limits for running it.
    inputs
        The encoding of feature values as the network's inputs.
    decision
        The rule that turns the output into indices of labels.
    """

    certifiable = True
    # The tokenizer in a network that reads raw texts.
    tokens: Any = None

    def __init__(self, path: str | Path | Network, spec: Spec, limits: Limits | None = None, *, note: str = "") -> None:
        self.limits, self.note = limits or Limits(), note
        self.network = network = path if isinstance(path, Network) else read_network(Path(path), self.limits)
        self.path, self.sha256 = network.path, network.sha256
        # What messages call it: its path, for a file.
        self.name = str(network.path)
        self._spec = spec
        if not spec.model.deterministic:
            raise MisfitError(NETWORK_IS_DETERMINISTIC.format(path=self.path))
        at_work_on(self.name)
        operators = {name: node.op_type for name, node in network.makers.items()}
        self._has_rnn = "RNN" in operators.values()
        self.rounding_may_vary = rounding_may_vary(network)
        self._runtime = Runtime(network, self.limits)
        feeds = self._feeds(spec)
        try:
            self.decision: DecisionRule = plan_decision(self.path, spec.model, self._runtime.outputs, operators)
        except ModelError as error:
            raise MisfitError(str(error)) from None
        if self.tokens is not None and self.decision.kind == "argmax":
            from fairchain.models.onnx.token_inputs import check_label_order

            check_label_order(self.path, self.tokens, spec.model.labels)
        self.inputs: AnyFeed = self._chosen(feeds)
        if spec.text is not None and self.tokens is None and self._padding_is_idle(self.inputs):
            self.inputs = replace_field(cast("TextFeed", self.inputs), cut=True)
        batch = self.inputs.batch
        self._shapes = self.inputs.shapes(self._runtime.inputs)
        # Both checks are functions of the network's bytes and the spec, so a second check would give the same result.
        passed = self.sha256, msgspec.json.encode((spec.model, spec.described))
        if passed in PASSED:
            return
        check_rows_apart(self.name, spec.described, self._answer, self.dtype, sizes=(batch,) if batch else PROVEN)
        check_row_independence(network, self._shapes, self.decision.output, batch)
        if len(PASSED) >= MOST_PASSED:
            PASSED.clear()
        PASSED.add(passed)

    @classmethod
    def from_bytes(cls, content: bytes, name: str, spec: Spec, limits: Limits | None = None, *, note: str = "") -> Self:
        """Return the network in these bytes, with the `name` that messages use.

        External weights are refused, because bytes have no folder.
        """
        return cls(check_bytes(Path(name), content, limits or Limits()), spec, limits, note=note)

    @classmethod
    def from_network(cls, network: Network, spec: Spec, limits: Limits | None = None, *, note: str = "") -> Self:
        """Return a network that was already read and checked, with the hash of its original files."""
        return cls(network, spec, limits, note=note)

    def _feeds(self, spec: Spec) -> Sequence[AnyFeed]:
        """Return the possible input encodings: features, tokens of the tokenizer inside the network, or words."""
        if spec.text is None:
            return [plan_feed(self.path, spec.features, self._runtime.inputs)]
        from fairchain.models.onnx.text_inputs import plan_text
        from fairchain.models.onnx.token_inputs import plan_tokens, tokens_within
        from fairchain.text import lexicon_of

        self.tokens = tokens_within(self.path, self.network.model) if spec.text.raw else None
        if self.tokens is not None:
            return [plan_tokens(self.path, self.tokens, self._runtime.inputs)]
        return plan_text(self.path, spec.text, lexicon_of(spec.text), self._runtime.inputs)

    def __getstate__(self) -> dict[str, Any]:
        """Copy everything into another process, which checks that it decides alike."""
        inputs = random_inputs(self._spec.described, COMPARED_INPUTS, seed=3).astype(self.dtype)
        return {**self.__dict__, "agreed": digest_of_labels(self, inputs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        digest = state.pop("agreed")
        self.__dict__.update(state)
        at_work_on(self.name)
        check_digest(self, random_inputs(self._spec.described, COMPARED_INPUTS, seed=3).astype(self.dtype), digest)

    def _chosen(self, feeds: Sequence[AnyFeed]) -> AnyFeed:
        """Return the input encoding for which the network answers with one row for each row."""
        for feed in feeds:
            # A batch of 0 rows is not valid, and padding a batch uses memory outside of the runtime's limit.
            if feed.batch is not None and not 0 < feed.batch <= self.limits.batch:
                raise ModelError(
                    BATCH_OUT_OF_RANGE.format(path=self.path, batch=feed.batch, limits_batch=self.limits.batch)
                )
        if len(feeds) == 1:
            return feeds[0]
        problems = []
        for feed in feeds:
            # The numbers of rows and steps differ, so that one axis cannot be mistaken for the other.
            rows = feed.batch or (3 if self._spec.text is None or self._spec.text.length != 3 else 4)
            try:
                self._run(feed, random_inputs(self._spec.described, rows))
            except ModelError as error:
                problems.append(error)
            else:
                return feed
        raise problems[0]

    def _padding_is_idle(self, feed: Any) -> bool:
        """Return whether leaving out steps after the longest text changes nothing, by the graph and by a test.

        A network without lengths reads the padding, and one with leading padding starts with it.
        """
        from fairchain.models.onnx.padding import padding_is_idle

        if feed.feature.pad == "left" or feed.batch is not None:
            return False
        mask = [feed.mask.name] if feed.mask is not None else []
        zeros = [*mask, *([feed.name] if feed.table.ndim == 1 and feed.table[0] == 0 else [])]
        if not padding_is_idle(self.network.model, [feed.name, *mask], zeros, self.decision.output):
            return False
        texts = random_inputs(self._spec.described, 24)
        cut = replace_field(feed, cut=True)
        try:
            whole = self._run(feed, texts)
            alone = [self._run(cut, texts[[row, row]])[:1] for row in range(len(texts))]
        except ModelError:  # its number of steps is not free, whatever the file states
            return False
        return np.array_equal(whole, np.concatenate(alone), equal_nan=True)

    def to_network(self) -> OnnxModel:
        """Return this object, because it is already a network."""
        return self

    @property
    def content(self) -> bytes:
        """The network as the bytes of one ONNX file."""
        return self.network.content

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn for this network."""
        return self.inputs.dtype

    def followed(self) -> dict[str, Followed]:
        """Return the shape of every tensor, as far as the graph determines it."""
        return follow(self.network, self._shapes, self.inputs.batch)

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this network was loaded for the features and output meaning of the given spec."""
        must_fit(self.name, self._spec, spec)

    @property
    def drawn(self) -> bool:
        """Whether labels are drawn with the probabilities that the network gives."""
        return self.decision.drawn

    def ends(self, values: NDArray[Any]) -> Ends:
        """Return the cumulative probabilities of the labels for each row, (rows, labels), in units of `2**-32`.

        A random number in [0, 2**32) leads to the first label whose cumulative probability is above the number.
        """
        if not len(values):
            return np.empty((0, self.decision.classes), np.int64)
        return self._by_parts(values, lambda part: self._read(self.decision.ends, part))

    def predict(self, values: NDArray[Any]) -> Labels:
        """Return the index of the label of each row of feature values.

        Raises a ModelError if the network fails or takes too long; an UnansweredError if a row has no class.
        """
        if not len(values):
            return np.empty(0, np.uint16)
        return self._by_parts(values, lambda part: self._read(self.decision, part))

    def _by_parts(self, values: NDArray[Any], evaluate: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate every distinct row once, in parts of the size of a call; return the results in the order of rows."""
        if (alike := distinct_rows(values)) is not None:
            return self._by_parts(values[alike[0]], evaluate)[alike[1]]
        if len(values) <= self.inputs.rows:
            return evaluate(values)
        parts = self.inputs.parts(values)
        return rejoined(parts, [evaluate(values[part]) for part in parts])

    def predict_fed(self, values: NDArray[Any], inputs: Mapping[str, NDArray[Any]]) -> Labels:
        """Return the index of the label of each row, from the encoded inputs of the network."""
        if len(values) == 1:
            return self.predict(values)
        answer = self._runtime.run(inputs, [self.decision.output])[0]
        check_shape(self.name, self.decision, answer, len(values))
        return self._read(self.decision, values, answer)

    def _read(
        self, rule: Callable[[Answer, int], NDArray[Any]], values: NDArray[Any], answer: Answer | None = None
    ) -> NDArray[Any]:
        """Return the result of a rule for the output of one part, padded like a fixed batch."""
        if answer is None:
            answer = self._answer(values)
        try:
            found = rule(answer, len(answer))
            return found if len(found) == len(values) else found[: len(values)]
        except NoDecisionError as problem:
            shown = describe_input(self._spec.described, values[min(problem.row, len(values) - 1)])
            message = UnansweredError.MESSAGE.format(name=self.path, problem=problem, shown=shown)
            raise UnansweredError(message, shown) from None

    def scores(self, values: NDArray[Any]) -> Answer:
        """Return the output from which the decision is made, (rows, ...)."""
        return self._by_parts(values, lambda part: self._answer(part)[: len(part)])

    def _answer(self, values: NDArray[Any]) -> Answer:
        """Return the output for one part; for a fixed batch, it is padded with its own last row."""
        batch, rows = self.inputs.batch, len(values)
        if batch is not None and batch > rows:
            values = np.concatenate([values, np.repeat(values[-1:], batch - rows, axis=0)])
        elif batch is None and rows == 1 and self._has_rnn:
            # onnxruntime's RNN rounds differently for a single row, and results must not depend on the division into
            # batches.
            return self._run(self.inputs, np.repeat(values, 2, axis=0))[:1]
        return self._run(self.inputs, values)

    def _run(self, feed: AnyFeed, values: NDArray[Any]) -> Answer:
        answer = self._runtime.run(feed(values), [self.decision.output])[0]
        check_shape(self.name, self.decision, answer, len(values))
        return answer

    def run(self, values: NDArray[Any], tensors: Sequence[str]) -> list[NDArray[Any]]:
        """Return the requested outputs of the network, unchanged, in one call of the runtime."""
        return self._runtime.run(self.inputs(values), tensors)

    def with_outputs(self, tensors: Sequence[str]) -> OnnxModel:
        """Return the same network with the requested inner tensors as further outputs."""
        network = self.network.copy()
        known = {output.name for output in network.graph.output}
        for tensor in tensors:
            if tensor not in known:
                network.graph.output.add().name = tensor
        return self.with_graph(network)

    def with_graph(self, network: ModelProto) -> OnnxModel:
        """Return a network with a changed graph, but with the same inputs and the same output for decisions."""
        spec = replace(self._spec, model=replace(self._spec.model, output=self.decision.output))
        return OnnxModel.from_bytes(network.SerializeToString(), self.name, spec, self.limits)

    def predict_and_show(self, values: NDArray[Any], tensors: Sequence[str]) -> tuple[Labels, list[Hidden]]:
        """Return the index of the label of each row, and each of the requested inner tensors as (rows, units)."""
        if (alike := distinct_rows(values)) is not None:
            found, inner = self.predict_and_show(values[alike[0]], tensors)
            return found[alike[1]], [each[alike[1]] for each in inner]
        parts = self.inputs.parts(values)
        labels, shown = zip(*(self.predict_with(values[part], tensors) for part in parts), strict=True)
        units = [
            [self.by_row(tensor, hidden, len(found)) for hidden, found in zip(layer, labels, strict=True)]
            for tensor, layer in zip(tensors, zip(*shown, strict=True), strict=True)
        ]
        return rejoined(parts, labels), [rejoined(parts, each) for each in units]

    def predict_with(self, values: NDArray[Any], tensors: Sequence[str]) -> tuple[Labels, list[NDArray[Any]]]:
        """Return the index of each row's label, and the requested inner tensors unchanged, in one onnxruntime call."""
        if self.inputs.batch is not None:
            raise ModelError(f"{self.path}: has a fixed batch size; export it with a free one to read its layers")
        answer, *shown = self.run(values, [self.decision.output, *tensors])
        check_shape(self.name, self.decision, answer, len(values))
        return self._read(self.decision, values, answer), shown

    def by_row(self, tensor: str, hidden: NDArray[Any], rows: int) -> Hidden:
        """Return an inner tensor as (rows, units), or raise ModelError unless it is numeric and has the rows first."""
        if hidden.ndim < 1 or len(hidden) != rows or not np.issubdtype(hidden.dtype, np.floating):
            raise ModelError(
                NOT_A_LAYER_OF_NUMBERS.format(
                    path=self.path, tensor=tensor, shape=hidden.shape, dtype=hidden.dtype, rows=rows
                )
            )
        return hidden.reshape(rows, -1)


def rejoined(parts: Sequence[NDArray[np.intp]], made: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the results of the parts of a batch as one array, in the order of the batch."""
    if len(parts) == 1:
        return made[0]
    return np.concatenate(made)[np.argsort(np.concatenate(parts))]

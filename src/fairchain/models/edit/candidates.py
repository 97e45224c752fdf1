"""A network that takes its weights as inputs of each call, so that a candidate needs no file or session.

The part before the first changed weight is computed once for all candidates. Answers may differ from those of a saved
file in the last bit: onnxruntime may add in another order if weights are not constant. So this is only for searching;
the result is saved, loaded and evaluated again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.edit.weights import WeightArray, WeightBlock, Weights
from fairchain.models.inspect.cut import keep_behind
from fairchain.models.onnx.decision import Labels, NoDecisionError
from fairchain.models.onnx.file_checks import check_bytes, parse_network
from fairchain.models.onnx.inputs import chunks, distinct_rows
from fairchain.models.onnx.runtime import Runtime
from fairchain.models.onnx.session import OnnxModel

# Rows, and the network's inputs for them.
Call = tuple[NDArray[np.intp], dict[str, NDArray[Any]]]
# Rows that the network evaluates in one call.
CANDIDATE_ROWS_PER_CALL = 4096


@dataclass(frozen=True)
class Prepared:
    """Rows in the network's encoding, computed once and evaluated many times: (rows, their inputs) for each call.

    `which` is the index of each text among the distinct ones; None if rows are evaluated one by one.
    """

    count: int
    calls: tuple[Call, ...]
    which: NDArray[np.intp] | None = None


class Tunable:
    """A network for which some tensors of its weights are given with each call."""

    def __init__(self, model: OnnxModel, weights: Weights, tensors: Collection[str]) -> None:
        if model.inputs.batch is not None:
            raise ModelError(f"{model.path}: has a fixed batch size; export it with a free one to repair it")
        self._model = model
        network = parse_network(model.path, weights.overridable(tensors))
        given = {value.name for value in network.graph.input}
        start = first_source(weights.blocks, tensors)
        self._start = start if start is not None and start not in given else None
        self._before = model.with_outputs([self._start]) if self._start is not None else model
        if self._start is not None:
            # Its shape is free: the batch may not be the first axis.
            dtype = weights.values[next(iter(tensors))].dtype
            keep_behind(network, self._start, model.decision.output, dtype)
        self._inputs = {value.name for value in network.graph.input} - set(tensors)
        self._runtime = Runtime(check_bytes(model.path, network.SerializeToString(), model.limits), model.limits)

    @property
    def name(self) -> str:
        """The name in messages."""
        return self._model.name

    def prepare(self, values: NDArray[Any]) -> Prepared:
        """Return the inputs of the changeable part for these rows."""
        values = values.astype(self._model.dtype, copy=False)
        if (alike := distinct_rows(values)) is not None:
            return replace(self.prepare(values[alike[0]]), which=alike[1])
        parts = self._model.inputs.parts(values)
        if len(parts) == 1:
            parts = chunks(len(values), CANDIDATE_ROWS_PER_CALL)
        calls: list[Call] = []
        start = self._start
        for part in parts:
            feed = self._model.inputs(values[part])
            if start is not None:
                feed[start] = self._before.run(values[part], [start])[0]
            # A feed may return memory that it reuses.
            calls.append((part, {name: np.array(feed[name]) for name in feed if name in self._inputs}))
        widths = {fed[start].shape[1:] for _, fed in calls} if start is not None and self._inputs == {start} else set()
        if start is not None and len(widths) == 1 and self._model.tokens is not None:
            # Texts of any length have a row of the same width after pooling.
            rows, pooled = np.concatenate(parts), np.concatenate([fed[start] for _, fed in calls])
            calls = [(rows[part], {start: pooled[part]}) for part in chunks(len(rows), CANDIDATE_ROWS_PER_CALL)]
        return Prepared(len(values), tuple(calls))

    def decide(self, prepared: Prepared, weights: Mapping[str, WeightArray]) -> Labels | None:
        """Return the class of each row under these weights; None if one has no class, for example after an overflow."""
        labels = np.empty(prepared.count, np.uint16)
        decision = self._model.decision
        for rows, feed in prepared.calls:
            (answer,) = self._runtime.run({**feed, **weights}, [decision.output])
            try:
                labels[rows] = decision(answer, len(rows))
            except NoDecisionError:
                return None
        return labels if prepared.which is None else labels[prepared.which]


def first_source(blocks: Sequence[WeightBlock], tensors: Collection[str]) -> str | None:
    """Return the input tensor of the first layer with one of these weights: no tensor before it can change."""
    changing = next((block for block in blocks if block.tensor in tensors or block.bias in tensors), None)
    if changing is None:
        return None
    # The state that flows back into a recurrent layer is its output, and changes with it.
    return next(block.source for block in blocks if block.output == changing.output)


def input_means(model: OnnxModel, blocks: Sequence[WeightBlock], values: NDArray[Any]) -> dict[str, WeightArray]:
    """Return the mean of the input of each of these blocks, one number for each entry, by the name of the source."""
    values = values[model.inputs.parts(values)[0]]
    feed = model.inputs(values)
    sources = list(dict.fromkeys(block.source for block in blocks))
    inner = [source for source in sources if source not in feed]
    found: dict[str, NDArray[Any]] = {source: np.array(feed[source]) for source in sources if source in feed}
    if inner:
        found |= dict(zip(inner, model.with_outputs(inner).run(values, inner), strict=True))
    channels = {block.source: 1 if block.operator == "Conv" else -1 for block in blocks}
    moved = {source: np.moveaxis(array, channels[source], -1) for source, array in found.items()}
    return {
        source: array.reshape(-1, array.shape[-1]).mean(axis=0, dtype=np.float64) for source, array in moved.items()
    }

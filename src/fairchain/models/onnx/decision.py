"""From the network's output to a class: the output that is read, and the decision rule.

The rule is inferred if the graph shows it (labels, argmax of several columns, a sigmoid's probability). If the graph
does not show it, for example whether a single column is a logit or a probability, the spec must state it; nothing is
guessed silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.messages import unknown
from fairchain.spec import ModelSpec

Labels = NDArray[np.unsignedinteger]
# Ends of the intervals of each label: a 32-bit word belongs to the label whose interval contains it.
Ends = NDArray[np.int64]
# Number of possible words of a drawn decision; the probability of a label is a multiple of 1 / WORDS.
DECISION_WORDS = 2**32
# Largest difference between 1 and the sum of a network's probabilities, for rounding.
SUM_ERROR = 1e-3


_WHOLE = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
LABEL_TYPES = {f"tensor({kind})" for kind in ("string", *_WHOLE)}
# Kinds of numpy arrays of texts: Python's own, and of a fixed width.
TEXT_KINDS = "OU"
# Decisions by a threshold of one number.
ONE_COLUMN = ("logit", "probability", "score")
# Operators whose results are not probabilities.
SCORE_OPERATORS = ("Add", "Gemm", "MatMul")
COLUMNS_AND_LABELS_DIFFER = (
    '{path}: model.labels: output "{name}" has {columns} columns and the spec names {count} labels; name one label for '
    "each column"
)
NOT_SCORES_OR_LABELS = (
    '{path}: output "{name}" is {type}, not a tensor of scores or labels; choose another with output = ... in '
    "[model], or export without ZipMap"
)
OUTPUT_IS_NOT_A_LABEL = (
    'output "{output}" is {found!r}, which is none of {repr}; state the labels that the network returns: codes = '
    "[...] in [model]"
)
SINGLE_COLUMN = (
    '{path}: output "{name}" is a single column made by {value}; state its meaning in [model]: decision = "logit" '
    '(positive is the second label), decision = "probability", or decision = "score" with decision_threshold = ...'
)
OUTPUT_NOT_DECISION = (
    'output "{output}" is {answer}, which is not a decision; narrow low and high of the [[feature]] that causes it '
    "to the range of the training data, or fix the network"
)
NOT_PROBABILITIES = (
    'output "{output}" is {rows}, which are not probabilities that sum to 1; end the network with a sigmoid or '
    "softmax, or use another decision in [model]"
)
RANDOM_DECISIONS = (
    'model.decision: "random" decisions are not a function of the input, which is required here; use verify or '
    'check instead, or decision = "probability" or "argmax"'
)


class NoDecisionError(Exception):
    """A row has no class: `row` is its index. This becomes an UnansweredError that shows the input."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


class DecisionRule(Struct, frozen=True):
    """The rule that turns one output tensor into class indices.

    kind is argmax, threshold, label or random; `cut` belongs to threshold, `codes` to label. A threshold or a random
    rule reads `width` numbers for each row. The threshold is on the last of them: a score alone, or the second of two
    probabilities. The random rule reads probabilities, and the label is drawn.
    """

    output: str
    kind: str
    classes: int
    cut: float = 0.0
    codes: tuple[int | str, ...] | None = None
    width: int = 1

    @property
    def columns(self) -> int:
        """The number of values that the output must have for each row."""
        return self.classes if self.kind == "argmax" else self.width

    @property
    def drawn(self) -> bool:
        """Whether the label is drawn with the probabilities that the network gives."""
        return self.kind == "random"

    def __call__(self, answer: NDArray[Any], rows: int) -> Labels:
        """Return the class of each row; raise a NoDecisionError for NaN, infinity or a label that the spec lacks."""
        if self.kind == "random":
            raise ModelError(RANDOM_DECISIONS)
        if answer.ndim != 2:
            answer = answer.reshape(rows, -1)
        if self.kind == "label":
            return self._from_labels(answer[:, 0])
        finite = np.isfinite(answer)
        if not np.logical_and.reduce(finite, axis=None):
            row = int((~finite.all(axis=1)).argmax())
            raise NoDecisionError(row, OUTPUT_NOT_DECISION.format(output=self.output, answer=_shown(answer[row])))
        if self.kind == "argmax" and self.classes == 2:
            # Among equal scores the first label is chosen, as by argmax.
            second: NDArray[np.bool_] = answer[:, 1] > answer[:, 0]
            return second.view(np.uint8)
        if self.kind == "threshold":
            above: NDArray[np.bool_] = answer[:, -1] > self.cut
            return above.view(np.uint8)
        largest: NDArray[np.intp] = answer.argmax(axis=1)
        return largest.astype(np.uint16)

    def ends(self, answer: NDArray[Any], rows: int) -> Ends:
        """Return (rows, classes): the end of each label's interval of words, from 0 on.

        The last end is `DECISION_WORDS`. The probability of a label is the length of its interval divided by
        `DECISION_WORDS`: the network's probability, rounded to 2**-32. Raises a NoDecisionError for numbers
        that are not probabilities.
        """
        shares = answer.reshape(rows, -1).astype(np.float64)
        if self.width == 1:
            shares = np.concatenate([1 - shares, shares], axis=1)
        total = shares.sum(axis=1)
        wrong = ~((shares >= -SUM_ERROR) & (shares <= 1 + SUM_ERROR)).all(axis=1) | ~(abs(total - 1) <= SUM_ERROR)
        if wrong.any():
            row = int(wrong.argmax())
            shown = _shown(answer.reshape(rows, -1)[row])
            raise NoDecisionError(row, NOT_PROBABILITIES.format(output=self.output, rows=shown))
        sums = np.cumsum(np.clip(shares, 0, 1), axis=1)
        ends: Ends = np.rint(sums / sums[:, -1:] * DECISION_WORDS).astype(np.int64)
        return ends

    def _from_labels(self, answer: NDArray[Any]) -> Labels:
        if answer.dtype.kind not in TEXT_KINDS:
            answer = answer.astype(np.int64)
        labels = answer
        if self.codes is not None:
            labels = np.full(len(answer), self.classes)
            # Among equal codes the first one counts.
            for place, code in reversed(list(enumerate(self.codes))):
                np.copyto(labels, place, where=answer == code)
        valid = (labels >= 0) & (labels < self.classes)
        if not valid.all():
            row = int((~valid).argmax())
            found = answer[row : row + 1].tolist()[0]
            known = ", ".join(map(repr, self.codes or tuple(range(self.classes))))
            raise NoDecisionError(row, OUTPUT_IS_NOT_A_LABEL.format(output=self.output, found=found, repr=known))
        return labels.astype(np.uint16)


def plan_decision(path: Path, spec: ModelSpec, outputs: Sequence[Any], makers: Mapping[str, str]) -> DecisionRule:
    """Return the rule for this network, or raise a ModelError with the keys that the spec must state."""
    node = _choose_output(path, spec, outputs)
    if node.type in LABEL_TYPES:
        if spec.decision not in (None, "label"):
            raise ModelError(
                f'{path}: output "{node.name}" contains labels; remove decision = "{spec.decision}" in [model]'
            )
        text = node.type == "tensor(string)"
        codes = spec.labels if text and spec.codes is None else spec.codes
        if codes is not None and any(isinstance(code, str) != text for code in codes):
            kind = "texts" if text else "whole numbers"
            raise ModelError(f'{path}: output "{node.name}" contains {kind}; model.codes must be {kind} too')
        return DecisionRule(node.name, "label", len(spec.labels), codes=codes)
    if node.type not in ("tensor(float)", "tensor(double)", "tensor(float16)"):
        raise ModelError(NOT_SCORES_OR_LABELS.format(path=path, name=node.name, type=node.type))
    if spec.decision == "label":
        raise ModelError(
            f'{path}: output "{node.name}" contains scores, not labels; remove decision = "label" in [model]'
        )
    return _score_rule(path, spec, node, makers.get(node.name, ""))


def _choose_output(path: Path, spec: ModelSpec, outputs: Sequence[Any]) -> Any:
    names = [node.name for node in outputs]
    if spec.output is not None:
        if spec.output not in names:
            raise ModelError(f"{path}: model.output: {unknown('output', spec.output, names)}")
        return outputs[names.index(spec.output)]
    if len(outputs) == 1:
        return outputs[0]
    # scikit-learn's converters return the label and the scores of the same decision.
    labels = [node for node in outputs if node.type in ("tensor(int64)", "tensor(string)")]
    if len(outputs) == 2 and len(labels) == 1 and spec.decision in (None, "label"):
        return labels[0]
    raise ModelError(f"{path}: the network has outputs {', '.join(names)}; choose one: output = ... in [model]")


def _score_rule(path: Path, spec: ModelSpec, node: Any, maker: str) -> DecisionRule:
    columns = node.shape[-1] if len(node.shape) > 1 else 1
    count = len(spec.labels)
    decision = spec.decision
    if not isinstance(columns, int):
        columns = 1 if decision in ONE_COLUMN else count
    if decision == "random" and columns in (count, 1) and (columns > 1 or count == 2):
        return DecisionRule(node.name, "random", count, width=columns)
    if columns == 1 and decision is None and maker == "Sigmoid":
        decision = "probability"
    # A spec with a score always states its decision threshold.
    cut = spec.decision_threshold
    if cut is None:
        cut = 0.5 if decision == "probability" else 0.0
    if columns == 1:
        if decision is None or decision == "argmax":
            raise ModelError(SINGLE_COLUMN.format(path=path, name=node.name, value=maker or "an unknown operator"))
        if count != 2:
            raise ModelError(f"{path}: model.labels: a single output column decides between 2 labels, found {count}")
        return DecisionRule(node.name, "threshold", 2, cut=cut)
    if columns != count:
        raise ModelError(COLUMNS_AND_LABELS_DIFFER.format(path=path, name=node.name, columns=columns, count=count))
    if decision == "probability" and columns == 2 and maker not in SCORE_OPERATORS:
        return DecisionRule(node.name, "threshold", 2, cut=cut, width=2)
    if decision in ONE_COLUMN or (decision is None and maker == "Sigmoid"):
        raise ModelError(
            f'{path}: output "{node.name}" has {columns} columns; write decision = "argmax" in [model] if the '
            "largest one is the class"
        )
    return DecisionRule(node.name, "argmax", count)


def labels_drawn(ends: Ends, words: NDArray[np.uint32]) -> Labels:
    """Return the label to which each row's word belongs, (rows,) from (rows, classes)."""
    labels: Labels = (words[:, None] >= ends[:, :-1]).sum(axis=1).astype(np.uint16)
    return labels


def words_that_change(ends: NDArray[np.int64], outcome: int | None) -> NDArray[np.int64]:
    """Return (rows,): the number of words for which the decision about a row is not the same in every group.

    `ends` are those of each label's words, (groups, rows, classes); `outcome` is the only label that counts, if any.
    """
    starts = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=2)
    # The words that give a label in every group lie between its last start and its first end.
    shared = np.maximum(ends.min(axis=0) - starts.max(axis=0), 0)
    if outcome is None:
        changing: NDArray[np.int64] = DECISION_WORDS - shared.sum(axis=1)
        return changing
    order = np.argsort(starts[..., outcome], axis=0)
    begin, end = (np.take_along_axis(side[..., outcome], order, axis=0) for side in (starts, ends))
    # The union of the groups' intervals: each interval adds its words beyond all earlier ones.
    before = np.concatenate([begin[:1], np.maximum.accumulate(end, axis=0)[:-1]])
    union: NDArray[np.int64] = np.maximum(end - np.maximum(begin, before), 0).sum(axis=0)
    union -= shared[:, outcome]
    return union


def _shown(values: NDArray[Any]) -> str:
    return ", ".join(f"{value:g}" for value in values[:8])

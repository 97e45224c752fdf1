"""Models that run in Python: a function of an array or a frame.

The answer is read by the same rule as a network's output. A function cannot be hashed or run by another party, so that
there is no certificate about it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, UnansweredError
from fairchain.models.base import (
    BATCHES,
    Answer,
    check_deterministic,
    check_rows_apart,
    check_shape,
    describe_input,
    must_fit,
    random_inputs,
)
from fairchain.models.frames import FrameModel, check_columns, make_frame
from fairchain.models.onnx.decision import DecisionRule, Ends, Labels, NoDecisionError, plan_decision
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.spec import Spec, TextFeature
from fairchain.system.user_code import user_code
from fairchain.tables.frames import has_masked
from fairchain.text import lexicon_of

Values = NDArray[Any]
RANDOM = (
    "The model is declared random (deterministic = false): probabilities include its own randomness, decisions are "
    "taken to be independent of each other, and a second run gives other counts."
)


class FunctionModel:
    """A Python function that decides about rows of feature values.

    Parameters
    ----------
    function
        Takes what `show` makes of feature values, returns an answer for each row: labels (names, codes or numbers),
        a column of scores, or a score for each label. It is called by one thread at a time unless it has an attribute
        `thread_safe` that is true.
    spec
        Says what the inputs are, and what the answers mean.
    name
        What messages call it.
    show
        From feature values to the function's argument; by default the array that a network with one input would get,
        or a list of texts.
    output
        What messages call the answer.
    note
        What the caller should know, for example why a model was not converted.
    """

    certifiable = False
    sha256 = ""

    def __init__(
        self,
        function: Callable[[Any], Any],
        spec: Spec,
        name: str,
        *,
        show: Callable[[Values], Any] | None = None,
        output: str = "answer",
        note: str = "",
    ) -> None:
        self.name, self.note = name, note
        self._function, self._spec = function, spec
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if spec.text is None else np.int32)
        self._show = show or (flat_array(spec, name) if spec.text is None else texts_of(spec.text))
        self._lock: AbstractContextManager[Any] = threading.Lock()
        if getattr(function, "thread_safe", False):
            self._lock = nullcontext()
        # How to read the answers is judged by the first ones; they must depend on their own row only.
        inputs = random_inputs(spec.described, 3)
        first = self._call(inputs)
        kind = "i" if spec.model.decision == "label" and first.dtype.kind == "f" else first.dtype.kind
        types = {"i": "tensor(int64)", "O": "tensor(string)", "f": "tensor(double)"}
        node = TensorInfo(output, types[kind], ("N", *first.shape[1:]))
        self._rule: DecisionRule = plan_decision(Path(name), spec.model, [node], {})
        (self.ends if self.drawn else self.predict)(inputs)
        if spec.model.deterministic:
            check_deterministic(name, spec.described, self.scores)
            check_rows_apart(name, spec.described, self.scores, self.dtype)
        else:
            self.note = " ".join(filter(None, (note, RANDOM)))

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this function was loaded for the same features and the same meaning of answers."""
        must_fit(self.name, self._spec, spec)

    @property
    def drawn(self) -> bool:
        """Whether its labels are drawn with the probabilities that it gives."""
        return self._rule.drawn

    def ends(self, values: Values) -> Ends:
        """Return for each row where the words of each label end."""
        if not len(values):
            return np.empty((0, self._rule.classes), np.int64)
        ends: Ends = self._read(self._rule.ends, values)
        return ends

    def predict(self, values: Values) -> Labels:
        """Return the class number of each row of feature values.

        Raises
        ------
        ModelError
            If the function fails; an UnansweredError if a row has no class.
        """
        if not len(values):
            return np.empty(0, np.uint16)
        labels: Labels = self._read(self._rule, values)
        return labels

    def _read(self, rule: Callable[[Answer, int], Any], values: Values) -> Any:
        """Return what a rule reads from the answers."""
        try:
            return rule(self.scores(values), len(values))
        except NoDecisionError as problem:
            shown = describe_input(self._spec.described, values[problem.row])
            raise UnansweredError(f"{self.name}: {problem}; the input was {shown}", shown) from None

    def scores(self, values: Values) -> Answer:
        """Return the function's answers before the decision, for batches of sizes that were tried."""
        parts = [self._call(values[start : start + BATCHES[-1]]) for start in range(0, len(values), BATCHES[-1])]
        answer = parts[0] if len(parts) == 1 else np.concatenate(parts)
        rule = self._rule
        texts = rule.kind == "label" and rule.codes is not None and isinstance(rule.codes[0], str)
        if (answer.dtype.kind == "O") != texts:
            before = "texts" if texts else "numbers"
            raise ModelError(f"{self.name}: answered with {_short(answer.flat[0])} where it gave {before} before")
        check_shape(self.name, rule, answer, len(values))
        if rule.kind != "label" or answer.dtype.kind != "f":
            return answer
        wrong = ~np.isfinite(answer) | (answer != np.floor(answer))
        if wrong.any():
            row = int(wrong.reshape(len(answer), -1).any(axis=1).argmax())
            raise NoDecisionError(
                row,
                f'output "{rule.output}" is {answer[row].item():g}, which is not a label; '
                'say in [model] what it is: decision = "logit" or decision = "probability"',
            )
        return answer.astype(np.int64)

    def _call(self, values: Values) -> Answer:
        shown = self._show(values.astype(self.dtype))
        with self._lock, user_code(self.name, f"failed on {_kind(shown)} with"):
            answer = self._function(shown)
            masked = has_masked(answer)
            answer = answer.detach().cpu().numpy() if hasattr(answer, "detach") else np.asarray(answer)
        if masked:
            raise ModelError(f"{self.name}: answered with masked values; return a label or a score for every row")
        if answer.ndim == 0 or len(answer) != len(values) or not answer.size:
            raise ModelError(
                f"{self.name}: answered with shape {answer.shape} for {len(values)} rows; "
                "return one label, one score, or one score for each label for every row"
            )
        return self._tidy(answer)

    def _tidy(self, answer: NDArray[Any]) -> Answer:
        """Return answers as double numbers, whole numbers or Python texts, whatever the function returned them in."""
        if answer.dtype.kind == "O" and not all(isinstance(item, str) for item in answer.flat):
            for item in answer.flat:
                if not isinstance(item, str | int | float | np.number | np.bool_):
                    raise ModelError(
                        f"{self.name}: answered with {_short(item)}, a {type(item).__name__}; return labels or scores"
                    )
            if any(isinstance(item, str) for item in answer.flat):
                raise ModelError(
                    f"{self.name}: answered with texts and numbers; return labels that are all of one kind"
                )
            answer = np.array(answer.tolist())
        kind = answer.dtype.kind
        if kind in "UTO":
            return answer.astype(object)
        if kind not in "biuf":
            raise ModelError(
                f"{self.name}: answered with {_short(answer.flat[0])}, a {answer.dtype}; return labels or scores"
            )
        decision = self._spec.model.decision
        scores = answer.size > len(answer) if decision is None else decision != "label"
        return answer.astype(np.float64 if kind == "f" or scores else np.int64)


def from_function(function: Callable[[Any], Any] | FrameModel, spec: Spec) -> FunctionModel:
    """Return a model from a function of an array, of texts, or of a frame if it was given through `as_frames`."""
    inner = function.function if isinstance(function, FrameModel) else function
    name = f"function {getattr(inner, '__qualname__', type(inner).__name__)}"
    if not isinstance(function, FrameModel):
        return FunctionModel(inner, spec, name)
    if spec.text is not None:
        raise ModelError(
            f"{name}: texts are not shown as frames; give a function of a list of texts, without as_frames"
        )
    check_columns(name, spec.features)
    return FunctionModel(inner, spec, name, show=partial(make_frame, spec.features))


def flat_array(spec: Spec, name: str) -> Callable[[Values], Any]:
    """Return a function from feature values to the array that a network with one input of doubles would get."""
    features = [replace(feature, input=None) for feature in spec.features]  # there is one input, and it has no name
    feed = plan_feed(Path(name), features, [TensorInfo("input", "tensor(double)", ("N", "features"))])
    return lambda values: feed(values)["input"]


def texts_of(text: TextFeature) -> Callable[[Values], list[str]]:
    """Return a function from word ids to texts: the words that the lexicon knows, with blanks between."""
    lexicon = lexicon_of(text)
    return lambda values: [lexicon.text(row) for row in values.tolist()]


def _kind(shown: Any) -> str:
    """Describe what a function was called with, for the message about its failure."""
    if isinstance(shown, list):
        return f"{len(shown)} texts"
    if isinstance(shown, tuple) and len(shown) == 1:
        return _kind(shown[0])
    if isinstance(shown, tuple):
        return f"arrays of shapes {', '.join(str(part.shape) for part in shown)}"
    if isinstance(shown, np.ndarray):
        return f"an array of shape {shown.shape}"
    return f"a frame with columns {', '.join(map(str, shown.columns))}"


def _short(item: object) -> str:
    return ascii(item.item() if isinstance(item, np.generic) else item)[:80]

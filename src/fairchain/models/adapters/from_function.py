"""Models that run in Python: a function of an array or a frame.

The answer is read by the same rule as a network's output. A function cannot be hashed or run by another party, so that
there is no certificate about it, unless it is a model that can be converted to a network. A function may be slow, or a
service that costs money: about rows of a table it is asked for each distinct input once, whatever asks (`AnswerMemo`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dis import get_instructions
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, UnansweredError
from fairchain.executors import Workers
from fairchain.executors.tasks import Remade
from fairchain.models.base import (
    BATCHES,
    Answer,
    check_deterministic,
    check_digest,
    check_rows_apart,
    check_shape,
    describe_input,
    digest_of_labels,
    must_fit,
    random_inputs,
    same_answers,
)
from fairchain.models.fitted import is_predictor
from fairchain.models.frames import FrameModel, OwnFrame, check_columns, column_name, fits_own_frame, make_frame
from fairchain.models.onnx.decision import ONE_COLUMN, DecisionRule, Ends, Labels, NoDecisionError, plan_decision
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.spec import Spec, TextFeature
from fairchain.system.user_code import user_code
from fairchain.tables import TableRows
from fairchain.tables.frames import has_masked

if TYPE_CHECKING:
    from fairchain.models.onnx.session import OnnxModel

Values = NDArray[Any]
# Inputs on which a function is tried and that it is asked for twice; where an answer takes less than `QUICK` seconds,
# one of `SHARE` inputs of every batch is repeated.
REPEATED, QUICK, SHARE = 16, 1e-4, 64
# Seconds for an answer of a model in this process below which finding it among those kept takes as long.
NOTHING = 3e-5
# Rows on which a model of a known package is tried, which costs processor time alone: enough to tell what a call costs
# from what each row costs.
TRIED = 512
# An odd number whose multiples differ in their high bits.
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Seconds of a call of a local model from which on it is divided among workers.
DIVIDED = 1.0
# How many times as many rows as in the last call may be in the next one.
FASTER = 64
NO_FRAMES_OF_TEXTS = "{name}: texts are not shown as frames; give a function of a list of texts, without as_frames"
ANSWERS_CHANGE = (
    "{name}: answers the same input differently when it is asked again in another batch; make it ready for inference: "
    "evaluation mode, no random numbers, nothing computed across rows of a batch. "
    "If it is random by design, say so: deterministic = false in [model]"
)


class AnswerMemo:
    """The answers to inputs that were asked for, so that each distinct input is asked for once.

    Not those of a local model that answers faster than they are found again.

    A function must give the same answer to the same input whatever else is in the batch. So some inputs are repeated
    in a later batch: `REPEATED` of them once, and as long as the function is fast also a share of every batch.
    `local`: answers cost processor time alone.
    """

    def __init__(self, local: bool = False) -> None:
        self._local = local
        # The inputs as bits with their answers; their hashes in order, and the place of each in both.
        self._inputs: NDArray[np.uint64] | None = None
        self._answers: Answer | None = None
        self._hashes, self._places = np.empty(0, np.uint64), np.empty(0, np.intp)
        self._lock = threading.Lock()
        # The number of each text that was asked for, where inputs are texts.
        self._texts: dict[str, int] = {}
        # The last batch with its answers, and whether inputs were repeated yet.
        self._last: tuple[Values, Answer] | None = None
        self._repeated = False
        # The rows of the table, the places of those on which the function was tried, and their answers.
        self._table: tuple[Values, NDArray[np.intp], Answer] | None = None
        # Rows and seconds of the last call, the seconds for each further row, and the rows of all calls.
        self._call = (0, 0.0)
        self._seconds_per_row = 0.0
        self.asked = 0
        # Under a budget of evaluations no more inputs are repeated than the first ones.
        self.sparing = False

    def __call__(self, values: Values, ask: Callable[[Values], Answer], name: str) -> Answer:
        """Return the answer to each row of doubles, or to each text; `ask` is called with the distinct new ones.

        Several threads may call it; what two of them ask for at the same time is asked for twice.
        """
        if self._local and not self.sparing and 0 < self._seconds_per_row < NOTHING:
            return self._asked(values, ask, name)
        bits = np.ascontiguousarray(self._as_numbers(values), np.float64).view(np.uint64)
        hashes = _hashes(bits)
        with self._lock:
            places = self._find(bits, hashes)
        unknown = np.flatnonzero(places < 0)
        if unknown.size:
            fresh, fresh_bits = values, bits
            if unknown.size < len(values):
                fresh, fresh_bits, hashes = values[unknown], bits[unknown], hashes[unknown]
            new, same = _distinct(fresh_bits, hashes)
            if len(new) < len(fresh):
                fresh, fresh_bits = fresh[new], fresh_bits[new]
            answers = self._asked(fresh, ask, name)
            with self._lock:
                self._inputs = fresh_bits if self._inputs is None else np.concatenate([self._inputs, fresh_bits])
                self._answers = answers if self._answers is None else np.concatenate([self._answers, answers])
                places[unknown] = len(self._inputs) - len(new) + same
        assert self._answers is not None
        return np.asarray(self._answers[places])

    def _as_numbers(self, values: Values) -> Values:
        """Return rows of numbers as they are, and the number of each text."""
        if values.dtype != object:
            return values
        with self._lock:
            numbers = [self._texts.setdefault(text, len(self._texts)) for text in values[:, 0].tolist()]
        return np.array(numbers, np.float64)[:, None]

    def _find(self, bits: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the place of each input among those with an answer, -1 for an unknown one."""
        if self._inputs is None:
            return np.full(len(bits), -1)
        if len(self._places) < len(self._inputs):
            every = _hashes(self._inputs)
            self._places = np.argsort(every, kind="stable")
            self._hashes = every[self._places]
        near = np.minimum(np.searchsorted(self._hashes, hashes), len(self._places) - 1)
        places = np.full(len(bits), -1)
        alike = np.flatnonzero(self._hashes[near] == hashes)
        found = self._places[near[alike]]
        same = (self._inputs[found] == bits[alike]).all(axis=1)
        places[alike[same]] = found[same]
        return places

    def _timed(self, rows: int, seconds: float) -> None:
        """Record how long a call took. Most of a small one is often the same for any number of rows."""
        before, took = self._call
        self._seconds_per_row = seconds / rows
        if rows > 4 * before > 0:
            further = (seconds - took) / (rows - before)
            self._seconds_per_row = min(self._seconds_per_row, max(further, seconds / rows / FASTER))
        self._call, self.asked = (rows, seconds), self.asked + rows

    @property
    def speed(self) -> tuple[int, float]:
        """How many rows the last batch had, and the seconds for each."""
        return len(self._last[0]) if self._last is not None else 1, self._seconds_per_row

    def _asked(self, fresh: Values, ask: Callable[[Values], Answer], name: str) -> Answer:
        # Another thread may replace it meanwhile.
        last, count = self._last, 0
        if last is not None:
            count = 0 if self._repeated else REPEATED
            if self._seconds_per_row < QUICK and not self.sparing:
                count = max(count, len(fresh) // SHARE)
            count = min(count, len(last[0]))
        start = perf_counter(), process_time()
        if not count or last is None:
            answers = ask(fresh)
        else:
            if self._table is not None and fresh is self._table[0]:
                answers, count = ask(fresh), 0
                self._compare(self._table[2], answers[self._table[1]], name)
            else:
                answers = ask(np.concatenate([fresh, last[0][count - 1 :: -1]]))
                self._compare(last[1][:count], answers[len(fresh) :][::-1], name)
            answers, self._repeated = answers[: len(fresh)], True
        elapsed, worked = perf_counter() - start[0], process_time() - start[1]
        # What a local model costs is its own work, not that of other processes on the machine.
        self._timed(len(fresh) + count, min(elapsed, worked) if self._local else elapsed)
        self._last = fresh, answers
        return answers

    def tried(self, table: Values, places: NDArray[np.intp], answers: Answer) -> None:
        """Record the answers to some rows of the table, which are compared when the whole table is asked for."""
        self._table = table, places, answers

    def repeat(self, ask: Callable[[Values], Answer], name: str) -> None:
        """Ask for the last batch again, in the opposite order."""
        if self._last is not None and not self._repeated:
            values, answers = self._last
            self._compare(answers, ask(values[::-1])[::-1], name)
            self.asked += len(values)
            self._repeated = True

    def _compare(self, before: Answer, again: Answer, name: str) -> None:
        if not same_answers(before, again):
            raise ModelError(ANSWERS_CHANGE.format(name=name))


def _distinct(bits: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of the distinct rows in order, and for each row which of these it is equal to."""
    ordered, every = np.sort(hashes), np.arange(len(hashes))
    if (ordered[1:] != ordered[:-1]).all():
        return every, every
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    twins = np.empty(len(hashes), np.intp)
    twins[order] = np.repeat(order[starts], np.diff(starts, append=len(hashes)))
    # Different rows with one hash, which hardly ever happens, are asked for one by one.
    equal = np.where((bits == bits[twins]).all(axis=1), twins, every)
    new = np.unique(equal)
    return new, np.searchsorted(new, equal)


def _hashes(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each row."""
    hashes = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        hashes = (hashes ^ column) * HASH_FACTOR
        hashes ^= hashes >> np.uint64(29)
    return hashes


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
    maker
        The operator that would compute a single column in a network: "Sigmoid" for probabilities.
    rows
        (rows, features): the rows of a table that it will be asked about. Then it is tried on some of them, not on
        random inputs, and its answers are kept: each distinct row is asked for once.
    local
        Whether its answers cost processor time alone, as those of a fitted estimator do: then it is tried on more
        rows, unless the spec has a budget of evaluations.

    Attributes
    ----------
    decision
        How its answers become class numbers.
    later
        Set by an adapter whose model can be converted to ONNX: called with a spec and `rows=`, it returns the network,
        or this model with a note that says why it cannot be converted.
    """

    sha256 = ""
    # Whether copies in other processes decide alike as far as can be seen: code without a state of its own.
    stateless = False
    later: Callable[..., OnnxModel | FunctionModel] | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        spec: Spec,
        name: str,
        *,
        show: Callable[[Values], Any] | None = None,
        output: str = "answer",
        note: str = "",
        maker: str = "",
        rows: Values | None = None,
        local: bool = False,
    ) -> None:
        self.name, self.note, self.local = name, note, local
        # A random model is asked anew each time.
        kept = rows is not None and spec.model.deterministic
        self._memo = AnswerMemo(local) if kept else None
        # Where the features of `show` are in the values, if the spec has others too.
        self._places: list[int] | None = None
        self._function, self._spec = function, spec
        self._workers: Workers | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if spec.text is None else object if spec.text.raw else np.int32)
        made = Remade(flat_array, spec, name) if spec.text is None else Remade(texts_of, spec.text, name)
        self._show = show or made
        self._lock: AbstractContextManager[Any] = threading.Lock()
        self.thread_safe = bool(getattr(function, "thread_safe", False))
        if self.thread_safe:
            self._lock = nullcontext()
        # How to read the answers is judged by the first ones; they must depend on their own row only.
        chosen = np.empty(0, np.intp)
        if rows is not None and (self._memo is not None or spec.text is not None):
            tried = TRIED if local and spec.guarantee.budget.evaluations is None else REPEATED
            chosen = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), tried)).astype(np.intp))
            inputs = rows[chosen]
        else:
            inputs = random_inputs(spec.described, 3)
        # About these a copy in another process must decide alike; random inputs are enough of them.
        self._tried: Values | None = inputs if self._memo is not None else random_inputs(spec.described, REPEATED)
        first = self._answers(inputs)
        if self._memo is not None and rows is not None:
            self._memo.tried(rows, chosen, first)
        kind = "i" if spec.model.decision == "label" and first.dtype.kind == "f" else first.dtype.kind
        types = {"i": "tensor(int64)", "O": "tensor(string)", "f": "tensor(double)"}
        self._node = TensorInfo(output, types[kind], ("N", *first.shape[1:]))
        self._makers = {output: maker if first.size == len(first) else ""}
        self.decision: DecisionRule = plan_decision(Path(name), spec.model, [self._node], self._makers)
        self._read(self.decision.ends if self.drawn else self.decision, inputs, first)
        if not spec.model.deterministic:
            self.note = " ".join(filter(None, (note, RANDOM)))
        elif self._memo is None:
            check_deterministic(name, spec.described, self.scores)
            check_rows_apart(name, spec.described, self.scores, self.dtype)
        elif rows is not None and len(rows) <= REPEATED:
            # All rows are known now, so that none would be asked for again in a later batch.
            self._memo.repeat(self._call, name)

    def __getstate__(self) -> dict[str, Any]:
        """Copy everything but locks and answers so far into another process, which checks that it decides alike."""
        left_out = dict.fromkeys(("_lock", "_memo", "_workers", "later"))
        digest = ""
        if self._tried is not None and self._spec.model.deterministic:
            digest = digest_of_labels(self, self._tried)
        return {**self.__dict__, **left_out, "agreed": digest, "kept": self._memo is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        digest, kept = state.pop("agreed"), state.pop("kept")
        self.__dict__.update(state)
        self._memo = AnswerMemo() if kept else None
        self._lock = nullcontext() if self.thread_safe else threading.Lock()
        if self._tried is not None:
            check_digest(self, self._tried, digest)

    @property
    def certifiable(self) -> bool:
        """Whether it can be converted to an ONNX network that others can evaluate, which is tried."""
        try:
            self.to_network()
        except ModelError:
            return False
        return True

    def to_network(self, spec: Spec | None = None, rows: TableRows | None = None) -> OnnxModel:
        """Return the model as an ONNX network with the same labels.

        Parameters
        ----------
        spec
            The features and labels of the network; by default those that the model was loaded for.
        rows
            Rows of a table, encoded for this spec, in which the labels must be the same too.

        Raises
        ------
        ModelError
            If it cannot be converted, with the reason.
        """
        made = self if self.later is None else self.later(spec or self._spec, rows=rows)
        if isinstance(made, FunctionModel):
            raise ModelError(made.note or f"{self.name}: Python code cannot be converted to ONNX; export the network")
        return made

    @property
    def asked(self) -> int:
        """How many inputs the function was asked for, repeated ones too; 0 unless it is about the rows of a table."""
        return self._memo.asked if self._memo is not None else 0

    def spare(self) -> None:
        """Repeat no more inputs than the first ones: a budget of evaluations is stated."""
        if self._memo is not None:
            self._memo.sparing = True

    @contextmanager
    def spread_over(self, workers: Workers) -> Iterator[None]:
        """Let workers ask the function for new rows, if they are other processes or may become such."""
        if workers.remote or (self.stateless and not self.thread_safe):
            self._workers = workers
        try:
            yield
        finally:
            self._workers = None

    def _spread(self, values: Values) -> Answer:
        """Return the answers to some rows, from several workers."""
        workers = self._workers
        brief = self.local and self._memo is not None and self._memo.speed[1] * len(values) < DIVIDED
        if workers is None or (brief and not workers.remote):
            return self._call(values)
        size = min(BATCHES[-1], max(1, -(-len(values) // (4 * workers.count))))
        parts = [values[start : start + size] for start in range(0, len(values), size)]
        return np.concatenate(list(workers.map(self._call, parts, sizes=[len(part) for part in parts])))

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this function was loaded for the same features and the same meaning of answers."""
        must_fit(self.name, self._spec, spec)

    def for_spec(self, spec: Spec) -> FunctionModel:
        """Return the same function with the labels and the groups of another spec; the answers so far are shared.

        The spec may have further features that the model does not take.
        """
        names = [feature.name for feature in spec.features]
        inputs, asked = (
            [replace(feature, groups={}) for feature in each.features if feature.model_input]
            for each in (spec, self._spec)
        )
        one_column = {spec.model.decision, self._spec.model.decision} <= set(ONE_COLUMN)
        if inputs != asked or (spec.model.decision != self._spec.model.decision and not one_column):
            raise ModelError(f"{self.name}: was loaded for a spec with other inputs; load it with this one")
        other = FunctionModel.__new__(FunctionModel)
        other.__dict__.update(self.__dict__)
        other._spec, other._tried = spec, None
        places = [names.index(feature.name) for feature in self._spec.features]
        if self._places is not None:
            places = [places[place] for place in self._places]
        other._places = None if places == list(range(len(names))) else places
        other.decision = plan_decision(Path(self.name), spec.model, [self._node], self._makers)
        return other

    @property
    def drawn(self) -> bool:
        """Whether its labels are drawn with the probabilities that it gives."""
        return self.decision.drawn

    def ends(self, values: Values) -> Ends:
        """Return for each row where the words of each label end."""
        if not len(values):
            return np.empty((0, self.decision.classes), np.int64)
        ends: Ends = self._read(self.decision.ends, values)
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
        labels: Labels = self._read(self.decision, values)
        return labels

    def _read(self, rule: Callable[[Answer, int], Any], values: Values, answer: Answer | None = None) -> Any:
        """Return what a rule reads from the answers; by default they are asked for."""
        try:
            return rule(self._scores(self._answers(values) if answer is None else answer), len(values))
        except NoDecisionError as problem:
            shown = describe_input(self._spec.described, values[problem.row])
            raise UnansweredError(f"{self.name}: {problem}; the input was {shown}", shown) from None

    def scores(self, values: Values) -> Answer:
        """Return the function's answers before the decision, for batches of sizes that were tried."""
        return self._scores(self._answers(values))

    def _scores(self, answer: Answer) -> Answer:
        """Return the answers as the decision rule reads them."""
        rule = self.decision
        texts = rule.kind == "label" and rule.codes is not None and isinstance(rule.codes[0], str)
        if (answer.dtype.kind == "O") != texts:
            before = "texts" if texts else "numbers"
            raise ModelError(f"{self.name}: answered with {_short(answer.flat[0])} where it gave {before} before")
        check_shape(self.name, rule, answer, len(answer))
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

    def _answers(self, values: Values) -> Answer:
        """Return the answers in parts of sizes that were tried; known ones are not asked for again."""
        if self._places is not None:
            values = values[:, self._places]
        if self._memo is not None:
            return self._memo(values.astype(self.dtype, copy=False), self._spread, self.name)
        parts = [self._call(values[start : start + BATCHES[-1]]) for start in range(0, len(values), BATCHES[-1])]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rows_per_call(self, seconds: float, most: int) -> int:
        """Return about how many new rows of a table the function answers in some seconds, by its last answers."""
        last, each = (1, 1.0) if self._memo is None else self._memo.speed
        return int(np.clip(seconds / max(each, 1e-9), 1, min(most, FASTER * last)))

    def _call(self, values: Values) -> Answer:
        shown = _apart(self._show(values.astype(self.dtype, copy=False)), values)
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


def from_function(
    function: Callable[[Any], Any] | FrameModel, spec: Spec, rows: TableRows | None = None
) -> FunctionModel:
    """Return a model from a function of an array, of texts, or of a frame if it was given through `as_frames`.

    `rows` are those of the table that it will be asked about, if there is one.
    """
    values = values_of(rows)
    inner = function.function if isinstance(function, FrameModel) else function
    name = f"function {getattr(inner, '__qualname__', type(inner).__name__)}"
    if not isinstance(function, FrameModel):
        return _marked(FunctionModel(inner, spec, name, rows=values), inner)
    if spec.text is not None:
        raise ModelError(NO_FRAMES_OF_TEXTS.format(name=name))
    check_columns(name, spec.features)
    columns = [column_name(feature) for feature in spec.features if feature.model_input]
    return _marked(FunctionModel(inner, spec, name, show=show_frame(spec, columns, rows), rows=values), inner)


def _marked(model: FunctionModel, function: Any) -> FunctionModel:
    model.stateless = is_stateless(function)
    return model


def is_stateless(function: Any) -> bool:
    """Return whether a function is plain code of a module: it keeps nothing, and reads nothing that may change.

    The names that it uses are modules, classes, functions, constants and fitted models.

    >>> import base64
    >>> is_stateless(base64.b64encode), is_stateless(lambda values: values)
    (True, False)
    """
    if not isinstance(function, FunctionType) or function.__closure__ or function.__module__ == "__main__":
        return False
    if "<" in function.__qualname__:  # made inside another function
        return False
    used = [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    plain = (ModuleType, type, FunctionType, BuiltinFunctionType, str, bytes, int, float, bool, type(None), np.ufunc)
    return not any(each.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for each in get_instructions(function)) and all(
        isinstance(each, plain) or is_predictor(each) for each in used
    )


def values_of(rows: TableRows | None) -> Values | None:
    """Return the feature values of the rows, if there are any."""
    return None if rows is None else rows.values


def show_frame(spec: Spec, columns: Sequence[str], rows: TableRows | None) -> Callable[[Values], Any]:
    """Return a function from feature values to a frame with these columns, if possible as those of the rows are."""
    if rows is not None and rows.table is not None and fits_own_frame(spec.features, columns, rows.table.frame):
        return OwnFrame(spec.features, columns, rows)
    return partial(make_frame, spec.features, columns=columns)


def flat_array(spec: Spec, name: str) -> Callable[[Values], Any]:
    """Return a function from feature values to the array that a network with one input of doubles would get."""
    features = [replace(feature, input=None) for feature in spec.features]  # there is one input, and it has no name
    feed = plan_feed(Path(name), features, [TensorInfo("input", "tensor(double)", ("N", "features"))])
    return lambda values: feed(values)["input"]


def texts_of(text: TextFeature, name: str) -> Callable[[Values], list[str]]:
    """Return a function from rows of one text each to a list of texts, as they are."""
    if not text.raw:
        raise ModelError(
            f'{name}: gets texts as they are, and feature "{text.name}" has vectors or vocabulary and length, which '
            "are for networks of words; remove these keys from the [[feature]]"
        )
    return lambda values: values[:, 0].tolist()


def _apart(shown: Any, values: Values) -> Any:
    """Return what is shown in memory of its own, so that a function may write into it."""
    if isinstance(shown, tuple):
        return tuple(_apart(part, values) for part in shown)
    return shown.copy() if isinstance(shown, np.ndarray) and np.may_share_memory(shown, values) else shown


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

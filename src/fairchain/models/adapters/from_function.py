"""Models that run in Python: a function of an array, a frame or texts, and how its input is made of feature values.

The answer is read by the same rule as a network's output. A function cannot be hashed or run by another party, so it
has no certificate, unless it is a model that can be converted to a network. A function may be slow, or a paid service:
for a table each distinct row is evaluated once for all stages (`AnswerMemo`). Answers of a service, and of a function
given through `journaled`, are also stored in a journal (`models/journal.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dis import get_instructions
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ExecutorError, ModelError, UnansweredError
from fairchain.executors import Workers
from fairchain.executors.tasks import Remade
from fairchain.models.adapters.answer_memo import FASTER, REPEATED, AnswerMemo, RowArray
from fairchain.models.adapters.kept_answers import KeptAnswers
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
    spread,
)
from fairchain.models.file_frames import with_own_cells
from fairchain.models.fitted import is_predictor
from fairchain.models.frames import FrameModel, OwnFrame, check_columns, column_name, make_frame
from fairchain.models.journal import Journaled, JournaledFunction, as_array
from fairchain.models.onnx.decision import (
    ONE_COLUMN,
    TEXT_KINDS,
    DecisionRule,
    Ends,
    Labels,
    NoDecisionError,
    plan_decision,
)
from fairchain.models.onnx.inputs import plan_feed
from fairchain.models.onnx.runtime import TensorInfo
from fairchain.spec import CategoryFeature, Feature, Spec, TextFeature
from fairchain.system.user_code import user_code
from fairchain.tables import TableRows
from fairchain.tables.frames import has_masked

if TYPE_CHECKING:
    from fairchain.models.onnx.session import OnnxModel

# The result of a decision rule: labels, or the ends of their random numbers.
Read = TypeVar("Read")
# Rows on which a model of a known package is tested, at the cost of processor time only: enough to separate the cost of
# a call from the cost of each row.
TRIED = 512
# Seconds of a call of a local model above which it is divided among workers.
DIVIDED = 1.0
# Seconds of all requests to a service between two checks whether the run should stop; at least this many requests of
# each connection, so that connections do not wait for each other.
SERVICE_SECONDS, LEAST_WAVES = 2.0, 4
FAILED_ON = "failed on {call} with"
CODE_NOT_CONVERTED = "{name}: Python code cannot be converted to ONNX; export the network"
SERVICE_NOT_CONVERTED = "{name}: a service cannot be converted to ONNX; give the model itself"
GIVE_FRAMES = "if it takes a frame with the columns of the table, give fairchain.as_frames(function)"
NO_FRAMES_OF_TEXTS = "{name}: texts are not shown as frames; give a function of a list of texts, without as_frames"
ANSWER_NOT_A_LABEL = (
    'output "{output}" is {answer:g}, which is not a label; state its meaning in [model]: decision = "logit" or '
    'decision = "probability"'
)
RANDOM = (
    "The model is declared random (deterministic = false): probabilities include its own randomness, decisions are "
    "taken to be independent of each other, and a second run gives other counts: a recheck cannot run it again bit "
    "by bit, and repeats the question with fresh draws."
)
RANDOM_IN_ONE_PROCESS = (
    "{name}: a random model is evaluated by one process, because copies in several could draw the same numbers; "
    "leave the executor out"
)
TEXTS_NOT_WORDS = (
    '{name}: gets whole texts, and feature "{feature}" has vectors or vocabulary and length, which are for networks '
    "of words; remove these keys from the [[feature]]"
)


class FunctionModel:
    """A Python function that decides about rows of feature values.

    Parameters
    ----------
    function
        Takes the result of `show` and returns an answer for each row: labels (names, codes or numbers), a column of
        scores, or a score for each label. It is called by one thread at a time unless it has a true attribute
        `thread_safe`.
    spec
        States the inputs and the meaning of the answers.
    name, output, note
        The names of the model and of its answer in messages, and a note for the caller, for example why a model was not
        converted.
    show
        Converts feature values to the function's argument; by default the array for a network with one input, or a list
        of texts.
    maker
        The operator that would compute a single column in a network: "Sigmoid" for probabilities.
    rows
        The rows of a table that it will evaluate. It is then tested on some of them, not on random inputs, and its
        answers are cached: each distinct row is evaluated once.
    local
        Whether its answers cost only processor time, like those of a fitted estimator: then it is tested on more rows,
        unless the spec has a budget of evaluations.
    """

    sha256 = ""
    # Whether copies in other processes are known to decide alike: code without mutable state.
    stateless = False
    # Set by an adapter whose model can be converted to ONNX: called with a spec and `rows=`, it returns the network, or
    # this model with a note that states why it cannot be converted.
    later: Callable[..., OnnxModel | FunctionModel] | None = None

    def __init__(
        self,
        function: Callable[[Any], Any],
        spec: Spec,
        name: str,
        *,
        show: Callable[[RowArray], Any] | None = None,
        output: str = "answer",
        note: str = "",
        maker: str = "",
        rows: TableRows | None = None,
        local: bool = False,
    ) -> None:
        self.name, self.note, self.local = name, note, local
        table = None if rows is None else rows.values
        # Answers of a service, or of a slow function, are stored in a journal.
        self.costly = isinstance(function, Journaled)
        # A random model is evaluated again each time.
        random = not spec.model.deterministic
        self.kept = KeptAnswers(function, name, random=random) if isinstance(function, Journaled) else None
        kept = (rows is not None or self.costly) and not random
        self._memo = AnswerMemo(local, self.costly) if kept else None
        # The indices of the features of `show` in the values, if the spec has others too.
        self._places: list[int] | None = None
        # The indices of features of `show` that the model does not get.
        self._not_inputs = [place for place, each in enumerate(spec.features) if not each.model_input and not spec.text]
        self._function, self._spec = function, spec
        self._workers: Workers | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if spec.text is None else object if spec.text.raw else np.int32)
        # For texts also if there is a `show`: it refuses keys for networks of words.
        made = Remade(texts_of, spec.text, name) if spec.text is not None else None
        self._show = show or made or Remade(flat_array, spec, name)
        self.thread_safe = bool(getattr(function, "thread_safe", False))
        self._lock: AbstractContextManager[Any] = nullcontext() if self.thread_safe else threading.Lock()
        # The rule is determined from the first answers, which must depend on their own row only.
        chosen = np.empty(0, np.intp)
        if table is not None and (self._memo is not None or spec.text is not None):
            tried = TRIED if local and spec.guarantee.budget.evaluations is None else REPEATED
            chosen = spread(len(table), tried)
            inputs = self._show.choose(chosen) if isinstance(self._show, OwnFrame) else table[chosen]
        else:
            inputs = random_inputs(spec.described, REPEATED if self.costly and kept else 3)
        # A copy in another process must give the same decisions about these; random inputs suffice.
        self._tried: RowArray | None = inputs if self._memo is not None else random_inputs(spec.described, REPEATED)
        first = self._answers(inputs)
        if self._memo is not None and table is not None:
            self._memo.tried(table, chosen, first)
        kind = "i" if spec.model.decision == "label" and first.dtype.kind == "f" else first.dtype.kind
        types = {"i": "tensor(int64)", **dict.fromkeys(TEXT_KINDS, "tensor(string)"), "f": "tensor(double)"}
        self._node = TensorInfo(output, types[kind], ("N", *first.shape[1:]))
        self._makers = {output: maker if first.size == len(first) else ""}
        self.decision: DecisionRule = plan_decision(Path(name), spec.model, [self._node], self._makers)
        self._read(self.decision.ends if self.drawn else self.decision, inputs, first)
        if random:
            self.note = " ".join(filter(None, (note, RANDOM)))
        elif self._memo is None:
            check_deterministic(name, spec.described, self.scores)
            check_rows_apart(name, spec.described, self.scores, self.dtype)
        elif table is not None and self._memo.knows(self._distinct_inputs(table)):
            # No row would be evaluated again in a later batch.
            self._memo.repeat(self._call, name)

    def __getstate__(self) -> dict[str, Any]:
        """Copy everything except locks and answers into another process, which checks that it decides alike."""
        if not self._spec.model.deterministic:
            raise ExecutorError(RANDOM_IN_ONE_PROCESS.format(name=self.name))
        left_out = dict.fromkeys(("_lock", "_memo", "_workers", "later", "kept"))
        return {**self.__dict__, **left_out, "agreed": self.tried_digest[0], "remembers": self._memo is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        digest, remembers = state.pop("agreed"), state.pop("remembers")
        self.__dict__.update(state)
        self._memo = AnswerMemo() if remembers else None
        self._lock = nullcontext() if self.thread_safe else threading.Lock()
        if self._tried is not None:
            check_digest(self, self._tried, digest)

    @property
    def certifiable(self) -> bool:
        """Whether it can be converted to an ONNX network that others can evaluate; this attempts the conversion."""
        try:
            self.to_network()
        except ModelError:
            return False
        return True

    def to_network(self, spec: Spec | None = None, rows: TableRows | None = None) -> OnnxModel:
        """Return the model as an ONNX network with the same labels, or raise a ModelError with the reason.

        By default the network has the features and labels that the model was loaded for. `rows` of a table, encoded for
        the spec, are those for which the labels must also agree.
        """
        made = self if self.later is None else self.later(spec or self._spec, rows=rows)
        if isinstance(made, FunctionModel):
            if self.service is not None:
                raise ModelError(SERVICE_NOT_CONVERTED.format(name=self.name))
            # A note that the model is random is not a reason.
            raise ModelError(made.note.removesuffix(RANDOM).rstrip() or CODE_NOT_CONVERTED.format(name=self.name))
        return made

    @property
    def evaluated(self) -> int:
        """The number of evaluated inputs, including repeated ones; 0 unless it has rows of a table, or is costly."""
        counted = self.kept or self._memo
        return 0 if counted is None else counted.evaluated

    def spare(self) -> None:
        """Repeat only the first inputs, because a budget of evaluations is stated."""
        if self._memo is not None:
            self._memo.sparing = True

    @property
    def tried_digest(self) -> tuple[str, int]:
        """The hash of the decisions about the test inputs, and their number."""
        if self._tried is None or not self._spec.model.deterministic:
            return "", 0
        return digest_of_labels(self, self._tried), len(self._tried)

    @property
    def service(self) -> Any:
        """The service, with its client; None for a function."""
        function = self._function
        return function if isinstance(function, Journaled) and function.client is not None else None

    @contextmanager
    def spread_over(self, workers: Workers) -> Iterator[None]:
        """Let workers evaluate the function on new rows, if they are or may become other processes."""
        if workers.remote or (self.stateless and not self.thread_safe):
            self._workers = workers
        try:
            yield
        finally:
            self._workers = None

    def _spread(self, values: RowArray) -> Answer:
        """Return the answers to some rows, from several workers."""
        if self.kept is not None:
            return self.kept(values, self._shown, self._call)
        workers = self._workers
        brief = self.local and self._memo is not None and self._memo.speed[1] * len(values) < DIVIDED
        if workers is None or (brief and not workers.remote):
            return self._call(values)
        size = min(BATCHES[-1], max(1, -(-len(values) // (4 * workers.count))))
        parts = [values[start : start + size] for start in range(0, len(values), size)]
        return np.concatenate(list(workers.map(self._call, parts, sizes=[len(part) for part in parts])))

    def expect(self, inputs: Callable[[], RowArray | None] | None) -> None:
        """Announce the inputs that will probably be needed after the next ones: a service evaluates them ahead."""
        if self.kept is not None and inputs is not None:
            self.kept.expect(lambda: None if (values := inputs()) is None else self._own_columns(values))

    def _own_columns(self, values: RowArray) -> RowArray:
        return values if self._places is None else values[:, self._places]

    def answered(self, values: RowArray) -> Labels:
        """Return the class of the first rows, up to one without a stored answer; nothing is evaluated."""
        found: list[Any] = []
        if self.kept is not None and self._spec.model.deterministic:
            journal = self.kept.journal
            found = journal.find(journal.keys(self._show(self._own_columns(values))))
        count = next((place for place, each in enumerate(found) if each is None), len(found))
        if not count:
            return np.empty(0, np.uint16)
        return self._read(self.decision, values[:count], as_array(found[:count], self.name))

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this function was loaded for the same features and the same meaning of answers."""
        must_fit(self.name, self._spec, spec)

    def for_spec(self, spec: Spec) -> FunctionModel:
        """Return the same function with the labels and the groups of another spec; the cached answers are shared.

        The spec may have further features that the model does not take.
        """
        names = [feature.name for feature in spec.features]
        inputs, loaded_for = (
            [_without_groups(feature) for feature in each.features if feature.model_input]
            for each in (spec, self._spec)
        )
        one_column = {spec.model.decision, self._spec.model.decision} <= set(ONE_COLUMN)
        if inputs != loaded_for or (spec.model.decision != self._spec.model.decision and not one_column):
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
        """Whether labels are drawn with the probabilities that the function gives."""
        return self.decision.drawn

    def ends(self, values: RowArray) -> Ends:
        """Return for each row the upper end of the random numbers that give each label."""
        if not len(values):
            return np.empty((0, self.decision.classes), np.int64)
        return self._read(self.decision.ends, values)

    def predict(self, values: RowArray) -> Labels:
        """Return the class index of each row, or raise a ModelError; an UnansweredError if a row has no class."""
        if not len(values):
            return np.empty(0, np.uint16)
        return self._read(self.decision, values)

    def _read(self, rule: Callable[[Answer, int], Read], values: RowArray, answer: Answer | None = None) -> Read:
        """Return the result of a rule for the answers; by default the answers are computed."""
        try:
            return rule(self._scores(self._answers(values) if answer is None else answer), len(values))
        except NoDecisionError as problem:
            shown = describe_input(self._spec.described, values[problem.row])
            message = UnansweredError.MESSAGE.format(name=self.name, problem=problem, shown=shown)
            raise UnansweredError(message, shown) from None

    def scores(self, values: RowArray) -> Answer:
        """Return the function's answers before the decision, in batches of tested sizes."""
        return self._scores(self._answers(values))

    def _scores(self, answer: Answer) -> Answer:
        """Return the answers as the decision rule reads them."""
        rule = self.decision
        texts = rule.kind == "label" and rule.codes is not None and isinstance(rule.codes[0], str)
        if (answer.dtype.kind in TEXT_KINDS) != texts:
            before = "texts" if texts else "numbers"
            raise ModelError(f"{self.name}: answered with {_short(answer.flat[0])}, but with {before} before")
        check_shape(self.name, rule, answer, len(answer))
        if rule.kind != "label" or answer.dtype.kind != "f":
            return answer
        wrong = ~np.isfinite(answer) | (answer != np.floor(answer))
        if wrong.any():
            row = int(wrong.reshape(len(answer), -1).any(axis=1).argmax())
            raise NoDecisionError(row, ANSWER_NOT_A_LABEL.format(output=rule.output, answer=answer[row].item()))
        return answer.astype(np.int64)

    def _answers(self, values: RowArray) -> Answer:
        """Return the answers in parts of tested sizes; known ones are not computed again."""
        values = self._own_columns(values)
        if self._memo is not None:
            return self._memo(self._distinct_inputs(values), self._spread, self.name)
        evaluate = self._call if self.kept is None else partial(self.kept, show=self._shown, call=self._call)
        parts = [evaluate(values[start : start + BATCHES[-1]]) for start in range(0, len(values), BATCHES[-1])]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _distinct_inputs(self, values: RowArray) -> RowArray:
        """Return rows as the cache distinguishes them."""
        values = values.astype(self.dtype, copy=False)
        if self.costly and self._not_inputs:
            # Rows that differ only in features that the model does not get are one input, and paid for once.
            values = values.copy()
            values[:, self._not_inputs] = 0
        return values

    def rows_per_call(self, seconds: float, most: int) -> int:
        """Return about how many new rows of a table the function answers in some seconds, from its last answers."""
        if self.service is not None:
            client = self.service.client
            waves = SERVICE_SECONDS * client.requests / client.seconds if client.seconds else LEAST_WAVES
            wave = client.connections * self.service.rows_per_request
            return int(min(most, wave * max(LEAST_WAVES, waves)))
        if self.kept is not None:
            return int(np.clip(seconds / self.kept.seconds, 1, most)) if self.kept.seconds else REPEATED
        last, each = (1, 1.0) if self._memo is None else self._memo.speed
        return int(np.clip(seconds / max(each, 1e-9), 1, min(most, FASTER * last)))

    def _shown(self, values: RowArray) -> Any:
        return self._show(values.astype(self.dtype, copy=False))

    def _call(self, values: RowArray) -> Answer:
        shown = apart(self._shown(values), values)
        service, failed = self.service, FAILED_ON.format(call=describe_call(shown))
        # Errors of a service are described where it is called.
        guarded = user_code(self.name, failed) if service is None else nullcontext()
        with self._lock, self._explained(shown), guarded:
            answer = self._function(shown) if service is None else service(shown, self.kept and self.kept.stop)
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

    @contextmanager
    def _explained(self, shown: Any) -> Iterator[None]:
        """Explain how to pass a function that takes frames, and mask quotes from texts in its message."""
        try:
            yield
        except ModelError as error:
            lacking = isinstance(error.__cause__, IndexError | KeyError | AttributeError | TypeError)
            if lacking and isinstance(shown, np.ndarray) and isinstance(self._function, FunctionType):
                raise ModelError(f"{error}; {GIVE_FRAMES}") from error.__cause__
            population = self._spec.population
            if self._spec.text is None or getattr(population, "show_texts", False):
                raise
            from fairchain.text.quoting import quoted

            # The address of a service is not a link in a text.
            message, head = str(error), "" if self.service is None else self.service.url
            head = head if message.startswith(head) else ""
            masked = quoted(message.removeprefix(head), getattr(population, "mask_words", ()), most=500)
            raise ModelError(head + masked) from None

    def _tidy(self, answer: NDArray[Any]) -> Answer:
        """Return answers as doubles, integers or texts, whatever type the function returned."""
        if answer.dtype.kind == "O" and not all(isinstance(item, str) for item in answer.flat):
            for item in answer.flat:
                if not isinstance(item, str | int | float | np.number | np.bool_):
                    found = f"{_short(item)}, a {type(item).__name__}"
                    raise ModelError(f"{self.name}: answered with {found}; return labels or scores")
            if any(isinstance(item, str) for item in answer.flat):
                raise ModelError(f"{self.name}: answered with texts and numbers; return labels of one type")
            answer = np.array(answer.tolist())
        kind = answer.dtype.kind
        # A journal stores Python's own texts. A function may overwrite this array with its next answers.
        if kind == "U" and self.kept is None:
            return answer.copy()
        if kind in "UTO":
            return answer.astype(object)
        if kind not in "biuf":
            found = f"{_short(answer.flat[0])}, a {answer.dtype}"
            raise ModelError(f"{self.name}: answered with {found}; return labels or scores")
        decision = self._spec.model.decision
        scores = answer.size > len(answer) if decision is None else decision != "label"
        return answer.astype(np.float64 if kind == "f" or scores else np.int64)


def from_function(
    function: Callable[[Any], Any] | FrameModel, spec: Spec, rows: TableRows | None = None
) -> FunctionModel:
    """Return a model from a function of an array, of texts, or of a frame if it was given through `as_frames`.

    `rows` are those of the table that it will evaluate, if any.
    """
    inner: Any = function.function if isinstance(function, FrameModel) else function
    name = f"function {getattr(inner, '__qualname__', type(inner).__name__)}"
    if isinstance(function, JournaledFunction) and isinstance(function.function, FrameModel):
        function = function.function
    show = None
    if isinstance(function, FrameModel):
        if spec.text is not None:
            raise ModelError(NO_FRAMES_OF_TEXTS.format(name=name))
        check_columns(name, spec.features)
        columns = [column_name(feature) for feature in spec.features if feature.model_input]
        show = show_frame(spec, columns, rows)
    model = FunctionModel(inner, spec, name, show=show, rows=rows)
    model.stateless = spec.model.deterministic and is_stateless(inner)
    return model


def is_stateless(function: Any) -> bool:
    """Return whether a function is plain code of a module, without mutable state of its own or in its global names.

    These names are modules, classes, functions, constants and fitted models.

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


def _without_groups(feature: Feature) -> Feature:
    """Return the part of a feature that a function depends on: no groups, and no range that these may have extended."""
    plain = replace(feature, groups={})
    return plain if isinstance(plain, CategoryFeature) or plain.clip else replace(plain, low=0, high=0)


def _short(item: object) -> str:
    return ascii(item.item() if isinstance(item, np.generic) else item)[:80]


# ---- The input of a function ----------------------------------------------------------------------------------------


def show_frame(spec: Spec, columns: Sequence[str], rows: TableRows | None) -> Callable[[RowArray], Any]:
    """Return a function from feature values to a frame with these columns, if possible with the rows' own cells."""
    rows = None if rows is None else with_own_cells(rows, spec)
    if rows is not None and rows.table is not None:
        return OwnFrame(spec.features, columns, rows)
    return partial(make_frame, spec.features, columns=columns)


def flat_array(spec: Spec, name: str) -> Callable[[RowArray], Any]:
    """Return a function from feature values to the array that a network with one input of doubles would get."""
    features = [replace(feature, input=None) for feature in spec.features]  # there is one input, and it has no name
    feed = plan_feed(Path(name), features, [TensorInfo("input", "tensor(double)", ("N", "features"))])
    return lambda values: feed(values)["input"]


def texts_of(text: TextFeature, name: str) -> Callable[[RowArray], list[str]]:
    """Return a function from rows of one text each to a list of unchanged texts."""
    if not text.raw:
        raise ModelError(TEXTS_NOT_WORDS.format(name=name, feature=text.name))
    return lambda values: values[:, 0].tolist()


def apart(shown: Any, values: RowArray) -> Any:
    """Return a copy of the input, so that a function may modify it."""
    if isinstance(shown, tuple):
        return tuple(apart(part, values) for part in shown)
    return shown.copy() if isinstance(shown, np.ndarray) and np.may_share_memory(shown, values) else shown


def describe_call(shown: Any) -> str:
    """Describe the argument of a function, for the message about its failure."""
    if isinstance(shown, list):
        return f"{len(shown)} texts"
    if isinstance(shown, tuple) and len(shown) == 1:
        return describe_call(shown[0])
    if isinstance(shown, tuple):
        return f"arrays of shapes {', '.join(str(part.shape) for part in shown)}"
    if isinstance(shown, np.ndarray):
        return f"an array of shape {shown.shape}"
    if isinstance(shown, dict):
        return f"columns {', '.join(map(str, shown))}"
    return f"a frame with columns {', '.join(map(str, shown.columns))}"

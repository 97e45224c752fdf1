"""Promises of `adapters.from_function` and `frames`: any Python function is a model, read by the same rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fairchain import journaled, verify
from fairchain.errors import ModelError, UnansweredError
from fairchain.models import Model, load_model, to_onnx
from fairchain.models.adapters.answer_memo import ANSWERS_CHANGE, AnswerMemo
from fairchain.models.adapters.from_function import CODE_NOT_CONVERTED
from fairchain.models.base import (
    DEPENDS_ON_BATCH,
    LOADED_FOR_ANOTHER_SPEC,
    NON_DETERMINISTIC,
    check_deterministic,
)
from fairchain.models.frames import (
    COLUMN_TAKEN_TWICE,
    NEEDS_PANDAS,
    NOT_A_FUNCTION,
    ONE_HOT_IN_FRAME,
    FrameModel,
    as_frames,
)
from fairchain.models.load import CLASS_IS_NOT_A_MODEL
from fairchain.spec import parse_spec
from tests.messages import says
from tests.questions import category, changed, integer, question, real, spec

SEX = category("sex", "Female", "Male")
# age from 0 to 9 and sex: yes above 4.5 for women, above 5.5 for men.
ROWS = np.array([[age, sex] for age in range(10) for sex in (0, 1)], np.float64)
OLDER = (ROWS[:, 0] - ROWS[:, 1] > 4.5).tolist()


def older(people: Any) -> Any:
    return people[:, 0] - people[:, 1] > 4.5


ANSWERS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "bools": (older, {}),
    "numbers": (lambda x: older(x).astype(int), {}),
    "a list": (lambda x: [int(y) for y in older(x)], {}),
    "a column": (lambda x: older(x).astype(np.uint8)[:, None], {}),
    "objects": (lambda x: np.array([bool(y) for y in older(x)], object), {}),
    "whole doubles": (lambda x: older(x).astype(float), {"decision": "label"}),
    "codes": (lambda x: np.where(older(x), 7, -1), {"codes": [-1, 7]}),
    "names": (lambda x: np.where(older(x), "yes", "no"), {}),
    "a list of names": (lambda x: ["yes" if y else "no" for y in older(x)], {}),
    "text codes": (lambda x: np.where(older(x), "Y", "N"), {"codes": ["N", "Y"]}),
    "logits": (lambda x: x[:, 0] - x[:, 1] - 4.5, {"decision": "logit"}),
    "probabilities": (lambda x: 1 / (1 + np.exp(4.5 + x[:, 1:] - x[:, :1])), {"decision": "probability"}),
    "a cut": (lambda x: x[:, 0] - x[:, 1], {"decision": "logit", "decision_threshold": 4.5}),
    "scores": (lambda x: np.column_stack([x[:, 1] + 4.5, x[:, 0]]), {}),
    "votes": (lambda x: np.column_stack([2 * x[:, 1] + 9, 2 * x[:, 0]]).astype(int), {}),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_of_every_kind_are_understood(kind: str) -> None:
    function, model = ANSWERS[kind]
    assert load_model(function, spec(**model)).predict(ROWS).tolist() == OLDER


def test_what_a_function_is_cannot_be_certified() -> None:
    model = load_model(older, spec())
    assert not model.certifiable
    assert model.sha256 == ""
    assert model.name == "function older"
    with pytest.raises(ModelError, match=says(CODE_NOT_CONVERTED, name="function older")):
        to_onnx(older, spec())


def test_an_object_that_can_be_called_is_a_function() -> None:
    class Scores:
        def __call__(self, people: Any) -> Any:
            return older(people)

        def predict(self, people: Any) -> Any:
            return older(people)

    assert load_model(Scores(), spec()).predict(ROWS).tolist() == OLDER
    assert load_model(Scores().predict, spec()).predict(ROWS).tolist() == OLDER
    with pytest.raises(ModelError, match=says(CLASS_IS_NOT_A_MODEL)):
        load_model(Scores, spec())


def test_a_function_gets_what_the_spec_says_a_network_gets() -> None:
    seen: list[Any] = []

    def remember(people: Any) -> Any:
        seen.append(people)
        return np.zeros(len(people), int)

    features = [
        integer("age", 0, 99, scale={"mean": 40, "std": 10}),
        category("job", "a", "b", one_hot=True),
        category("sex", "F", "M", codes=[5, 9]),
        category("race", "x", "y", "z"),
    ]
    model = load_model(remember, spec(*features))
    model.predict(np.array([[50, 1, 0, 2]], np.float32))
    assert seen[-1].tolist() == [[1, 0, 1, 5, 2]]
    assert seen[-1].dtype == np.float64
    assert model.dtype == np.float64


def test_a_function_that_writes_into_its_argument_changes_nobody() -> None:
    def spoil(people: Any) -> Any:
        answer = older(people)
        people[:] = -1
        return answer

    rows = ROWS.copy()
    assert load_model(spoil, spec()).predict(rows).tolist() == OLDER
    assert np.array_equal(rows, ROWS)


FEATURES = [
    integer("age", 17, 90, column="Age (years)"),
    real("rate", 0, 1),
    category("race", "Black", "White", aliases=["B", "W"]),
    category("children", 0, 1, 2),
    integer("hours", 0, 99, step=10),
    category("sex", "Female", "Male", codes=[1, 2]),
    category("job", "cook", "clerk"),
]


def test_a_frame_speaks_as_the_table_does() -> None:
    pytest.importorskip("pandas")
    seen: list[Any] = []

    def remember(people: Any) -> Any:
        seen.append(people)
        return people["race"] == "W"

    model = load_model(as_frames(remember), spec(*FEATURES))
    assert model.predict(np.array([[30, 0.5, 1, 2, 39, 0, 1], [90, 0.25, 0, 0, 5, 1, 0]])).tolist() == [1, 0]
    frame = seen[-1]
    assert list(frame.columns) == ["Age (years)", "rate", "race", "children", "hours", "sex", "job"]
    assert frame.iloc[0].tolist() == [30, 0.5, "W", 2, 3, 1, "clerk"]
    assert [kind.kind for kind in frame.dtypes[["Age (years)", "rate", "children", "hours", "sex"]]] == list("ifiii")
    assert not model.certifiable


def test_a_frame_has_no_room_for_one_hot_spans_and_twice_the_same_column() -> None:
    with pytest.raises(ModelError, match=says(ONE_HOT_IN_FRAME, feature_name="job")):
        load_model(as_frames(older), spec(integer("age"), category("job", "a", "b", one_hot=True)))
    with pytest.raises(ModelError, match=says(COLUMN_TAKEN_TWICE, column="age")):
        load_model(as_frames(older), spec(integer("age"), integer("years", column="age"), SEX))
    with pytest.raises(ModelError, match=says(NOT_A_FUNCTION)):
        as_frames(3)  # type: ignore[arg-type]


def test_frames_need_pandas_only_when_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    model = as_frames(older)
    assert isinstance(model, FrameModel)
    with pytest.raises(ModelError, match=says(NEEDS_PANDAS)):
        load_model(model, spec())


WRONG: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "raises": (lambda _: 1 // 0, {}, "failed on an array of shape (3, 2) with ZeroDivisionError: integer division"),
    "masked": (lambda x: np.ma.array(older(x), mask=[False, True, False]), {}, "answered with masked values"),
    "one answer": (lambda _: 1, {}, "shape () for 3 rows"),
    "nothing": (lambda _: None, {}, "shape () for 3 rows"),
    "too many": (lambda _: np.zeros(7), {}, "shape (7,) for 3 rows"),
    "no columns": (lambda x: np.zeros((len(x), 0)), {}, "shape (3, 0) for 3 rows"),
    "ragged": (lambda _: [[1], [1, 2], [3]], {}, "ValueError"),
    "things": (lambda x: [object()] * len(x), {}, "a object; return labels"),
    "missing": (lambda _: ["yes", None, "no"], {}, "answered with None, a NoneType"),
    "texts and numbers": (lambda _: np.array(["yes", 1, "no"], object), {}, "answered with texts and numbers"),
    "dates": (lambda x: np.zeros(len(x), "datetime64[s]"), {}, "a datetime64[s]; return labels or scores"),
    "complex": (lambda x: np.zeros(len(x), complex), {}, "a complex128"),
    "a bare column": (lambda x: x[:, 0] / 3, {}, 'decision = "logit"'),
    "three columns": (lambda x: np.zeros((len(x), 3)), {}, "3 columns and the spec names 2 labels"),
    "unknown name": (lambda x: np.full(len(x), "perhaps"), {}, "'perhaps', which is none of 'no', 'yes'"),
    "unknown number": (lambda x: np.full(len(x), 4), {}, "is 4, which is none of 0, 1"),
    "halves as labels": (lambda x: x[:, 0] / 2 + 0.25, {"decision": "label"}, "0.25, which is not a label"),
    "NaN as label": (lambda x: x[:, 0] * np.nan, {"decision": "label"}, "nan, which is not a label"),
    "texts for codes": (lambda x: ["a"] * len(x), {"codes": [0, 1]}, "codes must be texts too"),
    "another output": (older, {"output": "logits"}, 'unknown output "logits"; expected one of "answer"'),
}


@pytest.mark.parametrize("kind", WRONG)
def test_answers_that_are_no_decision_are_refused(kind: str) -> None:
    function, model, words = WRONG[kind]
    with pytest.raises(ModelError) as caught:
        load_model(function, spec(**model))
    assert str(caught.value).startswith("function ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_function_raised_is_chained() -> None:
    def fail(people: Any) -> Any:
        raise KeyError("hours\nand more")

    with pytest.raises(ModelError, match="KeyError") as caught:
        load_model(fail, spec())
    assert isinstance(caught.value.__cause__, KeyError)


class Later:
    """A function that answers one way while it is loaded, and another way once `loaded` is set."""

    def __init__(self, first: Callable[[Any], Any], then: Callable[[Any], Any]) -> None:
        self.loaded, self._first, self._then = False, first, then

    def __call__(self, rows: Any) -> Any:
        return self._then(rows) if self.loaded else self._first(rows)


@pytest.mark.parametrize(
    ("first", "then", "model", "words"),
    [
        (older, lambda _: 1 // 0, {}, "ZeroDivisionError"),
        (older, lambda x: np.where(older(x), "yes", "no"), {}, "'no', but with numbers before"),
        (lambda x: ["no"] * len(x), older, {}, "0, but with texts before"),
        (lambda x: x, lambda x: x[:, :1], {}, "1 columns and the spec names 2 labels"),
        (older, lambda x: np.full(len(x), 5), {}, "is 5, which is none of 0, 1; "),
        (lambda x: x, lambda x: np.log(x - 4), {}, "nan, nan, which is not a decision"),
        (older, lambda x: x[:, 0] / 2, {}, "0.5, which is not a label"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_what_goes_wrong_later_is_refused_then(
    first: Callable[[Any], Any], then: Callable[[Any], Any], model: dict[str, Any], words: str
) -> None:
    function = Later(first, then)
    loaded = load_model(function, spec(**model))
    function.loaded = True
    with pytest.raises(ModelError) as caught:
        loaded.predict(ROWS)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


def test_an_answer_that_is_no_decision_shows_its_input() -> None:
    function = Later(older, lambda x: np.where(x[:, 0] == 7, 5, 0))
    loaded = load_model(function, spec())
    function.loaded = True
    with pytest.raises(ModelError, match=says(UnansweredError.MESSAGE, shown="age=7, sex=Female")):
        loaded.predict(ROWS)


def test_an_answer_that_depends_on_the_company_is_refused() -> None:
    with pytest.raises(ModelError, match=says(DEPENDS_ON_BATCH)):
        load_model(lambda x: x - x.mean(axis=0), spec())
    dice = np.random.default_rng(0)
    with pytest.raises(ModelError, match=says(NON_DETERMINISTIC)):
        load_model(lambda x: dice.normal(size=x.shape), spec())


def noisy(share: float, seed: int) -> Callable[[Any], Any]:
    """Changes this share of its answers at random."""
    dice = np.random.default_rng(seed)
    return lambda people: older(people) ^ (dice.random(len(people)) < share)


@pytest.mark.parametrize("share", [0.1, 0.01])
def test_a_function_that_throws_dice_is_always_refused(share: float) -> None:
    """One try misses with probability (1 - 2p(1 - p))^1000 at most, 2e-9 for p = 1%; without dice none can fail."""
    for seed in range(30):
        with pytest.raises(ModelError, match=says(NON_DETERMINISTIC)) as caught:
            load_model(noisy(share, seed), spec())
        assert "ready for inference" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_small_noise_in_scores_is_refused_and_rounding_is_not() -> None:
    dice = np.random.default_rng(0)

    def scores(size: float) -> Callable[[Any], Any]:
        return lambda people: people[:, 0] - 4.5 + size * dice.normal(size=len(people))

    with pytest.raises(ModelError, match=says(NON_DETERMINISTIC, changed="16", count="16")):
        load_model(scores(1e-3), spec(decision="logit"))
    assert not load_model(scores(1e-12), spec(decision="logit")).certifiable


def test_dice_with_the_same_seed_in_every_call_are_refused() -> None:
    """The answers repeat, but a person's answer depends on the place in the batch."""

    def seeded(people: Any) -> Any:
        return noisy(0.1, seed=3)(people)

    with pytest.raises(ModelError, match=says(NON_DETERMINISTIC)):
        load_model(seeded, spec())


def test_codes_of_labels_that_are_close_are_told_apart() -> None:
    dice = np.random.default_rng(0)
    with pytest.raises(ModelError, match=says(NON_DETERMINISTIC)):
        load_model(lambda people: 100_000 + dice.integers(0, 2, len(people)), spec(codes=[100_000, 100_001]))


@pytest.mark.parametrize("copies", [1, 4, 5, 100])
def test_answers_that_change_are_refused_although_all_inputs_are_known(copies: int) -> None:
    """Four different inputs in any number of rows: the trial inputs contain all of them."""
    calls = 0

    def alternating(rows: Any) -> Any:
        nonlocal calls
        calls += 1
        return np.full(len(rows), "yes" if calls % 2 else "no")

    rows_of = {"kind": "table", "as": "population"}
    asked = parse_spec(changed(question(integer("age", 0, 100), SEX), "population", rows_of))
    data = {"age": [20, 40] * 2 * copies, "sex": ["Female", "Female", "Male", "Male"] * copies}
    with pytest.raises(ModelError, match=says(ANSWERS_CHANGE)):
        verify(alternating, asked, data=data, allow_constant=True)
    # A model of costly answers gets rows without the features that are not its inputs.
    calls, without = 0, {**SEX, "model_input": False}
    asked = parse_spec(changed(question(integer("age", 0, 100), without), "population", rows_of))
    with pytest.raises(ModelError, match=says(ANSWERS_CHANGE)):
        verify(journaled(alternating, journal=None), asked, data=data, allow_constant=True)


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 1000), (0.01, 64), (2.0, 16)])
def test_a_slow_function_is_asked_about_fewer(seconds: float, most: int) -> None:
    """`seconds` is what each person takes by the clock of this test."""
    now, sizes = [0.0], []

    def ask(people: Any) -> Any:
        now[0] += seconds * len(people)
        sizes.append(len(people))
        return older(people)

    check_deterministic("function ask", spec().features, ask, clock=lambda: now[0])
    assert max(sizes) == most


def test_a_function_that_fails_on_people_who_need_not_exist_is_asked_later() -> None:
    def table_only(people: Any) -> Any:
        assert len(people) < 4, "there is no such person"
        return older(people)

    assert load_model(table_only, spec()).predict(ROWS[:3]).tolist() == OLDER[:3]


def test_no_rows_have_no_classes() -> None:
    assert load_model(older, spec()).predict(np.empty((0, 2))).tolist() == []


def test_a_loaded_model_serves_its_own_spec_only() -> None:
    model = load_model(older, spec())
    assert load_model(model, spec()) is model
    with pytest.raises(ModelError, match=says(LOADED_FOR_ANOTHER_SPEC)):
        load_model(model, spec(integer("years"), SEX))


def most_at_once(model: Model, gauge: dict[str, int]) -> int:
    gauge.update(now=0, most=0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(model.predict, [ROWS] * 8))
    return gauge["most"]


@pytest.mark.parametrize("thread_safe", [False, True])
def test_one_thread_at_a_time_unless_a_function_says_otherwise(thread_safe: bool) -> None:
    gauge, lock, meeting = {"now": 0, "most": 0}, threading.Lock(), threading.Event()

    def slow(people: Any) -> Any:
        with lock:
            gauge["now"] += 1
            gauge["most"] = max(gauge["most"], gauge["now"])
            if gauge["now"] == 2:
                meeting.set()
        meeting.wait(5 if thread_safe and len(people) == len(ROWS) else 0)
        time.sleep(0)
        with lock:
            gauge["now"] -= 1
        return older(people)

    if thread_safe:
        slow.thread_safe = True  # type: ignore[attr-defined]
    most = most_at_once(load_model(slow, spec()), gauge)
    assert (most > 1) is thread_safe


def test_inputs_with_one_hash_keep_their_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairchain.models.adapters.answer_memo._hashes", lambda bits: np.zeros(len(bits), np.uint64))
    memo = AnswerMemo()
    for rows in ([3, 1, 4, 1], [5, 9, 2, 6, 3], [1, 5, 7, 7, 4]):
        values = np.array(rows, float)[:, None]
        assert memo(values, lambda asked: 10 * asked[:, 0], "f").tolist() == [10 * row for row in rows]


def test_a_call_of_another_thread_in_the_meantime_is_not_taken_for_another_answer() -> None:
    """What is repeated, and what it is compared with, come from one batch."""
    memo, others = AnswerMemo(), [np.arange(100.0, 140.0)[:, None]]

    def ask(values: Any) -> Any:
        if others:
            memo(others.pop(), ask, "f")
        return values[:, 0] % 7

    memo(np.arange(40.0)[:, None], lambda values: values[:, 0] % 7, "f")
    assert memo(np.arange(50.0, 90.0)[:, None], ask, "f").tolist() == [value % 7 for value in range(50, 90)]

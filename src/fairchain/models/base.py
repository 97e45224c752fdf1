"""What every kind of model does alike: what is promised of one, and the questions that are asked before it is used.

A model turns feature values into class numbers. A network that onnxruntime runs is an `OnnxModel`; anything that
Python must be asked for is a `FunctionModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.onnx.decision import DecisionRule, Labels, NoDecisionError
from fairchain.models.onnx.text_inputs import padding_word
from fairchain.spec import CategoryFeature, Feature, Spec, TextFeature, domain_of
from fairchain.system.user_code import first_line as first_line  # noqa: PLC0414  # for those who import it from here

Answer = NDArray[Any]
# Every [[feature]] of a spec. If one of them is a text, a row of values is a text and nothing else: its word ids.
Described = Sequence[Feature | TextFeature]

# Sizes of the batches that are asked twice, and the seconds for one of them after which no larger one is asked.
ASKED_TWICE = (16, 64, 250, 1000)
SLOW = 0.25
# Sizes of the batches in which rows must have the same answer: alone, odd, and as large as those of a run. If the
# graph proves that rows are independent, the first ones suffice.
BATCHES = (1, 3, 17, 100, 256, 1000, 4096, 8192)
PROVEN = BATCHES[:3]
# Differences of scores that are rounding, as a share of the largest: sums of threads come in any order.
ROUNDING = 1e-5


class MisfitError(ModelError):
    """What the spec says of the decision does not fit the network's outputs."""


class Model(Protocol):
    """What can be asked for decisions.

    `name` is for messages. `sha256` is the hash of the network, or "" where there are no bytes to hash. `certifiable`
    says whether somebody else can ask the very same network again: true of ONNX bytes, also of those converted in
    memory, false of Python code. `note` says in one sentence what the caller should know, or is "".
    """

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def sha256(self) -> str:
        """Of the network's bytes."""

    @property
    def certifiable(self) -> bool:
        """Whether a certificate about it can be checked."""

    @property
    def note(self) -> str:
        """What the caller should know about it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn."""

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless it was loaded for the same features and the same meaning of outputs."""

    def predict(self, values: NDArray[Any], /) -> Labels:
        """The class number of each row of feature values in the user's units, categories as their index.

        Of a text a row is its word ids.
        """


def must_fit(name: str, loaded: Spec, spec: Spec) -> None:
    """Raise a ModelError unless both specs agree on the features and on what the outputs mean."""
    same = replace(spec.model, path=loaded.model.path) == loaded.model and spec.described == loaded.described
    if not same:
        raise ModelError(f"{name}: was loaded for a spec with other features or labels; load it with this one")


def check_rows_apart(
    name: str,
    features: Described,
    ask: Callable[[NDArray[Any]], Answer],
    dtype: np.dtype[Any],
    *,
    sizes: Sequence[int] = BATCHES,
    slow: float = SLOW,
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Refuse a model whose answer for one row depends on the others: it has no P(Y | group).

    The same rows are evaluated in batches of these sizes, larger ones also shuffled, and single rows in batches of
    their own copies. Sizes after one that takes longer than `slow` seconds are left out.
    """
    rows = _varied(features, max(sizes)).astype(dtype)
    shuffle = np.random.Generator(np.random.Philox(2)).permutation(len(rows))
    known = ask(rows[: sizes[0]])
    for size in sizes:
        start = clock()
        order = shuffle[shuffle < size]
        try:
            answers = known if size == sizes[0] else ask(rows[:size])
            pairs = [(known, answers[: len(known)])]
            if size > 3 or len(sizes) == 1:
                pairs.append((answers[order], ask(rows[order])))
        except (ModelError, NoDecisionError):
            # Random rows need not exist. Whether the model fails on those that do shows when they are evaluated.
            return
        if not all(same_answers(*pair) for pair in pairs):
            raise _dependent(name)
        known = answers
        if clock() - start > slow:
            break
    for row in range(int(sizes[0] == 1), min(len(known), 3)):
        copies = ask(np.repeat(rows[row : row + 1], sizes[0], axis=0))
        if not all(same_answers(known[row : row + 1], copies[place : place + 1]) for place in {0, len(copies) - 1}):
            raise _dependent(name)


def _dependent(name: str) -> ModelError:
    return ModelError(
        f"{name}: the answer for one input depends on the others in its batch, or on chance; make it ready for "
        "inference: a free batch dimension first, no operator across it, and no random numbers"
    )


def _varied(features: Described, count: int) -> NDArray[Any]:
    """Return three rows as different as they can be, then random ones; a full text and one of a single word first."""
    rows = random_inputs(features, max(count, 3))
    if text_of(features) is not None:
        rows[2, rows.shape[1] // 2 :] = 0
        rows[:2] = rows[1::-1]
        return rows[:count]
    domains = [domain_of(feature) for feature in features if not isinstance(feature, TextFeature)]
    rows[0] = [domain.high for domain in domains]
    rows[1] = [domain.low for domain in domains]
    rows[2] = [(d.low + d.high) / 2 if d.real else d.low + d.size // 2 for d in domains]
    return rows[:count]


def text_of(features: Described) -> TextFeature | None:
    """The text among the features, if there is one."""
    return next((feature for feature in features if isinstance(feature, TextFeature)), None)


def check_no_dice(
    name: str,
    features: Described,
    ask: Callable[[NDArray[Any]], Answer],
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Refuse a model that answers the same people differently when it is asked again, or at another place.

    Up to 1000 people are asked twice, and one of them is asked as often at once; fewer if the model is slow. Labels
    must be equal, and scores but for rounding. If a share p of all answers is changed at random, it goes unnoticed
    with probability (1 - 2p(1 - p))^1000 if there are two labels: 2e-9 for p = 1%.
    """
    for count in ASKED_TWICE:
        people = random_inputs(features, count, seed=1)
        start = clock()
        try:
            first, second = ask(people), ask(people)
            alike = ask(np.repeat(people[-1:], count, axis=0))
        except (ModelError, NoDecisionError):
            # These people need not exist: whether it fails on those who do is seen when they are asked.
            return
        changed = max(_changed(first, second), _changed(alike, np.repeat(alike[:1], count, axis=0)))
        if changed:
            raise ModelError(
                f"{name}: depends on chance: {changed:,} of {count:,} answers differ for the same people; make it "
                "ready for inference: evaluation mode, no dropout, and no random numbers unless their seed follows "
                "from the row alone"
            )
        if clock() - start > 3 * SLOW:
            return


def _changed(one: Answer, other: Answer) -> int:
    """How many rows have another answer."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return len(one)
    if one.dtype.kind == "f":
        largest = np.max(np.abs(one), where=np.isfinite(one), initial=0.0)
        same = np.isclose(one, other, rtol=0, atol=ROUNDING * largest, equal_nan=True)
    else:
        same = one == other
    return int(np.count_nonzero(~same.reshape(len(one), -1).all(axis=1)))


def same_answers(one: Answer, other: Answer) -> bool:
    """Whether two answers to the same rows are the same but for rounding, which goes with the largest of them."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f" or other.dtype.kind != "f":
        return np.array_equal(one, other)
    largest = np.max(np.abs(one), where=np.isfinite(one), initial=1.0)
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5 * largest, equal_nan=True))


def check_shape(name: str, rule: DecisionRule, answer: Any, rows: int) -> None:
    """Raise a ModelError unless there are as many numbers for each row as the rule reads."""
    shape = getattr(answer, "shape", None)
    if isinstance(answer, np.ndarray) and shape and shape[0] == rows and answer.size == rows * rule.columns:
        return
    if not shape or shape[0] != rows or not answer.size:
        problem = f'output "{rule.output}" has shape {shape} for {rows} inputs; the first dimension must be the batch'
    elif rule.kind == "argmax":
        problem = (
            f'model.labels: output "{rule.output}" has {answer.size // rows} columns and the spec names '
            f"{rule.classes} labels; name one label for each column"
        )
    else:
        problem = (
            f'output "{rule.output}" has {answer.size // rows} columns where one column was expected; '
            "choose another: output = ... in [model]"
        )
    raise ModelError(f"{name}: {problem}")


def random_inputs(features: Described, count: int, seed: int = 0) -> NDArray[Any]:
    """Feature values to compare two models on: uniform over the ranges, the two ends of all ranges first.

    Texts are words by chance, as many as by chance; a text of one word and a full one come first.
    """
    random = np.random.Generator(np.random.Philox(seed))
    text = text_of(features)
    if text is not None:
        return _random_texts(text, count, random)
    people = np.empty((count, len(features)))
    for column, domain in enumerate(domain_of(feature) for feature in features if not isinstance(feature, TextFeature)):
        drawn = random.random(count)
        if domain.real:
            people[:, column] = domain.low + (domain.high - domain.low) * drawn
        else:
            people[:, column] = domain.low + np.floor(domain.size * drawn)
        people[:2, column] = np.array([domain.low, domain.high])[:count]
    return people


def _random_texts(text: TextFeature, count: int, random: np.random.Generator) -> NDArray[np.int32]:
    from fairchain.text import lexicon_of

    lexicon = lexicon_of(text)
    lengths = 1 + np.floor(text.length * random.random(count))
    lengths[:2] = np.array([1, text.length])[:count]
    words = 1 + np.floor(len(lexicon) * random.random((count, text.length)))
    padding = padding_word(text, lexicon)
    # No text has the word that stands for padding in it.
    words[words == padding] = padding % len(lexicon) + 1
    return np.where(np.arange(text.length) < lengths[:, None], words, 0).astype(np.int32)


def describe_input(features: Described, row: NDArray[Any]) -> str:
    """One input in the words of the spec: `age=3, sex=Female`, or `comment="the words of a text"`."""
    text = text_of(features)
    if text is not None:
        from fairchain.text import lexicon_of

        return f'{text.name}="{lexicon_of(text).text(row)}"'
    shown = []
    for feature, value in zip(features, row, strict=True):
        word = str(feature.values[int(value)]) if isinstance(feature, CategoryFeature) else f"{value:g}"
        shown.append(f"{feature.name}={word}")
    return ", ".join(shown)

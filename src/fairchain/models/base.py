"""Common parts of all models: their protocol, and the checks before a model is used.

A model maps feature values to class indices. A network that onnxruntime runs is an `OnnxModel`; Python code is a
`FunctionModel`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ExecutorError, ModelError
from fairchain.models.onnx.decision import DecisionRule, Ends, Labels, NoDecisionError, labels_drawn
from fairchain.spec import CategoryFeature, Feature, Spec, TextFeature, domain_of

if TYPE_CHECKING:
    from fairchain.models.onnx.session import OnnxModel

Answer = NDArray[Any]
# Every [[feature]] of a spec. If one of them is a text, a row of values is only a text: its word ids.
Described = Sequence[Feature | TextFeature]

# Sizes of the batches that are evaluated twice, and the seconds for one of them after which no larger one follows.
EVALUATED_TWICE = (16, 64, 250, 1000)
SLOW = 0.25
# Sizes of the batches in which rows must have the same answer: single, odd, and as large as those of a run. If the
# graph proves that rows are independent, the first ones suffice.
BATCHES = (1, 3, 17, 100, 256, 1000, 4096, 8192)
PROVEN = BATCHES[:3]
# Relative differences of scores that count as rounding: sums of threads are added in any order.
SCORE_ROUNDING = 1e-5
DEPENDS_ON_BATCH = (
    "{name}: the answer for one input depends on the others in its batch, or is random; make it ready for inference: a "
    "free batch dimension first, no operator across it, and no random numbers"
)
NON_DETERMINISTIC = (
    "{name}: is non-deterministic: {changed:,} of {count:,} answers differ for the same inputs; make it ready for "
    "inference: evaluation mode, no dropout, and no random numbers unless their seed depends only on the row. If "
    "it is random by design, write deterministic = false in [model] (--not-deterministic)"
)
DECIDES_OTHERWISE = (
    "{name}: worker {worker} ({facts}) decides differently for the same {count:,} inputs than this process; use "
    "workers with the same packages and processors"
)
LOADED_FOR_ANOTHER_SPEC = "{name}: was loaded for a spec with other features or labels; load it with this one"
OUTPUT_NOT_BY_ROW = 'output "{output}" has shape {shape} for {rows} inputs; the first dimension must be the batch'


# Words of the test texts if there is no corpus.
TRIAL_WORDS = tuple("the a people Good bad is not They said, why? town 2 read! I we".split())  # noqa: SIM905


class MisfitError(ModelError):
    """The spec's decision does not fit the network's outputs."""


class Model(Protocol):
    """Protocol of a model that decides about rows of feature values."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def sha256(self) -> str:
        """The hash of the network's bytes, "" without bytes to hash."""

    @property
    def certifiable(self) -> bool:
        """Whether it is ONNX, or can be converted to bytes that others can evaluate; this attempts the conversion."""

    @property
    def note(self) -> str:
        """A note for the caller in one sentence, or ""."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type in which feature values should be drawn."""

    @property
    def decision(self) -> DecisionRule:
        """The rule that turns its answers into class indices."""

    def to_network(self) -> OnnxModel:
        """Return the model as an ONNX network with the same labels, or raise a ModelError with the reason."""

    @property
    def drawn(self) -> bool:
        """Whether its labels are drawn with its probabilities; then it has `ends`, and no `predict`."""

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless it was loaded for the same features and the same meaning of outputs."""

    def scores(self, values: NDArray[Any], /) -> Answer:
        """Return the answer of each row before the decision, (rows, ...): scores or, if it gives labels, these."""

    def ends(self, values: NDArray[Any], /) -> Ends:
        """Return for each row the ends of the words of each label (see `DecisionRule.ends`)."""

    def predict(self, values: NDArray[Any], /) -> Labels:
        """Return the class index of each row of feature values in the user's units, categories as their index.

        A row of a text is its word ids, or the text itself.
        """


def decide(model: Model, values: NDArray[Any], words: NDArray[np.uint32] | None) -> Labels:
    """Return the class index of each row; if decisions are drawn, the one to which the row's word belongs."""
    if not model.drawn:
        return model.predict(values)
    assert words is not None
    return labels_drawn(model.ends(values), words)


def must_fit(name: str, loaded: Spec, spec: Spec) -> None:
    """Raise a ModelError unless both specs agree on the features and on the meaning of the outputs."""
    if replace(spec.model, path=loaded.model.path) != loaded.model or spec.described != loaded.described:
        raise ModelError(LOADED_FOR_ANOTHER_SPEC.format(name=name))


def check_rows_apart(
    name: str,
    features: Described,
    evaluate: Callable[[NDArray[Any]], Answer],
    dtype: np.dtype[Any],
    *,
    sizes: Sequence[int] = BATCHES,
) -> None:
    """Refuse a model whose answer for one row depends on the others: it has no P(Y | group).

    The same rows are evaluated in batches of these sizes, larger ones also shuffled, and single rows in batches of
    copies. Sizes after one that takes longer than `SLOW` seconds are left out.
    """
    rows = _varied(features, max(sizes)).astype(dtype)
    dependent = ModelError(DEPENDS_ON_BATCH.format(name=name))
    shuffle = np.random.Generator(np.random.Philox(2)).permutation(len(rows))
    known = evaluate(rows[: sizes[0]])
    for size in sizes:
        start = perf_counter()
        order = shuffle[shuffle < size]
        try:
            answers = known if size == sizes[0] else evaluate(rows[:size])
            pairs = [(known, answers[: len(known)])]
            if size > 3 or len(sizes) == 1:
                pairs.append((answers[order], evaluate(rows[order])))
        except (ModelError, NoDecisionError):
            # Random rows may be impossible inputs. Whether the model fails on possible ones shows when they are
            # evaluated.
            return
        if not all(same_answers(*pair) for pair in pairs):
            raise dependent
        known = answers
        if perf_counter() - start > SLOW:
            break
    for row in range(int(sizes[0] == 1), min(len(known), 3)):
        copies = evaluate(np.repeat(rows[row : row + 1], sizes[0], axis=0))
        if not all(same_answers(known[row : row + 1], copies[place : place + 1]) for place in {0, len(copies) - 1}):
            raise dependent


def _varied(features: Described, count: int) -> NDArray[Any]:
    """Return three maximally different rows, then random ones; for texts first a full one, then one of one word."""
    rows = random_inputs(features, max(count, 3))
    text = text_of(features)
    if text is None:
        domains = [domain_of(feature) for feature in features if not isinstance(feature, TextFeature)]
        rows[0] = [domain.high for domain in domains]
        rows[1] = [domain.low for domain in domains]
        rows[2] = [(d.low + d.high) / 2 if d.real else d.low + d.size // 2 for d in domains]
    elif not text.raw:
        rows[2, rows.shape[1] // 2 :] = 0
        rows[:2] = rows[1::-1]
    return rows[:count]


def text_of(features: Described) -> TextFeature | None:
    """Return the text feature, if any."""
    return next((feature for feature in features if isinstance(feature, TextFeature)), None)


def check_deterministic(
    name: str,
    features: Described,
    evaluate: Callable[[NDArray[Any]], Answer],
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Refuse a model that answers the same inputs differently in a second evaluation, or at another position.

    Up to 1000 inputs are evaluated twice, and one of them as often in one batch; fewer if the model is slow. Labels
    must be equal, and scores up to rounding. If a share p of all answers is changed at random, this is missed with
    probability (1 - 2p(1 - p))^1000 if there are two labels: 2e-9 for p = 1%.
    """
    for count in EVALUATED_TWICE:
        inputs = random_inputs(features, count, seed=1)
        start = clock()
        try:
            first, second = evaluate(inputs), evaluate(inputs)
            alike = evaluate(np.repeat(inputs[-1:], count, axis=0))
        except (ModelError, NoDecisionError):
            # Random rows may be impossible inputs. Whether the model fails on possible ones shows when they are
            # evaluated.
            return
        changed = 0
        for one, other in ((first, second), (alike, np.repeat(alike[:1], count, axis=0))):
            same = np.zeros(one.shape, np.bool_)
            if one.shape == other.shape and one.dtype == other.dtype:
                same = np.asarray(one == other)
                if one.dtype.kind == "f":
                    largest = np.max(np.abs(one), where=np.isfinite(one), initial=0.0)
                    same = np.isclose(one, other, rtol=0, atol=SCORE_ROUNDING * largest, equal_nan=True)
            changed = max(changed, int(np.count_nonzero(~same.reshape(len(one), -1).all(axis=1))))
        if changed:
            raise ModelError(NON_DETERMINISTIC.format(name=name, changed=changed, count=count))
        if clock() - start > 3 * SLOW:
            return


def digest_of_labels(model: Model, inputs: NDArray[Any]) -> str:
    """Return the hash of a model's decisions about some inputs; "" if it has no decision about one of them."""
    try:
        found = model.ends(inputs) if model.drawn else model.predict(inputs)
    except (ModelError, NoDecisionError):
        # Random rows may be impossible inputs.
        return ""
    return hashlib.sha256(np.ascontiguousarray(found, np.int64).tobytes()).hexdigest()


def check_digest(model: Model, inputs: NDArray[Any], digest: str) -> None:
    """Refuse to work in this process if the model decides differently here than in the original process."""
    if digest and digest_of_labels(model, inputs) != digest:
        from fairchain.executors.tasks import own_facts, own_name

        raise ExecutorError(
            DECIDES_OTHERWISE.format(name=model.name, count=len(inputs), worker=own_name(), facts=own_facts())
        )


def same_answers(one: Answer, other: Answer) -> bool:
    """Return whether two answers to the same rows are equal up to rounding, relative to the largest of them."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f" or other.dtype.kind != "f":
        return np.array_equal(one, other)
    largest = np.max(np.abs(one), where=np.isfinite(one), initial=1.0)
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5 * largest, equal_nan=True))


def check_shape(name: str, rule: DecisionRule, answer: Any, rows: int) -> None:
    """Raise a ModelError unless each row has as many numbers as the rule reads."""
    shape = getattr(answer, "shape", None)
    if isinstance(answer, np.ndarray) and shape and shape[0] == rows and answer.size == rows * rule.columns:
        return
    if not shape or shape[0] != rows or not answer.size:
        problem = OUTPUT_NOT_BY_ROW.format(output=rule.output, shape=shape, rows=rows)
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
    """Draw feature values for comparing two models: uniform over the ranges, with the two ends of all ranges first.

    Texts are a random number of random words; for word numbers, a text of one word and a full one come first.
    """
    random = np.random.Generator(np.random.Philox(seed))
    text = text_of(features)
    if text is not None and text.raw:
        made = np.empty((count, 1), object)
        lengths = 1 + np.floor(30 * random.random(count)).astype(int)
        made[:, 0] = [" ".join(random.choice(TRIAL_WORDS, length)) for length in lengths.tolist()]
        return made
    if text is not None:
        from fairchain.models.onnx.text_inputs import padding_word
        from fairchain.text import lexicon_of

        lexicon = lexicon_of(text)
        lengths = 1 + np.floor(text.steps * random.random(count))
        lengths[:2] = np.array([1, text.steps])[:count]
        words = 1 + np.floor(len(lexicon) * random.random((count, text.steps)))
        padding = padding_word(text, lexicon)
        # No text contains the word for padding.
        words[words == padding] = padding % len(lexicon) + 1
        return np.where(np.arange(text.steps) < lengths[:, None], words, 0).astype(np.int32)
    inputs = np.empty((count, len(features)))
    for column, domain in enumerate(domain_of(feature) for feature in features if not isinstance(feature, TextFeature)):
        drawn = random.random(count)
        if domain.real:
            inputs[:, column] = domain.low + (domain.high - domain.low) * drawn
        else:
            inputs[:, column] = domain.low + np.floor(domain.size * drawn)
        inputs[:2, column] = np.array([domain.low, domain.high])[:count]
    return inputs


def spread(rows: int, most: int) -> NDArray[np.int64]:
    """Return the indices of at most this many rows, in order, spread over the whole table.

    >>> spread(10, 4).tolist(), spread(2, 4).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    count = min(rows, most)
    return np.arange(count) * (rows - 1) // max(count - 1, 1)


def describe_input(features: Described, row: NDArray[Any]) -> str:
    """Describe one input with the names of the spec: `age=3, sex=Female`, or `comment="the words of a text"`."""
    text = text_of(features)
    if text is not None:
        from fairchain.text.quoting import quoted

        return f'{text.name}="{quoted(in_words(text, row))}"'
    shown = [shown_value(feature, value) for feature, value in zip(features, row, strict=True)]
    return ", ".join(
        f"{feature.name}={value if isinstance(value, str) else format(value, 'g')}"
        for feature, value in zip(features, shown, strict=True)
    )


def shown_value(feature: Feature | TextFeature, value: float) -> str | float:
    """Return a value of a feature for a reader: a number, the name of a category, or "missing"."""
    if np.isnan(value):
        return "missing"
    return str(feature.values[int(value)]) if isinstance(feature, CategoryFeature) else float(value)


def in_words(text: TextFeature, row: NDArray[Any]) -> str:
    """Return a text as the model gets it: unchanged, or the words of its word numbers."""
    if text.raw:
        return str(row[0])
    from fairchain.text import lexicon_of

    return lexicon_of(text).text(row)

"""Evaluation of the rows of a table by the model of a case, in parts, in this process or by other workers.

A run that is cancelled, or that exhausts its budget of evaluations, has seen the first rows of a random order. The
module `counting` counts the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, StoppedError
from fairchain.executors import Workers
from fairchain.models import Model
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.base import decide
from fairchain.models.onnx.rounding import check_alone
from fairchain.populations.streams import decision_words
from fairchain.prepare import Case
from fairchain.spec.seeds import derive_seed
from fairchain.verification.verdict import counts_all

# Rows that the network evaluates in one call.
ROWS_AT_A_TIME = 8192
# Rows of a call that are also evaluated singly, if the rounding of the network may depend on the batch.
ALONE_PER_CALL = 256
# Target seconds of a call of Python code, so that progress and Ctrl-C are handled without a long delay.
SECONDS_PER_CALL = 0.5
MOST_PER_CALL = 32768


@dataclass(frozen=True, eq=False)
class RowEvaluation:
    """The evaluation of rows by the model of a case, in parts, until all are done, cancelled, or over budget."""

    case: Case
    workers: Workers
    progress: Callable[[int, int], None] | None
    cancel: Event | None

    @property
    def with_probabilities(self) -> bool:
        """Whether rows get label probabilities: those of a whole population, if decisions are drawn."""
        return counts_all(self.case.spec) and self.case.model is not None and self.case.model.drawn

    def __call__(
        self, rows: NDArray[np.int64], show: Callable[[NDArray[np.int64]], NDArray[np.floating]], times: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
        """Return the evaluated rows, in order, and their labels, (times, rows).

        For probabilities, return the ends of labels, (times, rows, classes), instead of the labels. `show` converts
        rows to the model's inputs: all rows for the first time, then all of them for the next.
        """
        model = self.case.model
        assert model is not None
        budget = self.case.spec.guarantee.budget.evaluations
        most = len(rows) if budget is None else min(len(rows), int(budget) // times)
        if not most:
            raise DataError(
                f"guarantee.budget.evaluations: {int(budget or 0):,} are not enough for one row, which is evaluated as "
                f"each of {times} groups; allow more"
            )
        if most < len(rows) and self.with_probabilities:
            raise DataError(
                f"guarantee.budget.evaluations: {int(budget or 0):,} are fewer than the {len(rows) * times:,} "
                "evaluations of a population whose decisions are drawn, which must be counted completely; allow "
                "more"
            )
        at_once = isinstance(model, FunctionModel) and model.local and self._size(model, times, most) == len(rows)
        if not at_once or self.workers.remote:
            # The evaluated rows are a random part, whatever the order of the table.
            order = np.random.Philox(self.case.seed.value).random_raw(len(rows))
            rows = rows[np.argsort(order, kind="stable")]
        read = RowReader(model, times, self.with_probabilities)
        words = self._words(model)
        found: list[NDArray[np.integer]] = []
        done = 0

        def part(start: int, size: int) -> RowPart:
            chosen = rows[start : min(start + size, most)]
            own = None if words is None else np.tile(words[chosen], times)
            return RowPart(chosen, start // ROWS_AT_A_TIME, own, show)

        def cancelled(_seconds: float = 0.0) -> bool:
            return self.cancel is not None and self.cancel.is_set()

        while done < most and not cancelled():
            if isinstance(model, FunctionModel):
                size = self._size(model, times, most - done)
                together = 4 if model.thread_safe and not self.workers.remote and not model.costly else 1
                # If other processes evaluate, the seconds of a call include their start.
                size = int(self.workers.batch((most - done) * times, 2 * SECONDS_PER_CALL) / times) or size
            else:
                size, together = ROWS_AT_A_TIME, -(-most // ROWS_AT_A_TIME)
            parts = [part(start, size) for start in range(done, min(most, done + size * together), size)]
            if isinstance(model, FunctionModel) and together == 1:
                following = rows[done + size : min(most, done + 2 * size)]
                model.expect(partial(show, following) if len(following) else None)
                results = self._one_by_one(model, read, parts)
            else:
                results = self.workers.map(read, parts, sizes=[len(each.rows) for each in parts], halted=cancelled)
            for labels in _until_stopped(results, read, parts):
                found.append(labels)
                done += labels.shape[1]
                if self.progress is not None:
                    self.progress(done * times, len(rows) * times)
        grouped = self.case.rows is not None and self.case.rows.repeats is not None
        if (self.with_probabilities or grouped) and done < most:
            raise KeyboardInterrupt
        if not found:
            return rows[:0], np.empty((times, 0), np.int64)
        place = np.full(int(rows.max()) + 1, -1)
        place[rows[:done]] = np.arange(done)
        seen = np.flatnonzero(place >= 0)
        return seen, np.concatenate(found, axis=1)[:, place[seen]]

    @staticmethod
    def _size(model: FunctionModel, times: int, left: int) -> int:
        """Return the number of rows of the next call; each call of a local model has a fixed cost."""
        size = model.rows_per_call(SECONDS_PER_CALL / times, MOST_PER_CALL)
        return left if model.local and left < 2 * size else size

    def _one_by_one(
        self, model: FunctionModel, read: RowReader, parts: Sequence[RowPart]
    ) -> Iterator[NDArray[np.integer]]:
        """Yield the labels of parts from a function that is called once for each distinct row."""
        with model.spread_over(self.workers):
            for part in parts:
                yield read(part)

    def _words(self, model: Model) -> NDArray[np.uint32] | None:
        """Return the random word that decides each row of the table, if decisions are drawn."""
        if not model.drawn or self.with_probabilities:
            return None
        assert self.case.rows is not None
        # Never a chosen seed: the issuer must not redraw the decisions about a sample until they suit.
        seed = derive_seed(self.case.spec, model.sha256, self.case.data_sha256)
        return decision_words(seed, 0, len(self.case.rows.values))


def _until_stopped(
    results: Iterator[NDArray[np.integer]], read: RowReader, parts: Sequence[RowPart]
) -> Iterator[NDArray[np.integer]]:
    """Yield results until a slow model is stopped, which also sets `cancel`; then its answers for a part."""
    done = 0
    try:
        for labels in results:
            yield labels
            done += 1
    except StoppedError:
        known = read.answered(parts[done])
        if known.shape[1]:
            yield known


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a table as a unit of work: their indices, the number of the batch, and the words of drawn decisions.

    `show` computes the model's inputs in the worker; another process receives the inputs.
    """

    rows: NDArray[np.int64]
    batch: int
    words: NDArray[np.uint32] | None
    show: Callable[[NDArray[np.int64]], NDArray[np.floating]]

    def __reduce__(self) -> tuple[Any, ...]:
        return RowPart, (self.rows, self.batch, self.words, partial(_computed, self.show(self.rows)))


def _computed(values: NDArray[np.floating], _rows: NDArray[np.int64]) -> NDArray[np.floating]:
    return values


@dataclass(frozen=True, eq=False)
class RowReader:
    """Evaluator of parts of a table: labels, (times, rows), or the ends of labels, (times, rows, classes).

    Some rows are also evaluated singly if rounding may depend on the batch.
    """

    model: Model
    times: int
    with_probabilities: bool

    def answered(self, part: RowPart) -> NDArray[np.integer]:
        """Return the decisions of a slow model about the first rows of a part before it was stopped."""
        if not isinstance(self.model, FunctionModel) or self.times > 1 or self.model.drawn:
            return np.empty((self.times, 0), np.int64)
        return self.model.answered(self._values(part))[None]

    def _values(self, part: RowPart) -> NDArray[Any]:
        values = part.show(part.rows)
        return values.astype(getattr(self.model, "dtype", values.dtype), copy=False)

    def __call__(self, part: RowPart) -> NDArray[np.integer]:
        """Return the model's decisions about some rows."""
        values = self._values(part)
        if self.with_probabilities:
            ends = self.model.ends(values)
            check_alone(self.model, values, ends, part.batch, ALONE_PER_CALL)
            return ends.reshape(self.times, len(part.rows), -1)
        labels = decide(self.model, values, part.words)
        check_alone(self.model, values, labels, part.batch, ALONE_PER_CALL, part.words)
        return labels.reshape(self.times, -1)

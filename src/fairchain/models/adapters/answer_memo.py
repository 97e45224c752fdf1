"""Cached answers of a Python model: each distinct input is evaluated once, and some are repeated as a test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.base import Answer, same_answers

RowArray = NDArray[Any]
# Number of inputs on which a function is tested, and which it evaluates twice; if an answer takes less than `QUICK`
# seconds, one of `REPEATED_SHARE` inputs of every batch is repeated.
REPEATED, QUICK, REPEATED_SHARE = 16, 1e-4, 64
# Seconds per answer of a model in this process below which a cache lookup takes as long.
NOTHING = 6e-5
# Rows of a table that are looked up together.
BLOCK = 1024
# An odd number whose multiples differ in their high bits.
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Largest ratio between the numbers of rows of the next call and the last.
FASTER = 64
ANSWERS_CHANGE = (
    "{name}: answers the same input differently in another batch; make it ready for inference: evaluation mode, no "
    "random numbers, nothing computed across rows of a batch. If it is random by design, write deterministic = "
    "false in [model] (--not-deterministic)"
)


class AnswerMemo:
    """Cache of answers, so that each distinct input is evaluated once.

    Answers of a local model that is faster than a lookup are not cached.

    A function must give the same answer to the same input in any batch. So some inputs are repeated in a later batch:
    `REPEATED` of them once, and if the function is fast also a share of every batch. `local`: answers cost only
    processor time. `costly`: one thread at a time evaluates inputs, so that none is evaluated twice, and only the first
    inputs are repeated.
    """

    def __init__(self, local: bool = False, costly: bool = False) -> None:
        self._local = local
        self._alone: AbstractContextManager[Any] = threading.Lock() if costly else nullcontext()
        # The inputs as bits with their answers; their sorted hashes, and the index of each in both.
        self._inputs: NDArray[np.uint64] | None = None
        self._answers: Answer | None = None
        self._hashes, self._places = np.empty(0, np.uint64), np.empty(0, np.intp)
        self._lock = threading.Lock()
        # The number of each evaluated text, if inputs are texts.
        self._texts: dict[str, int] = {}
        # The last batch with its answers, and whether inputs have been repeated.
        self._last: tuple[RowArray, Answer] | None = None
        self._repeated = False
        # The rows of the table, the indices of those on which the function was tested, and their answers.
        self._table: tuple[RowArray, NDArray[np.intp], Answer] | None = None
        # Rows and seconds of the last call, the seconds for each further row, and the rows of all calls.
        self._call = (0, 0.0)
        self._seconds_per_row = 0.0
        self.evaluated = 0
        # Under a budget of evaluations only the first inputs are repeated.
        self.sparing = costly

    def __call__(self, values: RowArray, evaluate: Callable[[RowArray], Answer], name: str) -> Answer:
        """Return the answer to each row of doubles, or to each text; `evaluate` is called with the distinct new ones.

        Several threads may call it; inputs that two of them need at the same time are evaluated twice, unless they are
        costly.
        """
        with self._alone:
            if self._local and not self.sparing and 0 < self._seconds_per_row < NOTHING:
                return self._evaluated(values, evaluate, name)
            bits, hashes, places = self._located(values)
            unknown = np.flatnonzero(places < 0)
            if unknown.size:
                fresh, fresh_bits = values, bits
                if unknown.size < len(values):
                    fresh, fresh_bits, hashes = values[unknown], bits[unknown], hashes[unknown]
                new, same = _distinct(fresh_bits, hashes)
                if len(new) < len(fresh):
                    fresh, fresh_bits = fresh[new], fresh_bits[new]
                answers = self._evaluated(fresh, evaluate, name)
                with self._lock:
                    self._inputs = fresh_bits if self._inputs is None else np.concatenate([self._inputs, fresh_bits])
                    self._answers = answers if self._answers is None else np.concatenate([self._answers, answers])
                    places[unknown] = len(self._inputs) - len(new) + same
            assert self._answers is not None
            return np.asarray(self._answers[places])

    def knows(self, values: RowArray) -> bool:
        """Return whether all these inputs have been evaluated; usually the first ones show that not."""
        blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
        return all((self._located(block)[2] >= 0).all() for block in blocks)

    def _located(self, values: RowArray) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.intp]]:
        """Return inputs as bits, their hashes, and the index of each among the answered ones, -1 for an unknown one."""
        numbers = values
        if values.dtype == object:
            texts = values[:, 0].tolist()
            with self._lock:
                numbers = np.array([self._texts.setdefault(text, len(self._texts)) for text in texts])[:, None]
        bits = np.ascontiguousarray(numbers, np.float64).view(np.uint64)
        hashes = _hashes(bits)
        with self._lock:
            return bits, hashes, self._find(bits, hashes)

    def _find(self, bits: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the index of each input among the answered ones, -1 for an unknown one."""
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

    @property
    def speed(self) -> tuple[int, float]:
        """The number of rows of the last batch, and the seconds for each."""
        return len(self._last[0]) if self._last is not None else 1, self._seconds_per_row

    def _evaluated(self, fresh: RowArray, evaluate: Callable[[RowArray], Answer], name: str) -> Answer:
        # Another thread may replace it meanwhile.
        last, count = self._last, 0
        if last is not None:
            count = 0 if self._repeated else REPEATED
            if self._seconds_per_row < QUICK and not self.sparing:
                count = max(count, len(fresh) // REPEATED_SHARE)
            count = min(count, len(last[0]))
        start = perf_counter(), process_time()
        if not count or last is None:
            answers = evaluate(fresh)
        else:
            if self._table is not None and fresh is self._table[0]:
                answers, count = evaluate(fresh), 0
                self._compare(self._table[2], answers[self._table[1]], name)
            else:
                answers = evaluate(np.concatenate([fresh, last[0][count - 1 :: -1]]))
                self._compare(last[1][:count], answers[len(fresh) :][::-1], name)
            answers, self._repeated = answers[: len(fresh)], True
        elapsed, worked = perf_counter() - start[0], process_time() - start[1]
        # The cost of a local model is its processor time, not that of other processes on the machine.
        rows, seconds = len(fresh) + count, min(elapsed, worked) if self._local else elapsed
        before, took = self._call
        self._seconds_per_row = seconds / rows
        # Most of a small call is often independent of the number of rows.
        if rows > 4 * before > 0:
            further = (seconds - took) / (rows - before)
            self._seconds_per_row = min(self._seconds_per_row, max(further, seconds / rows / FASTER))
        self._call, self.evaluated, self._last = (rows, seconds), self.evaluated + rows, (fresh, answers)
        return answers

    def tried(self, table: RowArray, places: NDArray[np.intp], answers: Answer) -> None:
        """Record the answers to some rows of the table, which are compared when the whole table is evaluated."""
        self._table = table, places, answers

    def repeat(self, evaluate: Callable[[RowArray], Answer], name: str) -> None:
        """Evaluate inputs of the last batch again, in the opposite order, if none has been repeated."""
        if self._last is not None and not self._repeated:
            values, answers = (part[:REPEATED] for part in self._last)
            self._compare(answers, evaluate(values[::-1])[::-1], name)
            self.evaluated += len(values)
            self._repeated = True

    def _compare(self, before: Answer, again: Answer, name: str) -> None:
        if not same_answers(before, again):
            raise ModelError(ANSWERS_CHANGE.format(name=name))


def _distinct(bits: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the distinct rows in order, and for each row the index of its equal among these."""
    ordered, every = np.sort(hashes), np.arange(len(hashes))
    if (ordered[1:] != ordered[:-1]).all():
        return every, every
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    twins = np.empty(len(hashes), np.intp)
    twins[order] = np.repeat(order[starts], np.diff(starts, append=len(hashes)))
    # Different rows with the same hash, which are very rare, are evaluated one by one.
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

"""Answers of a slow or paid model: those in its journal, and new ones, which are appended as they arrive.

A service is called over all its connections. Connections that are idle while the last answers of a batch are in flight
send the first inputs of the batch that is expected next (`expect`), so that the service stays busy. Verdicts do not
depend on whether an answer was requested ahead. If the next batch is different, or there is none because the run has a
verdict, at most `ahead` such answers are wasted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from math import ceil
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError, StoppedError
from fairchain.models.adapters.answer_memo import REPEATED, RowArray
from fairchain.models.base import BATCHES, Answer
from fairchain.models.journal import Journaled, as_array

# Seconds of a call above which a function is slow, so that its answers are stored.
KEPT_EVERY = 1.0
# Largest number of inputs that are requested ahead and not used; under a budget at most one in `BUDGET_AHEAD` of it.
ASKED_AHEAD, BUDGET_AHEAD = 64, 16
# Largest number of requests that each connection makes ahead.
WAVES_AHEAD = 2
BUDGET_SPENT = (
    "guarantee.budget.evaluations: {used:,} of {budget:,} evaluations are used, and {more:,} more inputs are "
    "needed; allow more, or leave the budget out"
)

Indices = NDArray[np.intp]
# Function that evaluates some rows of values, and stores the answers under their keys.
AskRows = Callable[[RowArray, Sequence[bytes], Indices], tuple[Indices, Answer]]
# Function that returns the inputs expected next, or None if they are too many to be drawn ahead.
Expected = Callable[[], RowArray | None]


def ahead_within(budget: float) -> int:
    """Return the largest number of inputs requested ahead under a budget, which is reserved from it."""
    return int(min(ASKED_AHEAD, budget // BUDGET_AHEAD))


class KeptAnswers:
    """The answers of one model, a service or a function given through `journaled`.

    `name` is its name in messages. If it is `random` by design, no answer is used twice.
    """

    def __init__(self, source: Journaled, name: str, *, random: bool) -> None:
        self.journal, self._name = source.journal, name
        self._service: Any = source if source.client is not None else None
        # The number of evaluations of each input; for a random model by all of its users: no answer is used twice.
        self._random, self._used = random, source.used if random else Counter[bytes]()
        self._used_before = self._used.total()
        # Largest number of evaluated inputs, over all stages; of inputs that may be requested ahead and not used.
        self.most: float | None = None
        self.ahead = ASKED_AHEAD
        # Seconds for each input of the last call of a function, 0 before the first; the event that stops a run.
        self.seconds = 0.0
        self.stop: Event | None = None
        self._tick: Callable[[int], None] | None = None
        self._expected: Expected | None = None
        # The requests that were made ahead, by the keys of inputs with unused answers.
        self._unused: dict[bytes, Future[Any]] = {}

    @property
    def evaluated(self) -> int:
        """The number of inputs that were evaluated and used, including repeated ones."""
        return self._used.total() - self._used_before

    def __call__(self, values: RowArray, show: Callable[[RowArray], Any], call: Callable[[RowArray], Answer]) -> Answer:
        """Return the answers to some rows or texts: those in the journal, and new ones that are appended one by one.

        `show` converts values to the model's inputs, from which the keys of answers are computed; `call` converts them
        to answers in one request or call.
        """
        before = self.evaluated
        self._check_budget(before, len(values))
        keys = self.journal.keys(show(values), self._used)
        coming = {key: self._unused.pop(key) for key in keys if key in self._unused}
        self._check_budget(before + len(self._unused), len(values))
        self._cancel(except_for=coming.values())
        found = self.journal.find(keys)
        evaluate = partial(self._keep, call)
        absent = [place for place, each in enumerate(found) if each is None]
        # If all answers are stored, as in a repeated run, there is nothing to wait for.
        expected, self._expected = self._expected if absent or coming else None, None
        then = None if expected is None else partial(self._evaluate_ahead, expected, frozenset(keys), show, evaluate)
        new = [place for place in absent if keys[place] not in coming]
        try:
            self._evaluate(evaluate, values, keys, found, new, then)
        finally:
            for future in coming.values():
                # An error there occurs again below.
                future.exception()
        late = self.journal.find([keys[place] for place in absent])
        for place, each in zip(absent, late, strict=True):
            found[place] = each
        self._evaluate(evaluate, values, keys, found, [place for place, each in enumerate(found) if each is None])
        return as_array(found, self._name)

    def _check_budget(self, used: int, more: int) -> None:
        if self.most is not None and used + more > self.most:
            raise SpecError(BUDGET_SPENT.format(budget=int(self.most), used=used, more=more))

    def _evaluate(
        self,
        evaluate: AskRows,
        values: RowArray,
        keys: Sequence[bytes],
        found: list[Any],
        places: Sequence[int],
        then: Callable[[], None] | None = None,
    ) -> None:
        """Evaluate the inputs at these indices, and write their answers there; call `then` when all are in flight."""
        missing = np.array(places, np.intp)
        if self._service is None:
            results = self._one_by_one(missing, partial(evaluate, values, keys))
        else:
            parts = [missing[part] for part in self._service.parts(len(missing))] if missing.size else []
            results = self._service.client.map(partial(evaluate, values, keys), parts, self.stop, then)
        for part, answers in results:
            for place, answer in zip(part.tolist(), answers.tolist(), strict=True):
                found[place] = answers.dtype.kind, answer
            if self._tick is not None:
                self._tick(len(part))

    def _keep(
        self, call: Callable[[RowArray], Answer], values: RowArray, keys: Sequence[bytes], places: Indices
    ) -> tuple[Indices, Answer]:
        answers = call(values[places])
        self.journal.add([keys[place] for place in places], answers)
        return places, answers

    def _one_by_one(
        self, missing: Indices, evaluate: Callable[[Indices], tuple[Indices, Answer]]
    ) -> Iterator[tuple[Indices, Answer]]:
        """Yield the answers of a function, in short calls."""
        place, size = 0, 1
        while place < len(missing):
            if self.stop is not None and self.stop.is_set():
                raise StoppedError
            size = int(np.clip(KEPT_EVERY / self.seconds, 1, 4 * size)) if self.seconds else REPEATED
            start = perf_counter()
            part = missing[place : place + min(size, BATCHES[-1])]
            yield evaluate(part)
            self.seconds = (perf_counter() - start) / len(part)
            place += len(part)

    # -- Ahead of their turn -------------------------------------------------------------------------------------------

    def expect(self, inputs: Expected | None) -> None:
        """Announce the inputs probably needed after the next call; only a service in a run evaluates them ahead."""
        self._expected = inputs if self._service is not None and self.stop is not None else None

    def _evaluate_ahead(
        self, expected: Expected, requested: frozenset[bytes], show: Callable[[RowArray], Any], evaluate: AskRows
    ) -> None:
        """Evaluate inputs that are expected next, on connections that would be idle."""
        connections = self._service.client.connections
        room = min(self.ahead - len(self._unused), WAVES_AHEAD * connections * self._service.rows_per_request)
        if self.most is not None:
            room = min(room, int(self.most) - self.evaluated - len(self._unused))
        values = expected() if room > 0 else None
        if values is None:
            return
        # Some may be known or in flight.
        values = values[: 4 * ASKED_AHEAD]
        keys = self.journal.keys(show(values), self._used.copy() if self._random else None)
        known = self.journal.find(keys)
        new: dict[bytes, int] = {}
        for place, (key, kept) in enumerate(zip(keys, known, strict=True)):
            if kept is None and key not in requested and key not in self._unused and len(new) < room:
                new.setdefault(key, place)
        places = np.array(list(new.values()), np.intp)
        size = max(1, ceil(len(places) / (WAVES_AHEAD * connections)))
        for start in range(0, len(places), size):
            part = places[start : start + size]
            future = self._service.client.submit(partial(evaluate, values, keys), part)
            self._unused |= {keys[place]: future for place in part}

    def _cancel(self, except_for: Collection[Future[Any]] = ()) -> None:
        """Cancel requests that still wait for a connection."""
        for key, future in list(self._unused.items()):
            if future not in except_for and future.cancel():
                del self._unused[key]

    @contextmanager
    def watched(self, stop: Event, tick: Callable[[int], None] | None = None) -> Iterator[None]:
        """Raise a StoppedError as soon as `stop` is set; call `tick` with the number of inputs of each answer.

        No answer is lost: at the end, requests that were made ahead are awaited and stored.
        """
        self.stop, self._tick = stop, tick
        try:
            yield
        finally:
            self._expected = None
            self._cancel()
            for future in self._unused.values():
                future.exception()
            self.stop = self._tick = None
            if self.most is None:
                self._unused.clear()

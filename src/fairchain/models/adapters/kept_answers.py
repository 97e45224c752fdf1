"""Answers of a slow or paid model: those in its journal, and new ones, which are added to it as they come.

A service is called by all its connections. Those that are idle, because the last answers of a batch are on their way,
send the first inputs of the batch that is expected next (`expect`), so that the service is kept busy. An answer that
came ahead is used as if it had been requested in its turn: verdicts do not depend on it. If the next batch is another
one, or there is none because the verdict is there, such answers are in vain: `ahead` of them at most.
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
from fairchain.models.journal import Journal, Journaled, as_array

# Seconds of a call of a slow function, after which its answers are kept.
KEPT_EVERY = 1.0
# Inputs that are requested ahead and not used, at most; under a budget this part of it, if that is less.
ASKED_AHEAD, BUDGET_AHEAD = 64, 16
# Requests that each connection makes ahead, at most.
WAVES_AHEAD = 2
BUDGET_SPENT = (
    "guarantee.budget.evaluations: {used:,} of {budget:,} evaluations are used, and {more:,} more inputs are "
    "needed; allow more, or leave the budget out"
)

Indices = NDArray[np.intp]
# Asks for some rows of values, and keeps the answers under their keys.
AskRows = Callable[[RowArray, Sequence[bytes], Indices], tuple[Indices, Answer]]
# Returns inputs that are expected next, or None if they are too many to be drawn ahead.
Expected = Callable[[], RowArray | None]


def ahead_within(budget: float) -> int:
    """Return how many inputs are requested ahead at most under a budget; they are kept back from it."""
    return int(min(ASKED_AHEAD, budget // BUDGET_AHEAD))


class KeptAnswers:
    """The answers of one model.

    Parameters
    ----------
    source
        The service, or the function given through `journaled`.
    journal
        Where its answers are kept.
    name
        What messages call the model.
    random
        Whether the model is random by design: no answer is used twice then.

    Attributes
    ----------
    most
        How many inputs may be evaluated, in whatever stage; None without a budget.
    ahead
        How many may be requested ahead and not be used.
    stop
        Set when the run is to stop; None outside of a run.
    seconds
        Seconds for each input of the last call of a function; 0 before the first.
    """

    def __init__(
        self,
        source: Journaled,
        journal: Journal,
        name: str,
        *,
        random: bool,
    ) -> None:
        self.journal, self._name = journal, name
        self._service: Any = source if source.client is not None else None
        # How often each input was evaluated; of random models by all together, since no answer is used twice.
        self._random, self._used = random, source.used if random else Counter[bytes]()
        self._used_before = self._used.total()
        self.most: float | None = None
        self.ahead, self.seconds = ASKED_AHEAD, 0.0
        self.stop: Event | None = None
        self._tick: Callable[[int], None] | None = None
        self._expected: Expected | None = None
        # The requests that were made ahead, by the keys of inputs whose answers were not used yet.
        self._unused: dict[bytes, Future[Any]] = {}

    @property
    def evaluated(self) -> int:
        """How many inputs were evaluated and used, repeated ones too."""
        return self._used.total() - self._used_before

    def __call__(self, values: RowArray, show: Callable[[RowArray], Any], call: Callable[[RowArray], Answer]) -> Answer:
        """Return the answers to some rows: those in the journal, and new ones that are added to it one by one.

        Parameters
        ----------
        values
            Feature values, or texts.
        show
            From these to what the model is shown, by which answers are found again.
        call
            From these to answers: one request, or one call.
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
        # Where all answers are kept, as in a run that is repeated, there is nothing to wait for.
        expected, self._expected = self._expected if absent or coming else None, None
        then = None if expected is None else partial(self._evaluate_ahead, expected, frozenset(keys), show, evaluate)
        try:
            self._evaluate(
                evaluate, values, keys, found, [place for place in absent if keys[place] not in coming], then
            )
        finally:
            for future in coming.values():
                # What went wrong there is met again below.
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
        """Evaluate the inputs at these places, and write their answers there; call `then` when all are on their way."""
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
        """Yield the answers of a function, in calls that do not take long."""
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
        """Say which inputs will probably be needed after the next call; only a service in a run gets them ahead."""
        self._expected = inputs if self._service is not None and self.stop is not None else None

    def _evaluate_ahead(
        self, expected: Expected, requested: frozenset[bytes], show: Callable[[RowArray], Any], evaluate: AskRows
    ) -> None:
        """Evaluate for inputs that are expected next, on connections that would be idle."""
        connections = self._service.client.connections
        room = min(self.ahead - len(self._unused), WAVES_AHEAD * connections * self._service.rows_per_request)
        if self.most is not None:
            room = min(room, int(self.most) - self.evaluated - len(self._unused))
        values = expected() if room > 0 else None
        if values is None:
            return
        # Some may be known, or be on their way.
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
        """Withdraw requests that still wait for a connection."""
        for key, future in list(self._unused.items()):
            if future not in except_for and future.cancel():
                del self._unused[key]

    @contextmanager
    def watched(self, stop: Event, tick: Callable[[int], None] | None = None) -> Iterator[None]:
        """Raise a StoppedError as soon as `stop` is set; call `tick` with the number of inputs of each answer.

        Nothing that was answered is lost: at the end requests that were made ahead are waited for, and kept.
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

"""The eight cases of the paper's tables: a network, a protected feature, and ways to ask it.

Six are feed-forward (census, credit, bank) and two read comments. Each is there on the network that ships with
fairchain; with a folder that holds them, the six also on the paper's own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper_models import KNOWN_GAPS, paper_specs
from benchmarks.suite.paper import TABLE, THRESHOLD, Reported
from fairchain import Spec, Verdict, example, load_model, load_spec, verify
from fairchain.datasets import here
from fairchain.errors import FairchainError
from fairchain.populations import build_population
from fairchain.spec import comparison_of, revise
from fairchain.statistics import Tally
from fairchain.verification.sampler import Sampler, default_workers, thread_pool

DELTA = 1e-6
OURS, PAPERS = "ours", "the paper's"


@dataclass(frozen=True, eq=False)
class Case:
    """A question about a network."""

    network: str
    protected: str
    whose: str
    spec: Spec

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{self.network} {self.protected}"

    @property
    def title(self) -> str:
        """In a sentence: the case, and whose network."""
        return f"{self.name} ({self.whose})"

    @property
    def reported(self) -> Reported:
        """What the paper says about this case, on its own network."""
        return TABLE[self.network, self.protected]

    @property
    def reads_texts(self) -> bool:
        """Whether people are comments."""
        return self.network == "comments"

    @cached_property
    def model(self) -> Any:
        """The network, loaded once."""
        return load_model(self.spec.model.path, self.spec)

    @cached_property
    def comparison(self) -> Any:
        """Who is compared."""
        return comparison_of(self.spec)

    @cached_property
    def population(self) -> Any:
        """Who is drawn."""
        return build_population(self.spec, self.comparison.subgroups, self.model.dtype)

    @property
    def groups(self) -> int:
        """How many there are."""
        return len(self.comparison.counted)

    @property
    def outcome(self) -> str:
        """The label that is counted."""
        label: str = self.spec.model.labels[self.comparison.rows[0]]
        return label

    @property
    def states(self) -> int:
        """Of the chain Start -> group -> label."""
        return 1 + self.groups + len(self.spec.model.labels)

    def asked(self, seed: int, **changes: Any) -> Verdict:
        """A verdict, by whatever rule and delta."""
        return verify(self.model, revise(self.spec, **changes), seed=seed)

    def count(self, seed: int, rounds: int, *, coupled: bool) -> Tally:
        """So many rounds of all groups, counted."""
        workers, groups = default_workers(), tuple(range(self.groups))
        with thread_pool(workers) as pool:
            sampler = Sampler(
                self.model, self.population, seed, self.comparison, coupled=coupled, pool=pool, workers=workers
            )
            batch = sampler.run(0, rounds, groups, lambda _: False)
        return Tally.of_batch(rounds, batch.together, groups, self.groups)

    def draw(self, seed: int, chunk: int, count: int, *, coupled: bool = False) -> NDArray[np.bool_]:
        """(groups, count): whether somebody of each group got the outcome; people of their own unless coupled."""
        sampler = Sampler(self.model, self.population, seed, self.comparison, coupled=coupled)
        labels = self.comparison.fold(sampler.labels(chunk, count, tuple(range(self.groups))))
        got: NDArray[np.bool_] = labels == self.comparison.rows[0]
        return got


def embedded() -> list[Case]:
    """The six feed-forward cases on the networks that come with fairchain."""
    return [
        Case(name, protected, OURS, _revised(load_spec(example(name)), property__protected=[protected]))
        for name, protected in KNOWN_GAPS
    ]


def of_texts() -> list[Case]:
    """The two cases about comments; none unless the comments and the word vectors were fetched."""
    try:
        here("toxicity"), here("glove")
    except FairchainError:
        return []
    return [
        Case("comments", protected, OURS, _revised(load_spec(example(f"comments-{protected}"))))
        for protected in ("religion", "race")
    ]


def _revised(spec: Spec, **changes: Any) -> Spec:
    return revise(spec, property__threshold=THRESHOLD, guarantee__delta=DELTA, **changes)


@contextmanager
def feed_forward(models: Path | None) -> Iterator[list[Case]]:
    """The six on our networks, and on the paper's where they are."""
    with tempfile.TemporaryDirectory() as folder:
        cases = embedded()
        if models is not None:
            specs = paper_specs(models, Path(folder), THRESHOLD, DELTA)
            cases += [Case(name, protected, PAPERS, spec) for (name, protected), spec in specs.items()]
        yield cases

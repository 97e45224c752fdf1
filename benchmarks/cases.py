"""The eight cases of the paper's tables: a network, a protected feature, a spec; and what is true of each.

Six are feed-forward (census, credit, bank) and two read comments. Each exists for the network that ships with
fairchain; with a folder that holds them, the six also for the paper's own networks.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper import TABLE, THRESHOLD, Reported
from benchmarks.paper_models import KNOWN_GAPS, paper_specs
from benchmarks.results import Check
from benchmarks.sizes import Sizes
from fairchain import Spec, Verdict, example, load_model, load_spec, verify
from fairchain.datasets import here
from fairchain.errors import FairchainError
from fairchain.executors import open_workers
from fairchain.populations import build_population
from fairchain.spec import comparison_of, revise
from fairchain.statistics import Tally
from fairchain.verification.sampler import Sampler

DELTA = 1e-6
OURS, PAPERS = "ours", "the paper's"
# Seed of the large run from which the truth is estimated; no repetition has it.
TRUTH_SEED = 10**6


@dataclass(frozen=True, eq=False)
class Case:
    """A network and the property to verify."""

    network: str
    protected: str
    owner: str
    spec: Spec

    @property
    def name(self) -> str:
        """The case in a table."""
        return f"{self.network} {self.protected}"

    @property
    def title(self) -> str:
        """The case in a sentence, with the owner of the network."""
        return f"{self.name} ({self.owner})"

    @property
    def reported(self) -> Reported:
        """What the paper reports about this case, on its own network."""
        return TABLE[self.network, self.protected]

    @property
    def reads_texts(self) -> bool:
        """Whether inputs are comments."""
        return self.network == "comments"

    @cached_property
    def model(self) -> Any:
        """The network, loaded once."""
        return load_model(self.spec.model.path, self.spec)

    @cached_property
    def comparison(self) -> Any:
        """The groups that are compared."""
        return comparison_of(self.spec)

    @cached_property
    def population(self) -> Any:
        """The distribution from which inputs are drawn."""
        return build_population(self.spec, self.comparison.subgroups, self.model.dtype)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.comparison.counted)

    @property
    def outcome(self) -> str:
        """The label that is counted."""
        label: str = self.spec.model.labels[self.comparison.rows[0]]
        return label

    @property
    def states(self) -> int:
        """The number of states of the chain Start -> group -> label."""
        return 1 + self.groups + len(self.spec.model.labels)

    def verdict(self, seed: int, **changes: Any) -> Verdict:
        """Return a verdict, with these changes of the spec."""
        return verify(self.model, revise(self.spec, **changes) if changes else self.spec, seed=seed)

    def count(self, seed: int, rounds: int, *, coupled: bool) -> Tally:
        """Return the counts of so many rounds of all groups."""
        groups = tuple(range(self.groups))
        with open_workers() as workers:
            sampler = Sampler(self.model, self.population, seed, self.comparison, coupled=coupled, workers=workers)
            batch = sampler.run(0, rounds, groups, lambda _: False)
        return Tally.of_batch(rounds, batch.together, groups, self.groups)

    def draw(self, seed: int, chunk: int, count: int, *, coupled: bool = False) -> NDArray[np.bool_]:
        """Return (groups, count): whether an input of each group gets the outcome; independent unless coupled."""
        sampler = Sampler(self.model, self.population, seed, self.comparison, coupled=coupled)
        labels = self.comparison.fold(sampler.labels(chunk, count, tuple(range(self.groups))))
        successes: NDArray[np.bool_] = labels == self.comparison.rows[0]
        return successes


def embedded() -> list[Case]:
    """Return the six feed-forward cases on the networks that come with fairchain."""
    return [
        Case(name, protected, OURS, _revised(load_spec(example(name)), property__protected=[protected]))
        for name, protected in KNOWN_GAPS
    ]


def text_cases() -> list[Case]:
    """Return the two cases about comments; none unless the comments and the word vectors were fetched."""
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
    """Yield the six cases on our networks, and on the paper's if their folder is given."""
    with tempfile.TemporaryDirectory() as folder:
        cases = embedded()
        if models is not None:
            specs = paper_specs(models, Path(folder), THRESHOLD, DELTA)
            cases += [Case(name, protected, PAPERS, spec) for (name, protected), spec in specs.items()]
        yield cases


@dataclass(frozen=True)
class Truth:
    """Rates of the groups (outcomes, groups) from a large run, their largest difference, and their accuracy."""

    rates: NDArray[np.float64]
    # Two standard errors, at most: of a rate, and of a difference of two groups that agree in three of four rounds.
    error: float = 0.0

    @property
    def gap(self) -> float:
        """The largest difference between two groups."""
        return float((self.rates.max(axis=1) - self.rates.min(axis=1)).max())

    @property
    def verdict(self) -> str:
        """The right verdict."""
        return "FAIR" if self.gap <= THRESHOLD else "UNFAIR"


def truth_of(case: Case, rounds: int) -> Truth:
    """Estimate the rates from so many rounds."""
    return Truth(case.count(TRUTH_SEED, rounds, coupled=True).rates, 1 / math.sqrt(rounds))


def missing_text(cases: Sequence[Case], sizes: Sizes) -> str:
    """Return a paragraph about the cases that were left out, empty if all cases on all networks were run."""
    lines = []
    if not any(case.reads_texts for case in cases):
        why = "`fairchain data get toxicity glove` was not run" if sizes.text_seeds else "this size leaves them out"
        lines.append(f"The two cases about comments were not run: {why}.")
    if not any(case.owner == PAPERS for case in cases):
        lines.append("The paper's own networks were not run: `--models` was not given.")
    return "".join(f"\n\n{line}" for line in lines)


def all_cases(cases: Sequence[Case], sizes: Sizes) -> Check:
    """Check that all eight cases were run on our networks; a full run needs the comments."""
    run = {(case.network, case.protected) for case in cases if case.owner == OURS}
    missing = ", ".join(" ".join(each) for each in TABLE if each not in run)
    found = f"{len(run)} of {len(TABLE)}" + (f" (not {missing})" if missing else "")
    return Check("cases of the paper run on our networks", not missing, found, "all", enforced=sizes.text_seeds > 0)

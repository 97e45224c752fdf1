"""Learning a chain from a network: a pilot fits the discretisers, then traces are counted until they are enough.

The number of traces is given, or follows from `epsilon`: then they go on until every transition out of every state is
known within epsilon, all together with probability 1 - delta, by bounds that may be looked at any time. The paper's
own rule is there for comparison and is not sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairchain.chain.build import Kind, Plan, build_chain
from fairchain.chain.chain import Chain
from fairchain.chain.estimators import ESTIMATORS, Estimator
from fairchain.chain.fidelity import fidelity
from fairchain.chain.stopping import enough
from fairchain.chain.traces import PathCounts, count_family, count_path
from fairchain.chain.units import Unit, Wish, fit_units, parse_wish
from fairchain.errors import ChainError, ModelError
from fairchain.evidence import default_workers, thread_pool
from fairchain.model import Limits, OnnxModel, load_model
from fairchain.model.probe import Probe, layers_of
from fairchain.population import build_population
from fairchain.population.inline import with_nodes
from fairchain.spec import Group, Marginals, Spec, Table, groups_of, load_spec, revise
from fairchain.spec.arms import arms_of_groups
from fairchain.spec.given import predicate_of

if TYPE_CHECKING:
    from fairchain.tables import People

ROUNDS, PILOT, CHUNK = 20_000, 4096, 4096
# Chunks of the fresh traces that the fidelity of a shared chain is measured on: far from all others.
FRESH = 2**40
MOST_ROUNDS = 10**9
Rule = Literal["sound", "paper"]


@dataclass(frozen=True)
class Subject:
    """A network that can be looked into, the people to show it, and their groups.

    `apart`: groups draw people of their own. A shared chain adds its groups up, so one person must not count for all.
    """

    spec: Spec
    probe: Probe
    population: Any
    groups: tuple[Group, ...]
    apart: bool = False

    def people(self, chunk: int, count: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """(group, people) of a chunk, each valid until the next."""
        seed, desk = self.spec.guarantee.seed, self.population.desk()
        rounds = self.population.rounds(seed, chunk, count, desk=desk)
        for group in range(len(self.groups)):
            if self.apart:
                rounds = self.population.rounds(seed, chunk, count, copy=1 + group, desk=desk)
            yield group, rounds.show(group)


def learn_chain(
    model: Any,
    spec: Spec | str | Path,
    *,
    states: Sequence[str] = (),
    kind: Kind = "product",
    estimator: Estimator = "frequency",
    rounds: int | None = None,
    epsilon: float | None = None,
    rule: Rule = "sound",
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Chain:
    """Learn a Markov chain Start -> group -> states -> label of what a network does to each group.

    Parameters
    ----------
    model, spec
        As for `verify`; the network must be one that onnxruntime runs.
    states
        Units to look at, in the order of the network: `capital-gain`, `layer3[2]`, `layer3:kmeans=3`, ...
    kind
        "product": states carry the group, so that probabilities of labels are exactly those counted. "shared": they
        do not, as in the paper; the chain then comes with its fidelity.
    estimator
        Of transitions: "frequency", "laplace" or "good-turing".
    rounds
        People shown to the network as each group.
    epsilon
        Instead: as many as make every transition known within epsilon, all of them with probability 1 - delta.
    rule
        With epsilon: "sound", or the "paper"'s own, which is not.
    seed, workers, limits
        As for `verify`.
    progress
        Called with rounds done, and wanted if that is known.

    Examples
    --------
    >>> from fairchain import example
    >>> chain = learn_chain(None, example("census"), states=["capital-gain:bins=5"], rounds=2000)
    >>> len(chain)
    18
    """
    subject = subject_of(model, spec, states, seed, limits)
    if estimator not in ESTIMATORS:
        raise ChainError(f'there is no estimator "{estimator}"; there is {", ".join(ESTIMATORS)}')
    if kind not in ("product", "shared"):
        raise ChainError(f'there is no chain of kind "{kind}"; there is product, shared')
    units = fitted(subject, [parse_wish(text, subject.spec) for text in states])
    subject = replace(subject, apart=kind == "shared")
    plan = _plan(subject, units, kind, estimator)
    with thread_pool(workers or default_workers()) as pool:
        counter = _Counter(subject, units, pool)
        counts, done = _counted(counter, plan, rounds, epsilon, rule, progress)
        about = {
            "property": str(subject.spec.property),
            "population": str(subject.population),
            "model_sha256": subject.probe.model.sha256,
            "seed": subject.spec.guarantee.seed,
            "rounds": done,
            "states": list(states),
            "epsilon": epsilon,
            "sound": epsilon is None or rule == "sound",
        }
        chain = build_chain(counts, plan, about)
        if kind == "shared":
            fresh = counter.labels(FRESH, done)
            return _with(chain, fidelity=fidelity(chain, plan, fresh, subject.spec.guarantee.delta))
    return chain


def learn_family(
    model: Any,
    spec: Spec | str | Path,
    *,
    units: Sequence[str] | None = None,
    kind: Kind = "product",
    estimator: Estimator = "frequency",
    rounds: int = ROUNDS,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
) -> dict[str, Chain]:
    """One chain Start -> group -> unit -> label for every unit, all from the same people in one pass.

    `units` are written as for `learn_chain`; by default every feature that is not protected and every hidden neuron.
    """
    base = subject_of(model, spec, (), seed, limits)
    if units is None:
        units = every_unit(base)
    subject = subject_of(model, spec, units, seed, limits)
    made = fitted(subject, [parse_wish(text, subject.spec) for text in units])
    subject = replace(subject, apart=kind == "shared")
    with thread_pool(workers or default_workers()) as pool:
        counts = _Counter(subject, made, pool).family(rounds)
    about = {"rounds": rounds, "seed": subject.spec.guarantee.seed, "population": str(subject.population)}
    return {
        text: build_chain(each, _plan(subject, [unit], kind, estimator), {**about, "states": [text]})
        for text, unit, each in zip(units, made, counts, strict=True)
    }


def every_unit(subject: Subject) -> list[str]:
    """Every feature that is not protected, and every unit of every layer."""
    spec = subject.spec
    features = [f.name for f in spec.features if f.name not in spec.property.protected and not f.unseen]
    layers = layers_of(subject.probe.model, spec)
    return features + [f"{layer.name}[{unit}]" for layer in layers for unit in range(layer.width)]


def subject_of(
    model: Any, spec: Spec | str | Path, states: Sequence[str], seed: int | None, limits: Limits | None
) -> Subject:
    """The network with the tensors that the states need, and the people."""
    asked = spec if isinstance(spec, Spec) else load_spec(spec)
    asked = with_nodes(revise(asked, guarantee__seed=seed))
    if isinstance(asked.population, Table):
        raise ChainError('a chain is learned from people who are drawn; use kind = "uniform", "marginals" or "network"')
    source = model if model is not None else asked.model.path
    if source is None:
        raise ChainError("a chain is learned from a network; name its file: path = ... in [model]")
    loaded = load_model(source, asked, limits, allow_python=model is not None)
    if not isinstance(loaded, OnnxModel):
        raise ModelError(f"{loaded.name}: only a network that onnxruntime runs can be looked into; {loaded.note}")
    wishes = [parse_wish(text, asked) for text in states]
    probe = Probe(loaded, asked, [wish.tensor for wish in wishes if wish.tensor is not None])
    groups = groups_of(asked)
    population = build_population(
        asked, arms_of_groups(groups), loaded.dtype, people=_people(asked), predicate=predicate_of(asked)
    )
    return Subject(asked, probe, population, groups)


def _people(spec: Spec) -> People | None:
    """The rows whose frequencies are taken, if there are any."""
    if not isinstance(spec.population, Marginals) or spec.population.path is None:
        return None
    from fairchain.tables import people_of, read_table

    return people_of(read_table(spec.population.path), spec)


def fitted(subject: Subject, wishes: Sequence[Wish]) -> tuple[Unit, ...]:
    """Fit the discretisers on a pilot sample of all groups; its people are not counted."""
    if not wishes:
        return ()
    people = np.concatenate([shown.copy() for _, shown in subject.people(2 * FRESH, PILOT)])
    _, hidden = subject.probe(people)
    return fit_units(wishes, subject.spec, people, hidden, subject.probe.widths)


def _plan(subject: Subject, units: Sequence[Unit], kind: Kind, estimator: Estimator) -> Plan:
    shares = subject.population.shares()
    count = len(subject.groups)
    total = sum(shares) if shares is not None else 0
    return Plan(
        groups=tuple(group.name for group in subject.groups),
        shares=tuple(float(share / total) for share in shares) if total else (1 / count,) * count,
        columns=tuple(unit.discretizer for unit in units),
        labels=subject.spec.model.labels,
        kind=kind,
        estimator=estimator,
        delta=subject.spec.guarantee.delta,
    )


class _Counter:
    """Counts traces chunk by chunk on some workers; a chunk's people depend on its number alone."""

    def __init__(self, subject: Subject, units: Sequence[Unit], pool: ThreadPoolExecutor | None) -> None:
        self._subject, self._units, self._pool = subject, units, pool

    def path(self, first: int, rounds: int) -> PathCounts:
        """Counts of whole traces, from chunk `first` on."""
        return _total(self._each_chunk(self._path, first, rounds))

    def family(self, rounds: int) -> tuple[PathCounts, ...]:
        """Counts of every unit on its own."""
        chunks = list(self._each_chunk(self._family, 0, rounds))
        return tuple(_total(parts) for parts in zip(*chunks, strict=True))

    def labels(self, first: int, rounds: int) -> NDArray[np.int64]:
        """(groups, labels): how often each group got each label, without looking inside."""
        total: NDArray[np.int64] = np.sum(list(self._each_chunk(self._labels, first, rounds)), axis=0)
        return total

    def _each_chunk(self, work: Callable[[int, int], Any], first: int, rounds: int) -> Iterator[Any]:
        sizes = [min(CHUNK, rounds - start) for start in range(0, rounds, CHUNK)]
        numbers = range(first, first + len(sizes))
        yield from (self._pool.map if self._pool else map)(work, numbers, sizes)

    def _path(self, chunk: int, count: int) -> PathCounts:
        return _total(count_path(*args) for args in self._asked(chunk, count))

    def _family(self, chunk: int, count: int) -> tuple[PathCounts, ...]:
        groups = [count_family(*args) for args in self._asked(chunk, count)]
        return tuple(_total(parts) for parts in zip(*groups, strict=True))

    def _asked(self, chunk: int, count: int) -> Iterator[tuple[Any, ...]]:
        groups, classes = len(self._subject.groups), len(self._subject.spec.model.labels)
        for group, people in self._subject.people(chunk, count):
            labels, hidden = self._subject.probe(people)
            yield group, groups, self._units, labels, classes, people, hidden

    def _labels(self, chunk: int, count: int) -> NDArray[np.int64]:
        classes = len(self._subject.spec.model.labels)
        model = self._subject.probe.model
        return np.stack(
            [np.bincount(model.predict(people), minlength=classes) for _, people in self._subject.people(chunk, count)]
        ).astype(np.int64)


def _total(parts: Any) -> PathCounts:
    """The sum of counts; there is at least one."""
    parts = iter(parts)
    total: PathCounts = next(parts)
    for part in parts:
        total = total + part
    return total


def _counted(
    counter: _Counter,
    plan: Plan,
    rounds: int | None,
    epsilon: float | None,
    rule: Rule,
    progress: Callable[[int, int | None], None] | None,
) -> tuple[PathCounts, int]:
    """Traces for a given number of rounds, or until they are enough for epsilon."""
    if rounds is not None and rounds < 1:
        raise ChainError(f"rounds: found {rounds}; give at least one")
    if epsilon is None:
        wanted = rounds or ROUNDS
        return counter.path(0, wanted), wanted
    if not 0 < epsilon < 0.5:
        raise ChainError(f"epsilon: found {epsilon:g}; give a half width between 0 and 0.5")
    most = rounds or MOST_ROUNDS
    counts, done, chunk = None, 0, 0
    while done < most:
        batch = min(max(CHUNK, done // 4 // CHUNK * CHUNK), most - done)
        more = counter.path(chunk, batch)
        counts = more if counts is None else counts + more
        done, chunk = done + batch, chunk + -(-batch // CHUNK)
        if progress is not None:
            progress(done, None)
        if enough(counts, plan, epsilon, rule):
            return counts, done
    raise ChainError(
        f"epsilon: {done:,} rounds do not make every transition known within {epsilon:g}; a state is too rare: "
        "leave it out, divide it otherwise, or ask for a larger epsilon"
    )


def _with(chain: Chain, **more: Any) -> Chain:
    return replace(chain, about={**chain.about, **more})

"""The front door: a pilot chooses the pair of groups and fits the states, fresh rounds are counted, bounds follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.explaining.context import PILOT, ComparedPair, EffectContext, context_of
from fairchain.explaining.effect_bounds import effects, gap_of_pair, largest_gap, remaining, sensitivities
from fairchain.explaining.effect_counts import EffectCounter, Look
from fairchain.explaining.examples import examples
from fairchain.explaining.ranking import agreement
from fairchain.explaining.result import Explanation, Influence, LayerTotal
from fairchain.explaining.units import METHODS, Choice, Target, targets_of, wishes_of
from fairchain.explaining.words import word_effects
from fairchain.models import Limits
from fairchain.models.inspect.activations import HiddenLayer, Probe
from fairchain.spec import Individual, Ratio, Spec, Table
from fairchain.spec.properties import kind_of
from fairchain.statements import scope
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally, count_together
from fairchain.verification.record import Pair
from fairchain.verification.sampler import default_workers, thread_pool

ROUNDS, PILOT_ROUNDS = 20_000, 4096
# Rounds in which every group is intervened on, for the largest gap that would be left.
EVERYBODY = 1024
MOST_ROUNDS = 10**9


def explain(
    model: Any,
    spec: Spec | str | Path,
    *,
    units: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    method: Choice = "default",
    table: Any = None,
    population: Callable[..., Any] | None = None,
    delta: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Say which features and neurons the gap between two groups goes through, and how much of it.

    Parameters
    ----------
    model, spec, population, seed, workers, limits
        As for `verify`; the network must be one that onnxruntime runs.
    units
        What to look at: "features", "neurons", `capital-gain`, `layer3`, `layer3[2]`; by default everything.
    rounds
        People shown to the network, as each group and with each unit intervened on.
    method
        "resample": the unit gets the value that it has for somebody of any group. "mean": it is held at its mean, a
        category at its most frequent value. By default neurons are resampled, and features too unless they are drawn
        independently of the group, when they are held.
    table
        Rows to look for witnesses in; of a spec about a table, in place of its own.
    delta
        Instead of the spec's: the probability that some interval of effects misses, and that of sensitivities.
    progress
        Called with rounds done and wanted.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> found = explain(None, example("credit"), units=["layer5"], rounds=2000)
    >>> found.pair.outcome, len(found.units)
    ('good', 4)
    """
    context = context_of(model, spec, table=table, population=population, seed=seed, delta=delta, limits=limits)
    return explain_context(context, units=units, rounds=rounds, method=method, workers=workers, progress=progress)


def explain_context(
    case: EffectContext,
    *,
    units: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    method: Choice = "default",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explain what `context_of` or `context_from` prepared; the parameters are those of `explain`."""
    start = time.perf_counter()
    if method not in METHODS:
        raise SpecError(f'method: there is no "{method}"; there is {", ".join(METHODS)}')
    if not 1 <= rounds <= MOST_ROUNDS:
        raise SpecError(f"rounds: found {rounds}; give 1 to {MOST_ROUNDS:,}")
    wishes, layers = wishes_of(case, units)
    probe = Probe(case.model, case.spec, [wish.tensor for wish in wishes if wish.tensor is not None])
    question = _question(case)
    targets = targets_of(case, wishes, layers, method, *_pilot(case, probe))
    counter = EffectCounter(case, question, targets, probe)
    look = _count(counter, case, rounds, workers or default_workers(), progress)
    return _assemble(case, question, targets, layers, look, method, start)


def _question(case: EffectContext) -> ComparedPair:
    """The widest pair of groups and its outcome, on a pilot; the rounds that follow know nothing of these people."""
    labels = np.concatenate(
        [
            np.stack([case.model.predict(people) for people in case.people(PILOT + chunk, count)])
            for chunk, count in enumerate(_sizes(PILOT_ROUNDS, case.chunk))
        ],
        axis=1,
    )
    groups, asked = len(case.groups), case.spec.property
    tally = Tally.of_batch(labels.shape[1], count_together(labels, case.outcomes), range(groups), groups)
    compared = np.broadcast_to(~np.eye(groups, dtype=bool), tally.only.shape)
    if not isinstance(asked, Individual):
        payoff = RATIO if isinstance(asked, Ratio) else DIFFERENCE
        more, less, outcome = payoff.widest(tally, compared)
        return ComparedPair(more, less, case.outcomes[outcome])
    flips = tally.only + tally.only.swapaxes(1, 2)
    flips = flips if asked.outcome is not None else flips.sum(axis=0, keepdims=True)
    _, one, other = map(int, np.unravel_index(int(np.where(compared[:1], flips, -1).argmax()), flips.shape))
    outcome = int(tally.gaps[:, one, other].argmax())
    return ComparedPair(one, other, case.outcomes[outcome], changes=True, any_label=asked.outcome is None)


def _pilot(case: EffectContext, probe: Probe) -> tuple[NDArray[np.floating], dict[str, NDArray[np.floating]]]:
    """People of all groups, one group after another, and what the network has inside for them."""
    people = np.concatenate([shown.copy() for shown in case.people(PILOT, case.chunk)])
    return people, probe(people)[1]


def _sizes(rounds: int, chunk: int) -> list[int]:
    return [min(chunk, rounds - start) for start in range(0, rounds, chunk)]


def _count(
    counter: EffectCounter, case: EffectContext, rounds: int, workers: int, progress: Callable[[int, int], None] | None
) -> Look:
    """All rounds, chunk by chunk on the workers, added up in their order."""
    # The first rounds stand in a chunk of their own, so that few of them ask for every group.
    sizes = [min(EVERYBODY, case.chunk, rounds), *_sizes(rounds - min(EVERYBODY, case.chunk, rounds), case.chunk)]

    def work(chunk: int) -> Look:
        return counter.look(chunk, sizes[chunk], everybody=not chunk)

    total: Look | None = None
    with thread_pool(workers) as pool:
        for part in (pool.map if pool else map)(work, range(len(sizes))):
            total = part if total is None else total + part
            if progress is not None:
                progress(total.rounds, rounds)
    assert total is not None
    return total


def _assemble(
    case: EffectContext,
    question: ComparedPair,
    targets: Sequence[Target],
    layers: Sequence[HiddenLayer],
    look: Look,
    method: str,
    start: float,
) -> Explanation:
    """Every number with its interval, the units in order."""
    spec, delta = case.spec, case.spec.guarantee.delta
    gap = gap_of_pair(look, delta)
    units = _influences(targets, look, case.shares, delta)
    words = word_effects(case, question, look.rounds)
    names = [group.name for group in case.groups]
    ordered = tuple(sorted(units, key=lambda unit: -unit.effect.estimate))
    return Explanation(
        pair=Pair(names[question.more], names[question.less], spec.model.labels[question.label]),
        gap=gap,
        largest=gap if question.changes else largest_gap(look, gap, delta),
        threshold=spec.property.threshold,
        kind=kind_of(spec),
        inputs=spec.inputs,
        units=ordered,
        layers=_totals(units, layers),
        agreement=agreement([u.effect.estimate for u in units], [u.sensitivity.estimate for u in units]),
        witnesses=examples(case, question),
        words=words,
        method=method,
        rounds=look.rounds,
        seed=case.seed.value,
        seed_origin=case.seed.origin,
        delta=delta,
        evaluations=look.evaluations,
        seconds=time.perf_counter() - start,
        population=str(case.population),
        model_sha256=case.model.sha256,
        statement=(
            f"Each of the {len(units)} effects lies in its interval, all of them together with probability at least "
            f"1 - {delta:g}, under {case.population}; so do, on their own, the sensitivities"
            f"{' and the words' if words else ''}."
        ),
        scope=scope(case.model.sha256, case.seed.value, case.seed.origin),
        notes=_notes(case),
    )


def _influences(
    targets: Sequence[Target], look: Look, shares: NDArray[np.float64], delta: float
) -> tuple[Influence, ...]:
    sensitive = sensitivities(look, [target.states for target in targets], shares, delta)
    largest: dict[str, float] = {}
    for target, found in zip(targets, sensitive, strict=True):
        largest[target.kind] = max(largest.get(target.kind, 0.0), found.estimate)
    # All rounds say how often each group gets an outcome; what an intervention adds is known from fewer.
    rates = look.together.diagonal(axis1=1, axis2=2) / look.rounds + look.shift / look.shift_rounds
    spread = (rates.max(axis=2) - rates.min(axis=2)).max(axis=1)
    return tuple(
        Influence(
            name=target.name,
            layer=target.layer,
            place=target.column,
            kind=target.kind,
            tensor=target.tensor,
            method=target.method,
            held_at=target.hold if target.method == "mean" else None,
            held_as=target.called if target.method == "mean" else None,
            effect=effect,
            remaining=float(left),
            max_gap=float(widest),
            changed=float(changed) / (2 * look.rounds),
            sensitivity=found,
            share=found.estimate / largest[target.kind] if largest[target.kind] else 0.0,
        )
        for target, effect, left, widest, changed, found in zip(
            targets, effects(look, delta), remaining(look), spread, look.changed, sensitive, strict=True
        )
    )


def _totals(units: Sequence[Influence], layers: Sequence[HiddenLayer]) -> tuple[LayerTotal, ...]:
    """Sums over layers, in the order of the network; sums of bounds hold where all the bounds do."""
    operators = {layer.name: layer.operator for layer in layers}
    return tuple(
        LayerTotal(name, operators.get(name, ""), len(part), _sum(part, "effect"), _sum(part, "sensitivity"))
        for name, members in groupby(units, key=lambda unit: unit.layer)
        for part in [list(members)]
    )


def _sum(units: Sequence[Influence], measure: str) -> Interval:
    each = [getattr(unit, measure) for unit in units]
    return Interval(*(sum(getattr(interval, end) for interval in each) for end in ("estimate", "low", "high")))


def _notes(case: EffectContext) -> tuple[str, ...]:
    """What a reader should know besides."""
    notes = [case.model.note] if case.model.note else []
    if isinstance(case.spec.population, Table) and case.spec.population.reading == "sample":
        notes.append("All numbers are about these rows, not about where they come from.")
    if isinstance(case.spec.property, Ratio):
        notes.append("The pair is the one with the smallest ratio; gap and effects are differences of probabilities.")
    if getattr(case.spec.property, "compare", "groups") != "groups":
        notes.append("Groups are compared with each other here, not with everybody.")
    return tuple(notes)

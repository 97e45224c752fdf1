"""The entry point: a pilot selects the pair of groups and fits the states, fresh rounds are counted, bounds follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.executors import AnyWorkers, open_workers
from fairchain.explaining.context import PILOT_ADDRESS, ComparedPair, EffectContext, check_explainable, context_of
from fairchain.explaining.effect_bounds import agreement, effects, gap_of_all_pairs, gap_of_pair, sensitivities
from fairchain.explaining.effect_counts import PAIR_VALUES, EffectCounter, EffectCounts, Evaluate
from fairchain.explaining.examples import examples
from fairchain.explaining.result import Explanation, Influence, LayerTotal
from fairchain.explaining.units import INTERVENTIONS, Choice, Target, requested_units, targets_of
from fairchain.explaining.words import word_effects
from fairchain.messages import unknown
from fairchain.models import Limits, Model
from fairchain.models.inspect.activations import HiddenLayer, Probe
from fairchain.prepare import Case, gather, read_question, with_network
from fairchain.spec import Individual, Marginals, Spec, Table, Texts
from fairchain.spec.properties import kind_of
from fairchain.statements import scope
from fairchain.statistics import Interval, Tally, count_together, payoff_of
from fairchain.tables import encode_named_or_numbered, read_table
from fairchain.verification.record import Pair

EXPLAINED_ROUNDS, PILOT_ROUNDS = 20_000, 4096
# Rounds in which every group is intervened on, for the largest remaining gap.
ALL_GROUPS = 1024
MOST_ROUNDS = 10**9
ROWS_OF_A_TABLE = (
    "--rows (rows=...): the spec is about rows, in which witnesses are searched; give them with --data (data=...)"
)


def explain(
    model: Any,
    spec: Spec | str | Path,
    *,
    units: Sequence[str] | None = None,
    rounds: int = EXPLAINED_ROUNDS,
    method: Choice = "default",
    data: Any = None,
    rows: Any = None,
    population: Callable[..., Any] | None = None,
    delta: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Return the effects of unprotected features, and of the neurons of a network, on the gap between two groups.

    Parameters
    ----------
    model, spec, data, population, seed, workers, executor, limits
        As for `verify`. The effects of features can be measured for any model. The effects of neurons can be measured
        only for a network that onnxruntime runs.
    units
        Units to intervene on: a feature (`capital-gain`), a neuron (`layer3[2]`), each neuron of a layer (`layer3`),
        all "features", or all "neurons". By default, all hidden neurons and all unprotected features that the model
        receives.
    rounds
        Number of inputs. Each input is evaluated as each group, and with an intervention on each unit.
    method
        "resample": the value of a unit is replaced by its value for another input of any group. "mean": the value is
        replaced by the mean, or for a categorical feature by the most frequent value. By default, "mean" is used for
        features of a population that draws all features independently, and "resample" for all other units.
    rows
        For drawn inputs: real rows, as a table like `data`. Counterfactual pairs (witnesses) are sought first
        among these rows, and then among drawn inputs near these rows.
    delta
        The largest probability that at least one interval of an effect is wrong; by default the delta of the spec. Each
        other set of intervals (see `Explanation`) has a separate error probability of the same size.
    progress
        Called with the number of finished rounds, and the number of requested rounds.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> found = explain(None, example("credit"), units=["layer5"], rounds=2000)
    >>> found.pair.outcome, len(found.units)
    ('good', 4)
    """
    question = read_question(spec, guarantee__seed=seed, guarantee__delta=delta)
    check_explainable(question)
    if rows is not None and question.text is not None:
        raise SpecError("--rows (rows=...): the network reads texts, and a table has none; leave it out")
    if rows is not None and isinstance(question.population, Table):
        raise SpecError(ROWS_OF_A_TABLE)
    if data is not None and not isinstance(question.population, Table | Marginals | Texts):
        raise SpecError("--data (data=...): this spec draws inputs without rows; for witnesses give --rows (rows=...)")
    case = gather(model, question, data=data, population=population, limits=limits, network=True)
    with open_workers(workers, executor) as opened:
        return explain_case(
            case, rows=rows, units=units, rounds=rounds, method=method, workers=opened, progress=progress
        )


def explain_case(
    case: Case,
    *,
    rows: Any = None,
    units: Sequence[str] | None = None,
    rounds: int = EXPLAINED_ROUNDS,
    method: Choice = "default",
    workers: AnyWorkers = None,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Explain a case with a model, not with recorded decisions; the options are those of `explain`."""
    start = time.perf_counter()
    if method not in INTERVENTIONS:
        raise SpecError(f"method: {unknown('name', method, INTERVENTIONS)}")
    if not 1 <= rounds <= MOST_ROUNDS:
        raise SpecError(f"rounds: found {rounds}; give 1 to {MOST_ROUNDS:,}")
    witnesses = None
    if rows is not None:
        complete = Table(reading="population", drop_missing=True)
        beside = msgspec.structs.replace(case.spec, population=complete)
        witnesses = encode_named_or_numbered(read_table(rows), beside)
    context = context_of(with_network(case), witnesses)
    requests, layers = requested_units(context, units)
    tensors = [request.tensor for request in requests if request.tensor is not None]
    evaluate: Evaluate = partial(_labels_alone, context.model)
    if context.network is not None:
        evaluate = Probe(context.network, context.spec, tensors)
    pair = _widest_pair(context)
    pilot = np.concatenate([inputs.copy() for inputs in context.inputs(PILOT_ADDRESS, context.chunk)])
    targets = targets_of(context, requests, layers, method, pilot, evaluate(pilot)[1] if layers else {})
    counter = EffectCounter(context, pair, targets, evaluate)
    # The first rounds are a separate chunk, so that only few rounds intervene on every group.
    first = min(ALL_GROUPS, context.chunk, rounds)
    sizes = [first, *_sizes(rounds - first, context.chunk)]
    chunks = [(number, size, number == 0) for number, size in enumerate(sizes)]
    counts: EffectCounts | None = None
    with open_workers(workers) as opened:
        for part in opened.map(counter.count, chunks, sizes=sizes):
            counts = part if counts is None else counts + part
            if progress is not None:
                progress(counts.rounds, rounds)
    assert counts is not None
    return _assemble(context, pair, targets, layers, counts, method, start)


def _labels_alone(model: Model, inputs: NDArray[Any]) -> tuple[NDArray[np.integer], dict[str, NDArray[Any]]]:
    """Return the labels of inputs; a model that is not a network has no tensors."""
    return model.predict(inputs), {}


def _widest_pair(context: EffectContext) -> ComparedPair:
    """Return the pair of groups with the largest gap on a pilot, whose inputs the counted rounds do not use."""
    labels = np.concatenate(
        [
            np.stack([context.model.predict(inputs) for inputs in context.inputs(PILOT_ADDRESS + chunk, count)])
            for chunk, count in enumerate(_sizes(PILOT_ROUNDS, context.chunk))
        ],
        axis=1,
    )
    groups, question, outcomes = len(context.groups), context.spec.property, context.outcomes
    tally = Tally.of_batch(labels.shape[1], count_together(labels, outcomes), range(groups), groups)
    compared = np.broadcast_to(~np.eye(groups, dtype=bool), tally.only.shape)
    if not isinstance(question, Individual):
        own = context.case.comparison
        if own.compared.shape == tally.only.shape and getattr(question, "compare", "groups") == "groups":
            # With a reference group, or in a formula, not every pair is compared; here a pair may differ in either
            # direction.
            compared = own.compared | own.compared.swapaxes(1, 2)
        more, less, outcome = payoff_of(own.measure, compared).widest(tally, compared)
        return ComparedPair(more, less, outcomes[outcome])
    flips = tally.only + tally.only.swapaxes(1, 2)
    flips = flips if question.outcome is not None else flips.sum(axis=0, keepdims=True)
    _, one, other = map(int, np.unravel_index(int(np.where(compared[:1], flips, -1).argmax()), flips.shape))
    outcome = int(tally.gaps[:, one, other].argmax())
    return ComparedPair(one, other, outcomes[outcome], changes=True, any_label=question.outcome is None)


def _sizes(rounds: int, chunk: int) -> list[int]:
    return [min(chunk, rounds - start) for start in range(0, rounds, chunk)]


def _assemble(
    context: EffectContext,
    pair: ComparedPair,
    targets: Sequence[Target],
    layers: Sequence[HiddenLayer],
    counts: EffectCounts,
    method: str,
    start: float,
) -> Explanation:
    """Return all numbers with their intervals, the units by decreasing effect."""
    spec, seed, delta = context.spec, context.case.seed, context.spec.guarantee.delta
    gap = gap_of_pair(counts, delta)
    units = _influences(targets, counts, context.shares, delta)
    words = word_effects(context, pair, counts.rounds)
    names = [group.name for group in context.groups]
    witnesses, flips = examples(context, pair)
    notes = [context.model.note] if context.model.note else []
    if isinstance(spec.population, Table) and spec.population.reading == "sample":
        notes.append("All numbers are about these rows, not about the population from which they were drawn.")
    if kind_of(spec) == "ratio":
        notes.append("The pair is the one with the smallest ratio; gap and effects are differences of probabilities.")
    if getattr(spec.property, "compare", "groups") != "groups":
        notes.append("Groups are compared with each other here, not with the overall population.")
    return Explanation(
        pair=Pair(names[pair.more], names[pair.less], spec.model.labels[pair.label]),
        gap=gap,
        largest=gap if pair.changes else gap_of_all_pairs(counts, gap, delta),
        threshold=spec.property.threshold,
        kind=kind_of(spec),
        inputs=spec.inputs,
        units=tuple(sorted(units, key=lambda unit: -unit.effect.estimate)),
        layers=_totals(units, layers),
        agreement=agreement([u.effect.estimate for u in units], [u.sensitivity.estimate for u in units]),
        witnesses=witnesses,
        flips=flips,
        words=words,
        method=method,
        rounds=counts.rounds,
        seed=seed.value,
        seed_origin=seed.origin,
        delta=delta,
        evaluations=counts.evaluations,
        seconds=time.perf_counter() - start,
        population=str(context.population),
        model_sha256=context.model.sha256,
        statement=(
            f"All {len(units)} effects lie in their intervals together with probability at least 1 - {delta:g}, under "
            f"{context.population}. The same holds, separately, for the sensitivities"
            f"{' and for the words' if words else ''}."
            if units
            else f"The effects of all words lie in their intervals together with probability at least 1 - {delta:g}, "
            f"under {context.population}."
        ),
        scope=scope(context.model.sha256, seed.value, seed.origin),
        notes=tuple(notes),
    )


def _influences(
    targets: Sequence[Target], counts: EffectCounts, shares: NDArray[np.float64], delta: float
) -> tuple[Influence, ...]:
    if not targets:
        return ()
    sensitive = sensitivities(counts, [target.states for target in targets], shares, delta)
    largest: dict[str, float] = {}
    for target, found in zip(targets, sensitive, strict=True):
        largest[target.kind] = max(largest.get(target.kind, 0.0), found.estimate)
    # All rounds give the rate of each outcome in each group; the change by an intervention comes from fewer rounds.
    rates = counts.together.diagonal(axis1=1, axis2=2) / counts.rounds + counts.shift / counts.shift_rounds
    spread = (rates.max(axis=2) - rates.min(axis=2)).max(axis=1)
    remaining = (counts.plus - counts.minus) @ PAIR_VALUES / (2 * counts.rounds)
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
            changed=float(changed) / (2 * counts.rounds),
            sensitivity=found,
            share=found.estimate / largest[target.kind] if largest[target.kind] else 0.0,
        )
        for target, effect, left, widest, changed, found in zip(
            targets, effects(counts, delta), remaining, spread, counts.changed, sensitive, strict=True
        )
    )


def _totals(units: Sequence[Influence], layers: Sequence[HiddenLayer]) -> tuple[LayerTotal, ...]:
    """Return sums over layers, in the order of the network; a sum of bounds holds if all the bounds do."""
    operators = {layer.name: layer.operator for layer in layers}
    totals = []
    for name, members in groupby(units, key=lambda unit: unit.layer):
        measures = [(unit.effect, unit.sensitivity) for unit in members]
        sums = (
            Interval(sum(i.estimate for i in each), sum(i.low for i in each), sum(i.high for i in each))
            for each in zip(*measures, strict=True)
        )
        totals.append(LayerTotal(name, operators.get(name, ""), len(measures), *sums))
    return tuple(totals)

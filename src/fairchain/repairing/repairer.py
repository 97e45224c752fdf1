"""The entry point of a repair: verify, select what may change, search, judge candidates, report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, SpecError
from fairchain.explaining import Explanation
from fairchain.explaining.explainer import explain_case
from fairchain.explaining.result import Measure
from fairchain.models import Limits, OnnxModel
from fairchain.models.edit.candidates import Tunable, input_means
from fairchain.models.edit.linear import with_dense_layers
from fairchain.models.edit.weights import Array, Weights
from fairchain.prepare import Case, case_of, gather, read_question
from fairchain.repairing.judge import CandidateEdits, Judge, Judged, WeightEdits, candidates_of
from fairchain.repairing.optimizers import NAMES
from fairchain.repairing.parameters import (
    CHANGES,
    NamedUnit,
    Parameters,
    Scales,
    last_layer,
    linear_layer,
    low_rank,
    protected_units,
    ranked_units,
    unit_biases,
)
from fairchain.repairing.repair_data import (
    LEAST_ROWS,
    OPTIMIZER,
    REFINE,
    SEARCH,
    LabelledRows,
    SearchInputs,
    halves,
    inputs_of,
    labelled_rows_of,
    read_labelled_rows,
    seed_for,
)
from fairchain.repairing.result import FrontPoint, GroupChange, Repair, RepairProgress, TensorChange, WeightChange
from fairchain.repairing.search import (
    Candidate,
    CandidateDecisions,
    CandidateTrial,
    Objective,
    Searcher,
    front_of,
    spread,
)
from fairchain.repairing.thresholds import (
    ThresholdDecisions,
    ThresholdEdits,
    ThresholdParameters,
    check_groups,
    score_reader,
    threshold_places,
)
from fairchain.spec import Group, Individual, Spec, Table
from fairchain.spec.properties import limit_of
from fairchain.statements import NO_BOUNDS_CERTIFICATE, NO_CERTIFICATE
from fairchain.statistics import Decision
from fairchain.tables import encode_rows, read_table
from fairchain.verification import verify_case
from fairchain.verification.sampler import default_workers, thread_pool
from fairchain.verification.verdict import Verdict

# Inputs that each candidate is evaluated on in the search, about, and those on which the front is measured again.
SEARCHED, REFINED = 32_768, 131_072
# The same for texts, which a network reads word by word.
TEXTS, TEXTS_REFINED = 4_096, 16_384
# The same for a model that is evaluated in Python, whose scores are computed once.
ASKED, ASKED_REFINED = 8_192, 32_768
# Labelled rows that each candidate is evaluated on, at most.
MOST_SEARCHED = 8192
MOST_ON_FRONT = 40
# The share of the last attempt must be a delta that a verdict can have.
LEAST_DELTA = 1e-98
# Rows from which the mean signal of a unit is taken.
MEAN_ROWS = 4096
# Rounds of the explanation that ranks units: no verdict depends on it.
RANKING_ROUNDS = 10_000
# The share of judging rows that may equal a labelled row of a sample by coincidence.
MOST_COMMON = 0.25
# Weights of a tensor that are listed.
MOST_LISTED = 5
THRESHOLD, GROUP_THRESHOLDS = "threshold", "group-thresholds"
USES_GROUP = (
    "The decision now uses the group: every group of {protected} has its own threshold. This may be unlawful in some "
    "places, and the group must be known for every decision."
)
UNITS_CANNOT_BE_RANKED = "units cannot be ranked: {error}; do without: --max-units 0 (max_units=0 in Python)"
HELD_OUT_IS_DATA = "held_out: the same rows as data; give others, or leave it out to hold out half of data"
BAD_ACCURACY_LOSS = "max_accuracy_loss: found {max_accuracy_loss:g}; give a share from 0 to below 1"
LOW_RANK_KEEPS_NOTHING = (
    'change: "low-rank" changes only the weights of the protected features, which keep_protected leaves as they are; '
    'take change = "scales" or "last-layer"'
)
HELD_OUT_WITHOUT_LABELLED = "held_out: labelled rows to judge on, and none to search on; give labelled too"
RECORDED_DECISIONS = (
    "population.prediction: recorded decisions have no model that could be repaired; remove it and name the model: "
    "model.path"
)
TAKE_CHANGE = '{error}; take change = "{threshold}" or "{group_thresholds}"'
NO_WEIGHTS_IN_PYTHON = (
    '{name}: is evaluated in Python, and has no weights that could be changed; take change = "{threshold}" or '
    '"{group_thresholds}"{value}'
)
JUDGED_ROWS_SEARCHED = (
    "labelled: {common:,} of the {total:,} rows that judge the repair equal labelled rows that are searched on, which "
    'would make the verdict invalid; leave them out and name the column of true labels in the spec: label = "..." in '
    "[population]"
)
HELD_OUT_IS_POPULATION = "held_out: the same rows as the population; give others, or leave it out to divide the rows"


@dataclass(frozen=True)
class Settings:
    """Options of a search: the optimiser, the weights that may change, and what it may cost."""

    optimizer: str = "evolution"
    change: str = "auto"
    max_units: int = 10
    keep_protected: bool | None = None
    max_accuracy_loss: float | None = None
    iterations: int = 100

    def __post_init__(self) -> None:
        if self.optimizer not in NAMES:
            raise SpecError(f'optimizer: unknown name "{self.optimizer}"; expected one of {", ".join(NAMES)}')
        if self.change not in CHANGES:
            raise SpecError(f'change: unknown name "{self.change}"; expected one of {", ".join(CHANGES)}')
        if self.change == "low-rank" and self.keep_protected:
            raise SpecError(LOW_RANK_KEEPS_NOTHING)
        if self.max_units < 0 or self.iterations < 0:
            raise SpecError("max_units and iterations: a number below 0; give 0 or more")
        if self.max_accuracy_loss is not None and not 0 <= self.max_accuracy_loss < 1:
            raise SpecError(BAD_ACCURACY_LOSS.format(max_accuracy_loss=self.max_accuracy_loss))

    @property
    def paper(self) -> bool:
        """Whether to follow the paper: its fitness, no protected feature, no mean kept."""
        return self.optimizer == "pso"

    @property
    def protected_too(self) -> bool:
        """Whether weights of the protected features may change."""
        return not (self.paper if self.keep_protected is None else self.keep_protected)

    @property
    def thresholds(self) -> bool:
        """Whether thresholds change, and no weights."""
        return self.change in (THRESHOLD, GROUP_THRESHOLDS)

    def change_of(self, spec: Spec, protected: Sequence[NamedUnit], weights: Weights) -> str:
        """Return which weights may change, where "auto" depends on the network and its protected units."""
        if self.change != "auto":
            return self.change
        if len(weights.blocks) == 1 and not self.paper:
            # A linear model: all of its weights are few.
            return "last-layer"
        if protected and self.protected_too:
            return "low-rank"
        # Of a text network only the last layer can be scored without reading the texts again.
        return "scales" if spec.text is None or self.paper else "last-layer"


def repair(
    model: Any,
    spec: Spec | str | Path,
    *,
    labelled: Any = None,
    held_out: Any = None,
    label: str | None = None,
    optimizer: str = "evolution",
    change: str = "auto",
    max_units: int = 10,
    keep_protected: bool | None = None,
    max_accuracy_loss: float | None = None,
    iterations: int = 100,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Change the weights or the thresholds of a model so that it treats groups alike, and verify that it does.

    Parameters
    ----------
    model, spec, data, population, workers, limits
        As for `verify`. Weights of networks and linear models can be changed; the decision thresholds of every model
        with a score for two labels.
    labelled
        Labelled rows whose accuracy is to be kept: a table with the features and a column of true labels. Half of
        them is held out for the price. Without any, the labels of the spec's own table are taken; without these,
        agreement with the original model is kept instead.
    held_out
        Labelled rows for the price; then all of `labelled` is searched on. For a sample of rows (`as = "sample"`):
        other rows of the same population to judge on; without them, a random half of the sample.
    label
        The column with the true labels; by default the spec's, or `label`.
    optimizer
        "evolution" (covariance matrix adaptation), or "pso" (the paper's particle swarm, with the paper's fitness).
    change
        What may change: "scales", "biases", "last-layer" or "low-rank" for weights; "threshold" for one decision
        threshold, "group-thresholds" for one in each group: then the decision uses the group, which may be unlawful.
        "auto" is the last layer of a linear model, low-rank where a network reads the protected features and their
        weights may change, the last layer of a network that reads texts, scales for other networks, and one threshold
        for models without weights.
    max_units
        How many features and neurons, those that `explain` ranks first, may change besides the protected features.
    keep_protected
        Leave the weights of the protected features as they are.
    max_accuracy_loss
        Of all candidates take the fairest that loses no more than this, measured on the held-out rows. By default the
        most accurate that is fair.
    iterations
        Generations, at most; the search ends after 10 without progress.
    seed
        A chosen seed, instead of the spec's; without one it is derived as for `verify`. The same seed gives the same
        network to the last bit.
    progress
        Called after each generation.
    before, explanation
        What `verify` and `explain` returned for the same model and spec, if known; then it is not computed again, and
        units are ranked by that explanation.

    Returns
    -------
    Repair
        With the model if it was accepted: verified on fresh draws, or on rows that the search has not seen. (The rows
        of a whole population are counted, also if they were searched on: the count is exact.)

    Examples
    --------
    >>> from fairchain.examples import example
    >>> result = repair(None, example("credit"), change="scales", max_units=0, iterations=1)
    >>> result.accepted, result.before.decision.name, result.after.decision.name
    (True, 'UNFAIR', 'FAIR')
    """
    settings = Settings(optimizer, change, max_units, keep_protected, max_accuracy_loss, iterations)
    question = read_question(spec, guarantee__seed=seed)
    check_repairable(question)
    case = gather(model, question, data=data, population=population, limits=limits, network=True)
    return repair_case(
        case,
        settings,
        source=model,
        labelled=labelled,
        held_out=held_out,
        label=label,
        workers=workers,
        progress=progress,
        before=before,
        explanation=explanation,
    )


def repair_case(
    case: Case,
    settings: Settings | None = None,
    *,
    source: Any = None,
    labelled: Any = None,
    held_out: Any = None,
    label: str | None = None,
    workers: int | None = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Repair the model of a case as `prepare` makes it.

    Parameters
    ----------
    case, settings
        The case, and the options of the search.
    source
        What the model of the case was loaded from, which may have scores besides the labels that the case reads.
    labelled, held_out, label, workers, progress, before, explanation
        As for `repair`.
    """
    start, settings = time.perf_counter(), settings or Settings()
    check_repairable(case.spec)
    sampled = isinstance(case.spec.population, Table) and case.spec.population.reading == "sample"
    if held_out is not None and labelled is None and not sampled:
        raise SpecError(HELD_OUT_WITHOUT_LABELLED)
    before = verify_case(case, workers=workers, certify=True) if before is None else before
    if before.stopped == "interrupted":
        raise KeyboardInterrupt
    if (before.decision is Decision.FAIR or before.constant is not None) and before.sound:
        return Repair(
            accepted=False,
            needed=False,
            before=before,
            optimizer=settings.optimizer,
            change=settings.change,
            seed=case.seed.value,
            stopped="not needed",
            seconds=time.perf_counter() - start,
            statement=f"Nothing to repair: {before.statement}",
            notes=before.notes if before.constant is not None else (),
        )
    sides = _sides(case, held_out)
    rows, kept = _labelled(labelled, held_out, label, sides)
    if sampled and labelled is not None:
        sides = _with_others(sides, rows)
    # An explanation of all rows of a sample has seen those that are judged on.
    known = explanation if sides.searched is case else None
    plan = _plan(sides.searched, settings, source, rows, workers, known)
    return _repaired(sides, plan, settings, rows, kept, workers, progress, before, start)


@dataclass(frozen=True, eq=False)
class Sides:
    """The case whose inputs are searched on, and the one whose inputs are judged on.

    `on` are the latter in words, and `note` says how rows were divided. `recheckable`: whether others have these rows.
    """

    searched: Case
    judged: Case
    on: str
    note: str = ""
    recheckable: bool = True


def _sides(case: Case, held_out: Any) -> Sides:
    """Divide the inputs of a case: a search must not see what judges, unless all there is gets counted."""
    population = case.spec.population
    if not isinstance(population, Table):
        return Sides(case, case, "the draws on which the model was judged")
    assert case.rows is not None
    total = len(case.rows.values)
    if population.reading == "population":
        note = (
            f"The {total:,} rows are the whole population: the search has seen them, and the final count of all of "
            "them is exact. It says nothing about other rows."
        )
        return Sides(case, case, f"all {total:,} rows", note)
    if held_out is None:
        first, second = halves(case)
        sizes = [len(each.rows.values) for each in (first, second) if each.rows is not None]
        if min(sizes) < LEAST_ROWS:
            raise SpecError(f"population: {total:,} rows are too few to search on one half and judge on the other")
        note = (
            f"The {total:,} rows of the sample were divided at random: {sizes[0]:,} to search on and {sizes[1]:,} to "
            "judge on."
        )
        return Sides(first, second, f"the {sizes[1]:,} rows on which the model was judged", note, recheckable=False)
    path = str(held_out) if isinstance(held_out, str | Path) else None
    spec = replace(case.spec, population=replace(population, path=path))
    rows = encode_rows(read_table(held_out), spec)
    if rows.sha256 == case.rows.sha256:
        raise SpecError(HELD_OUT_IS_POPULATION)
    judged = case_of(spec, case.model, rows, function=case.function)
    note = f"All {total:,} rows of the sample were searched on; the verdict is about the {len(rows.values):,} others."
    return Sides(case, judged, f"the {len(rows.values):,} held-out rows", note)


def check_repairable(spec: Spec) -> None:
    """Raise a SpecError for a question that cannot be searched on and judged on."""
    table = spec.population if isinstance(spec.population, Table) else None
    if table is not None and table.prediction is not None:
        raise SpecError(RECORDED_DECISIONS)
    if table is not None and isinstance(spec.property, Individual):
        raise SpecError(
            'property.kind: "individual" cannot be repaired on rows of a table; draw inputs: kind = "uniform" or '
            '"marginals" in [population]'
        )
    if spec.guarantee.delta < LEAST_DELTA:
        raise SpecError(f"guarantee.delta: attempts share it, so a repair needs at least {LEAST_DELTA:g}")


def _labelled(
    data: Any, held_out: Any, label: str | None, sides: Sides
) -> tuple[LabelledRows | None, LabelledRows | None]:
    """Return labelled rows to search on, and others for the price."""
    seed, spec = sides.searched.seed.value, sides.searched.spec
    if data is None:
        searched, kept = labelled_rows_of(sides.searched), labelled_rows_of(sides.judged)
        return (None, None) if searched is None or kept is None else (searched.shuffled(seed), kept)
    searched = read_labelled_rows(data, spec, label)
    if held_out is None:
        searched, kept = searched.split(seed)
    else:
        kept = read_labelled_rows(held_out, spec, label)
        if len(searched) == len(kept) == searched.in_common(kept) == kept.in_common(searched):
            raise SpecError(HELD_OUT_IS_DATA)
        searched = searched.shuffled(seed)
    if min(len(searched), len(kept)) < LEAST_ROWS:
        raise SpecError(f"data: fewer than {LEAST_ROWS} labelled rows on one side; give more, or none")
    return searched, kept


def _with_others(sides: Sides, rows: LabelledRows | None) -> Sides:
    """Refuse labelled rows that are those of the judge: what is chosen on them is not independent of them.

    A few equal rows may be other individuals, which a note says.
    """
    judged = sides.judged.rows
    assert judged is not None
    seen = {row.tobytes() for row in np.asarray(rows.values, np.float64)} if rows is not None else set()
    common, total = sum(row.tobytes() in seen for row in judged.values), len(judged.values)
    if common > MOST_COMMON * total:
        raise SpecError(JUDGED_ROWS_SEARCHED.format(common=common, total=total))
    if not common:
        return sides
    note = f"{common:,} of the rows that judge equal a labelled row; if they are copies, the verdict is not valid."
    return dataclasses.replace(sides, note=f"{sides.note} {note}")


@dataclass(frozen=True, eq=False)
class Plan:
    """What a search may change, how candidates are scored, and how their models are made.

    Parameters
    ----------
    change, parameters, base
        The name of what changes, the numbers of the search, and the arrays of the original that follow from them.
    decisions, edits
        Decide as candidates do, for scoring; make the model of a candidate, for judging.
    inputs, refined
        The inputs to search on, and the number of those on which the front is measured again.
    spec
        The spec of the candidates.
    most_rows
        Labelled rows that each candidate is scored on, at most; None for all.
    weights
        Those of the network; None where thresholds change.
    groups
        The groups with a threshold each.
    """

    change: str
    parameters: Parameters
    base: Mapping[str, Array]
    decisions: CandidateDecisions
    edits: CandidateEdits
    inputs: SearchInputs
    refined: int
    spec: Spec
    most_rows: int | None
    weights: Weights | None = None
    groups: tuple[Group, ...] = ()


def _plan(
    case: Case,
    settings: Settings,
    source: Any,
    rows: LabelledRows | None,
    workers: int | None,
    explanation: Explanation | None,
) -> Plan:
    """Plan a change of weights or, for models that have none, of thresholds."""
    model = case.model
    assert model is not None
    if settings.thresholds:
        return _threshold_plan(case, settings.change, source)
    if not isinstance(model, OnnxModel):
        if settings.change == "auto":
            return _threshold_plan(case, THRESHOLD, source)
        raise ModelError(
            NO_WEIGHTS_IN_PYTHON.format(
                name=model.name,
                threshold=THRESHOLD,
                group_thresholds=GROUP_THRESHOLDS,
                value=f" ({model.note})" if model.note else "",
            )
        )
    dense = with_dense_layers(model)
    try:
        weights = Weights(dense)
    except ModelError as error:
        if settings.change != "auto":
            raise ModelError(
                TAKE_CHANGE.format(error=error, threshold=THRESHOLD, group_thresholds=GROUP_THRESHOLDS)
            ) from None
        return _threshold_plan(case, THRESHOLD, source)
    return _weight_plan(case, dense, weights, settings, rows, workers, explanation)


def _weight_plan(
    case: Case,
    model: OnnxModel,
    weights: Weights,
    settings: Settings,
    rows: LabelledRows | None,
    workers: int | None,
    explanation: Explanation | None,
) -> Plan:
    """Plan a change of weights."""
    spec, seed = case.spec, case.seed.value
    protected = protected_units(spec, weights)
    change = settings.change_of(spec, protected, weights)
    # Texts are read anew for every candidate, unless only the last layer changes.
    slow = spec.text is not None and change != "last-layer"
    inputs = inputs_of(case, seed_for(seed, SEARCH), TEXTS if slow else SEARCHED)
    shown = rows.values if rows is not None else inputs.values
    # Rows from all over: drawn inputs come group after group.
    some = shown[:: max(1, len(shown) // MEAN_ROWS)]
    means = input_means(model, weights.blocks, some.astype(model.dtype))

    def ranked() -> list[NamedUnit]:
        return _ranked(case, settings, weights, explanation, workers)

    parameters = _parameters(change, settings, model.name, weights, protected, means, ranked)
    return Plan(
        change=change,
        parameters=parameters,
        base=weights.values,
        decisions=Tunable(model, weights, parameters.tensors),
        edits=WeightEdits(weights, model),
        inputs=inputs,
        refined=TEXTS_REFINED if slow else REFINED,
        spec=spec,
        # A candidate that differs only in the last layer is cheap to score on more rows.
        most_rows=MOST_SEARCHED * (4 if change == "last-layer" else 1),
        weights=weights,
    )


def _threshold_plan(case: Case, change: str, source: Any) -> Plan:
    """Plan a change of one decision threshold, or of one for each group."""
    spec, model = case.spec, case.model
    assert model is not None
    groups = case.groups if change == GROUP_THRESHOLDS else ()
    if groups:
        check_groups(spec)
    network = isinstance(model, OnnxModel)
    sizes = (TEXTS, TEXTS_REFINED) if spec.text is not None else (ASKED, ASKED_REFINED)
    searched, refined = (SEARCHED, REFINED) if network and spec.text is None else sizes
    inputs = inputs_of(case, seed_for(case.seed.value, SEARCH), searched)
    limits = model.limits if isinstance(model, OnnxModel) else None
    reader = score_reader(case, source, inputs.values, limits)
    scores, places = reader(inputs.values), threshold_places(spec, groups, inputs.values)
    counted = _counted_rows(case, len(scores))
    each = [scores[counted & (places == number)] for number in range(max(1, len(groups)))]
    edits = ThresholdEdits(reader, tuple(groups))
    return Plan(
        change=change,
        parameters=ThresholdParameters(reader.cut, each, [group.name for group in groups] or [""]),
        base=edits.values,
        decisions=ThresholdDecisions(reader, spec, groups),
        edits=edits,
        inputs=inputs,
        refined=refined,
        spec=edits.new_spec,
        most_rows=None,
        groups=tuple(groups),
    )


def _counted_rows(case: Case, count: int) -> NDArray[np.bool_]:
    """Return (inputs,): those whose rates are compared; with equal opportunity the rows of one true label."""
    rows = case.rows
    counted = np.ones(count, bool)
    if case.population is None and rows is not None:
        assert case.concerned is not None
        counted &= case.concerned
        truths = {subgroup.truth for subgroup in case.comparison.subgroups if subgroup.truth is not None}
        if truths and rows.truth is not None:
            counted &= np.isin(rows.truth, list(truths))
    return counted


def _repaired(
    sides: Sides,
    plan: Plan,
    settings: Settings,
    rows: LabelledRows | None,
    held_out: LabelledRows | None,
    workers: int | None,
    progress: Callable[[RepairProgress], None] | None,
    before: Verdict,
    start: float,
) -> Repair:
    """Search, measure the front again, judge, and return the result."""
    case, parameters = sides.searched, plan.parameters
    seed, limit = case.seed.value, float(limit_of(case.spec))
    searched = rows
    if rows is not None and plan.most_rows is not None:
        searched = rows.part(np.arange(min(len(rows), plan.most_rows)))
    trial = CandidateTrial(plan.decisions, plan.inputs, searched)
    # Held-out rows will differ a little from the searched ones, so not all of the allowed loss is spent.
    lost = None if settings.max_accuracy_loss is None else 0.8 * settings.max_accuracy_loss
    objective = Objective(limit, None if lost is None else trial.score({}).accuracy - lost, settings.paper)
    with thread_pool(workers or default_workers()) as pool:
        searcher = Searcher(trial, parameters, plan.base, objective, pool, progress)
        stopped = searcher.run(settings.optimizer, settings.iterations, seed_for(seed, OPTIMIZER))
        # Measured again on fresh inputs: a candidate that won by chance falls back.
        fresh = inputs_of(case, seed_for(seed, REFINE), plan.refined)
        fine = CandidateTrial(plan.decisions, fresh, rows)
        chosen = spread(front_of(searcher.tried), MOST_ON_FRONT)
        scores = (pool.map if pool else map)(lambda each: fine.score(parameters.weights(each.point)), chosen)
        front = front_of([Candidate(c.point, score, c.change) for c, score in zip(chosen, scores, strict=True)])
    original = fine.score({})
    floor = None if lost is None else original.accuracy - lost
    # The candidates have the plan's spec, and the population of the judge.
    spec = replace(plan.spec, population=sides.judged.spec.population)
    judge = Judge(
        plan.edits, dataclasses.replace(sides.judged, spec=spec), held_out, settings.max_accuracy_loss, workers
    )
    judged = judge.all(candidates_of(front, limit, floor), parameters)
    accepted = judged[-1].attempt.accepted
    best = judged[-1] if accepted else min(judged, key=lambda each: each.gap_high)
    point = best.candidate.point
    # The scores that thresholds are compared with are computed once for all candidates.
    evaluations = len(searcher.tried) * trial.inputs + len(front) * fine.inputs
    return Repair(
        accepted=accepted,
        needed=True,
        before=before,
        after=best.verdict,
        original=FrontPoint(original.gap, original.accuracy, 0.0),
        front=tuple(FrontPoint(c.score.gap, c.score.accuracy, c.change, c is best.candidate) for c in front),
        adjustments=parameters.adjustments(point),
        changes=_changes(plan.weights, parameters.weights(point)) if plan.weights is not None else (),
        groups=_group_changes(best, plan),
        price=best.attempt.price,
        attempts=tuple(each.attempt for each in judged),
        optimizer=settings.optimizer,
        change=plan.change,
        seed=seed,
        iterations=searcher.iterations,
        candidates=len(searcher.tried),
        evaluations=evaluations if plan.weights is not None else trial.inputs + fine.inputs,
        stopped=stopped,
        seconds=time.perf_counter() - start,
        judged_on=sides.on,
        recheckable=accepted and sides.recheckable and best.verdict is not None and best.verdict.certifiable,
        statement=_statement(case.spec, judged, sides),
        notes=_notes(before, best, rows, held_out, sides, plan),
        content=best.content,
        model=best.model if accepted else None,
    )


def _group_changes(best: Judged, plan: Plan) -> tuple[GroupChange, ...]:
    """Return what the repair means for each group, with its thresholds where these changed."""
    if plan.weights is not None:
        return best.groups
    moved = plan.parameters.adjustments(best.candidate.point)
    by_name = dict(zip((group.name for group in plan.groups), moved, strict=True)) if plan.groups else {}

    def changed(each: GroupChange) -> GroupChange:
        one = by_name.get(each.group) if plan.groups else moved[0]
        return each if one is None else replace(each, threshold_before=one.before, threshold=one.after)

    return tuple(changed(each) for each in best.groups)


def _parameters(
    change: str,
    settings: Settings,
    name: str,
    weights: Weights,
    protected: list[NamedUnit],
    means: dict[str, Array],
    ranked: Callable[[], list[NamedUnit]],
) -> Parameters:
    """Return what may change; an error says why nothing can. Units are ranked only where they are needed."""
    if change == "last-layer":
        if len(weights.blocks) == 1:
            return linear_layer(weights, protected, means, protected_too=settings.protected_too)
        return last_layer(weights)
    if change == "low-rank":
        if not protected:
            raise ModelError(
                f"{name}: the weights of the protected features are unknown, so there is no low-rank change; take "
                'change = "scales" or "last-layer"'
            )
        return low_rank(weights, protected, means)
    if change == "biases":
        shifts = unit_biases(weights, ranked())
        if not shifts.places:
            raise ModelError(f'{name}: has no bias to move; take change = "scales" or "last-layer"')
        return shifts
    units = [*(protected if settings.protected_too else ()), *ranked()]
    if not units:
        raise ModelError(
            f"{name}: has no unit whose outgoing weights could be scaled; allow more with max_units, or take "
            'change = "last-layer"'
        )
    return Scales(weights, units, None if settings.paper else means)


def _ranked(
    case: Case, settings: Settings, weights: Weights, explanation: Explanation | None, workers: int | None
) -> list[NamedUnit]:
    """Return the units that an explanation ranks first: the given one, or one with a seed of its own."""
    if not settings.max_units:
        return []
    if explanation is None:
        seed = seed_for(case.seed.value, SEARCH, 1)
        spec = replace(case.spec, guarantee=replace(case.spec.guarantee, seed=seed))
        try:
            seeded = case_of(spec, case.model, case.rows, function=case.function)
            explanation = explain_case(seeded, rounds=RANKING_ROUNDS, workers=workers)
        except SpecError as error:
            raise SpecError(UNITS_CANNOT_BE_RANKED.format(error=error)) from None
    measure: Measure = "sensitivity" if settings.paper else "effect"
    return ranked_units(explanation, case.spec, weights, settings.max_units, measure)


def _changes(weights: Weights, new: Mapping[str, Array]) -> tuple[TensorChange, ...]:
    """Return the change of each tensor that is different."""
    found = []
    for name, values in new.items():
        before = weights.values[name]
        after = values.astype(before.dtype)
        move = np.abs(after.astype(np.float64) - before)
        if not move.any():
            continue
        length = float(np.linalg.norm(before.astype(np.float64)))
        order = np.argsort(-move, axis=None, kind="stable")[:MOST_LISTED]
        places = [tuple(int(i) for i in np.unravel_index(flat, before.shape)) for flat in order if move.flat[flat]]
        found.append(
            TensorChange(
                tensor=name,
                operator=weights.operator_of(name),
                shape=before.shape,
                changed=int(np.count_nonzero(move)),
                size=before.size,
                # A bias that was added to a layer had no length.
                relative=float(np.linalg.norm(move)) / length if length else 1.0,
                largest=tuple(WeightChange(place, float(before[place]), float(after[place])) for place in places),
            )
        )
    return tuple(found)


def _statement(spec: Spec, judged: Sequence[Judged], sides: Sides) -> str:
    """Return the guarantee for the last model, in a sentence or two."""
    verdict, attempt = judged[-1].verdict, judged[-1].attempt
    if not attempt.accepted or verdict is None:
        tries = "the one candidate" if len(judged) == 1 else f"any of {len(judged)} candidates"
        return f"Not repaired: the judge did not accept {tries}; {attempt.why}."
    if verdict.exact:
        return f"{verdict.statement} The repaired model was counted anew on all of them."
    return (
        f"{verdict.statement} This is attempt {attempt.number}, at delta {attempt.delta:g}; attempts together wrongly "
        f"accept a model with probability at most {spec.guarantee.delta:g}. The search has not seen {sides.on}."
    )


def _notes(
    before: Verdict,
    best: Judged,
    rows: LabelledRows | None,
    held_out: LabelledRows | None,
    sides: Sides,
    plan: Plan,
) -> tuple[str, ...]:
    """Return sentences that a reader should know besides."""
    notes = []
    if best.verdict is not None and not best.verdict.certifiable:
        notes.append(NO_BOUNDS_CERTIFICATE if best.verdict.engine == "bounds" else NO_CERTIFICATE)
    if plan.groups:
        notes.append(USES_GROUP.format(protected=", ".join(plan.spec.protected)))
    added = [new.name for old, new in zip(sides.searched.spec.features, plan.spec.features, strict=True) if old != new]
    if added:
        notes.append(f"The network has a further input, for {', '.join(added)}.")
    if plan.weights is None and best.content is not None and sides.searched.model is not None:
        rule = sides.searched.model.decision
        if rule.kind != "label":
            notes.append(
                f'The output "{rule.output}" is shifted by what the threshold moved, so that it is decided as before; '
                "do not read it as a probability."
            )
    if sides.note:
        notes.append(sides.note)
    if not sides.recheckable and best.verdict is not None and best.verdict.certifiable:
        notes.append(
            "no certificate: it would be about a part of the rows; give rows to judge on as a table of their own: "
            "--held-out (held_out=... in Python)"
        )
    if before.decision is Decision.UNDECIDED:
        notes.append("The original model was UNDECIDED; it was repaired as if it were unfair.")
    if best.attempt.price is not None and best.attempt.price.measure == "agreement":
        notes.append(
            "No labelled rows were given, so agreement with the original model was kept, right or wrong; "
            "give rows with --labelled (labelled=... in Python) to keep accuracy."
        )
    # Nothing in a table distinguishes a copy of a row from another individual with the same values.
    apart = rows is not None and held_out is not None and not held_out.whole
    copies = rows.in_common(held_out) if rows is not None and held_out is not None and apart else 0
    if copies and held_out is not None:
        notes.append(
            f"{copies:,} of the {len(held_out):,} held-out rows equal a row that was searched on; if they are copies "
            "and not other individuals, the price is too favourable."
        )
    return tuple(notes)

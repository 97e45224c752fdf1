"""The entry point of a repair: verify, choose the parameters, search, judge candidates, report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import DataError, SpecError
from fairchain.executors import AnyWorkers, open_workers
from fairchain.explaining import Explanation
from fairchain.models import Limits
from fairchain.models.edit.weights import WeightArray, Weights
from fairchain.prepare import GROUPED_ROWS, Case, case_of, gather, read_question
from fairchain.repairing.change_plan import Plan, Settings, plan_change
from fairchain.repairing.judge import Judge, Judged, candidates_of
from fairchain.repairing.repair_data import (
    LEAST_ROWS,
    OPTIMIZER_SEED,
    REFINE_SEED,
    LabelledRows,
    halves,
    inputs_of,
    labelled_rows_of,
    read_labelled_rows,
    seed_for,
)
from fairchain.repairing.result import FrontPoint, GroupChange, Repair, RepairProgress, TensorChange, WeightChange
from fairchain.repairing.search import Candidate, CandidateTrial, Objective, Searcher, front_of, thinned_front
from fairchain.spec import Individual, Spec, Table
from fairchain.spec.properties import limit_of
from fairchain.spec.validate import refuse_shift
from fairchain.statements import NO_BOUNDS_CERTIFICATE, NO_CERTIFICATE, WITHOUT_CERTIFICATE
from fairchain.statistics import Decision
from fairchain.tables import encode_rows, read_table
from fairchain.verification import verify_case
from fairchain.verification.verdict import Verdict

MOST_ON_FRONT = 40
PART_NOT_CERTIFIED = (
    "no certificate: it would be about a part of the rows; give the rows of the final verification as a separate "
    "table: fairchain repair --held-out (repair(held_out=...) in Python)"
)
# The share of the last attempt must be a valid delta of a verdict.
LEAST_DELTA = 1e-98
# The share of judging rows that may equal a labelled row of a sample by coincidence.
MOST_COMMON = 0.25
# Number of weights of a tensor that are listed.
MOST_LISTED_WEIGHTS = 5
USES_GROUP = (
    "The decision now uses the group: every group of {protected} has its own threshold. This may be unlawful in some "
    "places, and the group must be known for every decision."
)
HELD_OUT_IS_DATA = "held_out: the same rows as data; give others, or leave it out to hold out half of data"
HELD_OUT_WITHOUT_LABELLED = "held_out: the search has no labelled rows; give labelled too"
RECORDED_DECISIONS = (
    "population.prediction: recorded decisions have no model that could be repaired; remove it and name the model: "
    "model.path"
)
JUDGED_ROWS_SEARCHED = (
    "labelled: {common:,} of the {total:,} rows of the final verification equal labelled rows of the search, which "
    "would make the verdict invalid; give no labelled rows (--labelled, labelled=...), and the repair uses the labels "
    "in the table of the spec{named}"
)
LABEL_NOT_IN_SPEC = ', whose column must be named there: label = "..." in [population]'
EQUAL_ROWS = (
    "{common:,} rows of the final verification equal a labelled row; if they are copies, the verdict is not valid."
)
HELD_OUT_IS_POPULATION = "held_out: the same rows as the population; give others, or leave it out to divide the rows"


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
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Change the weights or decision thresholds of a model so that it treats groups alike, and verify the new model.

    Parameters
    ----------
    model, spec, data, population, workers, executor, limits
        As for `verify`. The weights can be changed for networks and linear models. The decision thresholds can be
        changed for every model with a score for two labels.
    labelled
        Labelled rows, on which the repair tries to keep the accuracy: a table with the features and a column of true
        labels. The search uses one half of the rows. The change of the accuracy (the price of the repair) is measured
        on the other half. By default, the true labels of the spec's own table are used. If there are no true labels,
        the repair tries to keep the agreement with the original model.
    held_out
        Labelled rows on which the price is measured. The search then uses all rows of `labelled`. If the spec reads its
        rows as a sample (`as = "sample"`), the search uses the whole sample, and the final verification uses the rows
        of `held_out`. These rows must be drawn from the same population, and must not occur in the sample. Without
        `held_out`, the search uses a random half of the sample, and the final verification uses the other half.
    label
        The column with the true labels; by default the column that the spec names, or a column
        called "label".
    optimizer
        "evolution" (covariance matrix adaptation), or "pso" (the particle swarm and the fitness of the original paper).
    change
        Parameters that may change. Weights: "scales" (a factor for each selected unit), "biases", "last-layer" or
        "low-rank" (the weights of the protected features). Decision thresholds: "threshold" for one threshold, or
        "group-thresholds" for one threshold in each group. With "group-thresholds", the decision uses the group, which
        may be unlawful. "auto" chooses "threshold" for models without weights. For linear models and for networks that
        read texts, it chooses "last-layer", unless the optimizer is "pso". For all other networks, it chooses
        "low-rank" if the network reads the protected features and their weights may change, and "scales" if not. With
        "pso", this rule also applies to linear models and to networks that read texts.
    max_units
        For "scales" and "biases": largest number of selected features and neurons, besides the protected features. The
        units with the largest effects are selected, or with "pso" the units with the largest sensitivities.
    keep_protected
        Whether the weights of the protected features stay unchanged; by default only with the optimizer "pso".
    max_accuracy_loss
        Largest allowed loss x of accuracy, or of agreement if there are no true labels. The search then looks for the
        smallest gap among the candidates that lose at most 0.8 x. The final verification estimates the loss again, and
        refuses a candidate that loses more than x. By default, the search looks for the most accurate fair candidate.
    iterations
        Largest number of generations. The search ends earlier after 10 generations without progress.
    seed
        A chosen seed, instead of the seed in the spec. Without a chosen seed, the seed is derived as for `verify`. The
        same seed leads to the same network, to the last bit.
    progress
        Called after each generation.
    before, explanation
        Results of `verify` and `explain` for the same model and spec, if they exist. They are then not computed again,
        and the given explanation ranks the units. If the search uses only a half of a sample, a new explanation of this
        half ranks the units instead.

    Returns
    -------
    Repair
        The result, with the new model if it was accepted. The final verification uses fresh draws, or rows that the
        search has not used. If the rows are the whole population, all rows are counted, because this count is exact.

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
    with open_workers(workers, executor) as opened:
        return repair_case(
            case,
            settings,
            source=model,
            labelled=labelled,
            held_out=held_out,
            label=label,
            workers=opened,
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
    workers: AnyWorkers = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Repair the model of a case from `prepare`; the options are those of `repair`.

    `source` is the object or name from which the model was loaded; it may have scores besides the labels that the case
    reads.
    """
    start, settings = time.perf_counter(), settings or Settings()
    check_repairable(case.spec)
    if case.rows is not None and case.rows.repeats is not None:
        raise DataError(GROUPED_ROWS.format(source=case.rows.source))
    sampled = isinstance(case.spec.population, Table) and case.spec.population.reading == "sample"
    if held_out is not None and labelled is None and not sampled:
        raise SpecError(HELD_OUT_WITHOUT_LABELLED)
    before = verify_case(case, workers=workers, certify=True) if before is None else before
    if before.stopped == "interrupted":
        raise KeyboardInterrupt
    # A formula can demand a difference between groups; then a constant model is UNFAIR.
    constant = before.constant is not None and before.decision is not Decision.UNFAIR
    if (before.decision is Decision.FAIR or constant) and before.sound:
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
            notes=before.notes if constant else (),
        )
    sides = _sides(case, held_out)
    rows, kept = _labelled(labelled, held_out, label, sides)
    if sampled and labelled is not None:
        # The selection must not depend on rows of the final verification; a few equal ones may be other individuals.
        assert sides.judged.rows is not None
        judged = sides.judged.rows.values
        seen = {row.tobytes() for row in np.asarray(rows.values, np.float64)} if rows is not None else set()
        common = sum(row.tobytes() in seen for row in judged)
        if common > MOST_COMMON * len(judged):
            named = "" if getattr(case.spec.population, "label", None) else LABEL_NOT_IN_SPEC
            raise SpecError(JUDGED_ROWS_SEARCHED.format(common=common, total=len(judged), named=named))
        if common:
            sides = dataclasses.replace(sides, note=f"{sides.note} {EQUAL_ROWS.format(common=common)}")
    # An explanation of all rows of a sample has used the rows of the final verification.
    known = explanation if sides.searched is case else None
    plan = plan_change(sides.searched, settings, source, rows, workers, known)
    return _repaired(sides, plan, settings, rows, kept, workers, progress, before, start)


@dataclass(frozen=True, eq=False)
class Sides:
    """The case of the search and the case of the final verification, with separate inputs.

    `on` describes the inputs of the final verification, and `note` the division of the rows. `recheckable` is whether
    others have these rows.
    """

    searched: Case
    judged: Case
    on: str
    note: str = ""
    recheckable: bool = True


def _sides(case: Case, held_out: Any) -> Sides:
    """Divide the inputs of a case: the search must not use those of the final verification of a sample."""
    population = case.spec.population
    if not isinstance(population, Table):
        return Sides(case, case, "the draws of the final verification")
    assert case.rows is not None
    total = len(case.rows.values)
    if population.reading == "population":
        note = (
            f"The {total:,} rows are the whole population: the search has seen them, and the final count of all of "
            "them is exact. It does not apply to other rows."
        )
        return Sides(case, case, f"all {total:,} rows", note)
    if held_out is None:
        first, second = halves(case)
        sizes = [len(each.rows.values) for each in (first, second) if each.rows is not None]
        if min(sizes) < LEAST_ROWS:
            raise SpecError(
                f"population: {total:,} rows are too few for a search on one half and a verification on the other; "
                "give more rows"
            )
        note = (
            f"The {total:,} rows of the sample were divided at random: {sizes[0]:,} for the search and {sizes[1]:,} "
            "for the final verification."
        )
        return Sides(first, second, f"the {sizes[1]:,} rows of the final verification", note, recheckable=False)
    path = str(held_out) if isinstance(held_out, str | Path) else None
    spec = replace(case.spec, population=replace(population, path=path))
    rows = encode_rows(read_table(held_out), spec)
    if rows.sha256 == case.rows.sha256:
        raise SpecError(HELD_OUT_IS_POPULATION)
    judged = case_of(spec, case.model, rows, function=case.function)
    note = f"The search used all {total:,} rows of the sample; the verdict uses the {len(rows.values):,} others."
    return Sides(case, judged, f"the {len(rows.values):,} held-out rows", note)


def check_repairable(spec: Spec) -> None:
    """Raise a SpecError for a question that cannot be searched or judged."""
    refuse_shift(spec, "a repair")
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
    """Return labelled rows for the search, and others for the price."""
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


def _repaired(
    sides: Sides,
    plan: Plan,
    settings: Settings,
    rows: LabelledRows | None,
    held_out: LabelledRows | None,
    workers: AnyWorkers,
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
    # Accuracy on held-out rows will differ a little, so the search does not use the whole allowed loss.
    lost = None if settings.max_accuracy_loss is None else 0.8 * settings.max_accuracy_loss
    objective = Objective(limit, None if lost is None else trial.score({}).accuracy - lost, settings.paper)
    with open_workers(workers) as opened:
        searcher = Searcher(trial, parameters, plan.base, objective, opened, progress)
        stopped = searcher.run(settings.optimizer, settings.iterations, seed_for(seed, OPTIMIZER_SEED))
        # Measured again on fresh inputs, to remove the selection bias of the search.
        fresh = inputs_of(case, seed_for(seed, REFINE_SEED), plan.refined)
        fine = CandidateTrial(plan.decisions, fresh, rows)
        chosen = thinned_front(front_of(searcher.tried), MOST_ON_FRONT)
        scores = opened.map(fine.score, [parameters.weights(each.point) for each in chosen])
        front = front_of([Candidate(c.point, score, c.change) for c, score in zip(chosen, scores, strict=True)])
    original = fine.score({})
    floor = None if lost is None else original.accuracy - lost
    # The candidates have the plan's spec and the population of the final verification.
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
    """Return the changes for each group, with its thresholds if these changed."""
    if plan.weights is not None:
        return best.groups
    moved = plan.parameters.adjustments(best.candidate.point)
    names = [group.name for group in plan.groups]
    by_name = dict(zip(names, moved, strict=True)) if names else {each.group: moved[0] for each in best.groups}
    return tuple(
        replace(each, threshold_before=by_name[each.group].before, threshold=by_name[each.group].after)
        if each.group in by_name
        else each
        for each in best.groups
    )


def _changes(weights: Weights, new: Mapping[str, WeightArray]) -> tuple[TensorChange, ...]:
    """Return the change of each tensor that differs."""
    found = []
    for name, values in new.items():
        before = weights.values[name]
        after = values.astype(before.dtype)
        move = np.abs(after.astype(np.float64) - before)
        if not move.any():
            continue
        length = float(np.linalg.norm(before.astype(np.float64)))
        order = np.argsort(-move, axis=None, kind="stable")[:MOST_LISTED_WEIGHTS]
        places = [tuple(int(i) for i in np.unravel_index(flat, before.shape)) for flat in order if move.flat[flat]]
        found.append(
            TensorChange(
                tensor=name,
                operator=weights.operator_of(name),
                shape=before.shape,
                changed=int(np.count_nonzero(move)),
                size=before.size,
                # A bias that was added to a layer has no original norm.
                relative=float(np.linalg.norm(move)) / length if length else 1.0,
                largest=tuple(WeightChange(place, float(before[place]), float(after[place])) for place in places),
            )
        )
    return tuple(found)


def _statement(spec: Spec, judged: Sequence[Judged], sides: Sides) -> str:
    """Return the guarantee for the last model, in a sentence or two."""
    verdict, attempt = judged[-1].verdict, judged[-1].attempt
    if not attempt.accepted or verdict is None:
        tries = (
            "the verified candidate was not" if len(judged) == 1 else f"none of {len(judged)} verified candidates was"
        )
        return f"Not repaired: {tries} shown to be fair; {attempt.why}."
    if verdict.exact:
        return f"{verdict.statement} The decisions of the repaired model were counted on all of them."
    return (
        f"{verdict.statement} This is attempt {attempt.number}, at delta {attempt.delta:g}; attempts together wrongly "
        f"accept a model with probability at most {spec.guarantee.delta:g}. The search has not seen {sides.on}."
    )


def _notes(
    before: Verdict, best: Judged, rows: LabelledRows | None, held_out: LabelledRows | None, sides: Sides, plan: Plan
) -> tuple[str, ...]:
    """Return further notes for the reader."""
    notes = []
    if best.verdict is not None and not best.verdict.certifiable:
        if best.verdict.engine == "bounds":
            notes.append(NO_BOUNDS_CERTIFICATE)
        elif not any(WITHOUT_CERTIFICATE in note for note in best.verdict.notes):
            notes.append(NO_CERTIFICATE)
    if plan.groups:
        notes.append(USES_GROUP.format(protected=", ".join(plan.spec.protected)))
    added = [new.name for old, new in zip(sides.searched.spec.features, plan.spec.features, strict=True) if old != new]
    if added:
        notes.append(f"The network has a further input, for {', '.join(added)}.")
    if plan.weights is None and best.content is not None and sides.searched.model is not None:
        rule = sides.searched.model.decision
        if rule.kind != "label":
            notes.append(
                f'The output "{rule.output}" is shifted by the change of the threshold, so the spec stays the same; '
                "do not read it as a probability."
            )
    if sides.note:
        notes.append(sides.note)
    if not sides.recheckable and best.attempt.accepted and best.verdict is not None and best.verdict.certifiable:
        notes.append(PART_NOT_CERTIFIED)
    if before.decision is Decision.UNDECIDED:
        notes.append("The original model was UNDECIDED; it was repaired as if it were unfair.")
    if best.attempt.price is not None and best.attempt.price.measure == "agreement":
        notes.append(
            "Accuracy was not measured, because no labelled rows were given; agreement with the original model was "
            "measured instead. Give rows with --labelled (labelled=... in Python) to keep accuracy."
        )
    # A table does not distinguish a copy of a row from another individual with the same values.
    apart = rows is not None and held_out is not None and not held_out.whole
    copies = rows.in_common(held_out) if rows is not None and held_out is not None and apart else 0
    if copies and held_out is not None:
        notes.append(
            f"{copies:,} of the {len(held_out):,} held-out rows equal a row of the search; if they are copies and "
            "not other individuals, the price is too favourable."
        )
    return tuple(notes)

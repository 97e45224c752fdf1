"""The entry point of a repair: verify, select what may change, search, judge candidates, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import ModelError, SpecError
from fairchain.explaining import Explanation
from fairchain.explaining.explainer import explain_case
from fairchain.explaining.result import Measure
from fairchain.models import Limits, OnnxModel
from fairchain.models.edit.candidates import Tunable, input_means
from fairchain.models.edit.weights import Array, Weights
from fairchain.prepare import Case, case_of, gather, read_question
from fairchain.repairing.judge import Judge, Judged, candidates_of
from fairchain.repairing.optimizers import NAMES
from fairchain.repairing.parameters import (
    CHANGES,
    NamedUnit,
    Parameters,
    Scales,
    last_layer,
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
    derived_seed,
    inputs_of,
    read_labelled_rows,
)
from fairchain.repairing.result import FrontPoint, Repair, RepairProgress, TensorChange, WeightChange
from fairchain.repairing.search import Candidate, CandidateTrial, Objective, Searcher, front_of, spread
from fairchain.spec import Individual, Spec, Table
from fairchain.spec.properties import limit_of
from fairchain.statements import NO_BOUNDS_CERTIFICATE, NO_CERTIFICATE
from fairchain.statistics import Decision
from fairchain.verification import verify_case
from fairchain.verification.sampler import default_workers, thread_pool
from fairchain.verification.verdict import Verdict

# Inputs that each candidate is evaluated on in the search, about, and those on which the front is measured again.
SEARCHED, REFINED = 32_768, 131_072
# The same for texts, which a network reads word by word.
TEXTS, TEXTS_REFINED = 4_096, 16_384
# Labelled rows that each candidate is evaluated on, at most.
MOST_SEARCHED = 8192
MOST_ON_FRONT = 40
# The share of the last attempt must be a delta that a verdict can have.
LEAST_DELTA = 1e-98
# Rows from which the mean signal of a unit is taken.
MEAN_ROWS = 4096
# Rounds of the explanation that ranks units: no verdict depends on it.
RANKING_ROUNDS = 10_000
# Weights of a tensor that are listed.
MOST_LISTED = 5


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
            raise SpecError(
                'change: "low-rank" changes only the weights of the protected features, which keep_protected leaves '
                'as they are; take change = "scales" or "last-layer"'
            )
        if self.max_units < 0 or self.iterations < 0:
            raise SpecError("max_units and iterations: a number below 0; give 0 or more")
        if self.max_accuracy_loss is not None and not 0 <= self.max_accuracy_loss < 1:
            raise SpecError(f"max_accuracy_loss: found {self.max_accuracy_loss:g}; give a share from 0 to below 1")

    @property
    def paper(self) -> bool:
        """Whether to follow the paper: its fitness, no protected feature, no mean kept."""
        return self.optimizer == "pso"

    @property
    def protected_too(self) -> bool:
        """Whether weights of the protected features may change."""
        return not (self.paper if self.keep_protected is None else self.keep_protected)

    def change_of(self, spec: Spec, protected: Sequence[NamedUnit]) -> str:
        """Return what may change, where "auto" depends on the network and its protected units."""
        if self.change != "auto":
            return self.change
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
    """Change the weights of a network so that it treats the groups of a spec alike, and verify that it does.

    Parameters
    ----------
    model, spec, data, population, workers, limits
        As for `verify`; the model must be an ONNX network.
    labelled
        Labelled rows whose accuracy is to be kept: a table with the features and a column of true labels. Half of
        them is held out for the price. Without any, agreement with the original network is kept instead.
    held_out
        Labelled rows for the price; then all of `labelled` is searched on.
    label
        The column with the true labels; by default the spec's, or `label`.
    optimizer
        "evolution" (covariance matrix adaptation), or "pso" (the paper's particle swarm, with the paper's fitness).
    change
        What may change: "scales", "biases", "last-layer" or "low-rank"; "auto" is low-rank where the network reads
        the protected features and their weights may change, the last layer of a network that reads texts, and scales
        elsewhere.
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
        With the network's bytes if it was accepted: verified on fresh draws that the search has not seen.

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
    case = gather(model, question, data=data, population=population, limits=limits)
    return repair_case(
        case,
        settings,
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
    labelled: Any = None,
    held_out: Any = None,
    label: str | None = None,
    workers: int | None = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Repair the network of a case as `prepare` makes it.

    Parameters
    ----------
    case, settings
        The case, and the options of the search.
    labelled, held_out, label, workers, progress, before, explanation
        As for `repair`.
    """
    start, settings = time.perf_counter(), settings or Settings()
    check_repairable(case.spec)
    if not isinstance(case.model, OnnxModel):
        assert case.model is not None
        note = case.model.note or "is Python code"
        raise ModelError(f"{case.model.name}: {note}; only an ONNX network can be repaired")
    if held_out is not None and labelled is None:
        raise SpecError("held_out: labelled rows to judge on, and none to search on; give labelled too")
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
    rows, kept = _labelled(labelled, held_out, label, case)
    return _repaired(case, case.model, settings, rows, kept, workers, progress, before, explanation, start)


def check_repairable(spec: Spec) -> None:
    """Raise a SpecError for a question that cannot be searched on and judged on."""
    table = spec.population if isinstance(spec.population, Table) else None
    if table is not None and table.prediction is not None:
        raise SpecError(
            "population.prediction: recorded decisions have no network that could be repaired; remove it and name the "
            "network: model.path"
        )
    if table is not None and table.reading == "sample":
        raise SpecError(
            "population.as: a sample can be tested only once, and cannot be both searched on and judged on; repair "
            'with "population", or draw inputs: kind = "marginals", and verify the result on other rows'
        )
    if table is not None and isinstance(spec.property, Individual):
        raise SpecError(
            'property.kind: "individual" cannot be repaired on rows of a table; draw inputs: kind = "uniform" or '
            '"marginals" in [population]'
        )
    if spec.guarantee.delta < LEAST_DELTA:
        raise SpecError(f"guarantee.delta: attempts share it, so a repair needs at least {LEAST_DELTA:g}")


def _labelled(
    data: Any, held_out: Any, label: str | None, case: Case
) -> tuple[LabelledRows | None, LabelledRows | None]:
    """Return labelled rows to search on, and others for the price."""
    if data is None:
        return None, None
    searched = read_labelled_rows(data, case.spec, label)
    if held_out is None:
        searched, kept = searched.split(case.seed.value)
    else:
        kept = read_labelled_rows(held_out, case.spec, label)
        if len(searched) == len(kept) == searched.in_common(kept) == kept.in_common(searched):
            raise SpecError("held_out: the same rows as data; give others, or leave it out to hold out half of data")
        searched = searched.shuffled(case.seed.value)
    if min(len(searched), len(kept)) < LEAST_ROWS:
        raise SpecError(f"data: fewer than {LEAST_ROWS} labelled rows on one side; give more, or none")
    return searched, kept


def _repaired(
    case: Case,
    model: OnnxModel,
    settings: Settings,
    rows: LabelledRows | None,
    held_out: LabelledRows | None,
    workers: int | None,
    progress: Callable[[RepairProgress], None] | None,
    before: Verdict,
    explanation: Explanation | None,
    start: float,
) -> Repair:
    """Search, measure the front again, judge, and return the result."""
    spec, seed, limit = case.spec, case.seed.value, float(limit_of(case.spec))
    weights = Weights(model)
    protected = protected_units(spec, weights)
    change = settings.change_of(spec, protected)
    # Texts are read anew for every candidate, unless only the last layer changes.
    slow = spec.text is not None and settings.change_of(spec, ()) != "last-layer"
    inputs = inputs_of(case, derived_seed(seed, SEARCH), TEXTS if slow else SEARCHED)
    shown = rows.values if rows is not None else inputs.values
    # Rows from all over: drawn inputs come group after group.
    some = shown[:: max(1, len(shown) // MEAN_ROWS)]
    means = input_means(model, weights.blocks, some.astype(model.dtype))

    def ranked() -> list[NamedUnit]:
        return _ranked(case, settings, weights, explanation, workers)

    parameters = _parameters(change, settings, model.name, weights, protected, means, ranked)
    network = Tunable(model, weights, parameters.tensors)
    # A candidate that differs only in the last layer is cheap to score on more rows.
    most = MOST_SEARCHED * (4 if change == "last-layer" else 1)
    searched = rows.part(np.arange(min(len(rows), most))) if rows is not None else None
    trial = CandidateTrial(network, inputs, searched)
    # Held-out rows will differ a little from the searched ones, so not all of the allowed loss is spent.
    lost = None if settings.max_accuracy_loss is None else 0.8 * settings.max_accuracy_loss
    objective = Objective(limit, None if lost is None else trial.score({}).accuracy - lost, settings.paper)
    with thread_pool(workers or default_workers()) as pool:
        searcher = Searcher(trial, parameters, weights, objective, pool, progress)
        stopped = searcher.run(settings.optimizer, settings.iterations, derived_seed(seed, OPTIMIZER))
        # Measured again on fresh inputs: a candidate that won by chance falls back.
        fresh = inputs_of(case, derived_seed(seed, REFINE), TEXTS_REFINED if slow else REFINED)
        fine = CandidateTrial(network, fresh, rows)
        chosen = spread(front_of(searcher.tried), MOST_ON_FRONT)
        scores = (pool.map if pool else map)(lambda each: fine.score(parameters.weights(each.point)), chosen)
        front = front_of([Candidate(c.point, score, c.change) for c, score in zip(chosen, scores, strict=True)])
    original = fine.score({})
    floor = None if lost is None else original.accuracy - lost
    judge = Judge(weights, case, held_out, settings.max_accuracy_loss, workers)
    judged = judge.all(candidates_of(front, limit, floor), parameters)
    accepted = judged[-1].attempt.accepted
    best = judged[-1] if accepted else min(judged, key=lambda each: each.gap_high)
    point = best.candidate.point
    return Repair(
        accepted=accepted,
        needed=True,
        before=before,
        after=best.verdict,
        original=FrontPoint(original.gap, original.accuracy, 0.0),
        front=tuple(FrontPoint(c.score.gap, c.score.accuracy, c.change, c is best.candidate) for c in front),
        adjustments=parameters.adjustments(point),
        changes=_changes(weights, parameters.weights(point)),
        price=best.attempt.price,
        attempts=tuple(each.attempt for each in judged),
        optimizer=settings.optimizer,
        change=change,
        seed=seed,
        iterations=searcher.iterations,
        candidates=len(searcher.tried),
        evaluations=len(searcher.tried) * trial.inputs + len(front) * fine.inputs,
        stopped=stopped,
        seconds=time.perf_counter() - start,
        statement=_statement(spec, judged),
        notes=_notes(before, best, rows, held_out),
        content=best.content,
    )


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
        seed = derived_seed(case.seed.value, SEARCH, 1)
        spec = replace(case.spec, guarantee=replace(case.spec.guarantee, seed=seed))
        try:
            seeded = case_of(spec, case.model, case.rows, function=case.function)
            explanation = explain_case(seeded, rounds=RANKING_ROUNDS, workers=workers)
        except SpecError as error:
            raise SpecError(
                f"units cannot be ranked: {error}; do without: --max-units 0 (max_units=0 in Python)"
            ) from None
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


def _statement(spec: Spec, judged: Sequence[Judged]) -> str:
    """Return the guarantee for the last network, in a sentence or two."""
    verdict, attempt = judged[-1].verdict, judged[-1].attempt
    if not attempt.accepted or verdict is None:
        tries = "the one candidate" if len(judged) == 1 else f"any of {len(judged)} candidates"
        return f"Not repaired: the judge did not accept {tries}; {attempt.why}."
    if verdict.exact:
        return f"{verdict.statement} The saved network was counted anew on all of them."
    return (
        f"{verdict.statement} This is attempt {attempt.number}, at delta {attempt.delta:g}; attempts together wrongly "
        f"accept a network with probability at most {spec.guarantee.delta:g}. The search has not seen the draws on "
        "which the network was judged."
    )


def _notes(before: Verdict, best: Judged, rows: LabelledRows | None, held_out: LabelledRows | None) -> tuple[str, ...]:
    """Return sentences that a reader should know besides."""
    notes = []
    if best.verdict is not None and not best.verdict.certifiable:
        notes.append(NO_BOUNDS_CERTIFICATE if best.verdict.engine == "bounds" else NO_CERTIFICATE)
    if before.decision is Decision.UNDECIDED:
        notes.append("The original network was UNDECIDED; it was repaired as if it were unfair.")
    if best.attempt.price is not None and best.attempt.price.measure == "agreement":
        notes.append(
            "No labelled rows were given, so agreement with the original network was kept, right or wrong; "
            "give rows with --labelled (labelled=... in Python) to keep accuracy."
        )
    # Nothing in a table distinguishes a copy of a row from another individual with the same values.
    copies = rows.in_common(held_out) if rows is not None and held_out is not None else 0
    if copies and held_out is not None:
        notes.append(
            f"{copies:,} of the {len(held_out):,} held-out rows equal a row that was searched on; if they are copies "
            "and not other individuals, the price is too favourable."
        )
    return tuple(notes)

"""The front door of a repair: verify, choose what may change, search, put candidates before the judge, report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairchain.errors import ModelError, SpecError
from fairchain.explaining import Explanation
from fairchain.models import Limits, OnnxModel
from fairchain.models.edit.candidates import Tunable, input_means
from fairchain.models.edit.weights import Array, Weights
from fairchain.prepare import Case, gather, read_question
from fairchain.repairing.evaluation import CandidateTrial, LabelledRows, inputs_of
from fairchain.repairing.judge import Judge, Judged, candidates_of
from fairchain.repairing.labelled_rows import LEAST_ROWS, MOST_SEARCHED, divided, in_common, labelled_rows, shuffled
from fairchain.repairing.parameters import NamedUnit, Parameters, Scales, last_layer, low_rank, unit_biases
from fairchain.repairing.result import FrontPoint, Repair, RepairProgress
from fairchain.repairing.search import Aim, Found, Searcher, Tried, front_of, spread
from fairchain.repairing.seeds import OPTIMIZER, REFINE, SEARCH, derived_seed
from fairchain.repairing.settings import Settings
from fairchain.repairing.summary import changes_of, statement_of
from fairchain.repairing.unit_choice import protected_units, ranked_units
from fairchain.spec import Individual, Spec, Table
from fairchain.spec.properties import limit_of
from fairchain.statements import NO_CERTIFICATE
from fairchain.statistics import Decision
from fairchain.verification import verify_case
from fairchain.verification.sampler import default_workers, thread_pool
from fairchain.verification.verdict import Verdict

# Inputs that a candidate is shown in the search, about, and those on which the front is measured again.
SEARCHED, REFINED = 32_768, 131_072
# The same for texts, which go through a network word by word.
TEXTS, TEXTS_REFINED = 4_096, 16_384
MOST_ON_FRONT = 40
# The last attempt's share of it must be one that a verdict can have.
LEAST_DELTA = 1e-98
# LabelledRows from which the mean signal of a unit is taken.
MEAN_ROWS = 4096


def repair(
    model: Any,
    spec: Spec | str | Path,
    *,
    data: Any = None,
    held_out: Any = None,
    label: str | None = None,
    optimizer: str = "evolution",
    change: str = "auto",
    units: int = 10,
    keep_protected: bool | None = None,
    max_accuracy_loss: float | None = None,
    iterations: int = 100,
    table: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[RepairProgress], None] | None = None,
    before: Verdict | None = None,
    explanation: Explanation | None = None,
) -> Repair:
    """Change the weights of a network so that it treats the groups of a spec alike, and prove that it does.

    Parameters
    ----------
    model, spec, table, population, workers, limits
        As for `verify`; the network must be one that ONNX can hold.
    data
        Labelled rows whose accuracy is to be kept: a table with the features and a column of true labels. Half of
        them is kept aside for the price. Without any, agreement with the original network is kept instead.
    held_out
        Labelled rows for the price; then all of `data` is searched on.
    label
        The column with the true labels; by default the spec's, or `label`.
    optimizer
        "evolution" (covariance matrix adaptation), or "pso" (the paper's particle swarm, with the paper's fitness).
    change
        What may change: "scales", "biases", "last-layer" or "low-rank"; "auto" is low-rank where the network gets the
        protected features and may change what it makes of them, the last layer of a network that reads texts, and
        scales elsewhere.
    units
        How many features and neurons, those that `explain` ranks first, may change besides the protected features.
    keep_protected
        Leave the weights of the protected features as they are.
    max_accuracy_loss
        Of all candidates take the fairest that loses no more than this, measured on the rows kept aside. By default
        the most accurate that is fair.
    iterations
        Generations, at most; the search ends after 10 without progress.
    seed
        A chosen seed, instead of the spec's; without one it is derived as for `verify`. The same seed gives the same
        network to the last bit.
    progress
        Called after each generation.
    before, explanation
        What `verify` and `explain` returned for the same model and spec, if that is known; then it is not computed
        again, and units are ranked by that explanation.

    Returns
    -------
    Repair
        With the network's bytes if it was accepted: verified on fresh draws that the search knows nothing of.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> result = repair(None, example("credit"), change="scales", units=0, iterations=1)
    >>> result.accepted, result.before.decision.name, result.after.decision.name
    (True, 'UNFAIR', 'FAIR')
    """
    settings = Settings(optimizer, change, units, keep_protected, max_accuracy_loss, iterations)
    start = time.perf_counter()
    asked = read_question(spec, guarantee__seed=seed)
    _must_be_possible(asked, data, held_out, named=model is not None)
    case = gather(model, asked, table=table, population=population, limits=limits)
    network = case.model
    if not isinstance(network, OnnxModel):
        assert network is not None
        raise ModelError(f"{network.name}: {network.note or 'is Python code'}; only an ONNX network can be repaired")
    before = verify_case(case, workers=workers) if before is None else before
    if before.stopped == "interrupted":
        raise KeyboardInterrupt
    if (before.decision is Decision.FAIR or before.constant is not None) and before.sound:
        return _not_needed(before, settings, case.seed.value, start)
    job = _Job(network, case, settings, workers, explanation, progress)
    return job.run(before, *_rows(data, held_out, label, case.spec, case.seed.value), start)


def _must_be_possible(spec: Spec, data: Any, held_out: Any, *, named: bool) -> None:
    if spec.model.path is None and isinstance(spec.population, Table) and spec.population.prediction is not None:
        raise SpecError("population.prediction: recorded decisions have no weights; name the network: model.path")
    if spec.model.path is None and not named:
        raise SpecError('model.path: missing; name the network\'s file, for example path = "model.onnx"')
    if isinstance(spec.population, Table) and spec.population.reading == "sample":
        raise SpecError(
            "population.as: a sample is used up by one look, and cannot be both searched on and judged on; repair with "
            '"population", or draw people: kind = "marginals", and verify the result on other rows'
        )
    if isinstance(spec.population, Table) and isinstance(spec.property, Individual):
        raise SpecError(
            'property.kind: "individual" cannot be repaired on rows of a table; draw people: kind = "uniform" or '
            '"marginals" in [population]'
        )
    if spec.guarantee.delta < LEAST_DELTA:
        raise SpecError(f"guarantee.delta: attempts share it, so a repair needs at least {LEAST_DELTA:g}")
    if held_out is not None and data is None:
        raise SpecError("held_out: labelled rows to judge on, and none to search on; give data too")


def _rows(
    data: Any, held_out: Any, label: str | None, spec: Spec, seed: int
) -> tuple[LabelledRows | None, LabelledRows | None]:
    """Labelled rows to search on, and others for the price."""
    if data is None:
        return None, None
    searched = labelled_rows(data, spec, label)
    if held_out is None:
        searched, kept = divided(searched, seed)
    else:
        kept = labelled_rows(held_out, spec, label)
        if len(searched) == len(kept) == in_common(searched, kept) == in_common(kept, searched):
            raise SpecError("held_out: the same rows as data; give others, or leave it out and half of data is kept")
        searched = shuffled(searched, seed)
    if min(len(searched), len(kept)) < LEAST_ROWS:
        raise SpecError(f"data: fewer than {LEAST_ROWS} labelled rows on one side; give more, or none")
    return searched, kept


@dataclass(frozen=True)
class _Job:
    """One repair, from the verdict to the result."""

    network: OnnxModel
    case: Case
    settings: Settings
    workers: int | None
    explanation: Explanation | None
    progress: Callable[[RepairProgress], None] | None

    @property
    def spec(self) -> Spec:
        return self.case.spec

    @property
    def seed(self) -> int:
        return self.case.seed.value

    def run(self, before: Verdict, rows: LabelledRows | None, held_out: LabelledRows | None, start: float) -> Repair:
        settings, limit = self.settings, float(limit_of(self.spec))
        weights = Weights(self.network)
        inputs = inputs_of(self.case, derived_seed(self.seed, SEARCH), self._count(SEARCHED, TEXTS))
        shown = rows.values if rows is not None else inputs.values
        means = input_means(self.network, weights.blocks, _some(shown).astype(self.network.dtype))
        knobs = self._knobs(weights, means)
        network = Tunable(self.network, weights, knobs.tensors)
        # What only the last layer decides is cheap to try on more rows.
        most = MOST_SEARCHED * (4 if self._change(protected_units(self.spec, weights)) == "last-layer" else 1)
        searched = rows.part(np.arange(min(len(rows), most))) if rows is not None else None
        trial = CandidateTrial(network, inputs, searched)
        original = trial.score({})
        # What rows kept aside will show differs a little from what the search sees, so not all of it is spent.
        lost = None if settings.max_accuracy_loss is None else 0.8 * settings.max_accuracy_loss
        aim = Aim(limit, None if lost is None else original.accuracy - lost, settings.paper)
        with thread_pool(self.workers or default_workers()) as pool:
            searcher = Searcher(trial, knobs, weights, aim, pool, self.progress)
            found = searcher.run(settings.optimizer, settings.iterations, derived_seed(self.seed, OPTIMIZER))
            fine = CandidateTrial(network, self._refined(), rows)
            front = self._measured_again(found, fine, knobs, pool)
        as_it_was = fine.score({})
        floor = None if lost is None else as_it_was.accuracy - lost
        judge = Judge(
            self.network,
            weights,
            self.case,
            held_out,
            settings.max_accuracy_loss,
            self.seed,
            self.workers,
        )
        judged = judge.all(candidates_of(front, limit, floor), knobs)
        evaluations = len(found.tried) * trial.inputs + len(front) * fine.inputs
        result = self._result(before, found, front, judged, knobs, weights, evaluations, start)
        notes = (*result.notes, *_copies(rows, held_out))
        return replace(result, original=FrontPoint(as_it_was.gap, as_it_was.accuracy, 0.0), notes=notes)

    def _count(self, people: int, texts: int) -> int:
        """Texts are read anew for every candidate, unless only the last layer changes."""
        return texts if self.spec.text is not None and self._change([]) != "last-layer" else people

    def _refined(self) -> Any:
        seed = derived_seed(self.seed, REFINE)
        return inputs_of(self.case, seed, self._count(REFINED, TEXTS_REFINED))

    def _change(self, protected: list[NamedUnit]) -> str:
        if self.settings.change != "auto":
            return self.settings.change
        if protected and self.settings.protected_too:
            return "low-rank"
        # Of a text network the last layer alone can be tried without reading the texts again.
        return "scales" if self.spec.text is None or self.settings.paper else "last-layer"

    def _knobs(self, weights: Weights, means: dict[str, Array]) -> Parameters:
        """What may change, or an error that says why nothing can."""
        settings = self.settings
        protected = protected_units(self.spec, weights)
        change = self._change(protected)
        if change == "last-layer":
            return last_layer(weights)
        if change == "low-rank":
            if not protected:
                raise ModelError(
                    f"{self.network.name}: the weights of the protected features cannot be told, so there is no "
                    'low-rank change; take change = "scales" or "last-layer"'
                )
            return low_rank(weights, protected, means)
        ranked = ranked_units(
            self.case,
            weights,
            settings.units,
            measure="sensitivity" if settings.paper else "effect",
            seed=derived_seed(self.seed, SEARCH, 1),
            workers=self.workers,
            explanation=self.explanation,
        )
        if change == "biases":
            shifts = unit_biases(weights, ranked)
            if not shifts.places:
                raise ModelError(f'{self.network.name}: has no bias to move; take change = "scales" or "last-layer"')
            return shifts
        units = [*(protected if settings.protected_too else ()), *ranked]
        if not units:
            raise ModelError(
                f"{self.network.name}: no unit whose outgoing weights could be scaled; allow more with units, "
                'or take change = "last-layer"'
            )
        return Scales(weights, units, None if settings.paper else means)

    def _measured_again(self, found: Found, trial: CandidateTrial, knobs: Parameters, pool: Any) -> list[Tried]:
        """The front by fresh inputs: what won by luck of the first ones falls back."""
        chosen = spread(front_of(found.tried), MOST_ON_FRONT)
        scores = (pool.map if pool else map)(lambda each: trial.score(knobs.weights(each.point)), chosen)
        return front_of([Tried(t.point, score, t.change) for t, score in zip(chosen, scores, strict=True)])

    def _result(
        self,
        before: Verdict,
        found: Found,
        front: list[Tried],
        judged: list[Judged],
        knobs: Parameters,
        weights: Weights,
        evaluations: int,
        start: float,
    ) -> Repair:
        accepted = judged[-1].attempt.accepted
        best = judged[-1] if accepted else min(judged, key=_widest)
        point = best.tried.point
        return Repair(
            accepted=accepted,
            needed=True,
            before=before,
            after=best.verdict,
            original=None,
            front=tuple(FrontPoint(t.score.gap, t.score.accuracy, t.change, chosen=t is best.tried) for t in front),
            adjustments=knobs.adjustments(point),
            changes=changes_of(weights, knobs.weights(point)),
            price=best.attempt.price,
            attempts=tuple(each.attempt for each in judged),
            optimizer=self.settings.optimizer,
            change=self._change(protected_units(self.spec, weights)),
            seed=self.seed,
            iterations=found.iterations,
            candidates=len(found.tried),
            evaluations=evaluations,
            stopped=found.stopped,
            seconds=time.perf_counter() - start,
            statement=statement_of(self.spec, judged, accepted),
            notes=self._notes(before, best),
            content=best.content,
        )

    def _notes(self, before: Verdict, best: Judged) -> tuple[str, ...]:
        notes = [] if best.verdict is None or best.verdict.certifiable else [NO_CERTIFICATE]
        if before.decision is Decision.UNDECIDED:
            notes.append("The original network was not decided; it was repaired as if it were unfair.")
        if best.attempt.price is not None and best.attempt.price.measure == "agreement":
            notes.append(
                "No labelled rows were given, so agreement with the original network was kept, right or wrong; "
                "give rows with --labelled (data=... in Python) to keep accuracy."
            )
        return tuple(notes)


def _widest(judged: Judged) -> float:
    """How large the gap of a candidate may be at most."""
    return judged.verdict.gap.high if judged.verdict is not None else math.inf


def _copies(rows: LabelledRows | None, held_out: LabelledRows | None) -> tuple[str, ...]:
    """A table may hold somebody twice, and nothing in it tells that from two people who are alike."""
    copies = in_common(rows, held_out) if rows is not None and held_out is not None else 0
    if not copies or held_out is None:
        return ()
    return (
        f"{copies:,} of the {len(held_out):,} held-out rows equal a row that was searched on; if they are copies and "
        "not others that are alike, the price is too favourable.",
    )


def _some(values: Any) -> Any:
    """Rows from all over: drawn inputs stand group after group."""
    return values[:: max(1, len(values) // MEAN_ROWS)]


def _not_needed(before: Verdict, settings: Settings, seed: int, start: float) -> Repair:
    return Repair(
        accepted=False,
        needed=False,
        before=before,
        after=None,
        original=None,
        front=(),
        adjustments=(),
        changes=(),
        price=None,
        attempts=(),
        optimizer=settings.optimizer,
        change=settings.change,
        seed=seed,
        iterations=0,
        candidates=0,
        evaluations=0,
        stopped="not needed",
        seconds=time.perf_counter() - start,
        statement=f"Nothing to repair: {before.statement}",
        notes=before.notes if before.constant is not None else (),
    )

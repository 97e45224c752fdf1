"""Plan of a repair: the weights or thresholds that may change, the inputs on which candidates are scored, and the
options.

The search is in `search`, and the final verification of its candidates in `judge`; `repairer` calls all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import ModelError, SpecError
from fairchain.executors import AnyWorkers
from fairchain.explaining import Explanation
from fairchain.explaining.explainer import explain_case
from fairchain.explaining.result import EffectMeasure
from fairchain.messages import unknown
from fairchain.models import OnnxModel
from fairchain.models.edit.candidates import Tunable, input_means
from fairchain.models.edit.weights import WeightArray, Weights, with_dense_layers
from fairchain.prepare import Case, case_of, with_network
from fairchain.repairing.judge import WeightEdits
from fairchain.repairing.parameters import (
    CHANGEABLE,
    NamedUnit,
    Parameters,
    Scales,
    ThresholdParameters,
    last_layer,
    linear_layer,
    low_rank,
    protected_units,
    ranked_units,
    unit_biases,
)
from fairchain.repairing.repair_data import SEARCH_SEED, LabelledRows, SearchInputs, inputs_of, seed_for
from fairchain.repairing.search import OPTIMIZERS
from fairchain.repairing.thresholds import (
    ThresholdDecisions,
    ThresholdEdits,
    check_threshold_groups,
    score_reader,
    threshold_places,
)
from fairchain.spec import Group, Spec

# Approximate number of inputs on which each candidate is evaluated in the search, and on which the front is measured
# again.
SEARCHED, REFINED = 32_768, 131_072
# The same for texts, which a network reads word by word.
TEXTS, TEXTS_REFINED = 4_096, 16_384
# The same for a model that is evaluated in Python, whose scores are computed once.
IN_PYTHON, IN_PYTHON_REFINED = 8_192, 32_768
# Largest number of labelled rows on which each candidate is evaluated.
MOST_SEARCHED = 8192
# Rows over which the mean signal of a unit is computed.
MEAN_ROWS = 4096
# Rounds of the explanation that ranks units: no verdict depends on it.
RANKING_ROUNDS = 10_000
THRESHOLD, GROUP_THRESHOLDS = "threshold", "group-thresholds"
UNITS_CANNOT_BE_RANKED = "units cannot be ranked: {error}; repair without units: --max-units 0 (max_units=0 in Python)"
BAD_ACCURACY_LOSS = "max_accuracy_loss: found {max_accuracy_loss:g}; give a share from 0 to below 1"
LOW_RANK_KEEPS_NOTHING = (
    'change: "low-rank" changes only the weights of the protected features, which keep_protected leaves unchanged; '
    'use change = "scales" or "last-layer"'
)
CHANGE_THRESHOLDS_INSTEAD = '{error}; take change = "{threshold}" or "{group_thresholds}"'
NO_WEIGHTS_IN_PYTHON = (
    '{name}: is evaluated in Python, and has no weights that could be changed; take change = "{threshold}" or '
    '"{group_thresholds}"{value}'
)


@dataclass(frozen=True)
class Settings:
    """Options of a search: the optimiser, the weights that may change, and the allowed loss."""

    optimizer: str = "evolution"
    change: str = "auto"
    max_units: int = 10
    keep_protected: bool | None = None
    max_accuracy_loss: float | None = None
    iterations: int = 100

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise SpecError(f"optimizer: {unknown('name', self.optimizer, OPTIMIZERS)}")
        if self.change not in CHANGEABLE:
            raise SpecError(f"change: {unknown('name', self.change, CHANGEABLE)}")
        if self.change == "low-rank" and self.keep_protected:
            raise SpecError(LOW_RANK_KEEPS_NOTHING)
        if self.max_units < 0 or self.iterations < 0:
            raise SpecError("max_units and iterations: a number below 0; give 0 or more")
        if self.max_accuracy_loss is not None and not 0 <= self.max_accuracy_loss < 1:
            raise SpecError(BAD_ACCURACY_LOSS.format(max_accuracy_loss=self.max_accuracy_loss))

    @property
    def paper(self) -> bool:
        """Whether to follow the paper: its fitness, no change of protected features, means not kept."""
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
        """Return the kind of change; "auto" is resolved by the network and its protected units."""
        if self.change != "auto":
            return self.change
        if len(weights.blocks) == 1 and not self.paper:
            # A linear model has few weights.
            return "last-layer"
        if protected and self.protected_too:
            return "low-rank"
        # For a text network, only changes of the last layer can be scored without reading the texts again.
        return "scales" if spec.text is None or self.paper else "last-layer"


@dataclass(frozen=True, eq=False)
class Plan:
    """The parameters of a search, the scoring of candidates, and the construction of their models."""

    change: str
    parameters: Parameters
    base: Mapping[str, WeightArray]  # the arrays of the original that the parameters change
    decisions: Tunable | ThresholdDecisions  # of candidates, for scoring
    edits: WeightEdits | ThresholdEdits  # constructor of a candidate's model, for judging
    inputs: SearchInputs
    refined: int  # number of inputs on which the front is measured again
    spec: Spec  # of the candidates
    most_rows: int | None  # labelled rows on which each candidate is scored; None for all
    weights: Weights | None = None  # of the network; None if thresholds change
    groups: tuple[Group, ...] = ()  # those that have their own thresholds


def plan_change(
    case: Case,
    settings: Settings,
    source: Any,
    rows: LabelledRows | None,
    workers: AnyWorkers,
    explanation: Explanation | None,
) -> Plan:
    """Plan a change of weights or, for models without weights, of thresholds."""
    if settings.thresholds:
        return _threshold_plan(case, settings.change, source)
    case = with_network(case)
    model = case.model
    assert model is not None
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
                CHANGE_THRESHOLDS_INSTEAD.format(error=error, threshold=THRESHOLD, group_thresholds=GROUP_THRESHOLDS)
            ) from None
        return _threshold_plan(case, THRESHOLD, source)
    return _weight_plan(case, dense, weights, settings, rows, workers, explanation)


def _weight_plan(
    case: Case,
    model: OnnxModel,
    weights: Weights,
    settings: Settings,
    rows: LabelledRows | None,
    workers: AnyWorkers,
    explanation: Explanation | None,
) -> Plan:
    """Plan a change of weights."""
    spec, seed = case.spec, case.seed.value
    protected = protected_units(spec, weights)
    change = settings.change_of(spec, protected, weights)
    # Texts are read again for every candidate, unless only the last layer changes.
    slow = spec.text is not None and change != "last-layer"
    inputs = inputs_of(case, seed_for(seed, SEARCH_SEED), TEXTS if slow else SEARCHED)
    shown = rows.values if rows is not None else inputs.values
    # Evenly spaced rows: drawn inputs are ordered by group.
    some = shown[:: max(1, len(shown) // MEAN_ROWS)]
    means = input_means(model, weights.blocks, some.astype(model.dtype))

    def ranked() -> list[NamedUnit]:
        """Return the units that an explanation ranks first: the given explanation, or one with a separate seed."""
        if not settings.max_units:
            return []
        found = explanation
        if found is None:
            guarantee = replace(spec.guarantee, seed=seed_for(seed, SEARCH_SEED, 1))
            try:
                seeded = case_of(replace(spec, guarantee=guarantee), case.model, case.rows, function=case.function)
                found = explain_case(seeded, rounds=RANKING_ROUNDS, workers=workers)
            except SpecError as error:
                raise SpecError(UNITS_CANNOT_BE_RANKED.format(error=error)) from None
        measure: EffectMeasure = "sensitivity" if settings.paper else "effect"
        return ranked_units(found, spec, weights, settings.max_units, measure)

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
        check_threshold_groups(spec)
    network = isinstance(model, OnnxModel)
    sizes = (TEXTS, TEXTS_REFINED) if spec.text is not None else (IN_PYTHON, IN_PYTHON_REFINED)
    searched, refined = (SEARCHED, REFINED) if network and spec.text is None else sizes
    inputs = inputs_of(case, seed_for(case.seed.value, SEARCH_SEED), searched)
    limits = model.limits if isinstance(model, OnnxModel) else None
    reader = score_reader(case, source, inputs.values, limits)
    scores, places = reader(inputs.values), threshold_places(spec, groups, inputs.values)
    counted = np.ones(len(scores), bool)
    if case.population is None and case.rows is not None:
        # Rows that count in the compared rates; with equal opportunity, those of one true label.
        assert case.concerned is not None
        counted &= case.concerned
        truths = {subgroup.truth for subgroup in case.comparison.subgroups if subgroup.truth is not None}
        if truths and case.rows.truth is not None:
            counted &= np.isin(case.rows.truth, list(truths))
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


def _parameters(
    change: str,
    settings: Settings,
    name: str,
    weights: Weights,
    protected: list[NamedUnit],
    means: dict[str, WeightArray],
    ranked: Callable[[], list[NamedUnit]],
) -> Parameters:
    """Return the parameters that may change, or raise an error if none can; units are ranked only if needed."""
    if change == "last-layer":
        if len(weights.blocks) == 1:
            return linear_layer(weights, protected, means, protected_too=settings.protected_too)
        return last_layer(weights)
    if change == "low-rank":
        if not protected:
            raise ModelError(
                f'{name}: the weights of the protected features are unknown, so change = "low-rank" is impossible; '
                'use change = "scales" or "last-layer"'
            )
        return low_rank(weights, protected, means)
    if change == "biases":
        shifts = unit_biases(weights, ranked())
        if not shifts.places:
            raise ModelError(f'{name}: has no bias to change; use change = "scales" or "last-layer"')
        return shifts
    units = [*(protected if settings.protected_too else ()), *ranked()]
    if not units:
        raise ModelError(
            f"{name}: has no unit whose outgoing weights could be scaled; allow more with max_units, or take "
            'change = "last-layer"'
        )
    return Scales(weights, units, None if settings.paper else means)

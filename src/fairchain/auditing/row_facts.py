"""Facts about the rows of each group beside the verdict: labelled rows, accuracy, scores, and rows not compared.

All facts are counted on the given rows, and only if this is cheap: with recorded decisions or an ONNX network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.number_format import share
from fairchain.prepare import Case, group_masks
from fairchain.repairing.judge import predicted
from fairchain.repairing.repair_data import LabelledRows
from fairchain.repairing.thresholds import score_reader
from fairchain.report.selection_table import GroupFacts, RowFacts, RowsLeftOut
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, Marginals, RealFeature, Spec, Table, TextFeature
from fairchain.spec.groups import groups_of

Mask = NDArray[np.bool_]
NO_GROUP, NO_VALUE = "in no compared category", "a value is missing"


def described_feature(feature: Feature | TextFeature) -> tuple[str, str, str]:
    """Return the name, the kind and the range of a feature, for the report, with the meaning of codes."""
    if isinstance(feature, CategoryFeature):
        return feature.name, "category", ", ".join(str(value) for value in feature.values)
    if isinstance(feature, IntegerFeature | RealFeature):
        step = "" if feature.step is None else f"; the model gets steps of {feature.step:g}"
        kind = "integer" if isinstance(feature, IntegerFeature) else "real"
        meant = "".join(f"; {code:g} is {name}" for code, name in code_names(feature).items())
        return feature.name, kind, f"{feature.low:g} to {feature.high:g}{step}{meant}"
    return feature.name, "text", ""


def code_names(feature: Feature | TextFeature) -> dict[float, str]:
    """Return the meaning of the codes of a number, if the spec names each value: 1 is 10-19."""
    if not isinstance(feature, IntegerFeature | RealFeature):
        return {}
    named = {name: code for name, code in feature.groups.items() if isinstance(code, int | float)}
    return {float(code): name for name, code in named.items() if name != f"{code:g}"}


def described_decision(spec: Spec) -> str:
    """Return the mapping from scores to decisions, if the spec states a decision threshold; otherwise an empty text."""
    model = spec.model
    if model.decision_threshold is None:
        return ""
    read, other = f"{model.labels[1]!r}", f"{model.labels[0]!r}"
    return f"A {model.decision or 'score'} above {model.decision_threshold:g} is read as {read}, any other as {other}."


def row_facts(case: Case, labelled: LabelledRows | None, source: Any = None) -> RowFacts:
    """Return the facts about the groups of one question; `source` is that of the model, as for `score_reader`.

    `labelled` are rows that the user gave in addition to those of the question.
    """
    spec, names = case.spec, [group.name for group in case.groups]
    if spec.text is not None:
        return RowFacts()
    support: Sequence[int | None] = [None] * len(names)
    right: Sequence[int | None] = [None] * len(names)
    above: Sequence[int | None] = [None] * len(names)
    median, higher, what = None, None, "labelled rows"
    table = case.rows if isinstance(spec.population, Table) else None
    if labelled is not None:
        masks = group_masks(spec, case.groups, labelled.values)
        support = masks.sum(axis=1).tolist()
        decided = _decisions(case, labelled.values)
        right = right if decided is None else (masks & (decided == labelled.truth)).sum(axis=1).tolist()
    elif table is not None and table.truth is not None and case.members is not None:
        decided = table.recorded if table.recorded is not None else _decisions(case, table.values)
        support = table.sizes(case.members).tolist()
        right = right if decided is None else table.sizes(case.members & (decided == table.truth)).tolist()
    elif isinstance(spec.population, Marginals) and case.rows is not None:
        columns = [place for place, each in enumerate(spec.features) if each.name in spec.protected]
        if not np.isnan(case.rows.values[:, columns]).any():
            support, what = case.rows.sizes(group_masks(spec, case.groups, case.rows.values)).tolist(), "rows"
    scores = _scores(case, source)
    if scores is not None and table is not None and case.members is not None:
        repeats = np.ones(len(scores), np.int64) if table.repeats is None else table.repeats
        assert case.concerned is not None
        median = float(np.median(np.repeat(scores[case.concerned], repeats[case.concerned])))
        higher = scores > median
        above = table.sizes(case.members & higher).tolist()
    facts = tuple(map(GroupFacts, names, support, right, above))
    return RowFacts(facts, _left_out(case, higher), median, what)


def _decisions(case: Case, values: NDArray[Any]) -> NDArray[Any] | None:
    """Return the label of each row; None for a model with costly evaluations."""
    model = case.model
    if not isinstance(model, OnnxModel) or model.drawn:
        return None
    return predicted(model, values)


def _scores(case: Case, source: Any) -> NDArray[Any] | None:
    """Return the score of each row if the spec reads a score; None if it does not, or if evaluations are costly."""
    if not isinstance(case.spec.population, Table) or case.rows is None:
        return None
    if case.rows.scores is not None:
        return case.rows.scores
    if case.spec.model.decision_threshold is None or not isinstance(case.model, OnnxModel):
        return None
    try:
        return score_reader(case, source, case.rows.values, None)(case.rows.values)
    except ModelError:
        return None


def _left_out(case: Case, above: Mask | None) -> tuple[RowsLeftOut, ...]:
    """Return groups that are too small, rows in no group, and rows without a value, with their numbers.

    `above` marks the rows with a score above the median, if there are scores.
    """
    rows, spec = case.rows, case.spec
    least = spec.property.min_size or 0
    too_small = f"below {least:g} rows, as stated" if least >= 1 else f"below {share(least)} of all, as stated"
    if rows is None or not isinstance(spec.population, Table) or case.concerned is None:
        return tuple(RowsLeftOut(name, size, None, too_small) for name, size in case.left_out)
    selected = None
    if rows.recorded is not None and spec.property.outcome is not None:
        selected = rows.recorded == spec.model.labels.index(spec.property.outcome)

    def of(name: str, mask: Mask, reason: str) -> RowsLeftOut:
        chosen, higher = (None if each is None else int(rows.sizes(mask & each)) for each in (selected, above))
        return RowsLeftOut(name, int(rows.sizes(mask)), chosen, reason, higher)

    groups = groups_of(spec)
    masks = group_masks(spec, groups, rows.values) & case.concerned
    small = {name for name, _ in case.left_out}
    found = [of(group.name, mask, too_small) for group, mask in zip(groups, masks, strict=True) if group.name in small]
    other = of("unknown or other", case.concerned & ~masks.any(axis=0), NO_GROUP)
    missing = RowsLeftOut("unknown", rows.dropped, None, NO_VALUE)
    return (*found, *(each for each in (other, missing) if each.size))

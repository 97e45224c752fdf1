"""Repair by decision thresholds, for any model with a score: trees, boosters, functions, networks.

The model is unchanged; the score above which the second label is decided moves, for all rows or for each group. The
thresholds of a network are written into its graph; a model that is evaluated in Python gets them in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import ModelError, SpecError, UnansweredError
from fairchain.models import Limits, Model, OnnxModel, load_model
from fairchain.models.base import describe_input, must_fit
from fairchain.models.edit.thresholds import ScoreTensor, reading_groups, score_tensors, showing_scores, with_thresholds
from fairchain.models.edit.weights import WeightArray
from fairchain.models.onnx.decision import DecisionRule, Ends, Labels
from fairchain.prepare import Case, group_masks
from fairchain.repairing.parameters import THRESHOLDS
from fairchain.spec import Group, ProbabilityFormula, Spec
from fairchain.spec.schema import DecisionKind
from fairchain.tables import TableRows

Floats = NDArray[np.float64]
# Rows per call of a model, and the share of labels that its scores must reproduce.
SCORED_ROWS_PER_CALL, AGREEMENT = 4096, 0.99
GROUPS_OVERLAP = (
    'change: "group-thresholds" needs groups that do not overlap, and decisions that follow from '
    'scores; take change = "threshold", or another property'
)
NO_SCORES = (
    "{name}: returns labels and has no scores, so no threshold can be moved; give a model that returns scores, and "
    'state it: decision = "probability" or "logit" in [model]'
)
DECIDES_BETWEEN_LABELS = "{name}: decides between {labels_count} labels; a threshold is for a score of two"


@dataclass(frozen=True, eq=False)
class ScoreReader:
    """A model with a score: the second label is decided above `cut`.

    `original` gets new thresholds, and was loaded with `spec`; `model` gives the scores: the original or, if that
    returns labels, another view of it. Of two columns the score is their `difference`, otherwise they are
    probabilities, and it is the second. `tensor` has the scores inside a network that returns labels.
    """

    original: Model
    spec: Spec
    model: Model
    cut: float
    difference: bool = False
    tensor: ScoreTensor | None = None

    def __call__(self, values: NDArray[Any]) -> Floats:
        """Return the score of each row, (rows,)."""
        values = values.astype(self.model.dtype, copy=False)
        parts = [values[start : start + SCORED_ROWS_PER_CALL] for start in range(0, len(values), SCORED_ROWS_PER_CALL)]
        answers = [self.model.scores(part).reshape(len(part), -1).astype(np.float64) for part in parts]
        answer = np.concatenate(answers) if answers else np.empty((0, self.model.decision.columns))
        if answer.shape[1] == 1:
            return np.asarray(answer[:, 0])
        return np.asarray(answer[:, 1] - answer[:, 0] if self.difference else answer[:, 1])


def score_reader(case: Case, source: Any, values: NDArray[Any], limits: Limits | None) -> ScoreReader:
    """Return a reader of scores for the model of a case, which must decide between two labels.

    `source` is the object or name from which the model was loaded, which may have scores besides its labels. Labels
    derived from the scores must equal those of the model on `values`.
    """
    model, labels = case.model, case.spec.model.labels
    assert model is not None
    if len(labels) != 2:
        raise ModelError(DECIDES_BETWEEN_LABELS.format(name=model.name, labels_count=len(labels)))
    if model.decision.kind != "label":
        return _reader(model, case.spec, model, values)
    known = np.concatenate([model.predict(part.astype(model.dtype)) for part in np.array_split(values, 8) if len(part)])
    # Missing values are given to the model itself; its network may have no name for them.
    rows = case.rows if values.dtype.kind == "f" and np.isnan(values).any() else None
    for original, spec, other, tensor in _views(model, source, case.spec, limits, rows):
        found = _reader(original, spec, other, values, tensor)
        scores = found(values)
        # Two distinct values are labels again, whatever the output is called.
        several = len(np.unique(scores)) > 2
        if several and np.isfinite(scores).all() and np.mean((scores > found.cut) == known) >= AGREEMENT:
            return found
    raise ModelError(NO_SCORES.format(name=model.name))


def _views(
    model: Model, source: Any, spec: Spec, limits: Limits | None, rows: TableRows | None
) -> Iterator[tuple[Model, Spec, Model, str | None]]:
    """Yield views of the same model with scores instead of labels, in all loadable forms.

    Each is the model that gets thresholds with its spec, the view with scores, and the tensor of the scores in a
    network that returns labels. With `rows`, a model is evaluated as it is and not converted.
    """
    if isinstance(model, OnnxModel):
        for tensor in score_tensors(model):
            try:
                yield model, spec, showing_scores(model, spec, tensor), tensor
            except ModelError:
                continue
    # Code that a spec file names is never imported.
    trusted, source = source is not None, spec.model.path if source is None else source
    decisions: tuple[DecisionKind, ...] = ("probability", "argmax", "logit")
    for decision in decisions:
        changed = replace(spec, model=replace(spec.model, decision=decision, codes=None))
        try:
            other = load_model(source, changed, limits, allow_python=trusted, rows=rows)
        except ModelError:
            continue
        yield other, changed, other, None


def _reader(original: Model, spec: Spec, model: Model, values: NDArray[Any], tensor: str | None = None) -> ScoreReader:
    """Return the reader of a model that gives scores; two columns that add up to 1 are probabilities."""
    if model.decision.kind == "threshold":
        return ScoreReader(original, spec, model, model.decision.cut)
    some = model.scores(values[:SCORED_ROWS_PER_CALL].astype(model.dtype)).reshape(-1, 2).astype(np.float64)
    sure = bool(((some >= 0) & (some <= 1)).all() and np.allclose(some.sum(axis=1), 1.0, atol=1e-5))
    held = ScoreTensor(tensor, not sure) if tensor is not None else None
    return ScoreReader(original, spec, model, 0.5 if sure else 0.0, not sure, held)


@dataclass(frozen=True, eq=False)
class ThresholdDecisions:
    """Decisions about rows from their scores and some thresholds, without evaluating the model again.

    `groups` are those that have their own thresholds; empty for one threshold for all rows.
    """

    reader: ScoreReader
    spec: Spec
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The name of the model in messages."""
        return self.reader.original.name

    def prepare(self, values: NDArray[Any]) -> tuple[Floats, NDArray[np.intp]]:
        """Evaluate the model once: return the score of each row, and the index of its threshold."""
        return self.reader(values), threshold_places(self.spec, self.groups, values)

    def decide(self, prepared: tuple[Floats, NDArray[np.intp]], changes: Mapping[str, WeightArray]) -> Labels | None:
        """Return the label of each row under the changed thresholds; None if a score is not a number."""
        scores, places = prepared
        if not np.isfinite(scores).all():
            return None
        thresholds = changes.get(THRESHOLDS, np.full(max(1, len(self.groups)), self.reader.cut))
        each = np.append(thresholds, self.reader.cut) if self.groups else np.asarray(thresholds)
        above: NDArray[np.bool_] = scores > each[places]
        return above.astype(np.uint16)


def threshold_places(spec: Spec, groups: Sequence[Group], values: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each row the index of its group, or the number of groups if it is in none; 0 without groups."""
    if not groups:
        return np.zeros(len(values), np.intp)
    masks = group_masks(spec, groups, values)
    return np.where(masks.any(axis=0), masks.argmax(axis=0), len(groups))


class ThresholdModel:
    """A model that is evaluated in Python, with other decision thresholds: one for each group, or one for all rows."""

    certifiable = drawn = False
    sha256 = ""

    def __init__(self, reader: ScoreReader, spec: Spec, groups: Sequence[Group], thresholds: Sequence[float]) -> None:
        self._reader, self._spec = reader, spec
        self._decisions = ThresholdDecisions(reader, spec, tuple(groups))
        self._thresholds = np.array(thresholds)
        self.name, self.note = f"{reader.original.name} with other thresholds", reader.original.note
        self.dtype = reader.model.dtype

    @property
    def decision(self) -> DecisionRule:
        """The scores are relative to the threshold of their row."""
        return DecisionRule("score", "threshold", 2)

    def to_network(self) -> OnnxModel:
        """Raise a ModelError: the thresholds of a model in Python have no network."""
        raise ModelError(f"{self.name}: is evaluated in Python and cannot be converted to ONNX")

    def must_fit(self, spec: Spec) -> None:
        """Raise a ModelError unless this model was made for the same features and labels."""
        must_fit(self.name, self._spec, spec)

    def scores(self, values: NDArray[Any]) -> Floats:
        """Return the score of each row minus its threshold, (rows,)."""
        scores, places = self._decisions.prepare(values)
        return np.asarray(scores - np.append(self._thresholds, self._reader.cut)[places])

    def ends(self, values: NDArray[Any]) -> Ends:
        """Raise a ModelError: the decisions follow from the scores."""
        raise ModelError(f"{self.name}: {len(values)} decisions follow from scores, and are not drawn")

    def predict(self, values: NDArray[Any]) -> Labels:
        """Return the class index of each row of feature values."""
        if not len(values):
            return np.empty(0, np.uint16)
        prepared = self._decisions.prepare(values)
        labels = self._decisions.decide(prepared, {THRESHOLDS: self._thresholds})
        if labels is None:
            shown = describe_input(self._spec.described, values[int(np.isfinite(prepared[0]).argmin())])
            problem = "the score is not a number"
            raise UnansweredError(UnansweredError.MESSAGE.format(name=self.name, problem=problem, shown=shown), shown)
        return labels


@dataclass(frozen=True, eq=False)
class ThresholdEdits:
    """Constructor of candidates: a network with thresholds, one for each of `groups`, in its graph, or Python code."""

    reader: ScoreReader
    groups: tuple[Group, ...]

    @property
    def values(self) -> dict[str, WeightArray]:
        """The original thresholds."""
        return {THRESHOLDS: np.full(max(1, len(self.groups)), self.reader.cut)}

    @cached_property
    def new_spec(self) -> Spec:
        """The spec of a repaired model: with a threshold for each group it reads the protected features."""
        spec = self.reader.spec
        return reading_groups(spec) if self.groups and isinstance(self.reader.original, OnnxModel) else spec

    def edited(self, changes: Mapping[str, WeightArray], spec: Spec) -> tuple[Model, bytes | None]:
        """Return the model with these thresholds, loaded with `spec`, and its bytes if it is a network."""
        original = self.reader.original
        thresholds = np.asarray(changes[THRESHOLDS], np.float64).tolist()
        if not isinstance(original, OnnxModel):
            return ThresholdModel(self.reader, spec, self.groups, thresholds), None
        two = original.decision.kind == "argmax"
        content = with_thresholds(
            original,
            self.reader.spec,
            cut=self.reader.cut,
            thresholds=thresholds,
            groups=self.groups,
            scores=self.reader.tensor,
            doubled=two and not self.reader.difference,
        )
        return OnnxModel.from_bytes(content, original.name, spec, original.limits), content


def check_threshold_groups(spec: Spec) -> None:
    """Raise a SpecError if groups cannot have their own thresholds."""
    if spec.text is not None:
        raise SpecError(
            'change: "group-thresholds" needs the group of each input, which a model of texts does not get; use '
            'change = "threshold"'
        )
    if isinstance(spec.property, ProbabilityFormula) or spec.model.decision == "random":
        raise SpecError(GROUPS_OVERLAP)

"""One call from a model and a table to a verdict, without a spec file.

Values that the caller does not state are derived from the model and the table, or assumed; the verdict lists every
assumption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from fairchain.drafting import Draft, DraftOptions, draft_spec
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.executors import AnyWorkers, open_workers
from fairchain.models import Limits
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.prepare import Case, case_of, within_budget
from fairchain.spec import revise
from fairchain.spec.feature_keys import GroupExpr
from fairchain.spec.schema import DecisionKind
from fairchain.statements import WARNING
from fairchain.verification import verify_case
from fairchain.verification.family import FamilyVerdict, divided, verify_cases
from fairchain.verification.progress import Report, reporting
from fairchain.verification.verdict import Verdict
from fairchain.verification.verifier import why_uncertifiable

TERMS_WITHOUT_TEXT = "terms: need texts; name the column of the texts: text=... (--text)"
MODEL_MISSING = "model: missing; give a model, or the column with recorded decisions: prediction=... (--prediction)"
PROTECTED_MISSING = "protected: missing; name the columns whose groups are compared{remedy}"
OR_TERMS = ', or the terms by which texts mention them: terms="religion" (--terms)'
COLUMN_NAME = "{key}: found an object of type {type}; give the name of a column of the table"
BAD_DEPTH = "depth: found {depth}; give a number from 1 to {most}, the protected columns"
# Parameters of `check` that do not define the question.
OF_THE_RUN = ("depth", "workers", "executor", "progress")
# Those that a draft takes as they are, and further keys of tables of its spec.
OF_THE_DRAFT = (
    *("label", "protected", "prediction", "reading", "groups", "ignore", "limits"),
    *("decision", "decision_threshold", "labels", "model_output", "deterministic"),
)
OF_THE_PROPERTY = ("given", "criterion", "compare", "min_size", "shift", "shift_of")
OF_THE_GUARANTEE = ("delta", "seed", "allow_constant")
Kind = Literal["difference", "ratio", "individual"]
RowsMean = Literal["sample", "population", "observed", "swapped"]
SAMPLE_BY_DEFAULT = (
    "population.as: The rows are assumed to be a random sample on which the model was not fitted, and the verdict is "
    'about the population from which they were drawn. For a verdict about these rows only: reading="population" (--as '
    "population)."
)
RANGES_CUT_FROM_ROWS = (
    "reading: the ranges of a protected number were derived from these rows, so the rows cannot be read as a sample; "
    'state ranges in Python, groups={"age": {"young": [18, 39], ...}}, in a spec (fairchain init), or read the rows '
    'as the population: reading="population" (--as population)'
)


def check(
    model: Any,
    data: Any,
    *,
    protected: str | Sequence[str] | None = None,
    text: str | None = None,
    terms: str | Mapping[str, Sequence[str]] | None = None,
    label: str | None = None,
    prediction: str | None = None,
    outcome: str | int | None = None,
    kind: Kind = "difference",
    threshold: float | None = None,
    reading: RowsMean | None = None,
    groups: Mapping[str, Mapping[str, GroupExpr]] | None = None,
    given: str | None = None,
    criterion: str | None = None,
    compare: str | None = None,
    min_size: float | None = None,
    shift: float | None = None,
    shift_of: str | None = None,
    decision: DecisionKind | None = None,
    decision_threshold: float | None = None,
    labels: Sequence[str] = (),
    model_output: str | None = None,
    deterministic: bool | None = None,
    ignore: Sequence[str] = (),
    show_texts: bool | None = None,
    delta: float | None = None,
    max_evaluations: int | None = None,
    depth: int | None = None,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: Report | bool | None = None,
    certify: bool = False,
) -> Verdict | FamilyVerdict:
    """Decide, without a spec file, whether a model treats the groups of a table or of texts alike.

    Parameters
    ----------
    model
        Any model that `verify` takes, or None if the decisions are recorded in the table.
    data
        A pandas or polars frame, a mapping of names to columns, or a CSV or Parquet file. For texts, `data` can also be
        a .txt file with one text on each line, or a .jsonl file.
    protected
        The columns whose groups are compared. If there are several columns, the combinations of their groups are
        compared. The model need not take these columns. For texts with `terms`, `protected` may be left out.
    text
        The column of texts, for a model that reads a text. The model receives every character of a text.
    terms
        The terms by which a text mentions a group. Give one of the built-in lists `"religion"`, `"race"` and
        `"gender"`, a .toml or .json file, or a mapping of groups to lists of words.
    label
        The column with the true labels. True labels are needed for criteria other than demographic parity. They are
        also needed to find the order of the model's labels, if the model does not state this order.
    prediction
        The column with recorded decisions, which are used instead of a model.
    outcome
        The label whose rates are compared; by default a label with a favourable name, or the second of two labels.
    kind
        `"difference"` and `"ratio"` compare the rates of the groups. `"individual"` limits the share of rows whose
        decision changes if only the protected columns change.
    threshold
        The largest fair difference or share (by default 0.1), or the smallest fair ratio (by default 0.8).
    reading
        `"sample"`: the rows are a random sample, and the verdict is about the population from which they were drawn.
        The model must not have been fitted on these rows. `"population"`: the rows are the whole population, and the
        answer is exact. The default is `"sample"`, or `"population"` if fairchain divides a numeric protected column
        into ranges. For texts, the default is `"observed"` (each group has its own texts), or `"swapped"` for the kind
        `"individual"`. With `"swapped"`, every text that mentions a group is shown with the terms of each group.
    groups
        The groups of some columns, as in a spec: `{"age": {"young": [18, 39], "old": [40, 99]}}`.
    given, criterion, compare, min_size, shift, shift_of
        As the keys of `[property]` in a spec.
    decision, model_output
        The meaning of the model's output, and the output to read, if the model does not determine them.
    decision_threshold
        The model decides for the second label if the probability or score is above this number. A score that is not a
        probability requires this option.
    labels
        Names of the labels in the model's order. For a score, the first label is the one below the decision threshold.
    deterministic
        False for a model that is random by design. The verdict then includes this randomness, and the rows of a table
        must be a sample.
    ignore
        Columns that are not inputs of the model.
    show_texts
        Quote texts in full. By default, offensive words and personal data are masked, and long texts are shortened.
    delta
        Largest allowed probability of a wrong verdict, by default 1e-6.
    max_evaluations
        Largest number of evaluations of the model. Rows are then evaluated in random order, and the bounds also cover
        the rows that are not evaluated.
    depth
        Largest number of protected columns in one question. With 2, fairchain asks one question for each column and for
        each pair of columns. All questions share delta, and the result is a `FamilyVerdict`. Without `depth`, all
        protected columns together form the groups of one question.
    seed, allow_constant, workers, executor, limits, progress
        As for `verify`.
    certify
        Convert the model to ONNX, so that a certificate can be written. A model for which no certificate can be written
        is refused before the work starts.

    Returns
    -------
    Verdict or FamilyVerdict
        The verdict, or with `depth` the verdicts on all questions. In each verdict, `assumptions` lists everything that
        was assumed, and `spec` is the spec that was inferred.

    Raises
    ------
    FairchainError
        If an argument cannot be used. The message states the problem and the argument to pass instead.

    Examples
    --------
    >>> applicants = {"sex": ["F", "M"] * 50, "hired": ["no", "yes", "yes", "no", "no"] * 20}
    >>> print(check(None, applicants, protected="sex", prediction="hired", reading="population").headline)
    the largest gap is 0.0000, below the threshold 0.1
    """
    parameters = dict(locals())  # there are no other names yet
    case, _ = prepare_check(**{name: each for name, each in parameters.items() if name not in OF_THE_RUN})
    with reporting(progress) as report, open_workers(workers, executor) as opened:
        return answer_check(case, depth, workers=opened, progress=report)


def answer_check(
    case: Case, depth: int | None, *, workers: AnyWorkers, progress: Report | None
) -> Verdict | FamilyVerdict:
    """Return the verdict on a prepared check, or on each combination of at most `depth` protected columns."""
    if depth is None:
        return verify_case(case, workers=workers, progress=progress)
    protected = case.spec.protected
    if not 1 <= depth <= len(protected):
        raise SpecError(BAD_DEPTH.format(depth=depth, most=len(protected)))
    chosen = [some for size in range(1, depth + 1) for some in combinations(protected, size)]
    questions = divided([revise(case.spec, property__protected=list(some)) for some in chosen])
    cases = [
        case_of(question, case.model, case.rows, assumptions=case.assumptions, remarks=case.remarks)
        for question in questions
    ]
    return verify_cases(cases, workers=workers, progress=progress)


def _refuse_incomplete(model: Any, requested: DraftOptions, text: Any, terms: Any) -> None:
    """Raise a SpecError where the model or the groups are missing, or a column is not given by its name."""
    for key, name in {"text": text, "label": requested.label, "prediction": requested.prediction}.items():
        if not isinstance(name, str | int | float | None):
            raise SpecError(COLUMN_NAME.format(key=key, type=type(name).__name__))
    if model is None and requested.prediction is None:
        raise SpecError(MODEL_MISSING)
    if terms is not None and text is None:
        raise SpecError(TERMS_WITHOUT_TEXT)
    if not requested.protected and terms is None:
        raise SpecError(PROTECTED_MISSING.format(remedy=OR_TERMS if text is not None else ""))


def prepare_check(
    model: Any,
    data: Any,
    *,
    text: str | None = None,
    terms: str | Mapping[str, Sequence[str]] | None = None,
    **options: Any,
) -> tuple[Case, Draft]:
    """Return the case of `check`, with the options of `check`, and the draft whose spec is that of the case."""
    # A value may be a scalar of NumPy; None means that it is not stated.
    stated = {key: each.item() if isinstance(each, np.generic) else each for key, each in options.items()}
    stated = {key: each for key, each in stated.items() if each is not None}
    kind, certify = stated.get("kind") or "difference", stated.get("certify", False)
    budget = {"budget": {"evaluations": stated["max_evaluations"]}} if "max_evaluations" in stated else {}
    requested = DraftOptions(
        **{key: stated[key] for key in OF_THE_DRAFT if key in stated},
        outcome=str(stated["outcome"]) if "outcome" in stated else None,
        threshold=stated.get("threshold", 0.8 if kind == "ratio" else 0.1),
        property={"kind": kind, **{key: stated[key] for key in OF_THE_PROPERTY if key in stated}},
        guarantee={**{key: stated[key] for key in OF_THE_GUARANTEE if key in stated}, **budget},
        every_group=False,
    )
    _refuse_incomplete(model, requested, text, terms)
    if text is None:
        draft = draft_spec(data, model, requested)
    else:
        from fairchain.drafting.texts import draft_text_spec

        draft = draft_text_spec(data, model, requested, text=text, terms=terms)
    spec, loaded = draft.spec, draft.model
    if stated.get("reading") == "sample" and any(
        guess.loud and guess.key == "population.as" for guess in draft.guesses
    ):
        raise SpecError(RANGES_CUT_FROM_ROWS)
    # Every verdict has the note about rows that are left out, and no file is written for the model here.
    about = [guess for guess in draft.guesses if guess.key not in ("population.drop_missing", "model.path")]
    told = tuple(f"{guess.key}: {guess.text}" for guess in about if guess.key)
    remarks = tuple((WARNING if guess.loud else "") + guess.text for guess in about if guess.loud or not guess.key)
    if stated.get("reading") is None and getattr(spec.population, "reading", "") == "sample":
        told = (SAMPLE_BY_DEFAULT, *told)
    evaluated_again = not spec.model.deterministic or getattr(loaded, "service", None) is not None
    if certify and loaded is not None and not loaded.sha256 and not evaluated_again:
        try:
            loaded = loaded.to_network(spec, draft.rows) if isinstance(loaded, FunctionModel) else loaded.to_network()
        except ModelError as error:
            raise CertificateError(str(error)) from None
    spec, about_trials = within_budget(spec, loaded)
    told += about_trials
    if stated.get("show_texts"):
        spec = revise(spec, population__show_texts=True)
    case = case_of(spec, loaded, draft.rows, assumptions=told, remarks=remarks)
    if certify and not case.certifiable:
        raise CertificateError(why_uncertifiable(case))
    return case, replace(draft, spec=case.spec)

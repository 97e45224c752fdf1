"""Preparation: from user input to the `Case` of every engine and every stage.

`prepare` is the only module that reads a spec, its files, its rows and its model, and determines the compared groups.
It draws nothing and evaluates nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, ModelError, SpecError
from fairchain.messages import shown
from fairchain.models import Limits, Model, OnnxModel, load_model
from fairchain.populations import Population, build_population
from fairchain.populations.build import large_enough, with_nodes
from fairchain.spec import (
    CategoryFeature,
    Comparison,
    Group,
    Individual,
    Marginals,
    Spec,
    Table,
    Texts,
    Uniform,
    comparison_of,
    groups_of,
    load_spec,
    revise,
)
from fairchain.spec.documents import texts_in_memory
from fairchain.spec.load import content_of, spec_from
from fairchain.spec.population_keys import UserFunction
from fairchain.spec.properties import populations_of
from fairchain.spec.seeds import Seed, seed_of
from fairchain.spec.subgroups import subgroups_of_groups
from fairchain.statements import dropped_note, rows_phrase, table_name

if TYPE_CHECKING:
    from fairchain.populations.text_rows import TextRows
    from fairchain.spec.conditions import Predicate
    from fairchain.tables import TableRows

Mask = NDArray[np.bool_]
# Compared groups, small groups with their share, the comparison, and the population of drawn inputs.
Compared = tuple[tuple[Group, ...], tuple[tuple[str, float], ...], Comparison, Population]
GROUPED_ROWS = (
    "{source}: distinct rows with their numbers of copies answer questions about rates only; for individual "
    "discrimination, drawn decisions, a budget of evaluations, explanations and repairs give one smaller file"
)
BUDGET_FOR_TRIALS = (
    "guarantee.budget.evaluations: {budget:,} are not enough, since trials of the model take {trials:,}; allow more"
)
MODEL_AND_DECISIONS = (
    "population.prediction: the table contains the decisions, so no model is evaluated; remove the key or the model"
)
NO_MODEL_PATH = (
    'model.path: missing; name the network\'s file, for example path = "model.onnx", or the column of recorded '
    'decisions: prediction = "..." in [population]'
)
MISSING_VALUES_NOT_TAKEN = (
    '{name}: input "{slot_name}" cannot be given the missing values of feature "{feature_name}"; state missing = ... '
    "in the [[feature]], or remove keep_missing in [population]"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A question with everything that is needed to answer it.

    Parameters
    ----------
    spec
        The validated question, with the nodes of a Bayesian network and the terms of a list read into it. Its
        `population.path` is None if rows were given in memory.
    model
        The loaded model; None if the decisions are recorded in the rows.
    rows
        The rows of a table, those that give the frequencies, or the texts of a corpus; None if the spec or a function
        draws inputs.
    groups, left_out
        The groups that are large enough, and the others, each with its number of rows or its share.
    comparison
        The subgroups that are evaluated, and the pairs of them that are compared.
    population
        The distribution from which inputs are drawn; None if the rows of a table are counted.
    concerned, members
        For a table or a corpus, (rows,): whether `property.given` holds; and (groups, rows): the members of each group
        among these rows.
    seed
        The seed of all random numbers, with its origin.
    data_sha256
        Hash of the rows, or of a corpus with its word lists; None if the spec contains everything.
    function
        The Python function that draws inputs, if one was given.
    assumptions, remarks
        Assumptions about the model or the data that the caller did not state, and further notes for a reader of the
        verdict.
    shared
        The labels that other questions about the same inputs have computed (`verification/family.py`), if any: no input
        is evaluated twice.
    prepared
        The seconds of the preparation, which count towards `budget.seconds`. Each of several questions has its own
        budget and preparation; loading shared parts belongs to the first.
    """

    spec: Spec
    model: Model | None
    rows: TableRows | None
    groups: tuple[Group, ...]
    left_out: tuple[tuple[str, float], ...]
    comparison: Comparison
    population: Any
    concerned: Mask | None
    members: Mask | None
    seed: Seed
    data_sha256: str | None
    function: Callable[..., Any] | None
    assumptions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    shared: Any = None
    prepared: float = 0.0

    @property
    def seconds(self) -> float:
        """The rest of `budget.seconds` for the answer."""
        return max(self.spec.guarantee.budget.seconds - self.prepared, 0.0)

    @property
    def model_sha256(self) -> str:
        """The hash of the model; empty for a Python function and for recorded decisions."""
        return self.model.sha256 if self.model is not None else ""

    @property
    def certifiable(self) -> bool:
        """Whether others can check an answer: the model has bytes, the spec draws the inputs, the rule is sound."""
        population = self.spec.population
        # A service, or a random model, has no hash: its certificate states that it is evaluated again.
        evaluated_again = not self.spec.model.deterministic or getattr(self.model, "service", None) is not None
        known_model = self.model is None or bool(self.model.sha256) or evaluated_again
        known_inputs = self.function is None and (self.rows is None or self.rows.repeats is None)
        sound = isinstance(population, Table) or self.spec.guarantee.rule != "paper"
        return known_model and known_inputs and sound and not texts_in_memory(population)

    @property
    def described_population(self) -> str:
        """The population in one phrase, for statements; with a shift, all populations within its factor."""
        return self.populations()

    def populations(self, decision: str | None = None) -> str:
        """Return the same phrase in the form for a statement about a decision."""
        population = self.spec.population
        if not isinstance(population, Table):
            return populations_of(self.spec, str(self.population), decision)
        assert self.rows is not None
        rows = rows_phrase(
            self.rows.count,
            population.path,
            exact=population.reading == "population",
            given=self.spec.property.given,
            dropped=self.rows.dropped,
        )
        return populations_of(self.spec, rows, decision)

    @property
    def notes(self) -> tuple[str, ...]:
        """The assumptions for a reader: about texts, rows left out, a model that was not converted."""
        notes = self.remarks + (self.population.notes if self.population is not None else ())
        if self.rows is not None and self.rows.dropped:
            notes += (dropped_note(self.rows.dropped, self.rows.count + self.rows.dropped, self.rows.lacking),)
        note = getattr(self.model, "note", "")
        return (*notes, note) if note else notes


def prepare(
    model: Any,
    spec: Spec | str | Path,
    *,
    weights: str | Path | None = None,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    allow_constant: bool | None = None,
    limits: Limits | None = None,
    network: bool = False,
) -> Case:
    """Read and check everything that a question needs, given as for `verify`; `network` is as for `gather`.

    It has three steps, which a stage with its own checks calls one by one: `read_question`, `gather`, `case_of`.
    """
    question = read_question(spec, guarantee__seed=seed, guarantee__allow_constant=allow_constant)
    return gather(model, question, weights=weights, data=data, population=population, limits=limits, network=network)


def read_question(spec: Spec | str | Path, **changes: Any) -> Spec:
    """Return the spec with these keys changed (see `revise`), validated, and with small files read into it."""
    changes = {key: value for key, value in changes.items() if value is not None}
    if not isinstance(spec, Spec):
        spec = load_spec(spec)
        if not changes:
            return with_nodes(spec)
    # A spec that was made in Python is checked here for the first time.
    return with_nodes(revise(spec, **changes))


def gather(
    model: Any,
    question: Spec,
    *,
    weights: str | Path | None = None,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    limits: Limits | None = None,
    network: bool = False,
    began: float | None = None,
) -> Case:
    """Load the model and the rows of a question from `read_question`, and return its case.

    Parameters
    ----------
    model, weights, data, population, limits
        As for `verify`.
    question
        The spec from `read_question`, which is not checked again.
    network
        Whether the model is needed as an ONNX network, for a certificate or for its inner tensors. A model that cannot
        be converted is evaluated in Python, and its note states why. Otherwise a model is evaluated in Python for the
        rows of a table, because converting takes longer; for drawn inputs a network is faster.
    began
        The start of the preparation, by the clock of `time.perf_counter`; by default now.
    """
    began = time.perf_counter() if began is None else began
    question = _with_data(question, data)
    rows = read_rows(question, data)
    counted = question.population if isinstance(question.population, Table) else None
    own_rows = rows if counted is not None or (question.text is not None and question.text.raw) else None
    loaded: Any = None
    if counted is None or counted.prediction is None:
        source, own = (model, True) if model is not None else (question.model.path, False)
        if source is None:
            raise SpecError(NO_MODEL_PATH)
        given: dict[str, Any] = {"weights": weights, "rows": own_rows, "network": network}
        loaded = load_model(source, question, limits, allow_python=own, **given)
    elif model is not None:
        raise SpecError(MODEL_AND_DECISIONS)
    told: tuple[str, ...] = ()
    if getattr(loaded, "costly", False):
        loaded.kept.most = question.guarantee.budget.evaluations
        question, told = within_budget(question, loaded)
    case = case_of(question, loaded, rows, function=population, assumptions=told)
    return dataclasses.replace(case, prepared=time.perf_counter() - began)


def within_budget(spec: Spec, model: Any) -> tuple[Spec, tuple[str, ...]]:
    """Return the spec with the rest of a budget of evaluations after trials of the model, and a sentence about it.

    Evaluations for repeated inputs, which test whether the model is deterministic, are also reserved, and those that a
    service may make ahead without use.
    """
    budget, used = spec.guarantee.budget.evaluations, getattr(model, "evaluated", 0)
    if budget is None or not used:
        return spec, ()
    from fairchain.models.adapters.answer_memo import REPEATED
    from fairchain.models.adapters.kept_answers import ahead_within

    model.spare()
    trials = used + (REPEATED if spec.model.deterministic else 0)
    if model.costly and trials >= budget:
        raise SpecError(BUDGET_FOR_TRIALS.format(budget=int(budget), trials=trials))
    ahead, told = 0, ""
    if getattr(model, "service", None) is not None and not isinstance(spec.population, Table):
        ahead = model.kept.ahead = ahead_within(budget)
        told = f", and {ahead:,} for inputs that are requested ahead" if ahead else ""
    left = revise(spec, guarantee__budget__evaluations=max(1, int(budget) - trials - ahead))
    return left, (f"guarantee.budget: {trials:,} of {int(budget):,} evaluations are for trials of the model{told}.",)


def case_of(
    spec: Spec,
    model: Model | None,
    rows: TableRows | None,
    *,
    function: Callable[..., Any] | None = None,
    assumptions: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
) -> Case:
    """Return the case of a validated spec, a loaded model and its rows; the parameters are those of `Case`."""
    if (function is not None) != isinstance(spec.population, UserFunction):
        raise SpecError(
            'population.kind: "callable" needs a Python function, given as population=... or --population; give '
            "both or neither"
        )
    predicate = _predicate(spec)
    drawn = concerned = members = None
    if isinstance(spec.population, Texts):
        rows = read_rows(spec) if rows is None else cast("TextRows", rows).for_spec(spec)
    left_out: tuple[tuple[str, float], ...]
    if isinstance(spec.population, Table):
        assert rows is not None
        _check_rows(model, spec, rows)
        concerned = np.ones(len(rows.values), bool) if predicate is None else predicate.holds(rows.values)
        if predicate is not None and not concerned.any():
            given, count = spec.property.given, len(concerned)
            raise DataError(f'{rows.source}: property.given "{given}" is true for none of the {count:,} rows; widen it')
        groups, members, left_out = _large_enough_rows(rows, spec, concerned)
        comparison = comparison_of(spec, groups)
        data_sha256: str | None = rows.sha256
    else:
        dtype = np.dtype(model.dtype if model is not None else np.float32)
        content = content_of(spec) if isinstance(spec.population, Uniform | Texts) else None
        if content is None:
            groups, left_out, comparison, drawn = _compared(spec, dtype, rows, function, predicate)
        elif isinstance(spec.population, Uniform):
            groups, left_out, comparison, drawn = _uniform(content, dtype)
        else:
            compute = partial(_compared, spec, dtype, rows, function, predicate)
            groups, left_out, comparison, drawn = cast("TextRows", rows).known((content, dtype), compute)
        data_sha256 = rows.sha256 if rows is not None else drawn.sha256
    if isinstance(spec.population, Texts):
        texts = cast("TextRows", rows)
        concerned, members = texts.concerned, texts.members_of(groups)
        assumptions += texts.assumptions
        data_sha256 = drawn.sha256 if drawn is not None else None
    decision = spec.model.decision
    if spec.model.decision_threshold is None and decision in ("logit", "probability"):
        label, cut = shown(spec.model.labels[1]), "0" if decision == "logit" else "0.5"
        assumptions += (f"{label} is decided above a {decision} of {cut}, the default decision threshold.",)
    return Case(
        spec=spec,
        model=model,
        rows=rows,
        groups=groups,
        left_out=left_out,
        comparison=comparison,
        population=drawn,
        concerned=concerned,
        members=members,
        seed=seed_of(spec, model.sha256 if model is not None else "", data_sha256),
        data_sha256=data_sha256,
        function=function,
        assumptions=assumptions,
        remarks=remarks,
    )


@lru_cache(maxsize=8)
def _uniform(content: bytes, dtype: np.dtype[Any]) -> Compared:
    """Return the comparison of a uniform population, which depends only on the content of a spec."""
    spec = spec_from(content)
    return _compared(spec, dtype, None, None, _predicate(spec))


def _compared(
    spec: Spec,
    dtype: np.dtype[Any],
    rows: TableRows | None,
    function: Callable[..., Any] | None,
    predicate: Predicate | None,
) -> Compared:
    """Return the groups of drawn inputs that are large enough, the others, their comparison and the population."""
    groups, left_out = large_enough(spec, rows)
    comparison = comparison_of(spec, groups)
    drawn = build_population(spec, comparison.subgroups, dtype, rows=rows, function=function, predicate=predicate)
    return groups, left_out, comparison, drawn


def _check_rows(model: Model | None, spec: Spec, rows: TableRows) -> None:
    """Refuse missing values that a network cannot take, and questions that rows with numbers of copies cannot answer.

    Only an input of floating-point numbers can contain a missing value.
    """
    if isinstance(model, OnnxModel) and np.isnan(rows.values).any():
        lacking: Mask = np.asarray(np.isnan(rows.values).any(axis=0))
        for slot in getattr(model.inputs, "slots", ()):
            for place in slot.features:
                feature = spec.features[place]
                floating = np.dtype(slot.dtype).kind == "f" and not isinstance(feature, CategoryFeature)
                if lacking[place] and not floating:
                    names = {"name": model.name, "slot_name": slot.name, "feature_name": feature.name}
                    raise ModelError(MISSING_VALUES_NOT_TAKEN.format(**names))
    drawn, budget = model is not None and model.drawn, spec.guarantee.budget.evaluations
    if rows.repeats is not None and (isinstance(spec.property, Individual) or drawn or budget):
        raise DataError(GROUPED_ROWS.format(source=rows.source))


def _predicate(spec: Spec) -> Predicate | None:
    """Return the condition `given`; the module that parses conditions is imported only for one."""
    if spec.property.given is None:
        return None
    from fairchain.spec.conditions import predicate_of

    return predicate_of(spec)


def with_network(case: Case) -> Case:
    """Return the case with a copy of its model as a network with accessible tensors; the case itself if there is none.

    A folder with a transformer is verified itself, and its units are found in its copy. If it cannot be copied, the
    note of the model states why.
    """
    from fairchain.models.adapters.from_function import FunctionModel

    model = case.model
    if not isinstance(model, FunctionModel) or not model.sha256:
        return case
    try:
        return dataclasses.replace(case, model=model.to_network(case.spec, case.rows))
    except ModelError as error:
        model.note = str(error)
        return case


def group_population(case: Case) -> Population:
    """Return the population of a case that draws for every group separately, whatever the groups are compared with."""
    subgroups = subgroups_of_groups(case.groups)
    drawn: Population = case.population
    if subgroups == case.comparison.subgroups:
        return drawn
    spec, predicate = case.spec, _predicate(case.spec)
    return build_population(spec, subgroups, drawn.dtype, rows=case.rows, function=case.function, predicate=predicate)


def _with_data(spec: Spec, data: Any) -> Spec:
    """Return the spec with the given file instead of its own; no file for rows in memory."""
    if data is None or not isinstance(spec.population, Table | Marginals | Texts):
        return spec
    changes = {"path": str(data) if isinstance(data, str | Path) else None}
    changes |= {"dataset": None} if isinstance(spec.population, Texts) else {}
    return msgspec.structs.replace(spec, population=msgspec.structs.replace(spec.population, **changes))


def read_rows(spec: Spec, data: Any = None) -> TableRows | None:
    """Return the rows of the population, from the given table or the spec's; None if it has none."""
    population = spec.population
    if isinstance(population, Texts):
        from fairchain.populations.text_rows import read_texts

        return read_texts(spec, data if not isinstance(data, str | Path) else None)
    if not isinstance(population, Table | Marginals):
        if data is not None:
            raise SpecError('population.kind: a table was given, and only kind = "table" or "marginals" reads one')
        return None
    source = data if data is not None else population.path
    if source is None and isinstance(population, Marginals):
        return None
    if source is None:
        raise SpecError(
            'population.path: missing; name the table, path = "data.csv", or give it: --data (data=... in Python)'
        )
    from fairchain.tables import encode_rows, read_table
    from fairchain.tables.grouped import is_grouped, read_grouped

    grouped = is_grouped(source, spec)
    rows = encode_rows(read_grouped(source, spec) if grouped else read_table(source), spec)
    if isinstance(population, Marginals):
        # Their frequencies are part of the statement, which names no folders.
        return dataclasses.replace(rows, source=table_name(population.path))
    return rows


def group_masks(spec: Spec, groups: Sequence[Group], values: NDArray[np.floating]) -> Mask:
    """Return (groups, rows): whether a row belongs to a group, and satisfies its own condition if it has one."""
    names = [feature.name for feature in spec.features]
    masks = np.ones((len(groups), len(values)), bool)
    for place, protected in enumerate(spec.protected):
        column = values[:, names.index(protected)]
        inside = {domain: domain.holds(column) for domain in {group.domains[place] for group in groups}}
        masks &= [inside[group.domains[place]] for group in groups]
    for place, group in enumerate(groups):
        if group.condition is not None:
            masks[place] &= group.condition.holds(values)
    return masks


def _large_enough_rows(
    rows: TableRows, spec: Spec, concerned: Mask
) -> tuple[tuple[Group, ...], Mask, tuple[tuple[str, int], ...]]:
    """Return the groups that reach `property.min_size`, their rows, and the groups that do not with their size.

    If true labels are compared, the size of a group is its number of rows with its rarest label.
    """
    groups, least = groups_of(spec), spec.property.min_size
    masks = group_masks(spec, groups, rows.values) & concerned
    if least is None:
        return groups, masks, ()
    sizes = rows.sizes(masks)
    truths = {subgroup.truth for subgroup in comparison_of(spec, groups).subgroups if subgroup.truth is not None}
    if truths and rows.truth is not None:
        sizes = np.min([rows.sizes(masks & (rows.truth == truth)) for truth in truths], axis=0)
    least = least if least >= 1 else least * rows.count
    kept = sizes >= least
    left_out = tuple((group.name, int(size)) for group, size in zip(groups, sizes, strict=True) if size < least)
    if kept.sum() < 2:
        raise DataError(
            f"{rows.source}: property.min_size leaves {int(kept.sum())} of {len(groups)} groups, and two are needed; "
            f"the largest has {int(sizes.max()):,} rows, so lower min_size"
        )
    return tuple(group for group, keep in zip(groups, kept, strict=True) if keep), masks[kept], left_out

"""From a spec to the population it speaks of: by kind, then restricted by `given`, then with means of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from fairchain.errors import SpecError
from fairchain.populations.base import Population
from fairchain.populations.uniform import UniformPopulation
from fairchain.spec import Spec, schema
from fairchain.spec.subgroups import EVERYBODY, Subgroup, unmixed

if TYPE_CHECKING:
    from fairchain.populations.marginals import People
    from fairchain.populations.rejection import Predicate


def build_population(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike = np.float32,
    *,
    people: People | None = None,
    function: Callable[..., Any] | None = None,
    predicate: Predicate | None = None,
) -> Population:
    """The population that a spec asks about, ready to draw rounds for these subgroups.

    Parameters
    ----------
    spec, subgroups
        What is asked, and who is shown.
    dtype
        Of the feature values handed out.
    people
        Rows whose frequencies are taken, for `kind = "marginals"`.
    function
        Draws the people, for `kind = "callable"`.
    predicate
        Only people for whom it holds.

    Raises
    ------
    SpecError, DataError
        If the population cannot be meant, or nobody in it belongs to an subgroup.
    """
    if function is not None and not isinstance(spec.population, schema.Callable):
        raise SpecError('population.kind: a function was given to draw people; write kind = "callable" or leave it out')
    if isinstance(spec.property, schema.Individual) and not _same_people(spec, predicate):
        from fairchain.populations.intervention import IntervenedPopulation

        everybody = _built(spec, [Subgroup(EVERYBODY)], dtype, people, function, predicate)
        single = all(domain.size == 1 for subgroup in subgroups if subgroup.group for domain in subgroup.group.domains)
        values = None if single else _built(spec, subgroups, dtype, people, function, None)
        return IntervenedPopulation(spec, subgroups, everybody, values)
    return _built(spec, subgroups, dtype, people, function, predicate)


def _same_people(spec: Spec, predicate: Predicate | None) -> bool:
    """Whether a round shows the same person in every subgroup: where features are independent and nobody is left out.

    Of texts that is true of those in which terms are exchanged, and only these are asked about one by one.
    """
    return predicate is None and isinstance(spec.population, schema.Uniform | schema.Marginals | schema.Texts)


def _built(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike,
    people: People | None,
    function: Callable[..., Any] | None,
    predicate: Predicate | None,
) -> Population:
    """By kind, then only those whom an subgroup accepts, then with means of groups."""
    plain = unmixed(subgroups)
    # A condition is decided on values as they were written, so candidates are drawn in double precision.
    source = _drawn(spec, plain, np.float64 if predicate is not None else dtype, people, function)
    if not source.exact and source.dtype != np.float64:
        source = _drawn(spec, plain, np.float64, people, function)
    if predicate is not None or not source.exact:
        from fairchain.populations.rejection import RejectionPopulation

        source = RejectionPopulation(source, predicate, plain, dtype=dtype)
    if not any(subgroup.mixed for subgroup in subgroups):
        return source
    from fairchain.populations.mixture import AveragePopulation

    return AveragePopulation(source, subgroups)


def _drawn(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike,
    people: People | None,
    function: Callable[..., Any] | None,
) -> Population:
    """The population by its kind."""
    match spec.population:
        case schema.Uniform():
            return UniformPopulation(spec, subgroups, dtype)
        case schema.Marginals():
            from fairchain.populations.marginals import MarginalPopulation

            return MarginalPopulation(spec, subgroups, people, dtype)
        case schema.Network():
            from fairchain.populations.bayes.population import BayesPopulation

            return BayesPopulation(spec, subgroups, dtype)
        case schema.Texts():
            from fairchain.populations.texts import TextPopulation

            return TextPopulation(spec, subgroups)
        case schema.Callable():
            if function is None:
                raise SpecError('population.kind: "callable" needs a Python function that draws people; give one')
            from fairchain.populations.functions import FunctionPopulation

            return FunctionPopulation(spec, subgroups, function, dtype)
        case _:
            raise ValueError("rows of a table are not drawn")

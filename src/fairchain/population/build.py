"""From a spec to the population it speaks of: by kind, then restricted by `given`, then with means of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from fairchain.errors import SpecError
from fairchain.population.uniform import UniformPopulation
from fairchain.spec import Spec, schema
from fairchain.spec.arms import EVERYBODY, Arm, unmixed

if TYPE_CHECKING:
    from fairchain.population.marginals import People
    from fairchain.population.rejection import Predicate, Source


def build_population(
    spec: Spec,
    arms: Sequence[Arm],
    dtype: DTypeLike = np.float32,
    *,
    people: People | None = None,
    function: Callable[..., Any] | None = None,
    predicate: Predicate | None = None,
) -> Source:
    """The population that a spec asks about, ready to draw rounds for these arms.

    Parameters
    ----------
    spec, arms
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
        If the population cannot be meant, or nobody in it belongs to an arm.
    """
    if function is not None and not isinstance(spec.population, schema.Callable):
        raise SpecError('population.kind: a function was given to draw people; write kind = "callable" or leave it out')
    if isinstance(spec.property, schema.Individual) and not _same_people(spec, predicate):
        from fairchain.population.intervened import IntervenedPopulation

        everybody = _built(spec, [Arm(EVERYBODY)], dtype, people, function, predicate)
        single = all(domain.size == 1 for arm in arms if arm.group for domain in arm.group.domains)
        values = None if single else _built(spec, arms, dtype, people, function, None)
        return IntervenedPopulation(spec, arms, everybody, values)
    return _built(spec, arms, dtype, people, function, predicate)


def sha256_of(population: Source) -> str | None:
    """Of the files that decide whom a population draws, where the spec only names them: a corpus and its words."""
    found: str | None = getattr(_innermost(population), "sha256", None)
    return found


def notes_of(population: Source) -> tuple[str, ...]:
    """What a user should know about the files of a population."""
    found: tuple[str, ...] = getattr(_innermost(population), "notes", ())
    return found


def _innermost(population: Source) -> Source:
    while hasattr(population, "source"):
        population = population.source
    return population


def _same_people(spec: Spec, predicate: Predicate | None) -> bool:
    """Whether a round shows the same person in every arm: where features are independent and nobody is left out.

    Of texts that is true of those in which terms are exchanged, and only these are asked about one by one.
    """
    return predicate is None and isinstance(spec.population, schema.Uniform | schema.Marginals | schema.Texts)


def _built(
    spec: Spec,
    arms: Sequence[Arm],
    dtype: DTypeLike,
    people: People | None,
    function: Callable[..., Any] | None,
    predicate: Predicate | None,
) -> Source:
    """By kind, then only those whom an arm accepts, then with means of groups."""
    plain = unmixed(arms)
    # A condition is decided on values as they were written, so candidates are drawn in double precision.
    source = _drawn(spec, plain, np.float64 if predicate is not None else dtype, people, function)
    if not getattr(source, "exact", True) and source.dtype != np.float64:
        source = _drawn(spec, plain, np.float64, people, function)
    if predicate is not None or not getattr(source, "exact", True):
        from fairchain.population.rejection import RejectionPopulation

        source = RejectionPopulation(source, predicate, plain, dtype=dtype)
    if not any(arm.mixed for arm in arms):
        return source
    from fairchain.population.average import AveragePopulation

    return AveragePopulation(source, arms)


def _drawn(
    spec: Spec, arms: Sequence[Arm], dtype: DTypeLike, people: People | None, function: Callable[..., Any] | None
) -> Source:
    """The population by its kind."""
    match spec.population:
        case schema.Uniform():
            return UniformPopulation(spec, arms, dtype)
        case schema.Marginals():
            from fairchain.population.marginals import MarginalPopulation

            return MarginalPopulation(spec, arms, people, dtype)
        case schema.Network():
            from fairchain.population.bayes import BayesPopulation

            return BayesPopulation(spec, arms, dtype)
        case schema.Texts():
            from fairchain.population.texts import TextPopulation

            return TextPopulation(spec, arms)
        case schema.Callable():
            if function is None:
                raise SpecError('population.kind: "callable" needs a Python function that draws people; give one')
            from fairchain.population.function import FunctionPopulation

            return FunctionPopulation(spec, arms, function, dtype)
        case _:
            raise ValueError("rows of a table are not drawn")

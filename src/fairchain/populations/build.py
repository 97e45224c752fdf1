"""From a spec to its population: by kind, then restricted by `given`, then with means of groups.

Also what must be known before: the nodes and terms of files that the spec names, and the groups that are large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import DTypeLike

from fairchain.errors import SpecError
from fairchain.populations.base import Population
from fairchain.populations.uniform import UniformPopulation
from fairchain.spec import (
    BayesNetwork,
    CategoryFeature,
    Group,
    Marginals,
    Spec,
    TextFeature,
    Texts,
    Uniform,
    groups_of,
    schema,
)
from fairchain.spec.files import is_file
from fairchain.spec.schema import Feature
from fairchain.spec.subgroups import OVERALL, Subgroup, subgroups_of_groups, unmixed

if TYPE_CHECKING:
    from fairchain.spec.conditions import Predicate
    from fairchain.tables import TableRows


def build_population(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike = np.float32,
    *,
    people: TableRows | None = None,
    function: Callable[..., Any] | None = None,
    predicate: Predicate | None = None,
) -> Population:
    """Build the population of a spec, ready to draw rounds for these subgroups.

    Parameters
    ----------
    spec, subgroups
        The question, and the subgroups to show inputs of.
    dtype
        Of the values that are shown.
    people
        Rows whose frequencies are taken, for `kind = "marginals"`.
    function
        Draws the inputs, for `kind = "callable"`.
    predicate
        Restricts the population to inputs for which it holds.

    Raises
    ------
    SpecError, DataError
        If the population is invalid, or a subgroup has probability 0.
    """
    if function is not None and not isinstance(spec.population, schema.Callable):
        raise SpecError('population.kind: a function was given to draw inputs; write kind = "callable" or leave it out')
    if isinstance(spec.property, schema.Individual) and not _same_inputs(spec, predicate):
        from fairchain.populations.intervention import IntervenedPopulation

        overall = _built(spec, [Subgroup(OVERALL)], dtype, people, function, predicate)
        single = all(domain.size == 1 for subgroup in subgroups if subgroup.group for domain in subgroup.group.domains)
        values = None if single else _built(spec, subgroups, dtype, people, function, None)
        return IntervenedPopulation(spec, subgroups, overall, values)
    return _built(spec, subgroups, dtype, people, function, predicate)


def _same_inputs(spec: Spec, predicate: Predicate | None) -> bool:
    """Whether a round shows the same input in every subgroup: with independent features and no condition.

    Of texts that is true of those in which terms are exchanged, and only these are asked about one by one.
    """
    return predicate is None and isinstance(spec.population, schema.Uniform | schema.Marginals | schema.Texts)


def _built(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike,
    people: TableRows | None,
    function: Callable[..., Any] | None,
    predicate: Predicate | None,
) -> Population:
    """Build by kind, then restrict to what a subgroup accepts, then add means of groups."""
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
    people: TableRows | None,
    function: Callable[..., Any] | None,
) -> Population:
    """The population by its kind."""
    match spec.population:
        case schema.Uniform():
            return UniformPopulation(spec, subgroups, dtype)
        case schema.Marginals():
            from fairchain.populations.marginals import MarginalPopulation

            return MarginalPopulation(spec, subgroups, people, dtype)
        case schema.BayesNetwork():
            from fairchain.populations.bayes.population import BayesPopulation

            return BayesPopulation(spec, subgroups, dtype)
        case schema.Texts():
            from fairchain.populations.texts import TextPopulation

            return TextPopulation(spec, subgroups)
        case schema.Callable():
            if function is None:
                raise SpecError('population.kind: "callable" needs a Python function that draws inputs; give one')
            from fairchain.populations.functions import FunctionPopulation

            return FunctionPopulation(spec, subgroups, function, dtype)
        case _:
            raise ValueError("rows of a table are not drawn")


def with_nodes(spec: Spec) -> Spec:
    """The same spec with the nodes of a network's file, and the terms of a list's, in place of the path."""
    if spec.text is not None:
        return replace(spec, described=tuple(map(_with_terms, spec.described)))
    if not isinstance(spec.population, BayesNetwork) or spec.population.path is None:
        return spec
    from fairchain.populations.bayes.graph import build_graph
    from fairchain.populations.bayes.reading import read_nodes

    nodes = read_nodes(spec.population)
    # Checked here, where a message can still name the file.
    build_graph(spec.features, nodes, spec.population.path)
    name = spec.population.name or Path(spec.population.path).name
    return replace(spec, population=BayesNetwork(nodes=nodes, name=name))


def _with_terms(feature: Feature | TextFeature) -> Feature | TextFeature:
    """A feature with the words of its values in place of the file that lists them."""
    if not isinstance(feature, CategoryFeature) or not is_file(feature.terms):
        return feature
    from fairchain.text.terms import NEUTRAL, lists_of, terms_of

    # Checked here, where a message can still name the file.
    terms_of(feature)
    used = {NEUTRAL, *map(str, feature.values)}
    return replace(feature, terms={value: words for value, words in lists_of(feature).items() if value in used})


Left = tuple[tuple[str, float], ...]


def _shares(spec: Spec, groups: tuple[Group, ...], people: TableRows | None) -> Sequence[float] | None:
    if isinstance(spec.population, Uniform | Marginals):
        from fairchain.populations.marginals import marginal_shares

        # A group with probability 0 has a share too, though it could not be drawn.
        return marginal_shares(spec, subgroups_of_groups(groups), people)
    if isinstance(spec.population, Texts):
        from fairchain.populations.texts import text_shares

        return text_shares(spec, groups)
    if not isinstance(spec.population, BayesNetwork):
        return None
    from fairchain.populations.bayes.population import network_shares

    return network_shares(spec, groups)


def large_enough(spec: Spec, people: TableRows | None = None) -> tuple[tuple[Group, ...], Left]:
    """The groups that reach `property.min_size`, and those that do not, with their share of the population."""
    groups, least = groups_of(spec), spec.property.min_size
    if least is None:
        return groups, ()
    shares = _shares(spec, groups, people)
    if shares is None:
        raise SpecError("property.min_size: the groups' shares cannot be computed for this population; leave it out")
    kept = tuple(group for group, share in zip(groups, shares, strict=True) if share >= least)
    if len(kept) < 2:
        raise SpecError(
            f"property.min_size: {least:g} leaves {len(kept)} of {len(groups)} groups, and two are needed; the largest "
            f"has a share of {max(shares):.3g}"
        )
    left_out = tuple((group.name, float(share)) for group, share in zip(groups, shares, strict=True) if share < least)
    return kept, left_out

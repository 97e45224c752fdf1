"""From a spec to its population: by kind, then restricted by `given`, then with means of groups.

This module also resolves the files with nodes and terms that the spec names, and the groups that are large enough.
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
from fairchain.populations.derived import AveragePopulation, IntervenedPopulation, RejectionPopulation
from fairchain.populations.uniform import UniformPopulation
from fairchain.spec import BayesNetwork, CategoryFeature, Group, Individual, Marginals, Spec, Texts, Uniform, groups_of
from fairchain.spec.documents import is_file
from fairchain.spec.population_keys import UserFunction
from fairchain.spec.subgroups import OVERALL, Subgroup, subgroups_of_groups, unmixed

if TYPE_CHECKING:
    from fairchain.spec.conditions import Predicate
    from fairchain.tables import TableRows
FUNCTION_NEEDED = 'population.kind: "callable" needs a Python function that draws inputs; give one'
FUNCTION_NOT_EXPECTED = 'population.kind: a function was given to draw inputs; write kind = "callable" or leave it out'
ROWS_TABLE_NOT_DRAWN = "rows of a table are not drawn"
TOO_FEW_GROUPS = (
    "property.min_size: {kept} of {groups} groups have at least {least}, and two are needed ({measure} of each group: "
    "{sizes}); {remedy}"
)
SHARES_UNKNOWN = "property.min_size: the groups' shares cannot be computed for this population; leave it out"


def build_population(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike = np.float32,
    *,
    rows: TableRows | None = None,
    function: Callable[..., Any] | None = None,
    predicate: Predicate | None = None,
) -> Population:
    """Build the population of a spec, ready to draw rounds for these subgroups, as values of type `dtype`.

    `rows` give the frequencies for `kind = "marginals"`, `function` draws the inputs for `kind = "callable"`, and
    `predicate` restricts the population to inputs for which it holds. Raises a SpecError or DataError if the population
    is invalid, or a subgroup has probability 0.
    """
    if function is not None and not isinstance(spec.population, UserFunction):
        raise SpecError(FUNCTION_NOT_EXPECTED)

    def drawn(subgroups: Sequence[Subgroup], predicate: Predicate | None) -> Population:
        """Draw by kind, then restrict to the accepted inputs of each subgroup, then add means of groups."""
        plain = unmixed(subgroups)
        # A condition is evaluated on unrounded values, so candidates are drawn in double precision; that on texts is
        # evaluated before a text is drawn.
        conditioned = not isinstance(spec.population, Texts) and (
            predicate is not None or any(each.group and each.group.condition for each in plain)
        )
        source = _by_kind(spec, plain, np.float64 if conditioned else dtype, rows, function)
        if not source.exact and source.dtype != np.float64:
            source = _by_kind(spec, plain, np.float64, rows, function)
        if conditioned or not source.exact:
            source = RejectionPopulation(source, predicate, plain, dtype=dtype)
        return AveragePopulation(source, subgroups) if any(each.mixed for each in subgroups) else source

    # With independent features and no condition, a round shows the same input in every subgroup anyway. The same holds
    # for texts: individual fairness is compared only if terms are exchanged, and conditions are evaluated before a text
    # is drawn.
    same = isinstance(spec.population, Texts) or (
        predicate is None and isinstance(spec.population, Uniform | Marginals)
    )
    if not isinstance(spec.property, Individual) or same:
        return drawn(subgroups, predicate)
    single = all(domain.size == 1 for subgroup in subgroups if subgroup.group for domain in subgroup.group.domains)
    overall = drawn([Subgroup(OVERALL)], predicate)
    return IntervenedPopulation(spec, subgroups, overall, None if single else drawn(subgroups, None))


def _by_kind(
    spec: Spec,
    subgroups: Sequence[Subgroup],
    dtype: DTypeLike,
    rows: TableRows | None,
    function: Callable[..., Any] | None,
) -> Population:
    match spec.population:
        case Uniform():
            return UniformPopulation(spec, subgroups, dtype)
        case Marginals():
            from fairchain.populations.marginals import MarginalPopulation

            return MarginalPopulation(spec, subgroups, rows, dtype)
        case BayesNetwork():
            from fairchain.populations.bayes.population import BayesPopulation

            return BayesPopulation(spec, subgroups, dtype)
        case Texts():
            from fairchain.populations.text_rows import TextRows, read_texts

            texts = rows if isinstance(rows, TextRows) else read_texts(spec)
            return texts.population_of(subgroups)
        case UserFunction():
            if function is None:
                raise SpecError(FUNCTION_NEEDED)
            from fairchain.populations.functions import FunctionPopulation

            return FunctionPopulation(spec, subgroups, function, dtype)
        case _:
            raise ValueError(ROWS_TABLE_NOT_DRAWN)


def with_nodes(spec: Spec) -> Spec:
    """Return the spec with the nodes of a network's file, and the terms of a list's file, instead of the path.

    They are checked here, where a message can still name the file.
    """
    if spec.text is not None:
        from fairchain.text.terms import NEUTRAL, lists_of, terms_of

        described = list(spec.described)
        for place, feature in enumerate(described):
            if isinstance(feature, CategoryFeature) and is_file(feature.terms):
                terms_of(feature, raw=spec.text.raw)
                used = {NEUTRAL, *map(str, feature.values)}
                terms = {value: words for value, words in lists_of(feature).items() if value in used}
                described[place] = replace(feature, terms=terms)
        return replace(spec, described=tuple(described))
    network = spec.population
    if not isinstance(network, BayesNetwork) or network.path is None:
        return spec
    from fairchain.populations.bayes.graph import build_graph
    from fairchain.populations.bayes.reading import read_nodes

    nodes = read_nodes(network)
    build_graph(spec.features, nodes, network.path)
    return replace(spec, population=BayesNetwork(nodes=nodes, name=network.name or Path(network.path).name))


# Names and shares of the groups that are left out; for texts their number.
Left = tuple[tuple[str, float], ...]


def large_enough(spec: Spec, rows: TableRows | None = None) -> tuple[tuple[Group, ...], Left]:
    """Return the groups that reach `property.min_size`, and the others with their share of the population."""
    groups, least = groups_of(spec), spec.property.min_size
    if least is None:
        return groups, ()
    shares: Sequence[float] | None = None
    match spec.population:
        case Uniform() | Marginals():
            from fairchain.populations.marginals import marginal_shares

            # A group with probability 0 also has a share, although it could not be drawn.
            shares = marginal_shares(spec, subgroups_of_groups(groups), rows)
        case Texts():
            from fairchain.populations.text_rows import TextRows, text_sizes

            assert isinstance(rows, TextRows)
            shares = text_sizes(spec, rows, groups)
            least = least if least >= 1 else least * len(rows.values)
        case BayesNetwork():
            from fairchain.populations.bayes.population import network_shares

            shares = network_shares(spec, groups)
    if shares is None:
        raise SpecError(SHARES_UNKNOWN)
    sized = list(zip(groups, shares, strict=True))
    kept = tuple(group for group, share in sized if share >= least)
    if len(kept) < 2:
        texts = spec.text is not None
        raise SpecError(
            TOO_FEW_GROUPS.format(
                least=f"{spec.property.min_size:g}",
                kept=len(kept),
                groups=len(groups),
                measure="texts" if texts else "share",
                sizes=", ".join(f"{group.name} {share:{',.0f' if texts else '.3g'}}" for group, share in sized[:10]),
                remedy="check the terms and the column of the texts" if texts else "lower min_size",
            )
        )
    return kept, tuple((group.name, float(share)) for group, share in sized if share < least)

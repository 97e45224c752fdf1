"""Which properties, populations and guarantees go together; each refusal gives the reason and the remedy."""

from __future__ import annotations

from fairchain.errors import SpecError
from fairchain.spec.schema import Difference, Individual, Marginals, Network, Ratio, Spec, Table


def check_combinations(spec: Spec) -> None:
    """Raise a SpecError for keys that are right by themselves and mean nothing together."""
    _check_source(spec)
    if isinstance(spec.property, Individual):
        _check_individual(spec)
    else:
        _check_rates(spec)
    _check_size(spec)
    _check_guarantee(spec)


def _check_source(spec: Spec) -> None:
    """Where people and decisions come from."""
    population = spec.population
    if isinstance(population, Marginals) and population.path is None and not population.frequencies:
        raise SpecError(
            'population: has neither path nor frequencies; name a table, path = "people.csv", or state '
            "frequencies = {sex = {Female = 0.5, Male = 0.5}}"
        )
    if isinstance(population, Network) and (population.path is None) == (not population.nodes):
        found = "both path and nodes" if population.nodes else "neither path nor nodes"
        raise SpecError(f'population: has {found}; name a file, path = "people.bif", or state [[population.nodes]]')


def _check_individual(spec: Spec) -> None:
    population = spec.population
    if isinstance(population, Table) and population.prediction is not None:
        raise SpecError(
            'property.kind: "individual" asks the network about the same person as another group, and recorded '
            "decisions cannot be asked; remove population.prediction and give the network"
        )
    if isinstance(population, Table) and population.reading == "sample" and spec.property.min_size is not None:
        # Ignored, more groups than the user wants would be compared; used, the rows would choose their own question.
        raise SpecError(
            'property.min_size: kind = "individual" shows every row of a sample as each group, so sizes in these rows '
            "must not choose the groups; remove min_size, and name the groups to compare in groups of the [[feature]]"
        )


def _check_rates(spec: Spec) -> None:
    asked, population = spec.property, spec.population
    assert isinstance(asked, Difference | Ratio)
    if asked.criterion == "demographic_parity":
        return
    if not isinstance(population, Table):
        raise SpecError(
            f'property.criterion: "{asked.criterion}" needs people whose true label is known; '
            'use [population] kind = "table" with label = "..."'
        )
    if population.label is None:
        raise SpecError(
            f'property.criterion: "{asked.criterion}" needs the true labels; add label = "..." to [population]'
        )


def _check_size(spec: Spec) -> None:
    size = spec.property.min_size
    if size is None:
        return
    if size >= 1 and not isinstance(spec.population, Table):
        raise SpecError(
            f"property.min_size: {size:g} rows, and there is no table; write a share of the population below 1, "
            "for example min_size = 0.01"
        )
    if size > 1 and size != int(size):
        raise SpecError(f"property.min_size: found {size:g}; write a whole number of rows, or a share below 1")


def _check_guarantee(spec: Spec) -> None:
    guarantee, asked = spec.guarantee, spec.property
    if guarantee.epsilon is not None and isinstance(spec.population, Table):
        raise SpecError(
            "guarantee.epsilon: the rows there are decide how exact an answer can be; leave it out for a table"
        )
    if guarantee.epsilon is not None and isinstance(asked, Ratio) and guarantee.rule != "paper":
        raise SpecError(
            'guarantee.epsilon: estimate mode is about differences; leave it out for kind = "ratio", which comes '
            'with its interval, or use kind = "difference"'
        )
    if guarantee.rule != "paper":
        return
    plain = isinstance(asked, Difference) and asked.compare == "groups" and asked.given is None
    if not plain or isinstance(spec.population, Table):
        raise SpecError(
            'guarantee.rule: "paper" knows differences between groups of drawn people only; use rule = "betting"'
        )

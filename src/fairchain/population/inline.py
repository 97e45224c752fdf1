"""A Bayesian network's file read into the spec, so that what is verified and certified stands in one place."""

from __future__ import annotations

from msgspec.structs import replace

from fairchain.spec import Network, Spec


def with_nodes(spec: Spec) -> Spec:
    """The same spec with the nodes of its network's file in place of the path; any other spec as it is."""
    if not isinstance(spec.population, Network) or spec.population.path is None:
        return spec
    from fairchain.population.bayes import read_nodes

    return replace(spec, population=Network(nodes=tuple(read_nodes(spec.population))))

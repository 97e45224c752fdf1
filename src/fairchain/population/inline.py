"""A Bayesian network's file read into the spec, so that what is verified and certified stands in one place."""

from __future__ import annotations

from msgspec.structs import replace

from fairchain.spec import Network, Spec


def with_nodes(spec: Spec) -> Spec:
    """The same spec with the nodes of its network's file in place of the path; any other spec as it is."""
    if not isinstance(spec.population, Network) or spec.population.path is None:
        return spec
    from fairchain.population.bayes import read_nodes
    from fairchain.population.bayes_graph import build_graph

    nodes = read_nodes(spec.population)
    # Checked here, where a message can still name the file.
    build_graph(spec.features, nodes, spec.population.path)
    return replace(spec, population=Network(nodes=nodes))

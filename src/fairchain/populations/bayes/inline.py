"""Small files read into the spec, so that what is verified and certified stands in one place."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from fairchain.spec import CategoryFeature, Network, Spec, TextFeature
from fairchain.spec.files import is_file
from fairchain.spec.schema import Feature


def with_nodes(spec: Spec) -> Spec:
    """The same spec with the nodes of a network's file, and the terms of a list's, in place of the path."""
    if spec.text is not None:
        return replace(spec, described=tuple(map(_with_terms, spec.described)))
    if not isinstance(spec.population, Network) or spec.population.path is None:
        return spec
    from fairchain.populations.bayes.graph import build_graph
    from fairchain.populations.bayes.reading import read_nodes

    nodes = read_nodes(spec.population)
    # Checked here, where a message can still name the file.
    build_graph(spec.features, nodes, spec.population.path)
    name = spec.population.name or Path(spec.population.path).name
    return replace(spec, population=Network(nodes=nodes, name=name))


def _with_terms(feature: Feature | TextFeature) -> Feature | TextFeature:
    """A feature with the words of its values in place of the file they stand in."""
    if not isinstance(feature, CategoryFeature) or not is_file(feature.terms):
        return feature
    from fairchain.text.terms import NEUTRAL, lists_of, terms_of

    # Checked here, where a message can still name the file.
    terms_of(feature)
    used = {NEUTRAL, *map(str, feature.values)}
    return replace(feature, terms={value: words for value, words in lists_of(feature).items() if value in used})

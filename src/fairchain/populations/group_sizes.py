"""Groups that are too small a share of the population to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairchain.errors import SpecError
from fairchain.spec import Group, Marginals, Network, Spec, Texts, Uniform, groups_of
from fairchain.spec.subgroups import subgroups_of_groups

if TYPE_CHECKING:
    from fairchain.tables import People

Left = tuple[tuple[str, float], ...]


def _shares(spec: Spec, groups: tuple[Group, ...], people: People | None) -> Sequence[float] | None:
    if isinstance(spec.population, Uniform | Marginals):
        from fairchain.populations.marginals import marginal_shares

        # A group that nobody belongs to has a share too, though it could not be drawn.
        return marginal_shares(spec, subgroups_of_groups(groups), people)
    if isinstance(spec.population, Texts):
        from fairchain.populations.texts import text_shares

        return text_shares(spec, groups)
    if not isinstance(spec.population, Network):
        return None
    from fairchain.populations.bayes.population import network_shares

    return network_shares(spec, groups)


def large_enough(spec: Spec, people: People | None = None) -> tuple[tuple[Group, ...], Left]:
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

"""What a number's preprocessing keys must agree on: step, bins, one_hot and scale.

Only what the spec alone can tell; what the network's inputs can hold is checked when the network is loaded. Applying
the keys is the business of `model.feed`.
"""

from __future__ import annotations

import math
from itertools import pairwise

from fairchain.errors import SpecError
from fairchain.spec.schema import CategoryFeature, Feature, Scale

# The largest whole number up to which doubles hold every one.
MOST_EXACT = 2**53
MOST_BINS = 10_000


def check_preprocessing(feature: Feature) -> None:
    """Raise a SpecError for the first preprocessing key of a feature that cannot be meant."""
    if isinstance(feature, CategoryFeature):
        return
    where = f'feature "{feature.name}"'
    if feature.one_hot and feature.bins is None:
        raise SpecError(
            f"{where}.one_hot: a number has no values to span inputs with; state its bins = [...] too, "
            'or make it kind = "category"'
        )
    if feature.bins is not None:
        if feature.step is not None or feature.scale is not None:
            other = "step" if feature.step is not None else "scale"
            raise SpecError(f"{where}: bins and {other} exclude each other; keep one")
        _check_bins(f"{where}.bins", feature.bins)
    if feature.step is not None:
        _check_step(f"{where}.step", feature.step, max(abs(feature.low), abs(feature.high)))
    if feature.scale is not None:
        _check_scale(f"{where}.scale", feature.scale)


def _check_bins(where: str, edges: tuple[float, ...]) -> None:
    if not edges:
        raise SpecError(f"{where}: no edges; list at least one, for example bins = [25, 40, 60]")
    if len(edges) > MOST_BINS:
        raise SpecError(f"{where}: {len(edges)} edges are more than {MOST_BINS}; use step = ... for even bins")
    for edge in edges:
        if not abs(edge) <= MOST_EXACT:
            raise SpecError(f"{where}: found {edge}; every edge must be a finite number, at most 2**53")
    for one, other in pairwise(edges):
        if one >= other:
            raise SpecError(f"{where}: {other:g} follows {one:g}; write every edge once, the smallest first")


def _check_step(where: str, step: float, largest: float) -> None:
    if not math.isfinite(step):
        raise SpecError(f"{where}: found {step}; write a finite number, for example step = 10")
    if not largest / step <= MOST_EXACT:
        raise SpecError(f"{where}: {step:g} fits more than 2**53 times into the feature's range; write a larger step")


def _check_scale(where: str, scale: Scale) -> None:
    given = {key for key in ("mean", "std", "low", "high") if getattr(scale, key) is not None}
    if given not in ({"mean", "std"}, {"low", "high"}):
        found = ", ".join(key for key in ("mean", "std", "low", "high") if key in given) or "nothing"
        raise SpecError(
            f"{where}: found {found}; write both of {{mean = ..., std = ...}} or both of {{low = ..., high = ...}}"
        )
    for key in sorted(given):
        if not math.isfinite(getattr(scale, key)):
            raise SpecError(f"{where}.{key}: found {getattr(scale, key)}; write a finite number")
    if scale.low is not None and scale.high is not None:
        if scale.high <= scale.low:
            raise SpecError(f"{where}: high {scale.high:g} is not above low {scale.low:g}; what is low becomes 0")
        if not math.isfinite(scale.high - scale.low):
            raise SpecError(f"{where}: the range is wider than any number; narrow it")

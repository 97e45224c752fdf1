"""Frequencies that a spec states for a feature, read as the law they make, or refused with the key and the remedy.

Shares are read to six decimals and then taken as whole numbers, so that what is drawn is exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from fairchain.errors import SpecError
from fairchain.messages import suggest
from fairchain.populations.distributions import Counted, Law, Range, Ranges
from fairchain.spec import CategoryFeature, Domain, Feature, domain_of
from fairchain.spec.schema import Piece

# Shares are read in millionths, and must sum to 1 within one of them (with room for the rounding of a float sum).
UNIT = 10**6
SLACK = 1.000001e-6

Stated = Mapping[str, float] | Sequence[Piece]


def stated_law(feature: Feature, stated: Stated) -> Law:
    """The law of a feature whose frequencies stand in the spec.

    Raises
    ------
    SpecError
        If a value does not exist, a share is no probability, pieces overlap, or the shares do not sum to 1.
    """
    where = f"population.frequencies.{feature.name}"
    domain = domain_of(feature)
    if isinstance(stated, Mapping):
        if domain.real:
            raise SpecError(f"{where}: a single real value has probability 0; write pieces [[low, high, share], ...]")
        return _listed(where, feature, stated)
    if isinstance(feature, CategoryFeature):
        example = f'{{"{feature.values[0]}" = 0.5, ...}}'
        raise SpecError(f"{where}: pieces are for numbers; write the share of each value: {example}")
    return _pieces(where, domain, stated)


def _listed(where: str, feature: Feature, stated: Mapping[str, float]) -> Counted:
    """Values with a share each; a value that is not named has none."""
    values = [_value(where, feature, key) for key in stated]
    if len(set(values)) != len(values):
        raise SpecError(f"{where}: a value stands twice; give each value one share")
    counts = _counts([(f"{where}.{key}", share) for key, share in stated.items()], where)
    order = np.argsort(values)
    return Counted(np.array(values, np.float64)[order], np.array(counts, np.int64)[order])


def _value(where: str, feature: Feature, key: str) -> int:
    """The value that a key stands for: the index of a category, or a whole number."""
    if isinstance(feature, CategoryFeature):
        names = [str(value) for value in feature.values]
        if key not in names:
            raise SpecError(f'{where}: "{key}" is not one of the feature\'s values; {suggest(key, names)}')
        return names.index(key)
    domain = domain_of(feature)
    if not re.fullmatch(r"-?[0-9]{1,18}", key) or not domain.contains(int(key)):
        raise SpecError(
            f'{where}: "{key}" is not a whole number in the feature\'s range [{domain.low:g}, {domain.high:g}]'
        )
    return int(key)


def _pieces(where: str, domain: Domain, stated: Sequence[Piece]) -> Ranges:
    """Ranges with a share each, in order."""
    for piece in stated:
        _check_piece(f"{where}: {_shown(piece)}", domain, piece)
    counts = _counts([(f"{where}: {_shown(piece)}", piece[2]) for piece in stated], where)
    in_order = sorted(zip(stated, counts, strict=True), key=lambda both: both[0][:2])
    for (one, _), (other, _) in pairwise(in_order):
        if other[0] < one[1] or (other[0] == one[1] and not domain.real):
            raise SpecError(f"{where}: {_shown(one)} and {_shown(other)} overlap; give every number to one piece")
    parts = (Range(piece[0], piece[1], Fraction(count)) for piece, count in in_order if count)
    return Ranges(tuple(parts), domain.real)


def _check_piece(where: str, domain: Domain, piece: Piece) -> None:
    low, high, _ = piece
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpecError(f"{where} has an end that is no finite number; write [low, high, share]")
    if low > high or (domain.real and low == high):
        raise SpecError(f"{where} has no room between low and high; write [low, high, share] with low below high")
    if not domain.real and (low != int(low) or high != int(high)):
        raise SpecError(f"{where}: the ends of a piece of an integer feature must be whole numbers, both included")
    if low < domain.low or high > domain.high:
        raise SpecError(
            f"{where} leaves the feature's range [{domain.low:g}, {domain.high:g}]; "
            "narrow the piece or widen the feature"
        )


def _counts(shares: Sequence[tuple[str, float]], where: str) -> list[int]:
    """Shares as whole millionths, not all zero."""
    for key, share in shares:
        if not 0 <= share <= 1:
            raise SpecError(f"{key}: a share lies between 0 and 1, found {share:g}")
        if 0 < share < 0.5 / UNIT:
            raise SpecError(f"{key}: shares are read to six decimals, and {share:g} would be 0; write 0 or 0.000001")
    total = math.fsum(share for _, share in shares)
    if not abs(total - 1) <= SLACK:
        raise SpecError(f"{where}: the shares sum to {total:.7g}; they must sum to 1 to six decimals")
    return [round(share * UNIT) for _, share in shares]


def _shown(piece: Piece) -> str:
    return f"[{piece[0]:g}, {piece[1]:g}, {piece[2]:g}]"

"""Answers worked out by hand, as fractions: every operator on a chain small enough for paper."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from fairchain.chain import Chain
from fairchain.pctl import check_chain
from tests.pctl.builders import chain_of


def gambler() -> Chain:
    """0 -> 1 with 1/3, -> 2 with 2/3; 1 -> 0 with 1/2, -> won with 1/2; 2 -> 2 with 1/4, -> lost with 3/4."""
    third, half, quarter = 1 / 3, 1 / 2, 1 / 4
    rows = [{1: third, 2: 2 * third}, {0: half, 3: half}, {2: quarter, 4: 1 - quarter}, {3: 1.0}, {4: 1.0}]
    return chain_of(rows, {"here": [0], "one": [1], "two": [2], "won": [3], "lost": [4]})


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        # From 0: w = 1/3 (w/2 + 1/2), so w = 1/6 + w/6 and w = 1/5.
        ('P=? [ F "won" ]', Fraction(1, 5)),
        ('P=? [ F "lost" ]', Fraction(4, 5)),
        ('P=? [ X "two" ]', Fraction(2, 3)),
        ('P=? [ X "won" ]', Fraction(0)),
        # At the second step: from 1 won with 1/2; from 2 lost with 3/4.
        ('P=? [ F<=2 "won" ]', Fraction(1, 6)),
        ('P=? [ F<=2 "lost" ]', Fraction(1, 2)),
        # 0 1 0 1 won is the only way to win in exactly four steps.
        ('P=? [ F<=4 "won" ]', Fraction(1, 6) + Fraction(1, 36)),
        # Never lost is the same as won.
        ('P=? [ G !"lost" ]', Fraction(1, 5)),
        # Never two: win without it, which is winning at all.
        ('P=? [ G !"two" ]', Fraction(1, 5)),
        # In the first two steps no loss: 1 - 1/2.
        ('P=? [ G<=2 !"lost" ]', Fraction(1, 2)),
        # Winning without coming back to 0 after the first step: one step to 1, then won.
        ('P=? [ X (P>=1 [ F "won" ]) ]', Fraction(0)),
        ('P=? [ !"two" U "won" ]', Fraction(1, 5)),
        ('P=? [ (!"one") U "lost" ]', Fraction(2, 3)),
        ('P=? [ (!"two") U<=2 "won" ]', Fraction(1, 6)),
        # Weak until: not two for ever, or until lost; lost needs two, so only winning is left.
        ('P=? [ !"two" W "lost" ]', Fraction(1, 5)),
        ('S=? [ "won" ]', Fraction(1, 5)),
        ('S=? [ "lost" ]', Fraction(4, 5)),
        # Steps to an end: s0 = 1 + s1/3 + 2/3 s2, s1 = 1 + s0/2, s2 = 4/3; s0 = 20/9 + s0/6, so s0 = 8/3.
        ('R=? [ F ("won" | "lost") ]', Fraction(8, 3)),
    ],
)
def test_each_operator_gives_the_fraction_of_hand_and_paper(formula: str, expected: Fraction) -> None:
    value = check_chain(gambler(), formula).value
    assert value == pytest.approx(float(expected), abs=1e-14)


def test_steps_to_what_may_never_come_are_infinite() -> None:
    assert check_chain(gambler(), 'R=? [ F "won" ]').value == math.inf

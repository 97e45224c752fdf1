"""Our engine against Storm: every operator on 200 random chains, from every state, within 1e-6."""

from __future__ import annotations

import importlib.util
import os
from unittest.mock import patch

import numpy as np
import pytest

from fairchain.errors import QueryError
from fairchain.pctl import check_chain
from fairchain.pctl.equations import TOO_LARGE_TO_FACTORISE
from tests.messages import says
from tests.pctl.builders import clustered, random_chain

if importlib.util.find_spec("stormpy") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"):
    pytest.skip("stormpy is not installed: pip install stormpy", allow_module_level=True)

FORMULAS = [
    'P=? [ X "b" ]',
    'P=? [ F "a" ]',
    'P=? [ G "c" ]',
    'P=? [ "c" U "a" ]',
    'P=? [ F<=7 "a" ]',
    'P=? [ G<=4 "c" ]',
    'P=? [ "b" U<=5 "a" ]',
    'P=? [ F P>=0.5 [ X "b" ] ]',
    'P=? [ ("b" | !"c") U ("a" & "c") ]',
    'S=? [ "b" ]',
    'R=? [ F "b" ]',
    'P>=0.3 [ F "a" ]',
]


@pytest.mark.parametrize("part", range(4))
def test_every_operator_agrees_with_storm(part: int) -> None:
    """Sizes from 2 to 2000, most of them small; loops, absorbing classes, unreachable parts, states never left."""
    sizes = [2, 3, 5, 8, 12, 20, 30, 50, 80, 120] * 4 + [10, 15, 25, 40, 60, 90, 150, 200, 250]
    sizes.append(2000 if part == 0 else 400)
    assert len(sizes) == 50
    for number, size in enumerate(sizes):
        chain = random_chain(np.random.default_rng(1000 * part + number), size)
        for formula in FORMULAS:
            ours, theirs = (
                np.asarray(check_chain(chain, formula, engine=engine).values, float) for engine in ("own", "storm")
            )
            where = f"part {part}, chain {number}, {formula}"
            assert np.array_equal(np.isinf(ours), np.isinf(theirs)), where
            finite = np.isfinite(ours)
            assert np.allclose(ours[finite], theirs[finite], atol=1e-6, rtol=1e-6), where


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("eliminated", [50, 1000])
def test_clusters_agree_with_storm(ahead: bool, eliminated: int) -> None:
    """Six of 60 states, each for itself or as one component, by factors and by elimination."""
    chain = clustered(6, 60, ahead=ahead)
    for formula in ('P=? [ F "left" ]', 'P=? [ G !"odd" ]', 'S=? [ "right" ]', 'R=? [ F ("left" | "right") ]'):
        with patch("fairchain.pctl.equations.ELIMINATED", eliminated):
            ours = check_chain(chain, formula).values
        theirs = check_chain(chain, formula, engine="storm").values
        np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=1e-6, err_msg=formula)


def test_storm_answers_what_our_engine_leaves_to_it() -> None:
    chain = clustered(6, 60, ahead=False)
    expected = check_chain(chain, 'P=? [ F "left" ]').values
    with patch.multiple("fairchain.pctl.equations", ELIMINATED=50, MOST_FACTORISING=1e3):
        with pytest.raises(QueryError, match=says(TOO_LARGE_TO_FACTORISE)):
            check_chain(chain, 'P=? [ F "left" ]')
        answer = check_chain(chain, 'P=? [ F "left" ]', engine="storm")
    np.testing.assert_allclose(answer.values, expected, atol=1e-6)

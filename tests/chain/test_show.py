"""Promises: `print(chain)` is a table that a person can read, and no name in it can do harm."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from hypothesis import given, settings

from fairchain.chain import Chain
from fairchain.chain.display import chain_html, chain_table, probability_digits
from tests.chain.test_formats import chains, made

LEARNED = replace(
    made(
        [{1: 0.3, 2: 0.7}, {3: 0.412, 4: 0.588}, {3: 0.9996, 4: 0.0004, 5: 0}, {6: 1}, {6: 1}, {6: 1}, {6: 1}],
        states=("Start", "sex=Female", "sex=Male", "layer3[2] off", "layer3[2] on", "layer3[2] odd", "Y=yes"),
        unvisited=frozenset({5}),
        metadata={
            "kind": "shared",
            "estimator": "frequency",
            "rounds": 20000,
            "fidelity": {
                "estimate": 0.0123,
                "low": 0.001,
                "high": 0.02,
                "group": "sex=Male",
                "label": "yes",
                "rounds": 9,
            },
        },
    ),
    low=np.array([0.3, 0.7, 0.38, 0.55, 0.99, 0.0001, 0, 1, 1, 1, 1]),
    high=np.array([0.3, 0.7, 0.44, 0.62, 0.9999, 0.002, 0.0031, 1, 1, 1, 1]),
    counts=np.array([1, 1, 1021, 1457, 9996, 4, 0, 0, 0, 0, 0]),
)


def test_the_table_has_a_heading_and_the_transitions_of_each_state() -> None:
    assert chain_table(LEARNED).splitlines() == [
        "Markov chain (shared, frequency): 7 states, 10 transitions, 20,000 rounds, 1 state never seen; fidelity Phi "
        "= 0.012 [0.001, 0.020], the error of P(label | group) for sex=Male and yes",
        "Start         -> sex=Female    0.300",
        "              -> sex=Male      0.700",
        "sex=Female    -> layer3[2] off 0.412 [0.380, 0.440] (n=1021)",
        "              -> layer3[2] on  0.588 [0.550, 0.620] (n=1457)",
        "sex=Male      -> layer3[2] off 0.9996 [0.990, 0.9999] (n=9996)",
        "              -> layer3[2] on  4.00e-04 [1.00e-04, 0.002] (n=4)",
        "              -> 1 never observed, each at most 0.003",
        "layer3[2] off -> Y=yes         1.000",
        "layer3[2] on  -> Y=yes         1.000",
        "layer3[2] odd was never visited: its transitions are placeholders",
        "Y=yes stays",
    ]


def test_a_long_table_says_that_it_goes_on() -> None:
    lines = chain_table(LEARNED, most=3).splitlines()
    assert len(lines) == 5
    assert lines[-1] == "... and the rest of 6 states; chain_table(chain, most=None) shows all"
    assert "... and the rest" in chain_html(LEARNED, most=3)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.000"), (1, "1.000"), (0.1234, "0.123"), (1e-9, "1.00e-09"), (0.99999, "0.99999")]
)
def test_what_is_neither_0_nor_1_is_not_shown_so(value: float, shown: str) -> None:
    assert probability_digits(value) == shown


def test_a_notebook_shows_the_same_lines() -> None:
    shown = chain_html(LEARNED)
    assert unescape(shown.removeprefix("<pre>").removesuffix("</pre>")) == chain_table(LEARNED)
    assert "-&gt; layer3[2] off" in shown


@given(chains())
@settings(max_examples=50)
def test_no_name_breaks_a_line_or_a_page(chain: Chain) -> None:
    table = chain_table(chain)
    assert all(line.isprintable() for line in table.split("\n"))
    assert len(table.split("\n")) <= 2 + 60
    cell = chain_html(replace(chain, states=("<b>&\x1b[31m", *chain.states[1:]))) if "<b>&" not in chain.states else ""
    assert "<b>&" not in cell
    assert "\x1b" not in cell


@pytest.mark.parametrize("fidelity", [None, 3, "x", {}, {"estimate": "x", "low": 0, "high": 1}, [1, 2]])
def test_a_foreign_about_is_passed_over(fidelity: object) -> None:
    metadata = {"kind": 7, "rounds": "many", "fidelity": fidelity}
    assert chain_table(made([{0: 1}], metadata=metadata)) == "Markov chain: 1 state, 1 transition\ns=0 stays"

"""The two chains that the paper prints, and what docs/chains.md says about them."""

from __future__ import annotations

import pytest

from fairchain.chain import Chain
from fairchain.pctl import check_chain
from tests.pctl.builders import chain_of

RNN = {
    "Start": {"W": 0.36, "B": 0.49, "O": 0.15},
    "W": {"h1": 1},
    "B": {"h1": 0.99, "h2": 0.01},
    "O": {"h1": 1},
    "h1": {"h1": 0.3, "h2": 0.67, "T": 0.01, "NT": 0.02},
    # The row sums to 0.9988; what is missing is put on the loop, which changes no probability of a label.
    "h2": {"h1": 0.03, "h2": 0.96 + 0.0012, "T": 0.0002, "NT": 0.0086},
    "T": {"T": 1},
    "NT": {"NT": 1},
}
CENSUS = {
    "Start": {"M": 0.4982, "F": 0.5018},
    "M": {">50K": 0.8796, "<=50K": 0.1204},
    "F": {">50K": 0.8483, "<=50K": 0.1517},
    ">50K": {">50K": 1},
    "<=50K": {"<=50K": 1},
}


def named(rows: dict[str, dict[str, float]]) -> Chain:
    """The chain of these rows, each scaled to 1."""
    number = {name: place for place, name in enumerate(rows)}
    scaled = [{number[to]: p / sum(row.values()) for to, p in row.items()} for row in rows.values()]
    return chain_of(scaled, {name: [place] for name, place in number.items()})


def test_the_first_chain_says_what_the_text_says() -> None:
    chain = named(CENSUS)
    answers = [check_chain(chain, 'P=? [ F ">50K" ]', start=f"s{place}").value for place in (1, 2)]
    assert answers == pytest.approx([0.8796, 0.8483])
    assert check_chain(chain, 'gap=? [ F ">50K" ] over "M", "F"').value == pytest.approx(0.0313)


def test_in_the_second_two_groups_must_be_equal_and_a_row_is_short() -> None:
    assert sum(RNN["h2"].values()) == pytest.approx(1)
    chain = named(RNN)
    toxic = [check_chain(chain, 'P=? [ F "T" ]', start=f"s{place}").value for place in (1, 2, 3)]
    assert toxic == pytest.approx([0.0739377, 0.0738215, 0.0739377], abs=1e-6)
    assert toxic[0] == toxic[2]
    assert check_chain(chain, 'R=? [ F ("T" | "NT") ]', start="s1").value == pytest.approx(101.397, abs=0.01)

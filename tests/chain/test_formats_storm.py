"""Promises: Storm reads what is written and answers as the chain does, and what Storm writes is read."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.chain import Chain
from fairchain.chain.formats import read_chain, write_chain
from fairchain.chain.formats.drn import NOT_A_DTMC
from fairchain.chain.formats.reading import identifiers_of
from fairchain.errors import ChainError
from tests.chain.test_formats import made
from tests.messages import says

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("stormpy") is None and not os.environ.get("FAIRCHAIN_NO_SKIP"),
    reason="needs the storm extra",
)
LABELS = ("sex=Female", "Y=>50K", "layer3[2] off", "F", "init", "größe", 'a "b" c', "7 & 8")


def random_chain(seed: int, size: int = 12) -> Chain:
    """A chain with loops, absorbing states, transitions of probability 0, bounds, and labels that need renaming."""
    dice = np.random.default_rng(seed)
    rows = []
    for state in range(size):
        targets = dice.choice(size, dice.integers(1, 5), replace=False) if state < size - 2 else [state]
        weights = dice.random(len(targets)) * (np.arange(len(targets)) != 2) + 1e-9 * (np.arange(len(targets)) != 2)
        rows.append(
            {int(target): float(weight) for target, weight in zip(targets, weights / weights.sum(), strict=True)}
        )
    labels = {
        label: frozenset({size - 1 - place, *dice.integers(0, size, 2).tolist()}) for place, label in enumerate(LABELS)
    }
    labels["Y=>50K"] = frozenset({size - 1})
    chain = made(
        rows, states=tuple(f"state\t{number}" for number in range(size)), labels=labels, initial=int(dice.integers(3))
    )
    low, high = chain.probabilities * 0.5, np.minimum(chain.probabilities * 2 + 0.01, 1)
    return Chain(**{**vars_of(chain), "low": low, "high": high})


def vars_of(chain: Chain) -> dict[str, Any]:
    names = ("states", "sources", "targets", "probabilities", "labels", "initial")
    return {name: getattr(chain, name) for name in names}


def reached(chain: Chain, states: frozenset[int]) -> float:
    """P(F states) from the start, by 2**30 steps."""
    steps = chain.matrix.toarray()
    steps[list(states)] = np.eye(len(chain))[list(states)]
    for _ in range(30):
        steps = steps @ steps
    return float(steps[chain.initial, list(states)].sum())


def answer(model: Any, label: str, path: str = "F", **options: Any) -> float:
    import stormpy

    formula = stormpy.parse_properties(f'P=? [{path} "{label}"]')[0]
    value: float = stormpy.model_checking(model, formula, **options).get_value(model.initial_states[0])
    return value


def rows_of(model: Any) -> Iterator[tuple[int, int, float]]:
    for state in range(model.nr_states):
        for entry in model.transition_matrix.get_row(state):
            yield state, entry.column, entry.value


@pytest.mark.parametrize("seed", range(6))
def test_storm_reads_drn_to_the_last_bit(tmp_path: Path, seed: int) -> None:
    import stormpy

    chain = random_chain(seed)
    write_chain(chain, tmp_path / "c.drn")
    model = stormpy.build_model_from_drn(str(tmp_path / "c.drn"))
    columns = (chain.sources.tolist(), chain.targets.tolist(), chain.probabilities.tolist())
    assert list(rows_of(model)) == list(zip(*columns, strict=True))
    assert list(model.initial_states) == [chain.initial]
    for label, name in identifiers_of(chain.labels).items():
        assert frozenset(model.labeling.get_states(name)) == chain.labels[label]
        assert answer(model, name) == pytest.approx(reached(chain, chain.labels[label]), abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_storm_reads_the_prism_language(tmp_path: Path, seed: int) -> None:
    import stormpy
    import stormpy.io

    chain = random_chain(seed)
    write_chain(chain, tmp_path / "c.prism")
    model = stormpy.build_model(stormpy.io.parse_prism_program(str(tmp_path / "c.prism")))
    for label, name in identifiers_of(chain.labels).items():
        assert answer(model, name) == pytest.approx(reached(chain, chain.labels[label]), abs=1e-5)


@pytest.mark.parametrize(("lowest", "path"), [(0.01, "F"), (0, "F<=9")])
def test_storm_gives_the_same_bounds_on_both_kinds_of_interval_file(tmp_path: Path, lowest: float, path: str) -> None:
    """With a lower bound of 0, so that a transition may not be there at all, Storm answers bounded questions only."""
    import stormpy
    import stormpy.io

    chain = made([{1: 0.5, 2: 0.45, 3: 0.05}, {4: 1}, {4: 1}, {3: 1}, {4: 1}], labels={"x=1": frozenset({4})})
    low, high = np.array([0.4, 0.4, lowest, 1, 1, 1, 1]), np.array([0.6, 0.6, 0.2, 1, 1, 1, 1])
    chain = Chain(**{**vars_of(chain), "low": low, "high": high})
    for name in ("c.drn", "c.prism"):
        write_chain(chain, tmp_path / name, intervals=True)
    interval, modes = stormpy.Interval, stormpy.UncertaintyResolutionMode
    models = [
        stormpy.build_model_from_drn[interval](str(tmp_path / "c.drn")),
        stormpy.build_model[interval](stormpy.io.parse_prism_program(str(tmp_path / "c.prism"))),
    ]
    for model in models:
        least = answer(model, "x_1", path, uncertainty_resolution_mode=modes.MINIMIZE)
        most = answer(model, "x_1", path, uncertainty_resolution_mode=modes.MAXIMIZE)
        assert (least, most) == pytest.approx((0.8, 1 - lowest), abs=1e-5)


PROGRAM = """
dtmc
module die
  s : [0..2] init 0;
  d : [0..3] init 0;
  [] s=0 -> 1/3 : (s'=1) + 1/3 : (s'=2)&(d'=1) + 1/3 : (s'=2)&(d'=2);
  [] s=1 -> 0.1 : (s'=0) + 0.9 : (s'=2)&(d'=3);
  [] s=2 -> true;
endmodule
rewards "steps" s<2 : 1; endrewards
label "done" = s=2;
label "two" = d=2;
"""


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_what_storm_writes_is_read(tmp_path: Path, exact: bool, full: bool) -> None:
    """Rewards are passed over, fractions understood, valuations are names if they were built."""
    import stormpy
    import stormpy.io

    (tmp_path / "die.prism").write_text(PROGRAM)
    program = stormpy.io.parse_prism_program(str(tmp_path / "die.prism"))
    build = stormpy.build_model[stormpy.Rational] if exact else stormpy.build_model
    model = build(program, options=stormpy.BuilderOptions(build_full=True)) if full else build(program)
    stormpy.io.export_to_drn(model, str(tmp_path / "die.drn"))
    chain = read_chain(tmp_path / "die.drn")
    assert len(chain) == model.nr_states == 5
    assert len(chain.labels["done"]) == 3
    assert len(chain.labels["two"]) == 1
    assert set(chain.labels) == {"done", "two"}
    assert ("s=2 & d=3" in chain.states) == full
    found = dict(
        zip(zip(chain.sources.tolist(), chain.targets.tolist(), strict=True), chain.probabilities, strict=True)
    )
    assert found == {(state, target): pytest.approx(float(value), abs=1e-9) for state, target, value in rows_of(model)}


def test_intervals_that_storm_writes_are_read(tmp_path: Path) -> None:
    import stormpy
    import stormpy.io

    (tmp_path / "a.prism").write_text(
        "dtmc\nmodule m\n s : [0..2] init 0;\n [] s=0 -> [0.1, 0.4] : (s'=1) + [0.5, 0.9] : (s'=2);\n"
        " [] s>0 -> 1 : (s'=s);\nendmodule\n"
    )
    model = stormpy.build_model[stormpy.Interval](stormpy.io.parse_prism_program(str(tmp_path / "a.prism")))
    stormpy.io.export_to_drn(model, str(tmp_path / "a.drn"))
    chain = read_chain(tmp_path / "a.drn")
    assert chain.low is not None
    assert chain.high is not None
    assert chain.low.tolist() == [0.1, 0.5, 1, 1]
    assert chain.high.tolist() == [0.4, 0.9, 1, 1]


@pytest.mark.parametrize(("kind", "word"), [("mdp", "MDP"), ("ctmc", "CTMC")])
def test_other_models_of_storm_are_refused(tmp_path: Path, kind: str, word: str) -> None:
    import stormpy
    import stormpy.io

    (tmp_path / "a.prism").write_text(
        f"{kind}\nmodule m\n s : [0..1] init 0;\n [a] s<2 -> 1 : (s'=0);\n [b] s<2 -> 1 : (s'=1);\nendmodule\n"
    )
    program = stormpy.io.parse_prism_program(str(tmp_path / "a.prism"), prism_compatibility=True)
    stormpy.io.export_to_drn(stormpy.build_model(program), str(tmp_path / "a.drn"))
    with pytest.raises(ChainError, match=says(NOT_A_DTMC)):
        read_chain(tmp_path / "a.drn")


def test_storm_does_not_read_prisms_explicit_files(tmp_path: Path) -> None:
    """Which is why the documentation sends its users to DRN; should this fail one day, say so there."""
    import stormpy

    write_chain(made([{0: 1}]), tmp_path / "c.tra")
    with pytest.raises(Exception, match="model hint"):
        stormpy.build_model_from_explicit(str(tmp_path / "c.tra"), str(tmp_path / "c.lab"))


def test_storms_own_explicit_examples_are_read() -> None:
    import stormpy.examples

    folder = Path(stormpy.examples.__file__).parent / "files" / "dtmc"
    chain = read_chain(folder / "die.tra")
    assert len(chain) == 13
    assert reached(chain, chain.labels["one"]) == pytest.approx(1 / 6, abs=1e-9)

"""Promises: a chain read back is the chain written, in every form that is read; the others are what their readers want.

What Storm makes of the files is in test_formats_storm.py, what becomes of damaged ones in test_formats_hostile.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.chain import Chain
from fairchain.chain.chain import PROBABILITIES_DO_NOT_SUM
from fairchain.chain.formats import (
    FORMAT_WITHOUT_INTERVALS,
    FORMATS,
    NOT_WRITABLE,
    TAKES_THREE_FILES,
    UNKNOWN_SUFFIX,
    WRITTEN_NOT_READ,
    chain_text,
    read_chain,
    write_chain,
)
from fairchain.chain.formats.dot import flows_of, state_columns
from fairchain.chain.formats.json_file import NOT_JSON_VALUES
from fairchain.chain.formats.reading import (
    CHAIN_WITHOUT_INTERVALS,
    NOT_UNICODE,
    STATE_WITHOUT_TRANSITION,
    identifiers_of,
)
from fairchain.errors import ChainError, OutputError
from fairchain.messages import unknown
from fairchain.system.atomic_write import CANNOT_BE_WRITTEN
from tests.messages import says, says_one_of

# Everything a name may hold that a file could stumble over.
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        ["init", "deadlock", "Start", "sex=Female", "Y=>50K", "Y=<=50K", "layer3[2] off", '"', "//", "\\", "F"]
    ),
    st.sampled_from(
        ["a b", "a\nb", "a_b", "a&b", '{"name":', "#END", "s=1", "(0)", "0:(0)", "x\u2028y", "größe", "&lt;"]
    ),
)


def made(rows: list[dict[int, float]], **more: object) -> Chain:
    """A chain from rows of {target: probability}."""
    pairs = [(source, target, row[target]) for source, row in enumerate(rows) for target in sorted(row)]
    sources, targets, probabilities = (np.array(column) for column in zip(*pairs, strict=True))
    options = {"states": tuple(f"s={number}" for number in range(len(rows))), "labels": {}, **more}
    return Chain(sources=sources, targets=targets, probabilities=probabilities.astype(float), **options)  # type: ignore[arg-type]


@st.composite
def chains(draw: st.DrawFn, most: int = 6) -> Chain:
    """Any small chain, with odd names, loops, transitions of probability 0, bounds, counts and unvisited states."""
    size = draw(st.integers(1, most))
    rows = []
    for _ in range(size):
        targets = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True))
        weights = np.array([draw(st.integers(0, 9)) for _ in targets], float)
        weights[0] += 1
        rows.append(dict(zip(targets, (weights / weights.sum()).tolist(), strict=True)))
    states = st.frozensets(st.integers(0, size - 1))
    chain = made(
        rows,
        states=tuple(draw(st.lists(NAMES, min_size=size, max_size=size, unique=True))),
        labels=draw(st.dictionaries(NAMES, states, max_size=5)),
        initial=draw(st.integers(0, size - 1)),
        unvisited=draw(states),
    )
    if not draw(st.booleans()):
        return chain
    spread = np.array([draw(st.floats(0, 1)) for _ in chain.sources])
    return replace(
        chain,
        low=chain.probabilities * (1 - spread),
        high=chain.probabilities + (1 - chain.probabilities) * spread,
        counts=np.array([draw(st.integers(0, 2**63 - 1)) for _ in chain.sources], np.int64),
        metadata=draw(
            st.dictionaries(NAMES, st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2)), max_size=3)
        ),
    )


PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
)


def bare(chain: Chain, **more: object) -> Chain:
    """What a file of another program keeps."""
    return replace(chain, **{"low": None, "high": None, "counts": None, "metadata": {}, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


@given(chains())
@settings(max_examples=50)
def test_json_keeps_everything(folder: Path, chain: Chain) -> None:
    write_chain(chain, folder / "a.json")
    back = read_chain(folder / "a.json")
    assert back == chain
    assert dict(back.labels) == dict(chain.labels)


@pytest.mark.parametrize("name", ["a.drn", "a.tra"])
@given(chain=chains())
@settings(max_examples=50)
def test_a_chain_comes_back_from_other_programs_files(folder: Path, name: str, chain: Chain) -> None:
    """States and their names, transitions to the last bit, the initial state, labels, and what was never visited."""
    write_chain(chain, folder / name)
    back = read_chain(folder / name)
    assert back == bare(chain)
    assert dict(back.labels) == dict(chain.labels)


@given(chains())
@settings(max_examples=50)
def test_intervals_come_back_from_drn_with_the_estimates(folder: Path, chain: Chain) -> None:
    if chain.has_intervals:
        write_chain(chain, folder / "i.drn", intervals=True)
        assert read_chain(folder / "i.drn") == replace(chain, counts=None, metadata={})


@given(chains())
@settings(max_examples=20)
def test_a_file_that_was_read_is_written_the_same(folder: Path, chain: Chain) -> None:
    write_chain(chain, folder / "b.json")
    assert chain_text(read_chain(folder / "b.json"), "json").encode() == (folder / "b.json").read_bytes()


def test_json_is_named_and_versioned() -> None:
    content = json.loads(chain_text(made([{0: 1}], labels={"end": frozenset({0})}), "json"))
    assert content["format"] == "fairchain-chain"
    assert content["version"] == 2
    assert content["labels"] == {"end": [0]}


def test_values_that_json_does_not_have_are_refused() -> None:
    for value in (float("nan"), {1, 2}, np.int64(3)):
        with pytest.raises(ChainError, match=says(NOT_JSON_VALUES)):
            chain_text(made([{0: 1}], metadata={"x": value}), "json")


def test_explicit_files_look_as_prism_wants_them(tmp_path: Path) -> None:
    chain = made(
        [{0: 0.25, 1: 0.75}, {1: 1}],
        states=("Start", "Y=yes"),
        labels={"Y=yes": frozenset({1}), "all": frozenset({0, 1}), "none": frozenset()},
        initial=1,
    )
    assert write_chain(chain, tmp_path / "m", "explicit") == tuple(
        tmp_path / f"m.{end}" for end in ("tra", "sta", "lab")
    )
    assert (tmp_path / "m.tra").read_text() == "2 3\n0 0 0.25\n0 1 0.75\n1 1 1.0\n"
    assert (tmp_path / "m.lab").read_text() == '0="init" 1="deadlock" 2="Y_yes" 3="all" 4="none"\n0: 3\n1: 0 2 3\n'
    states = (tmp_path / "m.sta").read_text().splitlines()
    assert states[0] == "(s)"
    assert [line.split(" ")[0] for line in states[1:]] == ["0:(0)", "1:(1)"]


def test_of_explicit_files_all_are_written_or_none(tmp_path: Path) -> None:
    chain = made([{0: 1}], states=("Start",), labels={}, initial=0)
    (tmp_path / "m.tra").write_text("old")
    (tmp_path / "m.lab").mkdir()
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN)):
        write_chain(chain, tmp_path / "m", "explicit")
    assert (tmp_path / "m.tra").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.lab", "m.tra"]


def test_labels_become_identifiers_that_prism_and_storm_can_ask_about() -> None:
    labels = [
        "sex=Female",
        "Y=>50K",
        "Y=<=50K",
        "x >= -5",
        "layer3[2] off",
        "a b",
        "a&b",
        "a_b",
        "F",
        "init",
        "é",
        "7",
        "\n",
    ]
    names = identifiers_of(labels)
    assert list(names.values()) == [
        *("sex_Female", "Y_gt_50K", "Y_le_50K", "x_ge_minus_5", "layer3_2_off", "a_b_2", "a_and_b", "a_b"),
        *("F_2", "init_2", "e", "_7", "unnamed"),
    ]


@given(st.lists(NAMES, unique=True))
def test_identifiers_are_legal_and_all_different(labels: list[str]) -> None:
    names = identifiers_of(labels)
    assert list(names) == labels
    assert len(set(names.values())) == len(labels)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name not in ("init", "F") for name in names.values())


def test_the_prism_language_has_a_command_for_each_state() -> None:
    chain = made(
        [{0: 0.5, 1: 0.5, 2: 0}, {1: 1}, {2: 1}],
        states=("Start", "a\nb", "never"),
        labels={"Y=1": frozenset({1, 2}), "nowhere": frozenset()},
        unvisited=frozenset({2}),
    )
    assert chain_text(chain, "prism") == (
        "// A Markov chain, written by fairchain\n"
        "dtmc\n\nmodule chain\n  s : [0..2] init 0;\n\n"
        "  // Start\n  [] s=0 -> 0.5 : (s'=0)\n    + 0.5 : (s'=1);\n"
        "  // 'a\\nb'\n  [] s=1 -> 1.0 : (s'=1);\n"
        "  // never (never visited: its transitions are placeholders)\n  [] s=2 -> 1.0 : (s'=2);\n"
        'endmodule\n\n// Y=1\nlabel "Y_1" = s=1|s=2;\n\n// nowhere\nlabel "nowhere" = false;\n'
    )


def test_many_states_of_a_label_are_nested_by_halves() -> None:
    """A parser that descends into each bar would run out of stack."""
    size = 2000
    chain = made([{state: 1} for state in range(size)], labels={"odd": frozenset(range(1, size, 2))})
    formula = chain_text(chain, "prism").split("label")[1]
    depth = deepest = 0
    for mark in formula:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        deepest = max(deepest, depth)
    assert depth == 0
    assert deepest < 12
    assert len(re.findall(r"s=\d+", formula)) == size // 2


TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|->|[{}\[\];,=]|[A-Za-z_][A-Za-z0-9_]*|-?[0-9.]+')


@given(chains())
@settings(max_examples=30)
def test_dot_is_well_formed_whatever_the_names(chain: Chain) -> None:
    text = chain_text(chain, "dot")
    assert text.isascii() or all(mark.isprintable() or mark == "\n" for mark in text)
    place, open_marks = 0, []
    while place < len(text):
        token = TOKEN.match(text, place)
        assert token is not None, text[place : place + 40]
        place = token.end()
        if token[0] in ("{", "["):
            open_marks.append({"{": "}", "[": "]"}[token[0]])
        elif token[0] in ("}", "]"):
            assert open_marks.pop() == token[0]
    assert not open_marks
    assert text.count(" [label=") >= len(chain)


@pytest.mark.browser
@given(chain=chains())
@settings(max_examples=10, deadline=None)
def test_graphviz_draws_it(chain: Chain) -> None:
    drawn = subprocess.run(["dot", "-Tsvg"], input=chain_text(chain, "dot").encode(), capture_output=True, check=False)
    assert drawn.returncode == 0, drawn.stderr
    assert not drawn.stderr


FORK = made(
    [{1: 0.9, 2: 0.1}, {3: 0.5, 4: 0.5}, {5: 0.02, 6: 0.98}, {7: 1}, {7: 1}, {7: 1}, {8: 1}, {7: 1}, {8: 1}],
    states=("Start", "A", "B", "A & on", "A & off", "B & on", "B & off", "yes", "no"),
)


def test_dot_has_columns_flows_and_a_colour_for_each_group() -> None:
    columns = state_columns(FORK)
    assert columns.tolist() == [0, 1, 1, 2, 2, 2, 2, 3, 3]
    flow = dict(
        zip(zip(FORK.sources.tolist(), FORK.targets.tolist(), strict=True), flows_of(FORK, columns), strict=True)
    )
    assert flow[1, 3] == pytest.approx(0.45)
    assert flow[2, 5] == pytest.approx(0.002)
    text = chain_text(FORK, "dot")
    colour = {int(number): value for number, value in re.findall(r'\n  s(\d+) \[label=.*?color="(#\w+)"', text)}
    assert colour[1] == colour[3] == colour[4]
    assert colour[2] == colour[5] == colour[6] == colour[8]
    assert len({colour[0], colour[1], colour[2]}) == 3
    assert colour[7] == colour[0]
    assert re.search(r's2 -> s5 \[label="0.02".*style=dashed', text)
    assert "s7 -> s7" not in text
    assert re.search(r"s7 \[.*peripheries=2", text)


def test_dot_of_a_chain_with_cycles_has_the_shortest_ways_as_columns() -> None:
    chain = made([{1: 1}, {0: 0.5, 2: 0.5}, {2: 1}, {3: 1}])
    assert state_columns(chain).tolist() == [0, 1, 2, 3]
    text = chain_text(chain, "dot")
    assert re.search(r"s1 -> s0 \[.*constraint=false", text)


def test_the_form_is_told_by_the_ending_or_named(tmp_path: Path) -> None:
    chain = made([{0: 1}])
    for form, entry in FORMATS.items():
        for suffix in entry.suffixes:
            assert (tmp_path / f"c{suffix}") in write_chain(chain, str(tmp_path / f"c{suffix}"))
            assert write_chain(chain, tmp_path / "named", form)
    assert read_chain(tmp_path / "c.lab") == chain
    assert read_chain(str(tmp_path / "c.json")) == chain
    with pytest.raises(ChainError, match=says(UNKNOWN_SUFFIX)):
        write_chain(chain, tmp_path / "c.xyz")
    with pytest.raises(ChainError, match=says(unknown("format", "xyz", list(FORMATS)))):
        write_chain(chain, tmp_path / "c.json", "xyz")
    with pytest.raises(ChainError, match=says(WRITTEN_NOT_READ, name="dot", readable='"explicit", "drn", "json"')):
        read_chain(tmp_path / "c.dot")
    with pytest.raises(ChainError, match=says(TAKES_THREE_FILES)):
        chain_text(chain, "explicit")


def test_intervals_are_refused_where_there_are_none_or_no_place_for_them() -> None:
    chain = made([{0: 1}])
    for form in ("drn", "prism"):
        with pytest.raises(ChainError, match=says(CHAIN_WITHOUT_INTERVALS)):
            chain_text(chain, form, intervals=True)
    with pytest.raises(ChainError, match=says(FORMAT_WITHOUT_INTERVALS, value="dot", able='"prism", "drn"')):
        chain_text(chain, "dot", intervals=True)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = made([{0: 1}])
    write_chain(chain, tmp_path / "c.json")
    before = (tmp_path / "c.json").read_text()

    def fail(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN, value="No space left on device")):
        write_chain(made([{0: 0.5, 1: 0.5}, {1: 1}]), tmp_path / "c.json")
    assert (tmp_path / "c.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.parametrize("place", ["missing/c.json", "c\0.json", "x" * 300 + ".json"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN)):
        write_chain(made([{0: 1}]), tmp_path / place)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_name_that_is_no_text_is_refused(tmp_path: Path, form: str) -> None:
    chain = made([{0: 1}], states=("\ud800",))
    if form == "dot":
        assert "\ufffd" in chain_text(chain, form)
        return
    if form == "prism":
        assert r"// '\ud800'" in chain_text(chain, form)
        return
    with pytest.raises(ChainError, match=says_one_of(NOT_UNICODE, NOT_WRITABLE)):
        write_chain(chain, tmp_path / "c", form)


def test_files_of_other_people_may_lack_names_and_labels(tmp_path: Path) -> None:
    write: Callable[[str, str], int] = lambda name, text: (tmp_path / name).write_text(text)  # noqa: E731
    write("m.tra", "# Transitions (DTMC)\n3 4\n1 1 1\n0 2 1/4 go\n0 1 7.5E-1\n2 2 1\n")
    chain = read_chain(tmp_path / "m.tra")
    assert chain == made([{1: 0.75, 2: 0.25}, {1: 1}, {2: 1}])
    write("m.sta", "(x,b)\n0:(0,true)\n2:(-3,true)\n1:(7,false)\n")
    write("m.lab", '0="init" 1="deadlock" 2="done"\n2: 0\n1: 1 2\n')
    labels = {"done": frozenset({1}), "deadlock": frozenset({1})}
    names = ("x=0, b=true", "x=7, b=false", "x=-3, b=true")
    assert read_chain(tmp_path / "m.tra") == replace(chain, states=names, labels=labels, initial=2)


def test_storms_older_explicit_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("dtmc\r\n0 1 0.5\r\n0 0 0.5\r\n1 1 1\r\n")
    (tmp_path / "m.lab").write_text("#DECLARATION\ninit one two\n#END\n0 init\n1 one two\n")
    both = frozenset({1})
    assert read_chain(tmp_path / "m.tra") == made([{0: 0.5, 1: 0.5}, {1: 1}], labels={"one": both, "two": both})


def test_intervals_without_estimates_give_some_distribution_inside(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("3 5\n0 0 [0.1,0.3]\n0 1 [0.2,1]\n0 2 0.1\n1 1 1\n2 2 [1,1]\n")
    chain = read_chain(tmp_path / "m.tra")
    assert chain.low is not None
    assert chain.high is not None
    assert chain.low.tolist() == [0.1, 0.2, 0.1, 1, 1]
    assert ((chain.low <= chain.probabilities) & (chain.probabilities <= chain.high)).all()
    assert chain.metadata == {"probabilities": "chosen inside the intervals of the file"}


def test_states_without_transitions_stay_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "m.tra").write_text("3 1\n0 2 1\n")
    with pytest.raises(ChainError, match=says(STATE_WITHOUT_TRANSITION, without="1")):
        read_chain(tmp_path / "m.tra")
    assert read_chain(tmp_path / "m.tra", fix_deadlocks=True) == made([{2: 1}, {1: 1}, {2: 1}])


def test_a_deadlock_in_json_is_an_error_or_stays_where_it_is(tmp_path: Path) -> None:
    """As in every other form; bounds and counts stay beside their transitions."""
    whole = made([{1: 1}, {1: 1}, {0: 0.5, 2: 0.5}])
    low, high, counts = np.array([0.9, 1, 0.4, 0.4]), np.array([1, 1, 0.6, 0.6]), np.array([7, 0, 3, 3])
    whole = replace(whole, low=low, high=high, counts=counts)
    write_chain(whole, tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    for name in ("sources", "targets", "probabilities", "low", "high", "counts"):
        del content[name][1]
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(ChainError, match=says(PROBABILITIES_DO_NOT_SUM, sums="0")):
        read_chain(tmp_path / "c.json")
    assert read_chain(tmp_path / "c.json", fix_deadlocks=True) == whole

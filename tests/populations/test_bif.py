"""Promises of reading networks: the same nodes from every format, and one message for what cannot be read."""

from __future__ import annotations

import json
import random
import re
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairchain.errors import SpecError
from fairchain.populations.bayes.reading import CHECK_PATH, MOST_NETWORK_BYTES, parse_bif, read_nodes
from fairchain.spec import BayesNetwork, Node
from fairchain.system.untrusted_files import NOT_PLAIN_FILE, TOO_LARGE
from tests.messages import says

HOMES = """\
// Who rents and who owns; made up for this test.
network "where people live" { property author = "nobody; really" ; }

variable region {
  type discrete [ 3 ] { north, "far south", west_coast };
  property position = (10, 20) ;
}
variable "sex" { type discrete[2] { Female, Male }; }
variable income { type discrete [ 2 ] { <=50K, >50K }; }
variable home { type discrete [ 2 ] { rents owns } }

probability ( region ) { table 0.5, 0.25, 0.25; }
probability ( sex ) { table .5 5e-1; } /* no comma, and
   a comment over two lines */
probability ( income | region, sex ) {
  (north, Female) 0.75, 0.25;
  (north, Male) 0.5, 0.5;
  ("far south", Male) 0.25, 0.75;
  default 0.875, 0.125;
}
probability ( home | income ) { table 0.75, 0.125, 0.25, 0.875; property checked = yes; }
"""

TOML = """\
[[nodes]]
name = "region"
values = ["north", "far south", "west_coast"]
probabilities = [0.5, 0.25, 0.25]

[[nodes]]
name = "sex"
values = ["Female", "Male"]
probabilities = [0.5, 0.5]

[[nodes]]
name = "income"
parents = ["region", "sex"]
values = ["<=50K", ">50K"]
[nodes.probabilities]
"north, Female" = [0.75, 0.25]
"north, Male" = [0.5, 0.5]
"far south, Female" = [0.875, 0.125]
"far south, Male" = [0.25, 0.75]
"west_coast, Female" = [0.875, 0.125]
"west_coast, Male" = [0.875, 0.125]

[[nodes]]
name = "home"
parents = ["income"]
values = ["rents", "owns"]
probabilities = { "<=50K" = [0.75, 0.25], ">50K" = [0.125, 0.875] }
"""


def write(folder: Path, name: str, text: str | bytes) -> BayesNetwork:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return BayesNetwork(path=str(path))


def sure(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def message(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_bif(text)
    return str(caught.value)


def test_bif_toml_json_and_the_spec_itself_state_the_same_network(tmp_path: Path) -> None:
    nodes = read_nodes(write(tmp_path, "homes.bif", HOMES))
    assert [node.name for node in nodes] == ["region", "sex", "income", "home"]
    assert read_nodes(write(tmp_path, "homes.toml", TOML)) == nodes
    assert read_nodes(write(tmp_path, "homes.json", json.dumps(tomllib.loads(TOML)))) == nodes
    assert read_nodes(BayesNetwork(nodes=nodes)) == nodes


def test_a_table_has_the_childs_value_slowest_and_the_last_parent_fastest() -> None:
    text = """
    variable a { type discrete [ 2 ] { a0, a1 }; }  variable b { type discrete [ 3 ] { b0, b1, b2 }; }
    variable c { type discrete [ 2 ] { c0, c1 }; }
    probability ( a ) { table 0.5 0.5; }  probability ( b ) { table 0.5 0.25 0.25; }
    probability ( c a b ) { table 0 0.125 0.25 0.375 0.5 0.625  1 0.875 0.75 0.625 0.5 0.375; }
    """
    (*_, node) = parse_bif(text)
    assert node.parents == ("a", "b")
    assert node.probabilities == {
        "a0, b0": (0, 1),
        "a0, b1": (0.125, 0.875),
        "a0, b2": (0.25, 0.75),
        "a1, b0": (0.375, 0.625),
        "a1, b1": (0.5, 0.5),
        "a1, b2": (0.625, 0.375),
    }


def test_quoted_keywords_and_marks_are_names() -> None:
    text = """
    variable "table" { type discrete [ 2 ] { "default", "}" }; }
    variable "a, b" { type discrete [ 2 ] { "property", "(;" }; }
    probability ( "table" ) { table 0.5, 0.5; }
    probability ( "a, b" | "table" ) { ("default") 0.5, 0.5; ("}") 0.25, 0.75; }
    """
    assert parse_bif(text)[1] == Node(
        name="a, b",
        parents=("table",),
        values=("property", "(;"),
        probabilities={"default": (0.5, 0.5), "}": (0.25, 0.75)},
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("network", "netwrok", 'line 2: found "netwrok"; a block begins with network, variable or probability'),
        ("[ 3 ]", "[ 4 ]", 'line 5: variable "region" states "4" values and lists 3'),
        ("discrete [ 3 ]", "continuous [ 3 ]", 'line 5: variable "region" has type "continuous"; only discrete'),
        ('"far south",', "north,", 'line 5: variable "region" has the value "north" twice'),
        ('variable "sex"', "variable region", 'line 8: variable "region" occurs twice'),
        ("{ rents owns }", "", 'line 10: found "}" in the type of "home"; write "{" here'),
        ("type discrete [ 2 ] { rents owns }", "", 'line 10: variable "home" has no values'),
        ("0.5, 0.25, 0.25;", "0.5, 0.25, 0.26;", 'line 12: table of "region": the probabilities of north, far'),
        ("0.5, 0.25, 0.25;", "0.5, 0.75, -0.25;", 'the probability of "west_coast" is -0.25; write a number from 0'),
        ("0.5, 0.25, 0.25;", "0.5, 0.5;", 'line 12: the table of "region" has 2 numbers and needs 3'),
        ("0.5, 0.25, 0.25;", "0.5, 0.25, 0.25, 0;", "line 12: more than 3 probabilities before the semicolon"),
        ("0.5, 0.25, 0.25;", "0.5, nan, 0.5;", 'line 12: found "nan"; write a probability or ";" here'),
        ("0.5, 0.25, 0.25;", "1e999, 0, 0;", 'the probability of "north" is inf'),
        ("table 0.5, 0.25, 0.25;", "", 'line 12: the probabilities of "region" lack a row; add table'),
        ("probability ( sex )", "probability ( sexx )", 'unknown variable "sexx"; did you mean "sex"?'),
        ("probability ( sex )", "probability ( region )", 'line 13: the probabilities of "region" occur twice'),
        ("| region, sex", "| region, region", 'line 15: "income" has a parent twice'),
        ("(north, Male) 0.5, 0.5;", "(north) 0.5, 0.5;", 'line 17: a row of "income" names 1 values for 2 parents'),
        ("(north, Male)", "(north, Mael)", 'names "Mael", which is not a value of that parent; did you mean "Male"?'),
        ("(north, Male)", "(north, Female)", 'line 17: the row (north, Female) of "income" occurs twice'),
        ("(north, Male) 0.5, 0.5", "(north, Male) 0.5", '(north, Male) of "income": found 1 probabilities for 2'),
        ("default 0.875, 0.125;", "", 'line 15: the probabilities of "income" lack a row; add (far south, Female) 0.1'),
        ("0.75, 0.125, 0.25, 0.875", "0.75, 0.25, 0.125, 0.875", "sums to 1 only if the child's value changes fastest"),
        ("/* no", "/ * no", 'line 13: found "/"; a block begins'),
        ("two lines */", "two lines", "line 13: a quotation mark or comment that does not end; close it"),
        ("checked = yes; }", "checked = yes }", "a property that does not end; write a semicolon after it"),
        ("checked = yes; }\n", "checked = yes;", "found the end of the file in probability of"),
        ("north,", "no\x07rth,", "has characters that cannot be printed"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, expected: str) -> None:
    assert expected in message(sure(HOMES, old, new))


def test_a_variable_without_probabilities_is_named() -> None:
    assert 'variable "home" has no probabilities' in message(HOMES[: HOMES.index("probability ( home")])
    assert "found no variable" in message("network x { }")


def test_a_message_names_the_file_and_is_one_line(tmp_path: Path) -> None:
    broken = write(tmp_path, "homes.bif", sure(HOMES, "0.5, 0.25, 0.25;", "0.5, 0.25, 0.2;"))
    with pytest.raises(SpecError, match=re.escape(f"{broken.path}: line 12: ")) as caught:
        read_nodes(broken)
    assert "sum to 0.95; write numbers that sum to 1" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", '{"nodes": [{"name": "sex", "probabilites": [1]}]}', 'node "sex": object contains unknown field'),
        ("a.json", '{"nodes": [{"parents": []}]}', "node number 1: object missing required field name"),
        ("a.json", '{"nodes": [{"name": "sex", "mean": "high"}]}', 'node "sex".mean: expected'),
        ("a.json", '{"nodes": []}', 'nodes: expected array of length >= 1; write {"nodes": [...]}, in TOML [[nodes]]'),
        ("a.json", '{"nodes": [{"name": "sex", "mean\\n": 1}]}', "unknown field mean␊; a node has"),
        ("a.json", '{"node": []}', "nodes: object contains unknown field node"),
        ("a.json", "[]", "nodes: expected object, got array"),
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[" * 100_000, "not valid JSON|nested too deeply"),
        ("a.toml", "nodes = ", "not valid TOML"),
        ("a.toml", b"\xff", "not UTF-8 text; save it as UTF-8"),
        ("a.bif", b"\xff", "not UTF-8 text; save it as UTF-8"),
        ("a.xml", "", 'ends in .bif, .json or .toml, found ".xml"; rename or convert it'),
    ],
)
def test_other_files_are_refused_with_one_message(tmp_path: Path, name: str, text: str | bytes, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_nodes(write(tmp_path, name, text))
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert any(each in str(caught.value) for each in expected.split("|"))
    assert "\n" not in str(caught.value)


def test_files_that_are_missing_or_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=says(CHECK_PATH)):
        read_nodes(BayesNetwork(path=str(tmp_path / "none.bif")))
    (tmp_path / "folder.bif").mkdir()
    with pytest.raises(SpecError, match=says(NOT_PLAIN_FILE)):
        read_nodes(BayesNetwork(path=str(tmp_path / "folder.bif")))


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "large.bif"
    with path.open("wb") as file:
        file.truncate(10 * MOST_NETWORK_BYTES[".bif"])
    started = time.perf_counter()
    with pytest.raises(SpecError, match=says(TOO_LARGE, most="50,000,000")):
        read_nodes(BayesNetwork(path=str(path)))
    assert time.perf_counter() - started < 2


def test_a_table_that_would_be_too_large_is_refused_at_its_head() -> None:
    parents = [f"p{i}" for i in range(40)]
    text = "".join(f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for name in ["x", *parents])
    started = time.perf_counter()
    found = message(text + f"probability ( x | {', '.join(parents)} ) {{ default 0.5, 0.5; }}")
    assert 'line 42: with the probabilities of "x" the tables have 2199023255552 numbers, more than 2000000' in found
    assert time.perf_counter() - started < 1


def test_too_many_variables_are_refused() -> None:
    assert "more than 10000 variables" in message(
        "".join(f"variable v{i} {{ type discrete [ 1 ] {{ a }}; }}\n" for i in range(10_001))
    )


def ends_well(text: str) -> bool:
    """Nodes or one SpecError of one line that names a line, never anything else."""
    try:
        return len(parse_bif(text)) > 0
    except SpecError as error:
        return re.fullmatch(r"line \d+: .+", str(error)) is not None


def test_damaged_files_end_in_nodes_or_in_one_message() -> None:
    for seed in range(1500):
        dice = random.Random(seed)
        text = HOMES
        for _ in range(dice.choice((1, 1, 2, 5))):
            start = dice.randrange(len(text))
            end = start + dice.choice((0, 1, 2, 10, 60))
            other = dice.randrange(len(text))
            piece = dice.choice(
                ("", text[start:end] * 2, text[other : other + 30], chr(dice.randrange(1, 0x3000)), '"')
            )
            text = text[:start] + piece + text[end:]
        assert ends_well(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80) | st.lists(st.sampled_from(re.findall(r"\w+|\S", HOMES))).map(" ".join))
@example("")
@example("variable")
@example('variable "')
@example("probability()")
@example("network{property")
def test_any_text_ends_in_nodes_or_in_one_message(text: str) -> None:
    assert ends_well(text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_end_in_one_message(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    for suffix in MOST_NETWORK_BYTES:
        with pytest.raises(SpecError):
            read_nodes(write(folder, f"noise{suffix}", content))

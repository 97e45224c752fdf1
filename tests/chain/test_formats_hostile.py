"""Promises: a damaged or malicious file ends in one ChainError that names the file, or in a chain; quickly, and never
in another exception."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from fairchain.chain import Chain
from fairchain.chain.formats import read_chain, reading, write_chain
from fairchain.chain.formats.reading import NOT_UTF8
from fairchain.errors import ChainError
from fairchain.system.untrusted_files import TOO_LARGE
from fairchain.text.files import CANNOT_BE_READ
from tests.chain.test_formats import made
from tests.fuzzing.mutate import damaged_bytes
from tests.messages import says

HEAD = "@type: DTMC\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n@model\n"
GOOD = "state 0 init\n\taction 0\n\t\t1 : 1\nstate 1\n\taction 0\n\t\t1 : 1\n"

DRN = [
    ("", "line 1: the file ends before @model"),
    ("hello\n", 'line 1: found "hello", which is not in the head of a DRN file'),
    (HEAD, "line 10: the file ends after 0 of 2 states"),
    (HEAD.replace("DTMC", "CTMC") + GOOD, 'line 1: found a model of type "CTMC"; only DTMC'),
    (HEAD.replace("@parameters\n", "@parameters\np q") + GOOD, "line 3: the model has parameters"),
    (HEAD.replace("@type: DTMC\n", "") + GOOD, "line 9: @model comes before @type; write @type: DTMC above"),
    (HEAD.replace("@nr_states\n2\n", "") + GOOD, "line 8: @model comes before @nr_states"),
    (
        HEAD.replace("states\n2", "states\n1000000000") + GOOD,
        "line 7: found 1000000000 states; a chain that is read has",
    ),
    (HEAD.replace("states\n2", "states\n2000000"), "line 10: the file ends after 0 of 2000000 states"),
    (HEAD.replace("states\n2", "states\n" + "9" * 5000) + GOOD, "line 7: found"),
    (HEAD.replace("states\n2", "states\n-2") + GOOD, 'line 7: found "-2"; write the number of states here'),
    (HEAD.replace("states\n2", "states\n0") + GOOD, "line 7: found 0 states"),
    (HEAD.replace("choices\n2", "choices\nx") + GOOD, 'line 9: found "x"; write the number of choices'),
    (HEAD + GOOD.replace(" init", ""), "no state is init; write init after the number"),
    (HEAD + GOOD.replace("state 1", "state 1 init"), "line 14: states 0 and 1 are both init; keep one"),
    (HEAD + GOOD.replace("state 1", "state 2"), "line 14: unknown state 2; the chain has 2 states, numbered from 0"),
    (HEAD + GOOD.replace("state 1", "state 0"), "line 14: found state 0; state 1 comes next"),
    (HEAD + GOOD.replace("1 : 1\nstate", "7 : 1\nstate"), "line 13: unknown state 7"),
    (
        HEAD + GOOD.replace("1 : 1\nstate", "1 : 0.5\nstate"),
        "line 13: the probabilities of state 0 sum to 0.5, not to 1",
    ),
    (
        HEAD + GOOD.replace("1 : 1\nstate", "1 : 0.5\n1 : 0.5\nstate"),
        "line 14: the transition from 0 to 1 occurs twice",
    ),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : nan\nstate"), 'line 13: found "nan"; write a probability, as 0.25'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : inf\nstate"), 'line 13: found "inf"'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : -0.5\nstate"), 'line 13: found "-0.5"'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : 1e400\nstate"), 'line 13: found "1e400"; probabilities are at most 1'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : 1.1\nstate"), 'line 13: found "1.1"; probabilities are at most 1'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : 1/0\nstate"), 'line 13: found "1/0"; probabilities are at most 1'),
    (HEAD + GOOD.replace("1 : 1\nstate", f"1 : {'9' * 400}/1\nstate"), "line 13: found"),
    (HEAD + GOOD.replace("1 : 1\nstate", f"1 : 0.{'9' * 5000}\nstate"), "line 13: found"),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : 1_0\nstate"), 'line 13: found "1_0"'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : $p\nstate"), r'line 13: found "\$p"'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : [0.9, 0.1]\nstate"), "line 13: the interval .* ends before it begins"),
    (
        HEAD + GOOD.replace("1 : 1\nstate", "1 : [0.1, 0.2]\nstate"),
        "line 13: no distribution fits .* state 0: .* 0.1 and 0.2",
    ),
    (HEAD + GOOD.replace("1 : 1\nstate", "1 : [nan, 1]\nstate"), r'line 13: found "\[nan, 1\]"'),
    (HEAD + GOOD.replace("1 : 1\nstate", "1\nstate"), 'line 13: found "1"; write a transition as 3 : 0.25'),
    (HEAD + GOOD.replace("\taction 0\n\t\t1 : 1\nstate", "state"), "state 0 has no transition; add one to itself"),
    (
        HEAD + GOOD.replace("action 0\n", "action 0\n\t\t0 : 1\n\taction 1\n", 1),
        "line 14: a state of a DTMC has one action",
    ),
    (HEAD + "\taction 0\n" + GOOD, "line 11: a state of a DTMC has one action"),
    (HEAD + "0 : 1\n" + GOOD, 'line 11: found "0 : 1" before any state'),
    (HEAD + GOOD.replace("init", 'init "a'), "line 11: found .*; separate labels by blanks, or quote them"),
    (HEAD + GOOD.replace("init", 'init a"b'), "line 11: found"),
    (HEAD + GOOD.replace("init\n", 'init\n//{"name":"a"\n'), "line 12: found .* this note of fairchain is damaged"),
    (HEAD + GOOD.replace("init\n", 'init\n//{"name":"s=1"}\n'), "two states have the same name"),
    (HEAD + GOOD.replace("init\n", 'init a b\n//{"name":"x","labels":{"a":"b"}}\n'), 'two identifiers mean "b"'),
    (
        HEAD + GOOD.replace("init\n", 'init\n//{"name":"x","estimates":[1,1]}\n'),
        "state 0 has 1 transitions and its note 2",
    ),
    (HEAD + GOOD.replace("init\n", 'init\n//{"name":"x","estimates":[2]}\n'), "line 14: found the estimate 2"),
    (HEAD + GOOD.replace("init\n", 'init\n//{"name":"x","estimates":[-1]}\n'), "line 14: found the estimate -1"),
    (HEAD + GOOD.replace("init\n", "init\n//" + "[" * 100_000 + "\n").replace("1 : 1\n", "1 : 2\n"), "line 14: found"),
]

TRA = [
    ("", 'line 1: found ""; write the numbers of states and of transitions, as 5 8'),
    ("5\n", 'line 1: found "5"'),
    ("1000000000 1000000000\n", "line 1: found 1000000000 states"),
    ("2000000 1\n", "line 1: the file has no transitions; is it complete"),
    ("2000000 1\n0 0 1\n", "state 1 has no transition"),
    ("2 2 2\n0 0 1 1\n", "line 1: .*belongs to an MDP, which is not read"),
    ("2 3\n0 1 1\n1 1 1\n", "line 3: the file has 2 transitions, and its first line states 3; is it complete"),
    ("2 x\n0 1 1\n1 1 1\n", 'found "x"; write the number of transitions'),
    ("2 2\n0 1 1\n1 2 1\n", "line 3: unknown state 2"),
    ("2 2\n0 1 1\n-1 1 1\n", 'line 3: found "-1"; write the number of a state'),
    ("2 2\n0 1 1\n1 1\n", 'line 3: found "1 1"; write source, target and probability'),
    ("2 3\n0 1 1\n1 1 1\n0 1 0\n", "line 4: the transition from 0 to 1 occurs twice"),
    ("2 2\n0 1 2.5\n1 1 1\n", "line 2: found .*a CTMC, is not read"),
    ("2 3\n0 0 0.3\n0 1 0.3\n1 1 1\n", "line 2: the probabilities of state 0 sum to 0.6"),
    ("dtmc\n0 1999999999 1\n", "line 2: unknown state 1999999999"),
    ("\x00\x01", "line 1: found"),
    ("２ ２\n０ １ １\n", "line 1: found"),
]

STA = [
    ("", "line 1: found"),
    ("s\n0:(0)\n", 'line 1: found "s"; write the names of the variables'),
    ("(s)\n0:(0)\n", "the file has 1 states, and there are 2"),
    ("(s)\n0:(0)\n0:(1)\n", "line 3: state 0 occurs twice"),
    ("(s)\n0:(0)\n2:(1)\n", "line 3: unknown state 2"),
    ("(s)\n0:(0,1)\n1:(1,1)\n", r"line 2: found .*; write a state as 0:\(0\)"),
    ("(s)\n0 0\n1:(1)\n", "line 2: found"),
    ("(s)\n0:(0)\n1:(0)\n", "two states have the same name"),
    ('(s)\n0:(0) {"name":3}\n1:(1)\n', "line 2: found .* this note of fairchain is damaged"),
]

LAB = [
    ("", '0 states have the label "init"'),
    ('0="a"\n0: 0\n', '0 states have the label "init"'),
    ('0="init"\n0: 0\n1: 0\n', '2 states have the label "init"; give it to the one to start from'),
    ('0="init"\n0: 0 1\n', "line 2: unknown label 1; the file has 1 labels, numbered from 0"),
    ('0="init"\n2: 0\n', "line 2: unknown state 2"),
    ('0="init"\n0: x\n', 'line 2: found "x"; write the number of a label'),
    ('1="init"\n0: 1\n', "line 1: found .*; declare labels in order"),
    ('0="init" 1="init"\n0: 0\n', 'line 1: the label "init" is declared twice'),
    ('0="init" junk\n0: 0\n', "line 1: found"),
    ("#DECLARATION\ninit\n#END\n0 init other\n", 'line 4: the label "other" is not declared'),
    ("#DECLARATION\ninit a\n", '0 states have the label "init"'),
]

PLAIN = '{"format": "fairchain-chain", "version": 2, "states": ["a"], "initial": 0, "labels": {}, "unvisited": [], '
PLAIN += (
    '"sources": [0], "targets": [0], "probabilities": [1], "low": null, "high": null, "counts": null, "metadata": {}}'
)
JSON = [
    ("", "not a chain in JSON"),
    ("[]", "not a chain in JSON"),
    ("{}", 'not a chain: "format" is "", not "fairchain-chain"'),
    ('{"format": "fairchain-certificate"}', 'not a chain: "format" is "fairchain-certificate"'),
    (PLAIN.replace(": 2,", ": 1,", 1), "cannot read chain file version 1, expected 2; learn the chain again"),
    (PLAIN.replace('"initial": 0, ', ""), "missing required field `initial`"),
    (PLAIN.replace('"metadata"', '"metadat"'), "unknown field `metadat`"),
    (PLAIN.replace('"metadata": {}', '"metadata": ' + "[" * 100_000), "nested too deeply|malformed"),
    (PLAIN.replace('"metadata": {}', '"metadata": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}"), "nested too deeply"),
    (PLAIN.replace("[1]", "[NaN]"), "not a chain in JSON"),
    (PLAIN.replace("[1]", "[1e999]"), "out of range"),
    (PLAIN.replace("[1]", "[-1]"), "probabilities"),
    (PLAIN.replace("[1]", "[0.5]"), 'probabilities of state "a" sum to 0.5'),
    (PLAIN.replace("[1]", "[1, 1]"), "2 probabilities for 1 transitions"),
    (PLAIN.replace('sources": [0]', 'sources": [1]'), "a transition leads from or to a state that does not exist"),
    (PLAIN.replace('sources": [0]', 'sources": [99999999999999999999]'), "not a chain in JSON"),
    (PLAIN.replace('sources": [0]', 'sources": [0.5]'), "Expected `int`"),
    (PLAIN.replace('sources": [0]', 'sources": []'), "1 targets for 0 transitions"),
    (PLAIN.replace('["a"]', '["a", "a"]'), "two states have the same name"),
    (PLAIN.replace('["a"]', '["\\ud800"]'), "not a chain in JSON"),
    (PLAIN.replace('["a"]', "[]"), "at least one state"),
    (PLAIN.replace('"initial": 0', '"initial": 5'), "initial state does not exist"),
    (PLAIN.replace('"labels": {}', '"labels": {"x": [3]}'), 'label "x" names a state that does not exist'),
    (PLAIN.replace('"unvisited": []', '"unvisited": [3]'), '"unvisited" names a state that does not exist'),
    (PLAIN.replace('"low": null', '"low": [0.5]'), '"low" and "high" belong together'),
    (
        PLAIN.replace('"low": null, "high": null', '"low": [0.5], "high": [0.4]'),
        r'bounds \[0.5, 0.4\] of "a" -> "a" are not two',
    ),
    (PLAIN.replace('"low": null, "high": null', '"low": [0.5], "high": [1.4]'), r"bounds \[0.5, 1.4\] .* from 0 to 1"),
    (
        PLAIN.replace('"low": null, "high": null', '"low": [0.5], "high": [0.6]').replace(
            '"metadata": {}', '"metadata": {"estimator": "frequency"}'
        ),
        r"bounds \[0.5, 0.6\] .* do not contain 1, its estimate",
    ),
    (PLAIN.replace('"counts": null', '"counts": [-1]'), "counts"),
    (PLAIN.replace('"counts": null', '"counts": [9223372036854775808]'), "counts"),
    (PLAIN.replace('"metadata": {}', '"metadata": "x"'), "metadata"),
    (PLAIN[:-2], "malformed|truncated"),
    ("\n\n{\n]", "line 4: not a chain in JSON"),
]
OTHERS = {".sta": "2 2\n0 1 1\n1 1 1\n", ".lab": "2 2\n0 1 1\n1 1 1\n"}


CASES = [
    pytest.param(suffix, *case, id=f"{suffix[1:]}{place}")
    for suffix, cases in ((".drn", DRN), (".tra", TRA), (".sta", STA), (".lab", LAB), (".json", JSON))
    for place, case in enumerate(cases)
]


@pytest.mark.parametrize(("suffix", "text", "message"), CASES)
def test_a_file_that_is_no_chain_is_named_with_its_line_and_a_remedy(
    tmp_path: Path, suffix: str, text: str, message: str
) -> None:
    if suffix in OTHERS:
        (tmp_path / "c.tra").write_text(OTHERS[suffix])
    path = tmp_path / f"c{suffix}"
    path.write_text(text)
    begun = time.process_time()
    with pytest.raises(ChainError, match=message) as caught:
        read_chain(path)
    assert str(caught.value).startswith((str(path), str(tmp_path / "c.tra")))
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500 + len(str(path))
    assert time.process_time() - begun < 5


def test_the_good_files_above_are_good(tmp_path: Path) -> None:
    for suffix, text in ((".drn", HEAD + GOOD), (".tra", OTHERS[".lab"]), (".json", PLAIN)):
        (tmp_path / f"c{suffix}").write_text(text)
        assert isinstance(read_chain(tmp_path / f"c{suffix}"), Chain)


SAMPLE = made(
    [{0: 0.25, 1: 0.5, 2: 0.25}, {1: 1}, {0: 1 / 3, 2: 2 / 3}],
    states=("Start", "Y=yes", "größe"),
    labels={"Y=yes": frozenset({1}), "a b": frozenset({0, 2}), "none": frozenset()},
    unvisited=frozenset({2}),
)


def problem_of(path: Path) -> str:
    """What is wrong with a file, or nothing if it holds a chain."""
    try:
        read_chain(path)
    except ChainError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("suffix", [".drn", ".tra", ".sta", ".lab", ".json"])
def test_damage_ends_in_a_chain_or_a_chain_error(tmp_path: Path, suffix: str) -> None:
    """200 files with bytes flipped, cut out, put in, repeated or cut off, and 25 of noise, all from fixed seeds."""
    for name in ("c.drn", "c.tra", "c.json"):
        write_chain(SAMPLE, tmp_path / name)
    path = tmp_path / f"c{suffix}"
    whole = path.read_bytes()
    other = (tmp_path / "c.drn").read_bytes()
    ended = {"chain": 0, "error": 0}
    for seed in range(225):
        dice = random.Random(f"{suffix} {seed}")
        content = dice.randbytes(dice.randrange(300)) if seed >= 200 else damaged_bytes(whole, other, dice)
        path.write_bytes(content)
        problem = problem_of(path)
        ended["error" if problem else "chain"] += 1
        if problem:
            assert problem.startswith(str(tmp_path)), (seed, problem)
            assert len(problem.splitlines()) == 1
    assert ended["error"] > 50


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "c.drn").write_bytes(b"@type: DTMC\n\xff\xfe")
    with pytest.raises(ChainError, match=says(NOT_UTF8, line="2")):
        read_chain(tmp_path / "c.drn")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    for name, reason in (
        ("folder.json", "not a plain file"),
        ("pipe.json", "not a plain file"),
        ("c.json", "file not found"),
    ):
        with pytest.raises(ChainError, match=reason):
            read_chain(tmp_path / name)
    with pytest.raises(ChainError, match=says(CANNOT_BE_READ)):
        read_chain(tmp_path / "a\0.json")


def test_a_file_that_is_too_large_is_refused_before_it_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_CHAIN_BYTES", 2**20)
    for suffix in (".json", ".drn", ".tra"):
        (tmp_path / f"c{suffix}").write_text(" " * (2**20 + 1))
        with pytest.raises(ChainError, match=says(TOO_LARGE, most="1,048,576")):
            read_chain(tmp_path / f"c{suffix}")


@pytest.mark.parametrize(
    "line", ["a" * 10**6 + '"', '"' * 10**6, '"a" ' * 10**5 + '"', " " * 10**6 + '"', "[" * 10**6 + '"']
)
def test_no_line_takes_the_square_of_its_length(tmp_path: Path, line: str) -> None:
    begun = time.process_time()
    (tmp_path / "c.drn").write_text(HEAD + "state 0 " + line + "\n")
    (tmp_path / "c.tra").write_text(OTHERS[".lab"])
    (tmp_path / "c.lab").write_text(line + "\n")
    for name in ("c.drn", "c.tra"):
        with pytest.raises(ChainError):
            read_chain(tmp_path / name)
    (tmp_path / "c.lab").unlink()
    (tmp_path / "c.sta").write_text(f"({line})\n0:({line}\n")
    with pytest.raises(ChainError):
        read_chain(tmp_path / "c.tra")
    assert time.process_time() - begun < 5

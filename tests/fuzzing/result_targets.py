"""Targets for files that fairchain writes: certificates, states of monitors and audits, chains; and for formulas."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from fairchain.errors import DataError
from fairchain.spec import parse_spec
from tests.fuzzing.target import Target, limits, made
from tests.networks import linear
from tests.questions import category, integer, question

ASKED = question(integer("age", 0, 9), category("sex", "Female", "Male"), decision="logit")
NETWORK = linear([[1.0], [-1.0]], -4.5).SerializeToString()


def _rows() -> dict[str, list[Any]]:
    return {"age": [row % 10 for row in range(40)], "sex": ["Female", "Male"] * 20}


def _certificates() -> list[bytes]:
    from fairchain import make_certificate, verify
    from fairchain.certificates import dump

    ratio = {**ASKED, "property": {**ASKED["property"], "kind": "ratio", "outcome": "yes", "threshold": 0.8}}
    table = {**ASKED, "population": {"kind": "table", "as": "sample"}}
    found = []
    for asked, rows in ((ASKED, None), (ratio, None), (table, _rows())):
        verdict = verify(NETWORK, parse_spec(asked), workers=1, seed=1, data=rows)
        # Times would make every run another one.
        content = {**make_certificate(verdict), "times": {}}
        found.append(dump(content).encode())
    return found


def _signed(path: Path) -> bool:
    """Correct the digest of a file where that can be done, as a forger would; return whether it was."""
    from fairchain.certificate_format import digest

    try:
        content = json.loads(path.read_bytes())
        content["digest"] = digest(content)
        path.write_text(json.dumps(content))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _recheck(path: Path) -> object:
    """Recheck it, with its digest corrected where it can be."""
    from fairchain import recheck
    from fairchain.report.comparison import read_claims

    model = path.with_name("network.onnx")
    model.write_bytes(NETWORK)
    for sign in (False, True):
        if sign and not _signed(path):
            return None
        try:
            read_claims(path)
            recheck(path, model, data=_rows(), seed=1, seconds=1.0, limits=limits())
        except DataError:
            recheck(path, model, seed=1, seconds=1.0, limits=limits())
    return None


def _stream_spec() -> Any:
    from fairchain.monitoring.state import StreamSpec

    return StreamSpec(
        protected=("sex",), prediction="d", outcome="yes", kind="difference", threshold=0.1, delta=0.05, groups=()
    )


DECISIONS = b"sex,d\n" + b"F,yes\nM,no\n" * 3 + b"F,no\n"
DECISIONS_AS_JSON = b'{"sex": "F", "d": "yes"}\n{"d": "no", "sex": "M"}\n{"sex": 1, "d": true}\n' * 2


def _stream_questions() -> Any:
    from fairchain.monitoring.several import StreamQuestion

    questions = [
        msgspec.structs.replace(_stream_spec(), groups=("sex=F", "sex=M"), delta=delta) for delta in (0.02, 0.03)
    ]
    return [StreamQuestion(each, "question", lambda values: f"sex={values[0]}", (), "") for each in questions]


def _watching(source: Any, before: Any = None, *, several: bool) -> Any:
    """Return what watches decisions: one property, or several."""
    from fairchain.monitoring.several import FamilyWatch
    from fairchain.monitoring.stream import StreamOptions, Watch

    options = StreamOptions(resumable=True)
    if several:
        return FamilyWatch(source, _stream_questions(), before, options)
    return Watch(source, _stream_spec(), before, options)


def _monitor_states(*, several: bool) -> list[bytes]:
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import write_state

    def write(path: Path) -> None:
        decisions = path.with_suffix(".csv")
        decisions.write_bytes(DECISIONS)
        with LineSource(decisions) as source:
            watch = _watching(source, several=several)
            list(watch.reports())
        write_state(watch.state, path)

    return [made(write, ".json")]


def _state_in(path: Path, *, several: bool) -> Any:
    from fairchain.monitoring.several import definitions_of
    from fairchain.monitoring.state import FamilyState, State, read_state

    if not several:
        return read_state(path, State, [_stream_spec()])
    questions = _stream_questions()
    return read_state(path, FamilyState, [each.spec for each in questions], definitions_of(questions))


def _resume(path: Path, *, several: bool) -> object:
    """Read a state, with its digest corrected where it can be, and go on from it."""
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import write_state

    _signed(path)
    decisions = path.with_name("decisions.csv")
    decisions.write_bytes(DECISIONS + b"M,yes\n")
    before = _state_in(path, several=several)
    with LineSource(decisions) as source:
        watch = _watching(source, before, several=several)
        reports = [report.to_dict() for report in watch.reports(keep_going=True, every=2)]
    write_state(watch.state, path)
    return reports, _state_in(path, several=several)


def _watch(path: Path) -> object:
    from fairchain.monitoring.lines import LineSource
    from fairchain.monitoring.state import State, read_state, write_state
    from fairchain.monitoring.stream import StreamOptions, Watch

    for skip in (True, False):
        with LineSource(path) as source:
            watch = Watch(source, _stream_spec(), options=StreamOptions(skip_bad=skip, resumable=True))
            for report in watch.reports(keep_going=True, every=50):
                json.dumps(report.to_dict())
        # What is written can be read again.
        write_state(watch.state, path.with_suffix(".state"))
        read_state(path.with_suffix(".state"), State, [_stream_spec()])
    return None


STAGES = {"verdict": {"verdict.json": b"1"}, "survey": {"survey.json": b"2", "chain.json": b"3"}}
RESULTS = [filename for files in STAGES.values() for filename in files]


def _audit_states() -> list[bytes]:
    from fairchain.auditing.checkpoints import STATE, open_checkpoints

    def write(path: Path) -> None:
        folder = path.with_name("audit")
        with open_checkpoints(folder, "k", names=RESULTS) as checkpoints:
            for name, files in STAGES.items():
                checkpoints.stage(name, lambda made=files: made)
        path.write_bytes((folder / STATE).read_bytes())

    return [made(write)]


def _go_on(path: Path) -> object:
    """Begin an audit in a folder with a damaged list: nothing outside of the folder may be read or removed."""
    from fairchain.auditing.checkpoints import STATE, open_checkpoints

    folder, outside = path.parent / "audit", path.parent / "outside"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    outside.write_bytes(b"outside")
    for fresh in (False, True):
        (folder / STATE).write_bytes(path.read_bytes())
        for files in STAGES.values():
            for filename, content in files.items():
                (folder / filename).write_bytes(content)
        try:
            with open_checkpoints(folder, "k", restart=fresh, names=RESULTS) as checkpoints:
                checkpoints.stage("verdict", lambda: {"verdict.json": b"4"})
        finally:
            if outside.read_bytes() != b"outside":
                raise AssertionError("a file outside of the folder was changed")
    return None


# ---- chains and formulas ----


@cache
def _chain() -> Any:
    from tests.pctl.builders import chain_of

    rows = [{1: 0.5, 2: 0.5}, {1: 0.25, 3: 0.75}, {2: 0.9, 4: 0.1}, {3: 1.0}, {4: 1.0}]
    return chain_of(rows, {"good": [3], "bad": [4], "Start": [0]})


def _chains(form: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        from fairchain.chain.formats import write_chain

        suffix = {"drn": ".drn", "json": ".json", "explicit": ".tra"}[form]
        return [made(lambda path: write_chain(_chain(), path, form), suffix)]

    return seeds


def _read_chain(path: Path) -> object:
    from fairchain.chain.formats import chain_text, read_chain
    from fairchain.pctl import check_chain

    for fix in (False, True):
        found = read_chain(path, fix_deadlocks=fix)
        check_chain(found, 'P=? [ F "good" ]') if "good" in found.labels else chain_text(found, "json")
    return None


FORMULAS = (
    b'P=? [ F "good" ]',
    b'P>=0.5 [ !"bad" U<=7 ("good" | "Start") ]',
    b'S=? [ "good" & !"bad" ]',
    b'P<0.1 [ G<=3 P>0.2 [ X "good" ] ] => true',
    b'R=? [ F ("good" | "bad") ]',
    b'P=? [ "Start" W "good" ]',
)


def _ask_chain(path: Path) -> object:
    from fairchain.pctl import check_chain

    return check_chain(_chain(), path.read_bytes().decode("utf-8", "surrogateescape"))


RESULT_TARGETS: dict[str, Target] = {
    "certificate": Target("json", ".json", _certificates, _recheck, share=3),
    "monitor state": Target("json", ".json", partial(_monitor_states, several=False), partial(_resume, several=False)),
    "monitor family state": Target(
        "json", ".json", partial(_monitor_states, several=True), partial(_resume, several=True)
    ),
    "decisions": Target("text", ".csv", lambda: [DECISIONS], _watch),
    "decisions as JSON": Target("text", ".jsonl", lambda: [DECISIONS_AS_JSON], _watch),
    "audit state": Target("json", ".json", _audit_states, _go_on, share=2),
    "drn chain": Target("text", ".drn", _chains("drn"), _read_chain),
    "json chain": Target("json", ".json", _chains("json"), _read_chain),
    "explicit chain": Target("text", ".tra", _chains("explicit"), _read_chain, share=3),
    "formula": Target("text", ".pctl", lambda: list(FORMULAS), _ask_chain, share=5),
}

"""Certificates of every property and population that were edited: none holds, whatever was changed in them.

The forger of these tests is clever: after each change the digest is made to match again, and the formula, the
threshold and the kind are carried through to the claims.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairchain import FairchainError, make_certificate, parse_spec, verify
from fairchain.certificates import dump
from tests.rechecking.builders import SEXES, Content, audit, certificate, check, failing


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number and text in nested values, with the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def put(content: Any, path: tuple[Any, ...], value: Any) -> Content:
    content = copy.deepcopy(content)
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return content


def another(value: Any) -> Any:
    """Something else of the same kind: a probability of error is made smaller, other numbers a little larger."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if 0 < value <= 1e-3 else value + 1e-4
    return "something else" if value is None or value != "" else "f" * 64


# A ratio by rounds, a ratio of a sample, and recorded decisions with groups left out.
EDITED = [("marginals", "ratio"), ("sample", "average ratio"), ("recorded", "combinations")]


@pytest.mark.parametrize(("population", "asked"), EDITED)
def test_every_single_claim_is_checked(population: str, asked: str, folder: Path) -> None:
    content = certificate(folder, population, asked)
    held = []
    for path, value in leaves(content["claims"], ("claims",)):
        # What is checked of one group is checked of all.
        if path[1] == "groups" and path[2]:
            continue
        if check(folder, put(content, path, another(value))).holds:
            held.append((path, value))
    assert held == []


@pytest.mark.parametrize(("population", "asked"), EDITED)
@pytest.mark.parametrize("key", ["left_out", "groups", "violators"])
def test_no_list_of_claims_can_be_emptied_or_filled(population: str, asked: str, key: str, folder: Path) -> None:
    content = certificate(folder, population, asked)
    if content["claims"][key]:
        assert not check(folder, put(content, ("claims", key), [])).holds
    more = [*content["claims"][key], {"name": "sex=s9", "size": 0}]
    assert not check(folder, put(content, ("claims", key), more)).holds


@pytest.mark.parametrize("population", ["sample", "recorded"])
def test_every_count_of_rows_is_counted_again(population: str, folder: Path) -> None:
    content = certificate(folder, population, "overall")
    for path, value in leaves(content["evidence"], ("evidence",)):
        assert "re-run" in failing(check(folder, put(content, path, another(value)))), path


@pytest.mark.parametrize("population", ["sample", "recorded", "marginals"])
def test_other_rows_are_noticed(population: str, folder: Path) -> None:
    import pandas as pd

    content, rows = certificate(folder, population, "difference"), pd.read_csv(folder / "people.csv")
    changed_row = rows.copy()
    changed_row.loc[3, ["hours", "decision"]] = [(rows.hours[3] + 1) % 5, "yes" if rows.decision[3] != "yes" else "no"]
    for other in (changed_row, rows.iloc[:-1], pd.concat([rows, rows.iloc[:1]])):
        assert "table" in failing(check(folder, content, table=other))


def test_another_network_is_noticed_for_rows_too(folder: Path) -> None:
    content = certificate(folder, "sample", "difference")
    assert "model" in failing(check(folder, content, model="other.onnx"))
    from hashlib import sha256

    content["claims"]["model_sha256"] = sha256((folder / "other.onnx").read_bytes()).hexdigest()
    assert failing(check(folder, content, model="other.onnx")) >= {"verdict"}


def test_recorded_decisions_cannot_be_ascribed_to_a_network(folder: Path) -> None:
    content = certificate(folder, "recorded", "difference")
    content["claims"]["model_sha256"] = "ab" * 32
    assert not check(folder, content).holds


def test_the_probability_of_error_cannot_be_made_smaller(folder: Path) -> None:
    """Tiny numbers are not "equal up to rounding" to tinier ones."""
    spec = parse_spec(audit(folder, "sample", "difference", delta=1e-6))
    content = json.loads(dump(make_certificate(verify(None, spec))))
    assert check(folder, content).holds
    for delta in (1e-9, 0.0, 5e-7):
        assert not check(folder, put(content, ("claims", "delta"), delta)).holds


@pytest.mark.parametrize("key", ["threshold", "delta", "epsilon"])
def test_what_was_stated_is_compared_to_the_last_digit(key: str, folder: Path) -> None:
    """Rounding excuses what was computed, not what was asked for."""
    spec = parse_spec(audit(folder, "uniform", "difference", delta=0.01, epsilon=0.1))
    content = json.loads(dump(make_certificate(verify(None, spec))))
    assert check(folder, content).holds
    assert not check(folder, put(content, ("claims", key), content["claims"][key] * (1 + 1e-13))).holds


def almost(value: Any) -> list[Any]:
    """Values that a comparison up to rounding, or one of Python's, takes for the same."""
    if isinstance(value, bool):
        return [int(value), float(value)]
    if isinstance(value, int):
        return [value + 1, value - 1, float(value), value + 1e-7]
    return [value + 1e-7]


def test_whole_numbers_and_truths_have_no_rounding(folder: Path) -> None:
    """A derived seed has 19 digits: its neighbours are equal to it in the twelve that a tolerance looks at."""
    spec = parse_spec(audit(folder, "uniform", "difference", seed=None))
    content = json.loads(dump(make_certificate(verify(None, spec, workers=1))))
    assert check(folder, content).conclusion == "CONFIRMED"
    claims = content["claims"]
    changes: list[tuple[tuple[Any, ...], Any]] = [
        (("claims", key), claims[key]) for key in ("seed", "rounds", "evaluations", "sound")
    ]
    changes += [(("claims", "groups", 0, "evaluations"), claims["groups"][0]["evaluations"])]
    changes += [(("claims", "groups", 0, key), claims["groups"][0][key]) for key in ("probability", "low", "high")]
    for path, value in changes:
        for other in almost(value):
            assert not check(folder, put(content, path, other)).holds, (path, other)


def _question(**changes: Any) -> Callable[[Content], None]:
    """Another question inside, and the claims made to speak of it."""

    def forge(content: Content) -> None:
        content["spec"]["property"] |= changes
        asked = content["spec"]["property"] = {k: v for k, v in content["spec"]["property"].items() if v is not ...}
        if asked["kind"] == "individual":
            for key in ("criterion", "compare", "reference", "shift", "shift_of"):
                asked.pop(key, None)
        content["claims"]["property"] = str(parse_spec(content["spec"]).property)
        content["claims"]["threshold"], content["claims"]["kind"] = asked["threshold"], asked["kind"]

    return forge


def _population(**changes: Any) -> Callable[[Content], None]:
    def forge(content: Content) -> None:
        content["spec"]["population"] |= changes

    return forge


def _other_nodes(content: Content) -> None:
    content["spec"]["population"]["nodes"][0]["probabilities"] = [0.4, 0.4, 0.2]


SWAPPED: dict[str, tuple[str, str, Callable[[Content], None]]] = {
    "kind": ("sample", "difference", _question(kind="ratio", threshold=0.15)),
    "kind of rounds": ("uniform", "difference", _question(kind="ratio", threshold=0.85)),
    "individual": ("sample", "difference", _question(kind="individual")),
    "compare": ("population", "difference", _question(compare="overall")),
    "compare with groups": ("population", "overall", _question(compare="groups")),
    "criterion": ("population", "difference", _question(criterion="equalized_odds")),
    "outcome": ("population", "ratio", _question(outcome="maybe")),
    "condition dropped": ("population", "given", _question(given=...)),
    "condition added": ("sample", "difference", _question(given="hours >= 1")),
    "least size": ("population", "combinations", _question(min_size=...)),
    "larger least size": ("population", "combinations", _question(min_size=0.2)),
    "threshold of a ratio": ("population", "ratio", _question(threshold=0.3)),
    "threshold of a ratio by rounds": ("uniform", "ratio", _question(threshold=0.3)),
    "protected": ("population", "difference", _question(protected=["race"])),
    "sample as population": ("sample", "difference", _population(**{"as": "population"})),
    "population as sample": ("population", "difference", _population(**{"as": "sample"})),
    "true labels for decisions": ("recorded", "difference", _population(prediction="truth")),
    "frequencies": ("stated", "difference", _population(frequencies={"race": {"r0": 0.5, "r1": 0.5}})),
    "nodes": ("network", "combinations", _other_nodes),
    "uniform for marginals": (
        "uniform",
        "difference",
        _population(kind="marginals", frequencies={"race": {"r0": 1.0}}),
    ),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_a_certificate_answers_its_own_question_only(name: str, folder: Path) -> None:
    population, asked, forge = SWAPPED[name]
    content = certificate(folder, population, asked)
    forge(content)
    assert failing(check(folder, content)) & {"verdict", "intervals", "re-run", "choices", "layout"}


UNANSWERABLE: dict[str, Callable[[Content], None]] = {
    "a condition that never holds": lambda content: content["spec"]["property"].update(given="hours > 3 and hours < 2"),
    "no group large enough": lambda content: content["spec"]["property"].update(min_size=10_000),
    "one group large enough": lambda content: content["spec"]["property"].update(min_size=70),
    "a group without rows": lambda content: content["spec"]["feature"][1].update(values=[*SEXES, "s3"]),
    "a condition on the group": lambda content: content["spec"]["property"].update(given="sex == 's0'"),
}


@pytest.mark.parametrize("name", UNANSWERABLE)
@pytest.mark.parametrize("population", ["population", "sample"])
def test_a_question_that_rows_cannot_answer_is_refused_not_a_crash(name: str, population: str, folder: Path) -> None:
    content = certificate(folder, population, "difference")
    UNANSWERABLE[name](content)
    with suppress(FairchainError):
        assert not check(folder, content).holds


def test_what_verify_refuses_cannot_be_certified_by_hand(folder: Path) -> None:
    """A person of a table can be shown as a group of one value only; a range would be shown as its lowest value."""
    data = audit(folder, "population", "individual")
    data["property"]["protected"] = ["hours"]
    data["feature"][0]["groups"] = {"few": 0, "many": 3}
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data)))))
    assert check(folder, content).holds
    content["spec"]["feature"][0]["groups"] = {"few": [0, 2], "many": [3, 4]}
    with suppress(FairchainError):
        assert not check(folder, content).holds

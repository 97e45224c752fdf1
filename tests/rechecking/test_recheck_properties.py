"""Certificates of every property and population: honest ones hold wherever they are checked, forged ones never.

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

import numpy as np
import pytest

from fairchain import FairchainError, make_certificate, parse_spec, recheck, verify
from fairchain.certificate import dump
from fairchain.certificate_format import digest
from fairchain.evidence import RATIO
from fairchain.evidence.bets import log_wealth
from fairchain.evidence.counts import ArmCounts, fixed_sample, gap_bounds
from fairchain.evidence.interval import largest_above, largest_below
from fairchain.evidence.rule import every_pair
from fairchain.rechecking import Recheck, arithmetic
from fairchain.tables import RawTable, read_table
from tests.networks import linear, save
from tests.questions import category, integer

Content = dict[str, Any]
LABELS = ["no", "maybe", "yes"]
SEXES, RACES = ["s0", "s1", "s2"], ["r0", "r1"]
FEATURES = [integer("hours", 0, 4), category("sex", *SEXES), category("race", *RACES)]
NODES = [
    {"name": "sex", "probabilities": [0.5, 0.42, 0.08]},
    {"name": "race", "parents": ["sex"], "probabilities": {"s0": [0.3, 0.7], "s1": [0.6, 0.4], "s2": [0.5, 0.5]}},
    {
        "name": "hours",
        "parents": ["race"],
        "probabilities": {"r0": [0.1, 0.2, 0.3, 0.2, 0.2], "r1": [0.4, 0.3, 0.1, 0.1, 0.1]},
    },
]
BIF = """network people {}
variable sex { type discrete [3] { s0, s1, s2 }; }
variable race { type discrete [2] { r0, r1 }; }
variable hours { type discrete [5] { 0, 1, 2, 3, 4 }; }
probability (sex) { table 0.5, 0.42, 0.08; }
probability (race | sex) { (s0) 0.3, 0.7; (s1) 0.6, 0.4; (s2) 0.5, 0.5; }
probability (hours | race) { (r0) 0.1, 0.2, 0.3, 0.2, 0.2; (r1) 0.4, 0.3, 0.1, 0.1, 0.1; }
"""
POPULATIONS: dict[str, dict[str, Any]] = {
    "uniform": {"kind": "uniform"},
    "marginals": {"kind": "marginals", "path": "people.csv"},
    "stated": {"kind": "marginals", "frequencies": {"race": {"r0": 0.3, "r1": 0.7}}},
    "network": {"kind": "network", "nodes": NODES},
    "bif": {"kind": "network", "path": "people.bif"},
    "population": {"kind": "table", "path": "people.csv", "as": "population", "label": "truth"},
    "sample": {"kind": "table", "path": "people.csv", "as": "sample", "label": "truth"},
    "recorded": {"kind": "table", "path": "people.csv", "as": "population", "label": "truth", "prediction": "decision"},
    "recorded sample": {
        "kind": "table",
        "path": "people.csv",
        "as": "sample",
        "label": "truth",
        "prediction": "decision",
    },
}
ASKED: dict[str, dict[str, Any]] = {
    "difference": {},
    "ratio": {"kind": "ratio", "threshold": 0.8, "outcome": "yes"},
    "every ratio": {"kind": "ratio", "threshold": 0.6},
    "individual": {"kind": "individual"},
    "individual for one label": {"kind": "individual", "outcome": "yes", "given": "sex != 's2' or hours > 1"},
    "given": {"given": "hours >= 1 or sex == 's1'", "outcome": "yes"},
    "overall": {"compare": "overall"},
    "average ratio": {"kind": "ratio", "compare": "average", "threshold": 0.7, "outcome": "no"},
    "combinations": {"protected": ["sex", "race"], "outcome": "yes", "min_size": 0.09},
    "equal opportunity": {"criterion": "equal_opportunity"},
    "equalized odds": {"criterion": "equalized_odds", "compare": "overall", "outcome": "yes", "min_size": 5},
}


# Of populations that are like another one but for a part, the questions that this part matters for.
FEW = {
    "marginals": ("ratio", "individual", "given", "combinations"),
    "stated": ("ratio", "overall"),
    "bif": ("difference", "individual"),
    "recorded": ("difference", "every ratio", "combinations", "equalized odds"),
    "recorded sample": ("every ratio", "equal opportunity"),
}


def sensible(population: str, asked: str) -> bool:
    kind, about = POPULATIONS[population], ASKED[asked]
    if asked not in FEW.get(population, ASKED):
        return False
    recorded = "prediction" in kind and about.get("kind") == "individual"
    return not recorded and (kind["kind"] == "table" or "criterion" not in about)


PAIRS = [(population, asked) for population in POPULATIONS for asked in ASKED if sensible(population, asked)]


# The table of a folder, read once.
_PEOPLE: dict[Path, RawTable] = {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, a table of people with true labels and recorded decisions, and a Bayesian network."""
    folder = tmp_path_factory.mktemp("audit")
    save(linear([[0, 0.5, 1], [0, 0.7, 0], [0, 0, 0.9]], [1, 0, -1.1]), folder / "network.onnx")
    save(linear([[0, 0.5, 1], [0, 0.7, 0], [0, 0, 0.8]], [1, 0, -1.1]), folder / "other.onnx")
    rng = np.random.default_rng(0)
    lines = ["hours,sex,race,truth,decision"]
    for _ in range(160):
        sex = rng.choice(3, p=[0.5, 0.38, 0.12])
        picks = rng.integers(5), SEXES[sex], RACES[rng.integers(2)], LABELS[rng.integers(3)], LABELS[rng.integers(3)]
        lines.append(",".join(map(str, picks)))
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.bif").write_text(BIF)
    _PEOPLE[folder] = read_table(folder / "people.csv")
    return folder


def audit(folder: Path, population: str, asked: str, **guarantee: Any) -> dict[str, Any]:
    people = copy.deepcopy(POPULATIONS[population])
    if "path" in people:
        people["path"] = str(folder / people["path"])
    return {
        "model": {"labels": LABELS} | ({} if "prediction" in people else {"path": str(folder / "network.onnx")}),
        "feature": copy.deepcopy(FEATURES),
        "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.15} | ASKED[asked],
        "population": people,
        "guarantee": {"delta": 1e-3, "seed": 4, "budget": {"rounds": 250}} | guarantee,
    }


_MADE: dict[tuple[str, str], str] = {}


def certificate(folder: Path, population: str, asked: str) -> Content:
    """Made once for each question; every caller gets its own."""
    if (population, asked) not in _MADE:
        verdict = verify(None, parse_spec(audit(folder, population, asked)), workers=1)
        _MADE[population, asked] = dump(make_certificate(verdict))
    content: Content = json.loads(_MADE[population, asked])
    return content


def check(folder: Path, content: Content, *, model: str = "network.onnx", table: Any = None) -> Recheck:
    path = folder / "certificate.json"
    path.write_text(json.dumps({**content, "digest": digest(content)}))
    people = content["spec"]["population"]
    needs = people["kind"] == "table" or (people["kind"] == "marginals" and people.get("path"))
    rows = _PEOPLE[folder] if needs and table is None else table
    return recheck(path, None if people.get("prediction") else folder / model, table=rows)


def failing(result: Recheck) -> set[str]:
    return {claim.name for claim in result.claims if not claim.holds}


@pytest.mark.parametrize(("population", "asked"), PAIRS)
def test_an_honest_certificate_holds(population: str, asked: str, folder: Path) -> None:
    assert failing(check(folder, certificate(folder, population, asked))) == set()


@pytest.mark.parametrize("population", ["marginals", "population", "recorded sample"])
def test_it_holds_elsewhere_for_the_same_rows_in_another_file_or_in_none(
    population: str, folder: Path, tmp_path: Path
) -> None:
    """Neither the folder nor the name of the checker's own file is a claim, and no folder is told to anybody."""
    import pandas as pd

    content = certificate(folder, population, "difference")
    assert str(folder) not in json.dumps(content)
    elsewhere = tmp_path / "rows-of-ours.csv"
    elsewhere.write_text((folder / "people.csv").read_text())
    for table in (elsewhere, pd.read_csv(elsewhere), pd.read_csv(elsewhere).to_dict("list")):
        assert failing(check(folder, content, table=table)) == set()


def test_rows_that_were_handed_over_can_be_checked(folder: Path) -> None:
    """Stated frequencies of one feature, and a frame for the others."""
    import pandas as pd

    frame = pd.read_csv(folder / "people.csv")
    verdict = verify(None, parse_spec(audit(folder, "stated", "difference")), table=frame)
    content = json.loads(dump(make_certificate(verdict)))
    assert failing(check(folder, content, table=frame)) == set()


def recorded(rows: list[tuple[str, str]], **asked: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    data = {
        "model": {"labels": LABELS},
        "feature": FEATURES,
        "property": {"kind": "difference", "protected": ["race"], "threshold": 0.1, **asked},
        "population": {"kind": "table", "as": "population", "prediction": "decision"},
    }
    races, decisions = zip(*rows, strict=True)
    return data, {"hours": [1] * len(rows), "sex": ["s0"] * len(rows), "race": list(races), "decision": list(decisions)}


@pytest.mark.parametrize(
    "counts",
    [
        {"r0": (2, 0, 8), "r1": (3, 0, 7)},
        {"r0": (3, 7, 0), "r1": (2, 8, 0)},
        {"r0": (3, 1, 6), "r1": (2, 2, 6)},
    ],
    ids=["8/10 - 7/10", "3/10 - 2/10", "ties"],
)
def test_a_gap_at_the_threshold_and_ties_are_read_alike_by_both(
    counts: dict[str, tuple[int, ...]], folder: Path
) -> None:
    """Floating numbers tell 8/10 - 7/10 from 3/10 - 2/10; a certificate must not."""
    rows = [(race, LABELS[label]) for race, each in counts.items() for label, n in enumerate(each) for _ in range(n)]
    data, table = recorded(rows)
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data), table=table))))
    assert content["claims"]["verdict"] == "FAIR"
    assert failing(check(folder, content, table=table)) == set()


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ((2, 3), (17, 48), {"kind": "ratio", "threshold": 0.5}),
        ((1, 2), (6, 30), {"compare": "average", "threshold": 0.2}),
    ],
    ids=["a ratio of 0.53125", "a gap of 0.13125"],
)
def test_a_number_in_a_sentence_is_rounded_alike_by_both(
    first: tuple[int, int], second: tuple[int, int], asked: dict[str, Any], folder: Path
) -> None:
    """Half way between two numbers of four digits: what a person reads must not depend on the order of a sum."""
    groups = zip(RACES, (first, second), strict=True)
    rows = [(race, LABELS[2 * (place < got)]) for race, (got, size) in groups for place in range(size)]
    data, table = recorded(rows, outcome="yes", **asked)
    content = json.loads(dump(make_certificate(verify(None, parse_spec(data), table=table))))
    assert failing(check(folder, content, table=table)) == set()


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
    assert not check(folder, put(content, ("claims", key), content["claims"][key] - 2e-7)).holds


def _question(**changes: Any) -> Callable[[Content], None]:
    """Another question inside, and the claims made to speak of it."""

    def forge(content: Content) -> None:
        content["spec"]["property"] |= changes
        asked = content["spec"]["property"] = {k: v for k, v in content["spec"]["property"].items() if v is not ...}
        if asked["kind"] == "individual":
            asked.pop("criterion", None)
            asked.pop("compare", None)
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


def test_the_second_arithmetic_agrees_with_the_first_about_ratios_and_about_pairs_of_rates() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 800, (100, 3))
    triple = cells[:, 0], cells[:, 1], cells[:, 2]
    for gap in (-0.9, -0.2, 0.0, 0.05, 0.2, 0.7):
        above = arithmetic.log_evidence(triple, gap, "above", relative=True)
        below = arithmetic.log_evidence(triple, gap, "below", relative=True)
        assert np.allclose(above, log_wealth(cells, RATIO.against_at_least(gap)))
        assert np.allclose(below, log_wealth(cells, RATIO.against_at_most(gap)))
    none = np.zeros(100, bool)
    bound = arithmetic.largest_bound(triple, 7.0, none, 0.2, relative=True)
    assert bound == pytest.approx(largest_above(cells, 7.0, payoff=RATIO), abs=1e-9)
    assert largest_below(cells, 7.0, payoff=RATIO) <= bound
    counts = ArmCounts(np.array([40, 31]), np.array([[22, 9]]))
    _, low, high = gap_bounds(counts, every_pair(2, 1), "difference", 0.01, fixed_sample)
    one, other = (arithmetic.exact_bounds(got, asked, 0.01 / 3) for got, asked in ((22, 40), (9, 31)))
    assert high == pytest.approx(one[1] - other[0], abs=1e-9)
    one, other = (arithmetic.exact_bounds(got, asked, 0.01 / 4) for got, asked in ((22, 40), (9, 31)))
    assert low == pytest.approx(max(0, one[0] - other[1]), abs=1e-9)

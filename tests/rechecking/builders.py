"""Certificates of every property about every population, made once, and what a recheck says of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

from fairchain import make_certificate, parse_spec, recheck, verify
from fairchain.certificate_format import digest
from fairchain.certificates import dump
from fairchain.rechecking import Recheck
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


def written(folder: Path) -> Path:
    """A network, a table of people with true labels and recorded decisions, and a Bayesian network, in this folder."""
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
    engine = "counting" if people["kind"] == "table" else "sampling"
    return {
        "model": {"labels": LABELS} | ({} if "prediction" in people else {"path": str(folder / "network.onnx")}),
        "feature": copy.deepcopy(FEATURES),
        "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.15} | ASKED[asked],
        "population": people,
        "guarantee": {"delta": 1e-3, "seed": 4, "engine": engine, "budget": {"rounds": 250}} | guarantee,
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
    return recheck(path, None if people.get("prediction") else folder / model, data=rows)


def failing(result: Recheck) -> set[str]:
    return {claim.name for claim in result.claims if not claim.holds}

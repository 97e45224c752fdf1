"""Two certificates side by side: only what both carry is said, with the sum of both deltas."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
import pytest

import fairchain
from fairchain import certificate_format
from fairchain.certificates import dump
from fairchain.report.comparison import CHANGED_AFTER_WRITTEN, CertificateComparison, contents_of, read_claims
from fairchain.report.comparison import compare as compare_contents
from fairchain.spec import revise
from tests.messages import says
from tests.sequences import Network, Recurrent
from tests.text.builders import question as text_question

Plain = dict[str, Any]


def compare(first: Plain, second: Plain) -> CertificateComparison:
    return compare_contents(contents_of(first), contents_of(second))


def certificate(name: str = "credit", **changes: Any) -> Plain:
    spec = revise(fairchain.load_spec(fairchain.example(name)), **changes)
    return fairchain.make_certificate(fairchain.verify(None, spec, certify=True))


@pytest.fixture(scope="module")
def credit() -> Plain:
    return certificate()


@pytest.fixture(scope="module")
def ratio() -> Plain:
    return certificate(property__kind="ratio", property__threshold=0.8, guarantee__budget__rounds=1000)


@pytest.fixture(scope="module")
def individual() -> Plain:
    changes = {"property__kind": "individual", "property__protected": ["sex"]}
    return certificate("census", **changes, guarantee__budget__rounds=1000)


def changed(made: Plain, gap: tuple[float, float, float] | None = None, **claims: Any) -> Plain:
    """The same certificate with other claims."""
    made = deepcopy(made)
    made["claims"] |= claims
    if gap is not None:
        made["claims"]["gap"] |= dict(zip(("estimate", "low", "high"), gap, strict=True))
    return made


def test_another_seed_threshold_or_delta_is_the_same_question(credit: Plain) -> None:
    other = certificate(guarantee__seed=3, property__threshold=0.12, guarantee__delta=1e-3)
    found = compare(credit, other)
    assert found.differences == ()
    assert found.comparable
    assert found.delta == pytest.approx(1e-6 + 1e-3)
    assert f"at most {1e-6 + 1e-3:g}, the sum of both deltas" in found.promise
    assert "the intervals overlap" in found.sentence
    assert [row.name for row in found.rows] == [group["name"] for group in credit["claims"]["groups"]]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"property__protected": ["sex"]}, "the question"),
        ({"property__outcome": "bad"}, "the question"),
        ({"property__given": "duration >= 12"}, "the question"),
        ({"property__kind": "individual"}, "the question"),
    ],
)
def test_another_question_is_named_and_nothing_is_concluded(credit: Plain, changes: Plain, word: str) -> None:
    found = compare(credit, certificate(**changes))
    assert word in found.differences
    assert not found.comparable
    assert "cannot be compared" in found.sentence
    assert found.promise == ""
    assert {row.moved for row in found.rows} == {""}
    assert found.to_dict()["delta"] is None


def test_other_people_are_named(credit: Plain) -> None:
    other = deepcopy(credit)
    next(feature for feature in other["spec"]["feature"] if "high" in feature)["high"] = 99
    assert compare(credit, other).differences == ("the features or groups",)
    other = deepcopy(credit)
    category = next(feature for feature in other["spec"]["feature"] if feature["kind"] == "category")
    category["aliases"] = [f"{value}!" for value in category["values"]]
    assert compare(credit, other).differences == ("the features or groups",)
    other = deepcopy(credit)
    other["spec"]["population"] = {"kind": "marginals", "path": "people.csv"}
    assert compare(credit, other).differences == ("the population",)
    assert compare(credit, changed(credit, table_sha256="ab")).differences == ("the table",)


def test_the_same_cells_of_a_table_as_other_values_are_other_people(credit: Plain) -> None:
    """Aliases decide which rows belong to a group; the certificate of drawn inputs has no hash of rows."""
    other = deepcopy(credit)
    feature = next(feature for feature in other["spec"]["feature"] if feature["kind"] == "category")
    feature["aliases"] = [f"other {value}" for value in feature["values"]]
    assert compare(credit, other).differences == ("the features or groups",)


@pytest.mark.parametrize("key", [{"length": 2}, {"unknown": "the"}])
def test_texts_that_are_cut_or_filled_otherwise_are_other_texts(
    key: Plain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both keys decide which terms a text holds, and so its group."""
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    onnx.save(Network(Recurrent("LSTM", 5, 4, seed=2)).onnx(lengths=True), tmp_path / "network.onnx")
    data = text_question(tmp_path)
    data["model"] = {"path": str(tmp_path / "network.onnx"), "labels": ["fine", "toxic"]}
    made = [
        fairchain.make_certificate(fairchain.verify(None, fairchain.parse_spec(each), certify=True))
        for each in (data, {**data, "feature": [{**data["feature"][0], **key}, data["feature"][1]]})
    ]
    found = compare(*made)
    assert found.differences == ("the features or groups", "the table")
    assert (found.comparable, found.promise) == (False, "")


def test_what_only_the_network_gets_is_the_networks_own_business(credit: Plain) -> None:
    other = deepcopy(credit)
    other["spec"]["model"]["path"] = "other.onnx"
    for feature in other["spec"]["feature"]:
        if feature["kind"] == "category":
            feature["codes"] = list(range(1, 1 + len(feature["values"])))
    assert compare(credit, other).comparable


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((0.05, 0.0, 0.09), "the second has the smaller gap"),
        ((0.7, 0.6, 0.8), "the second has the larger gap"),
        ((0.12, 0.0, 0.2), "the intervals overlap"),
    ],
)
def test_the_smaller_gap_is_named_if_the_intervals_are_apart(
    credit: Plain, second: tuple[float, float, float], said: str
) -> None:
    assert said in compare(changed(credit, gap=(0.18, 0.1, 0.5)), changed(credit, gap=second)).sentence


def test_of_ratios_the_larger_is_named(ratio: Plain) -> None:
    small, large = changed(ratio, gap=(0.5, 0.4, 0.6)), changed(ratio, gap=(0.9, 0.8, 1.0))
    assert compare(small, large).sentence.endswith("the second has the larger ratio")
    assert compare(large, small).sentence.endswith("the second has the smaller ratio")
    assert compare(small, large).sentence.startswith("the smallest ratio is 0.500 [0.400, 0.600] in the first")


def test_two_kinds_are_each_called_by_their_own_name(credit: Plain, ratio: Plain) -> None:
    assert "the largest gap is" in compare(credit, ratio).sentence
    assert "and the smallest ratio is" in compare(credit, ratio).sentence


def test_the_share_of_people_whose_decision_changes(individual: Plain) -> None:
    found = compare(individual, changed(individual, gap=(0.9, 0.85, 0.95)))
    assert found.sentence.startswith("the share of individuals whose decision changes")
    assert found.sentence.endswith("the second has the larger gap")
    texts = compare(individual, changed(individual, inputs="texts")).sentence
    assert "and the share of texts whose decision changes with the terms alone is" in texts


def test_counted_rows_are_compared_exactly(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    rows = ["sex,decision", *["Female,yes"] * 3, *["Female,no"] * 5, *["Male,yes"] * 4, *["Male,no"] * 4]
    table.write_text("\n".join(rows), encoding="utf-8")
    spec = fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": [{"name": "sex", "kind": "category", "values": ["Female", "Male"]}],
            "population": {"kind": "table", "as": "population", "path": str(table), "prediction": "decision"},
            "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": 0.2},
        }
    )
    counted = fairchain.make_certificate(fairchain.verify(None, spec))
    same = compare(counted, counted)
    assert same.delta == 0
    assert same.promise == "Both were counted, not estimated: the comparison is exact."
    assert same.sentence.endswith("0.1250 in the second, the same")
    assert {row.moved for row in same.rows} == {"same"}
    assert compare(counted, changed(counted, gap=(0.05, 0.05, 0.05))).sentence.endswith(
        "the second has the smaller gap"
    )


def test_groups_that_moved_are_marked_and_missing_ones_are_empty(credit: Plain) -> None:
    other = changed(credit)
    groups = other["claims"]["groups"]
    groups[0] |= {"probability": 0.9, "low": 0.88, "high": 0.95}
    gone = groups.pop()
    found = compare(credit, other)
    assert found.rows[0].moved == "up"
    last = next(row for row in found.rows if row.name == gone["name"])
    assert last.second is None
    assert last.moved == ""


def test_nothing_is_concluded_from_a_rule_that_is_not_sound(credit: Plain) -> None:
    found = compare(credit, changed(credit, gap=(0.9, 0.89, 0.91), sound=False))
    assert "not sound" in found.sentence
    assert found.promise == ""
    assert not found.comparable


def test_deltas_that_add_up_to_one_carry_no_guarantee(credit: Plain) -> None:
    found = compare(changed(credit, delta=0.6), changed(credit, delta=0.6))
    assert found.delta == 1
    assert "carries no guarantee" in found.promise


def write(path: Path, made: Plain) -> Path:
    """With the digest that a forger would write too."""
    made["digest"] = certificate_format.digest(made)
    path.write_text(dump(made), encoding="utf-8")
    return path


def test_a_certificate_is_read_as_it_was_written(credit: Plain, tmp_path: Path) -> None:
    found = read_claims(write(tmp_path / "a.json", deepcopy(credit)))
    assert found.claims == contents_of(credit).claims
    assert credit["claims"].items() <= found.claims.to_dict().items()


def test_a_changed_certificate_is_refused(credit: Plain, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(dump(changed(credit, verdict="FAIR")), encoding="utf-8")
    with pytest.raises(fairchain.CertificateError, match=says(CHANGED_AFTER_WRITTEN)):
        read_claims(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made["claims"].pop("gap"),
        lambda made: made["claims"].update(verdict="VERY FAIR"),
        lambda made: made["claims"].update(kind="other"),
        lambda made: made["claims"]["gap"].update(low="0.1"),
        lambda made: made["claims"].update(groups=[{"name": "x"}]),
        lambda made: made["claims"].update(groups=None),
        lambda made: made["claims"].update(statement=["x"]),
        lambda made: made["spec"].pop("property"),
        lambda made: made["spec"].update(surprise=1),
    ],
)
def test_claims_of_another_shape_are_refused_though_the_digest_fits(spoil: Any, credit: Plain, tmp_path: Path) -> None:
    made = deepcopy(credit)
    spoil(made)
    with pytest.raises(fairchain.CertificateError, match=r"a\.json"):
        read_claims(write(tmp_path / "a.json", made))

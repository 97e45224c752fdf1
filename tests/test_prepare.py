"""Preparation: one place reads spec, rows and model, and what it returns answers the question by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fairchain import explain, recheck, repair, verify, write_certificate
from fairchain.errors import SpecError
from fairchain.examples import example
from fairchain.prepare import prepare
from fairchain.spec import CategoryFeature, Spec, load_spec, parse_spec, revise, validate
from fairchain.spec.load import ADVICE, _check_content
from fairchain.verification import verify_case
from tests.auditing.builders import few_inputs
from tests.messages import says
from tests.questions import category, integer, question

ROWS = 400


@pytest.fixture(name="few")
def _few() -> Iterator[None]:
    with few_inputs():
        yield


def _table(spec: Spec) -> dict[str, list[object]]:
    """Return rows whose features are drawn uniformly."""
    random = np.random.default_rng(1)
    return {
        feature.name: [str(feature.values[i]) for i in random.integers(len(feature.values), size=ROWS)]
        if isinstance(feature, CategoryFeature)
        else random.integers(int(feature.low), int(feature.high) + 1, size=ROWS).tolist()
        for feature in spec.features
    }


def _timeless(verdict: object) -> dict[str, object]:
    values = verdict.to_dict()
    return {key: value for key, value in values.items() if key != "seconds"}


def test_a_case_has_everything_that_a_verdict_needs() -> None:
    case = prepare(None, example("credit"))
    assert _timeless(verify_case(case)) == _timeless(verify(None, example("credit")))
    # It is not used up: the same case gives the same verdict.
    assert _timeless(verify_case(case)) == _timeless(verify_case(case))


def test_a_spec_file_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    real = validate._check_population

    def counted(spec: Spec) -> None:
        checked.append(spec)
        real(spec)

    monkeypatch.setattr(validate, "_check_population", counted)
    _check_content.cache_clear()
    prepare(None, example("credit"))
    assert len(checked) == 1


def test_a_question_that_is_asked_again_is_checked_and_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_spec(example("credit"))
    first = prepare(None, spec, seed=1)
    monkeypatch.setattr(validate, "_check_population", None)
    again = prepare(None, spec, seed=2)
    assert again.population is first.population
    assert (first.seed.value, again.seed.value) == (1, 2)


def test_a_spec_whose_content_was_changed_is_another_question() -> None:
    spec = parse_spec(question(integer("pay"), integer("age", groups={"young": [0, 4], "old": [5, 9]})))

    def groups() -> list[str]:
        return [group.name for group in prepare(lambda rows: rows[:, 0] > 5, spec).groups]

    assert groups() == ["age=young", "age=old"]
    spec.features[1].groups["older"] = spec.features[1].groups.pop("old")
    assert groups() == ["age=young", "age=older"]
    spec.features[1].groups["older"] = 10
    for _ in range(2):
        with pytest.raises(SpecError, match="older"):
            groups()


def test_numbers_of_any_length_can_be_values() -> None:
    spec = parse_spec(question(integer("pay"), category("place", 10**30, 10**30 + 1)))
    assert [group.name for group in prepare(lambda rows: rows[:, 0] > 5, spec).groups] == [
        f"place={10**30}",
        f"place={10**30 + 1}",
    ]


def test_a_spec_made_in_python_is_validated() -> None:
    spec = load_spec(example("credit"))
    spec = replace(spec, property=replace(spec.property, threshold=2.0))
    with pytest.raises(SpecError, match=says(ADVICE["property.threshold"])):
        prepare(None, spec)


def test_rows_in_memory_have_no_path_in_the_case_and_a_name_in_statement_and_certificate(tmp_path: Path) -> None:
    spec = load_spec(example("credit"))
    table = _table(spec)
    for kind in ({"kind": "table", "as": "population"}, {"kind": "marginals", "path": "rows.csv"}):
        question = revise(spec, population=kind)
        case = prepare(None, question, data=table)
        assert case.spec.population.path is None
        verdict = verify_case(case)
        assert f"the {ROWS} rows of the given table" in verdict.statement
        write_certificate(verdict, tmp_path / "c.json")
        assert '"path": "the given table"' in (tmp_path / "c.json").read_text()
        found = recheck(tmp_path / "c.json", spec.model.path, data=table)
        assert found.holds, found.claims
        own = recheck(tmp_path / "c.json", spec=question, data=table)
        assert own.holds, own.claims


@pytest.mark.usefixtures("few")
def test_a_repair_ranks_units_on_rows_in_memory() -> None:
    spec = revise(load_spec(example("credit")), population={"kind": "marginals", "path": "rows.csv"})
    found = repair(None, spec, data=_table(spec), change="scales", max_units=1, iterations=0)
    # The protected feature, and one unit that an explanation of the same rows ranks first.
    assert len({each.name for each in found.adjustments}) == 2


@pytest.mark.usefixtures("few")
def test_a_repair_takes_the_verdict_and_the_explanation_that_are_known() -> None:
    spec = load_spec(example("credit"))
    before, explanation = verify(None, spec), explain(None, spec, rounds=1000)
    options = {"change": "scales", "max_units": 1, "iterations": 0}
    found = repair(None, spec, before=before, explanation=explanation, **options)
    assert found.before is before
    assert _timeless(repair(None, spec, **options).before) == _timeless(before)

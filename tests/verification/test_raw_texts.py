"""Promises about models of texts as they are: the model gets every character, and a corpus is counted exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import explain, verify
from fairchain.errors import DataError, SpecError
from fairchain.explaining.context import context_of
from fairchain.models.adapters.answer_memo import ANSWERS_CHANGE
from fairchain.models.base import NON_DETERMINISTIC
from fairchain.populations.text_rows import GIVEN_OF_NO_TEXT
from fairchain.prepare import case_of, prepare
from fairchain.spec import parse_spec
from fairchain.spec.validate import COLUMN_NOT_SWAPPED, DECLARED_RANDOM
from fairchain.verification import verify_case
from fairchain.verification.verdict import Verdict
from tests.messages import says, says_one_of
from tests.questions import changed
from tests.text.builders import raw_question

TEXTS = (
    "Sunny people, they walk!",
    "The SUNNIES run; qwertzuiop",
    "a moony book?!",
    "moonies say the sunny town is awful",
    "   Moony  \ttabs and blanks ",
    "red sea",
    "green lake!",
)
SUN, MOON, NONE = {0, 1, 3}, {2, 3, 4}, {5, 6}


def rates(verdict: Verdict) -> dict[str, float]:
    return {group.name: group.probability.estimate for group in verdict.groups}


class Recorder:
    """A model that decides by a function of one text, and keeps what it was shown."""

    def __init__(self, toxic: Any) -> None:
        self.toxic, self.seen = toxic, []

    def __call__(self, texts: list[str]) -> list[str]:
        self.seen += texts
        return ["toxic" if self.toxic(text) else "fine" for text in texts]


def labelled(folder: Path, **population: Any) -> dict[str, Any]:
    data = raw_question(folder, TEXTS, **population)
    return changed(data, "model.decision", ...)


@pytest.mark.parametrize(
    "toxic",
    [lambda text: "!" in text, lambda text: "qwertzuiop" in text, lambda text: text != text.lower(), str.istitle],
    ids=["an exclamation mark", "an unknown word", "capitals", "titles"],
)
def test_a_function_gets_exactly_its_own_rate(toxic: Any, tmp_path: Path) -> None:
    model = Recorder(toxic)
    verdict = verify(model, parse_spec(labelled(tmp_path)))
    expected = {
        f"faith={name}": float(np.mean([toxic(TEXTS[place]) for place in places]))
        for name, places in (("sun", SUN), ("moon", MOON), ("none", NONE))
    }
    assert rates(verdict) == expected
    assert set(model.seen) == set(TEXTS)
    assert (verdict.engine, verdict.delta, verdict.exact) == ("counting", 0.0, True)
    assert "Counted, not estimated" in verdict.statement


def test_a_slow_model_is_asked_for_each_text_once(tmp_path: Path) -> None:
    model = Recorder(lambda text: "!" in text)
    verify(model, parse_spec(labelled(tmp_path)))
    # Some texts are asked for again, to see whether the answers depend on the batch.
    assert len(model.seen) <= 2 * len(TEXTS)


def test_exchanged_texts_differ_in_their_terms_alone(tmp_path: Path) -> None:
    model = Recorder(lambda text: "moon" in text.lower())
    verdict = verify(model, parse_spec(labelled(tmp_path, **{"as": "swapped"})))
    assert rates(verdict) == {"faith=sun": 0.0, "faith=moon": 1.0, "faith=none": 0.0}
    assert verdict.evaluations == 15
    assert {"Moony people, they walk!", "Cloudy people, they walk!", "The MOONIES run; qwertzuiop"} <= set(model.seen)
    assert "   Sunny  \ttabs and blanks " in model.seen
    assert "moonies say the moony town is awful" in model.seen
    witness = verdict.witnesses[0]
    assert sorted(witness.labels) == ["fine", "toxic"]


def test_sampled_and_counted_rates_agree(tmp_path: Path) -> None:
    for reading in ("observed", "swapped"):
        data = labelled(tmp_path, **{"as": reading})
        model = Recorder(lambda text: "!" in text or "moon" in text.lower())
        exact = verify(model, parse_spec(data))
        sampled = verify(
            model, parse_spec(changed(changed(data, "guarantee.engine", "sampling"), "guarantee.epsilon", 0.05))
        )
        assert (exact.engine, sampled.engine) == ("counting", "sampling")
        for group in sampled.groups:
            assert group.probability.low <= rates(exact)[group.name] <= group.probability.high


def test_terms_of_several_words(tmp_path: Path) -> None:
    texts = ("Trans people vote.", "trans-people  sing", "old believers sing", "nothing")
    data = changed(raw_question(tmp_path, texts), "model.decision", ...)
    data = changed(data, "feature.1.terms", {"sun": ["trans people"], "moon": ["Old Believers"]})
    assert rates(verify(Recorder(lambda text: "sing" in text), parse_spec(data))) == {
        "faith=sun": 0.5,
        "faith=moon": 1.0,
        "faith=none": 0.0,
    }


def rows(folder: Path, content: str, **changes: Any) -> dict[str, Any]:
    (folder / "rows.csv").write_text(content, encoding="utf-8")
    data = changed(labelled(folder, column="text"), "population.path", str(folder / "rows.csv"))
    for key, value in changes.items():
        data = changed(data, key.replace("__", "."), value)
    return data


LABELLED = """text,label,year
sunny a!,toxic,2010
sunny b,toxic,2020
sunny c!,fine,2020
moony a,toxic,2010
moony b!,toxic,2020
moony c!,toxic,2020
moony d,fine,2010
red,fine,2010
"""


def test_error_rates_by_a_recorded_label(tmp_path: Path) -> None:
    data = rows(
        tmp_path, LABELLED, population__label="label", property__criterion="equal_opportunity", property__min_size=2
    )
    data = changed(data, "feature.1.groups", {"sun": "sun", "moon": "moon"})
    for engine in ("counting", "sampling"):
        found = rates(verify(Recorder(lambda text: "!" in text), parse_spec(changed(data, "guarantee.engine", engine))))
        assert found.keys() == {"sun, truth=toxic", "moon, truth=toxic"} or len(found) == 2
        exact = sorted(found.values())
        assert exact == [0.5, 2 / 3] if engine == "counting" else np.allclose(exact, [0.5, 2 / 3], atol=0.2)


def test_a_condition_on_a_column_beside_the_texts(tmp_path: Path) -> None:
    data = rows(tmp_path, LABELLED, property__given="year >= 2015")
    data["feature"].append({"name": "year", "kind": "integer", "low": 1990, "high": 2030, "model_input": False})
    data = changed(data, "feature.1.groups", {"sun": "sun", "moon": "moon"})
    verdict = verify(Recorder(lambda text: "!" in text), parse_spec(data))
    assert sorted(rates(verdict).values()) == [0.5, 1.0]
    assert "for which year >= 2015" in verdict.population
    with pytest.raises(DataError, match=says(GIVEN_OF_NO_TEXT, count="8")):
        verify(Recorder(bool), parse_spec(changed(data, "property.given", "year > 2029")))


def test_groups_may_be_a_column_beside_the_texts(tmp_path: Path) -> None:
    """Templates: the same sentence about each group; `pair_by` says which sentences belong together."""
    content = "text,who,template\n" + "".join(
        f"{who} people {verb},{who},{number}\n"
        for number, verb in enumerate(("walk!", "sing", "read!"))
        for who in ("tall", "small")[: 1 + (number < 2)]
    )
    data = rows(tmp_path, content, population__pair_by="template", property__protected=["who"])
    data["feature"][1] = {"name": "who", "kind": "category", "values": ["tall", "small"], "model_input": False}
    verdict = verify(Recorder(lambda text: "!" in text), parse_spec(data))
    assert rates(verdict) == {"who=tall": 2 / 3, "who=small": 1 / 2}
    (note,) = [note for note in verdict.notes if "pair_by" in note]
    assert note.startswith("Groups have 2 to 3 texts, and different numbers of them for 1 of 3 cells")
    with pytest.raises(SpecError, match=says(COLUMN_NOT_SWAPPED)):
        parse_spec(changed(data, "population.as", "swapped"))


def test_a_model_that_is_random_is_sampled(tmp_path: Path) -> None:
    random = np.random.default_rng(5)

    def coin(texts: list[str]) -> Any:
        return random.random((len(texts), 1))

    data = raw_question(tmp_path, TEXTS)
    with pytest.raises(Exception, match=says_one_of(ANSWERS_CHANGE, NON_DETERMINISTIC)):
        verify(coin, parse_spec(data))
    data = changed(data, "model.deterministic", False)
    verdict = verify(coin, parse_spec(changed(data, "property.threshold", 0.3)))
    assert (verdict.engine, verdict.decision.name, verdict.certifiable) == ("sampling", "FAIR", True)
    assert any("declared random" in note for note in verdict.notes)
    with pytest.raises(SpecError, match=says(DECLARED_RANDOM)):
        parse_spec(changed(data, "guarantee.engine", "counting"))


def test_a_frame_gives_the_texts_of_its_column(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [*TEXTS, None, "  "], "id": range(len(TEXTS) + 2)})
    spec = parse_spec(labelled(tmp_path, column="text"))
    model = Recorder(lambda text: "!" in text)
    verdict = verify(model, spec, data=frame)
    assert rates(verdict)["faith=sun"] == 1 / 3
    assert set(model.seen) == set(TEXTS)
    assert "2 of 9 texts are empty and are never drawn." in verdict.notes


def test_line_ends_inside_a_cell_are_kept(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b'text\r\n"sunny\r\n day"\r\n"moony\n day"\r\nred\r\n')
    data = changed(labelled(tmp_path), "population.path", str(tmp_path / "rows.csv"))
    model = Recorder(lambda text: "\r" in text)
    assert rates(verify(model, parse_spec(data))) == {"faith=sun": 1.0, "faith=moon": 0.0, "faith=none": 0.0}


def test_the_same_texts_answer_another_question(tmp_path: Path) -> None:
    """A family of questions, a repair and a recheck use the rows of one case for another spec."""
    data = rows(tmp_path, LABELLED)
    data["feature"].append({"name": "year", "kind": "category", "values": [2010, 2020], "model_input": False})
    model = Recorder(lambda text: "!" in text)
    first = prepare(model, parse_spec(data))
    other = parse_spec(changed(changed(data, "property.protected", ["year"]), "property.given", "year in [2010, 2020]"))
    again = case_of(other, first.model, first.rows)
    assert rates(verify_case(again)) == rates(verify(Recorder(lambda text: "!" in text), other))


def test_an_explanation_of_texts_searches_no_rows(tmp_path: Path) -> None:
    spec = parse_spec(changed(labelled(tmp_path), "guarantee.seed", 1))
    assert context_of(prepare(Recorder(lambda text: "!" in text), spec)).rows is None


def test_an_explanation_names_the_words_that_carry_the_gap(tmp_path: Path) -> None:
    texts = ("Sunny people stink!", "sunny dogs, they stink", "moony cats sing", "moony cats read", "red", "blue")
    data = changed(raw_question(tmp_path, texts), "model.decision", ...)
    found = explain(Recorder(lambda text: "stink" in text), parse_spec(data), rounds=2000)
    effects = {word.word: word.effect for word in found.words}
    assert found.words[0].word == "stink"
    assert effects["stink"].estimate == 1.0
    assert effects["stink"].low > 0.9
    assert effects["sunny"].estimate == 0.0
    assert found.units == ()

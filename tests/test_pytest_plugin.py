"""The pytest plugin as a project that has fairchain installed meets it, and `assert_fair` on its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fairchain
from fairchain.statements import NOT_SOUND
from fairchain.testing import BAD_ON_CONSTANT, UnfairError
from tests.messages import says

pytest_plugins = ["pytester"]
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with two specs, in which pytest finds the plugin by its entry point."""
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    # As an installation would write it; where fairchain is installed with it already, the name is taken once.
    about = pytester.mkdir("declared_plugin-1.dist-info")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: declared-plugin\nVersion: 1\n", encoding="utf-8")
    lines = ["[pytest11]", *(f"{name} = {place}" for name, place in declared.items())]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    pytester.syspathinsert()
    for name in ("census", "credit"):
        spec = fairchain.example(name)
        for path in (spec, spec.with_suffix(".onnx")):
            (pytester.path / path.name).write_bytes(path.read_bytes())
    return pytester


def outcomes(project: pytest.Pytester, code: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_it=f"import pytest\n{code}")
    return project.runpytest_inprocess("--strict-markers", "-W", "error", *options)


def test_a_marked_test_passes_for_a_fair_network_and_gets_its_verdict(project: pytest.Pytester) -> None:
    found = outcomes(
        project,
        """
@pytest.mark.fairchain("census.toml")
def test_fair(fairchain_verdict):
    assert fairchain_verdict.gap.high <= 0.1
""",
    )
    found.assert_outcomes(passed=1)


def test_a_marked_test_fails_for_an_unfair_network_without_a_traceback(project: pytest.Pytester) -> None:
    found = outcomes(project, '@pytest.mark.fairchain("credit.toml")\ndef test_unfair(): pass')
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*UNFAIR: the largest gap is 0.1586 [[]0.1000, 0.3424[]], above the threshold 0.1*"])
    found.stdout.fnmatch_lines(["Widest pair seen: age=80-89 gets good more often than age=10-19."])
    found.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_options_of_the_marker_are_those_of_verify(project: pytest.Pytester) -> None:
    code = """
from fairchain import load_spec
spec = load_spec("credit.toml")
@pytest.mark.fairchain("credit.toml", model="census.onnx")
def test_other_model(): pass
@pytest.mark.fairchain(spec, workers=1)
def test_object(fairchain_verdict): pass
"""
    found = outcomes(project, code)
    # A network of another shape is a question that cannot be asked.
    found.assert_outcomes(errors=1, failed=1)
    found.stdout.fnmatch_lines(["*census.onnx*"])


def test_undecided_fails_unless_it_may_pass(project: pytest.Pytester) -> None:
    text = (project.path / "census.toml").read_text(encoding="utf-8").replace("threshold = 0.1", "threshold = 0.0092")
    assert "0.0092" in text
    (project.path / "near.toml").write_text(f"{text}\nbudget = {{ rounds = 1000 }}\n", encoding="utf-8")
    code = """
@pytest.mark.fairchain("near.toml")
def test_strict(): pass
@pytest.mark.fairchain("near.toml", undecided="pass")
def test_gate(fairchain_verdict): assert fairchain_verdict.decision.name == "UNDECIDED"
"""
    outcomes(project, code).assert_outcomes(passed=1, failed=1)


def test_mistakes_are_told_in_one_line(project: pytest.Pytester) -> None:
    code = """
@pytest.mark.fairchain("none.toml")
def test_no_such_spec(): pass
@pytest.mark.fairchain()
def test_no_spec(): pass
def test_no_marker(fairchain_verdict): pass
@pytest.mark.fairchain("census.toml", undecided="maybe")
def test_bad_option(): pass
@pytest.mark.fairchain("census.toml", surprise=1)
def test_unknown_option(): pass
"""
    found = outcomes(project, code)
    found.assert_outcomes(errors=5)
    found.stdout.fnmatch_lines(
        [
            "*none.toml: file not found*",
            "*the fixture fairchain_verdict needs its marker with one spec*",
            '*undecided: found "maybe"; write "fail" or "pass"*',
            "*unexpected keyword argument 'surprise'*",
        ]
    )
    found.stdout.no_fnmatch_line("*Traceback*")


def test_the_spec_is_found_beside_the_test_wherever_pytest_starts(project: pytest.Pytester) -> None:
    inner = project.mkdir("inner")
    for name in ("census.toml", "census.onnx"):
        (project.path / name).rename(inner / name)
    (inner / "test_inner.py").write_text(
        'import pytest\n@pytest.mark.fairchain("census.toml")\ndef test_it(): pass\n', encoding="utf-8"
    )
    project.runpytest_inprocess("inner").assert_outcomes(passed=1)


def test_the_body_of_a_test_never_sees_an_unfair_network(project: pytest.Pytester) -> None:
    code = """
import unittest
@pytest.mark.fairchain("credit.toml")
def test_one(fairchain_verdict): open("seen", "w").close()
@pytest.mark.fairchain("credit.toml")
class TestTwo(unittest.TestCase):
    def test_two(self): open("seen", "w").close()
"""
    outcomes(project, code).assert_outcomes(failed=2)
    assert not (project.path / "seen").exists()


def test_a_class_and_a_parametrized_test_can_be_marked(project: pytest.Pytester) -> None:
    code = """
@pytest.mark.fairchain("census.toml")
class TestModel:
    def test_one(self, fairchain_verdict): assert fairchain_verdict.fair
    @pytest.mark.parametrize("n", [1, 2])
    def test_two(self, n): pass
def test_other(): pass
"""
    outcomes(project, code).assert_outcomes(passed=4)


def test_the_verdict_stands_in_pytests_own_junit_file(project: pytest.Pytester) -> None:
    outcomes(project, '@pytest.mark.fairchain("census.toml")\ndef test_fair(): pass', "--junitxml=out.xml")
    value = ElementTree.parse(project.path / "out.xml").find(".//property[@name='fairchain']")
    assert value is not None
    assert str(value.get("value")).startswith("FAIR: the largest gap is")


def test_the_tests_of_the_ci_page_pass(project: pytest.Pytester) -> None:
    page = (PYPROJECT.parent / "docs" / "ci.md").read_text(encoding="utf-8")
    block = next(code for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "pytest" in code)
    outcomes(project, block).assert_outcomes(passed=3)


OTHERS = {
    "marker": """
@pytest.mark.fairness
def test_threads_get_equal_time(): pass
@pytest.mark.fairness("round robin")
def test_queues(): pass
""",
    "fixture": """
@pytest.fixture
def fair(): return "of the scheduler"
@pytest.mark.fairness
def test_threads_get_equal_time(fair): assert fair == "of the scheduler"
def test_queues(fair): pass
""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_markers_and_fixtures_of_other_projects_stay_theirs(name: str, project: pytest.Pytester) -> None:
    """The plugin is loaded wherever fairchain is installed, also for projects that never heard of it."""
    project.makeini("[pytest]\nmarkers =\n    fairness: tests of our own scheduler")
    outcomes(project, OTHERS[name]).assert_outcomes(passed=2)


def test_the_marker_is_listed(project: pytest.Pytester) -> None:
    project.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.fairchain(spec, model=None*"])


def test_the_plugin_imports_nothing_heavy_for_those_who_do_not_use_it() -> None:
    code = """
import sys, fairchain.pytest_plugin
heavy = {"numpy", "onnx", "onnxruntime", "msgspec", "click", "rich", "scipy", "mlflow", "torch"}
print(heavy & set(sys.modules))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"


def test_assert_fair_gives_the_verdict_or_an_assertion_error_that_holds_it() -> None:
    assert fairchain.assert_fair(None, fairchain.example("census")).fair
    with pytest.raises(AssertionError, match="UNFAIR") as caught:
        fairchain.assert_fair(None, fairchain.example("credit"))
    assert isinstance(caught.value, UnfairError)
    assert caught.value.verdict.decision.name == "UNFAIR"
    with pytest.raises(ValueError, match=says(BAD_ON_CONSTANT)):
        fairchain.assert_fair(None, fairchain.example("census"), undecided="maybe")


def test_a_gate_does_not_rest_on_a_rule_that_is_not_sound() -> None:
    from fairchain.spec import revise

    spec = revise(fairchain.load_spec(fairchain.example("census")), guarantee__rule="paper")
    for undecided in ("fail", "pass"):
        with pytest.raises(UnfairError, match=says(NOT_SOUND)):
            fairchain.assert_fair(None, spec, undecided=undecided)


def test_of_single_people_no_pair_is_named() -> None:
    from fairchain.spec import revise

    changes = {"property__kind": "individual", "property__protected": ["sex"], "property__threshold": 0.001}
    spec = revise(fairchain.load_spec(fairchain.example("census")), **changes)
    with pytest.raises(UnfairError) as caught:
        fairchain.assert_fair(None, spec)
    assert "Widest pair" not in str(caught.value)

"""A pytest plugin: the marker `fairchain(spec)` and the fixture `fairchain_verdict`.

    @pytest.mark.fairchain("audit.toml")
    def test_the_model_is_fair(fairchain_verdict):
        assert fairchain_verdict.gap.high < 0.08

pytest loads it if fairchain is installed, so both names begin with the package's name, to avoid conflicts with markers
and fixtures of other projects. A test with the marker fails unless the network is found fair; `fairchain_verdict` is
the verdict. Only pytest is imported before such a test runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fairchain.verification.verdict import Verdict

REFUSED_KEY = pytest.StashKey[str]()
MARKER, FIXTURE = "fairchain", "fairchain_verdict"
USAGE = f'{MARKER}(spec, model=None, **options): like fairchain.assert_fair; write @pytest.mark.{MARKER}("a.toml")'


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", USAGE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the fixture to every test with the marker, whether or not the test names it."""
    for item in items:
        if item.get_closest_marker(MARKER) is not None and hasattr(item, "fixturenames"):
            item.fixturenames.append(FIXTURE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail the test of a network that is not fair before its body runs; bad input is an error."""
    if REFUSED_KEY in item.stash:
        pytest.fail(item.stash[REFUSED_KEY], pytrace=False)


@pytest.fixture
def fairchain_verdict(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict on the marker's spec; the test fails unless it is FAIR. Paths are relative to its file."""
    from fairchain.errors import FairchainError
    from fairchain.testing import UnfairError, assert_fair

    marker = request.node.get_closest_marker(MARKER)
    if marker is None or len(marker.args) != 1:
        pytest.fail(f"the fixture {FIXTURE} needs its marker with one spec: {USAGE}", pytrace=False)
    options: dict[str, Any] = dict(marker.kwargs)
    spec = marker.args[0]
    if isinstance(spec, str | Path):
        spec = request.path.parent / spec
    try:
        verdict = assert_fair(options.pop("model", None), spec, **options)
    except UnfairError as error:
        verdict = error.verdict
        request.node.stash[REFUSED_KEY] = str(error)
    except FairchainError as error:
        pytest.fail(str(error), pytrace=False)
    request.node.user_properties.append((MARKER, verdict.record.sentence))
    return verdict

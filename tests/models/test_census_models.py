"""Promises about models on real data: one call, and the gap is that of the model's own decisions, to 1e-12."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.census_models import KINDS, PROTECTED, census, check_kind

pytestmark = [
    pytest.mark.network,
    pytest.mark.boosting,
    # Keras on torch warns about numpy in its own code.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
pytest.importorskip("sklearn")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return census(tmp_path_factory.mktemp("census")).head(6000)


@pytest.mark.parametrize("kind", KINDS)
def test_one_call_gives_the_gap_of_the_models_own_decisions(kind: str, frame: Any, tmp_path: Path) -> None:
    verdict, chosen, _ = check_kind(kind, frame, tmp_path)
    rates = [np.mean(chosen[frame[PROTECTED] == group]) for group in ("Female", "Male")]
    assert rates[1] - rates[0] > 0.1
    assert verdict.gap.estimate == pytest.approx(rates[1] - rates[0], abs=1e-12)
    assert "rows" in verdict.population

"""The files that certificates are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rechecking.builders import written


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("audit"))

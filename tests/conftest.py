"""Settings of all tests: none is timed, and files of which no test is chosen are not imported."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

# Keras asks for TensorFlow unless it is told otherwise.
os.environ.setdefault("KERAS_BACKEND", "torch")
# There is a process of tests for each core: further threads of numeric packages would wait for each other, at work.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")
# Machines are shared and slow at times: how long an example takes says nothing about whether it holds.
settings.register_profile("untimed", deadline=None, max_examples=40)
settings.load_profile("untimed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file if the option -m leaves out all of its tests: torch and its like take seconds to import."""
    wanted: str = config.option.markexpr
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+( and not \w+)*", wanted):
        return None
    stated = re.search(r"^pytestmark = (\[[^]]*\]|.*)", collection_path.read_text(), re.MULTILINE)
    marks = re.findall(r"pytest\.mark\.(\w+)", stated[1]) if stated else ()
    return True if set(marks) & set(re.findall(r"not (\w+)", wanted)) else None


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and tests, which stay to the end."""
    gc.collect()
    gc.freeze()

"""Makes `tests` a package that every test file can import its builders from; no test is timed."""

from __future__ import annotations

import os

from hypothesis import settings

# Keras asks for TensorFlow unless it is told otherwise.
os.environ.setdefault("KERAS_BACKEND", "torch")
# Machines are shared and slow at times: how long an example takes says nothing about whether it holds.
settings.register_profile("untimed", deadline=None, max_examples=60)
settings.load_profile("untimed")

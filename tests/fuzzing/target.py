"""A target of the fuzz tests: a parser, whole files of its format, and how they are damaged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from fairchain.errors import FairchainError

MODEL_BYTES, MODEL_SECONDS = 2**28, 1


class CautiousRefusalError(FairchainError):
    """A refusal for which trials of the file show no reason."""


@dataclass(frozen=True)
class Target:
    """A parser under test.

    Parameters
    ----------
    kind
        Which mutator damages its files.
    suffix
        Of the mutants' names.
    seeds
        Makes whole files.
    attempt
        Reads a file as the product does.
    needs
        Packages without which the target is left out.
    share
        How many of 100 mutants of a whole run it gets, about: fewer where each is slow.
    isolated
        Whether the product reads such files in a child process, so that a crash of the reader is a refusal.
    generate
        Makes a new file for each number, in place of a damaged one.
    """

    kind: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    attempt: Callable[[Path], object]
    needs: tuple[str, ...] = ()
    share: float = 4.0
    isolated: bool = False
    generate: Callable[[Random], bytes] | None = None

    @property
    def available(self) -> bool:
        """Whether the packages that it needs are installed."""
        return all(find_spec(name) is not None for name in self.needs)


def made(write: Callable[[Path], object], suffix: str = "") -> bytes:
    """Return what a function writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"seed{suffix}"
        write(path)
        return path.read_bytes()


def limits() -> Any:
    from fairchain.models import Limits

    return Limits(memory_bytes=MODEL_BYTES, seconds=MODEL_SECONDS)

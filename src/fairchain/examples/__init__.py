"""Three networks trained on real data, each with its spec (docs/networks.md says what they are)."""

from __future__ import annotations

from pathlib import Path

from fairchain.errors import SpecError

NAMES = ("census", "credit", "bank")


def example(name: str) -> Path:
    """The path of an embedded spec; its network lies beside it.

    >>> example("census").name
    'census.toml'
    """
    if name not in NAMES:
        raise SpecError(f'there is no example "{name}"; there is {", ".join(NAMES)}')
    return Path(__file__).parent / f"{name}.toml"

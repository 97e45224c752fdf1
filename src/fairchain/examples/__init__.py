"""Three networks trained on real data, each with its spec (docs/networks.md says what they are).

`census-people` asks the census network about real rows, which are fetched, not shipped (docs/people.md).
"""

from __future__ import annotations

from pathlib import Path

from fairchain.errors import SpecError

NAMES = ("census", "credit", "bank", "census-people")


def example(name: str) -> Path:
    """The path of an embedded spec; its network, `census.onnx` for example, lies beside it.

    >>> example("census").name
    'census.toml'
    """
    if name not in NAMES:
        raise SpecError(f'there is no example "{name}"; there is {", ".join(NAMES)}')
    return Path(__file__).parent / f"{name}.toml"

"""Four networks trained on real data, with their specs (docs/networks.md says what they are).

`census-people` is about the census network and real rows (docs/people.md), and the two `comments-` specs ask a network
that reads comments about texts (docs/text.md); rows, texts and word vectors are fetched, not shipped.
"""

from __future__ import annotations

from pathlib import Path

from fairchain.errors import SpecError

NAMES = ("census", "credit", "bank", "census-people", "comments-religion", "comments-race")


def example(name: str) -> Path:
    """Return the path of an embedded spec; its network, `census.onnx` for example, is in the same folder.

    >>> example("census").name
    'census.toml'
    """
    if name not in NAMES:
        raise SpecError(f'unknown example "{name}"; expected one of {", ".join(NAMES)}')
    return Path(__file__).parent / f"{name}.toml"


def files_of(stem: str) -> list[Path]:
    """Return the paths of the network `stem` and of every spec about it.

    >>> [path.name for path in files_of("census")]
    ['census-people.toml', 'census.onnx', 'census.toml']
    """
    return sorted(Path(__file__).parent.glob(f"{stem}[.-]*"))

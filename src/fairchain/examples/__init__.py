"""Five networks trained on real data, with their specs (see benchmarks/NETWORKS.md and docs/text.md).

`census-rows` is about the census network and real rows (docs/concepts.md); the two `comments-` specs are about an LSTM
that reads comments, and `transformer` is about a transformer. Rows, texts and word vectors are downloaded, not shipped.
"""

from __future__ import annotations

from pathlib import Path

from fairchain.errors import SpecError
from fairchain.messages import unknown

EXAMPLES = ("census", "credit", "bank", "census-rows", "comments-religion", "comments-race", "transformer")
RENAMED_EXAMPLES = {"census-people": "census-rows"}
RENAMED_EXAMPLE = 'example "{name}" is now called "{new}"; use the new name'


def example(name: str) -> Path:
    """Return the path of an example spec of fairchain.

    The network, such as `census.onnx`, is in the same folder.

    >>> example("census").name
    'census.toml'
    """
    if name in RENAMED_EXAMPLES:
        raise SpecError(RENAMED_EXAMPLE.format(name=name, new=RENAMED_EXAMPLES[name]))
    if name not in EXAMPLES:
        raise SpecError(unknown("example", name, EXAMPLES))
    return Path(__file__).parent / f"{name}.toml"


def example_files(stem: str) -> list[Path]:
    """Return the paths of the network `stem` and of every spec about it.

    >>> [path.name for path in example_files("census")]
    ['census-rows.toml', 'census.onnx', 'census.toml']
    """
    return sorted(Path(__file__).parent.glob(f"{stem}[.-]*"))

"""From a stated network or its file to nodes. Reading executes nothing, and a file is limited before it is parsed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairchain.errors import SpecError
from fairchain.populations.bayes.bif import parse_bif
from fairchain.spec.schema import Network, Node

# Reading TOML takes ten times as long as reading JSON or BIF.
MOST_BYTES = {".bif": 50_000_000, ".json": 50_000_000, ".toml": 5_000_000}
STATED = "population.nodes"


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: Annotated[tuple[Node, ...], Meta(min_length=1)]


def source_of(network: Network) -> str:
    """What messages call a network: its file, or the key of the spec."""
    return network.path or network.name or STATED


def read_nodes(network: Network) -> tuple[Node, ...]:
    """The nodes of a network as stated, or those of its `.bif`, `.json` or `.toml` file.

    Raises
    ------
    SpecError
        One message with the file and the line or key, what was found and what to write.
    """
    if (network.path is None) == (not network.nodes):
        found = "both path and nodes" if network.nodes else "neither path nor nodes"
        raise SpecError(f'population: has {found}; name a file, path = "people.bif", or state [[population.nodes]]')
    if network.path is None:
        return network.nodes
    path = Path(network.path)
    try:
        return _parse(path.suffix.lower(), path)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _parse(suffix: str, path: Path) -> tuple[Node, ...]:
    if suffix not in MOST_BYTES:
        raise SpecError(f'a Bayesian network ends in .bif, .json or .toml, found "{suffix}"; rename or convert it')
    content = _read(path, MOST_BYTES[suffix])
    try:
        if suffix == ".json":
            return _convert(msgspec.json.decode(content))
        text = content.decode("utf-8-sig")
        return parse_bif(text) if suffix == ".bif" else _convert(tomllib.loads(text))
    except UnicodeDecodeError:
        raise SpecError("not UTF-8 text; save it as UTF-8") from None
    except SpecError:
        raise
    except ValueError as error:  # of either format, and a number of more digits than Python reads
        raise SpecError(f"not valid {suffix[1:].upper()}: {error}") from None
    except RecursionError:
        raise SpecError("nested too deeply for a network") from None


def _read(path: Path, most: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise SpecError("not a file; give the path of a .bif, .json or .toml file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise SpecError("no such file; check path in [population], which is relative to the spec") from None
    except OSError as error:
        raise SpecError(f"cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise SpecError(f"cannot be read ({error})") from None
    if len(content) > most:
        raise SpecError(f"larger than {most} bytes, which is more than a {path.suffix} network may have")
    return content


def _convert(data: Any) -> tuple[Node, ...]:
    try:
        return msgspec.convert(data, _File).nodes
    except msgspec.ValidationError as error:
        raise SpecError(_explain(str(error), data)) from None
    except UnicodeEncodeError:
        raise SpecError("some text in it cannot be written as UTF-8; remove the lone surrogates") from None


def _explain(problem: str, data: Any) -> str:
    """Turn `what - at `$.nodes[3].mean`` into a message that calls the node by its name."""
    what, _, at = problem.partition(" - at `$")
    path = at.rstrip("`").lstrip(".")
    what = what[:1].lower() + what[1:].replace("`", "")
    number = re.match(r"nodes\[(\d+)\](.*)", path)
    if number is None:
        return f'{path or "nodes"}: {what}; write {{"nodes": [...]}}, in TOML [[nodes]], with a name for each'
    node = data["nodes"][int(number[1])]
    name = node.get("name") if isinstance(node, dict) else None
    called = f'"{name}"' if isinstance(name, str) else f"number {int(number[1]) + 1}"
    return f"node {called}{number[2]}: {what}; a node has name, parents, values, probabilities, mean, std, slopes"

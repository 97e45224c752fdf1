"""Seeds that an issuer cannot choose: a hash of the network, the meaning of the spec, and the data.

The inputs of a run are a function of its seed. Whoever knows the seed before the network exists can build a network
that behaves well on exactly these inputs. So by default the network comes first: the seed is the hash of everything
that decides what is asked about what (docs/trust.md). What a user may vary without changing the question, paths,
budgets and the way a number is written, is left out of the hash, so that it gives no second try.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from fairchain.spec.schema import Network, Spec

Origin = Literal["derived", "chosen"]
# Keys that name files: what is in these files is part of the hash of the data.
FILES = ("path", "vectors", "vocabulary", "wordnet")


@dataclass(frozen=True)
class Seed:
    """The seed of a run: `derived` from what is asked, or `chosen` by whoever asked."""

    value: int
    origin: Origin


def meaning_of(spec: Spec) -> dict[str, str]:
    """Return each table of a spec as canonical JSON, without paths, seed and budget, which change no meaning.

    Two specs ask the same question about the same files if and only if these texts are equal.
    """
    if isinstance(spec.population, Network) and spec.population.path is not None:
        raise ValueError("a Bayesian network must be read into the spec before the spec is compared or hashed")
    data: dict[str, Any] = msgspec.to_builtins(spec)
    data["model"].pop("path")
    for part in (data["population"], *data["feature"]):
        for key in FILES:
            part.pop(key, None)
    data["population"].pop("name", None)  # what verdicts call it
    for key in ("seed", "budget"):
        data["guarantee"].pop(key)
    if not data["guarantee"]["allow_constant"]:
        del data["guarantee"]["allow_constant"]
    return {
        key: json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
        for key, value in sorted(data.items())
    }


def derive_seed(spec: Spec, model_sha256: str, data_sha256: str | None) -> int:
    """Return the seed that follows from a network, the meaning of a spec and the files of its population.

    Parameters
    ----------
    spec
        With the nodes of a Bayesian network and the terms of a list inside, not as paths.
    model_sha256
        Of the network's bytes; empty for a Python function, which has none.
    data_sha256
        Of the rows, or of the texts with their words; None where the spec says everything.
    """
    parts = ["fairchain seed 1", model_sha256, data_sha256, meaning_of(spec)]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def seed_of(spec: Spec, model_sha256: str, data_sha256: str | None) -> Seed:
    """Return the seed that the spec states, or else the derived one."""
    if spec.guarantee.seed is not None:
        return Seed(spec.guarantee.seed, "chosen")
    return Seed(derive_seed(spec, model_sha256, data_sha256), "derived")


def _plain(value: Any) -> Any:
    """Return the value with every number in one form: 1 for 1.0, 0 for -0.0."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value

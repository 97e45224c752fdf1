"""Seeds that an issuer cannot choose: a hash of the network, the meaning of the spec, and the data.

The inputs of a run are a function of its seed. If the seed is known before the network exists, a network can be built
that behaves well on exactly these inputs. So by default the network comes first: the seed is the hash of everything
that determines the question (docs/trust.md). Keys that a user may vary without changing the question (paths, engine,
budgets, the notation of a number) are left out of the hash, so that they give no second try.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from fairchain.spec.population_keys import BayesNetwork
from fairchain.spec.schema import Spec

Origin = Literal["derived", "chosen"]
# Keys that name files: the contents of these files are part of the hash of the data.
FILE_KEYS = ("path", "vectors", "vocabulary", "wordnet")


class Seed(msgspec.Struct, frozen=True):
    """The seed of a run: `derived` from network, spec and data, or `chosen` by the user."""

    value: int
    origin: Origin


def meaning_of(spec: Spec) -> dict[str, str]:
    """Return each table of a spec as canonical JSON, without keys that do not change its meaning.

    Left out are paths, [about], seed, engine and budget, and how texts are quoted.

    Two specs ask the same question about the same files if and only if these texts are equal. Keys with default values
    are left out, so that a new key of a later version does not change the seed of specs that do not use it.
    """
    if isinstance(spec.population, BayesNetwork) and spec.population.path is not None:
        raise ValueError("a Bayesian network must be read into the spec before the spec is compared or hashed")
    data: dict[str, Any] = _canonical(spec)
    data.pop("about", None)
    data["model"].pop("path", None)
    for part in (data.get("population", {}), *data["feature"]):
        for key in FILE_KEYS:
            part.pop(key, None)
    for key in ("name", "show_texts", "mask_words"):  # the name in verdicts, and how texts are quoted
        data.get("population", {}).pop(key, None)
    for key in ("seed", "engine", "budget", "refine"):
        data.get("guarantee", {}).pop(key, None)
    return {
        key: json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
        for key, value in sorted(data.items())
        if value
    }


def derive_seed(spec: Spec, model_sha256: str, data_sha256: str | None) -> int:
    """Return the seed derived from a network, the meaning of a spec and the files of its population.

    The spec has the nodes of a Bayesian network and the terms of a list inside, not as paths. `model_sha256` is empty
    for a Python function, which has no bytes; `data_sha256`, of the rows or of the texts with their words, is None if
    the spec contains everything.
    """
    return _hashed(["fairchain seed 1", model_sha256, data_sha256, meaning_of(spec)])


def seed_of(spec: Spec, model_sha256: str, data_sha256: str | None) -> Seed:
    """Return the seed that the spec states, or otherwise the derived one."""
    if spec.guarantee.seed is not None:
        return Seed(spec.guarantee.seed, "chosen")
    return Seed(derive_seed(spec, model_sha256, data_sha256), "derived")


def family_seed(seeds: Sequence[int]) -> int:
    """Return the joint seed of several questions about a model, from the seeds of the single questions.

    Their order does not change the meaning, and gives no second try.
    """
    return _hashed(["fairchain family seed 1", sorted(seeds)])


def _hashed(parts: list[Any]) -> int:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct; msgspec reads the annotations again at each call."""
    return msgspec.structs.fields(kind)


def _canonical(value: Any) -> Any:
    """Return a part of a spec as plain values without defaults, with every number in one form (1 for 1.0)."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        found = {config.tag_field: config.tag} if config.tag_field else {}
        for field in _fields(type(value)):
            factory = field.default_factory
            default = field.default if factory is msgspec.NODEFAULT else factory()
            if (own := getattr(value, field.name)) != default:
                found[field.encode_name] = _canonical(own)
        return found
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value

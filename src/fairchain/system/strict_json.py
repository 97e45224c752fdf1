"""JSON that means one thing: no key twice in an object, since some programs read the first value and some the last."""

from __future__ import annotations

import json
from typing import Any


def object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs, for the `object_pairs_hook` of json.loads; raise a ValueError for a key twice.

    >>> json.loads('{"a": 1, "a": 2}', object_pairs_hook=object_once)
    Traceback (most recent call last):
    ValueError: the key "a" occurs twice in one object
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {json.dumps(twice[:60])} occurs twice in one object")
    return found

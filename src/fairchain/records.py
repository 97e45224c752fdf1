"""The base of all results: typed values that are written as JSON and read again with the same types."""

from __future__ import annotations

from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True):
    """A result whose fields are its JSON keys; `msgspec.json.decode(content, type=...)` reads it again."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: dicts, lists, strings, numbers and None."""
        # A scalar of NumPy becomes a number of Python.
        found: dict[str, Any] = _with_lists(msgspec.to_builtins(self, enc_hook=lambda scalar: scalar.item()))
        return found


def _with_lists(value: Any) -> Any:
    """Return the value with lists instead of tuples, as in JSON."""
    if isinstance(value, dict):
        return {key: _with_lists(each) for key, each in value.items()}
    return [_with_lists(each) for each in value] if isinstance(value, tuple | list) else value

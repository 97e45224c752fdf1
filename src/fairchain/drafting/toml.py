"""TOML by hand, since comments matter: values on one line, texts escaped, comments wrapped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 110
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def value(item: Any) -> str:
    """A value as TOML writes it.

    >>> value(["a", 1, 0.5, True]), value({"17-25": [17, 25], "old": 99})
    ('["a", 1, 0.5, true]', '{ "17-25" = [17, 25], old = 99 }')
    """
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return '"' + "".join(_letter(letter) for letter in item) + '"'
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {value(inner)}" for name, inner in item.items()) + " }"
    if isinstance(item, Sequence):
        return "[" + ", ".join(map(value, item)) + "]"
    raise TypeError(f"TOML has no {type(item).__name__}")


def key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else value(name)


def _letter(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"


def comment(text: str) -> list[str]:
    """Lines of a comment; nothing in the text can end it."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return [f"# {line}" for line in textwrap.wrap(clean, WIDTH - 2, break_on_hyphens=False)]

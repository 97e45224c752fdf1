"""Messages in tests: a message is matched through the constant that its module defines, not through a copy of it."""

from __future__ import annotations

import re
from string import Formatter


def says(message: str, **fields: str) -> str:
    """Return a regular expression of a message; a field that is not given matches any text.

    >>> re.search(says("{path}: no column {name}; rename it", name='"age"'), 'a.csv: no column "age"; rename it')[0]
    'a.csv: no column "age"; rename it'
    """
    parts = list(Formatter().parse(message))
    unknown = fields.keys() - {name for _, name, *_ in parts}
    if unknown:
        raise ValueError(f"{message!r} has no fields {sorted(unknown)}")
    found = "".join(
        re.escape(text) + ("" if name is None else re.escape(fields[name]) if name in fields else ".*")
        for text, name, *_ in parts
    )
    return f"(?s){found}"


def says_one_of(*messages: str) -> str:
    """Return a regular expression of any of these messages, with whatever in their fields."""
    return "(?s)" + "|".join(f"(?:{says(message).removeprefix('(?s)')})" for message in messages)

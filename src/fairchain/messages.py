"""Names in messages: control characters replaced, long names shortened, similar names suggested.

Names come from untrusted specs, tables and networks. On a terminal an escape code could overwrite a verdict; on a page
or a line of text a change of direction could reverse the surrounding words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

Name = TypeVar("Name")

# A control character is replaced by its picture; an invisible one that changes direction or ends a line by the
# replacement character.
_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
_ACTS = _CONTROL | dict.fromkeys(
    [*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], 0xFFFD
)
_ENDS = {code: 0x2400 + code for code in b"\n\t"}
_SURROGATE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def plain(text: object) -> str:
    r"""Return a text without control characters other than line ends and tabs.

    >>> plain("a\x1b[2Jb")
    'a␛[2Jb'
    """
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", str(text)).translate(_ACTS)


def in_a_line(text: object) -> str:
    r"""Return `plain(text)` on one line: a line end could start a line that looks like a verdict.

    >>> in_a_line("sex\nFAIR")
    'sex␊FAIR'
    """
    return plain(text).translate(_ENDS)


MOST_SHOWN = 40
MOST_LISTED = 12
# Messages of several modules.
FILE_NOT_FOUND = "{path}: file not found; {remedy}"
NO_FOLDER = "{path}: cannot be written; name a file in a folder that exists"
EXISTS_ALREADY = "{path}: exists already; give another name with --output, or --force to overwrite it"


def shown(text: str) -> str:
    """Return a text from a table in quotes, shortened if it is long and without control characters."""
    cut = text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
    return f'"{cut}"' if cut.isprintable() else f'"{ascii(cut)[1:-1]}"'


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, at most a dozen."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(shown(name) for name in names[:MOST_LISTED]) + more


def near(name: str, known: Sequence[str]) -> str:
    """Return `did you mean "x"?` if a name is similar, otherwise `expected one of` and the known names (at most 12).

    A name is also similar if it is a part of one known name only.
    """
    folded = {other.casefold(): other for other in reversed(known)}
    from difflib import get_close_matches

    part = name.casefold()
    containing = [other for other in folded if len(part) > 2 and part in other]
    close = get_close_matches(part, folded, n=1) or (containing if len(containing) == 1 else [])
    return f"did you mean {shown(folded[close[0]])}?" if close else f"expected one of {listed(known)}"


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the message about a name that does not exist.

    >>> unknown("column", "agee", ["age", "sex"]), unknown("rule", "x", ["sound", "paper"])
    ('unknown column "agee"; did you mean "age"?', 'unknown rule "x"; expected one of "sound", "paper"')
    """
    return f"unknown {kind} {shown(name)}; {near(name, known)}"


def needs(what: str, package: str, install: str = "") -> str:
    """Return the message about a missing package; `install` is pip's name of it, if different.

    >>> needs("engine storm", "stormpy", "fairchain[storm]")
    "engine storm needs the package stormpy; install it: pip install 'fairchain[storm]'"
    """
    target = f"'{install}'" if install else package
    return f"{what} needs the package {package}; install it: pip install {target}"


def doubled(names: Iterable[Name]) -> Name | None:
    """Return the first name that occurs twice."""
    seen: set[Name] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def many(count: int, noun: str) -> str:
    """Return `1 row`, `2 rows`, `1,000 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"

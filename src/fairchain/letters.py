"""Characters that act where they are shown, and what is shown in their place.

Names come from anybody's spec, table or network. On a terminal an escape code could overwrite a verdict; on a page or
a line of text a change of direction could turn the words around it.
"""

from __future__ import annotations

import re

# What a control character looks like; what turns the direction of a line, or ends it unseen, looks like nothing.
_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
_ACTS = _CONTROL | dict.fromkeys(
    [*range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], 0xFFFD
)
_ENDS = {code: 0x2400 + code for code in b"\n\t"}
_SURROGATE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def plain(text: object) -> str:
    r"""A text in which no character acts but line ends and tabs.

    >>> plain("a\x1b[2Jb")
    'a␛[2Jb'
    """
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", str(text)).translate(_ACTS)


def in_a_line(text: object) -> str:
    r"""The same where a line end would begin a line of its own, such as one that looks like a verdict.

    >>> in_a_line("sex\nFAIR")
    'sex␊FAIR'
    """
    return plain(text).translate(_ENDS)

"""Damage to files: bytes of any format, and the structure of texts, JSON, TOML, protocol buffers and zip archives.

Every function takes a `random.Random`, so that a mutant follows from its seed alone.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

# Numbers at which parsers, types and arithmetic change their behaviour.
NUMBERS = (
    *(
        "0",
        "-0",
        "-1",
        "1",
        "2",
        "0.5",
        "1.5",
        "1e308",
        "1e309",
        "-1e309",
        "5e-324",
        "1e-400",
        "1e5",
        "NaN",
        "Infinity",
    ),
    *(
        "-Infinity",
        "nan",
        "inf",
        "127",
        "128",
        "255",
        "256",
        "65535",
        "65536",
        "2147483647",
        "2147483648",
        "4294967295",
    ),
    *("4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("18446744073709551615", "18446744073709551616", "1" + "0" * 400, "-" + "9" * 400, "0." + "3" * 400, "1" * 5000),
    *("1_000", "0x10", "1,5", "1e", ".5", "5.", "+1", "--1", "00", "1" + "0" * 30, "0.30000000000000004"),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "\0",
        "a",
        "1",
        "\ud800",
        "\u202e",
        "x" * 3000,
        [],
        {},
        [[]],
        [{}],
        {"": None},
        0,
        -1,
        1,
        0.5,
    ),
    *(2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan"), 5e-324, -0.0, 1e-12),
)
ALPHABET = "[]{}()<>=!&|\"'#,.;:\n\r\t\\ -+_*/0123456789einfatruelsxPFGXUSR\0é\u2028\ufeff"
# Bytes of an archive's members above which only its packed bytes are changed: a part may be repeated 300 times.
MOST_UNPACKED = 2 * 2**20
INTEGERS = (0, 1, 2, 3, 7, 127, 128, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def mutated(kind: str, whole: bytes, other: bytes, dice: Random) -> bytes:
    """Return one to three changes of a file, most of them by the rules of its format; `other` is spliced in."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        change = MUTATORS[kind] if dice.random() < 0.8 else damaged_bytes
        whole = change(whole, other, dice) or whole
    return whole


def damaged_bytes(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Flip, delete, insert, repeat, truncate or splice some bytes; half of the time near the ends: headers."""
    if not whole:
        return dice.randbytes(4)
    size = len(whole)
    start = (
        dice.randrange(size)
        if dice.random() < 0.5 or size < 600
        else dice.choice((0, size - 300)) + dice.randrange(300)
    )
    end = min(size, start + dice.choice((1, 1, 2, 4, 8, 200)))
    before, piece, after = whole[:start], whole[start:end], whole[end:]
    kind = dice.randrange(8)
    if kind == 0:
        piece = bytes([piece[0] ^ 1 << dice.randrange(8)]) + piece[1:]
    elif kind == 1:
        piece = dice.randbytes(len(piece))
    elif kind == 2:
        piece = bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF))]) * len(piece)
    elif kind == 3:
        piece += dice.randbytes(dice.choice((1, 2, 8, 100)))
    elif kind == 4:
        piece *= dice.choice((2, 3, 50))
    elif kind == 5:
        foreign = dice.randrange(len(other) or 1)
        piece = other[foreign : foreign + dice.choice((4, 50, 1000))]
    elif kind == 6 and start:
        after = b""
    else:
        piece = b""
    return before + piece + after


def damaged_text(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Change a number, a word, a line or some characters of a text."""
    text, foreign = whole.decode("utf-8", "surrogateescape"), other.decode("utf-8", "surrogateescape")
    kind = dice.randrange(6)
    if kind == 0:
        text = _replaced(r"[-+]?[0-9][0-9.eE]*", text, dice, lambda _: dice.choice(NUMBERS))
    elif kind == 1:
        text = _replaced(r"\w+", text, dice, lambda found: _word(found, text, foreign, dice))
    elif kind in (2, 3):
        text = _lines(text, foreign, dice)
    else:
        start = dice.randrange(len(text) + 1)
        end = start + dice.choice((0, 1, 1, 2, 8))
        text = text[:start] + "".join(dice.choices(ALPHABET, k=dice.choice((0, 1, 1, 2, 5)))) + text[end:]
    return text.encode("utf-8", "surrogateescape")


def _replaced(pattern: str, text: str, dice: Random, new: Callable[[str], str]) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = dice.choice(found)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


def _word(found: str, text: str, foreign: str, dice: Random) -> str:
    words = re.findall(r"\w+", dice.choice((text, foreign))) or [found]
    return dice.choice(
        (dice.choice(words), found * 2, found[:1], found.upper(), "", "x" * 2000, f"{found}\0", f'"{found}"')
    )


def _lines(text: str, foreign: str, dice: Random) -> str:
    """Delete, repeat, move or exchange some lines."""
    lines = text.split("\n")
    start = dice.randrange(len(lines))
    end = min(len(lines), start + dice.choice((1, 1, 2, 10)))
    piece = lines[start:end]
    kind = dice.randrange(4)
    if kind == 0:
        return "\n".join(lines[:start] + lines[end:])
    if kind == 1:
        return "\n".join(lines[:end] + piece * dice.choice((1, 1, 100)) + lines[end:])
    if kind == 2:
        rest = lines[:start] + lines[end:]
        place = dice.randrange(len(rest) + 1)
        return "\n".join(rest[:place] + piece + rest[place:])
    others = foreign.split("\n")
    return "\n".join([*lines[:start], dice.choice(others), *lines[end:]])


def damaged_json(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Change a value of a JSON document at any depth, repeat one of its keys, or damage it as a text."""
    kind = dice.randrange(8)
    if kind == 0:
        return damaged_text(whole, other, dice)
    if kind == 1:
        text = whole.decode("utf-8", "surrogateescape")
        again = _replaced(
            r'"[^"\\]*"\s*:', text, dice, lambda key: f"{key} {dice.choice(('0', 'null', '[]', '{}'))}, {key}"
        )
        return again.encode("utf-8", "surrogateescape")
    try:
        root = json.loads(whole)
    except (ValueError, RecursionError):
        return damaged_text(whole, other, dice)
    holder, key = _place(root, dice)
    if holder is None:
        root = dice.choice(VALUES)
    else:
        _change(holder, key, dice)
    try:
        return json.dumps(root).encode()
    except (ValueError, RecursionError):
        return whole


def _place(root: Any, dice: Random) -> tuple[Any, Any]:
    """Return a container anywhere in the document, and a key in it."""
    holder, key, here = None, None, root
    while isinstance(here, dict | list) and here and (holder is None or dice.random() < 0.7):
        holder = here
        key = dice.choice(list(here)) if isinstance(here, dict) else dice.randrange(len(here))
        here = here[key]
    return holder, key


def _change(holder: Any, key: Any, dice: Random) -> None:
    kind, old = dice.randrange(6), holder[key]
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder[key:key] = [old] * dice.choice((1, 2, 300))
    elif kind == 2:
        for _ in range(dice.choice((1, 2, 60))):
            old = [old]
        holder[key] = old
    elif kind == 3 and isinstance(holder, dict):
        del holder[key]
        holder[dice.choice((f"{key}s", key.upper(), "", "\0", "x" * 500))] = old
    elif kind == 4:
        other = dice.choice(list(holder)) if isinstance(holder, dict) else dice.randrange(len(holder))
        holder[key], holder[other] = holder[other], old
    else:
        holder[key] = dice.choice(VALUES)


def damaged_protobuf(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Change a field of a protocol buffer at any depth."""
    try:
        return _encoded(_changed(_fields(whole), _fields(other), dice))
    except _NotAMessageError:
        return damaged_bytes(whole, other, dice)


class _NotAMessageError(Exception):
    pass


Field = tuple[int, int, Any]


def _fields(content: bytes) -> list[Field]:
    """Return (number, wire type, value) of each field of a message."""
    found, place = [], 0
    while place < len(content):
        key, place = _varint(content, place)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, place = _varint(content, place)
        else:
            size, place = _varint(content, place) if kind == 2 else ({5: 4, 1: 8}.get(kind, -1), place)
            value, place = content[place : place + size], place + size
            if size < 0 or place > len(content):
                raise _NotAMessageError
        if not 0 < number < 2**29:
            raise _NotAMessageError
        found.append((number, kind, value))
    return found


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(content) and shift < 70:
        byte = content[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return value, place
    raise _NotAMessageError


def _encoded(fields: list[Field]) -> bytes:
    parts = []
    for number, kind, value in fields:
        content = _from_int(value) if kind == 0 else value
        parts += [_from_int(number << 3 | kind), _from_int(len(content)) if kind == 2 else b"", content]
    return b"".join(parts)


def _from_int(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _changed(fields: list[Field], others: list[Field], dice: Random) -> list[Field]:
    if not fields:
        return others
    place = dice.randrange(len(fields))
    number, kind, value = fields[place]
    if kind == 2 and dice.random() < 0.75:
        try:
            inner = _fields(value)
            foreign = [each for each in others if each[:2] == (number, kind)]
            below = _fields(dice.choice(foreign)[2]) if foreign else inner
            return _with(fields, place, [(number, kind, _encoded(_changed(inner, below, dice)))])
        except _NotAMessageError:
            pass
    change = dice.randrange(6)
    if change == 0:
        return _with(fields, place, [])
    if change == 1:
        return _with(fields, place, [fields[place]] * dice.choice((2, 3, 40)))
    if change == 2:
        return _with(fields, place, [dice.choice(others or fields)])
    if change == 3:
        return _with(
            fields, place, [(dice.choice((number + 1, max(1, number - 1), dice.randrange(1, 40))), kind, value)]
        )
    if kind == 0:
        return _with(fields, place, [(number, 0, dice.choice((*INTEGERS, value + 1, max(0, value - 1))))])
    if kind == 2 and len(value) < 200 and dice.random() < 0.5:
        return _with(fields, place, [(number, 2, damaged_text(value, value, dice))])
    changed = damaged_bytes(value, value, dice) if kind == 2 else dice.randbytes(len(value))
    return _with(fields, place, [(number, kind, changed)])


def _with(fields: list[Field], place: int, new: list[Field]) -> list[Field]:
    return fields[:place] + new + fields[place + 1 :]


def damaged_zip(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Change a member of an archive by its own format, its name, its number or how it is packed."""
    try:
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            small = unpacked_size(whole) <= MOST_UNPACKED
            members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()] if small else []
    except Exception:  # damaged before
        return damaged_bytes(whole, other, dice)
    if not members:
        return damaged_bytes(whole, other, dice)
    place, kind = dice.randrange(len(members)), dice.randrange(8)
    name, content = members[place]
    if kind < 4:
        change = damaged_json if name.endswith(".json") else damaged_bytes
        members[place] = name, change(content, content, dice)
    elif kind == 4:
        members.pop(place)
    elif kind == 5:
        members.append((name, dice.choice((content, b"", content[:10]))))
    elif kind == 6:
        members[place] = dice.choice((f"../{name}", f"/{name}", name.upper(), "\\" + name, f"{name}/")), content
    else:
        members[place] = name, content + b"\0" * dice.choice((1, 1000, 10**6))
    packed = zipped(members, dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return damaged_bytes(packed, other, dice) if dice.random() < 0.2 else packed


def unpacked_size(archive: bytes) -> int:
    """Return how many bytes the members of an archive have by its own list."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return sum(entry.file_size for entry in opened.infolist())


def zipped(members: list[tuple[str, bytes]], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of these members; the same for the same members at any time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members:
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = packing
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # two members of one name are meant
                archive.writestr(entry, content)
    return file.getvalue()


def damaged_gzip(whole: bytes, other: bytes, dice: Random) -> bytes:
    """Change the text in a compressed file and compress it again."""
    try:
        text, foreign = gzip.decompress(whole), gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return damaged_bytes(whole, other, dice)
    return gzip.compress(damaged_text(text, foreign, dice), mtime=0)


MUTATORS: dict[str, Callable[[bytes, bytes, Random], bytes]] = {
    "bytes": damaged_bytes,
    "text": damaged_text,
    "json": damaged_json,
    "protobuf": damaged_protobuf,
    "zip": damaged_zip,
    "gzip": damaged_gzip,
}

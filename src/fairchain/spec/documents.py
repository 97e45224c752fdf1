"""Files that a user writes in TOML or JSON: read within a limit, parsed, never executed; files that a spec names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from fairchain.errors import SpecError
from fairchain.spec.population_keys import Texts
from fairchain.system.untrusted_files import UnreadableError, object_once, read_plain


def read_bytes(path: Path, most: int, remedy: str) -> bytes:
    """Return the content of a file of at most `most` bytes; messages do not name the file."""
    try:
        return read_plain(path, most)
    except UnreadableError as error:
        raise SpecError(f"{error}; {remedy}") from None


def decode_text(content: bytes) -> str:
    """Return UTF-8 bytes as text, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError("not UTF-8 text; save it as UTF-8") from None


def parse_document(content: bytes, suffix: str) -> Any:
    """Return the contents of a `.toml` or `.json` file."""
    text = decode_text(content)
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        data = msgspec.json.decode(text)
        json.loads(text, object_pairs_hook=object_once)  # msgspec takes the last of two values of a key
        return data
    except (ValueError, msgspec.MsgspecError) as error:  # of either format, or a number too long for Python
        raise SpecError(f"not valid {suffix[1:].upper()}: {error}") from None
    except RecursionError:
        raise SpecError("nested too deeply; write it flatter") from None


def files_of(part: object) -> dict[str, str]:
    """Return the keys of a part of a spec that name a file or a folder, with their values.

    Lists and vectors that come with fairchain are named without a suffix.
    """
    found = {key: getattr(part, key, None) for key in ("path", "vocabulary", "wordnet")}
    found |= {key: name for key in ("terms", "vectors") if is_file(name := getattr(part, key, None))}
    return {key: name for key, name in found.items() if name is not None}


def texts_in_memory(population: object) -> bool:
    """Return whether a population consists of texts in memory, which have no file for others."""
    return isinstance(population, Texts) and not (population.path or population.dataset)


def is_file(name: object) -> bool:
    """Return whether a list of terms or of vectors is a file, not a name that fairchain knows."""
    return isinstance(name, str) and bool(set(name) & set("./\\"))

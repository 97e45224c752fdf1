"""What writer and checker of a certificate must agree on: names, version, and the digest of its content."""

from __future__ import annotations

import hashlib
import json
from typing import Any

FORMAT = "fairchain-certificate"
VERSION = 4
# What the words of a round are, so that a reader can draw them without our code.
STREAM = "philox4x64-10, key=seed, counter=[0, substream, chunk, copy], 32-bit words low half first"

# Where only one label came of the rounds that are counted, more inputs are tried before a model counts as constant: the
# evaluations, the first chunk, and the rounds in each chunk. They are not counted.
LOOKED, LOOK_CHUNK, LOOK_ROUNDS = 20_000, 2**45, 1024

# Values that a certificate may hold, counted by commas and brackets: about 70 bytes of memory each for a reader.
MOST_VALUES = 20_000_000


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of the certificate without its digest and times, in one canonical form."""
    kept = {key: value for key, value in content.items() if key not in ("digest", "times")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

"""Seeds for every purpose of a repair, so that what judges a candidate is never what chose it.

All are derived from the user's seed by a hash. They key the counter-based generator, so streams of different purposes
have no word in common but by a coincidence of 63 random bits.
"""

from __future__ import annotations

import hashlib

SEARCH, REFINE, SPLIT, OPTIMIZER, PRICE, CERTIFICATE = "search", "refine", "split", "optimizer", "price", "certificate"


def derived_seed(seed: int, purpose: str, number: int = 0) -> int:
    """The seed of a purpose: the same for the same arguments, always and everywhere.

    >>> derived_seed(0, SEARCH) == derived_seed(0, SEARCH), derived_seed(0, SEARCH) == derived_seed(0, CERTIFICATE)
    (True, False)
    """
    text = f"fairchain repair 1, {purpose}, {number}, seed {seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1

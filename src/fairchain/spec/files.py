"""Which keys of a spec name files, as against what fairchain knows by its name."""

from __future__ import annotations


def files_of(part: object) -> dict[str, str]:
    """The keys of a part of a spec that name a file or a folder, and what they say.

    Lists and vectors that come with fairchain are named without a suffix.
    """
    found = {key: getattr(part, key, None) for key in ("path", "vocabulary", "wordnet")}
    found |= {key: name for key in ("terms", "vectors") if is_file(name := getattr(part, key, None))}
    return {key: name for key, name in found.items() if name is not None}


def is_file(name: object) -> bool:
    """Whether a list of terms or of vectors is a file, not one that fairchain knows by its name."""
    return isinstance(name, str) and bool(set(name) & set("./\\"))

"""What the cache keeps of a data set's files: most as they are, two in a form that is quicker to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def prepare(name: str, files: Sequence[Path], folder: Path) -> list[Path]:
    """The files to keep of a data set that came as `files`; those that have to be made are put into `folder`."""
    if name == "toxicity":
        from fairchain.datasets.comments import comments_file

        comments, votes = files
        comments_file(comments, votes, folder / "comments.csv")
        return [folder / "comments.csv"]
    if name == "glove":
        from fairchain.datasets.words import words_file

        vectors, words = files
        words_file(words, folder / "words.txt")
        return [vectors, folder / "words.txt"]
    return list(files)

"""Files that the cache keeps of a data set: most as they are, comments and words as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairchain.datasets.layout import PARQUET
from fairchain.errors import DataError


def prepare(name: str, files: Sequence[Path], folder: Path) -> list[Path]:
    """Return the files to keep of a data set that came as `files`; converted ones are written to `folder`."""
    if name == "toxicity":
        from fairchain.datasets.comments import comments_file

        comments, votes = files
        comments_file(comments, votes, folder / "comments.csv")
        return [folder / "comments.csv"]
    if name == "glove":
        vectors, words = files
        words_file(words, folder / "words.txt")
        return [vectors, folder / "words.txt"]
    return list(files)


def words_file(path: Path, target: Path) -> None:
    """Write the words of `path`, a Parquet file with one column of texts or already text, to `target`."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == PARQUET
    if not is_parquet:
        target.write_bytes(path.read_bytes())
        return
    try:
        import polars
    except ImportError:
        raise DataError(f"{path}: reading a Parquet file needs polars; pip install fairchain[parquet]") from None
    try:
        columns = list(polars.read_parquet(path).to_dict(as_series=False).values())
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        columns = []
    words = columns[0] if len(columns) == 1 else []
    if not words or not all(isinstance(word, str) for word in words):
        raise DataError(f"{path}: not one Parquet column of words; give a text file with a word on each line")
    target.write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")

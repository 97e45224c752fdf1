"""Files of a data set: the layout that a user's own file must have, and their conversion for the cache.

Only the layout is checked (columns, header, type), by the first rows: a user's own file may be newer, shorter or
cleaned, and then has another checksum. Most files are kept unchanged; words become plain text, and the two tables of
the toxicity data set, comments and single votes, one table: the text, the label of most raters, and its split.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fairchain.datasets.sources import ArchiveMember, DataSource
from fairchain.errors import DataError
from fairchain.messages import needs

PARQUET = b"PAR1"
_LOOKED_AT = 100
HEADER_LACKS = "its header lacks {missing}"
WRONG_SHAPE = "its shape is {shape} instead of (words, {columns})"
LINE_NOT_WORD = "line {number} is not a word"
NOT_IN_CACHE = "data set {name!r}: file not found: {path}"
COMMENTS_HEADER = ("comment", "toxic", "split")
TOXICITY_LABELS = ("fine", "toxic")
STAND_INS = ("NEWLINE_TOKEN", "TAB_TOKEN")
NOT_A_WORD_COLUMN = "{path}: not one Parquet column of words; give a text file with a word on each line"
COMMENT_NO_VOTES = "{comments}: comment {rev_id!r} has no votes"
LINE_TOO_SHORT = "{path}: line {number} has {cells_count} cells, fewer than the header"
NOT_COMMENTS = "{comments}, {votes}: cannot be read as comments and votes ({error})"


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, compressed or not (detected by its first bytes, because users rename files)."""
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    opener = gzip.open if zipped else open
    with opener(path, "rt", encoding="utf-8", newline="") as stream:
        yield stream


def split_rows(lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    """Yield rows of stripped cells; blank lines and lines that start with '|' (census remarks) are not rows."""
    kept = (line for line in lines if line.strip() and not line.startswith("|"))
    if separator is None:
        yield from (line.split() for line in kept)
        return
    # Comments of the toxicity table contain unbalanced quotes, so in tab-separated text a quote is an ordinary
    # character.
    if separator == "\t":
        reader = csv.reader(kept, delimiter=separator, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(kept, delimiter=separator, skipinitialspace=True)
    for row in reader:
        yield [cell.strip() for cell in row]


def separator_of(header: str) -> str:
    """Return the separator of a CSV header: the bank data circulate with commas and with semicolons."""
    return ";" if header.count(";") > header.count(",") else ","


def check_layout(source: DataSource, member: ArchiveMember, path: Path) -> None:
    """Raise a DataError if a file does not have the layout of a member of a data set."""
    if not path.is_file():
        raise DataError(NOT_IN_CACHE.format(name=source.name, path=path))
    try:
        problem = {"table": _table_problem, "npy": _npy_problem, "words": _words_problem}[member.layout](member, path)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        problem = f"it cannot be read ({error})"
    if problem:
        raise DataError(f"data set {source.name!r}: {path} does not look like {member.filename}: {problem}")


def _table_problem(member: ArchiveMember, path: Path) -> str | None:
    with open_text(path) as stream:
        head = list(itertools.islice(stream, _LOOKED_AT))
    if not head:
        return "it is empty"
    separator = separator_of(head[0]) if member.required and member.separator == "," else member.separator
    rows = list(split_rows(head, separator))
    missing = [name for name in member.required if not rows or name not in rows[0]]
    if missing:
        return HEADER_LACKS.format(missing=", ".join(missing))
    expected = member.columns or len(rows[0])
    body = rows[1:] if member.required else rows
    if not body:
        return "it has no rows"
    # At the end of the checked part, a quoted cell with a line break may be split.
    whole = body[:-1] if len(head) == _LOOKED_AT else body
    for number, row in enumerate(whole, 1):
        if len(row) != expected:
            return f"row {number} has {len(row)} columns instead of {expected}"
    return None


def _npy_problem(member: ArchiveMember, path: Path) -> str | None:
    import numpy as np

    try:
        shape = np.lib.format.open_memmap(path, mode="r").shape
    except Exception as error:  # a header is parsed as a Python literal, and an invalid one can raise any exception
        return f"it is not a .npy file of numbers ({type(error).__name__})"
    if len(shape) == 2 and shape[1] == member.columns:
        return None
    return WRONG_SHAPE.format(shape=shape, columns=member.columns)


def _words_problem(_: ArchiveMember, path: Path) -> str | None:
    with path.open("rb") as raw:
        if raw.read(4) == PARQUET:
            return None
    with path.open(encoding="utf-8", newline="\n") as stream:
        head = [line.rstrip("\n") for line in itertools.islice(stream, _LOOKED_AT)]
    if not head:
        return "it is empty"
    return next(
        (LINE_NOT_WORD.format(number=number) for number, word in enumerate(head, 1) if len(word.split()) != 1), None
    )


def prepare_files(name: str, files: Sequence[Path], folder: Path) -> list[Path]:
    """Return the files of a data set for the cache; converted ones are written to `folder`."""
    if name == "toxicity":
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
        raise DataError(f"{path}: {needs('a Parquet file', 'polars', 'fairchain[parquet]')}") from None
    try:
        columns = list(polars.read_parquet(path).to_dict(as_series=False).values())
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError):
        columns = []
    words = columns[0] if len(columns) == 1 else []
    if not words or not all(isinstance(word, str) for word in words):
        raise DataError(NOT_A_WORD_COLUMN.format(path=path))
    target.write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")


def comments_file(comments: Path, votes: Path, target: Path) -> None:
    """Write the table of comments: `toxic` if more than half of the raters voted so, otherwise `fine`."""
    # For each comment the number of votes, and the number of toxic ones.
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    try:
        for rev_id, vote in _cells(votes, "rev_id", "toxicity"):
            tally = counted[rev_id]
            tally[0] += 1
            tally[1] += float(vote) > 0
        with target.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COMMENTS_HEADER)
            for rev_id, comment, split in _cells(comments, "rev_id", "comment", "split"):
                if rev_id not in counted:
                    raise DataError(COMMENT_NO_VOTES.format(comments=comments, rev_id=rev_id))
                cast, against = counted[rev_id]
                writer.writerow((comment_on_one_line(comment), TOXICITY_LABELS[2 * against > cast], split))
    except ValueError as error:
        # The user's own file may have bytes that are not UTF-8, or a vote that is not a number.
        raise DataError(NOT_COMMENTS.format(comments=comments, votes=votes, error=error)) from None


def comment_on_one_line(comment: str) -> str:
    """Return a comment on one line.

    >>> comment_on_one_line("Hello!NEWLINE_TOKENNEWLINE_TOKEN  How are TAB_TOKENyou?")
    'Hello! How are you?'
    """
    for stand_in in STAND_INS:
        comment = comment.replace(stand_in, " ")
    return " ".join(comment.split())


def _cells(path: Path, *columns: str) -> Iterator[list[str]]:
    """Yield some columns of a tab-separated table, in which a quote is an ordinary character."""
    with open_text(path) as stream:
        places: list[int] = []
        for number, line in enumerate(stream):
            cells = line.rstrip("\r\n").split("\t")
            if not places:
                places = [cells.index(column) for column in columns]
            elif len(cells) > max(places):
                yield [cells[place] for place in places]
            else:
                raise DataError(LINE_TOO_SHORT.format(path=path, number=number + 1, cells_count=len(cells)))

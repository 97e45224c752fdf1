"""Files of a data set in the cache: most are unchanged, comments and words are converted to plain text.

The original of the toxicity data set is two tables, comments and single votes, with placeholders for line breaks and
tabs in the text. It is stored as one table: the text, the label of most raters, and its split.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairchain.datasets.layout import PARQUET, open_text
from fairchain.errors import DataError
from fairchain.messages import needs

COMMENTS_HEADER = ("comment", "toxic", "split")
TOXICITY_LABELS = ("fine", "toxic")
STAND_INS = ("NEWLINE_TOKEN", "TAB_TOKEN")
NOT_A_WORD_COLUMN = "{path}: not one Parquet column of words; give a text file with a word on each line"
COMMENT_NO_VOTES = "{comments}: comment {rev_id!r} has no votes"
LINE_TOO_SHORT = "{path}: line {number} has {cells_count} cells, fewer than the header"
NOT_COMMENTS = "{comments}, {votes}: cannot be read as comments and votes ({error})"


def prepare_files(name: str, files: Sequence[Path], folder: Path) -> list[Path]:
    """Return the files of a data set for the cache, from the downloaded `files`; converted ones are written to
    `folder`.
    """
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

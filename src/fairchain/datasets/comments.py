"""The comments of the toxicity data set as one table: the text, what most raters said of it, and its split.

The original is two tables, comments and single votes, with stand-ins for line breaks and tabs in the text.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fairchain.datasets.layout import open_text
from fairchain.errors import DataError

COMMENTS_HEADER = ("comment", "toxic", "split")
LABELS = ("fine", "toxic")
STAND_INS = ("NEWLINE_TOKEN", "TAB_TOKEN")


def comments_file(comments: Path, votes: Path, target: Path) -> None:
    """Write the table: `toxic` where more than half of the raters said so, otherwise `fine`."""
    try:
        _write(comments, _counted(votes), target)
    except ValueError as error:
        # A file of one's own: bytes that are no UTF-8, a vote that is no number.
        raise DataError(f"{comments}, {votes}: cannot be read as comments and votes ({error})") from None


def _counted(votes: Path) -> dict[str, list[int]]:
    """For each comment how many votes were cast, and how many of them said toxic."""
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for rev_id, vote in _cells(votes, "rev_id", "toxicity"):
        tally = counted[rev_id]
        tally[0] += 1
        tally[1] += float(vote) > 0
    return counted


def _write(comments: Path, counted: dict[str, list[int]], target: Path) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COMMENTS_HEADER)
        for rev_id, comment, split in _cells(comments, "rev_id", "comment", "split"):
            if rev_id not in counted:
                raise DataError(f"{comments}: comment {rev_id!r} has no votes")
            cast, against = counted[rev_id]
            writer.writerow((plain(comment), LABELS[2 * against > cast], split))


def plain(comment: str) -> str:
    """A comment on one line.

    >>> plain("Hello!NEWLINE_TOKENNEWLINE_TOKEN  How are TAB_TOKENyou?")
    'Hello! How are you?'
    """
    for stand_in in STAND_INS:
        comment = comment.replace(stand_in, " ")
    return " ".join(comment.split())


def _cells(path: Path, *columns: str) -> Iterator[list[str]]:
    """Some columns of a tab-separated table, in which a quote is just a character."""
    with open_text(path) as stream:
        places: list[int] = []
        for number, line in enumerate(stream):
            cells = line.rstrip("\r\n").split("\t")
            if not places:
                places = [cells.index(column) for column in columns]
            elif len(cells) > max(places):
                yield [cells[place] for place in places]
            else:
                raise DataError(f"{path}: line {number + 1} has {len(cells)} cells, fewer than the header")

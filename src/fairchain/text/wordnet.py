"""Reader for the database files of WordNet 3.0, as Debian's package wordnet-base installs them in /usr/share/wordnet.

`index.noun` and its like list, for each word, its synsets with the most used meaning first; `data.noun` lists the words
of each synset. Words of several parts are left out, since a text is cut into single ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairchain.errors import DataError
from fairchain.text.lines import limited_lines

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
MOST_BYTES = 200_000_000
LONGEST_LINE = 100_000


def read_wordnet(folder: str | Path) -> dict[str, list[str]]:
    """Return for each word the others of its synsets, those of its most used meanings first.

    Raises
    ------
    DataError
        If the folder does not hold the files, or they are not laid out as WordNet's.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; name the one that holds index.noun and data.noun")
    found: dict[str, list[str]] = {}
    for part in PARTS_OF_SPEECH:
        synsets = dict(_synsets(folder / f"data.{part}"))
        for word, places in _index(folder / f"index.{part}"):
            others = found.setdefault(word, [])
            for place in places:
                others += [other for other in synsets.get(place, ()) if other != word and other not in others]
    return found


def _synsets(path: Path) -> Iterator[tuple[bytes, list[str]]]:
    """The place of each synset in its file, and its words: `00001740 03 n 01 entity 0 ...`."""
    for number, fields in _lines(path):
        try:
            count = int(fields[3], 16)
            words = [fields[4 + 2 * place].decode("ascii") for place in range(count)]
        except (IndexError, ValueError):
            raise _damaged(path, number) from None
        # An adjective may say where it stands: galore(ip).
        yield fields[0], [word for word in (word.partition("(")[0].lower() for word in words) if word.isalpha()]


def _index(path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Each word and the places of its synsets: `dog n 7 5 @ ~ #m #p %p 7 1 02084071 ...`."""
    for number, fields in _lines(path):
        try:
            word, synsets, pointers = fields[0].decode("ascii"), int(fields[2]), int(fields[3])
            places = fields[6 + pointers : 6 + pointers + synsets]
        except (IndexError, ValueError):
            raise _damaged(path, number) from None
        if len(places) != synsets:
            raise _damaged(path, number)
        if word.isalpha():
            yield word, places


def _lines(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The fields of each line; the licence in front is indented."""
    for number, line in enumerate(limited_lines(path, LONGEST_LINE, MOST_BYTES, len), 1):
        if line and not line.startswith(b" "):
            yield number, line.split()


def _damaged(path: Path, number: int) -> DataError:
    return DataError(f"{path}, line {number:,}: not laid out as WordNet 3.0 is; install wordnet-base, or get it again")

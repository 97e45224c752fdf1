"""Promise: whatever the bytes of a file are, reading it ends in a table or in a DataError about that file."""

from __future__ import annotations

import contextlib
import random
import sys
from pathlib import Path

import polars as pl
import pytest

from fairchain.errors import DataError
from fairchain.tables import TableLimits, encode_rows, read_table
from fairchain.tables.parquet import DAMAGED_OR_TOO_LARGE
from tests.messages import says
from tests.questions import category
from tests.tables.builders import AGE, table_spec, write_csv

COLUMNS = {"age": [39, 50, 38] * 20, "sex": ["Male", "Female", 'Fe"m,ale'] * 20}
SPEC = table_spec(AGE, category("sex", "Female", "Male"))


def made(path: Path) -> bytes:
    if path.suffix == ".parquet":
        pl.DataFrame(COLUMNS).write_parquet(path)
    else:
        write_csv(path, COLUMNS, "\t" if ".tsv" in path.name else ",")
    return path.read_bytes()


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_noise_is_refused_or_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    dice = random.Random(name)
    for _ in range(50):
        letters = bytes(dice.choices(b'a1,;"\n\r\t .', k=60))
        path.write_bytes(dice.choice((letters, dice.randbytes(dice.randrange(200)))))
        with contextlib.suppress(DataError):
            encode_rows(read_table(path), SPEC)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_parquet_file_that_ends_the_process_that_unpacks_it_is_refused(tmp_path: Path) -> None:
    """A damaged file can make polars abort; so does too little memory."""
    made(tmp_path / "people.parquet")
    with pytest.raises(DataError, match=says(DAMAGED_OR_TOO_LARGE)):
        read_table(tmp_path / "people.parquet", TableLimits(memory_bytes=10**8))

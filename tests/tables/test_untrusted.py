"""Promise: whatever the bytes of a file are, reading it ends in a table or in a DataError about that file."""

from __future__ import annotations

import contextlib
import random
import sys
from pathlib import Path

import polars as pl
import pytest

from fairchain.errors import DataError
from fairchain.tables import Limits, people_of, read_table
from tests.questions import category
from tests.tables.builders import AGE, table_spec, write_csv
from tests.test_fuzz import damaged

COLUMNS = {"age": [39, 50, 38] * 20, "sex": ["Male", "Female", 'Fe"m,ale'] * 20}
SPEC = table_spec(AGE, category("sex", "Female", "Male"))
ROUNDS = {"people.csv": 300, "people.tsv": 100, "people.csv.gz": 100, "people.parquet": 2}


def made(path: Path) -> bytes:
    if path.suffix == ".parquet":
        pl.DataFrame(COLUMNS).write_parquet(path)
    else:
        write_csv(path, COLUMNS, "\t" if ".tsv" in path.name else ",")
    return path.read_bytes()


@pytest.mark.parametrize("name", ROUNDS)
def test_a_damaged_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    whole = made(path)
    read, refused = 0, []
    for seed in range(ROUNDS[name]):
        dice = random.Random(f"{name} {seed}")
        path.write_bytes(damaged(whole, whole, dice, dice.randbytes))
        try:
            table = read_table(path, Limits(cells=10**6))
            read += 1
            for column in table.names:
                table.counts(column)
                table.numeric(column)
            people_of(table, SPEC)
        except DataError as error:
            refused.append(str(error))
        except Exception as error:
            raise AssertionError(f"{name} {seed}: {error!r} instead of a DataError") from error
    assert read or name.endswith(".parquet")
    assert all(message.startswith(f"{path}: ") for message in refused)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_noise_is_refused_or_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    dice = random.Random(name)
    for _ in range(50):
        letters = bytes(dice.choices(b'a1,;"\n\r\t .', k=60))
        path.write_bytes(dice.choice((letters, dice.randbytes(dice.randrange(200)))))
        with contextlib.suppress(DataError):
            people_of(read_table(path), SPEC)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_parquet_file_that_ends_the_process_that_unpacks_it_is_refused(tmp_path: Path) -> None:
    """A damaged file can make polars abort; so does too little memory."""
    made(tmp_path / "people.parquet")
    with pytest.raises(DataError, match=r"damaged, or too large for the memory allowed; .* Limits.memory_bytes"):
        read_table(tmp_path / "people.parquet", Limits(memory_bytes=10**8))

"""Tables beyond memory: the distinct rows of Parquet files, and how often each occurs.

A folder of Parquet files is one table, and so is a large file with recorded decisions. Polars reads them piece by piece
and groups equal rows, in the same guarded process as every Parquet file. The result is a table of the distinct rows, so
the memory depends on their number, not on that of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairchain.errors import DataError
from fairchain.messages import shown, unknown
from fairchain.spec import Spec, Table
from fairchain.tables.columns import NumberCells, TableLimits
from fairchain.tables.parquet import Header, column_header, damage_refused, in_child
from fairchain.tables.read import RawTable, table_of

# The size above which a file with recorded decisions is grouped.
LARGE_BYTES = 20_000_000
# Largest number of files in a folder.
MOST_FILES = 10_000
# The column with the number of equal rows; no table has a column of this name.
REPEATS = "\0repeats"
TYPES_DIFFER = "{file}: column {name} has another type than in {first}"
NO_PARQUET = "{path}: this folder contains no .parquet file; give a folder of Parquet files, or one file"


def is_grouped(source: Any, spec: Spec) -> bool:
    """Return whether a source is read as distinct rows: a folder, or a large file with recorded decisions."""
    if not isinstance(source, str | Path) or not isinstance(spec.population, Table):
        return False
    path = Path(source)
    if path.is_dir():
        return True
    large = path.suffix.lower() == ".parquet" and path.is_file() and path.stat().st_size >= LARGE_BYTES
    return large and spec.population.prediction is not None


def read_grouped(source: str | Path, spec: Spec) -> RawTable:
    """Return the distinct rows of Parquet files in the columns that a spec uses, each with its number of copies."""
    limits, path = TableLimits(), Path(source)
    files = sorted(each for each in path.iterdir() if each.suffix.lower() == ".parquet") if path.is_dir() else [path]
    if not files:
        raise DataError(NO_PARQUET.format(path=path))
    if len(files) > MOST_FILES:
        raise DataError(f"{path}: {len(files):,} files are more than {MOST_FILES:,}; join some of them")
    for each in files:
        if not each.is_file() or each.is_symlink():
            raise DataError(f"{each}: not a plain file; give Parquet files")
    population = spec.population
    assert isinstance(population, Table)
    used = [feature.column or feature.name for feature in spec.features]
    used += [name for name in (population.label, population.prediction) if name is not None]
    arguments = [*dict.fromkeys(used), "", *map(str, files)]
    count, found = in_child("fairchain.tables.grouped", path, limits, arguments)
    repeats = found.pop(REPEATS)
    assert isinstance(repeats, NumberCells)
    table = table_of(str(path), list(found), count, list(found.values()).__getitem__, limits)
    return replace(table, source=f"{path} (its distinct rows)", repeats=repeats.values)


def answer(path: Path, limits: TableLimits, arguments: Sequence[str]) -> Iterator[tuple[Header, list[bytes]]]:
    """Yield the header of the distinct rows, then each column with its bytes; runs in the child process."""
    import polars

    columns, files = list(arguments[: arguments.index("")]), list(arguments[arguments.index("") + 1 :])
    schemas = []
    for file in files:
        # Opened here, because polars could interpret a path as a pattern or an address.
        with damage_refused(file), Path(file).open("rb") as opened:
            schemas.append(polars.read_parquet_schema(opened))
        limits.check_columns(file, len(schemas[-1]))
    stripped = {name.strip(): name for name in schemas[0]}
    for name in columns:
        if name not in stripped:
            raise DataError(f"{path}: {unknown('column', name, list(stripped))}")
        for file, schema in zip(files, schemas, strict=True):
            if schema.get(stripped[name]) != schemas[0][stripped[name]]:
                raise DataError(TYPES_DIFFER.format(file=file, name=shown(name), first=files[0]))
        if schemas[0][stripped[name]].is_nested():
            raise DataError(f"{path}: column {shown(name)}: a cell is a list or a structure; give plain cells")
    chosen = [polars.col(stripped[name]).alias(name) for name in columns]

    def grouped(some: Sequence[str]) -> Any:
        """Return the distinct rows of files with their numbers of copies, read piece by piece."""
        scanned = polars.scan_parquet([str(Path(file).resolve()) for file in some], glob=False, hive_partitioning=False)
        rows = scanned.select(chosen).group_by(columns).agg(polars.len().cast(polars.Int64).alias(REPEATS))
        return rows.collect(engine="streaming")

    try:
        with damage_refused(path):
            # The order of groups is not defined, and the hash of the rows depends on it.
            frame = grouped(files).sort(columns, nulls_last=True)
    except DataError:
        # Find the damaged file: the message names the file to save again.
        for file in files:
            with damage_refused(file):
                grouped([file])
        raise
    limits.check_cells(str(path), frame.height * frame.width)
    limits.check_bytes(str(path), int(frame.estimated_size()))
    yield {"count": frame.height, "columns": frame.width}, []
    with damage_refused(path):
        for name, dtype in frame.schema.items():
            yield column_header(path, name, dtype, frame, limits)

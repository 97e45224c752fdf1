"""Specs about tables, and tables in every form that can be read."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairchain.spec import Spec, parse_spec
from fairchain.tables import TableRows, encode_rows, read_table
from tests.questions import category, integer, question

Columns = Mapping[str, Sequence[Any]]


def table_spec(*features: dict[str, Any], model: dict[str, Any] | None = None, **population: Any) -> Spec:
    """A spec about the rows of a table; the last feature is protected."""
    asked = question(*features, **(model or {}))
    return parse_spec({**asked, "population": {"kind": "table", "as": "population", **population}})


def people(columns: Columns, *features: dict[str, Any], **population: Any) -> TableRows:
    """These features, and one to protect that is always there, found in a mapping of columns."""
    count = len(next(iter(columns.values())))
    columns = {"sex": ["Female", "Male"] * (count // 2) + ["Male"] * (count % 2), **columns}
    spec = table_spec(*features, category("sex", "Female", "Male"), **population)
    return encode_rows(read_table(columns), spec)


def write_csv(path: Path, columns: Columns, separator: str = ",") -> Path:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True))
    return path


AGE = integer("age", 17, 90)

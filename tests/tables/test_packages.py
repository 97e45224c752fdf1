"""Promise: no package but the core's is loaded unless a file needs it, and a frame needs only its own."""

from __future__ import annotations

from pathlib import Path

from tests.child import run_child
from tests.tables.builders import write_csv

SPEC = """
from fairchain.spec import parse_spec
from fairchain.tables import encode_rows, read_table
features = [{"name": "sex", "kind": "category", "values": ["Female", "Male"]}]
SPEC = parse_spec({
    "model": {"path": "m.onnx", "labels": ["no", "yes"]}, "feature": features,
    "population": {"kind": "table", "as": "population"},
    "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1},
})
"""
BLOCK = "import sys; sys.modules['{}'] = None\n"


def test_the_room_and_a_csv_file_load_neither_pandas_nor_polars(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", {"sex": ["Male", "Female"]})
    code = f"{SPEC}import sys\nassert encode_rows(read_table(sys.argv[1]), SPEC).values.tolist() == [[1], [0]]\n"
    print_loaded = "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    assert run_child(code + print_loaded, path) == "[]\n"


def test_a_mapping_and_a_pandas_frame_need_no_polars() -> None:
    code = f"""{BLOCK.format("polars")}{SPEC}
import pandas
for source in ({{"sex": ["Male"]}}, pandas.DataFrame({{"sex": ["Male"]}})):
    assert encode_rows(read_table(source), SPEC).values.tolist() == [[1]]
print("read")
"""
    assert run_child(code) == "read\n"


def test_a_polars_frame_needs_no_pandas() -> None:
    code = f"""{BLOCK.format("pandas")}{SPEC}
import polars
print(encode_rows(read_table(polars.DataFrame({{"sex": ["Male"]}})), SPEC).values.tolist())
"""
    assert run_child(code) == "[[1.0]]\n"


def test_a_parquet_file_without_polars_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    path.write_bytes(b"PAR1")
    code = f"""{BLOCK.format("polars")}{SPEC}
from fairchain.errors import DataError
try:
    read_table(sys.argv[1])
except DataError as error:
    print(error)
"""
    remedy = "install it: pip install 'fairchain[parquet]', or save the table as .csv"
    expected = f"a Parquet file needs the package polars; {remedy}"
    assert run_child(code, path) == f"{path}: {expected}\n"

"""Folders of Parquet files, and large ones, are counted as distinct rows: the same rates as row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import CertificateError, DataError, Verdict, explain, parse_spec, verify
from fairchain.messages import unknown
from fairchain.prepare import GROUPED_ROWS, prepare
from fairchain.statements import NO_GROUPED_CERTIFICATE
from fairchain.system.untrusted_files import NOT_PLAIN_FILE
from fairchain.tables import grouped
from fairchain.tables.grouped import NO_PARQUET, TYPES_DIFFER
from fairchain.tables.parquet import DAMAGED_PARQUET
from tests.messages import says
from tests.networks import linear
from tests.questions import category, changed, integer, question

polars = pytest.importorskip("polars")
ROWS = 5000


def table(seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "age": random.integers(0, 10, rows),
        "sex": random.choice(np.array(["Female", "Male"]), rows),
        "hired": random.choice(np.array(["no", "yes"]), rows, p=[0.7, 0.3]),
        "unused": random.normal(size=rows),
    }


def recorded(**changes: Any) -> dict[str, Any]:
    asked = question(integer("age"), category("sex", "Female", "Male"))
    asked["population"] = {"kind": "table", "as": "population", "prediction": "hired"}
    for key, value in changes.items():
        asked = changed(asked, key.replace("__", "."), value)
    return asked


def folder_of(cells: dict[str, Any], path: Path, parts: int = 3) -> Path:
    path.mkdir()
    frame = polars.DataFrame(cells)
    for part in range(parts):
        frame[part::parts].write_parquet(path / f"part-{part}.parquet")
    return path


def rates(verdict: Verdict) -> Any:
    return verdict.decision, verdict.groups, verdict.gap, verdict.evidence.trials, verdict.evidence.rows  # type: ignore[union-attr]


@pytest.mark.parametrize("change", [{}, {"property__given": "age > 3"}, {"property__min_size": 0.3}])
def test_a_folder_has_the_rates_of_its_rows(change: dict[str, Any], tmp_path: Path) -> None:
    cells, spec = table(), parse_spec(recorded(**change))
    found = verify(None, spec, data=folder_of(cells, tmp_path / "parts"))
    assert rates(found) == rates(verify(None, spec, data=cells))
    assert len(prepare(None, spec, data=tmp_path / "parts").rows.values) == 40  # type: ignore[union-attr]
    assert f"the {ROWS:,} rows of parts" in found.population


def test_a_model_is_asked_once_for_each_distinct_row(tmp_path: Path) -> None:
    asked = recorded(population__prediction=...)
    network = linear([[1, 0], [0.5, 3]], [0, 2]).SerializeToString()
    cells = table()
    found = verify(network, parse_spec(asked), data=folder_of(cells, tmp_path / "parts"))
    assert rates(found) == rates(verify(network, parse_spec(asked), data=cells))
    assert found.evaluations == 20


def test_the_order_and_the_files_do_not_matter(tmp_path: Path) -> None:
    cells, spec = table(), parse_spec(recorded())
    turned = {name: column[::-1] for name, column in cells.items()}
    hashes = {
        verify(None, spec, data=folder_of(some, tmp_path / str(parts), parts)).table_sha256
        for parts, some in ((1, cells), (4, cells), (2, turned))
    }
    assert len(hashes) == 1
    assert verify(None, spec, data=folder_of(table(1), tmp_path / "other")).table_sha256 not in hashes


def test_a_large_file_with_recorded_decisions_is_grouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars.DataFrame(table()).write_parquet(tmp_path / "rows.parquet")
    spec = parse_spec(recorded())
    whole = verify(None, spec, data=tmp_path / "rows.parquet")
    monkeypatch.setattr(grouped, "LARGE_BYTES", 0)
    found = verify(None, spec, data=tmp_path / "rows.parquet")
    assert rates(found) == rates(whole)
    assert (whole.certifiable, found.certifiable) == (True, False)


def test_rows_that_lack_a_value_are_dropped_with_their_copies(tmp_path: Path) -> None:
    cells = table()
    cells["hired"] = [None if place % 10 == 0 else each for place, each in enumerate(cells["hired"])]
    spec = parse_spec(recorded(population__drop_missing=True))
    found = verify(None, spec, data=folder_of(cells, tmp_path / "parts"))
    assert rates(found) == rates(verify(None, spec, data=polars.DataFrame(cells)))
    assert "500 were left out" in found.population


def test_what_distinct_rows_do_not_answer_is_refused(tmp_path: Path) -> None:
    folder = folder_of(table(), tmp_path / "parts")
    network = linear([[1, 0], [0.5, 3]], [0, 2]).SerializeToString()
    model = recorded(population__prediction=...)
    with pytest.raises(DataError, match=says(GROUPED_ROWS)):
        verify(network, parse_spec(changed(model, "property.kind", "individual")), data=folder)
    with pytest.raises(DataError, match=says(GROUPED_ROWS)):
        verify(network, parse_spec(changed(model, "guarantee.budget.evaluations", 7)), data=folder)
    with pytest.raises(DataError, match=says(GROUPED_ROWS)):
        explain(network, parse_spec(model), data=folder)
    with pytest.raises(CertificateError, match=says(NO_GROUPED_CERTIFICATE)):
        verify(None, parse_spec(recorded()), data=folder, certify=True)


def test_damaged_and_odd_folders_are_one_message(tmp_path: Path) -> None:
    spec = parse_spec(recorded())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=says(NO_PARQUET)):
        verify(None, spec, data=tmp_path / "empty")
    folder = folder_of(table(), tmp_path / "parts")
    (folder / "more.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=says(DAMAGED_PARQUET, path=str(folder / "more.parquet"))):
        verify(None, spec, data=folder)
    # The rows are damaged and the description of the file is not: the message names the file, too.
    content = bytearray((folder / "part-1.parquet").read_bytes())
    content[4:200] = b"\xff" * 196
    (folder / "more.parquet").write_bytes(content)
    with pytest.raises(DataError, match=says(DAMAGED_PARQUET, path=str(folder / "more.parquet"))):
        verify(None, spec, data=folder)
    polars.DataFrame({**table(), "sex": np.zeros(ROWS)}).write_parquet(folder / "more.parquet")
    with pytest.raises(DataError, match=says(TYPES_DIFFER, name='"sex"')):
        verify(None, spec, data=folder)
    (folder / "more.parquet").unlink()
    (folder / "more.parquet").symlink_to(folder / "part-0.parquet")
    with pytest.raises(DataError, match=says(NOT_PLAIN_FILE)):
        verify(None, spec, data=folder)
    (folder / "more.parquet").unlink()
    with pytest.raises(DataError, match=says(unknown("column", "age", ["sex", "hired"]))):
        verify(None, spec, data=folder_of({"sex": ["Female"], "hired": ["no"]}, tmp_path / "less", 1))
